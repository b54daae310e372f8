"""What the daemon holds in memory and on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.figure import at_most
from tests.bench.growth import Growing
from tests.bench.process import resident
from tests.daemon import until

if TYPE_CHECKING:
    from tests.bench.figure import Part
    from tests.bench.run import Run
    from tests.daemon import Daemon

LIMITS = {1000: 45, 10_000: 60, 100_000: 110}
"""MB resident after the first index, by sessions."""
ROUND = 2000
"""Files that change at one time: the kernel's queue holds 16,384 events."""
CHANGES = 100_000
NOISE = 2
"""MB by which two looks may differ without anything having grown."""


def run(run: Run) -> None:
    """Make the first index of 1,000, 10,000 and 100,000 sessions; change files of the last one 100,000 times."""
    part = run.part("Memory and disk")
    for sessions, limit in LIMITS.items():
        home = run.corpora.short(sessions)
        daemon = home.first_index()
        number = len(home.transcripts())
        how = "VmRSS when `status` says that all is read"
        held = resident(daemon.process.pid)
        part.single(f"resident after the first index, {number:,} sessions", held, "MB", how, at_most(limit))
        if sessions == max(LIMITS):
            size = daemon.ask("status")["index_bytes"] / number
            how = "`index_bytes` of `status` then: the file and its write-ahead log"
            part.single(f"index on disk, {number:,} sessions", size, "bytes a session", how, at_most(1200))
            changes(run, part, daemon, [Growing(path) for path in home.transcripts()[:ROUND]])
        daemon.stop()


def changes(run: Run, part: Part, daemon: Daemon, files: list[Growing]) -> None:
    """Append to all *files* again and again, each time when the last lines have been read."""
    held = []
    for _ in run.times(CHANGES // len(files)):
        change(daemon, files)
        held.append(resident(daemon.process.pid))
    growth = held[-1] - held[len(held) // 5]
    how = f"VmRSS at the end less that after a fifth; {len(files):,} files get a line each, are read, get the next one"
    part.single(f"growth over {len(held) * len(files):,} further changes", growth, "MB", how, at_most(NOISE))


def change(daemon: Daemon, files: list[Growing]) -> None:
    """Append to each of *files*, and wait until all have been read."""
    wanted = daemon.ask("status")["units_read"] + len(files)
    for file in files:
        file.append()
    until(lambda: daemon.ask("status")["units_read"] >= wanted)
