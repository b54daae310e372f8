"""The index: every write to it.

A cache of what the units say, in SQLite. One connection writes, in one thread; readers open
their own. A damaged index, or one of another schema version, is set aside and built again.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from sessiond.packing import pack, unpack
from sessiond.schema import prepare, set_aside
from sessiond.session import Changes, Part, Previous, Session, Stat, Unit
from sessiond.text import fold, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessiond.session import Scan

_COLUMNS = (
    *("root", "updated", "hidden", "archived", "live", "folded_title", "folded_cwd", "folded_branch", "folded_id"),
    *("title", "cwd", "branch", "unit", "mtime", "bytes", "created", "launch_dir", "model", "effort", "approval"),
    *("sandbox", "successor", "lost"),
)
_UPSERT = (
    f"INSERT INTO session (id, {', '.join(_COLUMNS)}) "
    f"VALUES (:id, {', '.join(':' + c for c in _COLUMNS)}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in _COLUMNS)}"
)
_VALUES = tuple(field.name for field in fields(Session) if field.name in _COLUMNS and field.name != "root")
_STORED = f"SELECT {', '.join(_COLUMNS)} FROM session WHERE id = ?"
_CWD, _LAUNCH_DIR = _COLUMNS.index("cwd"), _COLUMNS.index("launch_dir")

_FOLDER = "(SELECT id FROM folder WHERE root = ? AND path = ?)"
_KNOWN = "id, dev, ino, size, mtime_ns, ctime_ns, complete, volatile, gone"
_UPSERT_UNIT = (
    "INSERT INTO unit (folder, name, kind, dev, ino, size, mtime_ns, ctime_ns, complete, volatile, gone, problem) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?) ON CONFLICT (folder, name) DO UPDATE SET kind = excluded.kind, "
    "dev = excluded.dev, ino = excluded.ino, size = excluded.size, mtime_ns = excluded.mtime_ns, "
    "ctime_ns = excluded.ctime_ns, complete = excluded.complete, volatile = excluded.volatile, gone = 0, "
    "problem = excluded.problem RETURNING id"
)


LONGEST_PATH = 4096
"""Characters of a folder's path: no kernel enters one that is longer, and each folder above it has a file."""
LARGE_LOG = 1 << 20
"""Bytes of write-ahead log; SQLite takes it into the index every 4 MB, and then goes on in the same file."""


class Known(NamedTuple):
    """What the index holds of a unit, but its facts."""

    id: int
    stat: Stat
    complete: bool
    volatile: bool
    gone: bool


class Identity(NamedTuple):
    """The key of a row: an id within a root, and its number here."""

    number: int
    app: str
    root: str
    id: str


class Index:
    """The writer. Every method but `close` belongs to one thread."""

    def __init__(self, path: str) -> None:
        """Open the index at *path*, building it when there is none that can be used."""
        self.path = path
        self.rebuilt = ""
        """Why an older index was set aside, or ``""``."""
        self._db = self._open()
        self._changed: dict[int, set[str | None]] = {}
        self._roots: dict[tuple[str, str], int] = {}
        self._folders: dict[tuple[str, str, str], int] = {}

    def _open(self) -> apsw.Connection:
        try:
            db = prepare(self.path)
        except (apsw.CorruptError, apsw.NotADBError, apsw.SchemaChangeError, apsw.SQLError) as error:
            self.rebuilt = str(error)
            set_aside(self.path, self.rebuilt)
            db = prepare(self.path)
        self._inode: int | None = os.stat(self.path).st_ino
        return db

    def replace(self, reason: str) -> None:
        """Set the index aside, for *reason*, and go on with an empty one."""
        self.rebuilt = reason
        self._db.close()
        self._inode = None  # Until there is another one it counts as vanished, so that this is tried again.
        with suppress(OSError):
            os.mkdir(os.path.dirname(self.path), 0o700)
        set_aside(self.path, reason)
        self._db = self._open()
        self._roots.clear()
        self._folders.clear()

    def vanished(self) -> bool:
        """Return whether the file was deleted or replaced: what is written now nobody would ever read."""
        try:
            return os.stat(self.path).st_ino != self._inode
        except OSError:
            return True

    def tidy(self) -> None:
        """Give the room of a large log back to the disk: after a first index it has a fifth of what the index has."""
        with suppress(OSError, apsw.BusyError):
            if os.path.getsize(self.path + "-wal") > LARGE_LOG:
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close the connection; what was committed is safe without it."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold one write transaction: all of it is stored, or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # On a full disk the commit itself fails, and SQLite may have undone it all by then. Numbers
            # of rows that were never stored must not be used again.
            self._changed.clear()
            self._roots.clear()
            self._folders.clear()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def changes(self) -> Changes:
        """Return what was changed since the last call."""
        changed, self._changed = self._changed, {}
        folders = frozenset(folder for where in changed.values() for folder in where if folder)
        return Changes(frozenset(changed), folders)

    def clear(self) -> None:
        """Forget every row that can be read again, in one transaction of its own. What was deleted stays."""
        with self.transaction():
            self._db.execute("DELETE FROM fact WHERE unit IN (SELECT id FROM unit WHERE gone = 0)")
            self._db.execute("DELETE FROM unit WHERE gone = 0")
            self._db.execute("DELETE FROM session WHERE id NOT IN (SELECT identity FROM fact)")

    def folders(self, app: str, root: str) -> set[str]:
        """Return the folders of *root* that hold units which are not gone."""
        rows = self._db.execute(
            "SELECT path FROM folder WHERE root = ? "
            "AND EXISTS (SELECT 1 FROM unit WHERE unit.folder = folder.id AND gone = 0)",
            (self._root(app, root),),
        )
        return {os.fsdecode(path) for (path,) in rows}

    def known(self, app: str, root: str, folder: str) -> dict[str, Known]:
        """Return what is held of each unit in *folder*, by file name."""
        rows = self._db.execute(
            f"SELECT name, {_KNOWN} FROM unit WHERE folder = {_FOLDER}",
            (self._root(app, root), os.fsencode(folder)),
        )
        return {os.fsdecode(name): _known(*rest) for name, *rest in rows}

    def below(self, path: str) -> list[str]:
        """Return the paths of the units known at or below the folder *path* that are not gone."""
        start = os.fsencode(path)
        rows = self._db.execute(
            "SELECT path, name FROM folder JOIN unit ON folder = folder.id "
            "WHERE (path = ? OR path > ? AND path < ?) AND gone = 0",
            (start, start + b"/", start + b"0"),
        )
        return [os.path.join(os.fsdecode(folder), os.fsdecode(name)) for folder, name in rows]

    def previous(self, unit: Unit) -> tuple[Known, Previous] | None:
        """Return what is held of *unit* with its facts, or None when it was never read."""
        folder, name = os.path.split(unit.path)
        row = self._db.execute(
            f"SELECT {_KNOWN} FROM unit WHERE folder = {_FOLDER} AND name = ?",
            (self._root(unit.app, unit.root), os.fsencode(folder), os.fsencode(name)),
        ).fetchone()
        if row is None:
            return None
        known = _known(*row)
        facts = self._db.execute(
            "SELECT name, value FROM fact JOIN identity ON identity.id = identity WHERE unit = ?", (known.id,)
        )
        return known, Previous(known.stat, {key: unpack(value) for key, value in facts}, known.complete)

    def store(self, unit: Unit, stat: Stat, scan: Scan, previous: Previous | None) -> set[Identity]:
        """Store what a read gave, and return the sessions that have to be merged again.

        *previous* is what the index holds of the unit, None for nothing or for a vanished one.
        """
        folder, name = os.path.split(unit.path)
        number = self._db.execute(
            _UPSERT_UNIT,
            (
                *(self._folder(unit.app, unit.root, folder), os.fsencode(name), unit.kind, *stat),
                *(scan.complete, scan.volatile, storable(scan.problem)),
            ),
        ).get
        if previous is None:
            self._db.execute("DELETE FROM fact WHERE unit = ?", (number,))
        before = previous.facts if previous else {}
        changed = set()
        for key, facts in scan.facts.items():
            if before.get(key) != facts:
                identity = self._identity(unit.app, unit.root, storable(key))
                value = pack(facts)
                self._db.execute(
                    "INSERT INTO fact (identity, unit, value) VALUES (?, ?, ?) "
                    "ON CONFLICT (identity, unit) DO UPDATE SET value = excluded.value",
                    (identity.number, number, value),
                )
                changed.add(identity)
            elif len(scan.facts) == 1:
                # The row shows the unit's size and mtime, so it is made anew; the thousands
                # of threads that an overlay repeats are not.
                changed.add(self._identity(unit.app, unit.root, storable(key)))
        for key in before.keys() - scan.facts.keys():
            identity = self._identity(unit.app, unit.root, key)
            self._db.execute("DELETE FROM fact WHERE identity = ? AND unit = ?", (identity.number, number))
            changed.add(identity)
        return changed

    def mark_gone(self, unit: Unit) -> set[Identity]:
        """Keep the last facts of a unit that is no longer there, marked; return the sessions it spoke of."""
        found = self.previous(unit)
        if found is None or found[0].gone:
            return set()
        now = int(time.time() * 1000)
        self._db.execute("UPDATE unit SET gone = ?, problem = '' WHERE id = ?", (now, found[0].id))
        return {self._identity(unit.app, unit.root, key) for key in found[1].facts}

    def forget_gone(self, before: int) -> set[Identity]:
        """Forget the units that were gone before that moment (ms); return the sessions that they spoke of."""
        gone = "SELECT id FROM unit WHERE gone > 0 AND gone < ?"
        # Those whose facts were forgotten the last time, and whose rows were made anew since.
        self._db.execute(
            f"DELETE FROM unit WHERE id IN ({gone}) "
            "AND id NOT IN (SELECT unit FROM fact) AND id NOT IN (SELECT unit FROM session)",
            (before,),
        )
        rows: list[Any] = self._db.execute(
            "SELECT DISTINCT identity.id, app, root.path, identity.name FROM fact "
            f"JOIN identity ON identity.id = identity JOIN root ON root.id = root WHERE unit IN ({gone})",
            (before,),
        ).fetchall()
        self._db.execute(f"DELETE FROM fact WHERE unit IN ({gone})", (before,))
        return {Identity(number, app, os.fsdecode(root), name) for number, app, root, name in rows}

    def forget_other_roots(self, roots: Iterable[tuple[str, str]]) -> bool:
        """Forget all that comes from no store of *roots*, pairs of app and path; return whether there was any."""
        kept = {self._root(*root) for root in roots}
        others = [number for (number,) in self._db.execute("SELECT id FROM root") if number not in kept]
        for number in others:
            for table, condition in (
                ("session", "root = ?"),
                ("fact", "identity IN (SELECT id FROM identity WHERE root = ?)"),
                ("identity", "root = ?"),
                ("unit", "folder IN (SELECT id FROM folder WHERE root = ?)"),
                ("folder", "root = ?"),
                ("tally", "root = ?"),
                ("root", "id = ?"),
            ):
                self._db.execute(f"DELETE FROM {table} WHERE {condition}", (number,))
        return bool(others)

    def identities(self) -> list[Identity]:
        """Return every session that any unit spoke of."""
        rows = self._db.execute("SELECT identity.id, app, path, name FROM identity JOIN root ON root.id = root")
        return [Identity(number, app, os.fsdecode(path), name) for number, app, path, name in rows]

    def made_with(self) -> str:
        """Return what `note_made_with` was last told, ``""`` for nothing."""
        return str(self._db.execute("SELECT value FROM setting WHERE name = 'made with'").get or "")

    def note_made_with(self, settings: str) -> None:
        """Remember the settings that decided which sessions have a row."""
        self._db.execute("REPLACE INTO setting (name, value) VALUES ('made with', ?)", (settings,))

    def parts(self, identity: Identity) -> list[Part]:
        """Return the facts of every unit about a session, those of vanished units last."""
        rows = self._db.execute(
            "SELECT folder.path, unit.name, kind, dev, ino, size, mtime_ns, ctime_ns, gone, value "
            "FROM fact JOIN unit ON unit.id = unit JOIN folder ON folder.id = unit.folder "
            "WHERE identity = ? ORDER BY gone > 0, unit.id",
            (identity.number,),
        )
        return [
            Part(
                Unit(identity.app, identity.root, os.path.join(os.fsdecode(folder), os.fsdecode(name)), kind),
                Stat(*stat),
                unpack(value),
                bool(gone),
            )
            for folder, name, kind, *stat, gone, value in rows
        ]

    def put(self, identity: Identity, session: Session | None) -> None:
        """Make *session* the row of *identity*; None removes it. Nothing is written when it is that already."""
        root = self._root(identity.app, identity.root)
        was = self._db.execute(_STORED, (identity.number,)).fetchone()
        if session is None:
            if was is None:
                return
            self._db.execute("DELETE FROM session WHERE id = ?", (identity.number,))
        else:
            row: dict[str, Any] = {key: getattr(session, key) for key in _VALUES}
            row = {key: storable(value) if isinstance(value, str) else value for key, value in row.items()}
            for key in ("cwd", "launch_dir"):
                row[key] = None if row[key] and len(row[key]) > LONGEST_PATH else row[key]
            row |= {
                "id": identity.number,
                "root": root,
                "unit": self._unit(identity, session.path),
                "folded_title": fold(row["title"]),
                "folded_cwd": _folded(row["cwd"]),
                "folded_branch": _folded(row["branch"]),
                "folded_id": fold(identity.id),
            }
            if session.hidden is None and session.successor and self._is_listed(root, session.successor, identity):
                row["hidden"] = "superseded"
            if was == tuple(row[column] for column in _COLUMNS):
                return
            self._db.execute(_UPSERT, row)
            self._note(identity.number, row["cwd"], row["launch_dir"])
        if was is not None:
            self._note(identity.number, was[_CWD], was[_LAUNCH_DIR])
        listed = session is not None and session.hidden is None
        self._supersede(root, identity, *((None, "superseded") if listed else ("superseded", None)))

    def _supersede(self, root: int, successor: Identity, old: str | None, new: str | None) -> None:
        """Hide those that were continued in *successor*, or show them again: the reason is *new* where it was *old*."""
        # Looked for first: an UPDATE that finds nothing takes 30 times as long, a quarter of storing a session.
        others: list[Any] = self._db.execute(
            "SELECT id, cwd, launch_dir FROM session INDEXED BY session_successor "
            "WHERE successor = ? AND root = ? AND hidden IS ? AND id <> ?",
            (successor.id, root, old, successor.number),
        ).fetchall()
        for number, *folders in others:
            self._db.execute("UPDATE session SET hidden = ? WHERE id = ?", (new, number))
            self._note(number, *folders)

    def _note(self, number: int, *folders: str | None) -> None:
        """Remember for `changes` that a row changed which is in *folders*, or was."""
        self._changed.setdefault(number, set()).update(folders)

    def _is_listed(self, root: int, id: str, predecessor: Identity) -> bool:
        """Return whether a successor is in the list, or would be but for its own; two that name each other are not."""
        return bool(
            self._db.execute(
                "SELECT 1 FROM identity JOIN session USING (id) "
                "WHERE identity.root = ? AND identity.name = ? AND (hidden IS NULL OR hidden = 'superseded') "
                "AND id <> ? AND successor IS NOT ?",
                (root, id, predecessor.number, predecessor.id),
            ).fetchone()
        )

    def _root(self, app: str, path: str) -> int:
        if (app, path) not in self._roots:
            key = (app, os.fsencode(path))
            self._db.execute("INSERT OR IGNORE INTO root (app, path) VALUES (?, ?)", key)
            self._roots[app, path] = self._db.execute("SELECT id FROM root WHERE app = ? AND path = ?", key).get
        return self._roots[app, path]

    def _folder(self, app: str, root: str, path: str) -> int:
        if (app, root, path) not in self._folders:
            if len(self._folders) > 10_000:
                self._folders.clear()
            key = (self._root(app, root), os.fsencode(path))
            self._db.execute("INSERT OR IGNORE INTO folder (root, path) VALUES (?, ?)", key)
            found = self._db.execute("SELECT id FROM folder WHERE root = ? AND path = ?", key).get
            self._folders[app, root, path] = found
        return self._folders[app, root, path]

    def _unit(self, identity: Identity, path: str) -> int:
        folder, name = os.path.split(path)
        key = (self._folder(identity.app, identity.root, folder), os.fsencode(name))
        return int(self._db.execute("SELECT id FROM unit WHERE folder = ? AND name = ?", key).get)

    def _identity(self, app: str, root: str, name: str) -> Identity:
        key = (self._root(app, root), name)
        number = self._db.execute("SELECT id FROM identity WHERE root = ? AND name = ?", key).get
        if number is None:
            number = self._db.execute("INSERT INTO identity (root, name) VALUES (?, ?) RETURNING id", key).get
        return Identity(number, app, root, name)


def _folded(text: str | None) -> str | None:
    """Return *text* folded, or None if that makes no difference."""
    folded = fold(text or "")
    return None if folded == (text or "") else folded


def _known(number: int, *rest: int) -> Known:
    *stat, complete, volatile, gone = rest
    return Known(number, Stat(*stat), bool(complete), bool(volatile), bool(gone))
