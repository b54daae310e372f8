"""From a change on disk to the first query that sees it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fixtures.transcripts import line
from tests.bench.figure import at_most
from tests.bench.growth import growing

if TYPE_CHECKING:
    from tests.bench.figure import Part
    from tests.bench.run import Run
    from tests.daemon import Daemon

LOOK = 0.002
"""Seconds between two queries for what was changed."""
PATIENCE = 10
HOW = "a rename or a new session in turn, then `find` for the new word every 2 ms; pauses of 50 to 150 ms between"


def run(run: Run) -> None:
    """Measure at rest and while 200 files grow, with 10,000 sessions."""
    part = run.part("Changes")
    home = run.corpora.short(10_000)
    daemon = home.serve()
    growers, others = home.transcripts()[:200], home.transcripts()[200:]
    seen(run, part, daemon, others, "at rest")
    with growing(growers, 10):
        seen(run, part, daemon, others, "while 200 files grow 10 times a second")
    daemon.stop()


def seen(run: Run, part: Part, daemon: Daemon, files: list[str], when: str) -> None:
    """Rename a session or begin one, and look for the new title until it is found."""
    home = daemon.home
    claude = [path for path in files if path.startswith(str(home.claude))]
    times = []
    for number in run.times(100):
        word = f"w{home.random.getrandbits(60):x}"
        time.sleep(0.05 + home.random.random() / 10)
        begin = time.perf_counter()
        if number % 2:
            home.claude_session(word, cwd="/srv/bench")
        else:
            rename(claude[number], word)
        wait(daemon, word)
        times.append((time.perf_counter() - begin) * 1000)
    part.median(f"seen {when}: median", times, "ms", HOW, at_most(60))
    part.tail(f"seen {when}: 95th percentile", times, 95, "ms", HOW, at_most(200))


def rename(path: str, title: str) -> None:
    """Append what Claude Code does for ``/rename``."""
    name = path.rpartition("/")[2].removesuffix(".jsonl")
    with open(path, "ab", buffering=0) as file:
        file.write(line({"type": "custom-title", "customTitle": title, "sessionId": name}))


def wait(daemon: Daemon, word: str) -> None:
    """Return when a query for *word* finds a row."""
    end = time.monotonic() + PATIENCE
    while not daemon.find(word, limit=1):
        assert time.monotonic() < end, "never seen"
        time.sleep(LOOK)
