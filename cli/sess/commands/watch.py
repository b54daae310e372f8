"""``sess watch``: follow changes as they happen."""

from __future__ import annotations

import json
import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sess import render
from sess.commands import find
from sess.options import Parser
from sessiond.protocol import DONE
from sessiond.text import clean

if TYPE_CHECKING:
    from sess.front import Call

_DESCRIPTION = """\
Follow the sessions that fit a query, a line for each change, until interrupted:

  new      it fits now            live  it became busy, idle, waiting or ended
  changed  something else of it   gone  it fits no more, or was deleted

The query is that of `sess find`; `sess watch is:live` is made for status bars.\
"""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``watch``."""
    parser = Parser("watch", "[QUERY…]", _DESCRIPTION, count=None)
    parser.add_argument("--here", action="store_true", help="only sessions in the current folder or below")
    parser.add_argument("--json", action="store_true", help='one JSON object a line: {"event":…,"row":{…}}')
    return parser


def run(call: Call) -> int:
    """Print what happens, as it happens. Ends when the daemon does."""
    from sess import client, relay

    request: dict[str, Any] = {"op": "subscribe", "q": find.query(call.operands)}
    if call.options.here:
        request["cwd"] = os.path.normpath(find.absolute(".", call.context))
    call.ask({"op": "find", "limit": 1})  # starts a daemon
    for event in client.follow(relay.paths(), request):
        if call.options.json:
            call.emit(1, json.dumps(event) + "\n")
        elif "row" in event:
            call.emit(1, _line(event["event"], event["row"]))
    return DONE


def _line(event: str, row: dict[str, Any]) -> str:
    now = time.strftime("%H:%M:%S")
    state = row.get("live") or ("lost" if row.get("lost") else "")
    parts = (now, event, render.short_ids([row["id"]])[0], row["app"], state, row.get("branch"), row.get("title"))
    return "  ".join(clean(part) for part in parts if part) + "\n"
