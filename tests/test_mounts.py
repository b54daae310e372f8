"""A store on a file system that hangs or fails: everything else goes on, and nothing of it is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests import fuse
from tests.daemon import Daemon, Home, until

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERYTHING = (fuse.LOOKUP, fuse.GETATTR, fuse.OPEN, fuse.READ, fuse.OPENDIR, fuse.READDIR)


@pytest.fixture
def mount(home: Home) -> Iterator[fuse.Mount]:
    """A mount at the store of Claude Code, with one session in it; one of Codex is beside it."""
    home.codex_session("a local session")
    home.claude_session("a remote session")
    source = home.path / "server"
    home.claude.rename(source)
    home.claude.mkdir()
    try:
        mount = fuse.Mount(source, home.claude)
    except OSError as error:
        pytest.skip(f"no FUSE mount can be made here: {error.strerror}")
    yield mount
    mount.end()


def answers(daemon: Daemon) -> None:
    """Check that everything that needs no file of the mount is answered, and soon."""
    began = time.monotonic()
    assert sorted(daemon.titles()) == ["a local session", "a remote session"]
    daemon.ask("status")
    (row,) = daemon.find("local")
    assert daemon.ask("show", id=row["id"])["prompt_problem"] is None
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("operation", EVERYTHING)
def test_a_store_that_begins_to_hang_holds_up_no_answer(home: Home, mount: fuse.Mount, operation: int) -> None:
    """Whatever the indexer hangs in. The status says so, and when it goes on, what is new there is found."""
    daemon = Daemon(home)
    try:
        daemon.sync()
        mount.hang(operation)
        home.claude, there = home.path / "server", home.claude
        home.claude_session("written meanwhile")
        daemon.ask("sync", timeout_ms=0)
        until(lambda: mount.asked)
        answers(daemon)
        mount.resume()
        until(lambda: "written meanwhile" in daemon.titles())
        assert len(daemon.titles(all=True)) == 3
        assert there.exists()
    finally:
        mount.end()
        daemon.kill()


def test_a_store_that_hangs_is_left_alone_and_others_are_followed(home: Home, mount: fuse.Mount) -> None:
    """Its sessions stay, asking for one says why in three seconds, asking again at once."""
    daemon = Daemon(home)
    try:
        daemon.sync()
        mount.hang(*EVERYTHING)
        daemon.ask("sync", timeout_ms=5000)
        status = daemon.ask("status")
        assert any("does not answer" in problem for problem in status["problems"])
        assert ("claude", "silent") in [(root["app"], root["state"]) for root in status["roots"]]
        doctor = [sys.executable, "-m", "sess", "doctor"]
        said = subprocess.run(doctor, env=home.env, cwd="/", capture_output=True, text=True, timeout=60, check=False)
        assert "is silent: its file system does not answer" in said.stdout
        assert "findmnt -T" in said.stdout
        answers(daemon)
        (row,) = daemon.find("remote")
        for patience in (5, 1):
            began = time.monotonic()
            assert "does not answer" in daemon.ask("show", id=row["id"])["prompt_problem"]
            assert time.monotonic() - began < patience
        (plan,) = daemon.answers("plan", id=row["id"])
        assert "does not answer" in plan["error"]["message"]
        home.codex_session("another local session")
        until(lambda: "another local session" in daemon.titles())
        mount.resume()
        until(lambda: daemon.ask("status")["problems"] == [])
        assert daemon.ask("show", id=row["id"])["prompt_problem"] is None
    finally:
        mount.end()
        daemon.kill()


def test_a_daemon_starts_and_ends_beside_a_store_that_hangs(home: Home, mount: fuse.Mount) -> None:
    """And reads it when it answers."""
    mount.hang(*EVERYTHING)
    daemon = Daemon(home)
    try:
        until(lambda: daemon.titles() == ["a local session"])
        mount.resume()
        until(lambda: len(daemon.titles()) == 2)
        mount.hang(*EVERYTHING)
        assert daemon.stop() == 0
    finally:
        mount.end()
        daemon.kill()


@pytest.mark.parametrize("operation", EVERYTHING)
def test_an_input_output_error_loses_nothing(home: Home, mount: fuse.Mount, operation: int) -> None:
    """Rows stay as they are, and what is new is read when the error is gone."""
    daemon = Daemon(home)
    try:
        daemon.sync()
        mount.failing = frozenset({operation})
        home.claude = home.path / "server"
        home.claude_session("written meanwhile")
        daemon.sync()
        answers_now = daemon.titles(all=True)
        assert {"a local session", "a remote session"} <= set(answers_now)
        mount.resume()
        daemon.sync()
        assert len(daemon.titles()) == 3
        assert daemon.ask("status")["unreadable"] == 0
    finally:
        daemon.kill()


def test_a_mount_that_goes_away_takes_no_session_with_it(home: Home, mount: fuse.Mount) -> None:
    """An empty folder is left where it was: an unmounted disk deletes nothing."""
    daemon = Daemon(home)
    try:
        daemon.sync()
        mount.end()
        assert os.listdir(home.claude) == []
        daemon.sync()
        assert len(daemon.titles()) == 2
    finally:
        daemon.kill()
