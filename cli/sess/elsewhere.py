"""Where a repository may be now whose folder is gone: it is looked for, and never taken."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING, Any

from sess import git
from sess.choice import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sess.front import Ask

Plan = dict[str, Any]

LIMIT = 4.0
"""Seconds for all of it: one folder on a network that does not answer takes git's whole time."""
_EVIDENCE = 10
"""Other sessions of a folder that are asked which repository it held."""
_CANDIDATES = 40
"""Folders that are asked whether they hold it now: git takes 3 ms for each."""
_OFFERED = 3


class _Over(Exception):  # noqa: N818 - the time is
    """The time for the search is over."""


def folders(plan: Plan, home: str, ask: Ask) -> tuple[list[str], bool]:
    """Return where the repository that was in the folder of *plan* may be, and whether the time was enough to look."""
    end = time.monotonic() + LIMIT
    found: list[str] = []
    try:
        for folder in _search(plan, home, ask, end):
            if folder not in found:
                found.append(folder)
            if len(found) == _OFFERED:
                break
    except _Over:
        return found, False
    return found, True


def _left(end: float) -> float:
    """Return how long git may take for its next answer. Raises _Over."""
    left = end - time.monotonic()
    if left <= 0:
        raise _Over
    return min(left, git.LIMIT)


def _search(plan: Plan, home: str, ask: Ask, end: float) -> Iterator[str]:
    gone = plan["folder"]
    above = os.path.dirname(gone)
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    # A worktree inside its repository, as agents make them; a home in a repository says nothing.
    with contextlib.suppress(git.Failed):
        if (top := git.top(above, _left(end))) != home:
            yield top
    is_same = _same_repository(plan, ask, end)
    if is_same is None:
        return
    rows = ask({"op": "find", "limit": 500, "all": True}).rows
    paths = dict.fromkeys(path for row in rows for path in (row["launch_dir"], row["cwd"]) if path and path != gone)
    asked = 0
    for path in paths:
        _left(end)
        if asked == _CANDIDATES:
            return
        if os.path.isdir(path):
            asked += 1
            if is_same(path):
                yield path


def _same_repository(plan: Plan, ask: Ask, end: float) -> Callable[[str], bool] | None:
    """Return what tells whether a folder holds the repository that was in the one of *plan*, None when nothing can.

    It is the same if it has a remote of it or a commit of it, and with that its root commit. Not
    every agent records them: then another session of that folder may know.
    """
    gone = plan["folder"]
    below = ask({"op": "find", "cwd": gone, "limit": 10 * _EVIDENCE, "all": True}).rows
    others = [row for row in below if gone in (row["launch_dir"], row["cwd"])][:_EVIDENCE]
    origins = [plan]
    for other in others:
        _left(end)
        origins.append(ask({"op": "plan", **named(other)}).ok)
    commits = {origin["commit"] for origin in origins if origin["commit"]}
    addresses = {_address(origin["repository"]) for origin in origins if origin["repository"]}
    if not commits and not addresses:
        return None

    def is_same(folder: str) -> bool:
        with contextlib.suppress(git.Failed):
            if addresses & set(map(_address, git.remotes(folder, _left(end)))):
                return True
            return any(git.holds(folder, commit, _left(end)) for commit in commits)
        return False

    return is_same


def _address(url: str) -> str:
    """Return *url* without scheme, credentials and ending: ``git@host:a/b.git`` and ``https://host/a/b`` are one."""
    url = re.sub(r"^[a-z+]+://", "", url.strip())
    host, _, path = re.sub(r"^[^/@]*@", "", url).replace(":", "/", 1).partition("/")
    return f"{host.lower()}/{path.removesuffix('/').removesuffix('.git')}"
