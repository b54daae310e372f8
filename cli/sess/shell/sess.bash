# shellcheck shell=bash
# bash 3.2 to 5.3. `sess init bash` sets __sess_snapshots before this.
# No step of a prompt starts a process or opens a socket. What a snapshot says is shown and compared, never run.
# Every variable has the prefix, as `local` fails where somebody has a readonly one of that name.

# Tells whether $1 can be calculated with. Nothing else may get there: arithmetic runs what is in `a[$(command)]`.
__sess_is_number() {
  [[ -n $1 && $1 != *[!0123456789]* ]] && ((${#1} <= 12))
}

# Tells whether $1, as bytes, has what no daemon writes: controls (C1 in UTF-8 among them), or what turns or breaks a line.
__sess_steers() {
  case $1 in *[$'\001'-$'\037\177']* | *$'\302'[$'\200'-$'\237']*) return 0 ;; esac
  case $1 in *$'\330\234'* | *$'\342\200'[$'\216\217\250'-$'\256']* | *$'\342\201'[$'\246'-$'\251']*) return 0 ;; esac
  return 1
}

# Sets __sess_path to the current folder without symbolic links, as agents record it, and __sess_file to its snapshot.
__sess_locate() {
  local OLDPWD=${OLDPWD-} LC_ALL=C # bytes, whatever the locale
  local __sess_given=$PWD __sess_name=$PWD
  __sess_path=$PWD
  while [[ -n $__sess_name && ! -L $__sess_name ]]; do __sess_name=${__sess_name%/*}; done
  # Where the link leads elsewhere by now there would be no way back.
  if [[ -n $__sess_name && $__sess_given -ef . ]]; then
    # Nothing but `cd` resolves a link without a process.
    if builtin cd -P .; then __sess_path=$PWD; fi
    builtin cd -L "$__sess_given" || :
  fi
  __sess_name=${__sess_path//[^A-Za-z0-9]/-}
  if ((${#__sess_name} > 200)); then __sess_name=${__sess_name:${#__sess_name}-200}; fi
  __sess_file=$__sess_snapshots/$__sess_name
}

# Sets SESS_PROMPT, SESS_COUNT and SESS_WAITING from the snapshot, and __sess_rows to at most $1 of its sessions.
__sess_read() {
  local LC_ALL=C __sess_record __sess_count __sess_waiting __sess_text __sess_us=$'\037'
  SESS_PROMPT='' SESS_COUNT=0 SESS_WAITING=0
  __sess_rows=()
  [[ -f $__sess_file && -r $__sess_file ]] || return 0
  {
    IFS= read -r -d '' __sess_record || return 0
    [[ $__sess_record == 'sess 1' ]] || return 0
    while IFS= read -r -d '' __sess_record; do
      [[ $__sess_record == "$__sess_path" ]] || continue
      IFS=$__sess_us read -r -d '' __sess_count __sess_waiting __sess_text || return 0
      __sess_is_number "${__sess_count%+}" && __sess_is_number "$__sess_waiting" && [[ -n $__sess_text ]] || return 0
      # Nor does any daemon write here what a prompt would expand.
      case $__sess_text in *[$'$`\\%!']*) return 0 ;; esac
      if __sess_steers "$__sess_text"; then return 0; fi
      SESS_COUNT=$__sess_count SESS_WAITING=$__sess_waiting SESS_PROMPT=$__sess_text
      while ((${#__sess_rows[@]} < $1)) && IFS= read -r -d '' __sess_record && [[ $__sess_record != /* ]]; do
        __sess_text=${__sess_record//"$__sess_us"/}
        if __sess_steers "$__sess_text"; then break; fi
        __sess_rows+=("$__sess_record")
      done
      return 0
    done
  } <"$__sess_file"
}

# Sets __sess_age to how long ago $1 (seconds since 1970) was; to $2, a date, where bash cannot tell the time.
__sess_ago() {
  local __sess_now=${EPOCHSECONDS-} __sess_minutes
  if [[ -z $__sess_now ]] && ((BASH_VERSINFO[0] > 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 2))); then
    printf -v __sess_now '%(%s)T' -1
  fi
  __sess_age=$2
  if ! __sess_is_number "$__sess_now" || ! __sess_is_number "$1"; then return 0; fi
  __sess_minutes=$(((10#$__sess_now - 10#$1) / 60))
  if ((__sess_minutes < 1)); then
    __sess_age='just now'
  elif ((__sess_minutes < 60)); then
    __sess_age="$__sess_minutes min ago"
  elif ((__sess_minutes < 1440)); then
    __sess_age="$((__sess_minutes / 60)) h ago"
  elif ((__sess_minutes < 43200)); then
    __sess_age="$((__sess_minutes / 1440)) d ago"
  elif ((__sess_minutes < 525600)); then
    __sess_age="$((__sess_minutes / 43200)) mo ago"
  else
    __sess_age="$((__sess_minutes / 525600)) y ago"
  fi
}

# Sets __sess_fitting to what of $1 fits into $2 columns. bash has no table of widths: two columns are left for every
# character that may need them, which are those from U+1100, but for the punctuation and arrows at U+2000 to U+22FF.
__sess_fit() {
  local LC_ALL=C __sess_at __sess_end=0 __sess_used=0 __sess_width # bytes, whatever the locale
  __sess_fitting=$1
  ((${#1} > $2)) || return 0
  for ((__sess_at = 0; __sess_at < ${#1}; __sess_at++)); do
    case ${1:__sess_at:2} in
    [$'\200'-$'\277']*) continue ;; # inside a character
    $'\342'[$'\200'-$'\213']*) __sess_width=1 ;;
    [$'\341'-$'\377']*) __sess_width=2 ;;
    *) __sess_width=1 ;;
    esac
    if ((__sess_used < $2)); then __sess_end=$__sess_at; fi
    __sess_used=$((__sess_used + __sess_width))
    if ((__sess_used > $2)); then
      __sess_fitting=${1:0:__sess_end}…
      return 0
    fi
  done
}

# Prints the sessions in __sess_rows.
__sess_show() {
  local __sess_bold='' __sess_dim='' __sess_normal='' __sess_rest __sess_lead __sess_updated __sess_moment __sess_live
  local __sess_branch __sess_age __sess_fitting __sess_us=$'\037' __sess_columns=80
  if __sess_is_number "${COLUMNS-}" && ((10#$COLUMNS > 20)); then __sess_columns=$((10#$COLUMNS)); fi
  if [[ -t 1 && -z ${NO_COLOR-} && ${TERM-dumb} != dumb ]]; then
    __sess_bold=$'\033[1;33m' __sess_dim=$'\033[2m' __sess_normal=$'\033[0m'
  fi
  __sess_lead="$SESS_COUNT sessions here · "
  if [[ $SESS_COUNT == 1 ]]; then __sess_lead='1 session here · '; fi
  if ((__sess_columns < 40)); then __sess_lead=; fi
  for __sess_rest in "${__sess_rows[@]}"; do
    __sess_rest=${__sess_rest#*"$__sess_us"} __sess_rest=${__sess_rest#*"$__sess_us"} # id and app
    __sess_updated=${__sess_rest%%"$__sess_us"*} __sess_rest=${__sess_rest#*"$__sess_us"}
    __sess_moment=${__sess_rest%%"$__sess_us"*} __sess_rest=${__sess_rest#*"$__sess_us"}
    __sess_live=${__sess_rest%%"$__sess_us"*} __sess_rest=${__sess_rest#*"$__sess_us"}
    __sess_branch=${__sess_rest%%"$__sess_us"*} __sess_rest=${__sess_rest#*"$__sess_us"}
    if [[ $__sess_live == waiting ]]; then __sess_live='waiting · '; else __sess_live=; fi
    __sess_ago "$__sess_updated" "$__sess_moment"
    __sess_rest="${__sess_branch:+$__sess_branch · }$__sess_age · ${__sess_rest#*"$__sess_us"}"
    { __sess_fit "$__sess_rest" $((__sess_columns - ${#__sess_lead} - ${#__sess_live})); } 2>/dev/null
    printf '%s\n' "$__sess_dim$__sess_lead$__sess_normal$__sess_bold$__sess_live$__sess_normal$__sess_dim$__sess_fitting$__sess_normal"
    __sess_lead='  '
  done
}

__sess_prompt() {
  local __sess_status=$? __sess_lines=0
  {
    if [[ $PWD != "${__sess_pwd-}" ]]; then
      __sess_pwd=$PWD __sess_lines=${SESS_LINES-1}
      if ! __sess_is_number "$__sess_lines"; then __sess_lines=1; fi
      __sess_locate
    fi
    __sess_read "$((10#$__sess_lines))"
  } 2>/dev/null # bash complains of a locale that is not installed whenever it returns to it
  if ((${#__sess_rows[@]} > 0)); then __sess_show; fi
  # With `set -e` anything but 0 would end the shell. bash itself keeps $? and PIPESTATUS for the prompt.
  if [[ $- == *e* ]]; then return 0; fi
  return "$__sess_status"
}

# Puts the command that resumes what was picked into the line, and has it run; the line stays when nothing was.
__sess_pick() {
  local __sess_id
  __sess_id=$(command sess pick --print-id) || __sess_id=
  if [[ -n $__sess_id ]]; then
    READLINE_LINE="sess resume $__sess_id" READLINE_POINT=${#READLINE_LINE}
    bind '"\C-x\C-_s2": accept-line'
  else
    bind '"\C-x\C-_s2": ""'
  fi
}

# shellcheck disable=SC2031 # the subshell below changes nothing
__sess_install() {
  local __sess_each __sess_present='' __sess_declared=string
  # bash 5.1 brought the array; nothing but this tells one of one element from a string, without a process.
  if ((BASH_VERSINFO[0] >= 5)) && [[ -n ${PROMPT_COMMAND+set} && ${PROMPT_COMMAND@a} == *a* ]]; then
    __sess_declared=array
  fi
  # The subshell is the one way to ask any bash. Some machines have it readonly, to keep an account of what is typed.
  # shellcheck disable=SC2030
  if ! (PROMPT_COMMAND=) 2>/dev/null; then __sess_declared='readonly'; fi
  if [[ -n ${bash_preexec_imported-}${__bp_imported-} ]]; then
    for __sess_each in "${precmd_functions[@]-}"; do
      if [[ $__sess_each == __sess_prompt ]]; then __sess_present=1; fi
    done
    [[ -n $__sess_present ]] || precmd_functions+=(__sess_prompt)
  elif [[ $__sess_declared == array ]]; then
    for __sess_each in "${PROMPT_COMMAND[@]}"; do
      if [[ $__sess_each == *__sess_prompt* ]]; then __sess_present=1; fi
    done
    [[ -n $__sess_present ]] || PROMPT_COMMAND+=(__sess_prompt)
  elif [[ $__sess_declared == string && ${PROMPT_COMMAND-} != *__sess_prompt* ]]; then
    # shellcheck disable=SC2178,SC2128 # here it is a string
    # On a line of its own: what stands there may end with `;`, `&` or a comment. Last, as PIPESTATUS is lost after it.
    PROMPT_COMMAND="${PROMPT_COMMAND:+$PROMPT_COMMAND
}__sess_prompt"
  fi
  if [[ -z ${SESS_KEY='\es'} || $- != *i* || :$SHELLOPTS: != *:emacs:* && :$SHELLOPTS: != *:vi:* ]]; then return 0; fi
  for __sess_each in emacs-standard vi-command vi-insert; do
    if ((BASH_VERSINFO[0] < 4)); then
      # It can neither bind a command to more than one key, nor change the line from one.
      bind -m "$__sess_each" "\"$SESS_KEY\": \"\\C-e\\C-u sess pick\\C-m\""
    else
      bind -m "$__sess_each" -x '"\C-x\C-_s1": __sess_pick'
      bind -m "$__sess_each" '"\C-x\C-_s2": ""'
      bind -m "$__sess_each" "\"$SESS_KEY\": \"\\C-x\\C-_s1\\C-x\\C-_s2\""
    fi
  done
}

# shellcheck disable=SC2034 # they are for prompts
SESS_PROMPT='' SESS_COUNT=0 SESS_WAITING=0
# Loaded again, it has not entered the folder again.
__sess_rows=() __sess_pwd=${__sess_pwd-} __sess_path=${__sess_path-} __sess_file=${__sess_file-}
__sess_install
