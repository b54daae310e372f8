"""The units that wait to be read, and who reads them: this process, and of many a second one as well."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sessiond.reading import Helper, problem, read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sessiond.apps.base import App
    from sessiond.reading import Job
    from sessiond.session import Scan, Unit

log = logging.getLogger(__name__)

HELP = 400
"""Units from which on a second process helps; it takes 0.1 s to start."""
BATCH = 100
"""Units that are read at once, and stored in one transaction; the commit takes 2 ms."""
SHARE = 25
"""Units that this process reads while it has nothing of the other's to store, 10 ms."""


class Backlog:
    """What a reconcile found to have changed, the newest first."""

    def __init__(self, apps: Mapping[str, App], prepare: Callable[[list[Unit]], list[Job]]) -> None:
        """Read with *apps* what *prepare* makes of units, in the moment before."""
        self._apps = apps
        self._prepare = prepare
        self._units: list[Unit] = []
        self._helper: Helper | None = None
        self._alone = False

    def __len__(self) -> int:
        """Return how many units nobody has begun to read."""
        return len(self._units)

    def __bool__(self) -> bool:
        """Return whether there is something to read, or to receive."""
        return bool(self._units or self._helper)

    def fill(self, changed: list[tuple[int, Unit]]) -> None:
        """Have *changed*, pairs of the last write and the unit, read in place of what was left."""
        self._units = [unit for _, unit in sorted(changed)]
        self._alone = False

    def leave(self, roots: Collection[str]) -> None:
        """Leave out what is in one of *roots*."""
        self._units = [unit for unit in self._units if unit.root not in roots]

    def clear(self) -> None:
        """Leave out everything."""
        self._units.clear()

    def next(self) -> tuple[list[Job], list[Scan | None]]:
        """Return the units that were read next, with what they say."""
        if self._helper is None and len(self._units) >= HELP and not self._alone:
            self._helper = _help()
            self._alone = self._helper is None
        if self._helper is None:
            return self._read(self._take(BATCH))
        try:
            # The very newest come first, which somebody may be waiting for.
            mine = [] if self._helper.answered() else self._take(SHARE)
            # Two batches on the way, so that neither process waits for the other.
            while self._units and len(self._helper.pending) < 2:
                self._helper.submit(self._prepare(self._take(BATCH)))
            if mine:
                return self._read(mine)
            jobs, scans = self._helper.receive()
        except OSError as error:
            log.warning("the reading process failed (%s); going on without it", problem(error))
            jobs = [job for batch in self._helper.pending for job in batch]
            scans = [read(self._apps[job.unit.app], job) for job in jobs]
            self._helper.pending.clear()
            self._alone = True
        if not self._helper.pending:
            self.stop()
        return jobs, scans

    def stop(self) -> None:
        """End the second process."""
        if self._helper:
            self._helper.stop()
            self._helper = None

    def _take(self, most: int) -> list[Unit]:
        taken = self._units[-most:]
        del self._units[-most:]
        return taken[::-1]

    def _read(self, units: list[Unit]) -> tuple[list[Job], list[Scan | None]]:
        jobs = self._prepare(units)
        return jobs, [read(self._apps[job.unit.app], job) for job in jobs]


def _help() -> Helper | None:
    try:
        return Helper()
    except OSError as error:
        log.warning("no second process to read with: %s", error.strerror)
        return None
