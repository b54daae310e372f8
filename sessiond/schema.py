"""The schema of the index, and how it is opened."""

from __future__ import annotations

import logging
import os

import apsw

from sessiond.packing import MADE_WITH
from sessiond.paths import clear_place

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1

_SUFFIXES = ("", "-wal", "-shm")

# What is searched is stored folded, so that the full-text index, the check of its candidates
# and the query agree about case and diacritics; folder and branch only where that makes a
# difference, which saves 50 bytes a session. Two spaces at the end make every one- or
# two-character term the beginning of a trigram. detail=none: a third of the size; the order
# of trigrams is checked on the candidates. Times fall in the indexes, as the newest sessions
# are read first: pages are filled one after another then, and not left half empty. The tally
# spares counting 100,000 rows, 20 ms, to say how many were searched.
SCHEMA = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE root (
  id INTEGER PRIMARY KEY, app TEXT NOT NULL, path BLOB NOT NULL, UNIQUE (app, path)
) STRICT;
CREATE TABLE folder (
  id INTEGER PRIMARY KEY, root INTEGER NOT NULL REFERENCES root, path BLOB NOT NULL, UNIQUE (root, path)
) STRICT;
CREATE TABLE unit (
  id INTEGER PRIMARY KEY, folder INTEGER NOT NULL REFERENCES folder, name BLOB NOT NULL, kind TEXT NOT NULL,
  dev INTEGER NOT NULL, ino INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL, complete INTEGER NOT NULL, volatile INTEGER NOT NULL, gone INTEGER NOT NULL,
  problem TEXT NOT NULL, UNIQUE (folder, name)
) STRICT;
CREATE INDEX unit_problem ON unit (problem) WHERE problem <> '' AND gone = 0;
CREATE TABLE identity (
  id INTEGER PRIMARY KEY, root INTEGER NOT NULL REFERENCES root, name TEXT NOT NULL, UNIQUE (root, name)
) STRICT;
CREATE TABLE fact (
  identity INTEGER NOT NULL REFERENCES identity, unit INTEGER NOT NULL REFERENCES unit, value BLOB NOT NULL,
  PRIMARY KEY (identity, unit)
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_unit ON fact (unit);
CREATE TABLE session (
  id INTEGER PRIMARY KEY REFERENCES identity, root INTEGER NOT NULL, updated INTEGER NOT NULL, hidden TEXT,
  archived INTEGER NOT NULL, live TEXT, folded_title TEXT NOT NULL, folded_cwd TEXT, folded_branch TEXT,
  folded_id TEXT NOT NULL, title TEXT NOT NULL, cwd TEXT, branch TEXT,
  unit INTEGER NOT NULL, mtime INTEGER NOT NULL, bytes INTEGER NOT NULL, created INTEGER,
  launch_dir TEXT, model TEXT, effort TEXT,
  approval TEXT, sandbox TEXT, successor TEXT, lost INTEGER
) STRICT;
CREATE INDEX session_recent ON session (updated DESC) WHERE hidden IS NULL;
CREATE INDEX session_all ON session (updated DESC);
CREATE INDEX session_hidden ON session (updated) WHERE hidden IS NOT NULL;
CREATE INDEX session_app ON session (root, updated DESC) WHERE hidden IS NULL;
CREATE INDEX session_live ON session (updated) WHERE live IS NOT NULL;
CREATE INDEX session_archived ON session (updated) WHERE archived = 1;
CREATE INDEX session_id ON session (folded_id);
CREATE INDEX session_lost ON session (updated) WHERE lost IS NOT NULL;
CREATE INDEX session_cwd ON session (cwd, hidden, updated);
CREATE INDEX session_launch_dir ON session (launch_dir, hidden, updated, cwd) WHERE launch_dir IS NOT cwd;
CREATE INDEX session_successor ON session (successor) WHERE successor IS NOT NULL;
CREATE TABLE tally (
  root INTEGER NOT NULL, hidden TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (root, hidden)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER tally_insert AFTER INSERT ON session BEGIN
  INSERT INTO tally VALUES (new.root, coalesce(new.hidden, ''), 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
CREATE TRIGGER tally_update AFTER UPDATE OF hidden ON session WHEN old.hidden IS NOT new.hidden BEGIN
  UPDATE tally SET number = number - 1 WHERE root = old.root AND hidden = coalesce(old.hidden, '');
  INSERT INTO tally VALUES (new.root, coalesce(new.hidden, ''), 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
CREATE TRIGGER tally_delete AFTER DELETE ON session BEGIN
  UPDATE tally SET number = number - 1 WHERE root = old.root AND hidden = coalesce(old.hidden, '');
END;
CREATE VIEW searchable (id, title, cwd, branch, name) AS
  SELECT id, folded_title || '  ', coalesce(folded_cwd, cwd, '') || '  ', coalesce(folded_branch, branch, '') || '  ',
    folded_id || '  ' FROM session;
CREATE VIRTUAL TABLE search USING fts5 (
  title, cwd, branch, name, content = 'searchable', content_rowid = 'id', detail = none, columnsize = 0,
  tokenize = 'trigram case_sensitive 1'
);
CREATE VIRTUAL TABLE term USING fts5vocab (search, row);
CREATE TRIGGER session_insert AFTER INSERT ON session BEGIN
  INSERT INTO search (rowid, title, cwd, branch, name) SELECT * FROM searchable WHERE id = new.id;
END;
CREATE TRIGGER session_delete BEFORE DELETE ON session BEGIN
  INSERT INTO search (search, rowid, title, cwd, branch, name)
    SELECT 'delete', * FROM searchable WHERE id = old.id;
END;
CREATE TRIGGER session_change
BEFORE UPDATE OF folded_title, folded_cwd, folded_branch, folded_id, cwd, branch ON session
WHEN old.folded_title IS NOT new.folded_title OR old.folded_cwd IS NOT new.folded_cwd
  OR old.folded_branch IS NOT new.folded_branch OR old.folded_id IS NOT new.folded_id
  OR old.cwd IS NOT new.cwd OR old.branch IS NOT new.branch BEGIN
  INSERT INTO search (search, rowid, title, cwd, branch, name)
    SELECT 'delete', * FROM searchable WHERE id = old.id;
END;
CREATE TRIGGER session_changed
AFTER UPDATE OF folded_title, folded_cwd, folded_branch, folded_id, cwd, branch ON session
WHEN old.folded_title IS NOT new.folded_title OR old.folded_cwd IS NOT new.folded_cwd
  OR old.folded_branch IS NOT new.folded_branch OR old.folded_id IS NOT new.folded_id
  OR old.cwd IS NOT new.cwd OR old.branch IS NOT new.branch BEGIN
  INSERT INTO search (rowid, title, cwd, branch, name) SELECT * FROM searchable WHERE id = new.id;
END;
"""


def connect(path: str, *, write: bool = False) -> apsw.Connection:
    """Return a connection to the index at *path*; read-only unless *write*.

    Raises apsw.Error when the file is missing or no database.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE if write else apsw.SQLITE_OPEN_READONLY
    # SQLite refuses a link anywhere on the way then, and /home itself may be one.
    folder, name = os.path.split(path)
    db = apsw.Connection(os.path.join(os.path.realpath(folder), name), flags=flags | apsw.SQLITE_OPEN_NOFOLLOW)
    db.set_busy_timeout(5000)
    # KiB. A reader looks at 1,500 rows that may lie on as many pages; with 4 MiB each was read again each time, 2 ms.
    db.execute(f"PRAGMA trusted_schema = OFF; PRAGMA cache_size = {-4096 if write else -12288}")
    return db


def prepare(path: str) -> apsw.Connection:
    """Return the connection that writes the index at *path*, which is made when there is none.

    Raises apsw.SchemaChangeError for that of another version, apsw.CorruptError for one that a kill left damaged,
    and another apsw.Error when it cannot be used.
    """
    for suffix in _SUFFIXES:
        clear_place(path + suffix)
    # Whoever closes the index last removes its log: one that is there tells of a kill. The
    # check takes 0.2 s for 100,000 sessions, too long for every start.
    killed = os.path.exists(path + "-wal")
    db = connect(path, write=True)
    try:
        os.chmod(path, 0o600)
        db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 8388608")
        # A title that is gone is to be gone from the file as well.
        db.execute("PRAGMA secure_delete = ON")
        version = db.pragma("user_version")
        if version == 0 and db.execute("SELECT count(*) FROM sqlite_schema").get == 0:
            with db:
                db.execute(SCHEMA)
                db.pragma("user_version", SCHEMA_VERSION)
                db.pragma("application_id", MADE_WITH)
        elif version != SCHEMA_VERSION:
            raise apsw.SchemaChangeError(f"schema version {version}, expected {SCHEMA_VERSION}")
        elif not has_schema(db) or db.pragma("application_id") != MADE_WITH:
            raise apsw.SchemaChangeError("its tables are not those of this version")
        elif killed and (found := db.pragma("quick_check")) != "ok":
            raise apsw.CorruptError(str(found))
    except BaseException:
        db.close()
        raise
    return db


def set_aside(path: str, reason: str) -> None:
    """Rename the index at *path*, so that it can be looked at; an earlier one set aside makes room."""
    log.warning("index set aside and built again: %s", reason)
    for suffix in _SUFFIXES:
        if os.path.lexists(path + suffix):
            clear_place(f"{path}.old{suffix}")
            os.replace(path + suffix, f"{path}.old{suffix}")


def check(path: str) -> str:
    """Return what is wrong with the index at *path*, ``""`` for nothing. Reads all of it: 0.2 s for 100,000 rows."""
    try:
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            db.set_busy_timeout(5000)
            found = str(db.pragma("quick_check"))
            if found == "ok":
                # Whether full text and rows agree. It writes nothing, but takes the lock of a writer for it.
                db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
        finally:
            db.close()
    except apsw.Error as error:
        return str(error)
    return "" if found == "ok" else found


def has_schema(db: apsw.Connection) -> bool:
    """Return whether *db* holds exactly the tables, indexes and triggers of ``SCHEMA``."""
    wanted = apsw.Connection(":memory:")
    wanted.execute(SCHEMA)
    described = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
    return db.execute(described).fetchall() == wanted.execute(described).fetchall()
