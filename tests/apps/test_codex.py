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
from sessiond.session import Session
from tests.apps.codex_home import (
    CREATED,
    CWD,
    ID,
    OTHER,
    SEGMENT,
    Home,
    applied,
    item,
    legacy,
    line,
    meta,
    turn,
)
from tests.apps.conftest import RECORDINGS

if TYPE_CHECKING:
    from pathlib import Path

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
    """Return *rows* in the order and with the short ids of *like*, those it lacks at the end."""
    short = {row.id: row.id for row in rows.values()}
    short |= {id: known.id for id in rows for known in like if id.startswith(known.id)}
    found = [
        Row(short[id], *(getattr(row, field) for field in Row._fields if field != "id")) for id, row in rows.items()
    ]
    order = [known.id for known in like]
    return sorted(found, key=lambda row: order.index(row.id) if row.id in order else len(order))


def listing(folder: Path) -> list[tuple[str, int, int, str]]:
    """Return name, size, mtime and content of every file below *folder*."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        (str(path), path.stat().st_size, path.stat().st_mtime_ns, sha256(path.read_bytes()).hexdigest())
        for path in files
    ]


@pytest.fixture
def home(tmp_path: Path) -> Home:
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


def test_times_and_sizes_of_a_row(home: Home) -> None:
    """Begun when the first line says, last active at the last line, whatever the mtime."""
    path = home.put(meta(), turn(), item("Fix the cart"))
    os.utime(path, ns=(5, 1_900_000_000_000_000_000))
    row = home.row()
    assert (row.created, row.updated, row.mtime) == (CREATED, CREATED + 13777, 1_900_000_000_000)
    assert (row.bytes, row.path, row.root) == (path.stat().st_size, str(path), str(home.root))
    assert row.launch_dir == row.cwd == CWD


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("sessions/2026/11/21/rollout-2026-11-21T09-14-54-x.jsonl", "rollout"),
        ("sessions/2026/11/21/rollout-2026-11-21T09-14-54-x.jsonl.zst", "rollout"),
        ("sessions/rollout-2025-05-07-x.jsonl", "rollout"),
        ("archived_sessions/rollout-2026-11-21T09-14-54-x.jsonl", "rollout"),
        ("session_index.jsonl", "names"),
        ("state_5.sqlite", "database"),
        ("state_12.sqlite-wal", "database"),
        ("sqlite/state_5.sqlite", "database"),
        ("elsewhere/state_5.sqlite", "database"),
        *(
            (name, None)
            for name in (
                *("auth.json", "config.toml", "history.jsonl", "session_index.jsonl.lock", "version.json"),
                *("state_5.sqlite-shm", "state_5.sqlite-journal", "state.sqlite", "state_x.sqlite", "logs_2.sqlite"),
                *("logs_2.sqlite-wal", "thread_history_1.sqlite", "goals_1.sqlite", "sqlite/logs_2.sqlite"),
                *("sessions/2026/11/21/rollout-x.jsonl.rollout-compress-1.tmp", "sessions/2026/11/21/notes.jsonl"),
                *("sessions/2026/11/21/rollout-x.jsonl.tmp.jsonl", "sessions/2026/11/21/rollout-x.json"),
                *("sessions/2026/11/21/rollout-x.rollout-materialize.tmp.jsonl", "sessions/2026/11/21/21/rollout-x.jsonl"),
                *("sessions/../rollout-x.jsonl", "sessions/work/rollout-x.jsonl", "rollout-x.jsonl", "tmp/rollout-x.jsonl"),
                *("archived_sessions/2026/rollout-x.jsonl", "shell_snapshots/rollout-x.jsonl", "sessions/rollout-.jsonl"),
            )
            if name != "sessions/rollout-.jsonl"
        ),
    ],
)
def test_only_sessions_are_opened(path: str, kind: str | None) -> None:
    """The allow-list: whatever else lies in the home is no unit, least of all the credentials."""
    app = Codex({"CODEX_SQLITE_HOME": "/h/.codex/elsewhere"})
    unit = app.unit("/h/.codex", f"/h/.codex/{path}")
    assert (unit.kind if unit else None) == kind
    assert app.unit("/h/.codex-other", f"/h/.codex/{path}") is None or kind == "database"
