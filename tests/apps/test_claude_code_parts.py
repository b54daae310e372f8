"""Several files about one session of Claude Code: copies, the title file, the record of a live process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sessiond.apps._process import started
from sessiond.apps.claude_code import ClaudeCode
from tests.apps.claude_store import (
    APP,
    ID,
    OTHER,
    Store,
    custom_title,
    prompt,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_one_id_in_two_folders_is_one_row(claude: Store) -> None:
    """The newest file wins, and is the one to resume (fast-resume#93, raine/claude-history#59)."""
    older = claude.put(custom_title("mine"), prompt("a", cwd="/w/a"), folder="-w-a")
    newer = claude.put(prompt("a", cwd="/w/b"), folder="-w-b")
    os.utime(older, (1000, 1000))
    os.utime(newer, (2000, 2000))
    row = claude.row()
    assert (row.path, row.launch_dir, row.title) == (str(newer), "/w/b", "mine")
    newer.unlink()
    assert (claude.row().path, claude.row().hidden) == (str(older), None)


def test_one_id_in_two_roots_is_two_rows(tmp_path: Path) -> None:
    """Each account has its own copy (cass#214)."""
    stores = [Store(tmp_path / name) for name in ("a", "b")]
    for store in stores:
        store.put(prompt(f"in {store.root.name}"))
    assert [store.row().title for store in stores] == ["in a", "in b"]


def live(store: Store, pid: int, **record: object) -> None:
    (store.root / "sessions").mkdir(parents=True, exist_ok=True)
    content = {"pid": pid, "sessionId": ID, "procStart": started(str(pid)), "kind": "interactive"} | record
    (store.root / "sessions" / f"{pid}.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("status", "shown"),
    [("busy", "busy"), ("idle", "idle"), ("waiting", "waiting"), ("shell", "busy"), (None, "idle"), ("new", "idle")],
)
def test_a_session_that_a_process_has_open_is_live(claude: Store, status: str | None, shown: str) -> None:
    """The process is this test's own; when the record goes, the session is no longer live."""
    claude.put(prompt("hi"))
    live(claude, os.getpid(), **({"status": status} if status else {}))
    assert claude.row().live == shown
    assert all(scan.volatile == (unit.kind == "live") for unit, (_, scan) in claude.scans.items())
    (claude.root / "sessions" / f"{os.getpid()}.json").unlink()
    assert claude.row().live is None


@pytest.mark.parametrize(
    "record",
    [
        {"procStart": "1"},
        {"procStart": None},
        {"sessionId": None},
        {"sessionId": "not an id"},
        {"sessionId": OTHER},
    ],
)
def test_a_live_record_without_its_process_says_nothing(claude: Store, record: dict[str, object]) -> None:
    """After kill -9 its file stays, and the process number is given again."""
    claude.put(prompt("hi"))
    live(claude, os.getpid(), **record)
    assert claude.row().live is None
    assert list(claude.rows()) == [ID]


def test_the_live_records_of_dead_processes_are_not_read_again(claude: Store, unpack: Callable[[str], Path]) -> None:
    """Those of the recording ended long ago."""
    store = Store(unpack("claude-code/claude-live-2.1.332") / ".claude")
    rows = store.rows()
    assert len(rows) == 4
    assert not any(row.live for row in rows.values())
    assert not any(scan.volatile or scan.problem for _, scan in store.scans.values())


@pytest.mark.parametrize(
    "content", ["", '{"customTitle":"ha', "[]", "null", "x" * 70_000, '{"a":"' + "x" * 70_000 + '"}']
)
def test_half_a_document_changes_nothing(claude: Store, content: str) -> None:
    """Titles and live records are overwritten in place; the next look finds the whole."""
    claude.put(prompt("hi"))
    path = claude.sidecar('{"customTitle":"kept"}')
    live(claude, os.getpid(), status="busy")
    assert (claude.row().title, claude.row().live) == ("kept", "busy")
    path.write_text(content)
    (claude.root / "sessions" / f"{os.getpid()}.json").write_text(content)
    assert (claude.row().title, claude.row().live) == ("kept", "busy")
    scans = [scan for unit, (_, scan) in claude.scans.items() if unit.kind != "transcript"]
    assert all(scan.problem and scan.volatile and scan.read <= 64 << 10 for scan in scans)
    claude.sidecar('{"customTitle":"new"}')
    assert claude.row().title == "new"


def test_when_a_process_started_is_known_while_it_runs(tmp_path: Path) -> None:
    """Whatever its name is; no process has a number above the limit."""
    program = tmp_path / "a) b (c"
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-c", "input()"], stdin=subprocess.PIPE) as child:
        begun, own = started(str(child.pid)), started(str(os.getpid()))
        assert child.stdin is not None
        child.stdin.write(b"\n")
    assert begun
    assert own
    assert not begun.isdigit() or int(begun) >= int(own)
    assert started(str(child.pid)) is None
    assert started("4194304999") is None


def test_a_transcript_speaks_of_its_title_file(claude: Store) -> None:
    """/rename writes both, and the folder of the second is not watched."""
    unit, _ = next(APP.units(str(claude.put(prompt("hi")).parents[2]), pytest.fail))
    (path,) = APP.companions(unit)
    companion = APP.unit(unit.root, path)
    assert companion is not None
    assert companion.kind == "title"
    assert APP.companions(companion) == []


def test_what_is_watched_holds_every_unit_but_the_title_files() -> None:
    """Not recursively: 100,000 sub-agent files would use up the watches."""
    watches = {watch.path: watch.depth for watch in APP.watches("/r")}
    assert watches == {"/r/projects": 1, "/r/sessions": 0}
    assert (ClaudeCode.name, ClaudeCode.program) == ("claude", "claude")
