"""Which session is meant: by an id, the beginning of one, or a query; and if several are, by asking."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any

from sess import render
from sess.commands import find
from sess.quoting import quoted
from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sess.front import Call, Context

Row = dict[str, Any]

_OFFERED = 9
"""Sessions offered at most when several match."""
_MORE = "There are more: use more words."
_PREFIX = re.compile("[0-9A-Za-z_-]{4,}")


def named(row: Row) -> Row:
    """Return what tells the daemon which session is meant: two stores may have the same id."""
    return {key: row[key] for key in ("id", "app", "root")}


def session(call: Call, *, last: bool) -> Row:
    """Return the row of the session that the operands mean, or with *last* the newest of them in this folder.

    Raises Problem when that is none or remains open.
    """
    words = call.operands
    rows: list[Row] = []
    if len(words) == 1 and not last and _PREFIX.fullmatch(words[0]):
        rows = _beginning(call, words[0])
    if not rows:
        request: dict[str, Any] = {"op": "find", "q": find.query(words), "limit": _OFFERED + 1}
        if last:
            request |= {"cwd": os.path.normpath(find.absolute(".", call.context)), "limit": 1}
        found = call.ask(request)
        rows = found.rows
        if not rows:
            sought = " ".join([*words, *(["in this folder"] if last else [])]) or "there are none yet"
            reading = "; the daemon is still reading" if found.ok["progress"] else ""
            raise Problem("nothing", f"no session to resume: {sought}{reading}", "`sess find WORDS` searches.")
    return rows[0] if len(rows) == 1 else _one(call, rows)


def can_ask(context: Context) -> bool:
    """Return whether there is a person to ask: who types is read from stdin, what is asked goes to stderr."""
    return {"0", "2"} <= set(context.terminals)


def line(call: Call, question: str) -> str:
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


def _beginning(call: Call, prefix: str) -> list[Row]:
    """Return the rows whose id is *prefix* or begins with it: those that are for people, if there are any."""
    found = call.ask({"op": "find", "q": f'id:"{prefix}"', "all": True, "limit": 1000}).rows
    rows = [row for row in found if row["id"].lower().startswith(prefix.lower())]
    return [row for row in rows if not row["hidden"]] or rows


def _one(call: Call, rows: Sequence[Row]) -> Row:
    """Return the one of *rows* that the person chooses. Raises Problem."""
    shown, more = rows[:_OFFERED], [_MORE] if len(rows) > _OFFERED else []
    # Of two with one id, only the store tells which is which.
    twins = len({row["id"] for row in shown}) < len(shown)
    stores = [f"  {_store(row['root'])}" if twins else "" for row in shown]
    if not can_ask(call.context):
        lines = [f"{row['id']}  {row['app']}  {row['title']}{store}" for row, store in zip(shown, stores, strict=True)]
        hint = ["Add the store of the one that is meant, as it stands there."] if twins else []
        raise Problem("ambiguous", "which of these is meant?", "\n".join([*lines, *more, *hint]))
    context = call.context
    table = render.table(shown, [], context._replace(columns=context.columns - 3), time.time()).splitlines()
    for number, (text, store) in enumerate(zip(table, stores, strict=True), 1):
        call.emit(2, f"{number}  {text}\n" + (f" {store}\n" if store else ""))
    call.emit(2, "".join(f"{text}\n" for text in more))
    while answer := line(call, f"Which one, 1 to {len(shown)}? "):
        if answer.isdecimal() and 1 <= int(answer) <= len(shown):
            return shown[int(answer) - 1]
    raise Problem("ambiguous", "not resumed: none was chosen", "`sess show ID` tells more of one.")


def _store(root: str) -> str:
    """Return the word of a query that means the store *root*."""
    return quoted(f'store:"{root}"' if " " in root else f"store:{root}")
