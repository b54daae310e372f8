"""``sess stop``: stop the daemon."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sess.front import NotRunning
from sess.options import Parser

if TYPE_CHECKING:
    from sess.front import Call


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``stop``."""
    return Parser("stop", "", "Stop the daemon. The next search starts it again.")


def run(call: Call) -> int:
    """Stop the daemon; one that does not run is no error."""
    try:
        call.ask({"op": "stop"})
    except NotRunning as none:
        call.emit(1, f"{none.message}\n{none.hint}\n")
    else:
        call.emit(1, "the daemon stops\n")
    return 0
