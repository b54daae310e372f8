"""``sess _complete KIND PREFIX``: what the shells' completion asks for, as value, tab and description on a line."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sess import render
from sess.options import Parser
from sessiond.protocol import DONE, Problem
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sess.front import Ask, Call

_LOOKED_AT = 300
"""Newest sessions whose branches are offered."""
_OFFERED = 100
"""Ids that are offered at most."""
_DESCRIPTION = 60
"""Columns of a description."""
_ID = re.compile(r"\w[\w.-]*", re.ASCII)


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``_complete``."""
    return Parser("_complete", "KIND PREFIX", "For the completion that `sess init` sets up.", count=2)


def run(call: Call) -> int:
    """Print the candidates."""
    kind, prefix = call.operands
    if kind not in _KINDS:
        raise Problem("usage", f"_complete: there is no kind {kind}", f"One of: {' '.join(_KINDS)}")
    lines = []
    for value, description in _KINDS[kind](call.ask, prefix):
        if value and value == clean(value) and value.startswith(prefix):
            lines.append(f"{value}\t{description}\n")
    call.emit(1, "".join(lines))
    return DONE


def _ids(ask: Ask, prefix: str) -> Iterator[tuple[str, str]]:
    now = time.time()
    quoted = prefix.replace('"', "")
    for row in _found(ask, q=f'id:"{quoted}"' if quoted else "", limit=_OFFERED):
        if _ID.fullmatch(row["id"]):
            title = clean(row["title"]) or "(no title)"
            yield row["id"], render.cut(f"{render.age(row['updated'] or row['mtime'], now)} · {title}", _DESCRIPTION)


def _apps(ask: Ask, prefix: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001 - there are few
    for name, number in ask({"op": "status"}).ok["sessions"].items():
        yield name, render.count(number, "session")


def _branches(ask: Ask, prefix: str) -> Iterator[tuple[str, str]]:
    numbers: dict[str, int] = {}
    for row in _found(ask, branch=prefix, limit=_LOOKED_AT):
        if branch := row["branch"]:
            numbers[branch] = numbers.get(branch, 0) + 1
    for branch, number in numbers.items():
        yield branch, render.count(number, "session")


def _found(ask: Ask, **fields: Any) -> list[dict[str, Any]]:
    return ask({"op": "find", **fields}).rows


_KINDS: dict[str, Callable[[Ask, str], Iterator[tuple[str, str]]]] = {
    "ids": _ids,
    "apps": _apps,
    "branches": _branches,
}
