"""What systemd passes to the daemon and what it is told, with systemd's own tools where they do the part."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from sessiond import systemd
from sessiond.protocol import Problem
from sessiond.server import MAX_CONNECTIONS
from tests.daemon import HASTY, PATIENCE, Daemon, Home, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSIOND = [sys.executable, "-m", "sessiond"]


class Activated(Daemon):
    """A daemon that ``systemd-socket-activate`` starts at the first connection."""

    def start(self) -> None:
        for folder in (self.socket.parent.parent, self.socket.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        passed = [word for name in self.home.env for word in ("-E", name)]
        command = ["systemd-socket-activate", *passed, f"--listen={self.socket}", *HASTY]
        self.process = subprocess.Popen(command, env=self.home.env, cwd="/", stderr=subprocess.PIPE)
        until(self._listens)

    def _listens(self) -> bool:
        """Return whether a client would be taken; between bind and listen it would be refused."""
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
            return any(line.split()[3] == "00010000" and line.endswith(f" {self.socket}\n") for line in sockets)


@pytest.fixture
def activated(home: Home) -> Iterator[Activated]:
    """A socket in `home` whose first client starts the daemon."""
    activated = Activated(home)
    yield activated
    activated.kill()


@pytest.mark.needs("systemd-socket-activate")
def test_the_first_client_starts_the_daemon_and_is_answered(home: Home, activated: Activated) -> None:
    """It connects before there is anybody to answer."""
    home.claude_session("waiting for it")
    assert not activated.index.exists()
    assert activated.titles("waiting", sync=True) == ["waiting for it"]


@pytest.mark.needs("systemd-socket-activate")
def test_a_socket_that_was_passed_on_is_neither_bound_again_nor_removed(activated: Activated) -> None:
    """It belongs to whoever made it, and the next daemon will listen on it."""
    made = activated.socket.stat()
    activated.ask("status")
    assert activated.socket.stat().st_ino == made.st_ino
    assert activated.stop() == 0
    assert activated.socket.stat().st_ino == made.st_ino


@pytest.mark.needs("systemd-socket-activate")
def test_a_daemon_whose_socket_vanished_ends(activated: Activated) -> None:
    """Nobody would reach it again, and the place is not its own to bind."""
    activated.ask("status")
    activated.socket.unlink()
    assert activated.process.wait(PATIENCE) == 0


def passing(*passed: socket.socket | int) -> list[str]:
    """Return what runs sessiond with these descriptors as systemd would pass them, from 3 on."""
    code = (
        "import os, sys\n"
        "passed = [os.dup(int(fd)) for fd in sys.argv[1:]]\n"
        "moved = [os.dup2(fd, 3 + n) for n, fd in enumerate(passed)]\n"
        "os.environ |= {'LISTEN_FDS': str(len(moved)), 'LISTEN_PID': str(os.getpid())}\n"
        f"os.execv({sys.executable!r}, {SESSIOND!r})\n"
    )
    numbers = [fd if isinstance(fd, int) else fd.fileno() for fd in passed]
    return [sys.executable, "-c", code, *map(str, numbers)]


@pytest.mark.parametrize("kind", ["two", "datagram", "file", "network"])
def test_what_is_no_socket_of_ours_is_refused(home: Home, tmp_path: Path, kind: str) -> None:
    """With the name of the unit that is wrong, and the exit code that keeps systemd from trying again."""
    one, two = socket.socketpair()
    datagram, network = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), socket.socket()
    with one, two, datagram, network, (tmp_path / "file").open("w") as file:
        passed = {"two": (one, two), "datagram": (datagram,), "file": (file.fileno(),), "network": (network,)}[kind]
        numbers = [fd if isinstance(fd, int) else fd.fileno() for fd in passed]
        ended = subprocess.run(
            passing(*passed), env=home.env, pass_fds=numbers, capture_output=True, text=True, timeout=60, check=False
        )
    assert ended.returncode == 2
    assert "systemd/sessiond.socket" in ended.stderr


def test_what_was_passed_to_another_process_is_not_ours() -> None:
    """A parent's variables are inherited, its sockets are not; and they are not passed on once more."""
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", "HOME": "/"}
    assert systemd.inherited(environ) is None
    assert environ == {"HOME": "/"}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket that listens in place of systemd."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0sess-test-{os.getpid()}-{id(tmp_path)}")
        receiver.settimeout(PATIENCE)
        yield receiver


def supervised(receiver: socket.socket, usec: int = 0) -> dict[str, str]:
    """Return the variables by which *receiver* is told."""
    name = receiver.getsockname().decode().replace("\0", "@")
    return {"NOTIFY_SOCKET": name} | ({"WATCHDOG_USEC": str(usec)} if usec else {})


def test_a_daemon_says_when_it_is_ready_alive_and_about_to_end(home: Home, told: socket.socket) -> None:
    """In this order, alive again and again; by then it has answered."""
    env = home.env | supervised(told, 300_000)
    process = subprocess.Popen(SESSIOND, env=env, stderr=subprocess.DEVNULL)
    try:
        assert told.recv(100) == b"READY=1"
        assert [told.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        process.terminate()
        messages = {told.recv(100)}
        while b"STOPPING=1" not in messages:
            messages.add(told.recv(100))
        assert messages <= {b"WATCHDOG=1", b"STOPPING=1"}
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


class Mute:
    """What accepts connections and answers none, as a daemon does whose serving thread hangs."""

    def __init__(self, path: Path) -> None:
        self.connections: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self._listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        for each in (self._listener, *self.connections):
            each.close()


def test_a_daemon_that_answers_nobody_feeds_no_watchdog(home: Home, told: socket.socket) -> None:
    """The thread that feeds it lives on, and says nothing: neither that it is ready nor that it is alive."""
    mute = Mute(home.path / "s")
    heartbeat = systemd.Heartbeat(supervised(told, 30_000), str(home.path / "s"))
    heartbeat.start()
    until(lambda: len(mute.connections) >= 5)
    told.setblocking(False)
    with pytest.raises(BlockingIOError):
        told.recv(100)
    heartbeat.stop()
    assert told.recv(100) == b"STOPPING=1"
    mute.close()


def test_a_daemon_that_stops_to_answer_is_fed_no_longer(
    home: Home, told: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that is stopped as a whole would prove nothing: here only the answers cease."""
    daemon = Daemon(home)
    try:
        with caplog.at_level(logging.ERROR):
            heartbeat = systemd.Heartbeat(supervised(told, 300_000), str(daemon.socket))
            heartbeat.start()
            assert told.recv(100) == b"READY=1"
            assert told.recv(100) == b"WATCHDOG=1"
            daemon.process.send_signal(signal.SIGSTOP)
            until(lambda: "not answered" in caplog.text)
            told.setblocking(False)
            while True:  # those of before
                try:
                    told.recv(100)
                except BlockingIOError:
                    break
            failures = caplog.text.count("not answered")
            until(lambda: caplog.text.count("not answered") > failures + 1)
            with pytest.raises(BlockingIOError):
                told.recv(100)
            daemon.process.send_signal(signal.SIGCONT)
            told.settimeout(PATIENCE)
            assert told.recv(100) == b"WATCHDOG=1"
    finally:
        heartbeat.stop()
        daemon.kill()


def test_a_daemon_that_has_all_the_clients_it_may_have_is_alive(home: Home, told: socket.socket) -> None:
    """They asked once and keep their connections; what it asks itself comes on top."""
    env = home.env | supervised(told, 300_000)
    process = subprocess.Popen(SESSIOND, env=env, stderr=subprocess.DEVNULL)
    try:
        assert told.recv(100) == b"READY=1"
        others = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CONNECTIONS + 1)]
        for other in others:
            other.settimeout(PATIENCE)
            other.connect(str(home.path / "state/run/sessiond.sock"))
            if other is not others[-1]:
                other.sendall(b'{"v":1,"op":"status"}\n')
                assert other.recv(10)
        with contextlib.suppress(ConnectionResetError):
            assert others[-1].recv(1) == b""  # it is full
        told.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while told.recv(100):
                pass
        told.settimeout(PATIENCE)
        assert [told.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        for other in others:
            other.close()
    finally:
        process.kill()
        process.wait()


def test_clients_that_do_not_read_hold_up_no_end(home: Home, daemon: Daemon) -> None:
    """Each has an answer waiting that is larger than any buffer; together they get no more time than one."""
    for number in range(100):
        home.claude_session(f"session {number}")
    daemon.sync()
    request = b'{"v":1,"op":"find","limit":100}\n' * 30
    others = [socket.socket(socket.AF_UNIX) for _ in range(60)]
    for other in others:
        other.connect(str(daemon.socket))
        other.sendall(request)
    daemon.ask("status")
    daemon.process.terminate()
    assert daemon.process.wait(5) == 0  # TimeoutStopSec=
    for other in others:
        other.close()


@pytest.mark.parametrize(
    ("environ", "pause"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "60000000"}, 20),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
        ({"WATCHDOG_USEC": ""}, 0),
    ],
)
def test_a_watchdog_is_fed_three_times_as_often_as_it_wants(environ: dict[str, str], pause: float) -> None:
    """If it is meant for this process at all; children are not told of it."""
    heartbeat = systemd.Heartbeat(environ, "")
    assert heartbeat._pause == pause
    assert environ == {}


def test_without_systemd_nothing_is_told() -> None:
    """No thread, no message, no error."""
    heartbeat = systemd.Heartbeat({}, "/nowhere")
    before = threading.active_count()
    heartbeat.start()
    heartbeat.stop()
    assert threading.active_count() == before
    assert not heartbeat.supervised


def test_a_systemd_that_does_not_listen_is_no_reason_to_end(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged."""
    systemd.Heartbeat({"NOTIFY_SOCKET": "/nowhere/notify"}, "").tell("READY=1")
    assert "systemd cannot be told READY=1" in caplog.text


def test_an_error_names_what_is_expected() -> None:
    """For whoever writes a unit of their own."""
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"}
    with pytest.raises(Problem, match="one Unix stream socket"):
        systemd.inherited(environ)
