#compdef sess
# Made by `python -m tools.completions` from the parsers of the commands.

_sess() {
  setopt local_options ${_comp_options-} # those that the functions of compinit need
  local IFS=$' \t\n'
  local -a commands options values shown lines
  local command=$words[2] takes=
  if (( CURRENT == 2 )); then
    commands=(
      'find:search; without a query, the most recent'
      'show:everything known of one session'
      'resume:check, then go on with a session'
      'pick:choose a session as you type, and resume it'
      'reopen:the sessions that ended without being closed'
      'watch:follow changes as they happen'
      'status:is the daemon well'
      'reindex:rebuild the index'
      'stop:stop the daemon'
      'service:the daemon as a login service'
      'doctor:is everything well, and what to do if not'
      'config:what is configured, and where it comes from'
      'init:shell code: prompt, completion, the picker on a key'
      'prompt:the text for a prompt that can only run a command'
    )
    _describe command commands
    return
  fi
  if [[ $words[CURRENT] == -* ]]; then
    case $command in
    find) options=('--app:only this agent; may be repeated' '--cwd:only sessions in this folder or below' '--here:only sessions in the current folder or below' '--branch:only branches with this in their name' '--since:last active since: 45m 3h 2d 1w, 2026-11-30' '--until:last active until then' '--limit:at most so many; 20 if not given' '--all:also sub-agents, SDK runs, what was deleted' '--sort:what comes first' '--sync:compare the index with the disk first' '--json:one JSON object a line' '--tsv:with tabs, as without a terminal' '--ids:one id a line' '--long:nothing shortened, and the time by the clock' '--plain:sentences, without columns: for a screen reader' '--help:what there is') ;;
    show) options=('--json:one JSON object, with both prompts in full' '--help:what there is') ;;
    resume) options=('--last:the newest session in the current folder or below' '--dir:in this folder instead of its own' '--fork:in a copy of it, under a new id' '--yes:go on where it would ask' '--allow-loose:carry permissions that are looser than the default' '--no-carry:leave model and effort to the agent' '--print:print the command instead of running it' '--json:with --print: the command and every check, as JSON' '--help:what there is') ;;
    pick) options=('--here:begin with the current folder and below' '--all:begin with hidden sessions too' '--print-id:print the id that was chosen, and do nothing else' '--help:what there is') ;;
    reopen) options=('--since:lost since then; 7d if not given' '--tmux:each in a window of its own' '--all:do not ask: all of them, with --tmux' '--json:only list, one JSON object a line with its plan' '--ids:only list, one id a line' '--help:what there is') ;;
    watch) options=('--here:only sessions in the current folder or below' '--json:one JSON object a line: {"event":…,"row":{…}}' '--help:what there is') ;;
    status) options=('--json:for bug reports: no title, no path' '--help:what there is') ;;
    reindex) options=('--help:what there is') ;;
    stop) options=('--help:what there is') ;;
    service) options=('--harden:with install: also the options that need a user namespace' '--purge:with uninstall: the index too' '--follow:with logs: go on showing' '--help:what there is') ;;
    doctor) options=('--json:for bug reports: no title, no name, no path' '--help:what there is') ;;
    config) options=('--json:one JSON object a value' '--help:what there is') ;;
    init) options=('--help:what there is') ;;
    prompt) options=('--help:what there is') ;;
    esac
    _describe option options
    return
  fi
  case $command:$words[CURRENT-1] in
    find:--app) takes='apps' ;;
    find:--cwd) takes='dirs' ;;
    find:--branch) takes='branches' ;;
    find:--since) takes='text' ;;
    find:--until) takes='text' ;;
    find:--limit) takes='text' ;;
    find:--sort) takes='words:recent relevance' ;;
    show:*) takes='ids' ;;
    resume:--dir) takes='dirs' ;;
    resume:*) takes='ids' ;;
    reopen:--since) takes='text' ;;
    service:*) takes='words:install uninstall start stop restart status logs' ;;
    init:*) takes='words:bash zsh fish' ;;
  esac
  case $takes in
    dirs) _files -/ ;;
    words:*) values=(${=takes#words:}); compadd -a values ;;
    apps|branches|ids)
      # The daemon has 100 ms, and none is started for this.
      lines=("${(@f)$(command sess _complete $takes "${(Q)PREFIX}" 2>/dev/null)}") || {
        _message 'the daemon does not answer'
        return 1
      }
      [[ -n $lines[1] ]] || return 1
      values=("${(@)lines%%$'\t'*}")
      shown=("${(@)lines/$'\t'/  }")
      compadd -l -V $takes -d shown -a values
      ;;
  esac
}

# `compinit` may come later in the start file.
__sess_compdef() {
  precmd_functions=(${precmd_functions[@]:#__sess_compdef})
  (( ${+functions[compdef]} )) && compdef _sess sess
  return 0
}
if [[ ${funcstack[1]-} == _sess ]]; then
  _sess "$@" # `compinit` found this file in `fpath`, and this is the first time that it is needed
elif (( ${+functions[compdef]} )); then
  compdef _sess sess
else
  precmd_functions=(${precmd_functions[@]:#__sess_compdef} __sess_compdef)
fi
