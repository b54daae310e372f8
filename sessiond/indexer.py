"""From units that changed to rows: the one thread that reads transcripts and writes the index."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING

import apsw

from sessiond.backlog import Backlog
from sessiond.config import Config
from sessiond.index import Index
from sessiond.merging import Merger
from sessiond.reading import Job, Reading, problem, read, slowest
from sessiond.reconcile import compare, judge, presence
from sessiond.session import Changes, Scan, Stat
from sessiond.stores import Stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sessiond.dirty import Dirty
    from sessiond.index import Identity
    from sessiond.reconcile import Root
    from sessiond.session import Unit
    from sessiond.watch import Watcher

log = logging.getLogger(__name__)

RECONCILE = 90.0
"""Seconds between two full comparisons with the disk (stat of 10,000 files takes about 30 ms)."""
SUSPECT = 5.0
"""Seconds until a second look when everything below a root seems to be gone."""
CHECK = 5.0
"""Seconds between two checks of the watches; folders without one are listed then."""
WAKE = 60.0
"""Seconds by which wall clock and monotonic clock drift apart while the machine sleeps, or when the clock is set."""
LIVE = 2.0
"""Seconds between two looks at units that can go stale unchanged: a session whose process may have died."""
RETRY = 5.0
"""Seconds until the next try after the index could not be written: a full disk does not get empty at once."""
BATCH = 0.05
"""Seconds of reading after which what was read is committed, so that answers show it."""


class Indexer:
    """Keeps the index in step with the disk.

    Events give paths to look at; a reconcile compares everything. Both end in the same
    place: a unit whose stat differs from the stored one is read and its sessions merged.
    """

    def __init__(
        self, roots: Iterable[Root], index_path: str, dirty: Dirty, watcher: Watcher, config: Config | None = None
    ) -> None:
        """Open the index; raises apsw.Error when it can neither be used nor replaced."""
        self.stores = Stores(roots)
        self.generation = 0
        """Grows when the index file is replaced; readers then connect again."""
        self.reconciled: int | None = None
        """When the last reconcile ended and nothing was left to read, in ms since the epoch."""
        self.trouble = ""
        """Why the index cannot be written now, or ``""``."""
        self.bytes_read = 0
        self.units_read = 0
        self.slowest: list[Reading] = []
        """The reads that took longest."""
        self._index = Index(index_path)
        self._dirty = dirty
        self._watcher = watcher
        self._apps = {root.app.name: root.app for root in self.stores.roots}
        self._merger = Merger(self._index, self._apps, config or Config())
        self._backlog = Backlog(self._apps, self._jobs)
        self._later: list[Unit] = []
        self._volatile: set[Unit] = set()
        self._listeners: list[Callable[[Changes], None]] = []
        self._suspects: set[str] = set()
        self._total = 0
        self._begun = 0.0
        self._logged = 0
        self._asked = 1
        self._settled = 0
        self._condition = threading.Condition()
        self._rebuild = False
        self._damaged = False
        self._stopping = False
        self._turn: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="indexer", daemon=True)

    def listen(self, listener: Callable[[Changes], None]) -> None:
        """Have *listener* told of every commit that changed rows, in the indexer's thread. Before `start` only."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Start the thread; its first act is a reconcile."""
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """End the thread after the batch at hand and close the index; return whether that was done in time."""
        self._stopping = True
        self._ended.set()
        self._dirty.wake()
        with self._condition:
            self._condition.notify_all()
        self._thread.join(timeout)
        self._backlog.stop()
        ended = not self._thread.is_alive()
        if ended:
            self._index.close()
        return ended

    def request_reconcile(self) -> None:
        """Ask for a reconcile soon. May be called from any thread."""
        with self._condition:
            self._asked += 1
        self._dirty.wake()

    def request_rebuild(self) -> None:
        """Ask for the index to be emptied and read anew. May be called from any thread."""
        self._rebuild = True
        self.request_reconcile()

    def request_replace(self) -> None:
        """Say that the index file turned out to be damaged. May be called from any thread."""
        self._damaged = True
        self._dirty.wake()

    def progress(self) -> tuple[int, int]:
        """Return how many of how many units are read that the last reconcile found changed."""
        left = len(self._backlog) + len(self._later)
        return max(0, self._total - left), max(self._total, left)

    def complete(self) -> bool:
        """Return whether nothing is left to read."""
        return bool(self._settled) and not (self._backlog or self._later)

    def stuck(self) -> float:
        """Return for how many seconds the indexer has been at one piece of work: more than a few, and a file hangs."""
        begun = self._turn
        return time.monotonic() - begun if begun else 0.0

    @property
    def rebuilt(self) -> str:
        """Why the index was set aside and built again since the daemon started, or ``""``."""
        return self._index.rebuilt

    def queued(self) -> int:
        """Return how many paths and units wait to be looked at."""
        return len(self._dirty) + len(self._backlog) + len(self._later)

    def settle(self, timeout: float, ticket: int = 0) -> tuple[int, bool]:
        """Wait until a reconcile begun after this call is complete, or *timeout* seconds.

        Returns a ticket, with which the next call goes on waiting for the same one, and whether
        it is complete.
        """
        if not 0 < ticket <= self._asked:  # none, or one of a daemon before this
            self.request_reconcile()
            ticket = 0
        with self._condition:
            ticket = ticket or self._asked
            self._condition.wait_for(lambda: self._settled >= ticket or self._stopping, timeout)
            return ticket, self._settled >= ticket

    def _run(self) -> None:
        answered, watching = 0, False
        next_reconcile = next_check = next_live = 0.0
        clocks = time.time() - time.monotonic()
        while not self._stopping:
            try:
                if self._damaged:
                    self._damaged = False
                    raise apsw.CorruptError("a reader found it damaged")
                if self._rebuild:
                    self._rebuild = False
                    self._empty()
                now = time.monotonic()
                if abs(time.time() - now - clocks) > WAKE:
                    clocks = time.time() - now
                    self.request_reconcile()
                if now >= next_check:
                    if self._index.vanished():
                        raise apsw.CorruptError("its file is gone")
                    self._look_at_stores()
                    if watching:
                        self._watcher.check()
                    else:
                        self._watcher.start()
                        watching = True
                    next_check = time.monotonic() + CHECK
                if self._asked > answered or now >= next_reconcile:
                    answered = self._asked
                    self._reconcile()
                    next_reconcile = time.monotonic() + (SUSPECT if self._suspects else RECONCILE)
                if self._volatile and now >= next_live:
                    self._look_at([unit.path for unit in self._volatile])
                    next_live = time.monotonic() + LIVE
                if self._backlog:
                    self._read_some()
                elif self._later:
                    self._look_closer()
                elif self._settled < answered:
                    self._settle(answered)
                busy = self._backlog or self._later or self._settled < answered
                due = min(next_check, next_reconcile, next_live if self._volatile else next_check)
                pause = 0 if busy else max(0.0, due - time.monotonic())
                self._turn = None
                paths = self._dirty.take(pause)
                self._turn = time.monotonic()
                if paths:
                    self._look_at(paths)
            except (apsw.CorruptError, apsw.NotADBError) as error:
                try:
                    self._replace(error)
                except (apsw.Error, OSError) as failure:
                    self._falter(f"the index cannot be written: {failure}")
            except apsw.Error as error:
                # Disk full, read-only, locked by a stranger: what is known stays, and is tried again.
                self._falter(f"the index cannot be written: {error}")
            except Exception as error:
                self._falter(f"the indexer stumbled: {problem(error)}")

    def _look_at_stores(self) -> None:
        """Leave those alone that have begun to hang, and compare those that answer again."""
        if self.stores.look():
            silent = self.stores.silent
            self._backlog.leave(silent)
            self._later = [unit for unit in self._later if unit.root not in silent]
            self._watcher.silent = silent
            self.request_reconcile()

    def _falter(self, trouble: str) -> None:
        """Keep what is known, say why, and try again from the start in a while."""
        if trouble != self.trouble:
            log.error("%s", trouble)
        self.trouble = trouble
        self._ended.wait(RETRY)
        self.request_reconcile()

    def _settle(self, answered: int) -> None:
        self.trouble = ""
        self.reconciled = int(time.time() * 1000)
        if self.units_read > self._logged:
            seconds, read = time.monotonic() - self._begun, self.units_read - self._logged
            log.info("compared with the disk in %.1f s; files read since the last time: %d", seconds, read)
            self._logged = self.units_read
            self._index.tidy()
        with self._condition:
            self._settled = answered
            self._condition.notify_all()

    def _empty(self) -> None:
        self._index.clear()
        self._start_over()

    def _replace(self, error: apsw.Error) -> None:
        """Set a damaged index aside and start over with an empty one."""
        self._index.replace(str(error))
        self.generation += 1
        self._start_over()
        self.request_reconcile()

    def _start_over(self) -> None:
        self._backlog.clear()
        self._later.clear()
        self._volatile.clear()
        self._settled = 0
        self._tell(Changes(frozenset(), frozenset(), everything=True))

    def _reconcile(self) -> None:
        """Compare every unit on disk with the index; what differs goes to the backlog, the newest first."""
        self._begun = time.monotonic()
        self._look_at_stores()
        for changes in self._merger.enforce(self.stores.roots):
            self._tell(changes)
        changed: list[tuple[int, Unit]] = []
        self._later.clear()
        suspects: set[str] = set()
        gone: list[Unit] = []
        for root in self.stores.roots:
            if root.path not in self.stores.present:
                continue  # What was in a store that is away, or silent, is not known to be gone.
            found = compare(root, self._index)
            changed += found.changed
            self._later += found.incomplete
            self.stores.note_unlisted(root, len(found.unlisted))
            missing = judge(root, found.absent, self._suspects)
            gone += missing.gone
            suspects |= missing.suspects
        self._suspects = suspects
        for start in range(0, len(gone), 500):
            self._mark_gone(gone[start : start + 500])
        self._backlog.fill(changed)
        self._total = len(changed)

    def _look_at(self, paths: list[str]) -> None:
        """Bring the units at *paths*, and those below paths that vanished, up to date."""
        changed: dict[Unit, None] = {}
        gone: list[Unit] = []
        queue = list(paths)
        while queue:
            path = queue.pop()
            if self.stores.is_silent(path):
                continue
            for root in self.stores.roots:
                unit = root.app.unit(root.path, path)
                if unit is None:
                    continue
                try:
                    root.app.stat(unit)
                except FileNotFoundError:
                    if presence(root, path) == "full":
                        gone.append(unit)
                    else:
                        self.request_reconcile()
                    break
                except OSError:
                    break
                changed[unit] = None
                queue += [other for other in root.app.companions(unit) if os.path.lexists(other)]
                break
            else:
                if not os.path.lexists(path):
                    queue += self._index.below(path)
        if gone:
            self._mark_gone(gone)
        self._read(changed)

    def _read_some(self) -> None:
        """Read of the backlog, and store, for about ``BATCH`` seconds."""
        deadline = time.monotonic() + BATCH
        while self._backlog and time.monotonic() < deadline:
            self._store(*self._backlog.next())

    def _look_closer(self) -> None:
        """Take the second, slower look at one unit that the first pass left incomplete."""
        self._read([self._later.pop()])

    def _read(self, units: Iterable[Unit]) -> None:
        jobs = self._jobs(units)
        self._store(jobs, [read(self._apps[job.unit.app], job) for job in jobs])

    def _jobs(self, units: Iterable[Unit]) -> list[Job]:
        """Return what there is to read of *units*, with what is known of each."""
        jobs = []
        for unit in units:
            try:
                stat = self._apps[unit.app].stat(unit)
            except OSError:
                self._dirty.add(unit.path)
                continue
            known, previous = self._index.previous(unit) or (None, None)
            if known and known.gone:
                previous = None
            if known and previous and known.stat == stat and known.complete and not known.volatile:
                continue
            jobs.append(Job(unit, stat, previous))
        return jobs

    def _store(self, jobs: list[Job], scans: list[Scan | None]) -> None:
        """Store what units say, and merge the sessions they speak of. One with which that fails holds up no other."""
        try:
            self._store_together(jobs, scans)
        except apsw.Error:
            raise
        except Exception as error:
            if len(jobs) > 1:
                for job, scan in zip(jobs, scans, strict=True):
                    self._store([job], [scan])
                return
            log.error("a unit cannot be stored: %s", problem(error))
            unit, _, previous = jobs[0]
            unread = Scan(facts=previous.facts if previous else {}, volatile=True, problem=problem(error))
            with self._index.transaction():
                self._index.store(unit, previous.stat if previous else Stat(0, 0, 0, 0, 0), unread, previous)

    def _store_together(self, jobs: list[Job], scans: list[Scan | None]) -> None:
        changed: set[Identity] = set()
        with self._index.transaction():
            for (unit, stat, previous), scan in zip(jobs, scans, strict=True):
                if scan is None:
                    self._dirty.add(unit.path)
                    continue
                self.bytes_read += scan.read
                self.units_read += 1
                self.slowest = slowest(self.slowest, Reading(scan.seconds, scan.read, unit))
                if scan.problem and previous:
                    # Its old stat stays with its old facts: the next reconcile tries again.
                    stat = previous.stat
                if scan.volatile and scan.facts and not scan.problem:
                    self._volatile.add(unit)
                    if previous and stat == previous.stat and scan.facts == previous.facts:
                        continue
                else:
                    self._volatile.discard(unit)
                changed |= self._index.store(unit, stat, scan, previous)
                if not scan.complete:
                    self._later.append(unit)
            self._merger.merge(changed)
        self._tell(self._index.changes())

    def _mark_gone(self, units: list[Unit]) -> None:
        changed: set[Identity] = set()
        with self._index.transaction():
            for unit in units:
                self._volatile.discard(unit)
                changed |= self._index.mark_gone(unit)
            self._merger.merge(changed)
        self._tell(self._index.changes())

    def _tell(self, changes: Changes) -> None:
        if changes.rows or changes.everything:
            for listener in self._listeners:
                listener(changes)
