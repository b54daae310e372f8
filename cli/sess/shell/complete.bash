# shellcheck shell=bash
# Made by `python -m tools.completions` from the parsers of the commands.

__sess_complete() {
  local __sess_current=${COMP_WORDS[COMP_CWORD]} __sess_before=${COMP_WORDS[COMP_CWORD - 1]}
  local __sess_command=${COMP_WORDS[1]} __sess_kind='' __sess_words=() __sess_value __sess_shown __sess_said
  local __sess_listed=''
  COMPREPLY=()
  # A description is for a list, `?`, `!` or `@`: with any other completion it would get into the line.
  case ${COMP_TYPE-} in 33 | 63 | 64) __sess_listed=1 ;; esac
  if ((COMP_CWORD == 1)); then
    __sess_words=(find show resume pick reopen watch status reindex stop service doctor config init prompt --help --version)
  else
    case $__sess_command:$__sess_before in
    find:--app) __sess_kind=apps ;;
    find:--cwd) __sess_kind=dirs ;;
    find:--branch) __sess_kind=branches ;;
    find:--since) __sess_kind=text ;;
    find:--until) __sess_kind=text ;;
    find:--limit) __sess_kind=text ;;
    find:--sort) __sess_words=(recent relevance) ;;
    resume:--dir) __sess_kind=dirs ;;
    reopen:--since) __sess_kind=text ;;
    *)
      case $__sess_command:$__sess_current in
      find:-*) __sess_words=(--app --cwd --here --branch --since --until --limit --all --sort --sync --json --tsv --ids --long --plain --help) ;;
      show:-*) __sess_words=(--json --help) ;;
      show:*) __sess_kind=ids ;;
      resume:-*) __sess_words=(--last --dir --fork --yes --allow-loose --no-carry --print --json --help) ;;
      resume:*) __sess_kind=ids ;;
      pick:-*) __sess_words=(--here --all --print-id --help) ;;
      reopen:-*) __sess_words=(--since --tmux --all --json --ids --help) ;;
      watch:-*) __sess_words=(--here --json --help) ;;
      status:-*) __sess_words=(--json --help) ;;
      reindex:-*) __sess_words=(--help) ;;
      stop:-*) __sess_words=(--help) ;;
      service:-*) __sess_words=(--harden --purge --follow --help) ;;
      service:*) __sess_words=(install uninstall start stop restart status logs) ;;
      doctor:-*) __sess_words=(--json --help) ;;
      config:-*) __sess_words=(--json --help) ;;
      init:-*) __sess_words=(--help) ;;
      init:*) __sess_words=(bash zsh fish) ;;
      prompt:-*) __sess_words=(--help) ;;
      esac
      ;;
    esac
  fi
  if ((${#__sess_words[@]} > 0)); then
    for __sess_value in "${__sess_words[@]}"; do
      if [[ $__sess_value == "$__sess_current"* ]]; then COMPREPLY+=("$__sess_value"); fi
    done
  elif [[ $__sess_kind == dirs ]]; then
    while IFS= read -r __sess_value; do
      if [[ -n $__sess_value ]]; then COMPREPLY+=("$__sess_value"); fi
    done <<<"$(compgen -d -- "$__sess_current")"
    if ((BASH_VERSINFO[0] >= 4)); then compopt -o filenames; fi
  elif [[ $__sess_kind == apps || $__sess_kind == branches || $__sess_kind == ids ]]; then
    # The daemon has 100 ms, and none is started for this.
    if ! __sess_said=$(command sess _complete "$__sess_kind" "$__sess_current" 2>/dev/null); then
      # Two that begin differently are only listed.
      if [[ ${COMP_TYPE-} == 63 ]]; then COMPREPLY=(' ' '(the daemon does not answer)'); fi
      return 0
    fi
    while IFS=$'\t' read -r __sess_value __sess_shown; do
      if [[ -z $__sess_value ]]; then continue; fi
      printf -v __sess_value %q "$__sess_value" # a branch may have any name
      COMPREPLY+=("$__sess_value${__sess_listed:+  ($__sess_shown)}")
    done <<<"$__sess_said"
    # The only one gets into the line, whatever was asked for.
    if ((${#COMPREPLY[@]} == 1)); then COMPREPLY=("${COMPREPLY[0]%%  (*}"); fi
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then compopt -o nosort; fi
  fi
}
complete -F __sess_complete sess
