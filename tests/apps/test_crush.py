"""The sessions of Crush, of which each project has a database of its own."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.agents import tables
from fixtures.agents.crush import Row, database, message, projects, session
from sessiond.apps.base import Watch
from sessiond.apps.crush import Crush
from sessiond.session import Settings
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

ID = "6f1c0001-9a0b-4c56-8d21-0c5f7a9e1b42"
OTHER = "6f1c0002-9a0b-4c56-8d21-0c5f7a9e1b42"
NOW = 1_796_078_395


class Store(Reader):
    """A home with a project of Crush to put sessions into."""

    def __init__(self, home: Path) -> None:
        super().__init__(Crush(), home / "crush")
        self.project = str(home / "shop")
        self.data = f"{self.project}/.crush"
        projects(str(self.root), (self.project, self.data))

    def put(self, *rows: Row, messages: list[Row] | None = None, data: str = "") -> str:
        if os.path.exists(path := f"{data or self.data}/crush.db"):
            os.unlink(path)
        return database(data or self.data, list(rows), messages)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_a_session_has_the_folder_of_its_project(store: Store) -> None:
    words = [message(ID, "hi"), message(ID, "Hello", "assistant"), message(ID, "bye")]
    path = store.put(session(ID, "Cart", NOW), messages=words)
    row = store.row(ID)
    assert (row.title, row.cwd, row.launch_dir, row.path) == ("Cart", store.project, store.project, path)
    assert (row.created, row.updated, row.model) == ((NOW - 60) * 1000, NOW * 1000, "claude-sonnet-5")
    assert (row.hidden, row.branch, row.live) == (None, None, None)
    assert store.app.prompts(row) == ("hi", "bye")
    assert store.app.present(row)


def test_a_time_in_ms_is_one_too(store: Store) -> None:
    """The schema says ms, what writes it says s."""
    store.put(session(ID, "Cart", NOW, updated_at=NOW * 1000 + 5))
    assert store.row(ID).updated == NOW * 1000 + 5


@pytest.mark.parametrize("name", ["Untitled Session", "New Session", "", None])
def test_a_placeholder_gives_way_to_the_first_prompt(store: Store, name: str | None) -> None:
    unseen = message(ID, "", parts='[{"type":"text","data":{"text":"<env>","hidden":true}}]')
    words = [unseen, message(ID, "Hello", "assistant"), message(ID, "why is\nCI red?"), message(ID, "2")]
    store.put(session(ID, "", NOW) | {"title": name}, messages=words)
    row = store.row(ID)
    assert (row.title, row.hidden) == ("why is CI red?", None)
    assert store.app.prompts(row) == ("why is\nCI red?", "2")


# Projects


def test_a_project_that_is_listed_later_is_found(store: Store, tmp_path: Path) -> None:
    """The list changes at every start of Crush; whoever hears of that looks at the databases."""
    store.put(session(ID, "Cart", NOW))
    assert list(store.rows()) == [ID]
    later = str(tmp_path / "later")
    path = store.put(session(OTHER, "CI", NOW), data=f"{later}/.crush")
    assert store.app.unit(str(store.root), path) is None
    listed = projects(str(store.root), (store.project, store.data), (later, f"{later}/.crush"))
    unit = store.app.unit(str(store.root), listed)
    assert unit
    assert path in store.app.companions(unit)
    assert store.app.unit(str(store.root), path)
    assert store.row(OTHER).cwd == later


def test_a_data_folder_elsewhere_belongs_to_the_project_that_used_it_last(store: Store, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    projects(str(store.root), ("/b", data), ("/a", data), ("/c", "sub/../.data"))
    store.put(session(ID, "Cart", NOW), data=data)
    row = store.row(ID)
    assert row.cwd == "/b"
    assert store.app.watches(str(store.root))[1:] == [Watch("/c/.data", 0), Watch(data, 0)]


def test_a_project_below_another_that_shares_its_sessions_adds_none(store: Store) -> None:
    """Crush takes the closest ``.crush`` above; the sessions do not say where they began."""
    projects(str(store.root), (f"{store.project}/api", store.data), (store.project, store.data))
    store.put(session(ID, "Cart", NOW))
    assert store.row(ID).cwd == store.project
    assert len(store.scans) == 2


@pytest.mark.parametrize("name", ["a copy", "the copy"])
def test_of_two_copies_of_a_project_the_one_used_last_counts(store: Store, tmp_path: Path, name: str) -> None:
    copy = str(tmp_path / name)
    projects(str(store.root), (store.project, store.data), (copy, f"{copy}/.crush"))
    store.put(session(ID, "old", NOW))
    path = store.put(session(ID, "new", NOW + 1), data=f"{copy}/.crush")
    assert (store.row(ID).title, store.row(ID).cwd) == ("new", copy)
    os.unlink(path)
    assert store.row(ID).title == "old"


def test_a_list_met_half_written_loses_no_project(store: Store) -> None:
    path = store.put(session(ID, "Cart", NOW))
    assert store.row(ID).title == "Cart"
    os.truncate(store.root / "projects.json", 20)
    store.put(session(ID, "Cart rounding", NOW + 1))
    assert store.row(ID).title == "Cart rounding"
    assert store.app.unit(str(store.root), path)


# What is hidden


@pytest.mark.parametrize(
    ("more", "hidden"),
    [
        ({}, None),
        ({"parent_session_id": OTHER}, "subagent"),
        ({"parent_session_id": ""}, None),
        ({"title": "New Session"}, "empty"),
        ({"message_count": 0}, "empty"),
        ({"message_count": None}, None),
    ],
)
def test_what_is_not_for_people_is_hidden(store: Store, more: dict[str, Any], hidden: str | None) -> None:
    store.put(session(ID, "CI", NOW) | more)
    assert store.row(ID).hidden == hidden


def test_a_session_that_is_gone_is_not_there_to_be_resumed(store: Store) -> None:
    path = store.put(session(ID, "CI", NOW), session(OTHER, "CD", NOW))
    row = store.row(ID)
    with closing(sqlite3.connect(path)) as owner, owner:
        owner.execute("DELETE FROM sessions WHERE id = ?", (ID,))
    assert list(store.rows()) == [OTHER]
    assert not store.app.present(row)
    os.unlink(path)
    assert (store.row(OTHER).hidden, store.row(OTHER).title) == ("deleted", "CD")
    assert not store.app.present(row)


# Whatever is in it


ODD = [None, 7, -1, 1e300, "", "\0", "x" * 5000, b"\xff\xfe", "{", "[]", "[1]", '[{"type":{}}]', "\x1b[31m"]


def test_a_column_may_hold_anything(store: Store) -> None:
    odd = [{column: value} for column in session(ID, "CI", NOW).keys() - {"id"} for value in ODD]
    rows = [session(f"s{number}", "CI", NOW) | change for number, change in enumerate(odd)]
    strange = ["", "-rf", "a b", "m$$call", None, 7, b"x", "x" * 200]
    store.put(*rows, *(session(ID, "x", NOW) | {"id": one} for one in strange))
    assert set(store.rows()) == {row["id"] for row in rows}
    json.dumps([scan.facts for _, scan in store.scans.values()])


def test_a_message_may_hold_anything(store: Store) -> None:
    odd = [{column: value} for column in ("parts", "role") for value in ODD]
    words = [message(ID, "hi") | change for change in odd]
    words += [message(ID, "x", "assistant", model=value) for value in ODD] + [message(ID, "hi")]
    store.put(session(ID, "", NOW), messages=words)
    assert store.row(ID).title == "hi"
    assert store.problems == {}
    json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("table", [{"sessions": [{"id": ID}], "messages": [{"id": 1}]}, {"other": [{"id": ID}]}])
def test_a_database_of_other_tables_is_no_problem(store: Store, table: dict[str, list[Row]]) -> None:
    tables.write(f"{store.data}/crush.db", table)
    assert all(row.hidden == "empty" for row in store.rows().values())
    assert store.problems == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"projects":7}',
        '{"projects":[7,{},{"path":[]},{"path":"/a","data_dir":7},{"path":"a","data_dir":"b"}]}',
    ],
)
def test_a_list_may_hold_anything(store: Store, content: str) -> None:
    (store.root / "projects.json").write_text(content)
    assert store.rows() == {}
    assert store.app.watches(str(store.root)) == [Watch(str(store.root), 0)]


def test_a_broken_database_costs_no_row(store: Store) -> None:
    path = store.put(session(ID, "CI", NOW))
    assert store.row(ID).title == "CI"
    with open(path, "r+b") as target:
        target.write(b"no database" * 20)
    assert store.row(ID).title == "CI"
    assert "crush.db" in store.problems


def test_what_an_owner_has_committed_is_seen_while_it_goes_on(store: Store) -> None:
    path = store.put(session(ID, "CI", NOW))
    assert store.row(ID).title == "CI"
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("PRAGMA wal_autocheckpoint = 0")
        size = os.path.getsize(path)
        owner.execute("UPDATE sessions SET title = 'CI is red'")
        assert os.path.getsize(path) == size
        assert store.row(ID).title == "CI is red"
        owner.execute("BEGIN IMMEDIATE")
        owner.execute("DELETE FROM sessions")
        before = sorted(os.listdir(store.data))
        assert store.row(ID).title == "CI is red"
        assert sorted(os.listdir(store.data)) == before


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.local/share/crush"]),
        ({"HOME": "/home/ana", "XDG_DATA_HOME": "/data/"}, ["/data/crush"]),
        ({"HOME": "/h", "CRUSH_GLOBAL_DATA": "/g/"}, ["/g", "/h/.local/share/crush"]),
        ({"HOME": "/h", "CRUSH_GLOBAL_DATA": "g"}, ["/h/.local/share/crush"]),
        ({}, ["/.local/share/crush"]),
    ],
)
def test_the_environment_says_where_the_list_is(env: dict[str, str], roots: list[str]) -> None:
    assert Crush().roots(env) == roots
    assert Crush().environment("/g") == {"CRUSH_GLOBAL_DATA": "/g"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("{root}/projects.json", "projects"),
        ("{data}/crush.db", "database"),
        ("{data}/crush.db-wal", "database"),
        ("{data}/crush.db-shm", None),
        ("{data}/crush.json", None),
        ("{data}/logs/crush.log", None),
        ("{root}/crush.json", None),
        ("{root}/crush.db", None),
        ("/elsewhere/.crush/crush.db", None),
    ],
)
def test_only_the_databases_of_listed_projects_are_units(store: Store, path: str, kind: str | None) -> None:
    store.put(session(ID, "CI", NOW))
    store.refresh()
    unit = store.app.unit(str(store.root), path.format(root=store.root, data=store.data))
    assert (unit.kind if unit else None) == kind


def test_a_database_that_is_a_link_is_no_unit(store: Store, tmp_path: Path) -> None:
    target = store.put(session(ID, "CI", NOW), data=str(tmp_path / "real"))
    os.makedirs(store.data)
    os.symlink(target, f"{store.data}/crush.db")
    assert store.rows() == {}


@pytest.mark.parametrize(("folder", "usual"), [(None, True), ("/else", False)])
def test_a_session_is_resumed_by_its_id(store: Store, folder: str | None, *, usual: bool) -> None:
    """In another folder Crush would look into another database."""
    store.put(session(ID, "CI", NOW))
    argv = store.app.launch(store.row(ID), Settings(model="gpt-6"), fork=False, folder=folder)
    assert argv == ["crush", *([] if usual else ["--data-dir", store.data]), "--session", ID]


def test_a_session_of_another_data_folder_is_resumed_with_it(store: Store, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    projects(str(store.root), (store.project, data))
    store.put(session(ID, "CI", NOW), data=data)
    argv = store.app.launch(store.row(ID), Settings(), fork=False, folder=None)
    assert argv == ["crush", "--data-dir", data, "--session", ID]
