"""The first index: from the start of the process until everything is in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.bench import rivals
from tests.bench.figure import NONE, at_least, at_most, percentile

if TYPE_CHECKING:
    from tests.bench.corpora import Corpus
    from tests.bench.figure import Bounds, Part
    from tests.bench.run import Run

OURS = "from starting `sessiond` without an index until `status` says that all is read; looked at every 10 ms"
SIZES = (1, 4, 16, 64, 256, 1024)
"""Median MB of the homes of the plot."""
SLOW = 64
"""Median MB up to which also those are measured that read whole files."""


def run(run: Run) -> None:
    """Measure three homes: the usual sizes, a few MB each, 20 GB in 48 files; and six for the plot."""
    part = run.part("First index")
    usual(run, part)
    few_mb(run, part)
    twenty_gb(run, part)
    by_size(run)


def usual(run: Run, part: Part) -> None:
    """2,000 sessions of 168 MB in the median, one in ten of 2 GB, against the plain way, raw preads and no sessions."""
    home = run.corpora.sparse(2000, 168, 0.1)
    paths = home.transcripts()
    what = f"{len(paths):,} sessions, median 168 MB, a tenth 2 GB"
    ours, read = first(run, home, 15)
    part.median(what, ours, "ms", OURS)
    plain = [rivals.timed("plain", home.path) for _ in run.times(15)]
    how = "a Python process: `json.loads` of 80 head lines and of 512 KiB tail, of each"
    part.median("the plain way", plain, "ms", how)
    part.ratio("the plain way / ours", plain, ours, at_least(6))
    for name, length, target in (
        ("80 lines and 512 KiB of each", rivals.HEAD + rivals.TAIL, at_most(1.6)),
        ("as many bytes as we read", read // len(paths), NONE),
    ):
        raw = [rivals.pread(paths, length) for _ in run.times(15)]
        how = f"open, fstat, two preads of {length >> 10} KiB together, close, in a loop in Python"
        part.median(f"floor: raw pread, {name}", raw, "ms", how)
        part.ratio(f"ours / raw pread, {name}", ours, raw, target)
    part.median("floor: no sessions at all", first(run, run.corpora.empty(), 15)[0], "ms", OURS)


def few_mb(run: Run, part: Part) -> None:
    """2,000 sessions of 2 MB, against parsing whole files and the peer."""
    home = run.corpora.sparse(2000, 2)
    against(run, part, home, f"{len(home.transcripts()):,} sessions, median 2 MB", at_least(1), 3)


def twenty_gb(run: Run, part: Part) -> None:
    """48 sessions with 25 GB, against parsing whole files and the peer."""
    home = run.corpora.lined(48, 168, 0.1)
    against(run, part, home, f"{len(home.transcripts()):,} sessions, 20 GB", at_least(50), 1)


def against(run: Run, part: Part, home: Corpus, what: str, target: Bounds, times: int) -> None:
    """Measure us, and the ways that read everything, each of them so many *times*."""
    ours, _ = first(run, home, 15)
    part.median(what, ours, "ms", OURS)
    whole = [rivals.timed("whole", home.path) for _ in run.times(times)]
    how = "a Python process: `json.loads` of every line, holes only read; few runs, as one takes seconds"
    part.median(f"{what}: parsing whole files", whole, "ms", how)
    part.ratio(f"{what}: parsing whole files / ours", whole, ours)
    if not run.peer.problem:
        peer = [run.peer.first(home.path) for _ in run.times(times)]
        how = "`fr --list` without an index; few runs, as one takes seconds"
        part.median(f"{what}: fast-resume", peer, "ms", how)
        part.ratio(f"{what}: fast-resume / ours", peer, ours, target)


def by_size(run: Run) -> None:
    """50 sessions of each size, for the plot; rivals up to where one run takes seconds."""
    for size in SIZES:
        home = run.corpora.lined(50, size)
        run.point("size", "sess", size, percentile(first(run, home, 3)[0], 50) / 1000)
        run.point("size", "the plain way", size, rivals.timed("plain", home.path) / 1000)
        if size <= SLOW:
            run.point("size", "parsing whole files", size, rivals.timed("whole", home.path) / 1000)
        if size <= SLOW and not run.peer.problem:
            run.point("size", "fast-resume", size, run.peer.first(home.path) / 1000)


def first(run: Run, home: Corpus, times: int) -> tuple[list[float], int]:
    """Return the ms that first indexes of *home* take, and the bytes that the last one read."""
    values, read = [], 0
    for _ in run.times(times):
        home.forget()
        begin = time.perf_counter()
        daemon = home.first_index()
        values.append((time.perf_counter() - begin) * 1000)
        read = daemon.ask("status")["bytes_read"]
        daemon.kill()
    return values, read
