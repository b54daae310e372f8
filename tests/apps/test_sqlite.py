"""Another program's database, in every state it can be met, read without a trace."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessiond.apps import _sqlite
from sessiond.apps._sqlite import UnreadableError, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apsw

STRANGER = 65534
ALL = list(range(10))

# One row is in the database, nine are in the log alone.
WRITER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
db.execute("PRAGMA wal_autocheckpoint = 0")
db.execute("CREATE TABLE t (n INTEGER)")
db.execute("INSERT INTO t VALUES (0)")
db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
for n in range(1, 10):
    db.execute("INSERT INTO t VALUES (?)", (n,))
for statement in sys.argv[3:]:
    db.execute(statement)
print("ready", flush=True)
for line in sys.stdin:
    print(db.execute(line).fetchall(), flush=True)
db.close()
"""
# More than the cache holds, so that the database is overwritten before the transaction ends.
SPILL = [
    "PRAGMA cache_size = 10",
    "CREATE TABLE big (x)",
    "BEGIN",
    "INSERT INTO big SELECT hex(zeroblob(500)) FROM t, t AS u, t AS v, t AS w",
    "UPDATE t SET n = n + 100",
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others can enter."""
    path = Path(tempfile.mkdtemp(prefix="sqlite-"))
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@contextmanager
def writer(path: Path, mode: str = "WAL", *statements: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that has the database open; it executes the lines it is sent."""
    command = [sys.executable, "-c", WRITER, str(path), mode, *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str], statement: str) -> str:
    assert process.stdin
    assert process.stdout
    print(statement, file=process.stdin, flush=True)
    return process.stdout.readline().strip()


def rows(database: apsw.Connection) -> list[int]:
    return [n for (n,) in database.execute("SELECT n FROM t ORDER BY n")]


def killed(path: Path, mode: str = "WAL", *statements: str) -> None:
    with writer(path, mode, *statements):
        pass


def without_index(path: Path) -> None:
    killed(path)
    Path(f"{path}-shm").unlink()


def at_rest(path: Path, mode: str = "WAL") -> None:
    with writer(path, mode) as process:
        process.communicate("")


def with_empty_log(path: Path) -> None:
    at_rest(path)
    Path(f"{path}-wal").touch()


def with_garbage_for_a_log(path: Path) -> None:
    without_index(path)
    log = Path(f"{path}-wal")
    log.write_bytes(os.urandom(log.stat().st_size))


def with_a_damaged_page(path: Path) -> None:
    killed(path, "WAL", "CREATE TABLE other (x)", "PRAGMA wal_checkpoint(TRUNCATE)", "DELETE FROM t WHERE n = 9")
    Path(f"{path}-shm").unlink()
    path.write_bytes(path.read_bytes()[:-4096] + b"\xff" * 4096)


def overwritten(path: Path) -> None:
    at_rest(path)
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096)


def truncated(path: Path, size: int) -> None:
    at_rest(path)
    path.write_bytes(path.read_bytes()[:size])


STATES: dict[str, tuple[Callable[[Path], None], list[int] | str]] = {
    "left by a killed owner": (killed, ALL),
    "left with a log that has no index": (without_index, ALL),
    "left with a log that has no index, and damage elsewhere": (with_a_damaged_page, "malformed"),
    "at rest": (at_rest, ALL),
    "at rest with an empty log": (with_empty_log, ALL),
    "with garbage for a log": (with_garbage_for_a_log, [0]),
    "with a rollback journal": (lambda path: at_rest(path, "DELETE"), ALL),
    "with a hot rollback journal": (lambda path: killed(path, "DELETE", *SPILL), "has to undo it"),
    "overwritten": (overwritten, "malformed"),
    "cut in a page": (lambda path: truncated(path, 5000), "it is cut short"),
    "without its last page": (lambda path: truncated(path, 4096), "malformed"),
    "empty": (Path.touch, "it is empty"),
    "not a database": (lambda path: path.write_bytes(b"x" * 9999) and None, "it is not a database"),
    "a header alone": (lambda path: path.write_bytes(b"SQLite format 3\0") and None, "not a database"),
}


def listing(folder: Path) -> list[tuple[str, int, int, str]]:
    """Return name, size, mtime and content of every file in *folder*."""
    found = [(path, path.stat()) for path in sorted(folder.iterdir())]
    return [(path.name, stat.st_size, stat.st_mtime_ns, sha256(path.read_bytes()).hexdigest()) for path, stat in found]


def outcome(path: Path) -> list[int] | str:
    """Return the rows, or the reason why there are none."""
    try:
        return read(str(path), rows)
    except UnreadableError as error:
        return error.strerror


def as_stranger(folder: Path, path: Path) -> list[int] | str:
    """Return the `outcome` for somebody who may write neither the files nor the folder."""
    for file in (*folder.iterdir(), folder):
        file.chmod(file.stat().st_mode & ~0o222)
    if os.geteuid() != 0:
        return outcome(path)
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            os.write(sender, pickle.dumps(outcome(path)))
        finally:
            os._exit(0)
    os.close(sender)
    with open(receiver, "rb") as answer:
        found: list[int] | str = pickle.load(answer)
    os.waitpid(child, 0)
    return found


def check(found: list[int] | str, expected: list[int] | str) -> None:
    if isinstance(expected, str):
        assert expected in found
    else:
        assert found == expected


@pytest.mark.parametrize("state", STATES)
def test_a_database_that_nobody_has_open(folder: Path, state: str) -> None:
    """All rows, those in the log included, or the reason; and no file was made, changed or removed."""
    prepare, expected = STATES[state]
    path = folder / "state_5.sqlite"
    prepare(path)
    before = listing(folder)
    check(outcome(path), expected)
    assert listing(folder) == before
    check(as_stranger(folder, path), expected)
    assert listing(folder) == before


def test_a_database_that_its_owner_has_open(folder: Path) -> None:
    """What it committed is seen at once, and the owner can checkpoint as soon as it was read."""
    path = folder / "state_5.sqlite"
    with writer(path) as process:
        before = listing(folder)
        assert outcome(path) == as_stranger(folder, path) == ALL
        assert listing(folder) == before
        tell(process, "INSERT INTO t VALUES (10)")
        tell(process, "BEGIN")
        tell(process, "INSERT INTO t VALUES (11)")
        assert outcome(path) == [*ALL, 10]
        tell(process, "COMMIT")
        assert tell(process, "PRAGMA wal_checkpoint(TRUNCATE)") == "[(0, 0, 0)]"
        assert outcome(path) == [*ALL, 10, 11]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [(["BEGIN IMMEDIATE", "DELETE FROM t"], ALL), (["BEGIN EXCLUSIVE"], "it is locked"), (SPILL, "it is locked")],
)
def test_a_database_with_a_rollback_journal_in_the_middle_of_a_transaction(
    folder: Path, statements: list[str], expected: list[int] | str
) -> None:
    """What was there before it, or, once pages are overwritten, that it is locked, after half a second."""
    path = folder / "state_5.sqlite"
    with writer(path, "DELETE", *statements) as process:
        before = listing(folder)
        check(outcome(path), expected)
        assert listing(folder) == before
        tell(process, "ROLLBACK")
        assert outcome(path) == ALL


def test_an_owner_that_opens_and_closes_all_the_time(folder: Path) -> None:
    """Its log comes and goes: no read sees less than the one before, and no empty log is left in the end."""
    path = folder / "state_5.sqlite"
    at_rest(path)
    code = """
import sqlite3, sys
for n in range(200):
    db = sqlite3.connect(sys.argv[1], timeout=60)
    db.execute("INSERT INTO t VALUES (?)", (n + 10,))
    db.commit()
    db.close()
"""
    seen = len(ALL)
    with subprocess.Popen([sys.executable, "-c", code, str(path)]) as process:
        while process.poll() is None:
            if isinstance(found := outcome(path), list):
                assert found == list(range(len(found)))
                assert len(found) >= seen
                seen = len(found)
    assert process.returncode == 0
    assert outcome(path) == list(range(210))
    assert all(size for _, size, _, _ in listing(folder))


def test_a_reader_keeps_the_log_where_it_is(folder: Path) -> None:
    """Were it removed between the look and the query, SQLite would make an empty one."""
    path = folder / "state_5.sqlite"
    with writer(path) as process, _sqlite._open(str(path)) as file:
        _sqlite._lock(file)
        process.communicate("")
        assert {name for name, *_ in listing(folder)} == {path.name, f"{path.name}-shm", f"{path.name}-wal"}
    assert outcome(path) == ALL


@pytest.mark.parametrize("last", ["SELECT 1", "SELECT * FROM missing"])
def test_a_database_that_is_replaced_while_it_is_read(folder: Path, last: str) -> None:
    """A restored backup takes its place; the new one is read, even if reading the old one failed."""
    path, other = folder / "state_5.sqlite", folder / "other"
    at_rest(path)
    with closing(sqlite3.connect(other)) as database, database:
        database.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (99)")

    def replace_first(database: apsw.Connection) -> list[int]:
        if other.exists():
            other.replace(path)
            database.execute(last)
        return rows(database)

    assert read(str(path), replace_first) == [99]


def test_a_database_that_changes_at_every_look(folder: Path) -> None:
    """Then nothing is better than something wrong."""
    path = folder / "state_5.sqlite"
    at_rest(path)

    def touch(database: apsw.Connection) -> None:
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))

    with pytest.raises(UnreadableError, match="it changed during every attempt"):
        read(str(path), touch)


def test_an_owner_that_appears_while_its_database_is_read(folder: Path) -> None:
    """The read at rest knows nothing of the new log, so it is done again with it."""
    path = folder / "state_5.sqlite"
    at_rest(path)
    owners = []

    def commit_first(database: apsw.Connection) -> list[int]:
        found = rows(database)
        if not owners:
            owners.append(sqlite3.connect(path))
            with owners[0]:
                owners[0].execute("INSERT INTO t VALUES (10)")
        return found

    assert read(str(path), commit_first) == [*ALL, 10]
    owners[0].close()


def test_a_log_without_index_of_a_large_database_is_not_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying has its limit."""
    path = folder / "state_5.sqlite"
    without_index(path)
    monkeypatch.setattr(_sqlite, "COPY_LIMIT", 4096)
    check(outcome(path), "too large to copy")


def test_a_log_that_begins_anew_while_it_is_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies of database and log do not belong together, so they are made again."""
    path = folder / "state_5.sqlite"
    copy = shutil.copyfile
    with writer(path) as process:
        Path(f"{path}-shm").unlink()

        def copy_amid_a_checkpoint(source: str, target: str) -> None:
            copy(source, target)
            if not source.endswith("-wal") and tell(process, "SELECT count(*) FROM t") == "[(10,)]":
                tell(process, "PRAGMA wal_checkpoint(RESTART)")
                tell(process, "INSERT INTO t VALUES (10)")

        monkeypatch.setattr(shutil, "copyfile", copy_amid_a_checkpoint)
        assert outcome(path) == [*ALL, 10]


def test_a_copy_leaves_nothing_behind(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is private while it is there, since there are prompts in it."""
    path = folder / "state_5.sqlite"
    without_index(path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes = read(str(path), lambda _: [found.stat().st_mode & 0o777 for found in tmp_path.iterdir()])
    assert modes == [0o700]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a?b#c%20d.sqlite", "sp ace.sqlite", "ünï.sqlite", "\udcff.sqlite"])
def test_any_name_is_a_name(folder: Path, name: str) -> None:
    """SQLite is given a URI, in which some characters mean something."""
    try:
        at_rest(folder / "plain")
        (folder / "plain").rename(folder / name)
    except OSError as error:
        pytest.skip(f"this filesystem refuses the name: {error}")
    assert outcome(folder / name) == ALL


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda path: None, errno.ENOENT),
        (lambda path: path.symlink_to("/etc/passwd"), errno.ELOOP),
        (lambda path: path.mkdir(), errno.EISDIR),
    ],
)
def test_what_is_no_file_is_an_error(folder: Path, make: Callable[[Path], Any], number: int) -> None:
    """A link least of all is followed."""
    path = folder / "state_5.sqlite"
    make(path)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is checked
        read(str(path), rows)
    assert caught.value.errno == number


def test_text_that_is_not_utf8_and_a_wrong_query_are_reasons(folder: Path) -> None:
    """Neither is the caller's fault to handle in another way."""
    path = folder / "state_5.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (CAST(x'ff' AS TEXT))"
        )
    check(outcome(path), "not UTF-8")
    with pytest.raises(UnreadableError, match="no such table"):
        read(str(path), lambda database: database.execute("SELECT * FROM other").fetchall())


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
@pytest.mark.parametrize("owned", [True, False])
def test_a_query_without_end_is_given_up(folder: Path, mode: str, owned: bool) -> None:
    """A table may be a view that counts for ever. An owner that has to wait for a reader waits 0.1 s at most."""
    path = folder / "state_5.sqlite"
    endless = "CREATE VIEW endless AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    with writer(path, mode, endless) as process:
        if not owned:
            process.communicate("")
        began = time.monotonic()
        with pytest.raises(UnreadableError, match="it takes too long to read"):
            read(str(path), lambda database: database.execute("SELECT count(*) FROM endless").fetchall())
        took = time.monotonic() - began
        assert took >= (_sqlite.BRIEFLY if mode == "DELETE" else _sqlite.LONGEST)
        assert _sqlite.BRIEFLY <= 0.1
        if owned:
            assert tell(process, "INSERT INTO t VALUES (10) RETURNING n") == "[(10,)]"


def test_functions_that_have_effects_are_not_run_by_a_view(folder: Path) -> None:
    """Whoever can write the database could have us do what only its owner may."""
    path = folder / "state_5.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript("CREATE VIEW v AS SELECT load_extension('/nowhere') AS n")
    with pytest.raises(UnreadableError):
        read(str(path), lambda database: database.execute("SELECT n FROM v").fetchall())
