"""Which of Claude Code's files are sessions, and the rows they make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from sessiond.apps.claude_code import ClaudeCode, started
from sessiond.session import Session
from tests.apps.claude_store import (
    APP,
    CWD,
    FOLDER,
    ID,
    OTHER,
    Store,
    answer,
    custom_title,
    every_kind,
    last_prompt,
    line,
    prompt,
    said,
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


# Who a row is for


@pytest.mark.parametrize(
    ("records", "hidden"),
    [
        ([prompt("hi"), answer()], None),
        ([prompt("hi")], None),
        ([prompt("hi", sessionKind="bg"), answer(sessionKind="bg")], None),
        ([prompt("hi", entrypoint="claude-vscode"), answer(entrypoint="claude-vscode")], None),
        ([prompt("hi", entrypoint="claude-desktop")], None),
        ([prompt("hi", entrypoint="sdk-cli"), answer(entrypoint="sdk-cli")], "sdk"),
        ([prompt("hi", entrypoint="sdk-ts")], "sdk"),
        ([prompt("hi", entrypoint="sdk-py", promptSource="sdk")], "sdk"),
        ([prompt("hi", entrypoint=""), answer(entrypoint="sdk-py")], None),
        ([{"type": "queue-operation", "operation": "enqueue"}, prompt("hi", entrypoint="sdk-py")], "sdk"),
        ([prompt("hi", entrypoint="sdk-cli"), answer(), prompt("resumed by hand"), answer()], "sdk"),
        ([prompt("hi", isSidechain=True), answer(isSidechain=True)], "subagent"),
        ([prompt("hi", teamName="crew"), answer(teamName="crew")], "subagent"),
        ([prompt("hi"), prompt("count", isSidechain=True), answer(isSidechain=True)], None),
        ([said("attachment", ""), prompt("<command-name>/review</command-name>"), answer()], None),
        ([], "empty"),
        ([b"\0" * 300], "empty"),
        ([{"type": "mode", "mode": "normal"}], "empty"),
        ([custom_title("named, then left")], "empty"),
        ([prompt("<command-name>/clear</command-name>")], "empty"),
        ([prompt("caveat", isMeta=True), prompt("<command-name>/clear</command-name>")], "empty"),
        ([{"type": "summary", "summary": "of another session", "leafUuid": "x"}], "empty"),
        ([said("assistant", []) | {"message": {"role": "assistant", "model": "<synthetic>"}}], "empty"),
    ],
)
def test_rows_that_are_not_for_people_are_hidden(claude: Store, records: list[Any], hidden: str | None) -> None:
    """Sub-agents, runs by programs and empty stubs stay in the index, with the reason (#78171)."""
    claude.put(*records)
    assert claude.row().hidden == hidden


def test_a_stub_becomes_a_session_with_its_first_prompt(claude: Store) -> None:
    """A file often appears with its metadata first."""
    claude.put({"type": "mode", "mode": "normal"}, custom_title("planned"))
    assert (claude.row().hidden, claude.row().title) == ("empty", "planned")
    row = claude.add(prompt("now for real", entrypoint="claude-vscode"))
    assert (row.hidden, row.title, row.cwd, row.launch_dir) == (None, "planned", CWD, CWD)


def test_a_run_that_is_met_before_its_prompt_is_still_hidden(claude: Store) -> None:
    """The first record of a conversation decides, whenever it comes."""
    claude.put({"type": "queue-operation", "operation": "enqueue"})
    assert claude.row().hidden == "empty"
    assert claude.add(prompt("hi", entrypoint="sdk-py")).hidden == "sdk"


def test_a_deleted_transcript_keeps_its_row(claude: Store) -> None:
    """Claude Code sweeps transcripts after 30 days; people still look for the name (#86730)."""
    path = claude.put(prompt("hi"), answer())
    sidecar = claude.sidecar('{"customTitle":"swept"}')
    before = claude.row()
    path.unlink()
    sidecar.unlink()
    after = claude.row()
    assert (before.hidden, after.hidden, after.title, after.bytes) == (None, "deleted", "swept", before.bytes)


@pytest.mark.parametrize(
    ("after", "successor"),
    [
        ([], OTHER),
        ([last_prompt("hi"), {"type": "mode", "mode": "normal"}, said("system", "")], OTHER),
        ([prompt("back here")], None),
        ([answer()], None),
    ],
)
def test_a_session_continued_elsewhere_names_its_successor(
    claude: Store, after: list[Any], successor: str | None
) -> None:
    """Until someone goes on with it after all; the same when the rest is read later."""
    continued = {"type": "continued-in", "continuedInSessionId": OTHER, "timestamp": "2026-08-12T11:30:00.000Z"}
    claude.put(prompt("hi"), answer(), continued, *after)
    assert claude.row().successor == successor
    claude.put(prompt("hi"), answer())
    assert claude.row().successor is None
    assert claude.add(continued).successor == OTHER
    assert claude.add(*after).successor == successor


@pytest.mark.parametrize("id", ["../x", "", None, 7, OTHER + "x"])
def test_a_successor_is_an_id(claude: Store, id: object) -> None:
    """What stands there in a damaged or hostile file names no session."""
    claude.put(prompt("hi"), {"type": "continued-in", "continuedInSessionId": id})
    assert claude.row().successor is None


def test_the_id_is_the_files_name(claude: Store) -> None:
    """Old resumes, forks and copies carry other ids inside (sasazame/ccresume#1)."""
    claude.put(prompt("hi", sessionId=OTHER), prompt("again", sessionId=ID))
    assert list(claude.rows()) == [ID]


# What a row says


def test_last_activity_is_the_last_message_not_the_last_write(claude: Store) -> None:
    """Metadata, links and other programs move the mtime of idle sessions (#83203, #52071)."""
    claude.put(
        answer(timestamp="2026-08-12T10:00:00.500Z"),
        prompt("hi", timestamp="2026-08-12T10:00:00.000Z"),
        said("system", "", timestamp="2026-08-12T12:00:00.000Z"),
        {"type": "pr-link", "timestamp": "2026-08-12T13:00:00.000Z"},
    )
    assert claude.row().updated == 1786528800500


def test_without_a_time_the_mtime_is_the_last_activity(claude: Store) -> None:
    """A broken clock or a hostile year is no time either."""
    path = claude.put(prompt("hi", timestamp="9999-01-01T00:00:00Z"), answer(timestamp=None))
    os.utime(path, ns=(0, 1_786_500_000_123_000_000))
    assert (claude.row().updated, claude.row().created) == (1_786_500_000_123, None)


@pytest.mark.parametrize(
    ("records", "row"),
    [
        ([prompt("a", gitBranch="HEAD")], {"branch": None}),
        ([prompt("a", gitBranch="")], {"branch": None}),
        ([prompt("a"), prompt("b", gitBranch="HEAD")], {"branch": None}),
        ([prompt("a"), answer(gitBranch="fix/x")], {"branch": "fix/x"}),
        ([answer() | {"message": {"model": "<synthetic>"}}], {"model": None}),
        ([answer(), answer(message={"model": "<synthetic>"})], {"model": "claude-opus-5-5"}),
        ([answer(requestedModel="claude-opus-5-5[1m]")], {"model": "claude-opus-5-5[1m]"}),
        ([answer(), answer(message={"model": "small"}, isSidechain=True)], {"model": "claude-opus-5-5"}),
        ([answer(effort="low"), answer(effort="high")], {"effort": "high"}),
        ([answer(effort="low"), answer(effort={"level": 1})], {"effort": None}),
        ([answer()], {"effort": None, "approval": None}),
        ([prompt("a", permissionMode="plan")], {"approval": "plan"}),
        ([prompt("a"), {"type": "permission-mode", "permissionMode": "auto"}], {"approval": "auto"}),
        (
            [{"type": "permission-mode", "permissionMode": "default"}, prompt("a", permissionMode="plan")],
            {"approval": "plan"},
        ),
        ([prompt("a"), {"type": "attachment", "permissionMode": "plan"}], {"approval": None}),
        ([prompt("a"), prompt("b", cwd=CWD + "/sub")], {"cwd": CWD + "/sub", "launch_dir": CWD}),
        ([prompt("a", cwd="/tmp/x", isMeta=True), prompt("b")], {"cwd": CWD, "launch_dir": CWD}),
        ([prompt("a"), prompt("b", cwd="/tmp/x", isMeta=True)], {"cwd": CWD}),
        ([prompt("a", cwd=None)], {"cwd": None, "launch_dir": None}),
        ([prompt("a", cwd=7, gitBranch=[], entrypoint={})], {"cwd": None, "branch": None, "hidden": None}),
    ],
)
def test_the_last_of_a_kind_counts(claude: Store, records: list[Any], row: dict[str, object]) -> None:
    """Read at once or one record at a time (the injected folder: openclaw#138843)."""
    claude.put(*records)
    assert {key: getattr(claude.row(), key) for key in row} == row
    claude.put(b"")
    claude.row()
    for record in records:
        grown = claude.add(record)
    assert {key: getattr(grown, key) for key in row} == row


# The launch directory


@pytest.mark.parametrize(
    ("folder", "cwd"),
    [
        ("-w-my-app", "/w/my_app"),
        ("-w-my-app", "/w/my-app"),
        ("-w-my-app", "/w/my.app"),
        ("-w---", "/w/新聞"),
        ("-w---", "/w/暫存"),
        ("-home-u---", "/home/u/😀"),
        ("-w-cafe-", "/w/cafe\u0301"),
        ("-w-caf-", "/w/cafe\u0301"),
        ("-" + "a" * 199 + "-feo44x", "/" + "a" * 250),
        ("-x" * 100 + "-4y6yx2", "/x" * 150),
        ("-x" * 120, "/x" * 120),
        ("-repo--claude-worktrees-feat-x", "/repo/.claude/worktrees/feat-x"),
    ],
)
def test_the_folder_the_transcript_is_named_after_is_the_launch_directory(claude: Store, folder: str, cwd: str) -> None:
    """Several folders have one name (#40946, #70076, #91735, #61049), so what is recorded decides."""
    claude.put(prompt("hi", cwd=cwd), answer(cwd=cwd + "/sub"), folder=folder)
    assert (claude.row().launch_dir, claude.row().cwd) == (cwd, cwd + "/sub")


def test_of_several_folders_with_the_name_the_newest_existing_one_is_taken(claude: Store, tmp_path: Path) -> None:
    """None of them need exist (#57920, #28745); then it is the newest."""
    older, newer = tmp_path / "my_app", tmp_path / "my-app"
    folder = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(newer))
    claude.put(prompt("hi", cwd=str(older)), answer(cwd=str(newer)), folder=folder)
    assert claude.row().launch_dir == str(newer)
    older.mkdir()
    assert claude.add(answer(cwd=str(newer)), folder=folder).launch_dir == str(older)
    newer.mkdir()
    assert claude.add(answer(cwd=str(newer)), folder=folder).launch_dir == str(newer)


def test_a_linked_folder_is_resolved(claude: Store, tmp_path: Path) -> None:
    """The name is that of the real path: on macOS /tmp is /private/tmp."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    folder = "".join(c if c.isascii() and c.isalnum() else "-" for c in os.path.realpath(tmp_path / "real"))
    claude.put(prompt("hi", cwd=str(tmp_path / "link")), folder=folder)
    assert claude.row().launch_dir == str(tmp_path / "link")


def test_a_session_that_moved_is_resumed_where_it_went(claude: Store) -> None:
    """After /cd or into a worktree, also when no message followed and the worktree is gone (#91465)."""
    worktree = CWD + "/.claude/worktrees/x"
    moved = {"type": "relocated", "relocatedCwd": worktree}
    state = {"type": "worktree-state", "worktreeSession": {"originalCwd": CWD, "worktreePath": worktree}}
    for last in ([moved], [state], [moved, {"type": "worktree-state", "worktreeSession": None}]):
        claude.put(prompt("hi"), answer(), *last, folder=FOLDER + "--claude-worktrees-x")
        assert (claude.row().launch_dir, claude.row().cwd) == (worktree, CWD)


def test_a_session_whose_folder_only_an_earlier_record_names_is_found(claude: Store) -> None:
    """/cd moved the file, and a later `cd` went on from there."""
    claude.put(prompt("a", cwd="/w/a"), answer(cwd="/w/b"), answer(cwd="/w/b/sub"), folder="-w-b")
    assert (claude.row().launch_dir, claude.row().cwd) == ("/w/b", "/w/b/sub")


def test_a_session_that_did_not_move_is_resumed_where_it_began(claude: Store) -> None:
    """/cd can fail to move the file (#87958), and 2.1.332 resumes from anywhere without moving it."""
    claude.put(prompt("a"), answer(cwd="/home/ana/other"))
    assert (claude.row().launch_dir, claude.row().cwd) == (CWD, "/home/ana/other")


def test_a_folder_named_after_nothing_recorded_starts_where_the_session_began(claude: Store) -> None:
    """Desktop's SSH sessions (#61589) and CLAUDE_CODE_PROJECT_DIR_NAME name folders freely."""
    claude.put(prompt("a"), answer(cwd=CWD + "/sub"), folder="ssh-devbox")
    assert claude.row().launch_dir == CWD


# Several files about one session


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
    """Whatever its name is; 0 and numbers above the limit are no processes."""
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
    assert started("0") is None
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
