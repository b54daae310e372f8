"""The set of paths that may have changed, each handed out at most so often."""

from __future__ import annotations

import threading
import time

INTERVAL = 0.2
"""Seconds between two looks at one path: an agent writes several times a second, for hours."""


class Dirty:
    """Paths to look at again. The first report of a path is due at once, the next ones together after ``INTERVAL``."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: dict[str, float] = {}
        self._taken: dict[str, float] = {}
        self._woken = False

    def __len__(self) -> int:
        return len(self._due)

    def add(self, path: str) -> None:
        """Report that *path* may have changed. May be called from any thread, and never raises."""
        with self._condition:
            if path not in self._due:
                self._due[path] = max(time.monotonic(), self._taken.get(path, 0.0) + INTERVAL)
                self._condition.notify()

    def wake(self) -> None:
        """Let `take` return now, with or without a path."""
        with self._condition:
            self._woken = True
            self._condition.notify()

    def take(self, timeout: float) -> list[str]:
        """Return the paths that are due, waiting up to *timeout* seconds for the first one."""
        deadline = time.monotonic() + timeout
        with self._condition:
            while True:
                now = time.monotonic()
                due = [path for path, moment in self._due.items() if moment <= now]
                if due or self._woken or now >= deadline:
                    break
                self._condition.wait(min([deadline, *self._due.values()]) - now)
            self._woken = False
            for path in due:
                del self._due[path]
                self._taken[path] = now
            if len(self._taken) > 1000:
                self._taken = {path: moment for path, moment in self._taken.items() if moment > now - INTERVAL}
            return due
