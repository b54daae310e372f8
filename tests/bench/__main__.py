"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import changes, find, first_index, idle, memory, picking, prompt, queries, report, restart, turns
from tests.bench.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

# Memory comes first: it makes the first index of 100,000 sessions that others go on with.
PARTS: dict[str, Callable[[Run], None]] = {
    "first-index": first_index.run,
    "find": find.run,
    "memory": memory.run,
    "restart": restart.run,
    "queries": queries.run,
    "changes": changes.run,
    "turns": turns.run,
    "idle": idle.run,
    "prompt": prompt.run,
    "picker": picking.run,
}
QUICK = 0.05


def main() -> int:
    """Measure what the command line asks for; exit code 1 when something got more than 20 % worse."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure: {' '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything, in about a minute")
    parser.add_argument("--scale", type=float, help="sessions in each home, as a part of the full number")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the homes there, for the next run")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part is called {' '.join(unknown)}; there are {' '.join(PARTS)}")
    if sys.platform != "linux":
        parser.error("it reads /proc, so it runs on Linux only")
    scale = options.scale or (QUICK if options.quick else 1)
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp")))
        run = Run(folder.absolute(), scale, QUICK if options.quick else 1)
        for name in options.parts or PARTS:
            PARTS[name](run)
        # Before the homes are removed, which takes half a minute.
        return finish(run, options, partial=scale != 1 or options.quick)


def finish(run: Run, options: argparse.Namespace, *, partial: bool) -> int:
    """Print what was measured, and write it if it was all of it; return the exit code."""
    print(f"\n{report.table(run.figures)}\n")
    if partial:
        print("This was smaller than the targets speak of; nothing is written.")
        return 0
    worse = report.worse(run)
    print("\n".join(["More than 20 % worse than last time:", *worse]) if worse else "Nothing got more than 20 % worse.")
    if not options.parts:
        report.write(run)
        print(f"written: {report.PAGE.name}, {report.PICTURE.name}, {report.JSON.name}, after {run.elapsed:.0f} s")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
