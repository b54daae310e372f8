# zsh 5.8 and later. `sess init zsh` sets __sess_snapshots before this.
# No step of a prompt starts a process or opens a socket. What a snapshot says is shown and compared, never run.
# Numbers are checked before they are calculated with: arithmetic runs what is in `a[$(command)]`.

# Tells whether $1, as bytes, has what no daemon writes: controls (C1 in UTF-8 among them), or what turns or breaks a line.
__sess_steers() {
  [[ $1 == *[$'\x01'-$'\x1f\x7f']* || $1 == *$'\xc2'[$'\x80'-$'\x9f']* || $1 == *$'\xd8\x9c'* ||
    $1 == *$'\xe2\x80'[$'\x8e\x8f\xa8'-$'\xae']* || $1 == *$'\xe2\x81'[$'\xa6'-$'\xa9']* ]]
}

# Sets SESS_PROMPT, SESS_COUNT and SESS_WAITING from the snapshot of the current folder; on entering it, lists its
# sessions. zsh keeps $? and pipestatus from one hook to the next.
__sess_prompt() {
  emulate -L zsh
  setopt no_multibyte no_err_exit no_err_return no_xtrace # bytes, whatever the locale
  local lines=0
  if [[ $PWD != $__sess_pwd ]]; then
    __sess_pwd=$PWD
    # Without symbolic links, as agents record it.
    typeset -g __sess_path=${PWD:A}
    local name=${__sess_path//[^A-Za-z0-9]/-}
    (( $#name > 200 )) && name=${name[-200,-1]}
    typeset -g __sess_file=$__sess_snapshots/$name
    # powerlevel10k takes what is printed during its instant prompt for a mistake.
    (( ${+__p9k_instant_prompt_active} )) || lines=${SESS_LINES-1}
    [[ $lines == <0-99> ]] || lines=1
  fi
  typeset -g SESS_PROMPT='' SESS_COUNT=0 SESS_WAITING=0
  [[ -f $__sess_file && -r $__sess_file ]] || return 0
  local -a records
  records=("${(@0)$(<$__sess_file)}") 2>/dev/null # no process: zsh reads the file itself
  [[ $records[1] == 'sess 1' ]] || return 0
  local -i at=${records[(ie)$__sess_path]}
  (( at < $#records )) || return 0
  local -a fields
  fields=("${(@ps:\x1f:)records[at+1]}")
  [[ $fields[1] == <0-999999>(|+) && $fields[2] == <0-999999> && $#fields == 3 ]] || return 0
  # Nor does any daemon write here what a prompt would expand.
  [[ $fields[3] == *[$'$`\\%!']* ]] && return 0
  __sess_steers "$fields[3]" && return 0
  SESS_COUNT=$fields[1] SESS_WAITING=$fields[2] SESS_PROMPT=$fields[3]
  (( lines )) && __sess_show "${(@)records[at+2,at+1+lines]}"
  return 0
}

# Prints the sessions that the records $@ are about.
__sess_show() {
  local bold dim normal record age waiting line fitting lead="$SESS_COUNT sessions here · "
  local -a fields
  local -i minutes columns=80 now=${(%):-%D{%s}}
  [[ $SESS_COUNT == 1 ]] && lead='1 session here · '
  [[ $COLUMNS == <21-9999> ]] && columns=$COLUMNS
  (( columns < 40 )) && lead=
  if [[ -t 1 && -z $NO_COLOR && ${TERM:-dumb} != dumb ]]; then
    bold=$'\e[1;33m' dim=$'\e[2m' normal=$'\e[0m'
  fi
  for record; do
    [[ -n $record && $record != /* ]] || break
    fields=("${(@ps:\x1f:)record}")
    [[ $fields[3] == <0-999999999999> && $#fields == 8 ]] || break
    __sess_steers "$fields" && break
    minutes=$(( (now - fields[3]) / 60 ))
    if (( minutes < 1 )); then age='just now'
    elif (( minutes < 60 )); then age="$minutes min ago"
    elif (( minutes < 1440 )); then age="$(( minutes / 60 )) h ago"
    elif (( minutes < 43200 )); then age="$(( minutes / 1440 )) d ago"
    elif (( minutes < 525600 )); then age="$(( minutes / 43200 )) mo ago"
    else age="$(( minutes / 525600 )) y ago"
    fi
    line="${fields[6]:+$fields[6] · }$age · $fields[8]"
    waiting=
    [[ $fields[5] == waiting ]] && waiting='waiting · '
    __sess_fit $line $(( columns - $#lead - $#waiting ))
    print -r -- "$dim$lead$normal$bold$waiting$normal$dim$fitting$normal"
    lead='  '
  done
}

# Sets fitting to what of $1 fits into $2 columns. Widths depend on the locale, which may be any: two columns are left
# for every character that may need them, those from U+1100, but for the punctuation and arrows at U+2000 to U+22FF.
__sess_fit() {
  local -i at end=0 used=0 width
  fitting=$1
  (( $#1 > $2 )) || return 0
  for (( at = 1; at <= $#1; at++ )); do
    case ${1[at,at+1]} in
      [$'\x80'-$'\xbf']*) continue ;; # inside a character
      $'\xe2'[$'\x80'-$'\x8b']*) width=1 ;;
      [$'\xe1'-$'\xff']*) width=2 ;;
      *) width=1 ;;
    esac
    (( used < $2 )) && end=at-1
    (( used += width ))
    if (( used > $2 )); then
      fitting="${1[1,end]}…"
      return 0
    fi
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

typeset -g SESS_PROMPT='' SESS_COUNT=0 SESS_WAITING=0
# Loaded again, it has not entered the folder again.
typeset -g __sess_pwd=${__sess_pwd-} __sess_path=${__sess_path-} __sess_file=${__sess_file-}
typeset -ga precmd_functions
# First, as a theme may make its prompt in a later one.
precmd_functions=(__sess_prompt ${precmd_functions[@]:#__sess_prompt})
if [[ -o zle && -n ${SESS_KEY='^[s'} ]]; then
  zle -N __sess_pick
  bindkey -M emacs $SESS_KEY __sess_pick
  bindkey -M viins $SESS_KEY __sess_pick
  bindkey -M vicmd $SESS_KEY __sess_pick
fi
