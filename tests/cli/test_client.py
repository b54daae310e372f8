"""Starting and replacing the daemon, with small daemons that are processes of their own."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sess import client, front, relay
from sessiond import __version__
from sessiond.paths import Paths, locate, make_private
from sessiond.protocol import Problem
from tests.daemon import until

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Handler

    Listen = Callable[[Handler], None]

STATUS = {"v": 1, "op": "status"}

DAEMON = """
import fcntl, json, os, socket, sys
runtime, version = sys.argv[1:]
lock = os.open(runtime + "/sessiond.lock", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
with open(runtime + "/started", "a") as started:
    started.write(json.dumps({
        "pid": os.getpid(), "session": os.getsid(0), "cwd": os.getcwd(),
        "stdin": os.readlink("/proc/self/fd/0") if sys.platform == "linux" else "/dev/null",
    }) + "\\n")
print("a line for the log", flush=True)
path = runtime + "/sessiond.sock"
if os.path.exists(path):
    os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
op = ""
while op != "stop":
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        if line := stream.readline():
            op = json.loads(line)["op"]
            stream.write(json.dumps({"ok": {"version": version}}).encode() + b"\\n")
"""


class Daemons:
    """Starts small daemons, and knows which were started."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths

    def command(self, version: str = __version__) -> list[str]:
        """Return what runs one of that version."""
        return [sys.executable, "-c", DAEMON, self.paths.runtime, version]

    def started(self) -> list[dict[str, object]]:
        """Return what each said when it started."""
        try:
            with open(self.paths.runtime + "/started") as lines:
                return [json.loads(line) for line in lines]
        except FileNotFoundError:
            return []


@pytest.fixture
def daemons(paths: Paths) -> Iterator[Daemons]:
    """A maker of daemons that end with the test."""
    daemons = Daemons(paths)
    yield daemons
    for one in daemons.started():
        pid = int(str(one["pid"]))
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def test_a_daemon_is_started_when_there_is_none(paths: Paths, daemons: Daemons) -> None:
    """It answers by the time we go on."""
    client.ensure(paths, daemons.command())
    assert client.ask(paths, STATUS).ok == {"version": __version__}
    assert len(daemons.started()) == 1


def test_a_started_daemon_is_detached(paths: Paths, daemons: Daemons) -> None:
    """It outlives the terminal, holds no folder and reads no keys."""
    client.ensure(paths, daemons.command())
    (one,) = daemons.started()
    assert one["session"] == one["pid"]
    assert (one["cwd"], one["stdin"]) == ("/", "/dev/null")


def test_what_a_daemon_writes_goes_to_a_private_log(paths: Paths, daemons: Daemons) -> None:
    """Folder and file are the user's alone, whatever the umask."""
    paths = Paths(paths.state + "/new/state", paths.runtime, paths.config, paths.state + "/new/log")
    before = os.umask(0)
    try:
        client.ensure(paths, daemons.command())
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(paths.log).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(paths.log)).st_mode) == 0o700
    with open(paths.log) as log:
        assert log.read() == "a line for the log\n"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_in_a_new_home_every_folder_is_made_for_the_user_alone(runtime: Path, daemons: Daemons, platform: str) -> None:
    """Their mode is what keeps others from the socket, the index and the log."""
    paths = daemons.paths = locate({"HOME": str(runtime)}, os.getuid(), platform, lambda folder: False)
    client.ensure(paths, daemons.command())
    for folder in (paths.state, paths.runtime, os.path.dirname(paths.log)):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_a_running_daemon_is_left_alone(paths: Paths, daemons: Daemons) -> None:
    """Nothing is started twice."""
    for _ in range(2):
        client.ensure(paths, daemons.command())
    assert len(daemons.started()) == 1


def test_of_many_clients_one_starts_the_daemon(paths: Paths, daemons: Daemons) -> None:
    """A shell with several panes starts them at once."""
    with ThreadPoolExecutor(8) as pool:
        for started in [pool.submit(client.ensure, paths, daemons.command()) for _ in range(8)]:
            started.result(30)
    assert len(daemons.started()) == 1


def test_folders_are_made_by_several_threads_without_a_trace(tmp_path: Path) -> None:
    """The umask of a process is one for all of its threads: what one sets back, another may have set."""
    before = os.umask(0o022)
    os.umask(before)
    with ThreadPoolExecutor(8) as pool:
        for made in [pool.submit(make_private, f"{tmp_path}/{n}/a/b", os.getuid()) for n in range(400)]:
            assert made.result(30) == ""
    after = os.umask(before)
    assert after == before
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in tmp_path.rglob("*")} == {0o700}


def test_a_dead_daemons_socket_does_not_stop_a_start(paths: Paths, daemons: Daemons) -> None:
    """It is left behind by kill -9."""
    client.ensure(paths, daemons.command())
    pid = int(str(daemons.started()[0]["pid"]))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    client.ensure(paths, daemons.command())
    assert len(daemons.started()) == 2


def test_a_daemon_that_is_just_starting_is_waited_for(paths: Paths, daemons: Daemons) -> None:
    """It holds its lock before it answers; a second one would only say that."""
    gate = f"{paths.runtime}/gate"
    os.mkfifo(gate)
    command = daemons.command()
    command[2] = DAEMON.replace("path =", f"open({gate!r}).read()\npath =")
    starting = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert starting.stdout
    assert starting.stdout.readline() == b"a line for the log\n"
    with ThreadPoolExecutor() as pool:
        ours = pool.submit(client.ensure, paths, ["false"])
        until(lambda: is_locked(f"{paths.runtime}/startup.lock"))
        os.close(os.open(gate, os.O_WRONLY))
        ours.result(30)
    starting.stdout.close()
    assert len(daemons.started()) == 1


def is_locked(path: str) -> bool:
    """Whether somebody holds the lock."""
    try:
        with open(path) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def test_an_older_daemon_is_replaced(paths: Paths, daemons: Daemons) -> None:
    """It ends first: two daemons would write one index."""
    client._start(paths, daemons.command("0.0.9"), float("inf"))
    client.ensure(paths, daemons.command())
    assert len(daemons.started()) == 2
    assert client.ask(paths, STATUS).ok == {"version": __version__}


def test_a_newer_daemon_stays(paths: Paths, daemons: Daemons) -> None:
    """Who has just upgraded would otherwise have two that replace each other."""
    client._start(paths, daemons.command("99.0"), float("inf"))
    with pytest.raises(Problem) as raised:
        client.ensure(paths, daemons.command())
    assert "already sess 99.0" in raised.value.message
    assert client.ask(paths, STATUS).ok == {"version": "99.0"}


@pytest.mark.parametrize(
    ("running", "starts"),
    [("", True), ("0.0.9", True), (__version__, False), (__version__ + "rc1", True), (__version__ + ".dev3+g1", True)],
)
def test_whether_a_daemon_has_to_start_depends_on_the_one_that_runs(running: str, starts: bool) -> None:
    """Where it cannot be told which is older, the client's own version is taken."""
    assert client._has_to_start(running) == starts


def test_starting_can_be_forbidden(paths: Paths, daemons: Daemons, monkeypatch: pytest.MonkeyPatch) -> None:
    """By SESS_NO_SPAWN; then nothing is touched."""
    monkeypatch.setenv("SESS_NO_SPAWN", "1")
    with pytest.raises(Problem) as raised:
        client.ensure(paths, daemons.command())
    assert raised.value.exit == 3
    assert os.listdir(paths.runtime) == []


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; print('old'); print('no space left\\n'); sys.exit(7)", "exit code 7: no space left"),
        ("import sys; sys.exit(1)", "exit code 1: it wrote nothing to its log"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
    ],
)
def test_a_daemon_that_ends_at_once_says_why(paths: Paths, code: str, says: str) -> None:
    """Its exit code and the last thing it wrote are what a person needs."""
    os.makedirs(os.path.dirname(paths.log), exist_ok=True)
    with open(paths.log, "w") as log:
        log.write("of an earlier one\n")
    with pytest.raises(Problem) as raised:
        client.ensure(paths, [sys.executable, "-c", code])
    assert raised.value.exit == 3
    assert says in raised.value.message
    assert paths.log in raised.value.hint


def test_a_daemon_that_never_answers_is_not_waited_for(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, with where to look."""
    monkeypatch.setattr(client, "START", 0.3)
    end = f"{paths.runtime}/end"
    os.mkfifo(end)
    with pytest.raises(Problem) as raised:
        client.ensure(paths, ["sh", "-c", f"read end < {end}"])
    os.close(os.open(end, os.O_WRONLY))
    assert "does not answer within" in raised.value.message


def test_a_daemon_that_holds_its_lock_and_is_silent_is_said(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one could not start, and would say only that."""
    monkeypatch.setattr(client, "START", 0.1)
    with open(paths.lock, "w") as lock:
        lock.write("pid 4711, version 0.1.0\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Problem) as raised:
            client.ensure(paths, ["false"])
    assert "does not answer" in raised.value.message
    assert "`kill -9 4711`" in raised.value.hint


def test_a_client_that_starts_a_daemon_for_ever_is_not_waited_for(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody stopped it with Ctrl-Z, say."""
    monkeypatch.setattr(client, "START", 0.1)
    with open(paths.runtime + "/startup.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Problem) as raised:
            client.ensure(paths, ["false"])
    assert "another client" in raised.value.message


def test_a_runtime_folder_open_to_others_is_not_used(paths: Paths) -> None:
    """Somebody else's daemon could answer there."""
    os.chmod(paths.runtime, 0o777)
    with pytest.raises(Problem) as raised:
        client.ensure(paths, ["false"])
    assert "mode 0777" in raised.value.message
    assert f"chmod 700 {paths.runtime}" in raised.value.hint


def test_a_path_too_long_for_a_socket_is_said(tmp_path: Path) -> None:
    """The system would say it in words nobody understands."""
    paths = Paths(str(tmp_path), str(tmp_path / ("long" * 40)), "", str(tmp_path))
    with pytest.raises(Problem) as raised:
        client.ensure(paths, ["false"])
    assert "bytes" in raised.value.message
    assert "SESS_RUNTIME_DIR" in raised.value.hint


def test_a_folder_that_cannot_be_made_is_said(runtime: Path) -> None:
    """With the reason."""
    (runtime / "file").touch()
    paths = Paths(str(runtime), str(runtime / "file/run"), "", str(runtime))
    with pytest.raises(Problem) as raised:
        client.ensure(paths, ["false"])
    assert "Not a directory" in raised.value.message


def answering(*lines: bytes) -> Handler:
    """Return a daemon that gives these lines for any request."""

    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"".join(lines))

    return serve


def test_an_answer_is_rows_and_a_closing_object(paths: Paths, listen: Listen) -> None:
    """In the order they came."""
    listen(answering(b'{"row":{"id":"a"}}\n{"row":{"id":"b"}}\n', b'{"ok":{"found":2}}\n'))
    answer = client.ask(paths, {"v": 1, "op": "find"})
    assert (answer.rows, answer.ok) == ([{"id": "a"}, {"id": "b"}], {"found": 2})


@pytest.mark.parametrize(("code", "exit"), [("usage", 2), ("ambiguous", 5), ("one-of-a-later-release", 3)])
def test_an_error_of_the_daemon_is_a_problem(paths: Paths, listen: Listen, code: str, exit: int) -> None:
    """With its message and hint, and the exit code of its kind."""
    error = {"code": code, "message": "no", "hint": "do"}
    listen(answering(json.dumps({"error": error}).encode() + b"\n"))
    with pytest.raises(Problem) as raised:
        client.ask(paths, STATUS)
    assert (raised.value.exit, raised.value.message, raised.value.hint) == (exit, "no", "do")


@pytest.mark.parametrize("lines", [b"what\n", b"{}\n", b'{"error":{}}\n', b"[]\n", b"\xff\n"])
def test_an_answer_that_is_none_is_a_problem(paths: Paths, listen: Listen, lines: bytes) -> None:
    """Whoever wrote it."""
    listen(answering(lines))
    with pytest.raises(Problem) as raised:
        client.ask(paths, STATUS)
    assert raised.value.exit == 3


def test_a_connection_that_ends_is_a_daemon_that_is_gone(paths: Paths, listen: Listen) -> None:
    """It is just ending; a new one may be started."""
    listen(answering())
    with pytest.raises(front.NotRunning):
        client.ask(paths, STATUS)


def test_a_silent_daemon_is_a_problem(paths: Paths, listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other is started beside it."""
    monkeypatch.setattr(client, "connect", lambda paths: relay.connect(paths, 0.2))
    ended = threading.Event()
    listen(lambda connection: ended.wait(30))
    with pytest.raises(Problem) as raised:
        client.ensure(paths, ["false"])
    ended.set()
    assert raised.value.message.startswith("the daemon does not answer: ")
