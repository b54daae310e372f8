"""Which of Claude Code's files are sessions, and the rows they make."""

from __future__ import annotations

import json
import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from sessiond.session import Session
from tests.apps.claude_store import (
    APP,
    FOLDER,
    ID,
    OTHER,
    Store,
    every_kind,
    line,
    prompt,
)
from tests.apps.conftest import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXPECTED: list[dict[str, Any]] = json.loads((RECORDINGS / "claude-code" / "expected.json").read_bytes())


@pytest.mark.parametrize("recording", sorted({row["recording"] for row in EXPECTED}))
def test_every_row_of_the_recordings(recording: str, unpack: Callable[[str], Path]) -> None:
    """As another reader saw them, and `claude --resume`; a transcript that has a newer copy is not a row."""
    store = Store(unpack(f"claude-code/{recording}") / ".claude")
    expected = {}
    for row in EXPECTED:
        if row["recording"] == recording and not row["copy_of_newer"]:
            row |= {"title": row["title"] or "", "hidden": "sdk" if row["hidden"] == "automated" else row["hidden"]}
            expected[row["id"]] = row
    rows = store.rows()
    keys = ("title", "cwd", "branch", "launch_dir", "hidden", "model", "effort", "approval")
    assert {name: {key: getattr(row, key) for key in keys} for name, row in rows.items()} == {
        name: {key: row[key] for key in keys} for name, row in expected.items()
    }
    assert {name: os.path.basename(os.path.dirname(row.path)) for name, row in rows.items()} == {
        name: row["folder"] for name, row in expected.items()
    }
    assert store.unreadable == []


@pytest.mark.parametrize("recording", sorted({row["recording"] for row in EXPECTED}))
def test_reading_a_recording_in_steps_ends_in_the_same_rows(recording: str, unpack: Callable[[str], Path]) -> None:
    """A transcript met three times while it grows gives what it gives when it is read once."""
    home = unpack(f"claude-code/{recording}")
    once = Store(home / ".claude").rows()
    store = Store(home / ".claude")
    whole = {path: path.read_bytes() for path in home.glob(".claude/projects/*/*.jsonl")}
    for part in (0.3, 0.31, 0.8, 1):
        for path, data in whole.items():
            mtime = path.stat().st_mtime_ns
            with path.open("r+b") as file:
                file.truncate(0 if part == 0.3 else path.stat().st_size)
                file.seek(0, os.SEEK_END)
                file.write(data[file.tell() : int(len(data) * part)])
            os.utime(path, ns=(mtime, mtime))
        rows = store.rows()
    assert rows == once


def test_a_session_with_every_kind_of_record(claude: Store) -> None:
    """Each says what it should, and no other is taken for it."""
    path = claude.put(*every_kind(), folder="-home-ana-src-shop-api--claude-worktrees-vat")
    stat = path.stat()
    assert claude.row() == Session(
        app="claude",
        id=ID,
        root=str(claude.root),
        path=str(path),
        mtime=stat.st_mtime_ns // 1_000_000,
        bytes=stat.st_size,
        title="vat-zero-fix",
        cwd="/home/ana/src/shop_api",
        launch_dir="/home/ana/src/shop_api/.claude/worktrees/vat",
        branch="fix/vat-zero",
        created=1786526042118,
        updated=1786532530401,
        model="claude-opus-5-5",
        effort="high",
        approval="acceptEdits",
        successor=OTHER,
    )
    first, last = APP.prompts(claude.row())
    assert first == last == "the checkout total is wrong for 0% VAT, please fix it and add a test"


# Where things are


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.claude"]),
        ({"HOME": "/home/ana", "CLAUDE_CONFIG_DIR": "/srv/work"}, ["/srv/work", "/home/ana/.claude"]),
        ({"HOME": "/home/ana", "CLAUDE_CONFIG_DIR": "/home/ana/.claude/"}, ["/home/ana/.claude"]),
        ({"HOME": "/home/ana", "CLAUDE_CONFIG_DIR": ""}, ["/home/ana/.claude"]),
    ],
)
def test_both_roots_are_looked_at(env: dict[str, str], roots: list[str]) -> None:
    """People keep one account in CLAUDE_CONFIG_DIR and another in ~/.claude."""
    assert APP.roots(env) == roots


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"projects/{FOLDER}/{ID}.jsonl", "transcript"),
        (f"projects/{FOLDER}/{ID.upper()}.jsonl", "transcript"),
        (f"projects/ssh-1/{ID}.jsonl", "transcript"),
        (f"projects/{FOLDER}/{ID}/custom-title.json", "title"),
        ("sessions/48433.json", "live"),
        (".credentials.json", None),
        ("settings.json", None),
        ("settings.local.json", None),
        ("history.jsonl", None),
        (f"{ID}.jsonl", None),
        (f"projects/{ID}.jsonl", None),
        (f"projects/{FOLDER}/agent-a181114ca2da77c86.jsonl", None),
        (f"projects/{FOLDER}/{ID}x.jsonl", None),
        (f"projects/{FOLDER}/{ID[:-1]}.jsonl", None),
        (f"projects/{FOLDER}/{ID}.jsonl\n", None),
        (f"projects/{FOLDER}/{ID}.jsonl.orphaned-1", None),
        (f"projects/{FOLDER}/{ID}.JSONL", None),
        (f"projects/{FOLDER}/sessions-index.json", None),
        (f"projects/{FOLDER}/memory/MEMORY.md", None),
        (f"projects/{FOLDER}/nested/{ID}.jsonl", None),
        (f"projects/{FOLDER}/{ID}/{ID}.jsonl", None),
        (f"projects/{FOLDER}/{ID}/ccr-tip.json", None),
        (f"projects/{FOLDER}/{ID}/subagents/agent-a181114ca2da77c86.jsonl", None),
        (f"projects/{FOLDER}/{ID}/subagents/{ID}.jsonl", None),
        (f"projects/../{ID}.jsonl", None),
        (f"projects/./{ID}.jsonl", None),
        (f"projects//{ID}.jsonl", None),
        (f"projects/../../{ID}/custom-title.json", None),
        ("sessions/48433.d41d8cd9.key", None),
        ("sessions/pid-48433.json", None),
        ("sessions/../.credentials.json", None),
        ("ide/48433.lock", None),
        ("backups/.claude.json", None),
    ],
)
def test_only_transcripts_titles_and_live_records_are_claimed(path: str, kind: str | None) -> None:
    """What no app claims is never opened."""
    unit = APP.unit("/r/.claude", f"/r/.claude/{path}")
    assert (unit.kind if unit else None) == kind
    assert APP.unit("/r/.claude", f"/r/.claude2/{path}") is None
    assert APP.unit("/r/.claude", path) is None


def test_a_scan_yields_what_an_event_would(claude: Store) -> None:
    """One id scheme for both, and all units of one folder together."""
    for folder in ("-a", "-b"):
        for session in (ID, OTHER):
            claude.put(prompt("hi"), id=session, folder=folder)
            claude.sidecar("{}", id=session, folder=folder)
    (claude.root / "sessions").mkdir()
    (claude.root / "sessions" / "1.json").write_text("{}")
    (claude.root / "sessions" / "1.abc.key").write_text("secret")
    found = list(APP.units(str(claude.root), pytest.fail))
    assert all(APP.unit(str(claude.root), unit.path) == unit and APP.stat(unit) == stat for unit, stat in found)
    folders = [os.path.dirname(unit.path) for unit, _ in found]
    assert len(found) == 9
    assert len({(a, b) for a, b in pairwise(folders) if a != b}) == len(set(folders)) - 1


def test_a_store_without_folders_has_no_units(tmp_path: Path) -> None:
    """Nor has one whose folders are files; none of it is an error."""
    assert list(APP.units(str(tmp_path / "none"), pytest.fail)) == []
    (tmp_path / "projects").write_text("")
    (tmp_path / "sessions").write_text("")
    assert list(APP.units(str(tmp_path), pytest.fail)) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_listed_is_reported(claude: Store) -> None:
    """So that its sessions do not count as deleted; the others are found."""
    path = claude.put(prompt("hi"), folder="-closed")
    claude.put(prompt("hi"), id=OTHER)
    path.parent.chmod(0)
    try:
        assert list(claude.rows()) == [OTHER]
        assert claude.unreadable == [str(path.parent)]
    finally:
        path.parent.chmod(0o700)


def test_linked_project_folders_are_followed_once(claude: Store, tmp_path: Path) -> None:
    """A folder may be a link (#60965, #71473), to itself or to one already listed; a transcript may not be one."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / f"{ID}.jsonl").write_bytes(line(prompt("linked")))
    real = claude.put(prompt("real"), id=OTHER)
    projects = real.parent.parent
    (projects / "-a-link").symlink_to(tmp_path / "elsewhere")
    (projects / "-again").symlink_to(real.parent)
    (projects / "-loop").symlink_to(projects / "-loop")
    (projects / "-up").symlink_to("..")
    (projects / "-dangling").symlink_to("nowhere")
    (real.parent / "ffffffff-0000-4000-8000-000000000000.jsonl").symlink_to(real)
    rows = claude.rows()
    assert {name: row.title for name, row in rows.items()} == {ID: "linked", OTHER: "real"}
    assert rows[OTHER].path == str(real)
    assert claude.unreadable == [str(projects / "-loop")]


def test_sub_agents_cost_a_scan_nothing_but_their_names(claude: Store) -> None:
    """Of thousands of agent files beside and below a session, no folder is listed and none is opened (#35800)."""
    path = claude.put(prompt("delegate it"))
    below = path.with_suffix("") / "subagents"
    below.mkdir(parents=True)
    for number in range(2000):
        (path.parent / f"agent-a{number:07x}.jsonl").touch()
        (below / f"agent-a{number:016x}.jsonl").touch()
    touched: list[str] = []
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("open", "os.listdir", "os.scandir"):
            touched.append(event)

    sys.addaudithook(hook)
    found = list(APP.units(str(claude.root), pytest.fail))
    watching = False
    assert [unit.path for unit, _ in found] == [str(path)]
    assert len(touched) < 10


def test_a_session_folder_without_a_transcript_is_no_session(claude: Store) -> None:
    """Deleting leaves such folders behind (#18311, #95403, #79758)."""
    claude.sidecar('{"customTitle":"left behind"}')
    (claude.root / "projects" / FOLDER / ID / "tool-results").mkdir()
    assert claude.rows() == {}


def test_sessions_index_is_not_asked(claude: Store) -> None:
    """It is missing, empty or months old (#25032, #23614, #22205)."""
    path = claude.put(prompt("what the file says"))
    index = {"version": 1, "entries": [{"sessionId": ID, "summary": "stale"}, {"sessionId": OTHER, "summary": "ghost"}]}
    (path.parent / "sessions-index.json").write_text(json.dumps(index))
    assert {name: row.title for name, row in claude.rows().items()} == {ID: "what the file says"}
