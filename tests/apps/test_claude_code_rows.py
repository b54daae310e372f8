"""What the row of a session of Claude Code says, and who it is for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.apps.claude_store import (
    CWD,
    FOLDER,
    ID,
    OTHER,
    Store,
    answer,
    custom_title,
    filler,
    last_prompt,
    prompt,
    said,
)

if TYPE_CHECKING:
    from pathlib import Path


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
        ([prompt("a", permissionMode=["plan"])], {"approval": '["plan"]'}),
        ([prompt("a", permissionMode={"mode": "plan"})], {"approval": '{"mode":"plan"}'}),
        ([prompt("a", permissionMode=True)], {"approval": "true"}),
        ([prompt("a", permissionMode="x" * 5000)], {"approval": "x" * 200}),
        ([prompt("a", permissionMode="plan"), prompt("b", permissionMode=" ")], {"approval": "plan"}),
        ([prompt("a", permissionMode="auto"), *filler(2 << 20)], {"approval": "auto"}),
        (
            [
                *(prompt("a", permissionMode="default"), *filler(600 << 10)),
                *({"type": "permission-mode", "permissionMode": "auto"}, *filler(600 << 10)),
            ],
            {"approval": "auto"},
        ),
        (
            [
                *(prompt("a", permissionMode="auto"), *[{"type": "progress", "data": "x" * 1000}] * 800),
                {"type": "permission-mode", "permissionMode": "plan"},
            ],
            {"approval": "plan"},
        ),
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


def test_sessions_of_several_projects_share_a_folder(claude: Store) -> None:
    """Every two-letter name outside ASCII is two dashes (#40946)."""
    claude.put(prompt("a", cwd="/w/新聞"), folder="-w---")
    claude.put(prompt("b", cwd="/w/暫存"), folder="-w---", id=OTHER)
    rows = claude.rows()
    assert {name: (row.cwd, row.launch_dir) for name, row in rows.items()} == {
        ID: ("/w/新聞", "/w/新聞"),
        OTHER: ("/w/暫存", "/w/暫存"),
    }


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
