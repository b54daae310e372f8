# zsh 5.8 and later. `sess init zsh` sets __sess_snapshots before this.
# No step of a prompt starts a process or opens a socket. What a snapshot says is shown and compared, never run.

# Sets SESS_PROMPT, SESS_COUNT and SESS_WAITING from the snapshot of the current folder; on entering it, lists its
# sessions. zsh keeps $? and pipestatus from one hook to the next.
__sess_prompt() {
  emulate -L zsh
  setopt no_multibyte no_err_exit no_err_return no_xtrace # bytes, whatever the locale
  local -i lines=0
  if [[ $PWD != $__sess_pwd ]]; then
    __sess_pwd=$PWD
    # Without symbolic links, as agents record it.
    typeset -g __sess_path=${PWD:A}
    local name=${__sess_path//[^A-Za-z0-9]/-}
    (( $#name > 200 )) && name=${name[-200,-1]}
    typeset -g __sess_file=$__sess_snapshots/$name
    # powerlevel10k takes what is printed during its instant prompt for a mistake.
    (( ${+__p9k_instant_prompt_active} )) || lines=${SESS_LINES:-1}
  fi
  typeset -g SESS_PROMPT='' SESS_COUNT=0 SESS_WAITING=0
  [[ -r $__sess_file ]] || return 0
  local -a records
  records=("${(@0)$(<$__sess_file)}") 2>/dev/null # no process: zsh reads the file itself
  [[ $records[1] == 'sess 1' ]] || return 0
  local -i at=${records[(ie)$__sess_path]}
  (( at < $#records )) || return 0
  local -a fields
  fields=("${(@ps:\x1f:)records[at+1]}")
  SESS_COUNT=$fields[1] SESS_WAITING=$fields[2] SESS_PROMPT=$fields[3]
  (( lines )) && __sess_show "${(@)records[at+2,at+1+lines]}"
  return 0
}

# Prints the sessions that the records $@ are about.
__sess_show() {
  setopt multibyte
  local bold dim normal record age lead="$SESS_COUNT sessions here · "
  local -a fields
  [[ $SESS_COUNT == 1 ]] && lead='1 session here · '
  if [[ -t 1 && -z $NO_COLOR && ${TERM:-dumb} != dumb ]]; then
    bold=$'\e[1;33m' dim=$'\e[2m' normal=$'\e[0m'
  fi
  zmodload -F zsh/datetime p:EPOCHSECONDS
  for record; do
    [[ -n $record && $record != /* ]] || break
    fields=("${(@ps:\x1f:)record}")
    local -i minutes=$(( (EPOCHSECONDS - fields[3]) / 60 ))
    if (( minutes < 1 )); then age='just now'
    elif (( minutes < 60 )); then age="$minutes min ago"
    elif (( minutes < 1440 )); then age="$(( minutes / 60 )) h ago"
    elif (( minutes < 43200 )); then age="$(( minutes / 1440 )) d ago"
    elif (( minutes < 525600 )); then age="$(( minutes / 43200 )) mo ago"
    else age="$(( minutes / 525600 )) y ago"
    fi
    local line="${fields[6]:+$fields[6] · }$age · $fields[8]"
    local waiting=
    [[ $fields[5] == waiting ]] && waiting="${bold}waiting$normal · "
    print -r -- "$dim$lead$normal$waiting$dim${line[1,(COLUMNS > 20 ? COLUMNS : 80) - $#lead]}$normal"
    lead='  '
  done
}

# Runs the command that resumes what was picked; the line stays when nothing was.
__sess_pick() {
  emulate -L zsh
  local id=$(command sess pick --print-id </dev/tty)
  zle reset-prompt
  [[ -n $id ]] || return 0
  zle push-input
  BUFFER="sess resume $id"
  zle accept-line
}

typeset -g SESS_PROMPT='' SESS_COUNT=0 SESS_WAITING=0 __sess_pwd='' __sess_path='' __sess_file=''
typeset -ga precmd_functions
# First, as a theme may make its prompt in a later one.
precmd_functions=(__sess_prompt ${precmd_functions[@]:#__sess_prompt})
if [[ -o zle && -n ${SESS_KEY='^[s'} ]]; then
  zle -N __sess_pick
  bindkey -M emacs $SESS_KEY __sess_pick
  bindkey -M viins $SESS_KEY __sess_pick
  bindkey -M vicmd $SESS_KEY __sess_pick
fi
