"""The homes that are measured: written once, below one folder."""

from __future__ import annotations

import os
import random
import shutil
import time
from typing import TYPE_CHECKING

from fixtures import corpus
from tests.daemon import Daemon, Home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MIB = 1 << 20


class Corpus(Home):
    """A home that stays where it is, with an index that this run of the benchmark made, or none yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.claude = path / ".claude"
        self.codex = path / ".codex"
        self.random = random.Random(1)
        self.now = int(time.time() * 1000) - 3_600_000
        self.indexed = False
        self.forget()

    def forget(self) -> None:
        """Remove the index."""
        self.indexed = False
        shutil.rmtree(self.path / "state", ignore_errors=True)

    def first_index(self) -> Daemon:
        """Return a daemon that has just made its first index."""
        self.forget()
        daemon = Daemon(self)
        complete(daemon)
        self.indexed = True
        return daemon

    def serve(self) -> Daemon:
        """Return a running daemon whose index is complete."""
        if not self.indexed:
            return self.first_index()
        daemon = Daemon(self)
        complete(daemon)
        return daemon

    def transcripts(self) -> list[str]:
        """Return the paths of all transcripts."""
        return [entry for store in (self.claude, self.codex) for entry in _files(str(store))]


class Corpora:
    """Homes by what is in them. *scale* makes all of them smaller."""

    def __init__(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.scale = scale
        self._open: dict[str, Corpus] = {}

    def count(self, sessions: int) -> int:
        """Return how many sessions stand for *sessions* in this run."""
        return max(10, int(sessions * self.scale))

    def empty(self) -> Corpus:
        """Return a home with a store and nothing in it."""
        return self._home("empty", lambda path: os.makedirs(f"{path}/.claude/projects"))

    def short(self, sessions: int, codex: float = 0.3) -> Corpus:
        """Return a home with so many transcripts of one turn, 1 to 3 KB each."""
        number = self.count(sessions)

        def make(path: str) -> None:
            corpus.make(path, sessions=number, tail_kb=0, codex=codex)

        return self._home(f"short-{number}-{codex:g}", make)

    def sparse(self, sessions: int, median_mb: float, share_2gb: float = 0) -> Corpus:
        """Return a home of transcripts with whole heads and tails and a hole between."""
        number = self.count(sessions)

        def make(path: str) -> None:
            corpus.make(path, sessions=number, median_mb=median_mb, share_2gb=share_2gb)

        return self._home(f"sparse-{number}-{median_mb:g}-{share_2gb:g}", make)

    def lined(self, sessions: int, median_mb: float, share_2gb: float = 0) -> Corpus:
        """Return a home like that of `sparse`, with a line end in every MiB of the holes, for who parses whole files.

        fast-resume 2.14.0 takes 94 s for 26 GB with holes of one line, 12 s with these.
        """
        number = self.count(sessions)

        def make(path: str) -> None:
            for sample in corpus.make(path, sessions=number, median_mb=median_mb, share_2gb=share_2gb):
                _end_lines(sample.path)

        return self._home(f"lined-{number}-{median_mb:g}-{share_2gb:g}", make)

    def _home(self, name: str, make: Callable[[str], object]) -> Corpus:
        if name not in self._open:
            path = self.folder / name
            made = path / "made"
            if not made.exists():
                shutil.rmtree(path, ignore_errors=True)
                make(str(path))
                made.touch()
            self._open[name] = Corpus(path)
        return self._open[name]


def complete(daemon: Daemon) -> None:
    """Wait until the first reconcile of *daemon* has ended and nothing is left to read."""
    deadline = time.monotonic() + 300
    while not (status := daemon.ask("status"))["reconciled"] or status["progress"]:
        assert time.monotonic() < deadline, status
        time.sleep(0.01)


def _files(folder: str) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        yield from (f"{path}/{name}" for name in names if name.endswith(".jsonl"))


def _end_lines(path: str) -> None:
    """Put a line end into every MiB of the hole in *path*."""
    stat = os.stat(path)
    fd = os.open(path, os.O_RDWR)
    try:
        begin = os.lseek(fd, 0, os.SEEK_HOLE)
        if begin < stat.st_size:
            for offset in range(begin, os.lseek(fd, begin, os.SEEK_DATA), MIB):
                os.pwrite(fd, b"\n", offset)
    finally:
        os.close(fd)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
