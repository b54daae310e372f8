"""One run of the benchmark: its homes, its rivals, its figures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.bench.corpora import Corpora
from tests.bench.figure import Part
from tests.bench.peer import FastResume

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.figure import Figure

Series = dict[str, dict[str, list[tuple[float, float]]]]
"""Of each panel of the plot, the points of each line."""


class Run:
    """What the parts share. *effort* of less than 1 means fewer repetitions and shorter waits."""

    def __init__(self, folder: Path, scale: float, effort: float) -> None:
        self.folder = folder
        self.corpora = Corpora(folder, scale)
        self.peer = FastResume(folder)
        self.figures: list[Figure] = []
        self.series: Series = {}
        self._effort = effort
        self._begin = time.monotonic()

    def times(self, wanted: int) -> range:
        """Return how often to repeat what a full run repeats *wanted* times, which is thrice at the least."""
        return range(max(min(3, wanted), int(wanted * self._effort)))

    def seconds(self, wanted: float) -> float:
        """Return how long to watch what a full run watches for *wanted* seconds; two at the least."""
        return max(min(2.0, wanted), wanted * self._effort)

    def part(self, name: str) -> Part:
        """Begin a chapter of the report."""
        print(f"{self.elapsed:6.1f} s  {name}", flush=True)
        return Part(name, self._add)

    def point(self, panel: str, line: str, x: float, y: float) -> None:
        """Add a point to the plot."""
        self.series.setdefault(panel, {}).setdefault(line, []).append((x, y))

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._begin

    def _add(self, figure: Figure) -> None:
        self.figures.append(figure)
        verdict = {None: "", True: ", met", False: ", NOT MET"}[figure.met]
        print(f"{self.elapsed:6.1f} s    {figure.what}: {figure.value:.4g} {figure.unit}{verdict}", flush=True)
