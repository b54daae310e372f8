"""A daemon that has nothing to do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sessiond.indexer import RECONCILE
from tests.bench.figure import at_most
from tests.bench.process import cpu, settle, wakeups

if TYPE_CHECKING:
    from tests.bench.run import Run


def run(run: Run) -> None:
    """Watch a daemon of 10,000 sessions for as long as it takes to meet one of its reconciles."""
    part = run.part("Idle")
    home = run.corpora.short(10_000)
    daemon = home.serve()
    pid = daemon.process.pid
    number = sum(daemon.ask("status")["sessions"].values())
    seconds = run.seconds(RECONCILE)
    begin, woken = settle(pid), wakeups(pid)
    time.sleep(seconds)
    used, woken = cpu(pid) - begin, wakeups(pid) - woken
    daemon.stop()
    when = f"over {seconds:g} s, from one comparison with the disk to the next"
    part.single(f"CPU, {number:,} sessions", used / seconds / 10, "% of a core", f"its CPU clock {when}", at_most(0.2))
    how = f"voluntary context switches of its threads {when}"
    part.single(f"wake-ups, {number:,} sessions", woken / seconds, "a second", how, at_most(5))
