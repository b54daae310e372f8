"""``sess reindex``: rebuild the index."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sess.options import Parser

if TYPE_CHECKING:
    from sess.front import Call


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``reindex``."""
    return Parser("reindex", "", "Read all sessions again. Searches go on meanwhile.")


def run(call: Call) -> int:
    """Start it; the daemon does not wait for the end."""
    call.ask({"op": "reindex"})
    call.emit(1, "the index is being rebuilt; `sess status` says how far it is\n")
    return 0
