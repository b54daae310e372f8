"""Another program's SQLite database, read without a trace.

No one way of opening will do (measured with SQLite 3.40 and 3.54): ``mode=ro`` creates ``-shm`` and
``-wal`` beside a database at rest, ``immutable=1`` misses what only the write-ahead log has, and a
plain open checkpoints what a killed writer left. So the way is chosen by what lies on disk:

- nothing in the log: ``immutable=1``, and again if a file moved meanwhile;
- a log and its ``-shm``: ``readonly_shm=1``, an undocumented, long-standing parameter of SQLite on Unix;
- a log without ``-shm``, or a system on which the former fails: a private copy, checked;
- a rollback journal (as after ``codex migrate-nfs-db``): ``mode=ro``, which then only locks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
import urllib.parse
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import apsw

from sessiond.apps.base import stat_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Protocol

    from sessiond.session import Stat

    class Prompt(Protocol):
        """Finds the first or the last prompt of a session."""

        def __call__(self, database: apsw.Connection, id: str, /, *, last: bool) -> str | None: ...


T = TypeVar("T")

ATTEMPTS = 3
BUSY = 0.5
"""Seconds to wait for a lock."""
LONGEST = 1.0
"""Seconds a query may take; 20,000 threads take 0.08 s, a view that never ends for ever."""
BRIEFLY = 0.1
"""The same where the owner can commit only after it."""
STEPS = 10_000
"""Instructions of SQLite's machine, about 0.1 ms, between two looks at the clock."""
TEXT = 4096
"""Characters of a text that `rows` returns."""
COPY_LIMIT = 256 << 20
"""Bytes of a database, and of its log, that are still worth copying."""

_COPIES = "sessiond-copy-"
_MAGIC = b"SQLite format 3\0"
_ROLLBACK = b"\1\1"
_SHARED_SIZE, _SHARED_FIRST = 510, 0x40000002
"""The bytes that every reader of a database locks, in every release of SQLite 3 (``os.h``)."""


class UnreadableError(OSError):
    """The database cannot be read now; ``strerror`` says why, without its content or its path."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EIO, reason)


class _Moved(Exception):  # noqa: N818 - no error: the reading begins anew
    """A file changed while it was read."""


class _File(NamedTuple):
    ino: int
    size: int
    mtime_ns: int


def with_log(path: str, stat: Stat) -> Stat:
    """Return the *stat* of the database at *path* with that of its write-ahead log, to which a commit goes."""
    try:
        log = stat_of(os.lstat(path + "-wal"))
    except FileNotFoundError:
        return stat
    mtime_ns, ctime_ns = max(stat.mtime_ns, log.mtime_ns), max(stat.ctime_ns, log.ctime_ns)
    return stat._replace(size=stat.size + log.size, mtime_ns=mtime_ns, ctime_ns=ctime_ns)


def columns(database: apsw.Connection, table: str, wanted: Iterable[str]) -> str:
    """Return *wanted* as a list for a SELECT, NULL for those that *table* lacks; ``""`` when there is no such table.

    Every agent has added columns within a year.
    """
    there = {name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")}
    return ", ".join(name if name in there else f"NULL AS {name}" for name in wanted) if there else ""


def rows(
    database: apsw.Connection, table: str, wanted: Iterable[str], where: str = "", parameters: tuple[Any, ...] = ()
) -> list[dict[str, Any]]:
    """Return the *wanted* columns of every row of *table*, with *where* of those that fit; none without the table.

    A text is cut to ``TEXT`` characters, and one that is not UTF-8 repaired, so that it costs no other row; a blob
    and a column that *table* lacks are None.
    """
    names = list(wanted)
    if not (there := columns(database, table, names)):
        return []
    cut = ", ".join(
        f"CASE typeof({name}) WHEN 'text' THEN CAST(substr({name}, 1, {TEXT}) AS BLOB) WHEN 'blob' THEN NULL "
        f"ELSE {name} END"
        for name in names
    )
    found = database.execute(f"SELECT {cut} FROM (SELECT {there} FROM {table}) {where}", parameters)
    return [dict(zip(names, map(decoded, row), strict=True)) for row in found]


def ends(path: str, prompt: Prompt, id: str) -> tuple[str | None, str | None]:
    """Return the first and the last *prompt* of *id* in the database at *path*; raises like `read`."""
    return read(path, lambda database: (prompt(database, id, last=False), prompt(database, id, last=True)))


def has(path: str, id: str, *tables: str, key: str = "id") -> bool:
    """Return whether *id* is the *key* of a row in one of *tables* of the database at *path*; raises like `read`."""
    where = f"WHERE {key} = ?"
    try:
        return read(path, lambda database: any(rows(database, table, [key], where, (id,)) for table in tables))
    except FileNotFoundError:
        return False


def decoded(value: Any) -> Any:
    """Return a text that was asked for as a blob, and anything else as it is."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def read(path: str, query: Callable[[apsw.Connection], T]) -> T:
    """Return what *query* makes of the database at *path*. No file beside it is written or created.

    *query* fetches all it wants at once: as long as it reads, the owner cannot checkpoint.
    Raises FileNotFoundError when there is no database, UnreadableError or the OSError of opening it
    when it cannot be read.
    """
    for _ in range(ATTEMPTS):
        try:
            with _open(path) as file:
                if _at_rest(path, file):
                    return _query_at_rest(path, query)
                _lock(file)
                return _query_locked(path, file, query)
        except _Moved:
            continue
        except FileNotFoundError:
            if _file(path) is None:
                raise
        except UnicodeDecodeError:
            raise UnreadableError("it holds text that is not UTF-8") from None
        except apsw.InterruptError:
            raise UnreadableError("it takes too long to read") from None
        except apsw.ReadOnlyError:
            raise UnreadableError("its owner was stopped in a change, and has to undo it first") from None
        except apsw.Error as error:
            raise UnreadableError(str(error)) from None
    raise UnreadableError("it changed during every attempt")


@contextmanager
def _open(path: str) -> Iterator[int]:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield file
    finally:
        os.close(file)


def _at_rest(path: str, file: int) -> bool:
    """Return whether all there is stands in the database itself, and no journal is used but the log."""
    header = os.pread(file, 20, 0)
    if not header.startswith(_MAGIC):
        raise UnreadableError("it is not a database" if header else "it is empty")
    # A page that is missing SQLite notices; one that is cut it takes for zeros.
    page = int.from_bytes(header[16:18], "big")
    if page > 1 and os.fstat(file).st_size % page:
        raise UnreadableError("it is cut short")
    return header[18:20] != _ROLLBACK and not _has_log(path)


def _query_at_rest(path: str, query: Callable[[apsw.Connection], T]) -> T:
    before = _file(path), _file(path + "-wal")
    if before[1] and before[1].size:
        raise _Moved
    try:
        result = _query(path, "mode=ro&immutable=1", query)
    except (apsw.Error, UnicodeDecodeError):
        # What a checkpoint overwrites while it is read looks malformed.
        if (_file(path), _file(path + "-wal")) == before:
            raise
        raise _Moved from None
    if (_file(path), _file(path + "-wal")) != before:
        raise _Moved
    return result


def _lock(file: int) -> None:
    """Take the lock of a reader, so that no owner can close its log and remove it.

    Were it removed after we looked, SQLite would create an empty one.
    """
    deadline = time.monotonic() + BUSY
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
        except (BlockingIOError, PermissionError):
            if time.monotonic() > deadline:
                raise UnreadableError("it is locked") from None
            time.sleep(0.01)
        else:
            return


def _query_locked(path: str, file: int, query: Callable[[apsw.Connection], T]) -> T:
    if _at_rest(path, file):
        raise _Moved
    if not _has_log(path):
        return _query(path, "mode=ro", query, BRIEFLY)
    if _file(path + "-shm"):
        try:
            return _query(path, "mode=ro&readonly_shm=1", query)
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.InterruptError):
            raise
        except apsw.Error:
            pass
    return _query_copy(path, query)


def _query(path: str, parameters: str, query: Callable[[apsw.Connection], T], longest: float = LONGEST) -> T:
    uri = f"file:{urllib.parse.quote(os.fsencode(path))}?{parameters}"
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(int(BUSY * 1000))
        return _within(longest, connection, query)
    finally:
        connection.close()


def _within(longest: float, connection: apsw.Connection, query: Callable[[apsw.Connection], T]) -> T:
    """Return what *query* makes of a database that anybody may have written; raises InterruptError after *longest*."""
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    deadline = time.monotonic() + longest
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    return query(connection)


def _query_copy(path: str, query: Callable[[apsw.Connection], T]) -> T:
    """Query a private copy of the database and its log, beside which SQLite may write what it likes."""
    before = _file(path), _log_header(path)
    if max(os.path.getsize(path), os.path.getsize(path + "-wal")) > COPY_LIMIT:
        raise UnreadableError("its write-ahead log has no index, and it is too large to copy")
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix=_COPIES) as folder, _claimed(folder):
        copy = os.path.join(folder, "copy")
        shutil.copyfile(path, copy)
        shutil.copyfile(path + "-wal", copy + "-wal")
        if (_file(path), _log_header(path)) != before:
            raise _Moved
        connection = apsw.Connection(copy)
        try:
            if connection.pragma("quick_check") != "ok":
                raise UnreadableError("it is malformed")
            return _within(LONGEST, connection, query)
        finally:
            connection.close()


@contextmanager
def _claimed(folder: str) -> Iterator[None]:
    """Hold a lock on *folder*, which ends with this process; raises BlockingIOError when another holds it."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def remove_copies() -> None:
    """Remove the copies that a process left which was killed: they hold conversations."""
    import shutil
    import tempfile

    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_COPIES):
                with suppress(OSError), _claimed(entry.path):
                    if os.lstat(entry.path).st_uid == os.getuid():
                        shutil.rmtree(entry.path)


def _log_header(path: str) -> bytes:
    """Return what changes when the log is begun anew; frames that are only added do a copy no harm."""
    with open(path + "-wal", "rb") as file:
        return file.read(32)


def _has_log(path: str) -> bool:
    log = _file(path + "-wal")
    return log is not None and log.size > 0


def _file(path: str) -> _File | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return _File(found.st_ino, found.st_size, found.st_mtime_ns)
