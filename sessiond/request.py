"""What a request says: its values, and the query that they make. Raises Problem for what cannot be understood."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sessiond.protocol import Problem
from sessiond.query import Query, Term, parse, when
from sessiond.text import clean, fold, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Request = dict[str, Any]


def text(request: Request, key: str) -> str:
    """Return a string, ``""`` where there is none."""
    value = request.get(key)
    if value is not None and not isinstance(value, str):
        raise Problem("usage", f"{key} has to be a string", "See docs/protocol.md.")
    return value or ""


def integer(request: Request, key: str, default: int, least: int, most: int) -> int:
    """Return a number from *least* to *most*."""
    value = request.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Problem("usage", f"{key} has to be a number from {least} to {most}", "See docs/protocol.md.")
    return value


def choice(request: Request, key: str, choices: tuple[str, ...]) -> str:
    """Return one of *choices*, the first where there is none."""
    value = request.get(key) or choices[0]
    if value not in choices:
        raise Problem("usage", f"{key} has to be one of: {' '.join(choices)}", "See docs/protocol.md.")
    return str(value)


def folder(request: Request, key: str) -> str:
    """Return an absolute path, ``""`` where there is none."""
    path = text(request, key)
    if path and not path.startswith("/"):
        raise Problem("usage", f"{key} {clean(path)}: not an absolute folder", "Send the whole path.")
    return path


def query(request: Request, apps: Collection[str], resolve: Callable[[str], str]) -> Query:
    """Return the query of ``find``; *apps* are those that can be named, *resolve* follows the links in a folder."""
    now = time.time()
    found = parse(text(request, "q"), now)
    changes: dict[str, Any] = {}
    for key in ("since", "until"):
        if typed := text(request, key):
            changes[key] = when(typed, now, end=key == "until")
            if changes[key] is None:
                raise Problem(
                    "usage",
                    f"--{key} {clean(typed)}: that is no time",
                    "Give an age (45m 3h 2d 1w 2mo 1y), a date (2026-11-30), today or yesterday.",
                )
    if branch := text(request, "branch"):
        changes["terms"] = (*found.terms, Term(fold(branch), "branch", typed=f"--branch {clean(branch)}"))
    if below := folder(request, "cwd"):
        changes["below"] = resolve(below) if request.get("resolve") is True else os.path.normpath(below)
    if names := request.get("app"):
        changes["apps"] = _known(names if isinstance(names, list) else [names], apps)
    if request.get("all") is True:
        changes["everything"] = True
    return replace(found, **changes)


def _known(names: list[Any], apps: Collection[str]) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str) or name not in apps:
            near = nearest(str(name), apps)
            meant = f"Did you mean {near}? " if near else ""
            raise Problem("usage", f"no agent is called {clean(str(name))}", f"{meant}Known are: {' '.join(apps)}.")
    return tuple(names)
