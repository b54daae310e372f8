"""``sess show``: everything known of one session."""

from __future__ import annotations

import json
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sess import quoting, render
from sess.choice import named
from sess.options import Parser
from sessiond.protocol import Problem
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sess.front import Call, Context
    from sessiond.protocol import Answer

_NAMES = 12
"""Width of the column of names."""
_PROMPT_LINES = 4
"""Lines of a prompt a terminal gets: enough to recognise the session by."""
_WAIT = 2000
"""ms for the daemon to read a session that it does not know yet, at most."""
_PLAN = ("argv", "folder", "set", "unset", "carried", "withheld", "checks")
"""What of a plan is shown."""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``show``."""
    parser = Parser(
        "show", "ID", "Show all that is known of one session. The first 4 characters of its id may do.", count=1
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, with both prompts in full")
    return parser


def run(call: Call) -> int:
    """Show it."""
    context = call.context
    answer = _found(call)
    row = answer.rows[0]
    plan = call.ask({"op": "plan", **named(row)}).ok
    if call.options.json:
        prompts = {key: answer.ok[key] for key in ("first_prompt", "last_prompt")}
        call.emit(1, json.dumps({**row, **prompts, "plan": {key: plan[key] for key in _PLAN}}) + "\n")
        return 0
    # What is no terminal gets each value whole, on one line.
    room = max(context.columns - _NAMES, 20) if context.stdout_is_terminal else None
    text = ""
    for name, value in [*_fields(row, answer.ok, context, time.time()), *_resume(plan)]:
        # The command is to be copied, so it stays on one line.
        lines = render.wrap(clean(value), room, _PROMPT_LINES) if room and name != "resume" else [clean(value)]
        text += f"{name:{_NAMES}}" + f"\n{'':{_NAMES}}".join(lines) + "\n"
    call.emit(1, text)
    return 0


def _found(call: Call) -> Answer:
    """Return the session that is meant, also of a daemon that has just started and reads it now. Raises Problem."""
    request = {"op": "show", "id": call.operands[0]}
    try:
        return call.ask(request)
    except Problem as problem:
        if problem.code != "nothing":
            raise
        call.ask({"op": "sync", "timeout_ms": _WAIT})
        return call.ask(request)


def _fields(row: dict[str, Any], prompts: dict[str, Any], context: Context, now: float) -> Iterator[tuple[str, str]]:
    """Yield what there is to say of *row*, with the name people know it by."""
    folder, launch = row["cwd"], row["launch_dir"]
    updated, created = row["updated"] or row["mtime"], row["created"]
    state = [*filter(None, [row["archived"] and "archived", row["live"], row["hidden"] and f"hidden: {row['hidden']}"])]
    yield "title", row["title"] or "(none)"
    yield "id", row["id"]
    yield "app", row["app"]
    if folder:
        yield "folder", render.folder(folder, context.home)
    if launch and launch != folder:
        yield "started in", render.folder(launch, context.home)
    if row["branch"]:
        yield "branch", row["branch"]
    yield "active", f"{render.ago(updated, now)} ({render.local_time(updated)})"
    if created:
        yield "created", f"{render.ago(created, now)} ({render.local_time(created)})"
    for key in ("model", "effort", "approval", "sandbox"):
        if row[key]:
            yield key, row[key]
    if state:
        yield "state", ", ".join(state)
    yield "file", f"{render.folder(row['path'], context.home)} ({render.size(row['bytes'])})"
    if prompts["prompt_problem"]:
        yield "prompts", f"not read: {prompts['prompt_problem']}"
    if prompts["first_prompt"]:
        yield "first", prompts["first_prompt"]
    if prompts["last_prompt"] and prompts["last_prompt"] != prompts["first_prompt"]:
        yield "last", prompts["last_prompt"]


def _resume(plan: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the command that `sess resume` would run if folder and branch are as they were, and what it leaves out."""
    if plan["folder"] and not any(check["state"] == "refused" for check in plan["checks"]):
        yield "resume", quoting.command(plan["argv"], plan["folder"], plan["set"])
    for check in plan["checks"]:
        yield check["state"], f"{check['name']}: {check['text']}"
