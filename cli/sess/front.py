"""The front: from the words of a command to what its person reads.

The daemon runs it for the relay, where all it needs is warm, and the client runs it itself
when no daemon answers. It asks through a function and writes through another, and has the rest
from a `Context`: whoever runs it, the same words give the same bytes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from sess.options import split
from sessiond import __version__
from sessiond.protocol import HANDED_BACK, PROTOCOL, Answer, Problem
from sessiond.text import clean, nearest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from sess.options import Parser

    Ask = Callable[[dict[str, Any]], Answer]
    Emit = Callable[[int, str], None]

COMMANDS = {
    "find": "search; without a query, the most recent",
    "show": "everything known of one session",
    "resume": "check, then go on with a session",
    "pick": "choose a session as you type, and resume it",
    "reopen": "the sessions that ended without being closed",
    "watch": "follow changes as they happen",
    "status": "is the daemon well",
    "reindex": "rebuild the index",
    "stop": "stop the daemon",
    "service": "the daemon as a login service",
    "doctor": "is everything well, and what to do if not",
    "config": "what is configured, and where it comes from",
    "init": "shell code: prompt, completion, the picker on a key",
    "prompt": "the text for a prompt that can only run a command",
}
"""What each command does. Its parser and its code are in the module of its name in `commands`."""

INTERNAL = frozenset({"_complete", "_rows"})
"""Commands that only our own shell code and the picker call."""

LOCAL = frozenset({"resume", "pick", "reopen", "watch", "prompt", "service", "doctor", "config"})
"""Commands that need the person's terminal or become another program: the client's own process runs them."""

_ALIKE = {"list": "find", "ls": "find", "search": "find", "help": "--help", "version": "--version"}
"""What other programs call a command or an option of ours."""

_LIST = "\n".join(f"  {name:9} {summary}" for name, summary in COMMANDS.items())
HELP = f"""\
usage: sess COMMAND [OPTION…]

Finds any coding-agent session again.

{_LIST}

Without a command it takes what `find` takes; without a word it lists the most
recent sessions of this folder.
`sess COMMAND --help` says more. `sess --version` prints the version.
"""


class NotRunning(Problem):
    """No daemon answers."""

    def __init__(self) -> None:
        super().__init__("unreachable", "the daemon is not running", "Any search starts it: `sess find`")


class Context(NamedTuple):
    """What the front knows of the client's process."""

    cwd: str | None
    """None when that folder is gone."""
    home: str
    columns: int
    """Width of the terminal; 80 when it is not known."""
    terminals: str
    """Digits of the file descriptors that are terminals."""
    color: bool

    @classmethod
    def from_items(cls, items: Mapping[str, bytes]) -> Self:
        """Return the context that a relay request carries; what it lacks is unknown."""
        texts = {key: value.decode("utf-8", "surrogateescape") for key, value in items.items()}
        columns = texts.get("columns", "")
        return cls(
            cwd=texts.get("cwd"),
            home=texts.get("home", "").rstrip("/"),
            columns=(int(columns) if columns.isdecimal() else 0) or 80,
            terminals=texts.get("tty", ""),
            color=texts.get("color") == "1",
        )

    @property
    def stdout_is_terminal(self) -> bool:
        """Whether a person sees stdout as it is."""
        return "1" in self.terminals

    @property
    def stderr_is_terminal(self) -> bool:
        """Whether a person sees stderr as it is."""
        return "2" in self.terminals


class Call(NamedTuple):
    """A command under way."""

    options: argparse.Namespace
    operands: list[str]
    context: Context
    ask: Ask
    emit: Emit


class Command(Protocol):
    """What a module of `commands` offers."""

    def parser(self) -> Parser:
        """Return the parser of its words, always the same one."""

    def run(self, call: Call) -> int:
        """Do it and return the exit code. Raises Problem. Asks what may wait before it emits anything."""


def run(words: Sequence[str], context: Context, ask: Ask, emit: Emit, *, local: bool = False) -> int:
    """Run the command that *words* are and return its exit code.

    *ask* puts a request to the daemon; what it raises, but for Problem, passes through. *emit* writes to
    stdout (1) or stderr (2). Unless this process is the client's own, which *local* says, a command of
    `LOCAL` does nothing and gives `HANDED_BACK`.
    """
    try:
        return _run(words, context, ask, emit, local=local)
    except Problem as problem:
        emit(2, "".join(clean(line) + "\n" for line in problem.text.splitlines()))
        return problem.exit


def _run(words: Sequence[str], context: Context, ask: Ask, emit: Emit, *, local: bool) -> int:
    first = words[0] if words else ""
    if first in ("-h", "--help"):
        emit(1, HELP)
        return 0
    if first == "--version":
        emit(1, f"sess {__version__}\n")
        return 0
    if not first or first.startswith("-"):
        name, words = "find", words
    else:
        name, words = first, words[1:]
    if name not in COMMANDS and name not in INTERNAL:
        near = _ALIKE.get(name) or nearest(name, COMMANDS)
        meant = f"Did you mean `sess {' '.join([near, *words])}`? " if near else ""
        raise Problem(
            "usage",
            f"there is no command {name}",
            f"{meant}To search for it: `sess find {' '.join([name, *words])}`. `sess --help` lists the commands.",
        )
    command: Command = import_module(f"sess.commands.{name}")
    parser = command.parser()
    if {"-h", "--help"} & set(split(words)[0]):
        emit(1, parser.format_help())
        return 0
    bare = not first or first.startswith("-")
    options, operands = parser.read(words, ["--help", "--version"] if bare else ["--help"])
    if name in LOCAL and not local:
        return HANDED_BACK
    options.bare = not first
    return command.run(Call(options, operands, context, lambda request: ask({"v": PROTOCOL, **request}), emit))
