"""What is looked at in the folder of a session before it is resumed there."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from sess import elsewhere, git, render
from sess.quoting import quoted_folder
from sessiond.session import Check
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sess.front import Ask

Row = dict[str, Any]
Plan = dict[str, Any]

_NAME = 60
"""Columns of a branch's name that are shown."""
_NO_TEXT = "\ufffd"
"""What the index has in place of a character that a path cannot hold, such as NUL."""
ASKS = "--yes goes on all the same."


class Place(NamedTuple):
    """What must still be the same when a question about it was answered."""

    device: int
    inode: int
    head: git.Head | None
    """None where git gave no answer."""


class Preflight(NamedTuple):
    """What a person should know before a session is resumed."""

    checks: list[Check]
    place: Place | None
    """None when there is no folder to start in."""


class _Obstacle(NamedTuple):
    """Why a folder cannot be entered."""

    text: str
    absent: bool = False
    """It may be somewhere else now."""
    creatable: bool = False
    """Nothing is in its place."""


def look(row: Row, plan: Plan, home: str, ask: Ask) -> Preflight:
    """Return what the daemon and the folder tell of *row*, which is to be resumed as *plan* says."""
    known = [Check(**check) for check in plan["checks"]]
    if any(check.name == "session" and check.state == "refused" for check in known):
        return Preflight(known, None)
    folder = plan["folder"]
    if not folder:
        text = f"none is recorded, but {row['launch_dir']}" if row["launch_dir"] else "none is recorded"
        unknown = Check("folder", "refused", text, "Say where to go on: --dir DIR")
        return Preflight([unknown, *known], None)
    shown = render.folder(folder, home)
    if obstacle := _obstacle(folder):
        hint = _remedies(row, plan, obstacle, home, ask)
        return Preflight([Check("folder", "refused", f"{shown} {obstacle.text}", hint), *known], None)
    found = os.stat(folder)
    try:
        head, why = git.head(folder), None
    except git.Failed as failure:
        head, why = None, failure
    checks = [
        Check("folder", "ok" if folder == row["launch_dir"] else "noted", shown),
        *(_branch(row["branch"], head or why, folder, home) if row["branch"] else ()),
        *(_work(plan, head, folder) if head else ()),
    ]
    return Preflight([*checks, *known], Place(found.st_dev, found.st_ino, head))


def changed(before: Place | None, now: Place | None) -> Iterator[Check]:
    """Yield what became another one while the person was asked."""
    if before is None or now is None:
        return
    if (before.device, before.inode) != (now.device, now.inode):
        yield Check("folder", "noted", "another one is in its place since you were asked")
    elif before.head != now.head:
        was, is_now = (_described(place.head) for place in (before, now))
        yield Check("branch", "noted", f"{is_now} since you were asked; before, {was}")


def _described(head: git.Head | None) -> str:
    if head is None:
        return "not known"
    return f"{_cut(head.branch) if head.branch else 'HEAD'} at {head.commit[:7] or 'no commit'}"


def _cut(branch: str) -> str:
    return render.cut(clean(branch), _NAME)


def _obstacle(folder: str) -> _Obstacle | None:
    """Return why *folder* cannot be entered, or None when it can."""
    try:
        mode = os.stat(folder).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _missing(folder)
    except PermissionError:
        return _Obstacle("cannot be looked at: a folder above it may not be entered")
    except (OSError, ValueError) as error:
        return _Obstacle(f"cannot be looked at: {getattr(error, 'strerror', None) or error}")
    if not stat.S_ISDIR(mode):
        return _Obstacle("is a file, not a folder", absent=True)
    return None if os.access(folder, os.X_OK) else _Obstacle("may not be entered: its mode forbids it")


def _missing(folder: str) -> _Obstacle:
    """Return what is in the way of *folder*, which is not there."""
    if _NO_TEXT in folder:
        return _Obstacle("is not there; characters that no path has are recorded in it")
    there = folder
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if os.path.islink(there) and not os.path.exists(there):
        target = render.cut(clean(os.readlink(there)), _NAME)
        whose = "" if there == folder else f"{os.path.basename(there)} above it "
        return _Obstacle(f"{'is gone: ' if whose else ''}{whose}is a link to {target}, which is gone", absent=True)
    if not os.path.isdir(there):
        return _Obstacle(f"is gone: {os.path.basename(there)} above it is a file", absent=True)
    return _Obstacle("is gone", absent=True, creatable=True)


def _branch(then: str, now: git.Head | git.Failed | None, folder: str, home: str) -> Iterator[Check]:
    was = _cut(then)
    if isinstance(now, git.NoRepository):
        yield Check("branch", "asks", f"then {was}; now there is no git repository", ASKS)
    elif not isinstance(now, git.Head):
        yield Check("branch", "asks", f"then {was}; now not known: {now}", ASKS)
    elif now.branch == then:
        yield Check("branch", "ok", was)
    else:
        try:
            if now.branch and then == f"heads/{now.branch}" and not git.has_branch(folder, then):
                # So git shortens the branch where a tag has its name.
                yield Check("branch", "ok", _cut(now.branch))
                return
            was += _whereabouts(then, folder, home)
        except git.Failed:
            pass
        here = _cut(now.branch) if now.branch else f"none, HEAD is detached at {now.commit[:7]}"
        yield Check("branch", "asks", f"then {was}; here now {here}", ASKS)


def _whereabouts(branch: str, folder: str, home: str) -> str:
    """Return, as the end of a sentence, what became of a branch that is not checked out here. Raises git.Failed."""
    if not git.has_branch(folder, branch):
        return ", which no longer exists"
    worktree = git.worktree_of(folder, branch)
    return f", now checked out in {render.folder(worktree, home)}" if worktree else ""


def _work(plan: Plan, head: git.Head, folder: str) -> Iterator[Check]:
    """Yield what was done in the repository since, and what is not committed."""
    try:
        if head.commit and plan["commit"]:
            yield from _commits(folder, plan["commit"])
        if number := git.changes(folder):
            yield Check("changes", "noted", f"{render.count(number, 'file')} with uncommitted changes")
    except git.Failed as failure:
        yield Check("changes", "noted", f"not known: {failure}")


def _commits(folder: str, commit: str) -> Iterator[Check]:
    short = commit[:7]
    if not git.holds(folder, commit):
        yield Check("commits", "noted", f"{short}, at which the session began, is not in this repository")
        return
    ahead, behind = git.moved(folder, commit)
    if ahead or behind:
        lost = f", and {render.count(behind, 'commit')} of then missing" if behind else ""
        yield Check("commits", "noted", f"{render.count(ahead, 'commit')} since the session began at {short}{lost}")


def _remedies(row: Row, plan: Plan, obstacle: _Obstacle, home: str, ask: Ask) -> str:
    """Return what can be done about a folder that cannot be entered, a line for each possibility."""
    folder = plan["folder"]
    lines = []
    if row["cwd"] not in (None, folder) and os.path.isdir(row["cwd"]):
        lines.append(f"The session was in this folder too: --dir {quoted_folder(row['cwd'])}")
    if obstacle.absent:
        found, complete = elsewhere.folders(plan, home, ask)
        lines += [f"The same repository is here: --dir {quoted_folder(path)}" for path in found]
        if not complete:
            lines.append(f"Not every folder was looked at: that takes more than {elsewhere.LIMIT:.0f} s.")
    for line in plan["folder_gone"].split("\n"):
        if obstacle.creatable or "FOLDER" not in line:  # the line makes it
            lines.append(line.replace("FOLDER", quoted_folder(folder)))
    return "\n".join(lines)
