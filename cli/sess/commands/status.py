"""``sess status``: is the daemon well."""

from __future__ import annotations

import json
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sess import render
from sess.front import NotRunning
from sess.options import Parser
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sess.front import Call, Context


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``status``."""
    parser = Parser("status", "", "Say whether the daemon runs and what it has found. Exit code 3: it does not.")
    parser.add_argument("--json", action="store_true", help="for bug reports: no title, no path")
    return parser


def run(call: Call) -> int:
    """Show it. Does not start a daemon."""
    try:
        status = call.ask({"op": "status"}).ok
    except NotRunning as none:
        call.emit(1, '{"running": false}\n' if call.options.json else f"{none.message}\n{none.hint}\n")
        return none.exit
    if call.options.json:
        call.emit(1, json.dumps({"running": True, **_without_paths(status)}) + "\n")
    else:
        call.emit(1, "".join(f"{line}\n" for line in _lines(status, call.context, time.time())))
    return 0


def _without_paths(status: dict[str, Any]) -> dict[str, Any]:
    """Return *status* as it can be shown to others: of the problems, which may name files, only how many there are."""
    roots = [{"app": root["app"], "state": root["state"]} for root in status["roots"]]
    return {**status, "roots": roots, "problems": len(status["problems"])}


def _lines(status: dict[str, Any], context: Context, now: float) -> Iterator[str]:
    sessions, hidden = status["sessions"], sum(status["hidden"].values())
    yield (
        f"sessiond {status['version']} (pid {status['pid']}), started {render.ago(status['started'], now)}: "
        f"{render.count(sum(sessions.values()), 'session')}{render.by_name(sessions)}, {hidden:,} hidden"
    )
    progress = status["progress"]
    reconciled = status["reconciled"]
    if progress:
        freshness = f"still reading: {progress['done']:,} of {progress['of']:,} files"
    elif reconciled is None:
        freshness = "not yet compared with the disk"
    else:
        freshness = f"compared with the disk {render.ago(reconciled, now)}"
    yield (
        f"{render.count(status['units'], 'file')} read, {status['unreadable']:,} unreadable; {freshness}; "
        f"index {render.size(status['index_bytes'])}"
    )
    agents = dict.fromkeys(root["app"] for root in status["roots"] if root["state"] != "missing")
    yield f"agents found: {', '.join(agents) or 'none'}"
    for root in status["roots"]:
        if root["state"] != "watched":
            yield clean(f"{root['app']}: {render.folder(root['path'], context.home)} is {root['state']}")
    for problem in status["problems"]:
        yield clean(problem)
