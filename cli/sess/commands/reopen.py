"""``sess reopen``: the sessions that ended without being closed, and start them again."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sess import render
from sess.commands import resume
from sess.options import Parser
from sessiond.protocol import DONE, NO_PROGRAM, NOTHING, Problem
from sessiond.query import when
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sess.front import Call

Row = dict[str, Any]

_LIMIT = 50
_TMUX_SESSION = "sess"
_WINDOW = "#{pane_id} #{pane_pid}"
"""What tells a window from any other, also of a server that ended and was started again."""
_SETTLED = 2.0
"""Seconds after which a window that is still there counts as started."""
_DESCRIPTION = """\
List the sessions that ended without being closed: by a crash, a reboot, a kill.
In a terminal, ask which of them to resume; more than one needs --tmux.\
"""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``reopen``."""
    parser = Parser("reopen", "", _DESCRIPTION)
    add = parser.add_argument
    add("--since", metavar="WHEN", default="7d", help="lost since then; 7d if not given")
    add("--tmux", action="store_true", help="each in a window of its own")
    add("--all", action="store_true", help="do not ask: all of them, with --tmux")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="only list, one JSON object a line with its plan")
    form.add_argument("--ids", action="store_true", help="only list, one id a line")
    return parser


def run(call: Call) -> int:
    """List them, each with what a resume would do, and start those that are chosen."""
    options, context = call.options, call.context
    if options.all and not options.tmux:
        raise Problem("usage", "reopen: --all needs --tmux", "One terminal holds one session.")
    call.ask({"op": "sync", "timeout_ms": 2000})
    rows = call.ask({"op": "find", "q": "is:lost", "since": options.since, "limit": _LIMIT}).rows
    if not rows:
        since = render.local_time(when(options.since, time.time()) or 0)
        call.emit(2, f"sess: no session ended without being closed since {since}\n")
        return NOTHING
    if options.ids:
        call.emit(1, render.ids(rows))
        return DONE
    plans = [_plan(call, row) for row in rows]
    if options.json:
        call.emit(1, render.json_lines([{**row, "plan": plan} for row, plan in zip(rows, plans, strict=True)]))
        return DONE
    table = render.table(rows, [], context._replace(columns=context.columns - 4), time.time()).splitlines()
    for number, (line, plan) in enumerate(zip(table, plans, strict=True), 1):
        call.emit(1, f"{number:>3} {line}\n" + "".join(f"      {remark}\n" for remark in _remarks(plan)))
    chosen = rows if options.all else _chosen(call, rows)
    if options.tmux:
        return _in_tmux(call, chosen)
    for row in chosen:
        return resume.run(call._replace(options=resume.parser().read([row["id"]])[0], operands=[row["id"]]))
    return DONE


def _plan(call: Call, row: Row) -> dict[str, Any]:
    try:
        return call.ask({"op": "plan", **{key: row[key] for key in ("id", "app", "root")}}).ok
    except Problem as problem:
        return {"checks": [{"name": "plan", "state": "refused", "text": problem.message}]}


def _remarks(plan: dict[str, Any]) -> Iterator[str]:
    if plan.get("argv"):
        yield clean(f"{' '.join(plan['argv'])}  in {plan.get('folder') or '?'}")
    for check in plan.get("checks", ()):
        if check["state"] != "ok":
            yield clean(f"{check['state']}: {check['name']}: {check['text']}")


def _chosen(call: Call, rows: Sequence[Row]) -> list[Row]:
    """Return those whose numbers the person types; none without one."""
    if not {"0", "1"} <= set(call.context.terminals):
        return []
    call.emit(2, "Which? Numbers, or nothing: " if call.options.tmux else "Which? A number, or nothing: ")
    try:
        typed = input().replace(",", " ").split()
    except EOFError:
        typed = []
    if not all(word.isdecimal() and 0 < int(word) <= len(rows) for word in typed):
        raise Problem("usage", f"reopen: numbers from 1 to {len(rows)} are wanted", "`sess reopen` asks again.")
    if len(typed) > 1 and not call.options.tmux:
        raise Problem("usage", "reopen: one terminal holds one session", "With --tmux each gets a window of its own.")
    return [rows[int(word) - 1] for word in dict.fromkeys(typed)]


def _in_tmux(call: Call, rows: Sequence[Row]) -> int:
    """Start each of *rows* in a window: of the session we are in, else of one named ``sess``."""
    from sess.picker import ourselves

    tmux = shutil.which("tmux")
    if tmux is None:
        raise Problem("no-program", "reopen: tmux is not installed", "Without --tmux, one session is resumed here.")
    inside = "TMUX" in os.environ
    windows = []
    for row in rows:
        # A title may hold anything, and tmux expands what is in a window's name; an id cannot.
        window = ["-P", "-F", _WINDOW, "-n", f"{row['app']}-{row['id'][:8]}", *ourselves(), "resume", row["id"]]
        where = ["new-window", "-d"] if inside else ["new-session", "-d", "-s", _TMUX_SESSION]
        if not inside and _has_session(tmux):
            where = ["new-window", "-d", "-t", f"{_TMUX_SESSION}:"]
        done = subprocess.run([tmux, *where, *window], check=False, capture_output=True, text=True)  # noqa: S603 - no shell; ids are checked by the plan
        if done.returncode:
            hint = "`sess resume ID` resumes one without it."
            raise Problem("no-program", f"reopen: tmux opens no window: {clean(done.stderr)}", hint)
        windows.append((done.stdout.strip(), row))
    there = _lasting(tmux, windows)
    ended = [row for window, row in windows if window not in there]
    if len(ended) < len(rows) and not inside:
        started = render.count(len(rows) - len(ended), "window")
        call.emit(1, f"{started} in tmux; `tmux attach -t {_TMUX_SESSION}` shows them\n")
    for row in ended:
        title = clean(row["title"]) or "(no title)"
        call.emit(2, f"sess: reopen: its window closed at once: {title}\n  `sess resume {row['id']}` says why.\n")
    return NO_PROGRAM if ended else DONE


def _lasting(tmux: str, windows: Sequence[tuple[str, Row]]) -> set[str]:
    """Return the windows of tmux after `_SETTLED` seconds, or as soon as none of *windows* is left."""
    deadline = time.monotonic() + _SETTLED
    while True:
        asked = [tmux, "list-panes", "-a", "-F", _WINDOW]
        there = set(subprocess.run(asked, check=False, capture_output=True, text=True).stdout.splitlines())  # noqa: S603 - fixed words
        if time.monotonic() > deadline or not there.intersection(window for window, _ in windows):
            return there
        time.sleep(0.05)


def _has_session(tmux: str) -> bool:
    asked = [tmux, "has-session", "-t", f"={_TMUX_SESSION}"]
    return not subprocess.run(asked, check=False, stderr=subprocess.DEVNULL).returncode  # noqa: S603 - fixed words
