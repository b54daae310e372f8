"""Writes the figures in the README: ``python -m tools.comparison``, after each run of ``python -m tests.bench``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
FIGURES = ROOT / "docs" / "performance.json"
BEGIN = "<!-- made by `python -m tools.comparison` from docs/performance.json -->\n"
END = "<!-- end -->\n"

INDEX, FIND, MEMORY = "First index", "`sess find` in a shell", "Memory and disk"
LARGE, MANY = "48 sessions, 20 GB", "2,000 sessions, median 168 MB, a tenth 2 GB"
ROWS = {
    f"first index, {LARGE}": (
        (INDEX, LARGE),
        (INDEX, f"{LARGE}: fast-resume"),
        (INDEX, f"{LARGE}: parsing whole files"),
    ),
    "first index, 2,000 sessions of 2 MB": (
        (INDEX, "2,000 sessions, median 2 MB"),
        (INDEX, "2,000 sessions, median 2 MB: fast-resume"),
        (INDEX, "2,000 sessions, median 2 MB: parsing whole files"),
    ),
    f"first index, {MANY}; the script reads head and tail only": ((INDEX, MANY), None, (INDEX, "the plain way")),
    "the list in a shell, 300 sessions": ((FIND, "300 sessions"), (FIND, "300 sessions: fast-resume"), None),
    "the list in a shell, 3,000 sessions": ((FIND, "3,000 sessions"), (FIND, "3,000 sessions: fast-resume"), None),
    "the list in a shell, 30,000 sessions": ((FIND, "30,000 sessions"), (FIND, "30,000 sessions: fast-resume"), None),
    "memory of the daemon, 10,000 sessions": (
        (MEMORY, "resident after the first index, 10,000 sessions"),
        "no daemon",
        "no daemon",
    ),
}
"""What is compared: the figures of sess, of fast-resume, and of a script that parses every line."""


def readme() -> str:
    """Return the README with its table of figures. Raises KeyError for a figure that was not measured."""
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def table() -> str:
    """Return the table, in Markdown."""
    measured = json.loads(FIGURES.read_text(encoding="utf-8"))
    figures = {
        (figure["part"], figure["what"]): f"{_number(figure['value'])} {figure['unit']}"
        for figure in measured["figures"]
    }
    lines = ["| | `sess` | fast-resume | a script that parses the files |", "|---|---:|---:|---:|"]
    for what, cells in ROWS.items():
        shown = ["not measured" if cell is None else cell if isinstance(cell, str) else figures[cell] for cell in cells]
        lines.append(f"| {what} | {' | '.join(shown)} |")
    return "\n".join(lines) + f"\n\nMeasured on {measured['date']}: {measured['machine']}.\n"


def _number(value: float) -> str:
    """Return *value* with two digits that count, as more would be noise."""
    return f"{float(f'{value:.2g}'):,g}"


def main() -> int:
    """Write the README."""
    README.write_text(readme(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
