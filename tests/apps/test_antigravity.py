"""The conversations of Antigravity CLI: their own databases, the summaries over them, and encrypted ones."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.agents import tables
from fixtures.agents.antigravity import conversation, message, step, summary, time, workspace
from sessiond.apps.antigravity import Antigravity
from sessiond.apps.base import Watch
from sessiond.session import Settings
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

ID = "a8c6f0d2-5b7e-4e1f-8f0a-2d3c4b5a6978"
OTHER = "07439cf3-1111-4222-8333-444455556666"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_088


class Store(Reader):
    """A folder of Antigravity CLI to put conversations into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Antigravity(), root)

    def put(self, *prompts: str, about: tuple[tuple[int, Any], ...] = (workspace(CWD),)) -> str:
        steps = [step(index, NOW + index, prompt) for index, prompt in enumerate(prompts)]
        (self.root / f"conversations/{ID}.db").unlink(missing_ok=True)
        return conversation(str(self.root), ID, steps, *about)

    def seal(self) -> None:
        (self.root / "conversations").mkdir(exist_ok=True)
        (self.root / f"conversations/{ID}.pb").write_bytes(b"\x8f\x00sealed")

    def sum_up(self, *rows: dict[str, Any]) -> str:
        path = self.root / "conversation_summaries.db"
        path.unlink(missing_ok=True)
        return tables.write(path, {"conversation_summaries": list(rows)})

    def last_of(self, folders: object) -> None:
        (self.root / "cache").mkdir(exist_ok=True)
        (self.root / "cache/last_conversations.json").write_text(json.dumps(folders))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    root = tmp_path / "antigravity-cli"
    root.mkdir()
    return Store(root)


def test_a_conversation_tells_folder_branch_times_and_prompts(store: Store) -> None:
    path = store.put("off by a cent", "and test it", about=(workspace(CWD, "fix/rounding"), (2, time(NOW - 9))))
    row = store.row(ID)
    assert (row.title, row.cwd, row.launch_dir, row.branch) == ("off by a cent", CWD, CWD, "fix/rounding")
    assert (row.created, row.updated, row.path, row.hidden) == (NOW - 9, NOW + 1, path, None)
    assert store.app.prompts(row) == ("off by a cent", "and test it")


@pytest.mark.parametrize(
    ("summed", "shown"),
    [
        ({"title": "Cart rounding", "preview": "off by"}, "Cart rounding"),
        ({"title": "", "preview": "off by"}, "off by"),
        ({"title": None, "preview": "<conversation>"}, "off by a cent"),
        ({"title": "", "preview": ""}, "off by a cent"),
    ],
)
def test_a_title_comes_from_the_summary_and_else_from_the_first_prompt(
    store: Store, summed: dict[str, Any], shown: str
) -> None:
    store.put("off by a cent")
    store.sum_up(summary(ID, "", "") | summed)
    assert store.row(ID).title == shown


def test_a_prompt_of_the_field_before_is_read_too(store: Store) -> None:
    conversation(str(store.root), ID, [step(0, NOW, "", 2), step(1, NOW, "off by a cent", 1)])
    assert store.row(ID).title == "off by a cent"


def test_a_conversation_that_is_not_summed_up_is_found(store: Store) -> None:
    """The summaries were seen to have one row for six conversations."""
    store.put("off by a cent")
    store.sum_up(summary(OTHER, "CI", ""))
    assert store.row(ID).hidden is None


def test_the_later_of_both_times_counts(store: Store) -> None:
    store.put("off by a cent")
    store.sum_up(summary(ID, "CI", "2026-12-03 16:43:44.002530482+00:00"))
    assert store.row(ID).updated == 1_796_316_224_002
    store.sum_up(summary(ID, "CI", "0001-01-01 00:00:00+00:00"))
    assert store.row(ID).updated == NOW


def test_a_folder_is_what_the_conversation_says_then_the_summary_then_the_last_of_it(store: Store) -> None:
    store.last_of({"/home/ana": ID, "relative": OTHER, "/x": 7})
    store.put("hi", about=())
    assert store.row(ID).cwd == "/home/ana"
    store.sum_up(summary(ID, "", "", "/home/ana/a%20b"))
    assert store.row(ID).cwd == "/home/ana/a b"
    store.put("hi", about=((7, "vscode-remote://h/x"), (7, f"file://{CWD}")))
    assert store.row(ID).cwd == CWD


def test_a_folder_is_kept_when_another_conversation_is_begun_in_it(store: Store) -> None:
    store.put("hi", about=())
    store.last_of({CWD: ID})
    assert store.row(ID).cwd == CWD
    store.last_of({CWD: OTHER})
    assert store.row(ID).cwd == CWD
    assert OTHER not in store.rows()


# Generations and copies


def test_an_encrypted_conversation_is_shown_as_it_is_summed_up(store: Store) -> None:
    store.seal()
    store.sum_up(summary(ID, "Old webhooks", "2026-07-31 12:13:20+00:00", CWD))
    row = store.row(ID)
    assert (row.title, row.cwd, row.updated, row.hidden) == ("Old webhooks", CWD, 1_785_500_000_000, None)
    assert row.path.endswith(".pb")
    assert store.app.prompts(row) == (None, None)
    assert store.app.present(row)


def test_the_database_counts_more_than_the_encrypted_copy_beside_it(store: Store) -> None:
    """``/fork`` leaves one."""
    store.seal()
    path = store.put("off by a cent")
    assert (store.row(ID).path, store.row(ID).title) == (path, "off by a cent")


# What is hidden


def test_what_is_not_for_people_is_hidden(store: Store) -> None:
    store.put("look", about=(workspace(CWD), (5, OTHER)))
    assert store.row(ID).hidden == "subagent"
    store.put("look")
    assert store.row(ID).hidden is None
    for more in ({"parent_conversation_id": OTHER}, {"nesting_depth": 1}):
        store.sum_up(summary(ID, "look", "", **more))
        assert store.row(ID).hidden == "subagent"
    store.sum_up(summary(ID, "", ""))
    store.put()
    assert store.row(ID).hidden == "empty"


def test_a_summary_without_a_conversation_is_one_of_a_deleted(store: Store) -> None:
    """1.2.7 would warn and begin a new conversation."""
    path = store.put("off by a cent")
    store.sum_up(summary(ID, "Cart", ""), summary(OTHER, "CI", ""))
    rows = store.rows()
    assert (rows[ID].hidden, store.app.present(rows[ID])) == (None, True)
    assert (rows[OTHER].hidden, store.app.present(rows[OTHER])) == ("deleted", False)
    os.unlink(path)
    row = store.row(ID)
    assert (row.hidden, row.title, row.cwd, row.path) == ("deleted", "Cart", CWD, path)
    assert not store.app.present(row)


# Whatever is in it

ODD = [
    *(None, 7, -1, 1e300, "", "\0", "x" * 5000, "[1]", '["file:///"]', '["http://x"]', "\x1b[31m"),
    *(b"\xff\xfe", b"\xff" * 40, b"\x0a\xff\xff\xff\x7f", b"\x08"),
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_column_may_hold_anything(store: Store, value: object) -> None:
    path = store.put("off by a cent")
    for table, column in (("steps", "metadata"), ("steps", "step_payload"), ("trajectory_metadata_blob", "data")):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"UPDATE {table} SET {column} = ?", (value,))
        row = store.row(ID)
        assert row.cwd in (CWD, None)
        json.dumps([scan.facts for _, scan in store.scans.values()])
        assert all(words is None or words for words in store.app.prompts(row))


def test_a_column_of_a_summary_may_hold_anything(store: Store) -> None:
    columns = sorted(summary(ID, "CI", "").keys() - {"conversation_id"})
    ids = [f"{ID[:-3]}{n:03}" for n in range(len(columns) * len(ODD))]
    odd = zip(ids, [{column: value} for column in columns for value in ODD], strict=True)
    store.sum_up(summary("-rf", "x", ""), *(summary(one, "CI", "") | change for one, change in odd))
    assert set(store.rows()) == set(ids)
    json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("cut", [0, 1, 2, 9, 20, 33, 50])
def test_a_message_may_end_anywhere(store: Store, cut: int) -> None:
    path = store.put("off by a cent")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE trajectory_metadata_blob SET data = substr(data, 1, ?)", (cut,))
        database.execute("UPDATE steps SET step_payload = substr(step_payload, 1, ?)", (cut,))
    assert "off by a cent".startswith(store.row(ID).title)


def test_a_message_of_endless_fields_ends(store: Store) -> None:
    store.put("off by a cent", about=tuple((3, 1) for _ in range(40_000)))
    assert store.row(ID).cwd is None


def test_a_database_without_tables_is_an_empty_conversation(store: Store) -> None:
    tables.write(store.root / f"conversations/{ID}.db", {"other": [{"id": 1}]})
    tables.write(store.root / "conversation_summaries.db", {"other": [{"id": 1}]})
    assert store.row(ID).hidden == "empty"


@pytest.mark.parametrize("content", [b"", b"no database" * 20])
def test_a_broken_database_is_shown_as_it_is_summed_up(store: Store, content: bytes) -> None:
    path = store.put("off by a cent")
    store.sum_up(summary(ID, "Cart", "", CWD))
    with open(path, "wb") as file:
        file.write(content)
    row = store.row(ID)
    assert (row.title, row.cwd, row.hidden) == ("Cart", CWD, None)
    assert [scan.problem for unit, (_, scan) in store.scans.items() if unit.kind == "conversation"] != [""]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a":1}'])
def test_a_file_of_folders_may_hold_anything(store: Store, content: str) -> None:
    store.put("hi", about=())
    store.last_of({CWD: ID})
    assert store.row(ID).cwd == CWD
    (store.root / "cache/last_conversations.json").write_text(content)
    assert store.row(ID).cwd == CWD


def test_what_an_owner_has_committed_is_seen_while_it_goes_on(store: Store) -> None:
    """Agy leaves what it wrote in the log, also when it exits."""
    path = store.put("off by a cent")
    assert store.row(ID).updated == NOW
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("PRAGMA wal_autocheckpoint = 0")
        size = os.path.getsize(path)
        tables.insert(owner, "steps", [step(1, NOW + 5, "and test it")])
        assert os.path.getsize(path) == size
        row = store.row(ID)
        assert (row.updated, store.app.prompts(row)) == (NOW + 5, ("off by a cent", "and test it"))
        owner.execute("BEGIN IMMEDIATE")
        owner.execute("DELETE FROM steps")
        before = sorted(os.listdir(store.root / "conversations"))
        assert store.row(ID).updated == NOW + 5
        assert sorted(os.listdir(store.root / "conversations")) == before


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.gemini/antigravity-cli"]),
        ({"HOME": "/h", "XDG_DATA_HOME": "/d"}, ["/h/.gemini/antigravity-cli"]),
        ({}, ["/.gemini/antigravity-cli"]),
    ],
)
def test_the_store_is_in_the_home(env: dict[str, str], roots: list[str]) -> None:
    assert Antigravity().roots(env) == roots


def test_the_folders_in_which_conversations_come_and_go_are_watched() -> None:
    assert Antigravity().watches("/r") == [Watch("/r/conversations", 0), Watch("/r", 0), Watch("/r/cache", 0)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"conversations/{ID}.db", "conversation"),
        (f"conversations/{ID}.db-wal", "conversation"),
        (f"conversations/{ID}.pb", "sealed"),
        ("conversation_summaries.db", "summaries"),
        ("conversation_summaries.db-wal", "summaries"),
        ("cache/last_conversations.json", "folders"),
        (f"conversations/{ID}.db-shm", None),
        (f"conversations/{ID}.pb-wal", None),
        ("conversations/x.db", None),
        (f"implicit/{ID}.pb", None),
        (f"presence/{ID}.lock", None),
        ("antigravity-oauth-token", None),
        ("history.jsonl", None),
        ("settings.json", None),
        (f"brain/{ID}/.system_generated/logs/transcript.jsonl", None),
        ("cache/projects.json", None),
    ],
)
def test_only_the_files_of_conversations_are_units(path: str, kind: str | None) -> None:
    unit = Antigravity().unit("/r", f"/r/{path}")
    assert (unit.kind if unit else None) == kind


def test_a_conversation_is_resumed_by_its_id(store: Store) -> None:
    store.put("off by a cent")
    argv = store.app.launch(store.row(ID), Settings(model="gemini-3.8-flash"), fork=False, folder="/else")
    assert argv == ["agy", "--conversation", ID]
    assert not store.app.forks


def test_a_number_of_protobuf_is_read_as_it_is_written() -> None:
    """The writer of the fixtures is not the reader's twin: bytes as ``protoc`` makes them."""
    assert message((1, 150), (2, "testing")) == b"\x08\x96\x01\x12\x07testing"
