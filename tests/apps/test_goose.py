"""The sessions of Goose: those of its database, and those of the files it had before."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.agents import goose as sample
from fixtures.agents import tables
from fixtures.agents.goose import Row, file, message, session
from sessiond.apps.base import Watch
from sessiond.apps.goose import Goose
from sessiond.session import Settings
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

ID, OTHER, OLD = "20260820_1", "20260820_2", "20250306_133641"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_000


class Store(Reader):
    """A data folder of Goose to put sessions into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Goose(), root)

    def put(self, *rows: Row, messages: list[Row] | None = None) -> str:
        path = self.root / "sessions/sessions.db"
        path.unlink(missing_ok=True)
        return tables.write(path, {"sessions": list(rows)} | ({"messages": messages} if messages else {}))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    root = tmp_path / "goose"
    root.mkdir()
    return Store(root)


def test_a_session_has_folder_times_and_model(store: Store) -> None:
    path = store.put(session(ID, CWD, "Cart", NOW), messages=[message(ID, "hi", 1), message(ID, "bye", 3)])
    row = store.row(ID)
    assert (row.title, row.cwd, row.launch_dir, row.path) == ("Cart", CWD, CWD, path)
    assert (row.created, row.updated, row.model) == (NOW - 60_000, NOW, "claude-sonnet-5")
    assert (row.hidden, row.archived, row.branch, row.live) == (None, False, None, None)
    assert store.app.prompts(row) == ("hi", "bye")
    assert store.app.present(row)


@pytest.mark.parametrize("time", ["2026-11-30 12:00:00", "2026-11-30T12:00:00+00:00", 1_796_040_000, 1_796_040_000_000])
def test_a_time_is_read_as_any_release_wrote_it(store: Store, time: object) -> None:
    store.put(session(ID, CWD, "Cart", NOW, updated_at=time))
    assert store.row(ID).updated == 1_796_040_000_000


# Titles


@pytest.mark.parametrize("name", ["CLI Session", "New Chat", "ACP Session", "New session 3", "", None])
def test_a_placeholder_gives_way_to_the_first_prompt(store: Store, name: str | None) -> None:
    unseen = message(ID, "<info>", 1, metadata_json='{"userVisible":false}')
    answer = message(ID, "Hello", 2, "assistant")
    words = [unseen, answer, message(ID, "why is\nCI red?", 3), message(ID, "and now?", 4)]
    store.put(session(ID, CWD, "", NOW) | {"name": name}, messages=words)
    row = store.row(ID)
    assert row.title == "why is CI red?"
    assert store.app.prompts(row) == ("why is\nCI red?", "and now?")


def test_a_description_is_the_title_of_an_older_database(store: Store) -> None:
    """The first schemas had no ``name``, and no ``metadata_json`` either."""
    older = {"id": ID, "description": "Cart", "working_dir": CWD, "updated_at": sample.stamp(NOW)}
    bare = {"id": OTHER, "description": "", "working_dir": CWD, "updated_at": sample.stamp(NOW)}
    words = message(OTHER, "round half even", 1)
    del words["metadata_json"]
    store.put(older, bare, messages=[words])
    rows = store.rows()
    assert (rows[ID].title, rows[ID].hidden, rows[ID].updated) == ("Cart", None, NOW)
    assert rows[OTHER].title == "round half even"


def test_a_prompt_once_found_stays_when_its_message_is_gone(store: Store) -> None:
    """A compaction replaces the messages."""
    path = store.put(session(ID, CWD, "CLI Session", NOW), messages=[message(ID, "why?", 1)])
    assert store.row(ID).title == "why?"
    with closing(sqlite3.connect(path)) as owner, owner:
        owner.execute("DELETE FROM messages")
    assert store.row(ID).title == "why?"


def test_a_tool_result_is_no_prompt(store: Store) -> None:
    """Results have the role of a person too."""
    result = json.dumps([{"type": "toolResponse", "id": "1"}, "text", {"type": "text", "text": ""}])
    words = [message(ID, "", 1, content_json=result), message(ID, "why?", 2)]
    store.put(session(ID, CWD, "", NOW), messages=words)
    assert store.row(ID).title == "why?"


# Generations


def test_the_database_counts_more_than_a_file(store: Store) -> None:
    file(str(store.root), OLD, CWD, "file", ["hi"], NOW + 5)
    path = store.put(session(OLD, CWD, "row", NOW))
    assert (store.row(OLD).title, store.row(OLD).path, store.row(OLD).hidden) == ("row", path, None)


def test_a_file_cannot_be_resumed_once_there_is_a_database(store: Store) -> None:
    """The files are taken in when the database is made, and no later."""
    path = file(str(store.root), OLD, CWD, "Webhooks", ["webhooks are late", "and now?"], NOW)
    row = store.row(OLD)
    assert (row.title, row.cwd, row.updated, row.path, row.hidden) == ("Webhooks", CWD, NOW, path, None)
    assert store.app.present(row)
    assert store.app.prompts(row) == ("webhooks are late", "and now?")
    store.put(session(ID, CWD, "CI", NOW))
    assert not store.app.present(row)
    assert store.row(OLD).hidden == "not-resumable"


def test_a_file_without_a_description_is_named_by_its_first_prompt(store: Store) -> None:
    file(str(store.root), OLD, CWD, "", ["webhooks are late"], NOW)
    assert store.row(OLD).title == "webhooks are late"


def test_a_file_of_the_first_releases_has_no_line_about_itself(store: Store) -> None:
    path = file(str(store.root), "my-project", CWD, "", [], NOW)
    with open(path, "w", encoding="utf-8") as target:
        target.write('{"role":"user","created":1732240977,"content":"whoami"}\n')
    row = store.row("my-project")
    assert (row.title, row.cwd) == ("whoami", None)


# What is hidden


@pytest.mark.parametrize(
    ("more", "hidden"),
    [
        ({}, None),
        ({"session_type": "scheduled"}, None),
        ({"session_type": None}, None),
        ({"session_type": "sub_agent"}, "subagent"),
        ({"parent_session_id": OTHER}, "subagent"),
        ({"parent_session_id": ""}, None),
        ({"session_type": "hidden"}, "sdk"),
        ({"session_type": "gateway"}, "sdk"),
        ({"session_type": 7}, "sdk"),
        ({"name": "CLI Session"}, "empty"),
        ({"name": ""}, "empty"),
    ],
)
def test_what_is_not_for_people_is_hidden(store: Store, more: dict[str, Any], hidden: str | None) -> None:
    store.put(session(ID, CWD, "CI", NOW) | more)
    assert store.row(ID).hidden == hidden


@pytest.mark.parametrize(("at", "archived"), [(None, False), ("2026-11-30 12:00:00", True), ("soon", False)])
def test_a_time_of_archiving_archives(store: Store, at: object, *, archived: bool) -> None:
    store.put(session(ID, CWD, "CI", NOW, archived_at=at))
    assert store.row(ID).archived is archived


def test_a_session_that_is_gone_is_not_there_to_be_resumed(store: Store) -> None:
    path = store.put(session(ID, CWD, "CI", NOW), session(OTHER, CWD, "CD", NOW))
    row = store.row(ID)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM sessions WHERE id = ?", (ID,))
    assert list(store.rows()) == [OTHER]
    assert not store.app.present(row)
    os.unlink(path)
    assert (store.row(OTHER).hidden, store.row(OTHER).title) == ("deleted", "CD")
    assert not store.app.present(row)


# Whatever is in it


ODD = [None, 7, -1, 1e300, "", "\0", "x" * 5000, b"\xff\xfe", "{", "[]", "[1]", '[{"type":{}}]', "\x1b[31m"]


def test_a_column_may_hold_anything(store: Store) -> None:
    odd = [{column: value} for column in session(ID, CWD, "CI", NOW).keys() - {"id"} for value in ODD]
    rows = [session(f"20260820_{number}", CWD, "CI", NOW) | change for number, change in enumerate(odd)]
    store.put(
        *rows, *(session(ID, CWD, "x", NOW) | {"id": other} for other in ("", "-rf", "a b", None, 7, b"x", "x" * 200))
    )
    assert set(store.rows()) == {row["id"] for row in rows}
    json.dumps([scan.facts for _, scan in store.scans.values()])


def test_a_message_may_hold_anything(store: Store) -> None:
    odd = [{column: value} for column in ("content_json", "metadata_json", "role") for value in ODD]
    words = [message(ID, "hi", number) | change for number, change in enumerate(odd)]
    store.put(session(ID, CWD, "", NOW), messages=words)
    assert store.row(ID).title == "hi"
    assert store.problems == {}


@pytest.mark.parametrize("table", [{"sessions": [{"id": ID}], "messages": [{"id": 1}]}, {"other": [{"id": ID}]}])
def test_a_database_of_other_tables_is_no_problem(store: Store, table: dict[str, list[Row]]) -> None:
    tables.write(store.root / "sessions/sessions.db", table)
    assert all(row.hidden == "empty" for row in store.rows().values())
    assert store.problems == {}


@pytest.mark.parametrize(
    "content", ["", "[]", "{", "\0" * 50, '"x"\n', '{"working_dir":7,"description":[]}', '{"role":1}']
)
def test_a_file_may_hold_anything(store: Store, content: str) -> None:
    path = file(str(store.root), OLD, CWD, "CI", [], NOW)
    with open(path, "w", encoding="utf-8") as target:
        target.write(content)
    row = store.row(OLD)
    assert (row.title, row.cwd, row.hidden, row.updated) == ("", None, "empty", row.mtime)
    assert store.app.prompts(row) == (None, None)


def test_a_broken_database_costs_no_row(store: Store) -> None:
    path = store.put(session(ID, CWD, "CI", NOW))
    assert store.row(ID).title == "CI"
    with open(path, "r+b") as target:
        target.write(b"no database" * 20)
    assert store.row(ID).title == "CI"
    assert "sessions.db" in store.problems


def test_what_an_owner_has_committed_is_seen_while_it_goes_on(store: Store) -> None:
    path = store.put(session(ID, CWD, "CI", NOW))
    assert store.row(ID).title == "CI"
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("PRAGMA wal_autocheckpoint = 0")
        size = os.path.getsize(path)
        owner.execute("UPDATE sessions SET name = 'CI is red'")
        assert os.path.getsize(path) == size
        assert store.row(ID).title == "CI is red"
        owner.execute("BEGIN IMMEDIATE")
        owner.execute("DELETE FROM sessions")
        before = sorted(os.listdir(store.root / "sessions"))
        assert store.row(ID).title == "CI is red"
        assert store.app.present(store.row(ID))
        assert sorted(os.listdir(store.root / "sessions")) == before


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.local/share/goose"]),
        ({"HOME": "/home/ana", "XDG_DATA_HOME": "/data/"}, ["/data/goose"]),
        ({"HOME": "/h", "XDG_DATA_HOME": "data"}, ["/h/.local/share/goose"]),
        ({"HOME": "/h", "GOOSE_PATH_ROOT": "/g/"}, ["/g/data", "/h/.local/share/goose"]),
        ({"HOME": "/h", "GOOSE_PATH_ROOT": "g"}, ["/h/.local/share/goose"]),
        ({}, ["/.local/share/goose"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert Goose().roots(env) == roots


def test_a_store_is_named_by_the_folder_that_holds_it() -> None:
    assert Goose().environment("/g/data") == {"GOOSE_PATH_ROOT": "/g"}
    assert Goose().environment("/data/goose") == {"XDG_DATA_HOME": "/data"}


def test_the_folder_in_which_sessions_come_and_go_is_watched() -> None:
    assert Goose().watches("/d/goose") == [Watch("/d/goose/sessions", 0)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("sessions/sessions.db", "database"),
        ("sessions/sessions.db-wal", "database"),
        (f"sessions/{OLD}.jsonl", "file"),
        ("sessions/my-project.jsonl", "file"),
        ("sessions/sessions.db-shm", None),
        ("sessions/sessions.db.bak", None),
        ("sessions/.x.jsonl", None),
        ("sessions/../x.jsonl", None),
        ("schedule.json", None),
        ("projects.json", None),
        ("sessions/backups/sessions.db", None),
    ],
)
def test_only_the_files_of_sessions_are_units(path: str, kind: str | None) -> None:
    unit = Goose().unit("/d/goose", f"/d/goose/{path}")
    assert (unit.kind if unit else None) == kind


@pytest.mark.parametrize(("fork", "more"), [(False, []), (True, ["--fork"])])
def test_a_session_is_resumed_by_its_id(store: Store, more: list[str], *, fork: bool) -> None:
    store.put(session(ID, CWD, "CI", NOW))
    argv = store.app.launch(store.row(ID), Settings(model="gpt-6"), fork=fork, folder="/else")
    assert argv == ["goose", "session", "--resume", "--session-id", ID, *more]
