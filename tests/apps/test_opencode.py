"""The sessions of OpenCode: those of its database, and those of the files it had before."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents import tables
from fixtures.agents.opencode import Row, file, message, session, turn
from sessiond.apps.base import Watch
from sessiond.apps.opencode import OpenCode
from sessiond.session import Settings
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "ses_21f0aa9c7ffeVqT3mZk1XyRbPd"
OTHER = "ses_eed07b19affeqL6wrtBlxM40fP"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_088
PLACEHOLDER = "New session - 2026-11-30T23:00:01.220Z"
HOME = "/srv/ana/home/machine1/home-opencode"


class Store(Reader):
    """A data folder of OpenCode to put sessions into."""

    def __init__(self, root: Path, env: dict[str, str] | None = None) -> None:
        super().__init__(OpenCode(env or {}), root)

    def put(self, *rows: Row, name: str = "opencode.db", **more: list[Row]) -> str:
        (self.root / name).unlink(missing_ok=True)
        return tables.write(self.root / name, {"session": list(rows), **more} if rows else more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    root = tmp_path / "opencode"
    root.mkdir()
    return Store(root)


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    updated: int
    title: str = "Auto title rounding fix"
    cwd: str = "src/shop"
    hidden: str | None = None
    archived: bool = False
    model: str | None = "fake-model"


RECORDED = [
    Seen("ses_dd162b4eaffejlCqY67x0S2Uyd", 1796078395088),
    Seen("ses_dd1628cdaffezDDR2FL5UDwUNp", 1796078405318, "Fix cart rounding", archived=True),
    Seen("ses_dd1626f59ffeJ6dkyQk2dAFuxE", 1796078411607),
    Seen("ses_dd16253b1ffeMAOKPCc5IB13qD", 1796078420764, cwd="src/other"),
    Seen("ses_dd1622b69ffeiJLuPrtBYb3Vkp", 1796078432292, cwd="src/gone"),
    Seen("ses_dd161fddeffesTeu6IvAKoyB5e", 1796078439322, cwd="nogit"),
    Seen("ses_dd1618f22ffeg9DbfWQfLtLVNa", 1796078482901),
    Seen("ses_dd1615f17ffeymYjXOw15j97oF", 1796078479984, "look at tests (@general subagent)", hidden="subagent"),
    Seen("ses_dd161379fffeJVQ87y8V2Xpzwj", 1796078912142, cwd="src/gone"),
    Seen("ses_dd160cca7ffeQb2Q1LydKJRTkU", 1796078905935, "Renamed in TUI: é 'x'"),
    Seen("ses_dd15039bcffexPEc5t42L10Kz3", 1796079601220, "", hidden="empty", model=None),
    Seen("ses_dd1502e61ffeRcYMN0CVcabQrC", 1796079607211, "Renamed in TUI: é 'x' (fork #1)"),
]


def test_a_recorded_database_gives_every_session(unpack: Callable[[str], Path]) -> None:
    """That of 1.18.33, of whose rows all but a page are in the log."""
    reader = Store(unpack("others/opencode-1.18.33") / ".local/share/opencode")
    rows = reader.rows()
    assert set(rows) == {row.id for row in RECORDED}
    for want in RECORDED:
        row = rows[want.id]
        found = Seen(row.id, row.updated, row.title, row.cwd or "", row.hidden, row.archived, row.model)
        assert found == want._replace(cwd=f"{HOME}/{want.cwd}")
        assert (row.launch_dir, row.branch, row.live) == (row.cwd, None, None)
        assert row.created
        assert row.created <= row.updated
    tui = rows["ses_dd160cca7ffeQb2Q1LydKJRTkU"]
    assert reader.app.prompts(tui) == ("interactive prompt in tui", '"from own dir"')
    assert not reader.problems


def test_recorded_files_give_every_session(unpack: Callable[[str], Path]) -> None:
    """Those of 1.1.11, which had no database."""
    reader = Store(unpack("others/opencode-1.1.11") / ".local/share/opencode")
    rows = reader.rows()
    assert {(row.id, row.title, row.updated, row.hidden) for row in rows.values()} == {
        ("ses_dd01fb4e9ffeklMViooL1AWXfF", "Done", 1796099558399, None),
        ("ses_dd01fb085ffeECfeXHaP94s0OH", "Fix cart rounding", 1796099560963, None),
    }
    row = rows["ses_dd01fb085ffeECfeXHaP94s0OH"]
    assert row.cwd == row.launch_dir == "/srv/ana/home/machine1/home-opencode-1.1/src/shop"
    assert reader.app.prompts(row) == ('"round half even"\n', '"and test it"\n')
    assert reader.app.present(row)


# Titles


@pytest.mark.parametrize("title", [PLACEHOLDER, PLACEHOLDER + " (fork #2)", "", None, "  "])
def test_a_placeholder_gives_way_to_the_first_prompt(store: Store, title: str | None) -> None:
    rows = [turn(ID, "see the file", NOW, synthetic=True), turn(ID, "why is\nCI red?", NOW + 1), turn(ID, "2", NOW + 2)]
    store.put(session(ID, CWD, title, NOW), message=[row for row, _ in rows], part=[part for _, part in rows])
    assert store.row(ID).title == "why is CI red?"
    assert store.app.prompts(store.row(ID)) == ("why is\nCI red?", "2")


def test_a_prompt_once_found_stays_when_its_message_is_gone(store: Store) -> None:
    """Migrations have emptied tables of messages."""
    message, part = turn(ID, "why is CI red?", NOW)
    path = store.put(session(ID, CWD, PLACEHOLDER, NOW), message=[message], part=[part])
    assert store.row(ID).title == "why is CI red?"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM message")
    assert store.row(ID).title == "why is CI red?"


def test_a_placeholder_of_a_file_gives_way_to_the_first_prompt(store: Store) -> None:
    file(str(store.root), ID, CWD, PLACEHOLDER, NOW)
    message(str(store.root), ID, "the file", NOW, synthetic=True)
    message(str(store.root), ID, "why is CI red?", NOW + 1)
    message(str(store.root), ID, "and now?", NOW + 2)
    row = store.row(ID)
    assert (row.title, row.hidden) == ("why is CI red?", None)
    assert store.app.prompts(row) == ("why is CI red?", "and now?")


# Generations and copies


@pytest.mark.parametrize(("old", "new", "title"), [(NOW, NOW, "new"), (NOW, NOW + 1, "new"), (NOW + 1, NOW, "old")])
def test_of_two_generations_of_a_row_the_later_counts(store: Store, old: int, new: int, title: str) -> None:
    """OpenCode 2 leaves the old row behind; after a downgrade only that one goes on."""
    store.put(session(ID, CWD, "old", old), session_v2=[session(ID, CWD, "new", new)])
    assert store.row(ID).title == title


def test_a_database_of_opencode_2_alone_is_read(store: Store) -> None:
    store.put(session_v2=[{"id": ID, "directory": CWD, "title": "CI", "time_created": NOW, "time_updated": NOW + 5}])
    row = store.row(ID)
    assert (row.title, row.cwd, row.created, row.updated, row.model) == ("CI", CWD, NOW, NOW + 5, None)


def test_a_row_without_a_folder_has_that_of_its_project(store: Store) -> None:
    old = {"id": ID, "project_id": "p", "title": "CI", "time_updated": NOW}
    everywhere = {"id": OTHER, "project_id": "global", "title": "CI", "time_updated": NOW}
    store.put(old, everywhere, project=[{"id": "p", "worktree": CWD}, {"id": "global", "worktree": "/"}])
    assert (store.row(ID).cwd, store.row(OTHER).cwd) == (CWD, None)


def test_of_two_channels_that_have_a_session_the_later_counts(store: Store) -> None:
    store.put(session(ID, CWD, "old", NOW))
    path = store.put(session(ID, CWD, "new", NOW + 1), name="opencode-next.db")
    assert (store.row(ID).title, store.row(ID).path) == ("new", path)
    os.unlink(path)
    assert store.row(ID).title == "old"


def test_the_database_counts_more_than_a_file(store: Store) -> None:
    file(str(store.root), ID, CWD, "file", NOW + 5)
    path = store.put(session(ID, CWD, "row", NOW))
    assert (store.row(ID).title, store.row(ID).path, store.row(ID).hidden) == ("row", path, None)


def test_a_file_cannot_be_resumed_once_there_is_a_database(store: Store) -> None:
    """1.18.33 makes an empty one, imports nothing, and says "Session not found"."""
    file(str(store.root), ID, CWD, "Webhooks", NOW)
    row = store.row(ID)
    assert (row.hidden, store.app.present(row)) == (None, True)
    store.put(session(OTHER, CWD, "CI", NOW))
    assert not store.app.present(row)
    assert store.row(ID).hidden == "not-resumable"


def test_a_session_of_the_first_releases_is_listed_but_not_resumed(store: Store) -> None:
    path = store.root / "project/home-ana-shop/storage/session/info" / f"{ID}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"id": ID, "title": "Webhooks", "time": {"created": NOW, "updated": NOW}}))
    row = store.row(ID)
    assert (row.title, row.cwd, row.updated, row.hidden) == ("Webhooks", None, NOW, "not-resumable")


# What is hidden


@pytest.mark.parametrize(
    ("more", "hidden"),
    [
        ({}, None),
        ({"parent_id": OTHER}, "subagent"),
        ({"parent_id": ""}, None),
        ({"title": PLACEHOLDER, "model": None}, "empty"),
        ({"title": PLACEHOLDER}, None),
        ({"title": PLACEHOLDER, "parent_id": OTHER, "model": None}, "subagent"),
    ],
)
def test_what_is_not_for_people_is_hidden(store: Store, more: dict[str, Any], hidden: str | None) -> None:
    """One with a model was used, though its messages are gone."""
    store.put(session(ID, CWD, "CI", NOW) | more)
    assert store.row(ID).hidden == hidden


@pytest.mark.parametrize(("at", "archived"), [(None, False), (0, False), (NOW, True), ("soon", False)])
def test_a_time_of_archiving_archives(store: Store, at: object, *, archived: bool) -> None:
    store.put(session(ID, CWD, "CI", NOW, time_archived=at))
    assert store.row(ID).archived is archived


def test_a_session_whose_database_is_gone_is_deleted(store: Store) -> None:
    path = store.put(session(ID, CWD, "CI", NOW))
    row = store.row(ID)
    assert store.app.present(row)
    os.unlink(path)
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "CI")
    assert not store.app.present(row)


def test_a_session_that_opencode_deleted_is_gone(store: Store) -> None:
    path = store.put(session(ID, CWD, "CI", NOW), session(OTHER, CWD, "CD", NOW))
    row = store.row(ID)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM session WHERE id = ?", (ID,))
    assert list(store.rows()) == [OTHER]
    assert not store.app.present(row)


# Whatever is in it


ODD = [None, 7, -1, 1.5, 1e300, "", "\0", "x" * 5000, b"\xff\xfe", "{", "[]", '{"id":{}}', '{"id":"-rf"}', "\x1b[31m"]


@pytest.mark.parametrize("column", sorted(session(ID, CWD, "CI", NOW).keys() - {"id"}))
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_column_may_hold_anything(store: Store, column: str, value: object) -> None:
    store.put(session(ID, CWD, "CI", NOW) | {column: value}, session(OTHER, CWD, "CD", NOW))
    rows = store.rows()
    assert set(rows) == {ID, OTHER}
    assert rows[OTHER].title == "CD"
    for text in (rows[ID].cwd, rows[ID].model):
        assert text is None or isinstance(text, str)
    json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("column", ["data", "time_created", "message_id", "type"])
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_message_may_hold_anything(store: Store, column: str, value: object) -> None:
    message, part = turn(ID, "hi", NOW)
    v2 = {"id": "msg_1", "session_id": OTHER, "type": "user", "seq": 1, "data": '{"text":"hello"}'}
    rows = session(ID, CWD, PLACEHOLDER, NOW), session(OTHER, CWD, PLACEHOLDER, NOW)
    change = {column: value}
    store.put(*rows, message=[message | change], part=[part | change], session_message=[v2 | change])
    assert set(store.rows()) == {ID, OTHER}
    for row in store.rows().values():
        assert all(words is None or words for words in store.app.prompts(row))


@pytest.mark.parametrize("id", ["", "x", "ses_", "ses_a b", "-rf", "ses_" + "x" * 200, None, 7, b"ses_ab"])
def test_a_row_without_an_id_of_opencode_is_none(store: Store, id: object) -> None:
    store.put(session(ID, CWD, "CI", NOW) | {"id": id}, session(OTHER, CWD, "CD", NOW))
    assert list(store.rows()) == [OTHER]


@pytest.mark.parametrize("key", ["title", "directory", "parentID", "time", "id"])
@pytest.mark.parametrize(
    "value", [None, 7, [], {}, {"a": []}, "", "\ud800", 10**400, True], ids=lambda value: repr(value)[:12]
)
def test_a_file_may_hold_anything(store: Store, key: str, value: object) -> None:
    file(str(store.root), ID, CWD, "CI", NOW, {key: value})
    row = store.row(ID)
    assert row.id == ID
    assert row.updated == (NOW if key != "time" else row.mtime)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\0" * 50, b'"x"'])
def test_a_file_that_is_no_session_is_none(store: Store, content: bytes) -> None:
    path = file(str(store.root), ID, CWD, "CI", NOW)
    with open(path, "wb") as target:
        target.write(content)
    assert store.rows() == {}


def test_a_file_met_half_written_keeps_its_session(store: Store) -> None:
    path = file(str(store.root), ID, CWD, "CI", NOW)
    assert store.row(ID).title == "CI"
    os.truncate(path, 40)
    assert store.row(ID).title == "CI"
    file(str(store.root), ID, CWD, "CI is red", NOW)
    assert store.row(ID).title == "CI is red"


def test_a_database_without_tables_has_no_session(store: Store) -> None:
    store.put(account=[{"id": 1}])
    assert store.rows() == {}
    assert store.problems == {}


# While it is written


def test_what_an_owner_has_committed_is_seen_while_it_goes_on(store: Store) -> None:
    """Nothing of it is in the database itself yet, and an open transaction hides nothing."""
    path = store.put(session(ID, CWD, "CI", NOW))
    assert store.row(ID).title == "CI"
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("PRAGMA wal_autocheckpoint = 0")
        size = os.path.getsize(path)
        owner.execute("UPDATE session SET title = 'CI is red'")
        assert os.path.getsize(path) == size
        assert store.row(ID).title == "CI is red"
        owner.execute("BEGIN IMMEDIATE")
        owner.execute("DELETE FROM session")
        before = sorted(os.listdir(store.root))
        assert store.row(ID).title == "CI is red"
        assert store.app.present(store.row(ID))
        assert sorted(os.listdir(store.root)) == before
    assert store.problems == {}


def test_a_broken_database_costs_no_row(store: Store) -> None:
    path = store.put(session(ID, CWD, "CI", NOW))
    assert store.row(ID).title == "CI"
    with open(path, "r+b") as file:
        file.write(b"no database" * 20)
    assert store.row(ID).title == "CI"
    assert "opencode.db" in store.problems


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.local/share/opencode"]),
        ({"HOME": "/home/ana", "XDG_DATA_HOME": "/data/"}, ["/data/opencode"]),
        ({"HOME": "/home/ana", "XDG_DATA_HOME": "data"}, ["/home/ana/.local/share/opencode"]),
        ({"HOME": "/h", "OPENCODE_DB": "/db/work.db"}, ["/db", "/h/.local/share/opencode"]),
        ({"HOME": "/h", "OPENCODE_DB": "work.db"}, ["/h/.local/share/opencode"]),
        ({"HOME": "/h", "OPENCODE_DB": ":memory:"}, ["/h/.local/share/opencode"]),
        ({}, ["/.local/share/opencode"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert OpenCode(env).roots(env) == roots


@pytest.mark.parametrize("chosen", ["work.db", "{root}/work.db"])
def test_a_database_that_the_environment_chooses_is_read(store: Store, chosen: str) -> None:
    store.put(session(ID, CWD, "CI", NOW), name="work.db")
    assert store.rows() == {}
    env = {"OPENCODE_DB": chosen.format(root=store.root)}
    assert Store(store.root, env).row(ID).title == "CI"


def test_a_store_is_named_by_the_folder_that_holds_it_or_by_its_database() -> None:
    assert OpenCode({}).environment("/data/opencode") == {"XDG_DATA_HOME": "/data"}
    assert OpenCode({}).environment("/db") == {"OPENCODE_DB": "/db/opencode.db"}
    assert OpenCode({"OPENCODE_DB": "/db/work.db"}).environment("/db") == {"OPENCODE_DB": "/db/work.db"}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    watches = OpenCode({}).watches("/d/opencode")
    assert watches == [
        Watch("/d/opencode", 0),
        Watch("/d/opencode/storage/session", 1),
        Watch("/d/opencode/project", 4),
    ]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("opencode.db", "database"),
        ("opencode.db-wal", "database"),
        ("opencode-next.db", "database"),
        (f"storage/session/9f2c/{ID}.json", "session"),
        (f"project/home-ana/storage/session/info/{ID}.json", "info"),
        ("opencode.db-shm", None),
        ("opencode.db.bak", None),
        ("auth.json", None),
        ("mcp-auth.json", None),
        ("other.db", None),
        ("log/opencode.db", None),
        ("storage/migration", None),
        (f"storage/session/{ID}.json", None),
        (f"storage/session/../{ID}.json", None),
        (f"storage/session/9f2c/x/{ID}.json", None),
        ("storage/session/9f2c/settings.json", None),
        (f"storage/session_diff/{ID}.json", None),
        (f"storage/message/{ID}/msg_1.json", None),
        ("storage/part/msg_1/prt_1.json", None),
        ("storage/project/9f2c.json", None),
        (f"snapshot/{ID}.json", None),
    ],
)
def test_only_the_files_of_sessions_are_units(path: str, kind: str | None) -> None:
    unit = OpenCode({}).unit("/d/opencode", f"/d/opencode/{path}")
    assert (unit.kind if unit else None) == kind
    assert OpenCode({}).unit("/other", f"/d/opencode/{path}") is None


@pytest.mark.parametrize(("fork", "more"), [(False, []), (True, ["--fork"])])
def test_a_session_is_resumed_by_its_id(store: Store, more: list[str], *, fork: bool) -> None:
    """Model and folder are left to OpenCode, which knows both."""
    store.put(session(ID, CWD, "CI", NOW))
    argv = store.app.launch(store.row(ID), Settings(model="gpt-6"), fork=fork, folder="/else")
    assert argv == ["opencode", "--session", ID, *more]
