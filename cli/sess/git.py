"""What git says of a folder. It is asked with a time limit, and changes nothing."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

LIMIT = 2.0
"""Seconds for an answer: a repository may be on a network, or huge."""

# A repository may name programs to run: a monitor of its files, and a bare one that lies committed in
# another anything at all.
_UNASKED = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")

# As `git rev-parse --local-env-vars` lists them: git would look there instead of in the folder.
_MISLEADING = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE"),
)


class Failed(Exception):  # noqa: N818 - what git did
    """git gave no answer; the message says why."""


class NoRepository(Failed):
    """The folder is in no repository."""


class Head(NamedTuple):
    """What is checked out."""

    branch: str | None
    """None when HEAD is detached."""
    commit: str
    """Abbreviated; ``""`` before the first commit."""


def ask(folder: str, *words: str) -> str:
    """Return what ``git -C folder words…`` prints, without the last newline. Raises Failed."""
    environment = {key: value for key, value in os.environ.items() if key not in _MISLEADING}
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    try:
        process = subprocess.Popen(  # noqa: S603 - words of ours, and refs that begin with refs/
            ["git", "-C", folder, *_UNASKED, *words],  # noqa: S607 - the person's git
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        out, error = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        # Not waited for: what hangs in a dead network file system cannot even be killed.
        process.kill()
        raise Failed(f"git gave no answer within {LIMIT:.0f} s") from None
    except FileNotFoundError:
        raise Failed("git is not installed") from None
    except (OSError, ValueError) as problem:
        raise Failed(f"git cannot be asked: {problem}") from None
    if process.returncode:
        why = os.fsdecode(error).strip().partition("\n")[0].removeprefix("fatal: ")
        raise NoRepository(why) if why.startswith("not a git repository") else Failed(why or "git failed")
    return os.fsdecode(out).removesuffix("\n")


def head(folder: str) -> Head:
    """Return what is checked out in *folder*. Raises Failed."""
    try:
        branch = ask(folder, "rev-parse", "--abbrev-ref", "HEAD")
    except NoRepository:
        raise
    except Failed as failure:
        if "HEAD" not in str(failure):
            raise
        return Head(ask(folder, "symbolic-ref", "--short", "HEAD"), "")  # before the first commit
    return Head(None if branch == "HEAD" else branch, ask(folder, "rev-parse", "--short", "HEAD"))


def has_branch(folder: str, branch: str) -> bool:
    """Return whether the repository has *branch*."""
    try:
        ask(folder, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}")
    except Failed:
        return False
    return True


def worktree_of(folder: str, branch: str) -> str | None:
    """Return the worktree that has *branch* checked out, or None. Raises Failed."""
    path = None
    for line in ask(folder, "worktree", "list", "--porcelain").split("\n"):
        if line.startswith("worktree "):
            path = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{branch}":
            return path
    return None


def changes(folder: str) -> int:
    """Return how many files have changes that are not committed. Raises Failed."""
    return ask(folder, "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty").count("\0")


def moved(folder: str, commit: str) -> tuple[int, int]:
    """Return how many commits HEAD has that *commit* has not, and the other way round. Raises Failed."""
    behind, ahead = ask(folder, "rev-list", "--left-right", "--count", f"{commit}...HEAD").split()
    return int(ahead), int(behind)


def holds(folder: str, commit: str) -> bool:
    """Return whether the repository of *folder* has *commit*."""
    try:
        ask(folder, "cat-file", "-e", f"{commit}^{{commit}}")
    except Failed:
        return False
    return True


def remotes(folder: str) -> list[str]:
    """Return the addresses of the remote repositories. Raises Failed, also when there is none."""
    found = ask(folder, "config", "-z", "--get-regexp", r"^remote\..*\.url$").split("\0")
    return [entry.partition("\n")[2] for entry in found if entry]


def top(folder: str) -> str:
    """Return the folder in which the worktree of *folder* begins. Raises Failed."""
    return ask(folder, "rev-parse", "--show-toplevel")
