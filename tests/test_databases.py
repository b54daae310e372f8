"""Another program's database that goes wrong while the daemon runs: what it said stays, and doctor has the reason."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon import Daemon, Home, until
from tests.daemon import changed as with_code
from tests.test_traces import contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def database(home: Home) -> Path:
    """A database of Codex that gives the session of `home` its title."""
    session, _ = home.codex_session("a prompt")
    path = home.codex / "state_5.sqlite"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE threads (id TEXT, title TEXT, first_user_message TEXT, name TEXT)")
        made.execute("INSERT INTO threads VALUES (?, ?, ?, ?)", (session.id, "its name", "its name", "its name"))
    return path


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as owner, owner:
        for statement in statements:
            owner.execute(statement)


def overwritten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:4096] + os.urandom(path.stat().st_size - 4096))


def replaced(path: Path, content: bytes) -> None:
    """Put another file in its place while the daemon may have it open."""
    new = path.with_name("new")
    new.write_bytes(content)
    new.replace(path)


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "corrupt": (overwritten, "malformed"),
    "truncated": (lambda path: os.truncate(path, 5000), "cut short"),
    "0 bytes": (lambda path: os.truncate(path, 0), "it is empty"),
    "no database": (lambda path: path.write_bytes(b"x" * 9999), "it is not a database"),
    "replaced by no database": (lambda path: replaced(path, b"x" * 9999), "it is not a database"),
    "other schema": (lambda path: changed(path, "ALTER TABLE threads RENAME TO strands"), "it has no threads"),
    "without its id": (lambda path: changed(path, "ALTER TABLE threads RENAME id TO key"), "it has no threads"),
    "endless": (
        lambda path: changed(
            path,
            "DROP TABLE threads",
            "CREATE VIEW threads AS "
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n",
        ),
        "too long to read",
    ),
}


def reasons(daemon: Daemon) -> str:
    return " ".join(daemon.ask("doctor")["unreadable_reasons"])


@pytest.mark.parametrize(("spoil", "reason"), WRONG.values(), ids=WRONG)
def test_a_database_that_goes_wrong_takes_nothing_with_it(
    home: Home, database: Path, spoil: Callable[[Path], Any], reason: str
) -> None:
    """The row stays as it was; status counts the file, doctor has the reason, and the folder is left as it is."""
    daemon = Daemon(home)
    try:
        daemon.sync()
        assert daemon.titles() == ["its name"]
        good = database.read_bytes()
        spoil(database)
        before = contents(home.codex)
        daemon.sync()
        until(lambda: reason in reasons(daemon))
        assert daemon.ask("status")["unreadable"] == 1
        assert daemon.titles() == ["its name"]
        assert contents(home.codex) == before
        replaced(database, good)
        daemon.sync()
        assert daemon.ask("status")["unreadable"] == 0
        assert daemon.titles() == ["its name"]
    finally:
        daemon.kill()


def test_a_database_that_is_locked_is_read_later(home: Home, database: Path) -> None:
    """By a transaction that takes its time; it can commit at any moment, and what it wrote is seen."""
    daemon = Daemon(home)
    try:
        daemon.sync()
        owner = sqlite3.connect(database, isolation_level=None, timeout=0.1)
        owner.execute("BEGIN EXCLUSIVE")
        owner.execute("UPDATE threads SET title = 'a new name', name = 'a new name'")
        os.utime(database)
        daemon.sync()
        until(lambda: "it is locked" in reasons(daemon))
        assert daemon.titles() == ["its name"]
        owner.execute("COMMIT")
        owner.close()
        until(lambda: daemon.titles() == ["a new name"])
        daemon.sync()
        assert daemon.ask("status")["unreadable"] == 0
    finally:
        daemon.kill()


def test_copies_that_a_kill_left_are_removed(home: Home, tmp_path: Path) -> None:
    """A copy is all of a database, conversations too. One that another daemon is reading stays."""
    code = f"import os, shutil, tempfile; tempfile.tempdir = {str(tmp_path)!r}"
    kill = "shutil.copyfile = lambda *_: os.kill(os.getpid(), 9)"
    session, _ = home.codex_session("a prompt")
    path = home.codex / "state_5.sqlite"
    owner = sqlite3.connect(path)
    owner.execute("PRAGMA journal_mode = WAL")
    owner.execute("CREATE TABLE threads (id TEXT, title TEXT, first_user_message TEXT, name TEXT)")
    owner.execute("INSERT INTO threads VALUES (?, 'its name', 'its name', 'its name')", (session.id,))
    owner.commit()
    left = [path.with_name(path.name + suffix).read_bytes() for suffix in ("", "-wal")]
    owner.close()
    for suffix, content in zip(("", "-wal"), left, strict=True):
        path.with_name(path.name + suffix).write_bytes(content)
    command = with_code(f"{code}; {kill}")
    assert subprocess.run(command, env=home.env, capture_output=True, timeout=60, check=False).returncode == -9
    (killed,) = tmp_path.iterdir()
    read = tmp_path / (killed.name + "x")
    read.mkdir()
    held = os.open(read, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    daemon = Daemon(home, command=with_code(code))
    try:
        daemon.sync()
        assert daemon.titles() == ["its name"]
        until(lambda: list(tmp_path.iterdir()) == [read])
    finally:
        os.close(held)
        daemon.kill()
