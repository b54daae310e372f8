"""The chats of Cursor CLI: those with a ``meta.json``, and those of which only the database tells."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.agents import cursor as sample
from fixtures.agents.cursor import chat, meta, write
from fixtures.agents.cursor import store as database
from sessiond.apps.base import Watch
from sessiond.apps.cursor import Cursor
from sessiond.launch import Found, Options, plan
from sessiond.session import Settings
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

ID = "a8c6f0d2-5b7e-4e1f-8f0a-2d3c4b5a6978"
OTHER = "b8c6f0d2-5b7e-4e1f-8f0a-2d3c4b5a6978"
CWD = "/home/ana/src/shop"
ELSEWHERE = "/home/ana/src/other"
NOW = 1_796_078_395_088


class Store(Reader):
    """A folder of Cursor to put chats into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Cursor(), root)

    def folder(self, id: str = ID, cwd: str = CWD) -> str:
        return chat(str(self.root), id, cwd)

    def put(self, title: str = "CI", id: str = ID, cwd: str = CWD, at: int = NOW, **more: object) -> str:
        database(self.folder(id, cwd), title, at)
        return meta(self.folder(id, cwd), cwd, title, at, **more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".cursor")


def test_a_chat_is_told_by_both_of_its_files(store: Store) -> None:
    path = store.put("Cart rounding fix")
    row = store.row(ID)
    assert (row.title, row.cwd, row.launch_dir, row.path) == ("Cart rounding fix", CWD, CWD, path)
    assert (row.updated, row.created, row.model) == (NOW, NOW - sample.MINUTE, "composer-2")
    assert (row.hidden, row.branch, row.live, row.archived) == (None, None, None, False)


# Without a meta.json, and with an older one


def test_a_chat_of_a_release_without_meta_is_read_from_its_database(store: Store) -> None:
    path = database(store.folder(), "Cart rounding fix", NOW, CWD)
    os.utime(path, ns=((NOW + 7) * 1_000_000,) * 2)
    row = store.row(ID)
    assert (row.title, row.cwd, row.launch_dir, row.path) == ("Cart rounding fix", CWD, CWD, path)
    assert (row.created, row.updated, row.hidden) == (NOW, NOW + 7, None)


@pytest.mark.parametrize("named", [CWD, f"file://{CWD}", CWD + "/x" * 100, CWD + "/é"])
def test_a_meta_without_a_folder_gets_it_from_the_database(store: Store, named: str) -> None:
    cwd = named.removeprefix("file://")
    database(store.folder(cwd=cwd), "CI", NOW, named)
    meta(store.folder(cwd=cwd), cwd, "CI", NOW, cwd=None)
    assert (store.row(ID).cwd, store.row(ID).launch_dir) == (cwd, cwd)


def test_a_folder_by_which_the_chat_is_not_found_is_shown_but_not_started_in(store: Store) -> None:
    """Cursor would begin a new chat there without a word."""
    database(store.folder(), "CI", NOW, ELSEWHERE)
    meta(store.folder(), ELSEWHERE, "CI", NOW)
    assert (store.row(ID).cwd, store.row(ID).launch_dir) == (ELSEWHERE, None)


@pytest.mark.parametrize("title", ["New Agent", "", None, "  "])
def test_a_placeholder_gives_way_to_the_first_prompt(store: Store, title: str | None) -> None:
    store.put(title=title or "")
    write(f"{store.folder()}/prompt_history.json", ["/model gpt", "why is\nCI red?", "and now?"])
    assert store.row(ID).title == "why is CI red?"
    assert store.app.prompts(store.row(ID)) == ("why is\nCI red?", "and now?")


def test_the_name_in_the_database_stands_in_for_a_missing_title(store: Store) -> None:
    database(store.folder(), "Cart rounding fix", NOW)
    meta(store.folder(), CWD, "", NOW)
    write(f"{store.folder()}/prompt_history.json", ["hi"])
    assert store.row(ID).title == "Cart rounding fix"


# What is hidden, and copies


@pytest.mark.parametrize(
    ("more", "hidden"),
    [
        ({}, None),
        ({"isSubagent": True}, "subagent"),
        ({"isSubagent": False}, None),
        ({"hasConversation": False}, "empty"),
        ({"hasConversation": None}, None),
        ({"hasConversation": False, "isSubagent": True}, "subagent"),
    ],
)
def test_what_is_not_for_people_is_hidden(store: Store, more: dict[str, Any], hidden: str | None) -> None:
    store.put(**more)
    assert store.row(ID).hidden == hidden


@pytest.mark.parametrize(
    ("more", "hidden"), [({"subagentInfo": {"parent": OTHER}}, "subagent"), ({"latestRootBlobId": ""}, "empty")]
)
def test_the_database_alone_tells_what_is_not_for_people(store: Store, more: dict[str, Any], hidden: str) -> None:
    database(store.folder(), "CI", NOW, **more)
    assert store.row(ID).hidden == hidden


def test_a_chat_without_a_database_is_empty_and_is_not_resumed(store: Store) -> None:
    """For an id that it does not find Cursor begins a new chat (nexu-io/open-design#4790)."""
    store.put()
    row = store.row(ID)
    assert store.app.present(row)
    os.unlink(f"{store.folder()}/store.db")
    assert not store.app.present(row)
    meta(store.folder(OTHER), CWD, "CI", NOW)
    assert store.row(OTHER).hidden == "empty"


@pytest.mark.parametrize(("first", "second"), [(NOW, NOW + 1), (NOW + 1, NOW)])
def test_of_two_folders_with_one_chat_that_used_last_counts(store: Store, first: int, second: int) -> None:
    paths = {first: store.put("here", at=first), second: store.put("there", cwd=ELSEWHERE, at=second)}
    newest = max(paths)
    row = store.row(ID)
    assert (row.path, row.updated) == (paths[newest], newest)
    assert (row.title, row.launch_dir) == (("here", CWD) if newest == first else ("there", ELSEWHERE))
    shutil.rmtree(os.path.dirname(paths[newest]))
    assert (store.row(ID).path, store.row(ID).hidden) == (paths[min(paths)], None)


def test_a_chat_that_was_pruned_is_deleted(store: Store) -> None:
    store.put()
    assert store.row(ID).hidden is None
    shutil.rmtree(store.folder())
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "CI")
    assert not store.app.present(store.row(ID))


# Whatever is in it


ODD: list[Any] = [None, 7, [], {}, {"a": []}, "", "\ud800", "\0", 10**400, True, "\x1b[31m", "-x", "relative"]


@pytest.mark.parametrize("key", ["title", "cwd", "updatedAtMs", "createdAtMs", "name"])
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_meta_may_hold_anything(store: Store, key: str, value: Any) -> None:
    meta(store.folder(), CWD, "CI", NOW, **{key: value})
    assert store.row(ID).launch_dir in (None, CWD)
    json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("key", ["name", "createdAt", "latestRootBlobId", "lastUsedModel"])
@pytest.mark.parametrize("value", ODD[::3], ids=lambda value: repr(value)[:12])
def test_the_record_of_a_chat_may_hold_anything(store: Store, key: str, value: Any) -> None:
    database(store.folder(), "CI", NOW, **{key: value})
    row = store.row(ID)
    assert row.model is None or isinstance(row.model, str)
    json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("value", [None, 7, "", "zz", "7b7d", b"\xff\x00", "00" * 50_000])
@pytest.mark.parametrize("column", ["meta.value", "blobs.data"])
def test_a_row_may_hold_anything(store: Store, column: str, value: object) -> None:
    path = database(store.folder(), "CI", NOW, CWD)
    table, name = column.split(".")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {name} = ?", (value,))
    assert store.row(ID).cwd is None
    assert not store.problems


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\0" * 50, b'"x"'])
def test_a_meta_met_half_written_keeps_its_chat(store: Store, content: bytes) -> None:
    path = store.put()
    assert store.row(ID).title == "CI"
    with open(path, "wb") as target:
        target.write(content)
    assert (store.row(ID).title, store.row(ID).cwd) == ("CI", CWD)


@pytest.mark.parametrize("content", [b"", b"{}", b"[", b"[1, null, {}]", b'["/clear", ""]', b"[" * 9999, b"\xff"])
def test_a_history_may_hold_anything(store: Store, content: bytes) -> None:
    store.put(title="New Agent")
    with open(f"{store.folder()}/prompt_history.json", "wb") as target:
        target.write(content)
    assert store.row(ID).title == ""
    assert store.app.prompts(store.row(ID)) == (None, None)


def test_a_broken_database_costs_no_row(store: Store) -> None:
    store.put()
    assert store.row(ID).model == "composer-2"
    with open(f"{store.folder()}/store.db", "r+b") as file:
        file.write(b"no database" * 20)
    assert (store.row(ID).title, store.row(ID).model) == ("CI", "composer-2")
    assert "store.db" in store.problems


def test_a_chat_is_read_while_it_is_written(store: Store) -> None:
    path = database(store.folder(), "New Agent", NOW)
    assert store.row(ID).title == ""
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("PRAGMA wal_autocheckpoint = 0")
        record = json.dumps({"name": "CI is red", "latestRootBlobId": sample.BLOB}).encode().hex()
        owner.execute("UPDATE meta SET value = ?", (record,))
        owner.execute("BEGIN IMMEDIATE")
        owner.execute("DELETE FROM meta")
        before = sorted(os.listdir(store.folder()))
        assert store.row(ID).title == "CI is red"
        assert sorted(os.listdir(store.folder())) == before
    assert store.problems == {}


# Where it lies


@pytest.mark.parametrize(
    ("platform", "env", "roots"),
    [
        ("linux", {"HOME": "/home/ana"}, ["/home/ana/.cursor", "/home/ana/.config/cursor"]),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/cfg"}, ["/h/.cursor", "/cfg/cursor"]),
        ("linux", {"HOME": "/h", "CURSOR_DATA_DIR": "/data/"}, ["/data", "/h/.config/cursor"]),
        ("darwin", {"HOME": "/Users/ana", "XDG_CONFIG_HOME": "/cfg"}, ["/Users/ana/.cursor"]),
        ("linux", {}, ["/.cursor", "/.config/cursor"]),
    ],
)
def test_the_environment_says_where_the_store_is(
    monkeypatch: pytest.MonkeyPatch, platform: str, env: dict[str, str], roots: list[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert Cursor().roots(env) == roots


def test_a_store_elsewhere_is_named_to_the_program() -> None:
    assert Cursor().environment("/data") == {"CURSOR_DATA_DIR": "/data"}


def test_the_folders_in_which_chats_come_and_go_are_watched() -> None:
    assert Cursor().watches("/d") == [Watch("/d/chats", 2)]


BUCKET = "6a4ed208d874bc31c17fb549de8edded"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"chats/{BUCKET}/{ID}/meta.json", "meta"),
        (f"chats/{BUCKET}/{ID}/store.db", "store"),
        (f"chats/{BUCKET}/{ID}/store.db-wal", "store"),
        (f"chats/{BUCKET}/{ID}/store.db-shm", None),
        (f"chats/{BUCKET}/{ID}/prompt_history.json", None),
        (f"chats/{BUCKET}/{ID}/x/meta.json", None),
        (f"chats/x/{ID}/meta.json", None),
        (f"chats/{BUCKET}/x/meta.json", None),
        ("cli-config.json", None),
        ("mcp.json", None),
        (f"projects/home-ana/agent-transcripts/{ID}/{ID}.jsonl", None),
        ("ai-tracking/ai-code-tracking.db", None),
    ],
)
def test_only_the_files_of_chats_are_units(path: str, kind: str | None) -> None:
    unit = Cursor().unit("/d", f"/d/{path}")
    assert (unit.kind if unit else None) == kind
    assert Cursor().unit("/other", f"/d/{path}") is None


@pytest.mark.parametrize(("folder", "more"), [(None, []), ("/else", ["--workspace", CWD])])
def test_a_chat_is_resumed_where_it_is_found(store: Store, folder: str | None, more: list[str]) -> None:
    store.put()
    argv = store.app.launch(store.row(ID), Settings(model="gpt-6"), fork=False, folder=folder)
    assert argv == ["cursor-agent", "--resume", ID, *more]


@pytest.mark.parametrize(
    ("recorded", "allow", "state"),
    [
        ({"mode": "default"}, False, None),
        ({"mode": "plan", "isRunEverything": False}, False, None),
        ({"mode": "auto-run"}, False, "refused"),
        ({"mode": "auto-run"}, True, "noted"),
        ({"mode": "default", "isRunEverything": True}, False, "refused"),
        ({"mode": "default", "isRunEverything": "yes"}, False, "refused"),
        ({"mode": "default", "isRunEverything": True}, True, "noted"),
        ({"mode": "turbo"}, False, "refused"),
        ({"mode": {"a": 1}}, False, "refused"),
        ({"mode": None}, False, "refused"),
    ],
)
def test_a_chat_that_may_come_back_loose_is_refused_unless_it_is_asked_for(
    store: Store, recorded: dict[str, Any], state: str | None, *, allow: bool
) -> None:
    """Whether Cursor restores it is not known, and no option makes it stricter."""
    database(store.folder(), "CI", NOW, CWD, **recorded)
    made = plan(store.app, store.row(ID), Options(allow_loose=allow), Found())
    assert [check.state for check in made.checks if check.name == "approval"] == ([state] if state else [])
    assert made.argv == ["cursor-agent", "--resume", ID]
