"""Watching folders on macOS, where this has not been run: FSEvents, through watchdog's stream of native events."""

from __future__ import annotations

import logging
import os
import unicodedata
from typing import TYPE_CHECKING, Any

from sessiond.watch import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from sessiond.apps.base import Watch
    from sessiond.dirty import Dirty

log = logging.getLogger(__name__)

LOSSES = ("must_scan_subdirs", "is_user_dropped", "is_kernel_dropped", "is_root_changed")
"""Marks of a native event which say that others were dropped; watchdog 7.1.0 has them and looks at the last only."""


class FSEventsWatcher:
    """Watches each folder with all below it, as FSEvents does, and drops what lies too deep.

    An event is taken for no more than a path to look at: FSEvents coalesces and tells wrong
    kinds. Its paths are real and composed, so they are turned back to the ones asked for.
    """

    def __init__(self, watches: Iterable[Watch], dirty: Dirty, on_loss: Callable[[], None]) -> None:
        """Prepare to watch *watches*; *on_loss* is called, from any thread, after events were lost."""
        self._watches = list(watches)
        self._dirty = dirty
        self._on_loss = on_loss
        self._observer: Any = None
        self._watched: dict[str, tuple[int, Any]] = {}
        """The inode and watchdog's watch of each folder that is watched."""
        self.silent: Collection[str] = ()
        self._missing: list[str] = []
        self._lost = 0
        self._problem = ""

    def start(self) -> None:
        """Begin to watch. What cannot be watched is polled; never raises."""
        try:
            from watchdog.observers.api import BaseObserver
            from watchdog.observers.fsevents import FSEventsEmitter
        except ImportError:
            # watchdog itself would fall back to kqueue, which takes a descriptor for every file.
            self._problem = "FSEvents is not available; folders are polled"
            return
        take = self.take

        class Emitter(FSEventsEmitter):
            def queue_events(self, timeout: float, events: list[Any]) -> None:  # type: ignore[override]  # noqa: ARG002
                # An exception here would end the thread of the stream.
                try:
                    take(str(self.watch.path), events)
                except Exception:
                    log.exception("events could not be handled")

        self._observer = BaseObserver(Emitter)
        self._observer.start()
        self.check()

    def stop(self) -> None:
        """Stop watching and end the threads."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(1)

    def health(self) -> Health:
        """Return how well the folders are watched now."""
        polled = len(self._watches) - len(self._watched) - len(self._missing)
        return Health(len(self._watched), max(0, polled), list(self._missing), self._lost, self._problem)

    def check(self) -> None:
        """Watch folders that appeared, again those that were replaced, and list the unwatched ones."""
        if self._observer is not None and not self._observer.is_alive():
            self._watched.clear()
            self._lose("the observer ended")
            self.start()
            return
        missing = []
        for watch in self._watches:
            if watch.store in self.silent:
                continue
            try:
                inode = os.stat(watch.path).st_ino
            except OSError:
                self._forget(watch.path)
                missing.append(watch.path)
                continue
            if self._observer is None:
                self._list(watch.path, watch.depth)
            elif self._watched.get(watch.path, (None,))[0] != inode:
                self._forget(watch.path)
                scheduled = self._observer.schedule(None, _real(watch.path), recursive=True)
                self._watched[watch.path] = inode, scheduled
                self._lose("a folder is watched from now on")
        self._missing = missing

    def take(self, folder: str, events: Iterable[Any]) -> None:
        """Take native events of the stream of *folder*, a real path."""
        watches = [watch for watch in self._watches if _real(watch.path) == folder]
        for event in events:
            if any(getattr(event, mark, False) for mark in LOSSES):
                self._lose("FSEvents dropped some")
            inside = os.path.relpath(unicodedata.normalize("NFC", os.fsdecode(event.path)), folder)
            for watch in watches:
                if inside != ".." and not inside.startswith("../") and inside.count("/") <= watch.depth:
                    self._dirty.add(os.path.normpath(os.path.join(watch.path, inside)))

    def _forget(self, path: str) -> None:
        if path in self._watched:
            self._observer.unschedule(self._watched.pop(path)[1])

    def _list(self, path: str, depth: int) -> None:
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    self._dirty.add(entry.path)
                    if depth > 0 and entry.is_dir():
                        self._list(entry.path, depth - 1)
        except OSError as error:
            log.debug("cannot list a folder: %s", error.strerror)

    def _lose(self, reason: str) -> None:
        self._lost += 1
        log.warning("events may have been lost (%s); reconciling", reason)
        self._on_loss()


def _real(path: str) -> str:
    return unicodedata.normalize("NFC", os.path.realpath(path))
