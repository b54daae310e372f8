"""``sess prompt``: the text for a prompt that can only run a command."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sess import prompt
from sess.options import Parser
from sess.relay import paths
from sessiond.protocol import DONE, NOTHING

if TYPE_CHECKING:
    from sess.front import Call


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``prompt``."""
    return Parser(
        "prompt",
        "",
        "Print how many sessions the current folder has, and the title of the newest.\n"
        "Where the shell has the line of `sess init`, $SESS_PROMPT has it at no cost.",
    )


def run(call: Call) -> int:
    """Print it. The relay does the same for the bare command, with fewer imports."""
    shown = prompt.text(paths()).decode("utf-8", "replace")
    if shown:
        call.emit(1, shown + "\n")
    return DONE if shown else NOTHING
