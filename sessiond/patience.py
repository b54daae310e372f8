"""Waiting for file systems, but not for ever: a network or FUSE mount whose server is gone hangs whoever asks it."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SILENT = "its file system does not answer"


class Patience:
    """Runs what may hang in a thread of its own. May be used from several threads.

    The kernel lets nobody end such a thread. So while one hangs in a place, no other is sent there.
    """

    def __init__(self) -> None:
        """Begin with no place known to hang."""
        self._lock = threading.Lock()
        self._silent: set[str] = set()

    def within(self, seconds: float, place: str, function: Callable[[], T]) -> T:
        """Return what *function* returns, or raise what it raises.

        Raises TimeoutError when that takes longer than *seconds*, and at once while an earlier one hangs in *place*.
        """
        if place in self._silent:
            raise TimeoutError(errno.ETIMEDOUT, SILENT)
        results: list[T] = []
        errors: list[Exception] = []
        ended = threading.Event()

        def work() -> None:
            try:
                results.append(function())
            except Exception as error:
                errors.append(error)
            with self._lock:
                self._silent.discard(place)
                ended.set()

        threading.Thread(target=work, name="patience", daemon=True).start()
        if not ended.wait(seconds):
            with self._lock:
                if not ended.is_set():
                    self._silent.add(place)
                    raise TimeoutError(errno.ETIMEDOUT, SILENT)
        if errors:
            raise errors[0]
        return results[0]
