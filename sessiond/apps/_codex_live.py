"""Which threads of Codex are open: who holds a thread's lock, and where nothing tells, whether a turn has not ended.

0.147 and later lock ``thread-writer-locks/<thread>.lock`` for as long as a thread is open, also in the
background (openai/codex#38150, #45406). The file stays behind and is not opened: Linux lists who locks what.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from sessiond.apps import _codex_rollout, _process
from sessiond.apps.base import Live

if TYPE_CHECKING:
    from sessiond.session import Previous, Scan, Session, Stat, Unit

RECENT = 86_400_000
"""ms since the last write within which a rollout is asked for an open turn."""
SILENT = 600_000
"""ms without a write after which an open turn counts as ended in lists, where nothing tells who writes."""
LOCKS = "/proc/locks"


class _Writer(NamedTuple):
    """The process that holds the lock of a thread."""

    pid: str
    certain: bool
    """False when the file that it locks has the same number, and is not seen to be the same."""


def read(unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
    """Return the facts of the rollout *unit*, also whether a process has it open, or had it when a turn broke off."""
    silent = time.time() * 1000 - stat.mtime
    scan = _codex_rollout.read(unit.path, previous, recent=silent < RECENT)
    for thread, facts in scan.facts.items():
        facts.pop("live", None)
        facts.pop("lost", None)
        turn, told, held = facts.get("turn"), False, False
        if turn is not None or silent < RECENT:
            try:
                held = _writer(unit.root, thread) is not None
                told = True
            except OSError:
                held = bool(turn) and silent < SILENT
        if held:
            facts["live"] = turn or "idle"
            scan.volatile = True
        elif told and turn:
            facts["lost"] = stat.mtime
    return scan


def live(session: Session) -> Live | None:
    """Return the process that has the thread of *session* open now, or may have; see `App.live`.

    Where nothing tells who holds the lock, as on macOS, what was written within a day may be open; and so may,
    without a lock, a turn of that day that has not ended.
    """
    try:
        writer = _writer(session.root, session.id)
    except FileNotFoundError:
        turn = _turn(session)
        return Live(turn, "elsewhere: a turn in it has not ended", certain=False) if turn else None
    except OSError as error:
        turn = _turn(session)
        why = f"who holds its lock cannot be told ({error.strerror})"
        return Live(turn, f"elsewhere: {why}", certain=False) if turn is not None else None
    if writer is None:
        return None
    place = _process.place(writer.pid)
    if not writer.certain:
        place += ": it holds a lock, and of which file is not seen"
    return Live(_turn(session) or "idle", place, writer.certain)


def _turn(session: Session) -> str | None:
    """Return how the last turn of *session* stands, as `_codex_rollout.turn` has it; None for one of an earlier day."""
    try:
        if time.time() * 1000 - os.stat(session.path).st_mtime * 1000 >= RECENT:
            return None
        scan = _codex_rollout.read(session.path, None, recent=True)
    except OSError:
        return None
    return next((facts.get("turn", "") for facts in scan.facts.values()), "")


def _writer(root: str, thread: str) -> _Writer | None:
    """Return who holds the lock of *thread*, or None for nobody.

    Raises FileNotFoundError when it has none, and another OSError when it cannot be told.
    """
    lock = os.stat(f"{root}/thread-writer-locks/{thread}.lock", follow_symlinks=False)
    try:
        with open(LOCKS, "rb") as listed:
            entries = [line.split()[-4:-2] for line in listed]
    except FileNotFoundError:
        raise OSError(errno.ENOTSUP, f"there is no {LOCKS}") from None
    # btrfs and overlayfs show another device there than in a stat, so it is not compared.
    number = b"%d" % lock.st_ino
    pids = [entry[0].decode() for entry in entries if entry and entry[-1].rpartition(b":")[2] == number]
    writers = [_Writer(pid, certain=_has_open(pid, f"/{thread}.lock")) for pid in pids]
    return max(writers, key=lambda writer: writer.certain, default=None)


def _has_open(pid: str, name: str) -> bool:
    """Return whether process *pid* is seen to have a file open whose path ends in *name*."""
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return False
    for descriptor in descriptors:
        with suppress(OSError):
            if os.readlink(f"{folder}/{descriptor}").endswith(name):
                return True
    return False
