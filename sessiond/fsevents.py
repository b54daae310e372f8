"""Watching folders on macOS, through watchdog's FSEvents observer. Not run by this project's tests."""

from __future__ import annotations

import logging
import os
import unicodedata
from typing import TYPE_CHECKING, Any

from sessiond.watch import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sessiond.apps.base import Watch
    from sessiond.dirty import Dirty

log = logging.getLogger(__name__)


class FSEventsWatcher:
    """Watches each folder recursively, as FSEvents does, and drops what lies too deep.

    FSEvents reports real, composed paths, so they are turned back to the ones asked for.
    """

    def __init__(self, watches: Iterable[Watch], dirty: Dirty, on_loss: Callable[[], None]) -> None:
        """Prepare to watch *watches*; *on_loss* is called, from any thread, after events were lost."""
        self._watches = list(watches)
        self._dirty = dirty
        self._on_loss = on_loss
        self._observer: Any = None
        self._watched: dict[str, int] = {}
        self._lost = 0
        self._problem = ""

    def start(self) -> None:
        """Begin to watch. What cannot be watched is polled; never raises."""
        from watchdog.observers import Observer

        self._observer = Observer()
        if type(self._observer).__name__ != "FSEventsObserver":
            # watchdog falls back to kqueue, which takes a descriptor for every file.
            self._problem = "FSEvents is not available; folders are polled"
            self._observer = None
            return
        self._observer.start()
        self.check()

    def stop(self) -> None:
        """Stop watching and end the threads."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(1)

    def health(self) -> Health:
        """Return how well the folders are watched now."""
        paths = [watch.path for watch in self._watches]
        missing = [path for path in paths if not os.path.isdir(path)]
        return Health(
            len(self._watched), len(paths) - len(self._watched) - len(missing), missing, self._lost, self._problem
        )

    def check(self) -> None:
        """Watch folders that appeared, again those that were replaced, and list the unwatched ones."""
        if self._observer is not None and not self._observer.is_alive():
            self._watched.clear()
            self._lose("the observer ended")
            self.start()
            return
        for watch in self._watches:
            try:
                inode = os.stat(watch.path).st_ino
            except OSError:
                self._watched.pop(watch.path, None)
                continue
            if self._observer is None:
                self._list(watch.path, watch.depth)
            elif self._watched.get(watch.path) != inode:
                self._schedule(watch)
                self._watched[watch.path] = inode
                self._lose("a folder is watched from now on")

    def _schedule(self, watch: Watch) -> None:
        real = unicodedata.normalize("NFC", os.path.realpath(watch.path))
        handler = _Handler(watch, real, self._dirty)
        self._observer.schedule(handler, real, recursive=True)

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


class _Handler:
    def __init__(self, watch: Watch, real: str, dirty: Dirty) -> None:
        self._watch = watch
        self._real = real
        self._dirty = dirty

    def dispatch(self, event: Any) -> None:
        # An exception here would end watchdog's observer thread (gorakhargosh/watchdog#427).
        try:
            for path in (event.src_path, event.dest_path):
                inside = os.path.relpath(unicodedata.normalize("NFC", os.fsdecode(path)), self._real) if path else ".."
                if not inside.startswith("..") and inside.count("/") <= self._watch.depth:
                    self._dirty.add(os.path.join(self._watch.path, inside))
        except Exception:
            log.exception("an event could not be handled")
