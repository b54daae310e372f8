"""Asking a daemon as fast as a client can, without looking at what it says."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.daemon import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator


def request(op: str, **fields: Any) -> bytes:
    """Return a request as it goes over the wire."""
    return json.dumps({"v": 1, "op": op, **fields}).encode() + b"\n"


def latency(path: str, line: bytes) -> float:
    """Return the ms from before connecting to *path* until the answer to *line* is here."""
    begin = time.perf_counter()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(line)
        answer = b""
        while not _ended(answer):
            if not (data := connection.recv(1 << 18)):
                raise ConnectionError("the answer broke off")
            answer += data
    elapsed = (time.perf_counter() - begin) * 1000
    assert b'{"error"' not in answer[-2000:], answer[-2000:]
    return elapsed


def _ended(answer: bytes) -> bool:
    if not answer.endswith(b"}\n"):
        return False
    return answer.startswith((b'{"ok"', b'{"error"'), answer.rfind(b"\n", 0, -1) + 1)


@contextmanager
def echo(path: str, size: int) -> Iterator[None]:
    """Run a process that answers each line sent to *path* with *size* bytes: what any daemon in Python takes."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.asking", path, str(size)], cwd=REPOSITORY, stdout=subprocess.PIPE
    )
    assert server.stdout
    server.stdout.readline()
    try:
        yield
    finally:
        server.kill()
        server.communicate()


def _serve(path: str, size: int) -> None:
    answer = b'{"ok":"%s"}\n' % (b"x" * (size - 10))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("listening", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
