"""A figure of the report: what was measured, how, how noisy it was, and what it should be."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORSE = 1.2
"""From so many times the last result on, a figure has got worse."""
SUCCESSIVE = 5
"""Parts of the values that are compared to see how noisy a percentile is."""


class Bounds(NamedTuple):
    """What a figure should be: at most this, or at least that."""

    most: float | None = None
    least: float | None = None


NONE = Bounds()


def at_most(value: float) -> Bounds:
    """Return a target that is an upper bound."""
    return Bounds(most=value)


def at_least(value: float) -> Bounds:
    """Return a target that is a lower bound."""
    return Bounds(least=value)


@dataclass(frozen=True)
class Figure:
    """One line of the report. The unit ``x`` is a ratio."""

    part: str
    what: str
    value: float
    unit: str
    how: str
    target: Bounds = NONE
    runs: int = 1
    low: float | None = None
    high: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target.most is not None:
            return self.value <= self.target.most
        return None if self.target.least is None else self.value >= self.target.least

    def worse_than(self, last: float) -> bool:
        """Return whether this is clearly worse than the *last* result; more is worse unless a minimum is wanted."""
        if self.target.least is not None:
            return self.value * WORSE < last
        return self.value > last * WORSE


class Part:
    """A chapter of the report, to which figures are added one by one."""

    def __init__(self, name: str, add: Callable[[Figure], None]) -> None:
        self.name = name
        self._add = add

    def single(self, what: str, value: float, unit: str, how: str, target: Bounds = NONE) -> None:
        """Add a value that was measured once, over a long time or many events."""
        self._add(Figure(self.name, what, value, unit, how, target))

    def median(self, what: str, values: Sequence[float], unit: str, how: str, target: Bounds = NONE) -> None:
        """Add the median of *values*, with their quartiles as its noise."""
        low, high = percentile(values, 25), percentile(values, 75)
        self._add(Figure(self.name, what, statistics.median(values), unit, how, target, len(values), low, high))

    def tail(
        self, what: str, values: Sequence[float], percent: float, unit: str, how: str, target: Bounds = NONE
    ) -> None:
        """Add the *percent* percentile of *values*; its noise is the range it has in successive parts of them."""
        size = max(1, len(values) // SUCCESSIVE)
        parts = [percentile(values[start : start + size], percent) for start in range(0, len(values) - size + 1, size)]
        value = percentile(values, percent)
        self._add(Figure(self.name, what, value, unit, how, target, len(values), min(parts), max(parts)))

    def ratio(
        self, what: str, above: Sequence[float], below: Sequence[float], target: Bounds = NONE, how: str = "of medians"
    ) -> None:
        """Add the median of *above* over that of *below*; its noise is what their quartiles allow."""
        value = statistics.median(above) / statistics.median(below)
        low = percentile(above, 25) / percentile(below, 75)
        high = percentile(above, 75) / percentile(below, 25)
        self._add(Figure(self.name, what, value, "x", how, target, min(len(above), len(below)), low, high))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest of *values* that *percent* of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
