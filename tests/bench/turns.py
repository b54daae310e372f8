"""What a session that is being written costs the daemon."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from sessiond.dirty import INTERVAL
from tests.bench.figure import at_most, percentile
from tests.bench.growth import growing
from tests.bench.process import cpu, settle
from tests.daemon import Daemon, Home

if TYPE_CHECKING:
    from pathlib import Path

    from fixtures.transcripts import Claude
    from tests.bench.figure import Part
    from tests.bench.run import Run

KIB = 1 << 10
RATES = (1, 10, 100, 1000)
"""Lines a second, over 200 files, of the plot."""
CLOCK = "the daemon's CPU clock"
COUNTER = "`bytes_read` of `status`, before and after"


def run(run: Run) -> None:
    """Append turns to a file of 2 GB, lines to one of 160 MB, and lines at several rates to 200 files."""
    part = run.part("Sessions in use")
    large_file(run, part)
    two_lines_a_second(run, part)
    by_rate(run)


def large_file(run: Run, part: Part) -> None:
    """Append turns, most of some KB, one in ten with much text, one in thirty larger than a tail."""
    home = Home()
    session, path = transcript(home, 2 << 30)
    daemon = Daemon(home)
    daemon.sync()
    used, read, sizes = [], [], []
    for number in run.times(60):
        begin = len(session.lines)
        session.turn(f"prompt {number}", tools=350 if number % 30 == 29 else 12 if number % 10 == 9 else 2, words=60)
        sizes.append(sum(map(len, session.lines[begin:])) / KIB)
        cost = append(daemon, path, b"".join(session.lines[begin:]))
        used.append(cost[0])
        read.append(cost[1])
    daemon.kill()
    home.remove()
    what = f"a turn appended to a file of 2 GB, {percentile(sizes, 50):.0f} KiB, at most {max(sizes):.0f}"
    part.median(f"CPU for {what}", used, "ms", CLOCK, at_most(3))
    part.tail("the same at worst", used, 100, "ms", CLOCK)
    part.median(f"read for {what}", read, "KiB", COUNTER, at_most(80))
    part.tail("the same at the worst", read, 100, "KiB", COUNTER, at_most(700))


def append(daemon: Daemon, path: Path, data: bytes) -> tuple[float, float]:
    """Append *data* to *path*; return the ms of CPU and the KiB read that it costs *daemon*, which is at rest."""
    time.sleep(INTERVAL)
    read = daemon.ask("status")["bytes_read"]
    begin = settle(daemon.process.pid)
    with path.open("ab", buffering=0) as file:
        file.write(data)
    time.sleep(0.05)
    used = settle(daemon.process.pid) - begin
    return used, (daemon.ask("status")["bytes_read"] - read) / KIB


def two_lines_a_second(run: Run, part: Part) -> None:
    """Append two lines a second to a file of 160 MB."""
    home = Home()
    _, path = transcript(home, 160_000_000)
    daemon = Daemon(home)
    daemon.sync()
    seconds = run.seconds(30)
    with growing([str(path)], 2):
        read, begin = daemon.ask("status")["bytes_read"], cpu(daemon.process.pid)
        time.sleep(seconds)
        used = cpu(daemon.process.pid) - begin
        read = daemon.ask("status")["bytes_read"] - read
    daemon.kill()
    home.remove()
    what = f"two lines a second into a file of 160 MB, {seconds:g} s"
    part.single(f"CPU for {what}", used / seconds / 10, "% of a core", CLOCK, at_most(1))
    part.single(f"read for {what}", read / 1e6, "MB", COUNTER, at_most(6 * seconds / 30))


def by_rate(run: Run) -> None:
    """200 of 10,000 files grow, slowly and fast, for the plot."""
    home = run.corpora.short(10_000)
    daemon = home.serve()
    files = home.transcripts()[:200]
    for rate in RATES:
        with growing(files, rate / len(files)):
            begin, since = cpu(daemon.process.pid), time.monotonic()
            time.sleep(run.seconds(8))
            used = (cpu(daemon.process.pid) - begin) / (time.monotonic() - since) / 10
        run.point("rate", "sess", rate, used)
    daemon.stop()


def transcript(home: Home, size: int) -> tuple[Claude, Path]:
    """Write a transcript of *size* bytes whose head and last MiB are real; return its writer and its file."""
    session, path = home.claude_session("large")
    begin = len(session.lines)
    session.fill(1 << 20)
    tail = b"\n" + b"".join(session.lines[begin:])
    with path.open("r+b") as file:
        file.truncate(size - len(tail))
        file.seek(0, os.SEEK_END)
        file.write(tail)
    return session, path
