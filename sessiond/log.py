"""Where the daemon's log goes, and what may stand in it: counts, timings and reasons, never titles or text."""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

from sessiond.paths import clear_place, ours

if TYPE_CHECKING:
    import io
    from collections.abc import Mapping
    from types import TracebackType

    ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

BYTES, KEPT = 1 << 20, 2
"""Size at which the file is renamed, and how many renamed ones are kept."""
_PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
"""What syslog(3) calls each level."""


def set_up(path: str, environ: Mapping[str, str]) -> None:
    """Log to the journal when systemd connected stderr with it, else to the file at *path*. Raises OSError."""
    handler: logging.Handler
    if _is_journal(environ):
        handler = logging.StreamHandler()
        handler.setFormatter(_Formatter("%(name)s: %(message)s", journal=True))
    else:
        handler = _File(path, maxBytes=BYTES, backupCount=KEPT, encoding="utf-8")
        handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    # What cannot be logged, as on a full disk, is lost: reported to stderr it would fill that.
    logging.raiseExceptions = False
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # Python itself would print the message of what nobody caught, with whatever that quotes.
    sys.excepthook = lambda *caught: _uncaught("the daemon", caught)
    threading.excepthook = lambda args: _uncaught(f"thread {args.thread.name if args.thread else ''}", args[:3])
    sys.unraisablehook = lambda args: _uncaught("cleaning up", (args.exc_type, args.exc_value, args.exc_traceback))


def _uncaught(where: str, caught: Any) -> None:
    logging.getLogger(__name__).critical("%s was ended by an error", where, exc_info=caught)


def _is_journal(environ: Mapping[str, str]) -> bool:
    """Return whether stderr is the stream that ``JOURNAL_STREAM`` names: a terminal's shell passes the variable on."""
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class _File(logging.handlers.RotatingFileHandler):
    """A file of ours alone: what else is in its place, a link or a FIFO, is neither followed nor written to."""

    def _open(self) -> io.TextIOWrapper:
        clear_place(self.baseFilename)
        return open(self.baseFilename, "a", encoding=self.encoding, errors=self.errors, opener=ours)


class _Formatter(logging.Formatter):
    """Shows of an exception its type and where it came from: its message may quote a transcript."""

    def __init__(self, form: str, *, journal: bool = False) -> None:
        super().__init__(form)
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if not self._journal:
            return text
        # systemd takes a priority for each line, see sd-daemon(3).
        return "\n".join(f"<{_PRIORITIES[record.levelno]}>{line}" for line in text.splitlines())

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802 - of the class above
        kind, _, trace = ei
        return "".join(traceback.format_tb(trace)) + (kind.__name__ if kind else "")
