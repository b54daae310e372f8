"""What people use instead, and what no program can go below.

``python -m tests.bench.rivals plain HOME`` is the plain way as a program; ``whole`` parses everything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.daemon import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAD_LINES = 80
HEAD = 64 << 10
"""Bytes in which the first 80 lines of a generated transcript lie, about."""
TAIL = 512 << 10


def plain(path: str) -> int:
    """Parse the first 80 lines and the last 512 KiB; return how many records those are."""
    with open(path, "rb") as file:
        head = [file.readline(HEAD) for _ in range(HEAD_LINES)]
        file.seek(max(0, os.path.getsize(path) - TAIL))
        return _parse(head) + _parse(file.read().splitlines())


def whole(path: str) -> int:
    """Parse every line but those of a hole, which are only read; return how many records those are."""
    with open(path, "rb") as file:
        return _parse(line for line in file if not line.startswith(b"\0"))


def transcripts(home: str) -> Iterator[str]:
    """Yield every transcript of both agents in *home*."""
    for store in (".claude/projects", ".codex/sessions"):
        for folder, _, names in os.walk(f"{home}/{store}"):
            yield from (f"{folder}/{name}" for name in names if name.endswith(".jsonl"))


def timed(way: str, home: Path) -> float:
    """Return the ms that a process takes for *home* that way, from its start to its end."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tests.bench.rivals", way, str(home)], cwd=REPOSITORY, check=True)
    return (time.perf_counter() - begin) * 1000


def pread(paths: list[str], length: int) -> float:
    """Return the ms it takes to read, of each file, what head and tail of *length* bytes together are."""
    begin = time.perf_counter()
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        size = os.fstat(fd).st_size
        head = min(HEAD, length // 2)
        os.pread(fd, head, 0)
        os.pread(fd, length - head, max(0, size - (length - head)))
        os.close(fd)
    return (time.perf_counter() - begin) * 1000


def _parse(lines: Iterator[bytes] | list[bytes]) -> int:
    records = 0
    for line in lines:
        try:
            json.loads(line)
        except ValueError:  # the torn first line of a tail
            continue
        records += 1
    return records


if __name__ == "__main__":
    sum(map({"plain": plain, "whole": whole}[sys.argv[1]], transcripts(sys.argv[2])))
