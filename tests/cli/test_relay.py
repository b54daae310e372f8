"""The relay, as a process, against daemons that behave in every way."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from sessiond import __version__
from sessiond.protocol import HANDED_BACK, PROTOCOL, exit_frame, output_frame, parse_relay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Client, Handler

    Listen = Callable[[Handler], None]

IMPATIENT = "import sess.relay; sess.relay.SILENCE = 0.3"


def receive(connection: socket.socket) -> tuple[bytes, bytes]:
    """Return the first line of a request and the body it announces."""
    with connection.makefile("rb") as stream:
        header = stream.readline()
        return header, stream.read(int(header.split()[3])) if header.startswith(b"R") else b""


def answering(*frames: bytes, code: int = 0, version: str = __version__) -> Handler:
    """Return a daemon that gives the same answer to everything."""

    def serve(connection: socket.socket) -> None:
        receive(connection)
        connection.sendall(b"".join(frames) + exit_frame(code, version))

    return serve


def test_output_and_exit_code_are_those_of_the_daemon(client: Client, listen: Listen) -> None:
    """Each part goes where it says, byte by byte."""
    listen(answering(output_frame(1, b"one\n"), output_frame(2, b"hm\n"), output_frame(1, b"two\0\xff\n"), code=5))
    done = client("find")
    assert (done.stdout, done.stderr, done.returncode) == (b"one\ntwo\0\xff\n", b"hm\n", 5)


def test_an_answer_may_arrive_in_any_pieces(client: Client, listen: Listen) -> None:
    """Frames are not packets."""

    def serve(connection: socket.socket) -> None:
        receive(connection)
        for byte in (
            output_frame(1, b"1 5\nabc") + output_frame(2, b"") + output_frame(2, b"x") + exit_frame(1, __version__)
        ):
            connection.sendall(bytes([byte]))

    listen(serve)
    done = client("find")
    assert (done.stdout, done.stderr, done.returncode) == (b"1 5\nabc", b"x", 1)


def test_a_large_answer_arrives_whole(client: Client, listen: Listen) -> None:
    """Also one larger than every buffer on the way."""
    data = os.urandom(3_000_000)
    listen(answering(output_frame(1, data)))
    assert client("find").stdout == data


def test_the_daemon_gets_the_words_and_what_it_has_to_know(client: Client, listen: Listen, tmp_path: Path) -> None:
    """Words are bytes: also empty ones, and ones that are no UTF-8."""
    got: list[tuple[bytes, bytes]] = []

    def serve(connection: socket.socket) -> None:
        got.append(receive(connection))
        connection.sendall(exit_frame(0, __version__))

    listen(serve)
    words = [b"find", b"", b"two words", b"\xff\xfe", "naïve".encode()]
    for env in ({}, {"COLUMNS": "99"}):
        argv = client.argv(*words)
        subprocess.run(argv, env={**client.env, **env}, cwd=tmp_path, capture_output=True, check=True)
    (header, body), (_, other) = got
    assert header.split()[:3] == [b"R", b"%d" % PROTOCOL, __version__.encode()]
    context, received = parse_relay(body)
    assert received == words
    assert context == {
        "home": b"/home/anna",
        "cwd": os.fsencode(tmp_path),
        "columns": b"0",
        "tty": b"",
        "color": b"0",
    }
    assert parse_relay(other)[0]["columns"] == b"99"


@pytest.mark.parametrize(
    ("env", "color"),
    [
        ({"TERM": "xterm"}, b"1"),
        ({"TERM": "xterm", "NO_COLOR": ""}, b"1"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, b"0"),
        ({"TERM": "dumb"}, b"0"),
        ({}, b"0"),
    ],
)
def test_a_terminal_is_described(client: Client, listen: Listen, env: dict[str, str], color: bytes) -> None:
    """Its width, which descriptors are it, and whether it has colors."""
    import fcntl
    import struct
    import termios

    got = []

    def serve(connection: socket.socket) -> None:
        got.append(parse_relay(receive(connection)[1])[0])
        connection.sendall(exit_frame(0, __version__))

    listen(serve)
    ours, theirs = os.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 123, 0, 0))
    argv = client.argv("find")
    subprocess.run(argv, env={**client.env, **env}, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, check=True)
    os.close(ours)
    os.close(theirs)
    assert (got[0]["columns"], got[0]["tty"], got[0]["color"]) == (b"123", b"12", color)


def test_a_folder_that_is_gone_is_no_obstacle(client: Client, listen: Listen, tmp_path: Path) -> None:
    """The daemon is told nothing of it."""
    got = []

    def serve(connection: socket.socket) -> None:
        got.append(parse_relay(receive(connection)[1])[0])
        connection.sendall(exit_frame(0, __version__))

    listen(serve)
    folder = tmp_path / "gone"
    folder.mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    subprocess.run(["sh", "-c", script, folder, *client.argv("find")], env=client.env, check=True)
    assert "cwd" not in got[0]


def test_the_relay_imports_nothing_it_can_do_without(client: Client, listen: Listen) -> None:
    """This list is the budget of its start: a cold `socket`, `json`, `re` or `argparse` doubles it."""
    listen(answering(output_frame(1, b"")))
    before = "import posix\nbare = set(sys.modules)\nposix._exit = lambda code: print(*sorted(set(sys.modules) - bare))"
    assert client("find", before=before).stdout.split() == [
        b"_socket",
        b"sess",
        b"sess.relay",
        b"sessiond",
        b"sessiond.paths",
        b"sessiond.protocol",
    ]


def test_a_command_that_the_daemon_would_refuse_for_its_length_is_said(client: Client, listen: Listen) -> None:
    """As in `sess find $(cat everything)`."""
    listen(answering())
    done = client("find", *["word" * 25_000] * 15)
    assert done.returncode == 2
    assert done.stderr.startswith(b"sess: the command is too long: ")


@pytest.mark.parametrize("lives", [True, False])
def test_a_silent_daemon_counts_as_hung(client: Client, listen: Listen, runtime: Path, lives: bool) -> None:
    """The client ends, and says what to type: a process to kill only if it is the one that holds the lock."""
    client_ended = threading.Event()
    listen(lambda connection: (receive(connection), client_ended.wait(30)))
    with (runtime / "sessiond.lock").open("w") as lock:
        lock.write(f"pid 4711, version {__version__}\n")
        lock.flush()
        if lives:
            fcntl.flock(lock, fcntl.LOCK_EX)
        done = client("find", before=IMPATIENT)
    client_ended.set()
    assert done.returncode == 3
    assert done.stdout == b""
    what, todo = done.stderr.decode().splitlines()
    assert what.startswith("sess: the daemon does not answer: ")
    assert ("`kill -9 4711`" in todo) is lives


def test_signs_of_life_keep_the_client_waiting(client: Client, listen: Listen) -> None:
    """A daemon may work longer than it may be silent."""

    def serve(connection: socket.socket) -> None:
        receive(connection)
        for _ in range(6):
            threading.Event().wait(0.1)
            connection.sendall(output_frame(2, b""))
        connection.sendall(output_frame(1, b"done\n") + exit_frame(0, __version__))

    listen(serve)
    done = client("find", "--sync", before="import sess.relay; sess.relay.SILENCE = 0.5")
    assert (done.stdout, done.returncode) == (b"done\n", 0)


def test_a_daemon_that_does_not_accept_counts_as_hung(client: Client, runtime: Path) -> None:
    """With a full backlog Linux refuses at once, and others let one wait."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(runtime / "sessiond.sock"))
        listener.listen(0)
        waiting = []
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.settimeout(0.1)
            waiting.append(one)
            try:
                one.connect(str(runtime / "sessiond.sock"))
            except (BlockingIOError, TimeoutError):
                break
        done = client("find", before=IMPATIENT)
        for one in waiting:
            one.close()
    assert done.returncode == 3
    assert done.stderr.startswith(b"sess: the daemon does not answer: ")


def test_a_reader_that_went_away_ends_the_client_quietly(client: Client, listen: Listen) -> None:
    """As in `sess find | head -1`, with the exit code shells show for other tools."""
    listen(answering(output_frame(1, b"x\n" * 100_000)))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        client.argv("find"), env=client.env, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_output_that_cannot_be_written_is_said(client: Client, listen: Listen) -> None:
    """A full disk is no success."""
    listen(answering(output_frame(1, b"x\n")))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(client.argv("find"), env=client.env, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith(b"sess: the output could not be written: ")


def test_closed_descriptors_do_not_become_the_socket(client: Client, listen: Listen) -> None:
    """Output for a closed stdout is lost, and does not go to the daemon."""
    got: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        receive(connection)
        connection.sendall(output_frame(1, b"x\n") + exit_frame(0, __version__))
        got.append(connection.recv(100))

    listen(serve)
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *client.argv("find")], env=client.env, timeout=60, check=False
    )
    assert (done.returncode, got) == (0, [b""])


def test_interrupting_ends_with_130(client: Client, listen: Listen) -> None:
    """And without a traceback."""
    asked, ended = threading.Event(), threading.Event()
    listen(lambda connection: (receive(connection), asked.set(), ended.wait(30)))
    process = subprocess.Popen(client.argv("find"), env=client.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert asked.wait(30)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=30)
    ended.set()
    assert (process.returncode, output) == (130, (b"", b""))


def test_an_answer_that_breaks_off_is_said(client: Client, listen: Listen) -> None:
    """What was shown so far is not all."""

    def serve(connection: socket.socket) -> None:
        receive(connection)
        connection.sendall(output_frame(1, b"half")[:-1])

    listen(serve)
    done = client("find")
    assert (done.returncode, done.stdout) == (3, b"hal")
    assert done.stderr.startswith(b"sess: the answer is incomplete: ")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\n", b"7 3\nabc", b"0\n", b"1 x\n", b"\n"])
def test_something_else_behind_the_socket_is_said(client: Client, listen: Listen, answer: bytes) -> None:
    """No answer makes the client raise."""

    def serve(connection: socket.socket) -> None:
        receive(connection)
        connection.sendall(answer)

    listen(serve)
    done = client("find")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"sess: what answers is not sessiond")


def test_without_a_daemon_what_needs_none_works(client: Client) -> None:
    """Help, the version, wrong use and stopping start nothing."""
    assert client("--version").stdout == f"sess {__version__}\n".encode()
    assert client("--help").stdout.startswith(b"usage: sess ")
    assert client("find", "--help").stdout.startswith(b"usage: sess find ")
    assert client("fnid").returncode == 2
    stopped = client("stop")
    assert stopped.returncode == 0
    assert stopped.stdout == b"the daemon is not running\nAny search starts it: `sess find`\n"
    status = client("status")
    assert (status.returncode, status.stdout.splitlines()[0]) == (3, b"the daemon is not running")


def test_without_a_daemon_a_search_says_that_none_may_be_started(client: Client) -> None:
    """`SESS_NO_SPAWN` is set."""
    done = client("find")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"sess: the daemon is not running, and SESS_NO_SPAWN is set\n")


def test_a_dead_daemons_socket_is_no_daemon(client: Client, runtime: Path) -> None:
    """The file stays when a daemon is killed."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(runtime / "sessiond.sock"))
    assert client("find").stderr.startswith(b"sess: the daemon is not running")


def serving_json(version: str, served: list[bytes]) -> Handler:
    """Return a daemon of *version*, which runs no command for a client of another one."""

    def serve(connection: socket.socket) -> None:
        with connection.makefile("rwb") as stream:
            header = stream.readline()
            served.append(header)
            if header.startswith(b"R"):
                stream.read(int(header.split()[3]))
                stream.write(exit_frame(HANDED_BACK, version))
            else:
                stream.write(json.dumps({"ok": {"version": version}}).encode() + b"\n")

    return serve


def test_a_newer_daemon_makes_an_old_client_say_so(client: Client, listen: Listen) -> None:
    """The older side gives way, and the client cannot replace itself."""
    listen(serving_json("99.0", []))
    done = client("find")
    assert done.returncode == 3
    assert f"this is sess {__version__}, and the daemon is already sess 99.0".encode() in done.stderr


def test_a_daemon_of_another_version_is_still_told_to_stop(client: Client, listen: Listen) -> None:
    """Stopping needs no agreement about anything else."""
    served: list[bytes] = []
    listen(serving_json("99.0", served))
    done = client("stop")
    assert (done.returncode, done.stdout) == (0, b"the daemon stops\n")
    assert json.loads(served[-1]) == {"v": PROTOCOL, "op": "stop"}


@pytest.mark.parametrize("trap", ["open to others", "a link", "a file for a socket", "a link for a socket"])
def test_a_socket_that_may_be_somebody_elses_is_not_asked(
    client: Client, listen: Listen, runtime: Path, trap: str
) -> None:
    """What is typed is private, and an answer is believed."""
    asked: list[bytes] = []
    listen(lambda connection: asked.append(receive(connection)[1]))
    env = {}
    socket_path = runtime / "sessiond.sock"
    if trap == "open to others":
        runtime.chmod(0o755)
    elif trap == "a link":
        link = runtime / "link"
        link.symlink_to(runtime)
        env["SESS_RUNTIME_DIR"] = str(link)
    else:
        socket_path.rename(runtime / "real.sock")
        if trap == "a file for a socket":
            socket_path.touch()
        else:
            socket_path.symlink_to(runtime / "real.sock")
    done = client("find", **env)
    assert (done.returncode, asked) == (4, [])
    what, todo = done.stderr.decode().splitlines()
    assert what.startswith("sess: the daemon is not asked: ")
    assert todo
