"""``sess resume``: check what a resume would change, say what was found, then become the agent."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sess import agent, choice, preflight, quoting
from sess.commands import find
from sess.options import Parser
from sessiond.protocol import DONE, NO_PROGRAM, REFUSED, Problem
from sessiond.session import Check
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sess.front import Call

Row = dict[str, Any]

_WAIT = 2000
"""ms for the daemon to read what an agent wrote a moment ago. It need not have read everything for that."""
_READING = "another may be meant: the daemon has not read all of them yet"

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
    place: preflight.Place | None

    @property
    def refused(self) -> list[Check]:
        return [check for check in self.checks if check.state == "refused"]

    @property
    def asks(self) -> bool:
        return any(check.state == "asks" for check in self.checks)

    @property
    def line(self) -> str:
        """The line that does the same in a shell; ``""`` for what is refused."""
        return "" if self.refused else quoting.command(self.argv, self.plan["folder"], self.env)

    @property
    def line_elsewhere(self) -> str:
        """The same for a shell that is not this one: what is in the environment here need not be there."""
        return quoting.command(self.argv, self.plan["folder"], self.env | self.plan["set"])

    def settled(self, *, agreed: bool) -> _Attempt:
        """Return it with each question answered."""
        state = "noted" if agreed else "refused"
        return self._replace(
            checks=[check._replace(state=state) if check.state == "asks" else check for check in self.checks]
        )


def run(call: Call) -> int:
    """Resume a session; does not return once it runs."""
    options = call.options
    if options.json and not options.print:
        raise Problem("usage", "resume: --json goes with --print", "`sess resume --help` lists what there is.")
    if options.dir == "":
        raise Problem("usage", "resume: --dir needs a folder", "`--dir .` is the current one.")
    if not call.operands and not options.last and choice.can_ask(call.context):
        return _picked(call)
    return _resumed(call)


def _picked(call: Call) -> int:
    """Let the person pick a session, and resume that one."""
    from sess import relay
    from sess.picker import Picker

    def then(words: Sequence[bytes]) -> int:
        *_, session = map(os.fsdecode, words)
        options = argparse.Namespace(**vars(call.options) | {"print": call.options.print or b"--print" in words})
        return _resumed(call._replace(operands=[session], options=options))

    return Picker(relay.paths(), relay.context(), then, []).run()


def _resumed(call: Call) -> int:
    options = call.options
    reading = call.ask({"op": "sync", "timeout_ms": _WAIT}).ok["progress"]
    row = choice.session(call, last=options.last)
    attempt = _attempt(call, row)
    if reading and call.operands != [row["id"]]:
        attempt.checks.insert(0, Check("session", "asks", _READING, preflight.ASKS))
    asks = attempt.asks and not options.yes
    attempt = attempt.settled(agreed=options.yes or _is_seen(call))
    if options.json:
        code = REFUSED if attempt.refused else DONE if attempt.program else NO_PROGRAM
        call.emit(1, json.dumps(_as_json(attempt) | {"exit": code}) + "\n")
        return code
    call.emit(2, _block(attempt))
    if asks and not options.print and not attempt.refused and attempt.program:
        attempt = _agreed(call, attempt)
    if attempt.refused:
        raise _refusal(attempt)
    if options.print:
        call.emit(1, f"{attempt.line if attempt.program else attempt.line_elsewhere}\n")
    if not attempt.program:
        seen = options.print and call.context.stdout_is_terminal
        hint = "" if seen else f"Where it is: {attempt.line_elsewhere}"
        raise Problem("no-program", f"{attempt.argv[0]} is not installed here", hint)
    if options.print:
        return DONE
    try:
        agent.become(attempt.program, attempt.argv, attempt.plan["folder"], attempt.env)
    except OSError as error:
        raise Problem(
            "no-program",
            f"{attempt.program} cannot be started: {error.strerror}",
            f"Where it can: {attempt.line_elsewhere}",
        ) from None


def _attempt(call: Call, row: Row) -> _Attempt:
    options = call.options
    request = {"fork": options.fork, "allow_loose": options.allow_loose, "carry": not options.no_carry}
    if options.dir is not None:
        request["folder"] = os.path.normpath(find.absolute(options.dir, call.context))
    answer = call.ask({"op": "plan", **choice.named(row), **request})
    row, plan = answer.rows[0], answer.ok
    found = preflight.look(row, plan, call.context.home, call.ask)
    return _Attempt(
        row,
        plan,
        argv=[*plan["argv"], *options.passed_on],
        env=agent.changes(plan, row["app"], row["root"]),
        program=shutil.which(plan["argv"][0]) if plan["argv"] else None,
        checks=found.checks,
        place=found.place,
    )


def _is_seen(call: Call) -> bool:
    """Return whether there is a person who sees what was found, before anything comes of it.

    A line that is captured is run by whoever captured it: `eval "$(sess resume --print)"`.
    """
    return {"1", "2"} <= set(call.context.terminals) if call.options.print else choice.can_ask(call.context)


def _agreed(call: Call, attempt: _Attempt) -> _Attempt:
    """Ask the person, and return what it is that was agreed to. Raises Problem.

    A question may be open for hours. So everything is looked at again after the answer, and what is
    new is asked about again.
    """
    while True:
        if choice.line(call, "Resume all the same? [y/N] ").lower() not in ("y", "yes"):
            raise Problem("refused", "not resumed", "Nothing was started or changed.")
        before = attempt
        call.ask({"op": "sync", "timeout_ms": _WAIT})
        attempt = _attempt(call, before.row).settled(agreed=True)
        news = _news(before, attempt)
        call.emit(2, _lines(news))
        if not news or attempt.refused or not attempt.program:
            return attempt


def _news(before: _Attempt, now: _Attempt) -> list[Check]:
    """Return what *now* says that a person has not agreed to yet."""
    checks = [check for check in now.checks if check.state != "ok" and check not in before.checks]
    if now.refused:
        return checks
    if (before.argv, before.env, before.plan["folder"]) != (now.argv, now.env, now.plan["folder"]):
        checks.append(Check("command", "noted", f"it is another one since you were asked: {now.line}"))
    said = {check.name for check in checks}
    return [*checks, *(check for check in preflight.changed(before.place, now.place) if check.name not in said)]


def _refusal(attempt: _Attempt) -> Problem:
    names = ", ".join(check.name for check in attempt.refused)
    hints = [check.hint for check in attempt.refused if check.hint]
    return Problem("refused", f"not resumed: {names}", "\n".join(hints or ["`sess show` tells what is known of it."]))


def _block(attempt: _Attempt) -> str:
    """Return what was found, a line for each check; nothing when there is nothing to say."""
    checks, refused = attempt.checks, {check.name for check in attempt.refused}
    carried = {name: value for name, value in attempt.plan["carried"].items() if name not in refused}
    if all(check.state == "ok" for check in checks):
        return ""
    if carried:
        checks = [*checks, Check("carried", "ok", ", ".join(f"{name} {value}" for name, value in carried.items()))]
    return _lines(checks)


def _lines(checks: Iterable[Check]) -> str:
    return "".join(f"{check.state:8} {check.name:9} {clean(check.text)}\n" for check in checks)


def _as_json(attempt: _Attempt) -> dict[str, Any]:
    plan = attempt.plan
    return {
        **choice.named(attempt.row),
        "title": attempt.row["title"],
        "argv": [] if any(check.name == "session" for check in attempt.refused) else attempt.argv,
        "folder": plan["folder"],
        "env": attempt.env,
        "line": attempt.line,
        "carried": plan["carried"],
        "withheld": plan["withheld"],
        "checks": [check._asdict() for check in attempt.checks],
    }
