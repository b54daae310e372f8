"""``sess resume``: check what a resume would change, say what was found, then become the agent."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from sess import preflight, quoting, render
from sess.commands import find
from sess.options import Parser
from sessiond.protocol import DONE, NO_PROGRAM, REFUSED, Problem
from sessiond.session import Check
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sess.front import Call, Context

Row = dict[str, Any]

_CHOICE = 9
"""Sessions offered at most when several match."""
_MORE = "There are more: use more words."
_PREFIX = re.compile("[0-9A-Za-z_-]{4,}")

_DESCRIPTION = """\
Go on with a session: in its folder, with its model, effort and permissions.

What changed since is said before anything starts; a permission looser than
the agent's own default is not carried. What follows -- goes to the agent.
"""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``resume``."""
    parser = Parser("resume", "[ID|QUERY…]", _DESCRIPTION, count=None, passes_on=True)
    add = parser.add_argument
    add("--last", action="store_true", help="the newest session in the current folder or below")
    add("--dir", metavar="DIR", help="in this folder instead of its own")
    add("--fork", action="store_true", help="in a copy of it, under a new id")
    add("--yes", action="store_true", help="go on where it would ask")
    add("--allow-loose", action="store_true", help="carry permissions that are looser than the default")
    add("--no-carry", action="store_true", help="leave model and effort to the agent")
    add("--print", action="store_true", help="print the command instead of running it")
    add("--json", action="store_true", help="with --print: the command and every check, as JSON")
    return parser


class _Attempt(NamedTuple):
    """What would be run, and what was found of it."""

    row: Row
    plan: dict[str, Any]
    argv: list[str]
    env: dict[str, str | None]
    """Changes to this process's environment; None removes a variable."""
    program: str | None
    """The path of the agent's program; None when it is not installed."""
    checks: list[Check]

    @property
    def refused(self) -> list[Check]:
        return [check for check in self.checks if check.state == "refused"]

    @property
    def line(self) -> str:
        """The line that does the same in a shell; ``""`` without a folder."""
        folder = self.plan["folder"]
        return quoting.command(self.argv, folder, self.env) if folder else ""


def run(call: Call) -> int:
    """Resume a session; does not return once it runs."""
    options = call.options
    if options.json and not options.print:
        raise Problem("usage", "resume: --json goes with --print", "`sess resume --help` lists what there is.")
    # What an agent wrote a moment ago counts. The daemon need not have read everything for that.
    call.ask({"op": "sync", "timeout_ms": 2000})
    if not call.operands and not options.last and _can_ask(call.context):
        return _picked(call)
    attempt = _attempt(call)
    asks = any(check.state == "asks" for check in attempt.checks)
    state = "noted" if options.yes or _can_ask(call.context) else "refused"
    checks = [check._replace(state=state) if check.state == "asks" else check for check in attempt.checks]
    attempt = attempt._replace(checks=checks)
    if options.json:
        code = REFUSED if attempt.refused else DONE if attempt.program else NO_PROGRAM
        call.emit(1, json.dumps(_as_json(attempt) | {"exit": code}) + "\n")
        return code
    call.emit(2, _block(attempt))
    if attempt.refused:
        names = ", ".join(check.name for check in attempt.refused)
        raise Problem(
            "refused", f"not resumed: {names}", "\n".join(check.hint for check in attempt.refused if check.hint)
        )
    if options.print:
        call.emit(1, attempt.line + "\n")
    if not attempt.program:
        raise Problem("no-program", f"{attempt.argv[0]} is not installed here", f"Where it is: {attempt.line}")
    if options.print:
        return DONE
    if asks and not options.yes and not _confirmed(call):
        raise Problem("refused", "not resumed")
    return _become(attempt.program, attempt.argv, attempt.plan["folder"], attempt.env)


def _attempt(call: Call) -> _Attempt:
    options = call.options
    request = {"fork": options.fork, "allow_loose": options.allow_loose, "carry": not options.no_carry}
    if options.dir is not None:
        request["folder"] = os.path.normpath(find.absolute(options.dir, call.context))
    answer = call.ask({"op": "plan", **preflight.named(_chosen(call)), **request})
    row, plan = answer.rows[0], answer.ok
    return _Attempt(
        row,
        plan,
        argv=[*plan["argv"], *options.passed_on],
        env=_environment(plan, row["root"]),
        program=shutil.which(plan["argv"][0]),
        checks=preflight.checks(row, plan, call.context.home, call.ask),
    )


def _can_ask(context: Context) -> bool:
    """Return whether there is a person to ask: who types is read from stdin, what is asked goes to stderr."""
    return {"0", "2"} <= set(context.terminals)


def _picked(call: Call) -> int:
    """Let the person pick a session, and resume that one."""
    from sess import relay
    from sess.picker import Picker

    def then(words: Sequence[bytes]) -> int:
        *_, session = map(os.fsdecode, words)
        options = argparse.Namespace(**vars(call.options) | {"print": call.options.print or b"--print" in words})
        return run(call._replace(operands=[session], options=options))

    return Picker(relay.paths(), relay.context(), then, []).run()


def _chosen(call: Call) -> Row:
    """Return the row of the session that is meant. Raises Problem when that is none or remains open."""
    words = call.operands
    rows: list[Row] = []
    if len(words) == 1 and not call.options.last and _PREFIX.fullmatch(words[0]):
        rows = _beginning(call, words[0])
    if not rows:
        request: dict[str, Any] = {"op": "find", "q": find.query(words), "limit": _CHOICE + 1}
        if call.options.last:
            request |= {"cwd": os.path.normpath(find.absolute(".", call.context)), "limit": 1}
        found = call.ask(request)
        rows = found.rows
        if not rows:
            sought = " ".join([*words, *(["in this folder"] if call.options.last else [])])
            reading = "; the daemon is still reading" if found.ok["progress"] else ""
            raise Problem("nothing", f"no session to resume: {sought}{reading}", "`sess find WORDS` searches.")
    if len(rows) == 1:
        return rows[0]
    shown, more = rows[:_CHOICE], [_MORE] if len(rows) > _CHOICE else []
    if not _can_ask(call.context):
        listed = [f"{row['id']}  {row['app']}  {row['title']}" for row in shown]
        raise Problem("ambiguous", "which of these is meant?", "\n".join([*listed, *more]))
    context = call.context
    table = render.table(shown, [], context._replace(columns=context.columns - 3), time.time())
    numbered = [f"{number}  {line}" for number, line in enumerate(table.splitlines(), 1)]
    call.emit(2, "".join(f"{line}\n" for line in [*numbered, *more]))
    while answer := _line(call, f"Which one, 1 to {len(shown)}? "):
        if answer.isdecimal() and 1 <= int(answer) <= len(shown):
            return shown[int(answer) - 1]
    raise Problem("ambiguous", "not resumed: none was chosen")


def _beginning(call: Call, prefix: str) -> list[Row]:
    """Return the rows whose id is *prefix* or begins with it: those that are for people, if there are any."""
    found = call.ask({"op": "find", "q": f'id:"{prefix}"', "all": True, "limit": 1000}).rows
    rows = [row for row in found if row["id"].lower().startswith(prefix.lower())]
    return [row for row in rows if not row["hidden"]] or rows


def _confirmed(call: Call) -> bool:
    return _line(call, "Resume all the same? [y/N] ").lower() in ("y", "yes")


def _line(call: Call, question: str) -> str:
    """Return what the person types, without white space around it; ``""`` also at the end of the input."""
    call.emit(2, question)
    typed = b""
    # Not a byte more than the line: what follows it is for the agent.
    while not typed.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            call.emit(2, "\n")
            return ""
        typed += byte
    return os.fsdecode(typed).strip()


def _environment(plan: Mapping[str, Any], root: str) -> dict[str, str | None]:
    """Return what has to change in the environment.

    A variable that names the store already stays: Claude Code keeps its account in another place
    when ``CLAUDE_CONFIG_DIR`` names the default store than when it is not set.
    """
    changes: dict[str, str | None] = {name: None for name in plan["unset"] if name in os.environ}
    changes |= plan["set"]
    store = os.path.realpath(root)
    return {name: value for name, value in changes.items() if os.path.realpath(os.environ.get(name) or "/") != store}


def _block(attempt: _Attempt) -> str:
    """Return what was found, a line for each check; nothing when there is nothing to say."""
    checks, carried = attempt.checks, attempt.plan["carried"]
    if all(check.state == "ok" for check in checks):
        return ""
    if carried:
        checks = [*checks, Check("carried", "ok", ", ".join(f"{name} {value}" for name, value in carried.items()))]
    return "".join(f"{check.state:8} {check.name:9} {clean(check.text)}\n" for check in checks)


def _as_json(attempt: _Attempt) -> dict[str, Any]:
    plan = attempt.plan
    return {
        **preflight.named(attempt.row),
        "title": attempt.row["title"],
        "argv": attempt.argv,
        "folder": plan["folder"],
        "env": attempt.env,
        "line": attempt.line,
        "carried": plan["carried"],
        "withheld": plan["withheld"],
        "checks": [check._asdict() for check in attempt.checks],
    }


def _become(program: str, argv: list[str], folder: str, env: Mapping[str, str | None]) -> NoReturn:
    """Replace this process by the agent."""
    environment = {**os.environ, **{key: value for key, value in env.items() if value is not None}, "PWD": folder}
    for key in (key for key, value in env.items() if value is None):
        del environment[key]
    program = os.path.abspath(program)
    try:
        os.chdir(folder)
    except OSError as error:
        raise Problem("refused", f"not resumed: {folder} cannot be entered: {error.strerror}") from None
    # Python ignores them, and what is ignored stays so in the program that follows.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, argv, environment)  # noqa: S606 - there is no shell, on purpose
    except OSError as error:
        raise Problem("no-program", f"{program} cannot be started: {error.strerror}") from None
