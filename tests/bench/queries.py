"""A query inside the daemon, over the socket, at 100,000 sessions: at rest and while others keep it busy."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fixtures.transcripts import Claude, write
from tests.bench.asking import echo, latency, request
from tests.bench.corpora import complete
from tests.bench.figure import at_most
from tests.bench.growth import growing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.corpora import Corpus
    from tests.bench.figure import Part
    from tests.bench.run import Run
    from tests.daemon import Daemon

NEEDLES = ["quokka in the attic", "鶴亀算の本", "vw xq"]
"""Titles that nothing else resembles, of the oldest sessions."""
KINDS = {
    "no query": [""],
    "a rare word": ["quokka", "attic", "73121"],
    "a common word": ["cart", "search", "upgrade", "claude"],
    "two words": ["login staging", "quokka attic", "fix cart", "speed rewrite", "quokka login"],
    "two characters": ["ca", "xq", "qz", "v1"],
    "Japanese": ["カート", "検索", "鶴亀", "亀", "画面を"],
    "a field": ["branch:release", "cwd:mobile", "app:codex webhooks", "title:quokka", "cwd:data branch:spike"],
    "no match": ["zyzzyva", "quokka zyzzyva", "title:nowhere branch:release"],
}
"""Texts that are hard in different ways: frequent, rare, never together, found by no index."""
EACH = 600
"""Queries of each kind."""


def run(run: Run) -> None:
    """Measure every kind at rest, then all together beside growing files and beside a first index."""
    part = run.part("Queries")
    home = run.corpora.short(100_000)
    with needles(home):
        daemon = home.serve()
        number = sum(daemon.ask("status")["sessions"].values())
        for kind, texts in KINDS.items():
            at_rest(run, part, daemon, f"{kind}, {number:,} sessions", texts)
        floor(run, part, home)
        while_growing(run, part, daemon, home.transcripts()[:200])
        while_indexing(run, part, daemon)
        daemon.stop()


def at_rest(run: Run, part: Part, daemon: Daemon, what: str, texts: list[str]) -> None:
    """Ask for each of *texts* in turn."""
    lines = [request("find", q=text) for text in texts]
    times = [latency(str(daemon.socket), line) for _ in run.times(EACH // len(lines)) for line in lines]
    how = "connect, send `find` for 20 rows, read to the end of the answer; several texts of each kind in turn"
    part.median(f"{what}: median", times, "ms", how, at_most(2))
    part.tail(f"{what}: 99th percentile", times, 99, "ms", how, at_most(10))


def floor(run: Run, part: Part, home: Corpus) -> None:
    """Measure what an answer of 20 rows takes that needs no work."""
    path = home.path / "echo.sock"
    with echo(str(path), 8000):
        times = [latency(str(path), request("find")) for _ in run.times(EACH)]
    path.unlink()
    part.median("floor: a socket echo of 8 KB", times, "ms", "the same, of a Python process that only answers")


def while_growing(run: Run, part: Part, daemon: Daemon, files: list[str]) -> None:
    """All kinds in turn, while 200 *files* grow ten times a second."""
    seconds = run.seconds(10)
    with growing(files, 10):
        times = list(all_kinds(daemon, seconds))
    how = f"all kinds in turn for {seconds:g} s, while another process appends a line to each of 200 files"
    busy(part, "while 200 files grow 10 times a second", times, how)


def while_indexing(run: Run, part: Part, daemon: Daemon) -> None:
    """All kinds in turn, from when 10,000 new files have been moved in until they are read."""
    new = run.corpora.short(10_000, codex=0)
    number = len(new.transcripts())
    there = daemon.home.claude / "projects"
    read = daemon.ask("status")["units_read"] + number
    moved = [(each, each.rename(there / each.name)) for each in sorted((new.claude / "projects").iterdir())]
    times = []
    try:
        for taken in all_kinds(daemon, 120):
            times.append(taken)
            if len(times) % 50 == 0 and daemon.ask("status")["units_read"] >= read:
                break
    finally:
        for origin, folder in moved:
            folder.rename(origin)
    complete(daemon)
    how = f"all kinds in turn, while folders with {number:,} transcripts, which were moved in, are read"
    busy(part, f"while {number:,} files are indexed for the first time", times, how)


def busy(part: Part, when: str, times: list[float], how: str) -> None:
    """Report queries that were answered beside other work."""
    part.median(f"{when}: median", times, "ms", how)
    part.tail(f"{when}: 99th percentile", times, 99, "ms", how, at_most(25))


def all_kinds(daemon: Daemon, seconds: float) -> Iterator[float]:
    """Ask all queries in turn for so long, yielding the ms that each took."""
    lines = [request("find", q=text) for texts in KINDS.values() for text in texts]
    end = time.monotonic() + seconds
    while True:
        for line in lines:
            if time.monotonic() > end:
                return
            yield latency(str(daemon.socket), line)


@contextmanager
def needles(home: Corpus) -> Iterator[None]:
    """Have sessions with rare titles in *home*, older than all others."""
    folder = home.claude / "projects" / "-needles"
    for title in NEEDLES:
        session = Claude(home.random, "/srv/old", "main", home.now - 400 * 24 * 3_600_000)
        session.ai_title = title
        session.turn(title, tools=0)
        session.metadata()
        write(str(folder / f"{session.id}.jsonl"), session.lines, session.now)
    try:
        yield
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
