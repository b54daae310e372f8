"""The picture of the report: three panels with logarithmic axes, as SVG written by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.run import Series

PANELS = {
    "sessions": ("A search in a shell", "sessions", "ms"),
    "size": ("First index of 50 sessions", "median size, MB", "s"),
    "rate": ("200 files that grow", "lines a second", "% of a core"),
}
WIDTH, HEIGHT = 300, 220
LEFT, TOP, RIGHT, BOTTOM = 52, 34, 12, 46
COLORS = ["#0b7285", "#868e96", "#e8590c", "#862e9c"]
STYLE = """<style>
text{font:11px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:13px}
.grid{stroke:#ddd}.line{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}
</style>"""


def draw(series: Series) -> str:
    """Return the panels beside each other."""
    panels = [_panel(name, lines) for name, lines in series.items() if name in PANELS]
    width = (WIDTH + LEFT + RIGHT) * len(panels)
    height = HEIGHT + TOP + BOTTOM + 16 * max((len(lines) for lines in series.values()), default=0)
    moved = [f'<g transform="translate({(WIDTH + LEFT + RIGHT) * n})">{panel}</g>' for n, panel in enumerate(panels)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="How cost grows with sessions, sizes and changes">{STYLE}\n' + "\n".join(moved) + "\n</svg>\n"
    )


def _panel(name: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    title, x_label, y_label = PANELS[name]
    points = [point for line in lines.values() for point in line]
    across = _Axis([x for x, _ in points], LEFT, LEFT + WIDTH)
    up = _Axis([y for _, y in points], TOP + HEIGHT, TOP)
    parts = [f'<text class="title" x="{LEFT}" y="18">{title}</text>']
    for value, place in across.ticks():
        parts.append(f'<path class="grid" d="M{place:.1f} {TOP}v{HEIGHT}"/>')
        parts.append(f'<text x="{place:.1f}" y="{TOP + HEIGHT + 15}" text-anchor="middle">{_short(value)}</text>')
    for value, place in up.ticks():
        parts.append(f'<path class="grid" d="M{LEFT} {place:.1f}h{WIDTH}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{_short(value)}</text>')
    parts.append(f'<text x="{LEFT + WIDTH}" y="{TOP + HEIGHT + 31}" text-anchor="end">{x_label}</text>')
    parts.append(f'<text x="{LEFT + WIDTH}" y="18" text-anchor="end">{y_label}</text>')
    for number, (label, line) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        places = [(across.place(x), up.place(y)) for x, y in sorted(line)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path class="line" stroke="{color}" d="M{path}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in places]
        below = TOP + HEIGHT + 31 + 16 * number
        parts.append(f'<rect x="{LEFT}" y="{below - 8}" width="14" height="4" fill="{color}"/>')
        parts.append(f'<text x="{LEFT + 20}" y="{below - 1}">{label}</text>')
    return "".join(parts)


class _Axis:
    """A logarithmic axis from *begin* to *end*, over whole powers of ten."""

    def __init__(self, values: list[float], begin: float, end: float) -> None:
        positive = [value for value in values if value > 0]
        self._low = math.floor(math.log10(min(positive)))
        self._high = max(self._low + 1, math.ceil(math.log10(max(positive))))
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        part = (math.log10(max(value, 10**self._low)) - self._low) / (self._high - self._low)
        return self._begin + part * (self._end - self._begin)

    def ticks(self) -> list[tuple[float, float]]:
        return [(10.0**power, self.place(10.0**power)) for power in range(self._low, self._high + 1)]


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
