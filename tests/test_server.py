"""The socket, as any program would use it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from sessiond import __version__
from sessiond.protocol import MAX_REQUEST, PROTOCOL, parse_relay, relay_request
from sessiond.server import MAX_CONNECTIONS
from tests.daemon import HASTY, Daemon, Home, changed, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def connection(daemon: Daemon) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(daemon.socket))
        yield connection


def received(connection: socket.socket) -> bytes:
    """Return everything until the daemon closes the connection."""
    data = b""
    while more := connection.recv(65536):
        data += more
    return data


def exchange(connection: socket.socket, *requests: Any) -> list[dict[str, Any]]:
    """Send requests on one connection, all at once, and return every object of the answers."""
    lines = [request if isinstance(request, bytes) else json.dumps(request).encode() for request in requests]
    connection.sendall(b"".join(line + b"\n" for line in lines))
    connection.shutdown(socket.SHUT_WR)
    return [json.loads(line) for line in received(connection).splitlines()]


def test_several_requests_share_a_connection(home: Home, daemon: Daemon, connection: socket.socket) -> None:
    """Answered one after another, each with the daemon's version."""
    home.claude_session("a session")
    daemon.sync()
    find = {"v": 1, "op": "find", "q": "session"}
    answers = exchange(connection, find, {"v": 1, "op": "sync"}, find)
    assert [next(iter(answer)) for answer in answers] == ["row", "ok", "ok", "row", "ok"]
    assert answers[0] == answers[3]
    assert {answer["ok"]["version"] for answer in answers if "ok" in answer} == {__version__}


def test_a_row_has_the_keys_of_the_contract(home: Home, daemon: Daemon) -> None:
    """Absent values are null; times are ms."""
    session, path = home.claude_session("a session", branch="fix/it")
    daemon.sync()
    (row,) = daemon.find()
    assert row == {
        "app": "claude",
        "id": session.id,
        "title": "a session",
        "cwd": "/srv/shop",
        "branch": "fix/it",
        "mtime": path.stat().st_mtime_ns // 1_000_000,
        "bytes": path.stat().st_size,
        "path": str(path),
        "root": str(home.claude),
        "created": row["created"],
        "updated": row["updated"],
        "model": "claude-opus-5-5",
        "effort": "high",
        "approval": "default",
        "sandbox": None,
        "archived": False,
        "live": None,
        "hidden": None,
        "launch_dir": "/srv/shop",
        "successor": None,
        "lost": None,
    }
    assert home.now - 1000 < row["created"] < row["updated"] < home.now + 60_000


@pytest.mark.parametrize(
    "request_",
    [
        b"not json",
        b"[]",
        b'"x"',
        b"{}",
        b'{"v":1}',
        b'{"v":2,"op":"find"}',
        b'{"v":1,"op":"nothing"}',
        b'{"v":1,"op":["find"]}',
        b'{"v":1,"op":"find","q":5}',
        b'{"v":1,"op":"find","limit":0}',
        b'{"v":1,"op":"find","limit":true}',
        b'{"v":1,"op":"find","limit":99999999}',
        b'{"v":1,"op":"find","sort":"random"}',
        b'{"v":1,"op":"find","app":"nobody"}',
        b'{"v":1,"op":"find","app":[["claude"]]}',
        b'{"v":1,"op":"find","cwd":"relative"}',
        b'{"v":1,"op":"find","since":"whenever"}',
        b'{"v":1,"op":"show"}',
        b'{"v":1,"op":"show","id":"abc"}',
        b'{"v":1,"op":"sync","timeout_ms":-1}',
        b"{" * 10_000,
        b'{"v":1,"op":"find","q":"\xff\xfe"}',
    ],
)
def test_a_wrong_request_is_told_so_and_the_next_one_answered(connection: socket.socket, request_: bytes) -> None:
    """With a code, a message and what to do."""
    answers = exchange(connection, request_, {"v": 1, "op": "status"})
    assert answers[0]["error"]["code"] == "usage"
    assert answers[0]["error"]["message"]
    assert answers[0]["error"]["hint"]
    assert "ok" in answers[-1]


@pytest.mark.parametrize("text", ["\\ud83d", "\\u0000", "'\\\"*()", "%_\\\\", "\\u202e", "检索"])
def test_any_text_can_be_looked_for(connection: socket.socket, text: str) -> None:
    """Lone surrogates, NUL and the special characters of SQL and FTS included."""
    answers = exchange(connection, b'{"v":1,"op":"find","q":"%s"}' % text.encode())
    assert "ok" in answers[-1]


def test_a_request_that_is_too_long_ends_the_connection(connection: socket.socket) -> None:
    """One more byte than allowed; the reason comes first."""
    connection.sendall(b'{"v":1,"op":"find","q":"' + b"x" * MAX_REQUEST)
    connection.shutdown(socket.SHUT_WR)
    assert b"a request may have" in received(connection)


@pytest.mark.parametrize("header", [b"R\n", b"R 1\n", b"R 1 0.1.0 -5\n", b"R 1 0.1.0 99999999\n", b"R a b c d\n"])
def test_a_malformed_relay_header_is_refused(connection: socket.socket, header: bytes) -> None:
    """It cannot be told where such a request ends."""
    connection.sendall(header)
    assert b"error" in received(connection)


def test_a_relayed_command_gets_its_output_and_exit_code(home: Home, daemon: Daemon, connection: socket.socket) -> None:
    """In frames that a client without JSON can copy."""
    session, _ = home.claude_session("a session")
    daemon.sync()
    context = {"cwd": b"/srv", "home": str(home.path).encode(), "columns": b"0", "tty": b"", "color": b"", "lang": b""}
    connection.sendall(relay_request(__version__, context, [b"find", b"--ids"]))
    data = received(connection)
    assert data == b"1 37\n%s\n0 0 %s\n" % (session.id.encode(), __version__.encode())


def test_a_client_of_another_version_is_told_ours(connection: socket.socket) -> None:
    """And nothing is run: the two settle who is to be replaced."""
    connection.sendall(relay_request("0.0.1", {"cwd": b"/"}, [b"stop"]))
    assert received(connection) == b"0 -1 %s\n" % __version__.encode()


@pytest.mark.parametrize(
    ("context", "words"), [({}, []), ({"a": b""}, [b""]), ({"cwd": b"/x\xff", "b": b"="}, [b"find", b"two words", b""])]
)
def test_a_relay_request_can_be_taken_apart_again(context: dict[str, bytes], words: list[bytes]) -> None:
    """Empty words and odd bytes included."""
    header, _, body = relay_request("9", context, words).partition(b"\n")
    assert header.split() == [b"R", str(PROTOCOL).encode(), b"9", str(len(body)).encode()]
    assert parse_relay(body) == (context, words)


def test_silent_and_half_finished_clients_hold_up_nobody(home: Home, daemon: Daemon) -> None:
    """As many as are let in; the next ones are closed, and a place that gets free is used."""
    home.claude_session("a session")
    daemon.sync()
    others: list[socket.socket] = []

    def connect(number: int) -> None:
        while len(others) < number:
            other = socket.socket(socket.AF_UNIX)
            other.settimeout(30)
            other.connect(str(daemon.socket))
            if len(others) % 2:
                with contextlib.suppress(OSError):
                    other.sendall(b'{"v":1,"op":')
            others.append(other)

    def served() -> bool:
        try:
            return daemon.titles() == ["a session"]
        except ConnectionError:
            return False

    connect(MAX_CONNECTIONS - 10)
    assert served()
    connect(MAX_CONNECTIONS + 1)
    with contextlib.suppress(ConnectionResetError):
        assert others[-1].recv(1) == b""
    for other in others:
        other.close()
    until(served)


def test_a_client_that_has_asked_is_waited_for_no_longer(home: Home) -> None:
    """The deadline is for the request: the answer to `sync` takes as long as the client allows."""
    impatient = "from sessiond import connection, server; connection.REQUEST_DEADLINE, server.SWEEP = 0.5, 0.1"
    daemon = Daemon(home, command=changed(impatient))
    writer = apsw.Connection(str(daemon.index))
    try:
        daemon.ask("sync")
        writer.execute("BEGIN IMMEDIATE")  # so that nothing gets complete
        assert daemon.ask("sync", timeout_ms=2000)["progress"] is not None
    finally:
        writer.close()
        daemon.kill()


def test_a_client_that_does_not_read_is_dropped(home: Home, daemon: Daemon) -> None:
    """Its answers wait in bounded memory; meanwhile others are served."""
    for number in range(100):
        home.claude_session(f"session {number}")
    daemon.sync()
    with socket.socket(socket.AF_UNIX) as greedy:
        greedy.connect(str(daemon.socket))
        greedy.setblocking(False)
        request = json.dumps({"v": 1, "op": "find", "limit": 100}).encode() + b"\n"

        def dropped() -> bool:
            assert len(daemon.find(limit=1)) == 1
            try:
                greedy.send(request * 100)
            except BlockingIOError:
                return False
            except OSError:
                return True
            return False

        until(dropped)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_another_user_is_refused_before_a_byte_is_read(home: Home, daemon: Daemon) -> None:
    """Even where the folder's mode lets it come that far."""
    for folder in (home.path, home.path / "state", home.path / "state" / "run"):
        folder.chmod(0o755)
    daemon.socket.chmod(0o777)
    script = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX)\n"
        "s.connect(sys.argv[1])\n"
        'try:\n s.sendall(b\'{"v":1,"op":"status"}\\n\'); print(s.recv(10))\n'
        "except OSError: print(b'')"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(daemon.socket)],
        capture_output=True, text=True, timeout=60, check=True, cwd="/",
    )  # fmt: skip
    assert answer.stdout == "b''\n"


def test_a_stopped_daemon_answers_when_it_goes_on(daemon: Daemon) -> None:
    """SIGSTOP and SIGCONT, as a laptop's lid does."""
    daemon.process.send_signal(signal.SIGSTOP)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(daemon.socket))
        connection.sendall(b'{"v":1,"op":"status"}\n')
        daemon.process.send_signal(signal.SIGCONT)
        assert json.loads(connection.makefile("rb").readline())["ok"]["pid"] == daemon.process.pid


def test_a_pasted_paragraph_is_a_query_like_any_other(home: Home, daemon: Daemon) -> None:
    """A thousand words cost no more than the few that count, and nobody else waits for them."""
    home.claude_session("a session")
    daemon.sync()
    for words in (50, 1000, 20_000):
        answer = daemon.answers("find", q=" ".join(f"wo{number}" for number in range(words)))[-1]
        assert answer["ok"]["found"] == 0
        assert answer["ok"]["excluded_by"] == []
    assert daemon.titles() == ["a session"]


def test_running_out_of_descriptors_is_survived(home: Home) -> None:
    """Without a busy loop; served again when some are free, and what was written meanwhile is found."""
    home.claude_session("a session")

    def served() -> bool:
        try:
            return "a session" in daemon.titles()
        except ConnectionError:
            return False

    daemon = Daemon(home, command=("sh", "-c", 'ulimit -n 48; exec "$0" "$@"', *HASTY))
    try:
        daemon.sync()
        others = [socket.socket(socket.AF_UNIX) for _ in range(80)]
        for other in others:
            other.connect(str(daemon.socket))
        home.claude_session("written meanwhile")
        for other in others:
            other.close()
        until(served)
        until(lambda: "written meanwhile" in daemon.titles())
        assert daemon.log.read_text().count("cannot be accepted") < 50
    finally:
        daemon.kill()


def test_an_agent_whose_name_is_mistyped_is_suggested(daemon: Daemon) -> None:
    """And all that are known are listed."""
    error = daemon.answers("find", app="cluade")[-1]["error"]
    assert (error["code"], error["message"]) == ("usage", "no agent is called cluade")
    assert error["hint"].startswith("Did you mean claude? Known are: ")
    assert daemon.answers("find", app="zzzzz")[-1]["error"]["hint"].startswith("Known are: ")


def test_nothing_found_tells_the_nearest_title(home: Home, daemon: Daemon) -> None:
    """With what it takes to look at that session."""
    home.claude_session("Speed up the checkout query")
    daemon.sync()
    near = daemon.answers("find", q="chekout")[-1]["ok"]["nearest"]
    assert (near["app"], near["title"]) == ("claude", "Speed up the checkout query")
    assert set(near) == {"app", "id", "title"}
