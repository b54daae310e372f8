"""What is looked at in the folder of a session before it is resumed there."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any

from sess import git, render
from sess.quoting import quoted
from sessiond.protocol import Problem
from sessiond.session import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sess.front import Ask

Row = dict[str, Any]
Plan = dict[str, Any]

_EVIDENCE = 10
"""Other sessions of a folder that are asked which repository it held."""
_CANDIDATES = 40
"""Folders that are asked whether they hold it now: git takes 3 ms for each."""
_OFFERED = 3
_ASKS = "--yes goes on all the same."


def named(row: Row) -> Row:
    """Return what tells the daemon which session is meant: two stores may have the same id."""
    return {key: row[key] for key in ("id", "app", "root")}


def checks(row: Row, plan: Plan, home: str, ask: Ask) -> list[Check]:
    """Return what a person should know before *row* is resumed as *plan* says: what the daemon and the folder tell."""
    known = [Check(**check) for check in plan["checks"]]
    if any(check.name == "session" and check.state == "refused" for check in known):
        return known
    return [*_folder(row, plan, home, ask), *known]


def _folder(row: Row, plan: Plan, home: str, ask: Ask) -> Iterator[Check]:
    folder = plan["folder"]
    if not folder:
        yield Check("folder", "refused", "none is recorded", "Say where to go on: --dir DIR")
    elif not os.path.isdir(folder):
        yield Check("folder", "refused", f"{render.folder(folder, home)} is gone", _gone(row, plan, home, ask))
    elif not os.access(folder, os.X_OK):
        yield Check("folder", "refused", f"{render.folder(folder, home)} may not be entered", "Its mode forbids it.")
    else:
        elsewhere = folder != row["launch_dir"]
        yield Check("folder", "noted" if elsewhere else "ok", render.folder(folder, home))
        yield from _repository(row, plan, folder, home)


def _repository(row: Row, plan: Plan, folder: str, home: str) -> Iterator[Check]:
    try:
        head = git.head(folder)
    except git.Failed as failure:
        if row["branch"]:
            none = isinstance(failure, git.NoRepository)
            now = "there is no git repository" if none else f"not known: {failure}"
            yield Check("branch", "asks" if none else "noted", f"then {row['branch']}; now {now}", _ASKS)
        return
    if row["branch"]:
        yield _branch(row["branch"], head, folder, home)
    try:
        if head.commit and plan["commit"]:
            yield from _commits(folder, plan["commit"])
        if changed := git.changes(folder):
            yield Check("changes", "noted", f"{render.count(changed, 'file')} with uncommitted changes")
    except git.Failed as failure:
        yield Check("changes", "noted", f"not known: {failure}")


def _branch(then: str, head: git.Head, folder: str, home: str) -> Check:
    if head.branch == then:
        return Check("branch", "ok", then)
    now = head.branch or f"none, HEAD is detached at {head.commit}"
    try:
        worktree = git.worktree_of(folder, then)
    except git.Failed:
        worktree = None
    if worktree:
        then += f", now checked out in {render.folder(worktree, home)}"
    elif not git.has_branch(folder, then):
        then += ", which no longer exists"
    return Check("branch", "asks", f"then {then}; here now {now}", _ASKS)


def _commits(folder: str, commit: str) -> Iterator[Check]:
    short = commit[:7]
    if not git.holds(folder, commit):
        yield Check("commits", "noted", f"{short}, at which the session began, is not in this repository")
        return
    ahead, behind = git.moved(folder, commit)
    if ahead or behind:
        lost = f", and {render.count(behind, 'commit')} of then missing" if behind else ""
        yield Check("commits", "noted", f"{render.count(ahead, 'commit')} since the session began at {short}{lost}")


def _gone(row: Row, plan: Plan, home: str, ask: Ask) -> str:
    """Return what can be done about a folder that is gone, a line for each possibility."""
    folder = plan["folder"]
    lines = []
    if row["cwd"] not in (None, folder) and os.path.isdir(row["cwd"]):
        lines.append(f"The session was in this folder too: --dir {quoted(row['cwd'])}")
    lines += [f"The same repository is here: --dir {quoted(path)}" for path in _elsewhere(plan, home, ask)]
    try:
        lines.append(plan["folder_gone"].replace("FOLDER", quoted(folder)))
    except Problem:
        lines.append(plan["folder_gone"])
    return "\n".join(lines)


def _elsewhere(plan: Plan, home: str, ask: Ask) -> list[str]:
    """Return where the repository that was in a folder may be now: it is looked for, and never taken."""
    gone = plan["folder"]
    above = os.path.dirname(gone)
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    found = []
    # A worktree inside its repository, as agents make them; a home in a repository says nothing.
    with contextlib.suppress(git.Failed):
        found = [top for top in [git.top(above)] if top != home]
    if is_same := _same_repository(plan, ask):
        rows = ask({"op": "find", "limit": 500, "all": True}).rows
        folders = dict.fromkeys(path for row in rows for path in (row["launch_dir"], row["cwd"]) if path)
        there = [path for path in folders if path != gone and path not in found and os.path.isdir(path)]
        found += [path for path in there[:_CANDIDATES] if is_same(path)]
    return found[:_OFFERED]


def _same_repository(plan: Plan, ask: Ask) -> Callable[[str], bool] | None:
    """Return what tells whether a folder holds the repository that was in the one of *plan*, None when nothing can.

    It is the same if it has a remote of it or a commit of it, and with that its root commit. Not
    every agent records them: then another session of that folder may know.
    """
    gone = plan["folder"]
    below = ask({"op": "find", "cwd": gone, "limit": 10 * _EVIDENCE, "all": True}).rows
    others = [row for row in below if gone in (row["launch_dir"], row["cwd"])][:_EVIDENCE]
    origins = [plan, *(ask({"op": "plan", **named(other)}).ok for other in others)]
    commits = {origin["commit"] for origin in origins if origin["commit"]}
    addresses = {_address(origin["repository"]) for origin in origins if origin["repository"]}
    if not commits and not addresses:
        return None

    def is_same(folder: str) -> bool:
        try:
            if addresses & set(map(_address, git.remotes(folder))):
                return True
        except git.Failed:
            pass
        return any(git.holds(folder, commit) for commit in commits)

    return is_same


def _address(url: str) -> str:
    """Return *url* without scheme, credentials and ending: ``git@host:a/b.git`` and ``https://host/a/b`` are one."""
    url = re.sub(r"^[a-z+]+://", "", url.strip())
    host, _, path = re.sub(r"^[^/@]*@", "", url).replace(":", "/", 1).partition("/")
    return f"{host.lower()}/{path.removesuffix('/').removesuffix('.git')}"
