"""Clients and limits at their worst: others are served meanwhile, and afterwards all is as it was."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from pathlib import Path

import pytest

from sessiond.protocol import MAX_REQUEST
from sessiond.server import MAX_WORKERS
from tests.daemon import Daemon, Home, changed, until


def footprint(daemon: Daemon) -> tuple[int, int]:
    """Return the resident MiB of the daemon and how many descriptors and threads it has."""
    folder = Path("/proc", str(daemon.process.pid))
    resident = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(resident.split()[1]) >> 10, len(os.listdir(folder / "fd")) + len(os.listdir(folder / "task"))


BAD = {
    "silent": b"",
    "slow": b'{"v":1,"op":',
    "leaving": b'{"v":1,"op":"find"}\n' * 50,
    "too long": b'{"v":1,"q":"' + b"x" * MAX_REQUEST,
    "binary": bytes(range(256)) * 400,
    "NUL": bytes(100_000),
    "deep": b'{"v":1,"op":' + b"[" * 500_000 + b"\n",
    "deep objects": b'{"a":' * 150_000 + b"\n",
    "digits": b'{"v":' + b"9" * 100_000 + b"}\n",
    "a key twice": b'{"v":1,"v":1,"op":"find","op":"status"}\n',
    "relay": b"R 1 0.1.0 100\n" + b"\0" * 100,
    "relay without end": b"R " + b"1" * MAX_REQUEST,
    "waiting": b'{"v":1,"op":"sync","timeout_ms":600000}\n' * 20,
    "words": b'{"v":1,"op":"find","q":"' + b"a b " * 40_000 + b'"}\n',
    "excluded": b'{"v":1,"op":"find","q":"' + b"-a " * 50_000 + b'"}\n',
    "empty lines": b"\n" * 100_000,
    "following": b'{"v":1,"op":"subscribe"}\n',
}


def test_nothing_of_a_bad_client_stays_behind(home: Home, daemon: Daemon) -> None:
    """Sixty of each kind at one time: others are served meanwhile, and the second time costs nothing more."""
    home.claude_session("a session")
    daemon.sync()
    before = footprint(daemon)

    def trouble() -> tuple[int, int]:
        others: list[socket.socket] = []
        for data in BAD.values():
            for _ in range(60):
                others.append(socket.socket(socket.AF_UNIX))
                others[-1].setblocking(False)
                others[-1].connect(str(daemon.socket))
                with contextlib.suppress(OSError):
                    others[-1].send(data)
            assert daemon.titles() == ["a session"]
        assert footprint(daemon)[0] < before[0] + 150  # 60 unfinished requests of up to 1 MiB are among them
        for other in others:
            other.close()
        # Of the index SQLite keeps a descriptor open for each worker that there was at one time, and uses it again.
        until(lambda: footprint(daemon)[1] <= before[1] + 2 * MAX_WORKERS)
        assert daemon.titles() == ["a session"]
        return footprint(daemon)

    first, second = trouble(), trouble()
    assert second[0] < first[0] + 30  # Over six times it varies by 13 and does not grow.
    assert second[1] <= first[1] + 2 * MAX_WORKERS


@pytest.mark.parametrize("folder", ["/a" * 50_000, "/a" * 2_000, "/" * 200_000, "/" + "x" * 200_000])
def test_a_session_in_a_folder_of_any_depth_costs_little(home: Home, daemon: Daemon, folder: str) -> None:
    """Each folder above it has a file for the prompt, and a transcript can claim a hundred thousand of them."""
    daemon.sync()
    before = footprint(daemon)
    home.codex_session("deep", cwd=folder)
    daemon.sync()
    home.claude_session("later", cwd="/srv/later")
    until((home.path / "state/run/here/-srv-later").exists)
    until(lambda: set(daemon.titles()) == {"later", "deep"})
    assert footprint(daemon)[0] < before[0] + 30


def test_more_waiting_requests_than_are_worked_on_wait_their_turn(home: Home, daemon: Daemon) -> None:
    """Everybody is answered in the end, and what need not wait is answered before."""
    home.claude_session("a session")
    daemon.sync()
    others = [socket.socket(socket.AF_UNIX) for _ in range(3 * MAX_WORKERS)]
    for other in others:
        other.settimeout(30)
        other.connect(str(daemon.socket))
        other.sendall(b'{"v":1,"op":"sync","timeout_ms":20000}\n')
    assert daemon.titles() == ["a session"]
    for other in others:
        assert b'"progress": null' in other.recv(1000).replace(b":null", b": null")
        other.close()


def test_running_out_of_memory_ends_no_more_than_the_request(home: Home, daemon: Daemon) -> None:
    """The limit is set to what it has; large requests find none, and later ones are answered."""
    home.claude_session("a session")
    daemon.sync()
    size = int(Path("/proc", str(daemon.process.pid), "statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
    others = [socket.socket(socket.AF_UNIX) for _ in range(400)]
    for other in others:
        other.setblocking(False)
        other.connect(str(daemon.socket))
    for _ in range(10):
        for other in others:
            with contextlib.suppress(OSError):
                other.send(b"{" * 100_000)
    for other in others:
        other.close()
    resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    home.claude_session("written later")

    def found() -> bool:
        try:
            return len(daemon.titles()) == 2
        except OSError:
            assert daemon.process.poll() is None
            return False

    until(found)


def test_a_request_waits_for_a_thread_that_cannot_be_started(home: Home) -> None:
    """As at a limit of the system; it is answered when one can."""
    full = home.path / "full"
    full.touch()
    fault = f"""
import os, threading
start = threading.Thread.start
def refuse(thread):
    if thread.name == "worker" and os.path.exists({str(full)!r}):
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = refuse
"""
    daemon = Daemon(home, command=changed(fault))
    try:
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.settimeout(30)
            waiting.connect(str(daemon.socket))
            waiting.sendall(b'{"v":1,"op":"sync"}\n')
            until(lambda: "has to wait" in daemon.log.read_text())
            assert daemon.titles() == []
            full.unlink()
            assert b'"ok"' in waiting.recv(1000)
    finally:
        daemon.kill()
