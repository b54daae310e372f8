"""Watching folders: reports paths that may have changed, and knows when it may have missed some.

Events are hints. What is lost (queue overflow, no watch to be had, a root replaced) is noticed
here and made good by the reconcile pass of the indexer.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sessiond.paths import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from sessiond.apps.base import Watch
    from sessiond.dirty import Dirty

log = logging.getLogger(__name__)

REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "virtiofs"})
"""File systems on which another machine's writes cause no event here (and any FUSE one)."""


class Health(NamedTuple):
    """How well the folders are watched."""

    watched: int
    unwatched: int
    """Folders that are polled, as no watch could be had."""
    missing: list[str]
    """Folders asked for that do not exist yet."""
    lost: int
    """Times events were lost since the start; a reconcile followed each."""
    problem: str
    overflows: int = 0
    """Times of these that the kernel's queue was too short."""


class Watcher(Protocol):
    """What the daemon asks of a platform's way to watch."""

    silent: Collection[str]
    """Stores whose file system does not answer, which `start` and `check` leave alone."""

    def start(self) -> None:
        """Begin to watch. What cannot be watched is polled; never raises."""

    def stop(self) -> None:
        """Stop watching and end the thread."""

    def check(self) -> None:
        """Notice what no event tells, and mend it. To be called every few seconds."""

    def health(self) -> Health:
        """Return how well the folders are watched now."""


def watcher(watches: Iterable[Watch], dirty: Dirty, on_loss: Callable[[], None]) -> Watcher:
    """Return this platform's watcher of *watches*, which reports to *dirty*.

    *on_loss* is called, from any thread, after events were lost.
    """
    if sys.platform == "darwin":
        from sessiond.fsevents import FSEventsWatcher

        return FSEventsWatcher(watches, dirty, on_loss)
    return InotifyWatcher(watches, dirty, on_loss)


class InotifyWatcher:
    """Watches folders on Linux through one inotify descriptor and one thread.

    watchdog's `InotifyFD` is used directly, with one callback a folder: its Observer starts a
    thread for every scheduled folder, hides a full queue from the handler and swallows the
    failure to watch a sub-folder (7.1.0, gorakhargosh/watchdog#654). A folder that is missing
    in its store is waited for by watching its nearest existing ancestor; a store that is missing
    is looked for at every `check`, so that an agent that is not installed costs no watch.
    """

    def __init__(self, watches: Iterable[Watch], dirty: Dirty, on_loss: Callable[[], None]) -> None:
        """Prepare to watch *watches*; *on_loss* is called, from any thread, after events were lost."""
        from watchdog.observers import inotify_c

        self._inotify = inotify_c
        self._watches = list(watches)
        self._dirty = dirty
        self._on_loss = on_loss
        self.silent: Collection[str] = ()
        self._lock = threading.RLock()
        self._fd: Any = None
        self._folders: dict[str, _Folder] = {}
        self._unwatched: dict[str, int] = {}
        self._missing: list[str] = []
        self._absent: set[str] = set()
        self._remote: dict[int, bool] = {}
        self._lost = 0
        self._overflows = 0
        self._overflowed = False
        self._problem = ""

    def start(self) -> None:
        """Begin to watch. What cannot be watched is polled; never raises."""
        constants = self._inotify.InotifyConstants
        self._mask = (
            constants.IN_MODIFY | constants.IN_CREATE | constants.IN_DELETE | constants.IN_MOVED_FROM
            | constants.IN_MOVED_TO | constants.IN_DELETE_SELF | constants.IN_MOVE_SELF | constants.IN_ONLYDIR
        )  # fmt: skip
        self._entry_mask = constants.IN_CREATE | constants.IN_MOVED_TO | constants.IN_ONLYDIR
        try:
            self._fd = self._inotify.InotifyFD()
            self._fd.start()
        except OSError as error:
            self._fd = None
            self._problem = f"no inotify instance: {error.strerror}"
        self.refresh(report=False)

    def stop(self) -> None:
        """Stop watching and end the thread."""
        if self._fd is not None:
            self._fd.stop()
            self._fd.join(1)

    def health(self) -> Health:
        """Return how well the folders are watched now."""
        missing = list(self._missing)
        return Health(len(self._folders), len(self._unwatched), missing, self._lost, self._problem, self._overflows)

    def check(self) -> None:
        """Notice what no event tells, and mend it. To be called every few seconds.

        A dead reader thread, a root that was replaced by another folder, a limit that was
        raised meanwhile. Folders without a watch are listed into the dirty set.
        """
        with self._lock:
            self._overflowed = False
            if self._fd is not None and not self._fd.is_alive():
                self.stop()
                self._folders.clear()
                self._lose("the reader thread ended")
                self.start()
                return
            for path, folder in list(self._folders.items()):
                if folder.root and not self._is_silent(path) and identity(path) != folder.identity:
                    self._lose("a root was replaced")
                    self._forget_below(path)
            self.refresh(report=True)
            for path in list(self._unwatched):
                if not self._is_silent(path):
                    self._poll(path)

    def refresh(self, *, report: bool) -> None:
        """Watch whatever is asked for and exists; with *report*, what is new there is dirty."""
        with self._lock:
            self._missing = []
            awaited = set()
            for watch in self._watches:
                if watch.store in self.silent:
                    # A reconcile follows when it answers; what was missing there stays so.
                    self._absent.add(watch.store)
                    continue
                known = self._folders.get(watch.path)
                if known is not None and known.depth >= 0:
                    continue
                nearest = _nearest_folder(watch.path)
                if len(nearest) < len(watch.store):
                    self._missing.append(watch.path)
                    self._absent.add(watch.store)
                    continue
                while nearest != watch.path:
                    self._await(nearest)
                    awaited.add(nearest)
                    # A folder made before the watch was there caused no event.
                    if (again := _nearest_folder(watch.path)) == nearest:
                        self._missing.append(watch.path)
                        break
                    nearest = again
                else:
                    self._add(watch.path, watch.depth, root=True, report=report)
                if watch.store in self._absent:
                    # A reconcile may have met it before, and a file be gone since without an event.
                    self._absent.remove(watch.store)
                    self._on_loss()
            for folder in list(self._folders.values()):
                if folder.depth < 0 and folder.path not in awaited:
                    self._forget(folder.path)

    def event(self, folder: _Folder, event: Any) -> None:
        """Take one event of *folder*; called in the reader thread."""
        with self._lock:
            self._overflowed = False
            path = os.path.join(folder.path, os.fsdecode(event.name))
            if event.is_delete_self or event.is_move_self:
                self._forget_below(folder.path)
                if folder.root:
                    self._lose("a root was moved or deleted")
                    self.refresh(report=True)
                return
            if event.is_directory:
                if event.is_moved_from:
                    self._forget_below(path)
                elif any(missing == path or missing.startswith(path + "/") for missing in self._missing):
                    self.refresh(report=True)
                elif folder.depth > 0:
                    self._add(path, folder.depth - 1, report=True)
            if folder.depth >= 0:
                self._dirty.add(path)

    def overflowed(self) -> None:
        """Take word that the kernel dropped events: every folder says so, one reconcile is enough."""
        with self._lock:
            if not self._overflowed:
                self._overflowed = True
                self._overflows += 1
                self._lose("the kernel's event queue overflowed")

    def _is_silent(self, path: str) -> bool:
        return any(path == store or path.startswith(store + "/") for store in self.silent)

    def _add(self, path: str, depth: int, *, root: bool = False, report: bool) -> None:
        """Watch *path* and *depth* levels of folders below it."""
        found = identity(path)
        known = self._folders.get(path)
        if found is None or (known is not None and known.identity == found and known.depth >= 0):
            return
        self._watch(_Folder(self, path, found, depth, root=root), self._mask)
        if depth > 0 or report:
            self._list(path, depth, report=report)

    def _watch(self, folder: _Folder, mask: int) -> None:
        try:
            if self._fd is None or self._on_remote(folder):
                raise OSError(errno.ENOTSUP, "file system without events")
            folder.wd = self._fd.add_callback(os.fsencode(folder.path), mask, folder, id(folder))
            if folder.wd == -1:
                # watchdog 7.1.0 returns -1 instead of raising for EACCES.
                raise OSError(errno.EACCES, "permission denied")
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            if error.errno == errno.ENOSPC:
                self._problem = "the limit of inotify watches is reached"
            if folder.depth >= 0:
                self._unwatched[folder.path] = folder.depth
            return
        self._unwatched.pop(folder.path, None)
        self._folders[folder.path] = folder

    def _on_remote(self, folder: _Folder) -> bool:
        device = folder.identity[0] if folder.identity else 0
        if device not in self._remote:
            self._remote[device] = _remote(folder.path)
        return self._remote[device]

    def _await(self, path: str) -> None:
        """Watch *path* for new entries, unless it is watched anyway."""
        if path not in self._folders:
            self._watch(_Folder(self, path, identity(path), -1), self._entry_mask)

    def _list(self, path: str, depth: int, *, report: bool) -> None:
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if depth > 0 and entry.is_dir():
                        self._add(entry.path, depth - 1, report=report)
                    elif report:
                        self._dirty.add(entry.path)
        except OSError as error:
            log.debug("cannot list a folder: %s", error.strerror)

    def _poll(self, path: str) -> None:
        """List a folder that has no watch, trying to get one on the way."""
        depth = self._unwatched[path]
        if not os.path.isdir(path):
            del self._unwatched[path]
            return
        self._watch(_Folder(self, path, identity(path), depth), self._mask)
        self._list(path, depth, report=True)

    def _forget(self, path: str) -> None:
        folder = self._folders.pop(path, None)
        if folder is not None and self._fd is not None:
            self._fd.remove_callbacks([(folder.wd, id(folder))])

    def _forget_below(self, path: str) -> None:
        for known in [known for known in self._folders if known == path or known.startswith(path + "/")]:
            self._forget(known)

    def _lose(self, reason: str) -> None:
        self._lost += 1
        log.warning("events may have been lost (%s); reconciling", reason)
        self._on_loss()


class _Folder:
    """A watched folder: the callback that inotify's reader thread calls.

    ``depth`` is how many levels below it are watched too; -1 means that it is watched only
    for the coming of a folder that is missing.
    """

    def __init__(
        self, watcher: InotifyWatcher, path: str, identity: tuple[int, int] | None, depth: int, *, root: bool = False
    ) -> None:
        self.watcher = watcher
        self.path = path
        self.depth = depth
        self.root = root
        self.identity = identity
        self.wd = -1

    def on_event(self, event: Any) -> None:
        # An exception here would end watchdog's reader thread, and with it all watching.
        try:
            self.watcher.event(self, event)
        except Exception:
            log.exception("an event could not be handled")
            self.watcher.overflowed()

    def on_watch_deleted(self, wd: int) -> None:
        """Nothing to do: the deletion came as an event before."""

    def on_queue_overflow(self) -> None:
        self.watcher.overflowed()

    def on_events_lost(self) -> None:
        """Nothing to do: the full queue was told just before (called since watchdog 7.1.1)."""


def _nearest_folder(path: str) -> str:
    """Return *path*, or the nearest folder above it that exists."""
    while not os.path.isdir(path) and path != "/":
        path = os.path.dirname(path)
    return path


def _remote(path: str) -> bool:
    """Return whether *path* lies on a file system whose changes may cause no event here."""
    best, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, point, fstype, *_ = line.split(" ")
                point = point.encode().decode("unicode_escape") if "\\" in point else point
                if len(point) >= len(best) and (path + "/").startswith(point.rstrip("/") + "/"):
                    best, kind = point, fstype
    except OSError:
        return False
    return kind in REMOTE or kind.startswith("fuse")
