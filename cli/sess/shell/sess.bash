# shellcheck shell=bash
# bash 3.2 to 5.3. `sess init bash` sets __sess_snapshots before this.
# No step of a prompt starts a process or opens a socket. What a snapshot says is shown and compared, never run.

# Sets __sess_path to the current folder without symbolic links, as agents record it, and __sess_file to its snapshot.
__sess_locate() {
  local OLDPWD=${OLDPWD-} LC_ALL=C # bytes, whatever the locale
  local given=$PWD path=$PWD
  __sess_path=$PWD
  while [[ -n $path && ! -L $path ]]; do path=${path%/*}; done
  if [[ -n $path ]]; then
    # Nothing but `cd` resolves a link without a process.
    if builtin cd -P . 2>/dev/null; then __sess_path=$PWD; fi
    builtin cd -L "$given" 2>/dev/null || :
  fi
  path=${__sess_path//[^A-Za-z0-9]/-}
  if ((${#path} > 200)); then path=${path:${#path}-200}; fi
  __sess_file=$__sess_snapshots/$path
}

# Sets SESS_PROMPT, SESS_COUNT and SESS_WAITING from the snapshot, and __sess_rows to so many of its sessions.
__sess_read() {
  local LC_ALL=C record
  SESS_PROMPT='' SESS_COUNT=0 SESS_WAITING=0
  __sess_rows=()
  [[ -r $__sess_file ]] || return 0
  {
    IFS= read -r -d '' record || return 0
    [[ $record == 'sess 1' ]] || return 0
    while IFS= read -r -d '' record; do
      [[ $record == "$__sess_path" ]] || continue
      IFS=$'\037' read -r -d '' SESS_COUNT SESS_WAITING SESS_PROMPT || :
      while ((${#__sess_rows[@]} < $1)) && IFS= read -r -d '' record && [[ $record != /* ]]; do
        __sess_rows+=("$record")
      done
      break
    done
  } 2>/dev/null <"$__sess_file" || :
}

# Sets __sess_age to how long ago $1 (seconds since 1970) was; to $2, a date, where bash cannot tell the time.
__sess_ago() {
  local now=0
  if [[ -n ${EPOCHSECONDS-} ]]; then
    now=$EPOCHSECONDS
  elif ((BASH_VERSINFO[0] > 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 2))); then
    printf -v now '%(%s)T' -1
  fi
  local minutes=$(((now - $1) / 60))
  if ((now == 0)); then
    __sess_age=$2
  elif ((minutes < 1)); then
    __sess_age='just now'
  elif ((minutes < 60)); then
    __sess_age="$minutes min ago"
  elif ((minutes < 1440)); then
    __sess_age="$((minutes / 60)) h ago"
  elif ((minutes < 43200)); then
    __sess_age="$((minutes / 1440)) d ago"
  elif ((minutes < 525600)); then
    __sess_age="$((minutes / 43200)) mo ago"
  else
    __sess_age="$((minutes / 525600)) y ago"
  fi
}

# Prints the sessions in __sess_rows.
__sess_show() {
  local bold='' dim='' normal='' rest line lead updated moment live branch __sess_age us=$'\037' columns=80
  if ((${COLUMNS:-0} > 20)); then columns=$COLUMNS; fi
  if [[ -t 1 && -z ${NO_COLOR-} && ${TERM-dumb} != dumb ]]; then
    bold=$'\033[1;33m' dim=$'\033[2m' normal=$'\033[0m'
  fi
  lead="$SESS_COUNT sessions here · "
  if [[ $SESS_COUNT == 1 ]]; then lead='1 session here · '; fi
  for rest in "${__sess_rows[@]}"; do
    rest=${rest#*"$us"} rest=${rest#*"$us"} # id and app
    updated=${rest%%"$us"*} rest=${rest#*"$us"}
    moment=${rest%%"$us"*} rest=${rest#*"$us"}
    live=${rest%%"$us"*} rest=${rest#*"$us"}
    branch=${rest%%"$us"*} rest=${rest#*"$us"}
    __sess_ago "$updated" "$moment"
    line="${branch:+$branch · }$__sess_age · ${rest#*"$us"}"
    if [[ $live == waiting ]]; then live="${bold}waiting$normal · "; else live=; fi
    printf '%s\n' "$dim$lead$normal$live$dim${line:0:columns - ${#lead}}$normal"
    lead='  '
  done
}

__sess_prompt() {
  local status=$? lines=0
  if [[ $PWD != "${__sess_pwd-}" ]]; then
    __sess_pwd=$PWD lines=${SESS_LINES:-1}
    __sess_locate
  fi
  __sess_read "$lines"
  if ((${#__sess_rows[@]} > 0)); then __sess_show; fi
  # With `set -e` anything but 0 would end the shell. bash itself keeps $? and PIPESTATUS for the prompt.
  if [[ $- == *e* ]]; then return 0; fi
  return "$status"
}

# Puts the command that resumes what was picked into the line, and has it run; the line stays when nothing was.
__sess_pick() {
  local id
  id=$(command sess pick --print-id) || id=
  if [[ -n $id ]]; then
    READLINE_LINE="sess resume $id" READLINE_POINT=${#READLINE_LINE}
    bind '"\C-x\C-_s2": accept-line'
  else
    bind '"\C-x\C-_s2": ""'
  fi
}

__sess_install() {
  local command present='' keymap declared=string
  # bash 5.1 brought the array; nothing but this tells one of one element from a string, without a process.
  if ((BASH_VERSINFO[0] >= 5)) && [[ -n ${PROMPT_COMMAND+set} && ${PROMPT_COMMAND@a} == *a* ]]; then declared=array; fi
  if [[ -n ${bash_preexec_imported-}${__bp_imported-} ]]; then
    for command in "${precmd_functions[@]-}"; do
      if [[ $command == __sess_prompt ]]; then present=1; fi
    done
    [[ -n $present ]] || precmd_functions+=(__sess_prompt)
  elif [[ $declared == array ]]; then
    for command in "${PROMPT_COMMAND[@]}"; do
      if [[ $command == *__sess_prompt* ]]; then present=1; fi
    done
    [[ -n $present ]] || PROMPT_COMMAND+=(__sess_prompt)
  elif [[ ${PROMPT_COMMAND-} != *__sess_prompt* ]]; then
    # shellcheck disable=SC2178,SC2128 # here it is a string
    # On a line of its own: what stands there may end with `;`, `&` or a comment. Last, as PIPESTATUS is lost after it.
    PROMPT_COMMAND="${PROMPT_COMMAND:+$PROMPT_COMMAND
}__sess_prompt"
  fi
  if [[ -z ${SESS_KEY='\es'} || $- != *i* || $SHELLOPTS != *emacs* && $SHELLOPTS != *:vi:* ]]; then return 0; fi
  for keymap in emacs-standard vi-command vi-insert; do
    if ((BASH_VERSINFO[0] < 4)); then
      # It can neither bind a command to more than one key, nor change the line from one.
      bind -m "$keymap" "\"$SESS_KEY\": \"\\C-e\\C-u sess pick\\C-m\""
    else
      bind -m "$keymap" -x '"\C-x\C-_s1": __sess_pick'
      bind -m "$keymap" '"\C-x\C-_s2": ""'
      bind -m "$keymap" "\"$SESS_KEY\": \"\\C-x\\C-_s1\\C-x\\C-_s2\""
    fi
  done
}

# shellcheck disable=SC2034 # they are for prompts
SESS_PROMPT='' SESS_COUNT=0 SESS_WAITING=0
__sess_rows=() __sess_pwd='' __sess_path='' __sess_file=''
__sess_install
