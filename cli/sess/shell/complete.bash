# shellcheck shell=bash
# Made by `python -m tools.completions` from the parsers of the commands.

__sess_complete() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  local kind='' words='' value shown plain=()
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    words='find show resume pick reopen watch status reindex stop service doctor config init prompt --help --version'
  else
    case $command:$before in
    find:--app) kind=apps ;;
    find:--cwd) kind=dirs ;;
    find:--branch) kind=branches ;;
    find:--since) kind=text ;;
    find:--until) kind=text ;;
    find:--limit) kind=text ;;
    find:--sort) words='recent relevance' ;;
    resume:--dir) kind=dirs ;;
    reopen:--since) kind=text ;;
    *)
      case $command:$current in
      find:-*) words='--app --cwd --here --branch --since --until --limit --all --sort --sync --json --tsv --ids --help' ;;
      show:-*) words='--json --help' ;;
      show:*) kind=ids ;;
      resume:-*) words='--last --dir --fork --yes --allow-loose --no-carry --print --json --help' ;;
      resume:*) kind=ids ;;
      pick:-*) words='--here --all --print-id --help' ;;
      reopen:-*) words='--since --tmux --all --json --ids --help' ;;
      watch:-*) words='--here --json --help' ;;
      status:-*) words='--json --help' ;;
      reindex:-*) words='--help' ;;
      stop:-*) words='--help' ;;
      service:-*) words='--harden --purge --follow --help' ;;
      doctor:-*) words='--json --help' ;;
      config:-*) words='--json --help' ;;
      init:-*) words='--help' ;;
      init:*) words='bash zsh fish' ;;
      prompt:-*) words='--help' ;;
      esac
      ;;
    esac
  fi
  if [[ -n $words ]]; then
    while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -W "$words" -- "$current")
  elif [[ $kind == dirs ]]; then
    while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -d -- "$current")
    if ((BASH_VERSINFO[0] >= 4)); then compopt -o filenames; fi
  elif [[ $kind == apps || $kind == branches || $kind == ids ]]; then
    # The daemon has 100 ms, and none is started for this. A branch may have any name: it is quoted.
    while IFS=$'\t' read -r value shown; do
      printf -v value %q "$value"
      plain+=("$value")
      COMPREPLY+=("$value  ($shown)")
    done < <(command sess _complete "$kind" "$current" 2>/dev/null)
    # A description is shown beside the others, and must not get into the line.
    if ((${#plain[@]} < 2)) || [[ ${COMP_TYPE-} == 37 ]]; then COMPREPLY=(${plain[@]+"${plain[@]}"}); fi
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then compopt -o nosort; fi
  fi
}
complete -F __sess_complete sess
