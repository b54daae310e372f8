"""Which process has a thread of Codex open, asked anew before a resume."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sessiond.apps import _codex_live
from tests.apps.codex_home import ID, OTHER, Home, envelope, item, meta, turn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessiond.session import Session

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")

BEGUN, WAITS, ENDED = "task_started", "exec_approval_request", "task_complete"


@pytest.fixture
def codex(tmp_path: Path) -> Home:
    """An empty home of Codex."""
    return Home(tmp_path / ".codex")


def thread(codex: Home, *events: str, age: int = 0) -> Session:
    """Write a thread with *events*, the last of them *age* s ago, and return the row of before."""
    codex.put(meta(), turn(), item("Fix the cart"))
    row = codex.row()
    said = [envelope("event_msg", {"type": kind}, f"09:00:0{at}.000") for at, kind in enumerate(events)]
    path = codex.put(*said, append=True)
    then = os.stat(path).st_mtime - age
    os.utime(path, (then, then))
    return row


@contextmanager
def lock(codex: Home, id: str = ID, *, held: bool = True) -> Iterator[Path]:
    """Lock a thread as 0.147 and later do, in this process; its file stays behind."""
    path = codex.root / "thread-writer-locks" / f"{id}.lock"
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        if held:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield path


@pytest.mark.parametrize(
    ("events", "status"),
    [((), "idle"), ((BEGUN,), "busy"), ((BEGUN, WAITS), "waiting"), ((BEGUN, ENDED), "idle")],
)
def test_who_holds_the_lock_has_the_thread_open(codex: Home, events: tuple[str, ...], status: str) -> None:
    """Whatever the index holds; its state is what the rollout says now."""
    row = thread(codex, *events)
    with lock(codex), lock(codex, OTHER, held=False):
        for known in (None, "busy", "waiting"):
            found = codex.app.live(replace(row, live=known))
            assert found
            assert found[0] == status
            assert f"in process {os.getpid()}" in found.where
            assert found.certain
        assert codex.app.live(replace(row, id=OTHER)) is None
    assert codex.app.live(replace(row, live="busy")) is None


def test_a_lock_is_held_also_in_a_rollout_of_last_week(codex: Home) -> None:
    """Nothing was said in it since."""
    row = thread(codex, BEGUN, ENDED, age=7 * 86_400)
    with lock(codex):
        found = codex.app.live(row)
    assert found
    assert found[::2] == ("idle", True)


@pytest.mark.parametrize(
    ("events", "age", "status"),
    [
        ((BEGUN,), 0, "busy"),
        ((BEGUN, WAITS), 3600, "waiting"),
        ((BEGUN,), 90_000, None),
        ((BEGUN, ENDED), 0, None),
        ((), 0, None),
    ],
)
def test_without_a_lock_a_turn_of_the_day_that_has_not_ended_may_be_open(
    codex: Home, events: tuple[str, ...], age: int, status: str | None
) -> None:
    """Releases before 0.147 lock nothing."""
    found = codex.app.live(thread(codex, *events, age=age))
    assert (found and found.status) == status
    assert found is None or not found.certain


@pytest.mark.parametrize("events", [(), (BEGUN,), (BEGUN, ENDED)])
@pytest.mark.parametrize("how", ["no list", "no way to the lock"])
def test_where_nothing_tells_who_holds_the_lock_what_was_just_written_may_be_open(
    codex: Home, events: tuple[str, ...], how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, or in a folder that may not be entered; here it is a link to itself, as root may enter each."""
    row = thread(codex, *events)
    if how == "no list":
        with lock(codex):
            monkeypatch.setattr(_codex_live, "LOCKS", str(tmp_path / "none"))
    else:
        (codex.root / "thread-writer-locks").symlink_to("thread-writer-locks")
    found = codex.app.live(row)
    assert found
    assert not found.certain
    assert "cannot be told" in found.where
    os.utime(row.path, (1_700_000_000, 1_700_000_000))
    assert codex.app.live(row) is None


def test_a_lock_on_a_file_of_the_same_number_may_be_the_one(codex: Home, tmp_path: Path) -> None:
    """Where the process that has it shows no file of that name; numbers repeat from one device to another."""
    row = thread(codex)
    with lock(codex) as path:
        path.rename(tmp_path / "renamed")
        os.link(tmp_path / "renamed", path)
        found = codex.app.live(row)
        assert found
        assert not found.certain
        assert f"in process {os.getpid()}" in found.where


def test_a_lock_that_another_process_holds_is_found_with_its_terminal(codex: Home) -> None:
    row = thread(codex)
    with lock(codex, held=False) as path:
        pass
    code = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); sys.stdin.read()"
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, "-c", code, path], stdin=theirs, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            assert codex.app.live(row) == ("idle", f"in process {process.pid} on {os.ttyname(theirs)}", True)
        finally:
            process.kill()
    os.close(ours)
    os.close(theirs)
    assert codex.app.live(row) is None
