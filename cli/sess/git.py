"""What git says of a folder. It has a time limit, changes nothing, and runs no program of the repository's."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 2.0
"""Seconds for an answer: a repository may be on a network, or huge."""

# What a repository's configuration names is run by whoever asks for its state: a monitor of its files, hooks,
# and where a bare repository lies committed in another, whatever that one says. Its filters: see `_filters`.
_UNASKED = (
    *("--no-pager", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"),
    *("-c", "safe.bareRepository=explicit"),
)
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # A partial clone would fetch what it lacks, by programs of its choice. The first is known since 2.39.4
    # and 2.45, the second to every git.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
}
# Where the person's git and its settings are. Any other variable of git's would have it look elsewhere than in
# the folder, as a hook's GIT_DIR does, or write a trace.
_KEPT = frozenset(
    {
        *("GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    }
)


class Failed(Exception):  # noqa: N818 - what git did
    """git gave no answer; the message says why."""

    def __init__(self, why: str, code: int = -1) -> None:
        """Take also the exit code, -1 for none."""
        super().__init__(why)
        self.code = code


class NoRepository(Failed):
    """The folder is in no repository."""


class Head(NamedTuple):
    """What is checked out."""

    branch: str | None
    """None when HEAD is detached."""
    commit: str
    """``""`` before the first commit."""


def ask(folder: str, *words: str, limit: float = LIMIT) -> str:
    """Return what ``git -C folder words…`` prints within *limit* seconds, without the last newline. Raises Failed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in _KEPT}
    try:
        process = subprocess.Popen(  # noqa: S603 - words of ours, and refs that begin with refs/
            ["git", "-C", folder, *_UNASKED, *words],  # noqa: S607 - the person's git
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment | _ENVIRONMENT,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise Failed("git is not installed") from None
    except (OSError, ValueError) as problem:
        raise Failed(f"git cannot be asked: {problem}") from None
    try:
        out, error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"git gave no answer within {limit:.0f} s") from None
    finally:
        if process.returncode is None:  # also when the person interrupts
            _end(process)
    if process.returncode:
        why = os.fsdecode(error).strip().partition("\n")[0].removeprefix("fatal: ") or "git failed"
        kind = NoRepository if why.startswith("not a git repository") else Failed
        raise kind(why, process.returncode)
    return os.fsdecode(out).removesuffix("\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill git and what it started. Not waited for long: what hangs in a dead network file system cannot be killed."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.1)


def _found(folder: str, *words: str, limit: float = LIMIT) -> str | None:
    """Return what git prints; None when its answer is a no, the exit code 1. Raises Failed."""
    try:
        return ask(folder, *words, limit=limit)
    except Failed as failure:
        if failure.code == 1:
            return None
        raise


def head(folder: str) -> Head:
    """Return what is checked out in *folder*. Raises Failed."""
    # Whole names: where a tag has the name of the branch, git shortens to `heads/main`.
    ref = _found(folder, "symbolic-ref", "-q", "HEAD")
    commit = _found(folder, "rev-parse", "-q", "--verify", "HEAD^{commit}")
    return Head(None if ref is None else ref.removeprefix("refs/heads/"), commit or "")


def has_branch(folder: str, branch: str) -> bool:
    """Return whether the repository has *branch*. Raises Failed."""
    return _found(folder, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}") is not None


def worktree_of(folder: str, branch: str) -> str | None:
    """Return the worktree that has *branch* checked out, or None. Raises Failed, also before git 2.36."""
    path = None
    for line in ask(folder, "worktree", "list", "--porcelain", "-z").split("\0"):
        if line.startswith("worktree "):
            path = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{branch}":
            return path
    return None


def changes(folder: str) -> int:
    """Return how many files have changes that are not committed. Raises Failed.

    No filter is run, also none of the person's: a file of git LFS that was touched counts as changed.
    """
    words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty")
    return ask(folder, *_without_filters(folder), *words).count("\0")


def _without_filters(folder: str) -> Sequence[str]:
    """Return the options that keep git from running a program to compare a file with what is committed."""
    keys = _found(folder, "config", "-z", "--name-only", "--get-regexp", r"^filter\.") or ""
    # A filter may have the name "", whose keys are `filter..clean`; `filter.clean` is of none.
    names = dict.fromkeys(
        key.removeprefix("filter.").rpartition(".")[0] for key in keys.split("\0") if key.count(".") > 1
    )
    if any("=" in name for name in names):  # `-c` takes what comes before the first one for the key
        raise Failed("it has a filter that cannot be switched off")
    off = [f"filter.{name}.{setting}" for name in names for setting in ("clean=", "process=", "required=false")]
    return [word for setting in off for word in ("-c", setting)]


def moved(folder: str, commit: str) -> tuple[int, int]:
    """Return how many commits HEAD has that *commit* has not, and the other way round. Raises Failed."""
    behind, ahead = ask(folder, "rev-list", "--left-right", "--count", f"{commit}...HEAD").split()
    return int(ahead), int(behind)


def holds(folder: str, commit: str, limit: float = LIMIT) -> bool:
    """Return whether the repository of *folder* has *commit*. Raises Failed."""
    return _found(folder, "rev-parse", "-q", "--verify", f"{commit}^{{commit}}", limit=limit) is not None


def remotes(folder: str, limit: float = LIMIT) -> list[str]:
    """Return the addresses of the remote repositories. Raises Failed."""
    found = _found(folder, "config", "-z", "--get-regexp", r"^remote\..*\.url$", limit=limit) or ""
    return [entry.partition("\n")[2] for entry in found.split("\0") if entry]


def top(folder: str, limit: float = LIMIT) -> str:
    """Return the folder in which the worktree of *folder* begins. Raises Failed."""
    return ask(folder, "rev-parse", "--show-toplevel", limit=limit)
