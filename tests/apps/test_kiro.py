"""The sessions of Kiro CLI: the files of two engines, and the database of the one before them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.agents import kiro as sample
from fixtures.agents import tables
from fixtures.agents.kiro import conversation, database, event, log, said, session, workspace
from sessiond.apps._store import MANIFEST
from sessiond.apps.base import Watch
from sessiond.apps.kiro import Kiro
from sessiond.launch import Found, Options, plan
from sessiond.session import Settings
from tests.apps.odd import ODD
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessiond.session import Session

ID = "f2946a26-3735-4b08-8d05-c928010302d5"
OTHER = "8255c6fc-4bd8-460d-9e7c-794500e0805f"
THIRD = f"sess_{ID}"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_088
DEFAULT = Settings(approval="default")


class Store(Reader):
    """A folder of Kiro CLI to put sessions into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Kiro(), root)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    root = tmp_path / ".kiro"
    root.mkdir()
    return Store(root)


@pytest.fixture
def root(store: Store) -> str:
    return str(store.root)


def test_the_sample_stores_are_found_as_they_were_meant(tmp_path: Path) -> None:
    samples = sample.make(str(tmp_path), NOW)
    rows = [
        row
        for root in Kiro().roots({"HOME": str(tmp_path)})
        for row in Reader(Kiro(), type(tmp_path)(root)).rows().values()
    ]
    assert {(s.id, s.title, s.cwd, s.updated, s.hidden, s.path) for s in samples} == {
        (row.id, row.title, row.cwd, row.updated, row.hidden, row.path) for row in rows
    }


def test_a_session_of_the_second_engine_is_read(store: Store, root: str) -> None:
    path = session(root, ID, CWD, "Fix cart rounding", NOW)
    log(path, said("off by a cent"), {"kind": "AssistantMessage", "data": {}}, said("and test it"))
    row = store.row(ID)
    assert (row.title, row.cwd, row.launch_dir, row.path, row.hidden) == ("Fix cart rounding", CWD, CWD, path, None)
    assert (row.created, row.updated, row.model) == (NOW - 60_000, NOW, "claude-sonnet-4.6")
    assert (row.branch, row.live, row.approval) == (None, None, "default")
    assert store.app.prompts(row) == ("off by a cent", "and test it")


def test_a_session_of_the_third_engine_is_read(store: Store, root: str) -> None:
    """Its first prompt stands in ``session_start``, and nowhere else."""
    path = workspace(root, THIRD, CWD, "Fix cart rounding", NOW)
    log(path, event("session_start", "off by a cent"), event("assistant", "Done."), event("user", "and test it"))
    row = store.row(THIRD)
    assert (row.title, row.cwd, row.launch_dir, row.path, row.hidden) == ("Fix cart rounding", CWD, CWD, path, None)
    assert (row.created, row.updated, row.model) == (NOW - 60_000, NOW, "claude-sonnet-5")
    assert store.app.prompts(row) == ("off by a cent", "and test it")


def test_a_conversation_of_the_first_engine_is_read(store: Store, root: str) -> None:
    path = database(root, conversation(ID, CWD, ['off by \u00e9 "cent"', "and test it"], NOW))
    row = store.row(ID)
    assert (row.title, row.cwd, row.launch_dir, row.path) == ('off by é "cent"', CWD, CWD, path)
    assert (row.updated, row.hidden) == (NOW, None)
    assert store.app.prompts(row) == ('off by é "cent"', "and test it")


def test_a_session_without_a_title_is_named_by_its_first_prompt(store: Store, root: str) -> None:
    log(session(root, ID, CWD, None, NOW), said("off by\na cent"), said("2"))
    log(workspace(root, THIRD, CWD, "", NOW), event("session_start", ""), event("user", "why is CI red?"))
    rows = store.rows()
    assert (rows[ID].title, rows[THIRD].title) == ("off by a cent", "why is CI red?")


# Generations and copies


@pytest.mark.parametrize(("older", "newer"), [(session, workspace), (workspace, session)])
def test_of_two_copies_the_one_used_last_counts(
    store: Store, root: str, older: Callable[..., str], newer: Callable[..., str]
) -> None:
    older(root, ID, CWD, "old", NOW)
    path = newer(root, ID, CWD, "new", NOW + 1)
    assert (store.row(ID).title, store.row(ID).path) == ("new", path)
    os.unlink(path)
    assert store.row(ID).title == "old"


def test_a_conversation_in_two_folders_is_that_of_the_last(store: Store, root: str) -> None:
    rows = [conversation(ID, folder, [folder], at) for folder, at in ((CWD, NOW), ("/b", NOW + 1), ("/a", NOW - 1))]
    database(root, *rows)
    row = store.row(ID)
    assert (row.cwd, row.title, row.updated) == ("/b", "/b", NOW + 1)
    assert store.app.prompts(row) == ("/b", "/b")


# What is hidden


def test_what_is_not_for_people_is_hidden(store: Store, root: str) -> None:
    session(root, ID, CWD, "look", NOW, {"parent_session_id": OTHER})
    workspace(root, THIRD, CWD, "look", NOW, {"parentSessionId": OTHER})
    session(root, OTHER, CWD, None, NOW)
    database(root, conversation("empty", CWD, [], NOW))
    rows = store.rows()
    assert [rows[id_].hidden for id_ in (ID, THIRD, OTHER, "empty")] == ["subagent", "subagent", "empty", "empty"]


def test_a_session_whose_file_is_gone_is_deleted(store: Store, root: str) -> None:
    """Of an id that it does not find, Kiro may begin a new session."""
    path = session(root, ID, CWD, "Cart", NOW)
    row = store.row(ID)
    assert store.app.present(row)
    os.unlink(path)
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "Cart")
    assert not store.app.present(row)


def test_a_conversation_that_is_gone_is_not_there_to_be_resumed(store: Store, root: str) -> None:
    path = database(root, conversation(ID, CWD, ["hi"], NOW), conversation(OTHER, CWD, ["hi"], NOW))
    row = store.row(ID)
    assert store.app.present(row)
    with closing(sqlite3.connect(path)) as owner, owner:
        owner.execute("DELETE FROM conversations_v2 WHERE conversation_id = ?", (ID,))
    assert list(store.rows()) == [OTHER]
    assert not store.app.present(row)


# Whatever is in it


@pytest.mark.parametrize("value", ODD, ids=lambda value: ascii(value)[:12])
def test_a_key_may_hold_anything(store: Store, root: str, value: object) -> None:
    second = ["cwd", "title", "created_at", "updated_at", "parent_session_id", "session_state"]
    third = ["title", "workspacePaths", "createdAt", "lastModifiedAt", "modelId", "parentSessionId"]
    for key in second:
        session(root, key, CWD, "CI", NOW, {key: value})
    for key in third:
        workspace(root, key, CWD, "CI", NOW, {key: value})
    session(root, "state", CWD, "CI", NOW, {"session_state": {"permissions": value, "rts_model_state": value}})
    assert set(store.rows()) == {*second, *third, "state"}
    json.dumps([scan.facts for _, scan in store.scans.values()])


WORDS = [odd for odd in ODD if odd not in ("\0", "\ud800")]
"""Without those of which no title is left."""


@pytest.mark.parametrize("value", WORDS, ids=lambda value: ascii(value)[:12])
def test_a_line_of_a_log_may_hold_anything(store: Store, root: str, value: object) -> None:
    log(session(root, ID, CWD, None, NOW), {"kind": "Prompt", "data": value}, said(value), said("hi"))  # type: ignore[arg-type]
    log(workspace(root, THIRD, CWD, "", NOW), {"payload": value}, event("user", value), event("user", "hi"))
    for row in store.rows().values():
        assert row.title
        assert all(store.app.prompts(row))


def test_a_column_may_hold_anything(store: Store, root: str) -> None:
    odd = [None, 7, 1e300, "", "\0", b"\xff\xfe", '"Prompt":{"prompt":', '"Prompt":{"prompt":7}', "x" * 9000]
    changes = [{column: value} for column in ("key", "value", "updated_at") for value in odd]
    rows = [conversation(f"c{number}", CWD, ["hi"], NOW) | change for number, change in enumerate(changes)]
    database(root, *rows, *(conversation(id_, CWD, [], NOW) for id_ in ("-rf", "", "a b", "x" * 300)))
    assert set(store.rows()) == {row["conversation_id"] for row in rows}
    assert store.problems == {}
    for row in store.rows().values():
        store.app.prompts(row)
    json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("content", ["", "[]", "{", "\0" * 50, '"x"'])
def test_a_file_that_is_no_session_is_none(store: Store, root: str, content: str) -> None:
    for path in (session(root, ID, CWD, "CI", NOW), workspace(root, THIRD, CWD, "CI", NOW)):
        with open(path, "w", encoding="utf-8") as target:
            target.write(content)
    assert store.rows() == {}


def test_a_file_met_half_written_keeps_its_session(store: Store, root: str) -> None:
    path = session(root, ID, CWD, "CI", NOW)
    assert store.row(ID).title == "CI"
    os.truncate(path, 40)
    assert store.row(ID).title == "CI"


def test_of_a_file_too_large_to_parse_the_first_keys_are_read(store: Store, root: str) -> None:
    """Its last request is in it, with all that was said to the model; what it lets pass is then not known."""
    state = {"session_state": {"parent_session_id": OTHER, "conversation_metadata": {"last_request": "x" * MANIFEST}}}
    session(root, ID, CWD, "CI", NOW, state)
    row = store.row(ID)
    assert (row.title, row.cwd, row.updated, row.model, row.approval) == ("CI", CWD, NOW, None, "unknown")
    assert row.hidden is None


def test_a_database_without_tables_has_no_session(store: Store, root: str) -> None:
    tables.write(f"{root}/data.sqlite3", {"auth_kv": [{"key": "token"}]})
    assert store.rows() == {}
    assert store.problems == {}


def test_of_a_conversation_only_the_beginning_is_read(store: Store, root: str) -> None:
    """The times come behind it in its row, so they are read from an index."""
    rows = [conversation(f"c{n}", CWD, ["hi", "x" * 3_000_000], NOW + n) for n in range(3)]
    path = database(root, *rows)
    with closing(sqlite3.connect(path)) as database_:
        for query in (
            "SELECT rowid, key, conversation_id FROM conversations_v2",
            "SELECT rowid, updated_at FROM conversations_v2",
        ):
            (plan_,) = database_.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
            assert "COVERING INDEX" in plan_[-1]
    assert {row.title for row in store.rows().values()} == {"hi"}


def test_a_database_that_is_written_to_keeps_its_rows(store: Store, root: str) -> None:
    """It has a rollback journal: while its owner commits, nobody can read."""
    path = database(root, conversation(ID, CWD, ["hi"], NOW))
    assert store.row(ID).title == "hi"
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("BEGIN IMMEDIATE")
        owner.execute("UPDATE conversations_v2 SET updated_at = ?", (NOW + 5,))
        before = sorted(os.listdir(root))
        assert store.row(ID).updated == NOW
        assert sorted(os.listdir(root)) == before
        owner.execute("COMMIT")
        assert store.row(ID).updated == NOW + 5


# Whether it is open


def test_a_lock_names_the_process_that_may_have_it_open(store: Store, root: str) -> None:
    path = session(root, ID, CWD, "CI", NOW)
    row = store.row(ID)
    assert store.app.live(row) is None
    with open(path.removesuffix(".json") + ".lock", "w", encoding="utf-8") as lock:
        json.dump({"pid": os.getpid(), "started_at": "2026-06-11T23:26:46Z"}, lock)
    live = store.app.live(row)
    assert live
    assert (live.certain, f"process {os.getpid()}" in live.where) == (False, True)


@pytest.mark.parametrize("pid", [None, -1, 0, "x", 2**40, [], "1; rm"])
def test_a_lock_left_behind_says_nothing(store: Store, root: str, pid: object) -> None:
    path = session(root, ID, CWD, "CI", NOW)
    with open(path.removesuffix(".json") + ".lock", "w", encoding="utf-8") as lock:
        json.dump({"pid": pid}, lock)
    assert store.app.live(store.row(ID)) is None


def test_a_lock_of_a_process_that_ended_says_nothing(store: Store, root: str) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path = session(root, ID, CWD, "CI", NOW)
    with open(path.removesuffix(".json") + ".lock", "w", encoding="utf-8") as lock:
        json.dump({"pid": ended.pid}, lock)
    assert store.app.live(store.row(ID)) is None


# Where it lies


@pytest.mark.parametrize(
    ("platform", "env", "roots"),
    [
        ("linux", {"HOME": "/h"}, ["/h/.kiro", "/h/.local/share/kiro-cli"]),
        ("linux", {"HOME": "/h", "XDG_DATA_HOME": "/d"}, ["/h/.kiro", "/d/kiro-cli"]),
        ("linux", {"HOME": "/h", "KIRO_HOME": "/k/"}, ["/k", "/h/.kiro", "/h/.local/share/kiro-cli"]),
        ("linux", {"HOME": "/h", "KIRO_HOME": "k"}, ["/h/.kiro", "/h/.local/share/kiro-cli"]),
        ("darwin", {"HOME": "/h", "XDG_DATA_HOME": "/d"}, ["/h/.kiro", "/h/Library/Application Support/kiro-cli"]),
        ("linux", {}, ["/.kiro", "/.local/share/kiro-cli"]),
    ],
)
def test_the_environment_says_where_the_stores_are(
    monkeypatch: pytest.MonkeyPatch, platform: str, env: dict[str, str], roots: list[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert Kiro().roots(env) == roots


def test_a_store_is_named_by_its_folder() -> None:
    assert Kiro().environment("/k") == {"KIRO_HOME": "/k"}
    assert Kiro().environment("/d/kiro-cli") == {"XDG_DATA_HOME": "/d"}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert Kiro().watches("/k") == [Watch("/k/sessions/cli", 0), Watch("/k/sessions", 2), Watch("/k", 0)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"sessions/cli/{ID}.json", "session"),
        (f"sessions/c25a05601239adfe/{THIRD}/session.json", "workspace"),
        (f"sessions/_global/{THIRD}/session.json", "workspace"),
        ("data.sqlite3", "database"),
        ("data.sqlite3-wal", "database"),
        ("data.sqlite3-journal", None),
        (f"sessions/cli/{ID}.jsonl", None),
        (f"sessions/cli/{ID}.history", None),
        (f"sessions/cli/{ID}.lock", None),
        (f"sessions/cli/{ID}/session.json", None),
        (f"sessions/c25a05601239adfe/{THIRD}/messages.jsonl", None),
        (f"sessions/c25a05601239adfe/{THIRD}/tool-outputs/session.json", None),
        (f"sessions/../{THIRD}/session.json", None),
        ("settings/cli.json", None),
        ("settings/mcp.json", None),
        ("secrets.json", None),
    ],
)
def test_only_the_files_of_sessions_are_units(path: str, kind: str | None) -> None:
    unit = Kiro().unit("/k", f"/k/{path}")
    assert (unit.kind if unit else None) == kind


def test_each_engine_is_told_to_resume_its_own(store: Store, root: str) -> None:
    """None of the three finds the sessions of another, and one that does not begins a new one."""
    session(root, ID, CWD, "CI", NOW)
    workspace(root, THIRD, CWD, "CI", NOW)
    database(root, conversation(OTHER, CWD, ["CI"], NOW))
    rows = store.rows()
    argv = [store.app.launch(rows[id_], DEFAULT, fork=False, folder="/x") for id_ in (ID, THIRD, OTHER)]
    assert argv == [
        ["kiro-cli", "chat", "--resume-id", ID],
        ["kiro-cli", "--v3", "--resume-id", THIRD],
        ["kiro-cli", "chat", "--classic", "--resume-id", OTHER],
    ]


@pytest.mark.parametrize(
    "allowed",
    [
        {"trusted_tools": ["shell"]},
        {"allowed_commands": ["rm -rf /"]},
        {"filesystem": {"allowed_write_paths": ["/"]}},
    ],
)
def test_what_the_person_let_pass_is_withheld_until_asked_for(store: Store, root: str, allowed: dict[str, Any]) -> None:
    session(root, ID, CWD, "CI", NOW, {"session_state": {"permissions": allowed}})
    row = store.row(ID)
    assert row.approval == "trusted"
    assert approvals(row) == ["refused"]
    assert approvals(row, allow=True) == ["noted"]


@pytest.mark.parametrize(
    ("state", "checks"),
    [
        ({"permissions": {"trusted_tools": [], "filesystem": {"allowed_write_paths": []}}}, []),
        ({"permissions": {}}, ["refused"]),
        ({"permissions": "all"}, ["refused"]),
        ({}, ["refused"]),
    ],
)
def test_only_a_session_that_says_it_lets_nothing_pass_goes_on_unasked(
    store: Store, root: str, state: dict[str, Any], checks: list[str]
) -> None:
    session(root, ID, CWD, "CI", NOW, {"session_state": state})
    assert approvals(store.row(ID)) == checks


def test_nor_does_one_of_an_engine_that_does_not_record_it(store: Store, root: str) -> None:
    workspace(root, THIRD, CWD, "CI", NOW)
    database(root, conversation(OTHER, CWD, ["CI"], NOW))
    assert [approvals(row) for row in store.rows().values()] == [["refused"], ["refused"]]


def approvals(row: Session, *, allow: bool = False) -> list[str]:
    """Return what the plan to resume *row* says of its permissions; they are left to Kiro, so nothing is passed."""
    made = plan(Kiro(), row, Options(allow_loose=allow), Found())
    assert not any("trust" in word for word in made.argv)
    return [check.state for check in made.checks if check.name == "approval"]
