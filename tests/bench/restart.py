"""A restart of the daemon when nothing has changed on disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.bench.corpora import complete
from tests.bench.figure import at_most

if TYPE_CHECKING:
    from tests.bench.run import Run


def run(run: Run) -> None:
    """Stop and start the daemon of 100,000 unchanged sessions."""
    part = run.part("Restart")
    home = run.corpora.short(100_000)
    daemon = home.serve()
    number = sum(daemon.ask("status")["sessions"].values())
    answered, reconciled = [], []
    for _ in run.times(15):
        daemon.stop()
        begin = time.perf_counter()
        daemon.start()
        assert daemon.find(limit=1)
        answered.append((time.perf_counter() - begin) * 1000)
        complete(daemon)
        reconciled.append((time.perf_counter() - begin) * 1000)
        assert daemon.ask("status")["units_read"] == 0
    daemon.stop()
    how = "from starting the process until `find` is answered; tried every 5 ms"
    part.median(f"first answer, {number:,} sessions", answered, "ms", how, at_most(400))
    how = "from starting the process until `status` says that everything was compared; looked at every 10 ms"
    part.median(f"compared with the disk, {number:,} sessions", reconciled, "ms", how, at_most(3000))
