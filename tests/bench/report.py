"""What is written of a run: the table on the terminal, docs/performance.md, and its figures for the next run."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tests.bench import plot
from tests.daemon import REPOSITORY

if TYPE_CHECKING:
    from tests.bench.figure import Figure
    from tests.bench.run import Run

JSON = REPOSITORY / "docs" / "performance.json"
PAGE = REPOSITORY / "docs" / "performance.md"
PICTURE = REPOSITORY / "docs" / "performance.svg"
REASONS = {
    "ours / raw pread, 80 lines": (
        "Why not nearer to the raw pread: the start alone, with no sessions at all, takes about as long as 1.6 times "
        "the pread. Then each tail is searched for names that most sessions do not have, 0.15 ms for each absent key "
        "in 512 KiB, several times as long as reading it; a few lines are parsed; and a session is eleven statements "
        "of SQL, full text included, 0.2 ms. Two processes share that."
    ),
    "300 sessions: first rows": (
        "Why not sooner at few sessions: fzf alone takes longer than the peer's whole list there, which is printed and "
        "not drawn. It is started before the daemon is asked, so that both go on at once."
    ),
    "fish, the prompt after `cd`": (
        "Why not in fish: on entering a folder its newest session is listed with its age, and fish resolves a path, "
        "reads a clock and calculates only in command substitutions. There are four, of 0.045 ms each (`for i in "
        "(seq 2000); set -l x (math 1 + 1); end`), and as much again for what is in them. With `SESS_LINES=0` nothing "
        "is listed."
    ),
}
"""Of figures, by how their names begin, when the target is not met: where the time goes, and what forbids it."""
HEAD = """# Performance

Written by `python -m tests.bench`, which measures `sess` beside what people use instead. All figures are of one run
on one machine: {machine}. Compare the ratios; the absolute times are those of this machine. The files lie in the
page cache, for everybody. *Noise* is the range between the quartiles, for a percentile the range that it has in five
successive parts of the run, for a ratio what the quartiles of its two sides allow.

{summary}

![How cost grows](performance.svg)
"""


def table(figures: list[Figure]) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| what | value | noise | runs | target | |", "|---|---:|---:|---:|---:|---|"]
    for each in figures:
        noise = "" if each.low is None or each.high is None else f"{number(each.low)} to {number(each.high)}"
        verdict = {None: "", True: "met", False: "**not met**"}[each.met]
        lines.append(
            f"| {each.what} | {number(each.value)} {each.unit} | {noise} | {each.runs} | {target(each)} | {verdict} |"
        )
    return "\n".join(lines)


def target(figure: Figure) -> str:
    """Return what the figure should be, or nothing."""
    if figure.target.most is not None:
        return f"≤ {number(figure.target.most)}"
    return "" if figure.target.least is None else f"≥ {number(figure.target.least)}"


def number(value: float) -> str:
    """Return *value* with three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"


def page(run: Run) -> str:
    """Return docs/performance.md."""
    missed = [each for each in run.figures if each.met is False]
    aimed = [each for each in run.figures if each.met is not None]
    summary = f"Of {len(aimed)} targets {len(aimed) - len(missed)} are met."
    parts = [HEAD.format(machine=machine(), summary=summary)]
    if run.peer.problem:
        parts.append(f"fast-resume could not be installed, so it was not measured: {run.peer.problem}\n")
    for part in dict.fromkeys(each.part for each in run.figures):
        figures = [each for each in run.figures if each.part == part]
        parts.append(f"## {part}\n\n{table(figures)}\n")
        methods = dict.fromkeys(each.how for each in figures)
        names = {method: ", ".join(each.what for each in figures if each.how == method) for method in methods}
        parts.append("How:\n\n" + "\n".join(f"- {names[method]}: {method}." for method in methods) + "\n")
        for begin, reason in REASONS.items():
            if any(each.met is False and each.what.startswith(begin) for each in figures):
                parts.append(f"{reason}\n")
    return "\n".join(parts)


def worse(run: Run) -> list[str]:
    """Return what got more than 20 % worse than in the last written results."""
    last = {(each["part"], each["what"]): each["value"] for each in _last().get("figures", [])}
    return [
        f"{each.part}, {each.what}: {number(last[each.part, each.what])} → {number(each.value)} {each.unit}"
        for each in run.figures
        if (each.part, each.what) in last and each.worse_than(last[each.part, each.what])
    ]


def write(run: Run) -> None:
    """Write the page, its picture, and the results that the next run is compared with."""
    kept = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "seconds": round(run.elapsed)}
    kept |= {"figures": [asdict(each) for each in run.figures], "series": run.series}
    JSON.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(run), encoding="utf-8")
    PICTURE.write_text(plot.draw(run.series), encoding="utf-8")


def machine() -> str:
    """Return what matters of this machine, without its name."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), "")
    system = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model or platform.machine()}), {system}"


def _last() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(JSON.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
