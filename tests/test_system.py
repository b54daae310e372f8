"""What the machine does to a daemon: its clock, its folders, its queues and other daemons."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.daemon import PATIENCE, Daemon, Home, changed, until
from tests.test_daemon import intact

if TYPE_CHECKING:
    from pathlib import Path

TIDY = "import sessiond.server as it; it.HOUSEKEEPING = 0.1"
"""Looks for its socket fifty times as often."""


def test_events_that_the_kernel_drops_are_made_good(home: Home, daemon: Daemon) -> None:
    """The daemon is stopped while more happens than the queue has room for."""
    home.claude_session("before")
    _, deleted = home.claude_session("deleted")
    daemon.sync()
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
        room = int(file.read())
    daemon.process.send_signal(signal.SIGSTOP)
    with (deleted.parent / "1.tmp").open("wb") as one, (deleted.parent / "2.tmp").open("wb") as other:
        for _ in range(room):
            os.pwrite(one.fileno(), b"x", 0)
            os.pwrite(other.fileno(), b"x", 0)
    home.claude_session("after", cwd="/srv/new")
    deleted.unlink()
    daemon.process.send_signal(signal.SIGCONT)
    until(lambda: daemon.titles() == ["after", "before"])
    assert daemon.ask("status")["lost"] > 0
    assert daemon.titles(all=True) == ["after", "deleted", "before"]


def test_a_clock_that_jumps_stops_nothing(home: Home) -> None:
    """Ten years forward, twenty back, and to where it was: what is written is found, and nothing is forgotten."""
    shift = home.path / "shift"
    shift.write_text("0")
    code = f"import time; clock = time.time; time.time = lambda: clock() + int(open({str(shift)!r}).read() or 0)"
    _, deleted = home.claude_session("deleted")
    daemon = Daemon(home, command=changed(code))
    try:
        daemon.sync()
        deleted.unlink()
        years = 365 * 86400
        for number, jump in enumerate((10 * years, -10 * years, 0)):
            shift.write_text(str(jump))
            _, path = home.claude_session(f"session {number}")
            os.utime(path, (path.stat().st_mtime + jump,) * 2)
            until(lambda number=number: len(daemon.titles("session")) == number + 1)
            daemon.sync()
            assert daemon.ask("status")["problems"] == []
        assert len(daemon.titles(all=True)) == 4
        assert len(daemon.titles("since:3h")) == 3
        assert daemon.titles("until:2d") == []
    finally:
        daemon.kill()


@pytest.mark.parametrize("what", ["home", "state/run"])
def test_a_folder_that_moves_away_ends_the_daemon_and_the_next_one_has_everything(home: Home, what: str) -> None:
    """Clients would look for its socket where it no longer is; deleted sessions are known in the new place too."""
    home.claude_session("a session")
    _, deleted = home.claude_session("deleted")
    daemon = Daemon(home, command=changed(TIDY))
    try:
        daemon.sync()
        deleted.unlink()
        daemon.sync()
        if what == "home":
            moved = home.path.rename(f"{home.path}-moved")
            assert daemon.process.wait(PATIENCE) == 0
            home.path, home.claude = moved, moved / ".claude"
            daemon.index, daemon.socket = moved / "state/index.sqlite", moved / "state/run/sessiond.sock"
        else:
            shutil.rmtree(home.path / what)
            assert daemon.process.wait(PATIENCE) == 0
        daemon.process.stderr.close()
        assert intact(daemon.index)
        daemon.start()
        daemon.sync()
        assert daemon.titles() == ["a session"]
        assert daemon.find()[0]["path"].startswith(str(home.claude))
        until((home.path / "state/run/here/-srv-shop").exists)
        if what != "home":
            assert daemon.titles(all=True) == ["deleted", "a session"]
    finally:
        daemon.kill()


def test_swept_files_for_the_prompt_come_back(home: Home, daemon: Daemon) -> None:
    """With the next change in their folder."""
    home.claude_session("a session")
    here = home.path / "state/run/here"
    until((here / "-srv-shop").exists)
    shutil.rmtree(here)
    home.claude_session("another one")
    until((here / "-srv-shop").exists)


def test_of_daemons_that_race_one_stays(home: Home, tmp_path: Path) -> None:
    """The others end with 0, whoever was killed before with its lock and socket left behind."""
    home.claude_session("a session")
    daemon = Daemon(home)
    daemon.kill()
    for _ in range(2):
        started = [
            subprocess.Popen([sys.executable, "-m", "sessiond"], env=home.env, stderr=subprocess.DEVNULL)
            for _ in range(5)
        ]
        try:
            until(lambda: sum(one.poll() is None for one in started) == 1)  # noqa: B023 - called at once
            (winner,) = [one for one in started if one.returncode is None]
            assert [one.returncode for one in started if one is not winner] == [0] * 4
            until(daemon.socket.exists)
            daemon.sync()
            assert daemon.titles() == ["a session"]
            assert daemon.ask("status")["pid"] == winner.pid
        finally:
            for one in started:
                one.kill()
                one.wait(PATIENCE)
    assert intact(daemon.index)
