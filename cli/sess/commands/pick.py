"""``sess pick``: choose a session as you type, and resume it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sess.options import Parser

if TYPE_CHECKING:
    from sess.front import Call

_DESCRIPTION = """\
Choose a session as you type. The query is that of `sess find`; below the list
stands what `sess show` says of the session and how it would be resumed.

  Enter   resume             Alt-H   only this folder, or everywhere
  Ctrl-O  print the command  Alt-A   hidden ones too, or not
  Ctrl-Y  copy the id        Esc     nothing

With fzf, or that of the Python package iterfzf; else as a numbered list.\
"""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``pick``."""
    parser = Parser("pick", "[QUERY…]", _DESCRIPTION, count=None)
    parser.add_argument("--here", action="store_true", help="begin with the current folder and below")
    parser.add_argument("--all", action="store_true", help="begin with hidden sessions too")
    parser.add_argument("--print-id", action="store_true", help="print the id that was chosen, and do nothing else")
    return parser


def run(call: Call) -> int:
    """Let a person choose. The relay does the same at once when the daemon runs."""
    from sess import client, relay
    from sess.picker import Picker

    options, context, where = call.options, relay.context(), relay.paths()
    call.ask({"op": "find", "limit": 1})  # starts a daemon
    flags = [f"--{key.replace('_', '-')}" for key in ("here", "all", "print_id") if getattr(options, key)]
    return Picker(where, context, lambda words: client.run(where, context, words), [*flags, "--", *call.operands]).run()
