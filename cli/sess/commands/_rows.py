"""``sess _rows``: the lines of the picker, each an id, a tab and what a person sees of the session."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sess import render
from sess.commands import find
from sess.options import Parser
from sessiond.protocol import DONE, NOTHING
from sessiond.query import parse
from sessiond.text import clean

if TYPE_CHECKING:
    from sess.front import Call

LIMIT = 200
"""Sessions in the list: who does not see the one wanted types a letter more."""

_WAIT = 2000
"""ms for the daemon to read what is there, at most."""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``_rows``."""
    parser = Parser("_rows", "QUERY", "For `sess pick`.", count=1)
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--columns", type=int, default=80)
    return parser


def run(call: Call) -> int:
    """Print them. It goes into a pipe, and from there to a terminal with colors unless *plain*."""
    options = call.options
    request: dict[str, Any] = {"op": "find", "q": call.operands[0], "limit": LIMIT, "all": options.all}
    if options.here:
        request["cwd"] = os.path.normpath(find.absolute(".", call.context))
    answer = call.ask(request)
    if not answer.rows and answer.ok["progress"]:
        # The daemon has just started; nothing asks again before the person types.
        call.ask({"op": "sync", "timeout_ms": _WAIT})
        answer = call.ask(request)
    rows = [row for row in answer.rows if row["id"] == clean(row["id"])]
    if not rows:
        return NOTHING
    now = time.time()
    terms = [term for term in parse(request["q"], now).terms if not term.negated]
    context = call.context._replace(columns=options.columns, color=not options.plain)
    lines = render.table(rows, terms, context, now).splitlines()
    call.emit(1, "".join(f"{row['id']}\t{line}\n" for row, line in zip(rows, lines, strict=True)))
    return DONE
