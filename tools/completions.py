"""Writes ``cli/sess/shell/complete.*`` from the parsers of the commands: ``python -m tools.completions``."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse

HERE = Path(__file__).parent.parent / "cli" / "sess" / "shell"
MADE = "Made by `python -m tools.completions` from the parsers of the commands."

KINDS = {"app": "apps", "branch": "branches", "cwd": "dirs", "dir": "dirs"}
"""What an option's value is, by the option's name."""


class Option(NamedTuple):
    """One option of a command."""

    name: str
    help: str
    takes: str
    """What its value is: a kind, ``words:`` and the choices, ``text``, or nothing when it has none."""


class Command(NamedTuple):
    """One command."""

    name: str
    help: str
    options: list[Option]
    operand: str
    """As `Option.takes`."""


def commands() -> list[Command]:
    """Return the commands that are listed for people."""
    from sess.front import COMMANDS

    found = []
    for name, summary in COMMANDS.items():
        parser = import_module(f"sess.commands.{name}").parser()
        options = [_option(action) for action in parser._actions if action.option_strings]  # noqa: SLF001
        options.append(Option("--help", "what there is", ""))
        found.append(Command(name, summary, options, _operand(parser._operand)))  # noqa: SLF001
    return found


def _option(action: argparse.Action) -> Option:
    name = action.option_strings[-1]
    takes = "" if action.nargs == 0 else KINDS.get(name.removeprefix("--"), "text")
    if action.choices:
        takes = "words:" + " ".join(map(str, action.choices))
    return Option(name, action.help or "", takes)


def _operand(operand: str) -> str:
    if words := re.fullmatch(r"\[?([a-z]+(\|[a-z]+)+)\]?", operand):
        return "words:" + words[1].replace("|", " ")
    return "ids" if re.search(r"\bID\b", operand) else ""


def bash(every: list[Command]) -> str:
    """Return the completion for bash."""
    names = [command.name for command in every]
    cases = [
        f"    {command.name}:{option.name}) {_bash(option.takes)} ;;"
        for command in every
        for option in command.options
        if option.takes
    ]
    operands = []
    for command in every:
        options = " ".join(option.name for option in command.options)
        operands.append(f"      {command.name}:-*) __sess_words=({options}) ;;")
        if command.operand:
            operands.append(f"      {command.name}:*) {_bash(command.operand)} ;;")
    return BASH.format(made=MADE, names=" ".join(names), values="\n".join(cases), operands="\n".join(operands))


def _bash(takes: str) -> str:
    words = takes.removeprefix("words:")
    return f"__sess_words=({words})" if takes.startswith("words:") else f"__sess_kind={takes}"


BASH = r"""# shellcheck shell=bash
# {made}

__sess_complete() {{
  local __sess_current=${{COMP_WORDS[COMP_CWORD]}} __sess_before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local __sess_command=${{COMP_WORDS[1]}} __sess_kind='' __sess_words=() __sess_value __sess_shown __sess_said
  local __sess_listed=''
  COMPREPLY=()
  # A description is for a list, `?`, `!` or `@`: with any other completion it would get into the line.
  case ${{COMP_TYPE-}} in 33 | 63 | 64) __sess_listed=1 ;; esac
  if ((COMP_CWORD == 1)); then
    __sess_words=({names} --help --version)
  else
    case $__sess_command:$__sess_before in
{values}
    *)
      case $__sess_command:$__sess_current in
{operands}
      esac
      ;;
    esac
  fi
  if ((${{#__sess_words[@]}} > 0)); then
    for __sess_value in "${{__sess_words[@]}}"; do
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
      if [[ ${{COMP_TYPE-}} == 63 ]]; then COMPREPLY=(' ' '(the daemon does not answer)'); fi
      return 0
    fi
    while IFS=$'\t' read -r __sess_value __sess_shown; do
      if [[ -z $__sess_value ]]; then continue; fi
      printf -v __sess_value %q "$__sess_value" # a branch may have any name
      COMPREPLY+=("$__sess_value${{__sess_listed:+  ($__sess_shown)}}")
    done <<<"$__sess_said"
    # The only one gets into the line, whatever was asked for.
    if ((${{#COMPREPLY[@]}} == 1)); then COMPREPLY=("${{COMPREPLY[0]%%  (*}}"); fi
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then compopt -o nosort; fi
  fi
}}
complete -F __sess_complete sess
"""


def zsh(every: list[Command]) -> str:
    """Return the completion for zsh."""
    names = "\n".join(f"      {_zsh(command.name, command.help)}" for command in every)
    options, values = [], []
    for command in every:
        described = " ".join(_zsh(option.name, option.help) for option in command.options)
        options.append(f"    {command.name}) options=({described}) ;;")
        values += [
            f"    {command.name}:{option.name}) takes={_single(option.takes)} ;;"
            for option in command.options
            if option.takes
        ]
        if command.operand:
            values.append(f"    {command.name}:*) takes={_single(command.operand)} ;;")
    return ZSH.format(made=MADE, names=names, options="\n".join(options), values="\n".join(values))


def _zsh(name: str, help: str) -> str:
    return _single(f"{name}:{help}")


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


ZSH = r"""#compdef sess
# {made}

_sess() {{
  setopt local_options ${{_comp_options-}} # those that the functions of compinit need
  local IFS=$' \t\n'
  local -a commands options values shown lines
  local command=$words[2] takes=
  if (( CURRENT == 2 )); then
    commands=(
{names}
    )
    _describe command commands
    return
  fi
  if [[ $words[CURRENT] == -* ]]; then
    case $command in
{options}
    esac
    _describe option options
    return
  fi
  case $command:$words[CURRENT-1] in
{values}
  esac
  case $takes in
    dirs) _files -/ ;;
    words:*) values=(${{=takes#words:}}); compadd -a values ;;
    apps|branches|ids)
      # The daemon has 100 ms, and none is started for this.
      lines=("${{(@f)$(command sess _complete $takes "${{(Q)PREFIX}}" 2>/dev/null)}}") || {{
        _message 'the daemon does not answer'
        return 1
      }}
      [[ -n $lines[1] ]] || return 1
      values=("${{(@)lines%%$'\t'*}}")
      shown=("${{(@)lines/$'\t'/  }}")
      compadd -l -V $takes -d shown -a values
      ;;
  esac
}}

# `compinit` may come later in the start file.
__sess_compdef() {{
  precmd_functions=(${{precmd_functions[@]:#__sess_compdef}})
  (( ${{+functions[compdef]}} )) && compdef _sess sess
  return 0
}}
if [[ ${{funcstack[1]-}} == _sess ]]; then
  _sess "$@" # `compinit` found this file in `fpath`, and this is the first time that it is needed
elif (( ${{+functions[compdef]}} )); then
  compdef _sess sess
else
  precmd_functions=(${{precmd_functions[@]:#__sess_compdef}} __sess_compdef)
fi
"""


def fish(every: list[Command]) -> str:
    """Return the completion for fish."""
    # fish loads the installed file in addition to `sess init fish`: what came first would be asked as well.
    lines = [f"# {MADE}", "", "complete -c sess -e", "complete -c sess -f"]
    lines += [
        f"complete -c sess -n __fish_use_subcommand -a {command.name} -d {_fish(command.help)}" for command in every
    ]
    for command in every:
        seen = f"complete -c sess -n '__fish_seen_subcommand_from {command.name}'"
        lines += [
            f"{seen} -l {option.name.removeprefix('--')}{_fish_takes(option.takes, ' -x')} -d {_fish(option.help)}"
            for option in command.options
        ]
        if command.operand:
            lines.append(f"{seen}{_fish_takes(command.operand, '')}")
    return "\n".join(lines) + "\n"


def _fish_takes(takes: str, needed: str) -> str:
    if not takes or takes == "text":
        return needed if takes else ""
    if takes == "dirs":
        return f"{needed} -a '(__fish_complete_directories (commandline -ct))'"
    if takes.startswith("words:"):
        return f"{needed} -a '{takes.removeprefix('words:')}'"
    return f"{needed} -k -a '(command sess _complete {takes} (commandline -ct) 2>/dev/null)'"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def files() -> dict[Path, str]:
    """Return what each file should have in it."""
    every = commands()
    return {HERE / f"complete.{name}": make(every) for name, make in (("bash", bash), ("zsh", zsh), ("fish", fish))}


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent.parent)]
    main()
