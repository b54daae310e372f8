"""What is kept when the disk is full, read-only, or holds something else in the place of a file of ours."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sessiond.opened import Opened
from tests.daemon import HASTY, Daemon, Home, until
from tests.test_daemon import intact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
READ_ONLY, REMOUNT, DETACH = 1, 32, 2


class Disk:
    """A file system of 2 MB at *path*."""

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700)
        self.path = path
        if _libc.mount(b"none", os.fsencode(path), b"tmpfs", 0, b"size=2m,mode=700"):
            pytest.skip(f"no file system can be mounted here: {os.strerror(ctypes.get_errno())}")

    def fill(self) -> None:
        """Leave no block free."""
        with (self.path / "filler").open("ab", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def empty(self) -> None:
        (self.path / "filler").unlink()

    def protect(self) -> None:
        """Make it read-only."""
        assert not _libc.mount(b"none", os.fsencode(self.path), b"tmpfs", REMOUNT | READ_ONLY, b"size=2m,mode=700")


@pytest.fixture
def disk(home: Home) -> Iterator[Disk]:
    """What the daemon keeps lies on a small disk of its own."""
    disk = Disk(home.path / "state")
    yield disk
    _libc.umount2(os.fsencode(disk.path), DETACH)


def troubled(daemon: Daemon) -> bool:
    return any("the index cannot be written" in problem for problem in daemon.ask("status")["problems"])


def started(home: Home) -> subprocess.CompletedProcess[str]:
    """Return how a daemon ended that cannot start."""
    command = [sys.executable, "-m", "sessiond"]
    return subprocess.run(command, env=home.env, capture_output=True, text=True, timeout=60, check=False)


def test_on_a_full_disk_answers_go_on_and_what_is_missing_comes_later(home: Home, disk: Disk) -> None:
    """The status says why; with room again, index and the files for the prompt catch up, and nothing is lost."""
    for number in range(5):
        home.claude_session(f"old {number}")
    _, deleted = home.claude_session("deleted")
    daemon = Daemon(home, command=HASTY)
    try:
        daemon.sync()
        deleted.unlink()
        daemon.sync()
        disk.fill()
        number = 0
        while not troubled(daemon):
            number += 1
            home.claude_session(f"new {number} " + "x" * 150, cwd=f"/srv/new/{number}")
            daemon.ask("sync", timeout_ms=200)
        assert len(daemon.titles("old")) == 5
        disk.empty()
        until(lambda: len(daemon.titles("new", limit=1000)) == number)
        until(lambda: not troubled(daemon))
        assert daemon.titles("deleted", all=True) == ["deleted"]
        written = disk.path / "run" / "here"
        until(lambda: (written / f"-srv-new-{number}").exists())
        daemon.stop()
        assert intact(daemon.index)
    finally:
        daemon.kill()


def test_while_nothing_can_be_written_answers_go_on(home: Home) -> None:
    """As on a disk that fails: every write is an error, be it to the index, the log or the files for the prompt."""
    home.claude_session("old")
    daemon = Daemon(home, command=HASTY)
    try:
        daemon.sync()
        pid, infinite = daemon.process.pid, resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, infinite))
        home.claude_session("new", cwd="/srv/new")
        until(lambda: troubled(daemon))
        assert daemon.titles() == ["old"]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (infinite, infinite))
        until(lambda: daemon.titles() == ["new", "old"])
        until((home.path / "state/run/here/-srv-new").exists)
        until(lambda: not troubled(daemon))
        daemon.stop()
        assert intact(daemon.index)
    finally:
        daemon.kill()


def test_a_daemon_that_finds_the_disk_full_says_so_and_keeps_the_index(home: Home, disk: Disk) -> None:
    """It does not take a full disk for a damaged index: of deleted sessions nothing else knows."""
    _, deleted = home.claude_session("deleted")
    daemon = Daemon(home)
    daemon.sync()
    deleted.unlink()
    daemon.sync()
    daemon.kill()
    disk.fill()
    for name in ("index.sqlite-shm", "sessiond.log"):
        (disk.path / name).unlink()
        disk.fill()
    ended = started(home)
    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr
    assert "leave 1 MB free" in ended.stderr
    disk.empty()
    daemon.start()
    try:
        daemon.sync()
        assert daemon.titles(all=True) == ["deleted"]
    finally:
        daemon.kill()


def test_a_daemon_cannot_start_on_a_read_only_disk(home: Home, disk: Disk) -> None:
    """It says what to do, in one line."""
    disk.protect()
    ended = started(home)
    assert ended.returncode == 3
    assert "Read-only file system" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


KEPT = ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "sessiond.log", "run/sessiond.sock"]
KEPT += ["run/sessiond.lock", "run/here/-srv-shop", "run/here/.new", "open.json", "open.json.new"]


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("target", ["a file", "nothing", "/dev/zero"])
def test_a_link_planted_in_the_place_of_a_file_is_not_followed(home: Home, name: str, target: str) -> None:
    """What it points at stays as it is. The daemon starts nonetheless, or says what is in its way."""
    home.claude_session("a session")
    (home.path / "state").mkdir(mode=0o700)
    place = home.path / "state" / name
    (home.path / "state" / "run").mkdir(mode=0o700)
    place.parent.mkdir(exist_ok=True, mode=0o700)
    pointed = home.path / "precious" if target != "/dev/zero" else None
    if target == "a file":
        pointed.write_bytes(b"precious")
        pointed.chmod(0o644)
    place.symlink_to(pointed or target)
    if name == "run/sessiond.lock":
        ended = started(home)
        assert ended.returncode == 3
        assert "sessiond.lock cannot be opened" in ended.stderr
    else:
        daemon = Daemon(home)
        try:
            daemon.sync()
            until(lambda: (home.path / "state/run/here/-srv-shop").is_file())
            assert daemon.titles() == ["a session"]
        finally:
            daemon.stop()
    if target == "a file":
        assert pointed.read_bytes() == b"precious"
        assert stat.S_IMODE(pointed.stat().st_mode) == 0o644
    elif target == "nothing":
        assert not pointed.exists()


PLANTED: dict[str, Callable[[Path], Any]] = {
    "a full folder": lambda place: (place / "more").mkdir(parents=True),
    "a FIFO": os.mkfifo,
    "a file": lambda place: place.write_bytes(b"x"),
    "a link to a full folder": lambda place: place.symlink_to(place.parents[len(place.parents) - 3] / "precious"),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_whatever_lies_in_the_place_of_what_is_kept_is_moved_away(home: Home, kind: str) -> None:
    """Not even once but with another beside it; nothing of what it held is lost, and everything works."""
    home.claude_session("a session")
    precious = home.path / "precious"
    precious.mkdir()
    (precious / "thesis").touch()
    (home.path / "state/run").mkdir(mode=0o700, parents=True)
    (home.path / "state").chmod(0o700)
    for name in ("index.sqlite", "index.sqlite.old", "open.json", "open.json.new", "run/sessiond.sock", "run/here"):
        for place in (home.path / "state" / name, home.path / f"state/{name}.stranger"):
            PLANTED[kind](place)
    daemon = Daemon(home)
    try:
        daemon.sync()
        until((home.path / "state/run/here/-srv-shop").is_file)
        assert not (home.path / "state/run/here").is_symlink()
        assert daemon.titles() == ["a session"]
        assert not troubled(daemon)
    finally:
        daemon.kill()
    assert os.listdir(precious) == ["thesis"]


@pytest.mark.parametrize("kind", ["a full folder", "a FIFO", "a link to a full folder"])
def test_what_is_no_file_is_no_lock(home: Home, kind: str) -> None:
    (home.path / "state/run").mkdir(mode=0o700, parents=True)
    (home.path / "state").chmod(0o700)
    PLANTED[kind](home.path / "state/run/sessiond.lock")
    ended = started(home)
    assert ended.returncode == 3
    assert "sessiond.lock cannot be opened" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


REMEMBERED = ("[" * 100_000, "{}", "[]", "\0" * 9, '{"boot":"b","open":[],"interrupted":%s}', '{"boot":1,"open":%s}')
VALUES = ('[["a","b","c","x"]]', '[["a","b","c",1e999]]', '[["a","b","c",null]]', "[[[],{},1,2]]", "[7]", "7", "{}")


@pytest.mark.parametrize("content", sorted({said.replace("%s", value) for said in REMEMBERED for value in VALUES}))
def test_any_bytes_where_it_is_noted_what_was_open_hold_nothing_up(tmp_path: Path, content: str) -> None:
    """The file may be torn by a power cut; without it only that is not known."""
    path = tmp_path / "open.json"
    path.write_text(content)
    assert Opened(str(path)).interrupted == {}


def test_an_index_that_goes_while_the_disk_is_full_is_built_when_there_is_room(home: Home, disk: Disk) -> None:
    """The thread that writes it lives through that, and says what the matter is."""
    home.claude_session("old")
    daemon = Daemon(home, command=HASTY)
    try:
        daemon.sync()
        for path in disk.path.glob("index.sqlite*"):
            path.unlink()
        disk.fill()
        until(lambda: troubled(daemon))
        disk.empty()
        home.claude_session("new")
        until(lambda: daemon.titles() == ["new", "old"])
        until(lambda: not troubled(daemon))
        assert intact(daemon.index)
    finally:
        daemon.kill()


def test_a_state_folder_that_goes_while_the_socket_stays_is_made_again(home: Home) -> None:
    """As where the socket is in ``/run/user``: the daemon is still reached, so it has to go on."""

    class Apart(Daemon):
        def start(self) -> None:
            self.socket = home.path / "run/sessiond.sock"
            super().start()

    home.claude_session("old")
    command = "import os; os.environ['SESS_RUNTIME_DIR'] = os.environ['HOME'] + '/run'"
    daemon = Apart(home, command=(sys.executable, "-c", f"{command}\n{HASTY[2]}"))
    try:
        daemon.sync()
        shutil.rmtree(home.path / "state")
        home.claude_session("new")
        until(daemon.index.exists)
        until(lambda: daemon.titles() == ["new", "old"])
        assert stat.S_IMODE(daemon.index.parent.stat().st_mode) == 0o700
        daemon.stop()
        assert intact(daemon.index)
    finally:
        daemon.kill()


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_whatever_the_umask_nobody_else_can_read_what_is_kept(home: Home, umask: int) -> None:
    """Index, logs, lock, socket, snapshots and what is set aside, after everything that makes a file."""
    home.claude_session("a session")
    daemon = Daemon(home, command=("sh", "-c", f"umask {umask:03o}; exec '{sys.executable}' -m sessiond"))
    try:
        daemon.sync()
        daemon.kill()
        daemon.index.with_name("index.sqlite-wal").unlink()
        daemon.index.write_bytes(b"damaged" * 1000)
        daemon.start()
        daemon.sync()
        until((home.path / "state/run/here/-srv-shop").is_file)
        kept = [home.path / "state", *(home.path / "state").rglob("*")]
        assert {path.name for path in kept} >= {"index.sqlite", "index.sqlite.old", "sessiond.log", "sessiond.sock"}
        for path in kept:
            if path.name == ".new" and not path.exists():
                continue  # It was there for a moment, and is renamed by now.
            mode = stat.S_IMODE(path.lstat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path
    finally:
        daemon.kill()
