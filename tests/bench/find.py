"""`sess find` as it is typed: a process from its start to its end, beside a warm daemon."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from tests.bench.figure import at_least, at_most, percentile
from tools import environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.corpora import Corpus
    from tests.bench.figure import Part
    from tests.bench.run import Run

SIZES = {300: 1, 3000: 4, 30_000: 10}
"""Sessions, and how many times faster than the peer it should be."""


def run(run: Run) -> None:
    """Run `sess find`, `python -c pass` with and without `site`, and the peer in turn, at three sizes."""
    part = run.part("`sess find` in a shell")
    programs = installed(run.folder)
    for sessions, faster in SIZES.items():
        home = run.corpora.short(sessions)
        daemon = home.serve()
        number = len(home.transcripts())
        ours: list[float] = []
        python: list[float] = []
        bare: list[float] = []
        peer: list[float] = []
        if not run.peer.problem:
            run.peer.first(home.path)
        for _ in run.times(30):
            ours.append(process(home, str(programs / "sess"), "find"))
            python.append(process(home, str(programs / "python"), "-c", "pass"))
            bare.append(process(home, str(programs / "python"), "-I", "-S", "-c", "pass"))
            if not run.peer.problem:
                peer.append(run.peer.list(home.path))
        daemon.stop()
        against_python(part, number, ours, python)
        part.median(
            f"{number:,} sessions: floor", bare, "ms", "`python -I -S -c pass`, which no program in Python undercuts"
        )
        if peer:
            against_peer(part, number, ours, peer, faster)
        for name, times in {"sess find": ours, "python -c pass": python, "fast-resume": peer}.items():
            if times:
                run.point("sessions", name, number, percentile(times, 50))


def against_python(part: Part, number: int, ours: list[float], python: list[float]) -> None:
    """Report how little is added to the start of an interpreter."""
    how = "from starting the installed program until it has ended, its output to a pipe; in turn with its rivals"
    part.median(f"{number:,} sessions", ours, "ms", how)
    part.median(
        f"{number:,} sessions: `python -c pass`", python, "ms", "the interpreter of that program, in turn with it"
    )
    part.ratio(f"{number:,} sessions: ours / `python -c pass`", ours, python, at_most(1.1))


def against_peer(part: Part, number: int, ours: list[float], peer: list[float], faster: float) -> None:
    """Report how much faster it is than a program that refreshes an index of its own."""
    how = "`fr --list --limit 20`, which refreshes its complete index first, its output to a pipe"
    part.median(f"{number:,} sessions: fast-resume", peer, "ms", how)
    part.ratio(f"{number:,} sessions: fast-resume / ours", peer, ours, at_least(faster))


def process(home: Corpus, *words: str) -> float:
    """Return the ms that a process with those *words* takes."""
    env = {"HOME": str(home.path), "PATH": home.env["PATH"], "SESS_STATE_DIR": home.env["SESS_STATE_DIR"]}
    begin = time.perf_counter()
    subprocess.run(words, env=env | {"SESS_NO_SPAWN": "1"}, cwd="/", capture_output=True, check=True)
    return (time.perf_counter() - begin) * 1000


def installed(folder: Path) -> Path:
    """Return the programs of an environment into which this tree was installed, as its users do."""
    path = folder / "sess"
    environment.create(str(path))
    environment.install(str(path), [environment.ROOT])
    return path / "bin"
