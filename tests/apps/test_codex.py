"""Which of Codex's files are sessions, and the rows that rollouts, names and databases make."""

from __future__ import annotations

import os
import shutil
import sqlite3
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from sessiond.apps.base import Watch
from sessiond.apps.codex import Codex
from tests.apps.codex_home import (
    CREATED,
    CWD,
    Home,
    item,
    meta,
    turn,
)
from tests.apps.conftest import RECORDINGS

if TYPE_CHECKING:
    from pathlib import Path

    from sessiond.session import Session

CODEX = RECORDINGS / "codex"
GRANULAR = (
    '{"granular":{"sandbox_approval":false,"rules":true,"skill_approval":false,'
    '"request_permissions":false,"mcp_elicitations":true}}'
)


class Row(NamedTuple):
    """What a correct reader shows of a recorded thread."""

    id: str
    title: str
    cwd: str | None = "/srv/ana/proj"
    branch: str | None = "master"
    hidden: str | None = None
    archived: bool = False
    model: str | None = "gpt-6-sol"
    effort: str | None = "medium"
    approval: str | None = "on-request"
    sandbox: str | None = "workspace-write"


FIRST: dict[str, Any] = {"model": "gpt-5-codex", "effort": None, "sandbox": "read-only"}
EARLY: dict[str, Any] = {"model": "gpt-5.2-codex", "effort": None}
OTHERS: dict[str, Any] = {"cwd": "/srv/ana/other", "approval": "never"}
UNKNOWN: dict[str, Any] = {"model": None, "effort": None, "approval": None, "sandbox": None}
FULL: dict[str, Any] = {"approval": "never", "sandbox": "danger-full-access"}
NEVER: dict[str, Any] = {"approval": "never"}

EXPECTED = {
    "0.20.0": [Row("63cc0710", "Fix the login bug please (0.20.0)", cwd=None, hidden="not-resumable", **UNKNOWN)],
    "0.44.0": [
        Row("01a22e83-a52a", "Fix the login bug please (0.44.0)", **FIRST | NEVER),
        Row("01a22e8a-e8ef", "Effort test 0.44.0", model="gpt-5-codex", effort="high", **NEVER),
    ],
    "0.115.0": [
        Row("01a22e83-c8dc", "Fix the login bug please (0.115.0)", **FIRST | NEVER),
        Row("01a22e90-00db", "my new name", **FIRST),
        Row("01a22e90-04eb", "rename probe message", **FIRST),
    ],
    "0.153.4": [
        Row("01a22e84-1248", "Fix the login bug please (0.153.4)", **FIRST | NEVER),
        Row("01a22e90-547f", "my new name", **FIRST),
        Row("01a22e90-591c", "my new name", **FIRST),
    ],
    "0.171.0": [
        Row("01a22e7f-75fb", "Fix the login bug please", **EARLY | NEVER, sandbox="read-only"),
        Row("01a22e86-125a", "auth-refactor", **EARLY | {"effort": "high"}),
        Row("01a22e86-1506", "auth-refactor", archived=True, **EARLY),
        Row("01a22e86-159d", "SPAWN a helper please", **EARLY | FULL),
        Row("01a22e86-161d", "Explore the repo for the child task", hidden="subagent", **EARLY | FULL),
        Row("01a22e86-798a", "Write a haiku about sqlitehaiku session", cwd="/srv/ana/other", **EARLY),
        Row("01a22e89-fe4e", "Session with custom settings", **OTHERS),
        Row("01a22e91-9924", "hello name", branch=None, **OTHERS),
        Row("01a22e91-9dcb", "hello name", branch=None, **OTHERS),
        Row("01a22e92-c97a", "x untrusted", approval="untrusted"),
        Row("01a22e92-ca36", "x {'granular", approval=GRANULAR),
        Row("01a22e93-51d2", "alpha question"),
        Row("01a22e96-031b", "", hidden="empty", **UNKNOWN),
    ],
}


def shown(rows: dict[str, Session], like: list[Row]) -> list[Row]:
    """Return *rows* with the short ids and in the order of *like*; those it lacks come last."""
    fields = Row._fields[1:]
    known = [row.id for row in like]
    found = []
    for name, row in rows.items():
        short = next((prefix for prefix in known if name.startswith(prefix)), name)
        found.append(Row(short, *(getattr(row, field) for field in fields)))
    return sorted(found, key=lambda row: (row.id not in known, known.index(row.id) if row.id in known else 0))


def listing(folder: Path) -> list[tuple[str, int, int, str]]:
    """Return name, size, mtime and content of every file below *folder*."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        (str(path), path.stat().st_size, path.stat().st_mtime_ns, sha256(path.read_bytes()).hexdigest())
        for path in files
    ]


@pytest.fixture
def codex(tmp_path: Path) -> Home:
    """An empty home of Codex."""
    return Home(tmp_path / ".codex")


@pytest.mark.parametrize("release", EXPECTED)
def test_every_row_of_the_recordings(release: str) -> None:
    """As the README beside them tells; and nothing below them was written."""
    before = listing(CODEX / release)
    home = Home(CODEX / release)
    assert shown(home.rows(), EXPECTED[release]) == EXPECTED[release]
    assert home.problems == {}
    assert listing(CODEX / release) == before


@pytest.mark.parametrize("release", EXPECTED)
def test_the_rows_of_the_recordings_without_the_database(release: str, tmp_path: Path) -> None:
    """The files say the same: a database that is missing or broken costs nothing here."""
    shutil.copytree(CODEX / release, tmp_path / "home", ignore=shutil.ignore_patterns("*.sqlite"))
    assert shown(Home(tmp_path / "home").rows(), EXPECTED[release]) == EXPECTED[release]


@pytest.mark.parametrize("release", EXPECTED)
def test_reading_a_recording_in_steps_ends_in_the_same_rows(release: str, tmp_path: Path) -> None:
    """A rollout and a file of names met five times while they grow give what they give when read once."""
    root = tmp_path / "home"
    shutil.copytree(CODEX / release, root)
    whole = {path: path.read_bytes() for path in root.rglob("*.jsonl")}
    home = Home(root)
    for share in (0.1, 0.4, 0.41, 0.9, 1):
        for path, data in whole.items():
            with path.open("r+b") as file:
                file.truncate(0 if share == 0.1 else path.stat().st_size)
                file.seek(0, os.SEEK_END)
                file.write(data[file.tell() : int(len(data) * share)])
        rows = home.rows()
    assert shown(rows, EXPECTED[release]) == EXPECTED[release]
    assert rows == Home(root).rows()


def test_times_and_sizes_of_a_row(codex: Home) -> None:
    """Begun when the first line says, last active at the last line, whatever the mtime."""
    path = codex.put(meta(), turn(), item("Fix the cart"))
    os.utime(path, ns=(5, 1_900_000_000_000_000_000))
    row = codex.row()
    assert (row.created, row.updated, row.mtime) == (CREATED, CREATED + 13777, 1_900_000_000_000)
    assert (row.bytes, row.path, row.root) == (path.stat().st_size, str(path), str(codex.root))
    assert row.launch_dir == row.cwd == CWD


CLAIMED = {
    "sessions/2026/11/21/rollout-2026-11-21T09-14-54-x.jsonl": "rollout",
    "sessions/2026/11/21/rollout-2026-11-21T09-14-54-x.jsonl.zst": "rollout",
    "sessions/rollout-2025-05-07-x.jsonl": "rollout",
    "archived_sessions/rollout-2026-11-21T09-14-54-x.jsonl": "rollout",
    "session_index.jsonl": "names",
    "state_5.sqlite": "database",
    "state_12.sqlite": "database",
    "sqlite/state_5.sqlite": "database",
}
REFUSED = [
    *("auth.json", "config.toml", "history.jsonl", "session_index.jsonl.lock", "version.json", "rollout-x.jsonl"),
    *("state_5.sqlite-shm", "state_5.sqlite-journal", "state.sqlite", "state_x.sqlite", "logs_2.sqlite"),
    *("logs_2.sqlite-wal", "thread_history_1.sqlite", "sqlite/logs_2.sqlite", "tmp/state_5.sqlite"),
    *("sessions/2026/11/21/rollout-x.jsonl.zst.rollout-compress-1.tmp", "sessions/2026/11/21/rollout-x.json"),
    *("sessions/2026/11/21/rollout-x.rollout-materialize-1.tmp.jsonl", "sessions/2026/11/21/notes.jsonl"),
    *("sessions/../rollout-x.jsonl", "sessions/other/rollout-x.jsonl", "sessions/2026/11/21/9/rollout-x.jsonl"),
    *("archived_sessions/2026/rollout-x.jsonl", "shell_snapshots/rollout-x.jsonl"),
]


def test_only_sessions_are_opened(codex: Home) -> None:
    """What the walk finds is what an event may name; the credentials and the rest are neither."""
    for name in [*CLAIMED, *REFUSED]:
        path = codex.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    root = str(codex.root)
    found = {unit.path[len(root) + 1 :]: unit.kind for unit, _ in codex.app.units(root, lambda *_: None)}
    assert found == CLAIMED
    for name, kind in (CLAIMED | dict.fromkeys(REFUSED)).items():
        unit = codex.app.unit(root, f"{root}/{name}")
        assert (unit.kind if unit else None) == kind, name
        assert codex.app.unit(root + "-other", f"{root}/{name}") is None


def test_a_link_to_a_file_is_no_session_but_a_linked_folder_is(codex: Home, tmp_path: Path) -> None:
    """A rollout may not lead to a credential; a whole year may lie on another disk."""
    codex.put(meta(), turn(), item("on another disk"), folder="disk/11/21")
    (codex.root / "sessions").mkdir()
    (codex.root / "sessions/2026").symlink_to(codex.root / "disk")
    (codex.root / "archived_sessions").mkdir()
    (codex.root / "archived_sessions/rollout-x.jsonl").symlink_to("/etc/passwd")
    (codex.root / "state_5.sqlite").symlink_to("/etc/passwd")
    assert [row.title for row in codex.rows().values()] == ["on another disk"]


def test_a_folder_that_cannot_be_listed_is_told(codex: Home) -> None:
    """So that nothing below it counts as deleted. What is missing or no folder is no problem."""
    (codex.root / "sessions").mkdir(parents=True)
    (codex.root / "archived_sessions").write_text("no folder")
    (codex.root / "sessions/2026").symlink_to("2026")
    assert codex.rows() == {}
    assert list(codex.problems) == [f"{codex.root}/sessions/2026"]


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"HOME": "/h"}, "/h/.codex"),
        ({"HOME": "/h", "CODEX_HOME": "/c"}, "/c"),
        ({"CODEX_HOME": "", "HOME": "/h"}, "/h/.codex"),
    ],
)
def test_where_the_store_is(env: dict[str, str], root: str) -> None:
    """In CODEX_HOME, else below the home."""
    assert Codex(env).roots(env) == [root]


def test_what_is_watched() -> None:
    """Never the home with all below it: it holds packages, worktrees and a log of gigabytes."""
    app = Codex({"CODEX_SQLITE_HOME": "/db/"})
    deep = [Watch("/h/sessions", 3), Watch("/h/archived_sessions", 0)]
    assert app.watches("/h") == [*deep, Watch("/h", 0), Watch("/h/sqlite", 0), Watch("/db", 0)]
    assert Codex({"CODEX_SQLITE_HOME": "relative"}).watches("/h") == [*deep, Watch("/h", 0), Watch("/h/sqlite", 0)]


def test_a_commit_to_the_log_changes_the_database(codex: Home) -> None:
    """0.171 writes only there; an event for the log means the database, and its stat tells."""
    path = str(codex.database({"cwd": "/a"}))
    unit = codex.app.unit(str(codex.root), path + "-wal")
    assert unit
    assert unit.path == path
    before = codex.app.stat(unit)
    writer = sqlite3.connect(path)
    writer.execute("UPDATE threads SET cwd = '/b'")
    writer.commit()
    assert codex.app.stat(unit) != before
    assert os.stat(path).st_size < codex.app.stat(unit).size
    writer.close()
    os.unlink(path)
    with pytest.raises(FileNotFoundError):
        codex.app.stat(unit)
