"""Transcripts that grow.

``python -m tests.bench.growth RATE`` appends a line to each path on stdin so many times a second.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.daemon import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIME = re.compile(rb'(?<="timestamp":")[^"]+')


class Growing:
    """A transcript, and a line of it that is appended again with the time of now."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - 20_000))
            lines = [line for line in file.read().splitlines() if _TIME.search(line) and b'"role":"assistant"' in line]
        self._line = lines[-1] + b"\n"

    def append(self) -> int:
        """Append the line; return its length."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = _TIME.sub(now.encode(), self._line)
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, line)
        os.close(fd)
        return len(line)


@contextmanager
def growing(paths: list[str], rate: float) -> Iterator[subprocess.Popen[bytes]]:
    """Have each of *paths* grow by a line *rate* times a second, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.growth", str(rate)]
    writer = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdin
    assert writer.stdout
    writer.stdin.write("\n".join(paths).encode())
    writer.stdin.close()
    writer.stdout.readline()
    try:
        yield writer
    finally:
        writer.kill()
        writer.stdout.close()
        writer.wait()


def _grow(files: list[Growing], rate: float) -> None:
    """Append for ever, spread evenly over time."""
    pause = 1 / rate / len(files)
    due = time.monotonic()
    while True:
        for file in files:
            due += pause
            time.sleep(max(0.0, due - time.monotonic()))
            file.append()


if __name__ == "__main__":
    _files = [Growing(path) for path in sys.stdin.read().splitlines()]
    print("growing", flush=True)
    _grow(_files, float(sys.argv[1]))
