"""One daemon a user, and what it survives."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import apsw
import pytest

from sessiond import __version__
from tests.daemon import HASTY, Daemon, Home, until

if TYPE_CHECKING:
    from pathlib import Path


def intact(index: Path) -> bool:
    """Return whether the index is whole, its full-text index in step with its table."""
    db = apsw.Connection(str(index))
    try:
        assert db.pragma("integrity_check") == "ok"
        db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
    finally:
        db.close()
    return True


def test_a_second_daemon_ends_without_harm(home: Home, daemon: Daemon) -> None:
    """It exits 0, so that no service manager starts it over and over; the first one goes on."""
    second = subprocess.run(
        [sys.executable, "-m", "sessiond"], env=home.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 0
    assert "running already" in second.stderr
    assert daemon.ask("status")["pid"] == daemon.process.pid


def test_what_it_keeps_is_readable_by_nobody_else(home: Home, daemon: Daemon) -> None:
    """Whatever the umask was: it is a list of what a person works on."""
    home.claude_session("private")
    until(lambda: daemon.find("private"))
    kept = [home.path / "state", *(home.path / "state").rglob("*")]
    assert len(kept) >= 6
    for path in kept:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(home: Home, daemon: Daemon, number: signal.Signals) -> None:
    """The socket is gone, the index whole and without leftovers, and the exit code 0."""
    home.claude_session("kept")
    until(lambda: daemon.find("kept"))
    daemon.process.send_signal(number)
    assert daemon.process.wait(30) == 0
    assert not daemon.socket.exists()
    assert not daemon.index.with_name("index.sqlite-wal").exists()
    assert intact(daemon.index)


def test_it_can_be_told_to_stop(daemon: Daemon) -> None:
    """The answer comes before the end."""
    assert daemon.ask("stop")["version"] == __version__
    assert daemon.process.wait(30) == 0


def test_a_killed_daemon_starts_as_if_nothing_had_happened(home: Home, daemon: Daemon) -> None:
    """Its socket file and lock file are in nobody's way."""
    home.claude_session("survivor")
    until(lambda: daemon.find("survivor"))
    for _ in range(3):
        daemon.kill()
        assert daemon.socket.exists()
        daemon.start()
        assert daemon.titles("survivor") == ["survivor"]
    daemon.stop()
    assert intact(daemon.index)


def test_a_stranger_at_the_place_of_the_socket_is_replaced(home: Home) -> None:
    """A socket nobody serves, or any file."""
    run = home.path / "state" / "run"
    run.mkdir(parents=True, mode=0o700)
    (home.path / "state").chmod(0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(run / "sessiond.sock"))
    daemon = Daemon(home)
    daemon.stop()
    (run / "sessiond.sock").write_text("in the way")
    daemon.start()
    daemon.kill()


@pytest.mark.parametrize("damage", ["garbage", "middle", "empty", "other version", "other program"])
def test_an_index_that_cannot_be_used_is_set_aside_and_built_again(home: Home, daemon: Daemon, damage: str) -> None:
    """With everything in it again, and a word in the log."""
    for number in range(50):
        home.claude_session(f"session {number}")
    daemon.sync()
    daemon.stop()
    if damage == "garbage":
        daemon.index.write_bytes(os.urandom(50_000))
    elif damage == "middle":
        content = bytearray(daemon.index.read_bytes())
        content[4096:-4096] = os.urandom(len(content) - 8192)
        daemon.index.write_bytes(content)
    elif damage == "empty":
        daemon.index.write_bytes(b"")
    else:
        db = apsw.Connection(str(daemon.index))
        if damage == "other version":
            db.pragma("user_version", 999)
        else:
            db.execute("DROP TABLE session")
        db.close()
    daemon.start()
    daemon.sync()
    assert len(daemon.find(limit=100)) == 50
    if damage != "empty":
        assert "set aside" in daemon.log.read_text()
        assert daemon.index.with_name("index.sqlite.old").exists()
    daemon.stop()
    assert intact(daemon.index)


def test_an_index_damaged_while_it_is_used_is_built_again(home: Home, daemon: Daemon) -> None:
    """An answer may fail with a word why; the next ones are right again."""
    for number in range(200):
        home.claude_session(f"session {number}")
    daemon.sync()
    daemon.stop()
    daemon.start()
    with daemon.index.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(daemon.index.stat().st_size - 4096))

    def whole() -> bool:
        closing = daemon.answers("find", q="session", limit=300)
        if "error" in closing[-1]:
            return False
        daemon.ask("sync", timeout_ms=10_000)
        return len(closing) == 201

    home.claude_session("one more, so that it is written to", cwd="/srv/more")
    until(whole)


def test_a_vanished_socket_file_is_made_again(home: Home, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleaners of temporary folders take it; the daemon would never be reached again."""
    from sessiond.listener import Listener
    from sessiond.server import Server

    class Silent:
        def answer(self, request: object, *, may_wait: bool) -> None:
            raise AssertionError

    path = home.path / "s.sock"
    server = Server(Listener(str(path)), Silent())  # type: ignore[arg-type]
    path.unlink()
    server._keep_house()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
    path.unlink()
    path.write_text("another's")
    server._keep_house()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))


def test_a_folder_open_to_others_is_refused(home: Home) -> None:
    """With the words that mend it; exit 4."""
    (home.path / "state").mkdir(mode=0o755)
    ended = subprocess.run(
        [sys.executable, "-m", "sessiond"], env=home.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 4
    assert "chmod 700" in ended.stderr


def test_a_socket_path_that_is_too_long_is_named(home: Home) -> None:
    """Before anything is made; with what to set."""
    env = home.env | {"SESS_RUNTIME_DIR": str(home.path / ("x" * 120))}
    ended = subprocess.run(
        [sys.executable, "-m", "sessiond"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 3
    assert "SESS_RUNTIME_DIR" in ended.stderr
    assert not (home.path / "state").exists()


@pytest.mark.needs("unshare")
def test_without_enough_watches_everything_is_still_followed(home: Home) -> None:
    """In a user namespace with a limit of 20; the status names the reason."""
    script = 'echo 20 > /proc/sys/user/max_inotify_watches 2>/dev/null || exit 77; exec "$0" "$@"'
    probe = subprocess.run(["unshare", "-Ur", "true"], check=False)
    if probe.returncode:
        pytest.skip("user namespaces are forbidden here")
    for number in range(40):
        home.claude_session(f"session {number}", cwd=f"/srv/project{number}")
    daemon = Daemon(home, command=("unshare", "-Ur", "sh", "-c", script, *HASTY))
    try:
        daemon.sync()
        assert len(daemon.find(limit=100)) == 40
        status = daemon.ask("status")
        assert status["folders_polled"] > 0
        assert any("limit" in problem for problem in status["problems"])
        for number in range(40):
            home.claude_session(f"later {number}", cwd=f"/srv/project{number}")
        until(lambda: len(daemon.find("later", limit=100)) == 40)
    finally:
        daemon.kill()


def test_an_index_that_is_deleted_while_it_is_used_is_built_again(home: Home) -> None:
    """What would be written to the deleted file nobody would ever read."""
    home.claude_session("still here")
    daemon = Daemon(home, command=HASTY)

    def found() -> bool:
        answers = daemon.answers("find", q="still")
        return "row" in answers[0]

    try:
        until(found)
        for suffix in ("", "-wal", "-shm"):
            daemon.index.with_name(daemon.index.name + suffix).unlink(missing_ok=True)
        until(daemon.index.exists)
        until(found)
    finally:
        daemon.kill()


def test_reindex_keeps_what_cannot_be_read_again(home: Home, daemon: Daemon) -> None:
    """Deleted sessions: people look for those too."""
    _, path = home.claude_session("deleted")
    home.claude_session("there")
    until(lambda: len(daemon.find()) == 2)
    path.unlink()
    until(lambda: daemon.titles() == ["there"])
    daemon.ask("reindex")
    daemon.sync()
    assert daemon.titles() == ["there"]
    assert daemon.titles(all=True) == ["there", "deleted"]
