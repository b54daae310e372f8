"""The sessions of Factory Droid: a transcript and a file of settings for each."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents.droid import header, message, settings, turn
from fixtures.agents.lines import write
from sessiond import launch
from sessiond.apps.base import Watch
from sessiond.apps.droid import Droid
from tests.apps.odd import ODD, replaced
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "2cf15c67-5be8-49c0-af62-523621922f00"
OTHER = "15a3a686-8955-4589-912b-fdd8749a30c4"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_000
HOME = "/srv/ana/home/machine1/home-droid"
FOLDER = "sessions/-home-ana-src-shop"


class Store(Reader):
    """A folder of Droid to put transcripts into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Droid(), root)

    def put(
        self, *records: dict[str, Any], id: str = ID, folder: str = FOLDER, title: str = "CI", **more: object
    ) -> str:
        return write(f"{self.root}/{folder}/{id}.jsonl", header(id, CWD, title, **more), *records)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".factory")


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    title: str
    created: int
    updated: int
    approval: str = "auto-low"


RECORDED = {
    Seen("2cf15c67-5be8-49c0-af62-523621922f00", "cart total is off by a cent", 1796141345265, 1796141345703),
    Seen("15a3a686-8955-4589-912b-fdd8749a30c4", "cart total is off by a cent", 1796141345265, 1796141419309),
    Seen("950f6fa3-705a-4d87-9236-25c9f471197c", "second prompt high", 1796141484338, 1796141484592, "auto-high"),
    Seen("ce530b71-976f-4d3d-aefe-e76bb1f49383", "via link", 1796141491206, 1796141491491),
}


def test_a_recorded_store_gives_every_session(unpack: Callable[[str], Path]) -> None:
    """That of 0.215.0, of `droid exec` alone; the second is a fork of the first."""
    reader = Store(unpack("others/droid-0.215.0") / ".factory")
    rows = reader.rows()
    found = {Seen(row.id, row.title, row.created or 0, row.updated, row.approval or "") for row in rows.values()}
    assert found == RECORDED
    for row in rows.values():
        assert (row.cwd, row.launch_dir, row.branch) == (f"{HOME}/src/shop", f"{HOME}/src/shop", None)
        assert (row.model, row.hidden, row.archived, row.live) == ("custom:Fake-0", "sdk", False, None)
    assert reader.app.prompts(rows[OTHER]) == ("cart total is off by a cent", "forked")
    assert not reader.problems


# Titles and folders


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ({"title": "CI"}, "CI"),
        ({"title": "New Session"}, "why is CI red?"),
        ({"title": "Generating title…"}, "why is CI red?"),
        ({"title": ""}, "why is CI red?"),
        ({"title": "why", "sessionTitle": "CI"}, "CI"),
    ],
)
def test_a_placeholder_gives_way_to_the_first_prompt(store: Store, said: dict[str, str], title: str) -> None:
    """Which is not what Droid tells the model before it."""
    store.put(*turn("why is\nCI red?", NOW), *turn("2", NOW + 5), **said)
    assert store.row(ID).title == title
    assert store.app.prompts(store.row(ID)) == ("why is\nCI red?", "2")


def test_a_renamed_session_has_its_new_name_at_the_old_time(store: Store) -> None:
    """A rename writes the first line anew."""
    store.put(*turn("why is CI red?", NOW))
    assert store.row(ID).title == "CI"
    store.put(*turn("why is CI red?", NOW), title="CD", isSessionTitleManuallySet=True)
    assert (store.row(ID).title, store.row(ID).updated) == ("CD", NOW + 1000)


def test_the_folder_is_the_last_that_is_recorded(store: Store) -> None:
    store.put(*turn("hi", NOW), lastCwd="/else")
    assert (store.row(ID).cwd, store.row(ID).launch_dir) == ("/else", "/else")


# Settings


def test_settings_that_come_change_and_go_are_seen(store: Store) -> None:
    path = store.put(*turn("hi", NOW))
    row = store.row(ID)
    assert (row.model, row.approval, row.archived) == ("claude-sonnet-5", "normal", False)
    settings(path, model="gpt-6", autonomyMode="auto-high", archivedAt="2026-11-30T22:43:33.737Z")
    row = store.row(ID)
    assert (row.model, row.approval, row.archived) == ("gpt-6", "auto-high", True)
    settings(path, model="gpt-6", autonomyMode="spec")
    row = store.row(ID)
    assert (row.approval, row.archived) == ("spec", False)
    assert (row.title, row.path) == ("CI", path)


@pytest.mark.parametrize(
    ("level", "approval"), [("off", "normal"), ("low", "auto-low"), ("high", "auto-high"), (None, "normal")]
)
def test_a_level_alone_tells_the_mode(store: Store, level: str | None, approval: str) -> None:
    settings(store.put(*turn("hi", NOW)), autonomyMode=None, autonomyLevel=level)
    assert store.row(ID).approval == approval


def test_settings_without_a_transcript_are_no_session(store: Store) -> None:
    settings(f"{store.root}/{FOLDER}/{ID}.jsonl")
    assert store.rows() == {}


# Copies, the older layout, and what is hidden


def test_of_two_copies_of_a_session_the_newest_counts(store: Store) -> None:
    old, new = store.put(*turn("hi", NOW), title="old", folder="sessions"), store.put(*turn("hi", NOW), title="new")
    os.utime(old, (1, 1))
    settings(old, autonomyMode="auto-high")
    assert (store.row(ID).title, store.row(ID).path, store.row(ID).approval) == ("new", new, "auto-high")
    os.unlink(new)
    assert (store.row(ID).title, store.row(ID).path) == ("old", old)


def test_a_fork_is_a_session_of_its_own(store: Store) -> None:
    store.put(*turn("hi", NOW))
    store.put(*turn("hi", NOW), id=OTHER, parent=ID, forkedAtMessageId="x")
    assert {(row.id, row.hidden) for row in store.rows().values()} == {(ID, None), (OTHER, None)}


@pytest.mark.parametrize(
    ("records", "more", "tags", "hidden"),
    [
        (turn("hi", NOW), {}, [], None),
        (turn("hi", NOW), {}, ["mission", "other"], None),
        (turn("hi", NOW), {"callingSessionId": OTHER}, [], "subagent"),
        (turn("hi", NOW), {}, ["exec", "subagent"], "subagent"),
        (turn("hi", NOW), {}, ["btw-fork"], "subagent"),
        (turn("hi", NOW), {"folder": "sessions/btw"}, [], "subagent"),
        (turn("hi", NOW), {}, ["exec"], "sdk"),
        ([], {}, [], "empty"),
        ([], {"title": "New Session"}, [], "empty"),
        (turn("hi", NOW)[:1], {}, [], "empty"),
        ([], {"isSessionTitleManuallySet": True}, [], None),
        ([message("assistant", "Hello.", NOW, modelId="m")], {}, [], None),
    ],
)
def test_what_is_not_for_people_is_hidden(
    store: Store, records: list[dict[str, Any]], more: dict[str, Any], tags: list[str], hidden: str | None
) -> None:
    settings(store.put(*records, **more), tags=[{"name": tag} for tag in tags])
    assert store.row(ID).hidden == hidden


def test_a_session_whose_file_is_gone_is_deleted(store: Store) -> None:
    path = store.put(*turn("hi", NOW))
    settings(path)
    row = store.row(ID)
    assert store.app.present(row)
    os.unlink(path)
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "CI")
    assert not store.app.present(row)


# Whatever is in it


@pytest.mark.parametrize(
    "key",
    [
        *("type", "title", "sessionTitle", "cwd", "lastCwd", "callingSessionId", "timestamp", "message", "role"),
        *("content", "text", "modelId", "model", "autonomyMode", "autonomyLevel", "archivedAt", "tags", "name"),
    ],
)
def test_a_record_may_hold_anything(store: Store, key: str) -> None:
    records = [header(ID, CWD, "CI", sessionTitle="CI", lastCwd=CWD, callingSessionId=None), *turn("hi", NOW)]
    said = {"archivedAt": None, "tags": [{"name": "exec"}], "autonomyMode": "normal"}
    store.put(*turn("2", NOW), id=OTHER)
    for value in ODD:
        path = write(f"{store.root}/{FOLDER}/{ID}.jsonl", *replaced(records, key, value))
        settings(path, **replaced(said, key, value), **({key: value} if key in ("model", "autonomyLevel") else {}))
        rows = store.rows()
        assert OTHER in rows
        for row in rows.values():
            for text in (row.cwd, row.model, row.approval):
                assert text is None or isinstance(text, str)
            assert isinstance(row.title, str)
            assert store.app.prompts(row)
        json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\0" * 50, b'"x"', b'{"type":"message"}\n'])
def test_a_file_that_is_no_session_is_none(store: Store, content: bytes) -> None:
    path = store.put(*turn("hi", NOW))
    with open(path, "wb") as target:
        target.write(content)
    assert store.rows() == {}


def test_files_met_half_written_keep_what_they_said(store: Store) -> None:
    path = store.put(*turn("hi", NOW))
    other = settings(path, autonomyMode="auto-high")
    assert store.row(ID).approval == "auto-high"
    os.truncate(path, 40)
    os.truncate(other, 40)
    assert (store.row(ID).title, store.row(ID).approval) == ("CI", "auto-high")


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.factory"]),
        ({"HOME": "/h", "FACTORY_HOME_OVERRIDE": "/data/"}, ["/data/.factory"]),
        ({"HOME": "/h", "FACTORY_HOME_OVERRIDE": ""}, ["/h/.factory"]),
        ({"HOME": "/h", "FACTORY_HOME_OVERRIDE": "data"}, []),
        ({}, ["/.factory"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert Droid().roots(env) == roots


def test_a_store_is_named_by_the_folder_that_holds_it() -> None:
    assert Droid().environment("/data/.factory") == {"FACTORY_HOME_OVERRIDE": "/data"}
    assert Droid().environment("/data/factory") == {}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert Droid().watches("/d") == [Watch("/d/sessions", 1)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"{FOLDER}/{ID}.jsonl", "transcript"),
        (f"{FOLDER}/{ID}.settings.json", "settings"),
        (f"sessions/{ID}.jsonl", "flat"),
        (f"sessions/{ID}.settings.json", "flat-settings"),
        (f"{FOLDER}/{ID}.settings.json.bak", None),
        (f"{FOLDER}/x/{ID}.jsonl", None),
        ("sessions/.favorites", None),
        ("sessions/../settings.json", None),
        ("settings.json", None),
        ("auth.encrypted", None),
        ("cache/session-discovery-index.json", None),
    ],
)
def test_only_transcripts_and_their_settings_are_units(path: str, kind: str | None) -> None:
    unit = Droid().unit("/d", f"/d/{path}")
    assert (unit.kind if unit else None) == kind
    assert Droid().unit("/other", f"/d/{path}") is None


# How it is resumed


@pytest.mark.parametrize(
    ("mode", "loose", "flags"),
    [
        (None, False, []),
        ("normal", False, []),
        ("spec", False, []),
        ("auto-low", False, ["--auto", "low"]),
        ("auto-medium", False, ["--auto", "low"]),
        ("auto-high", False, ["--auto", "low"]),
        ("auto-high", True, ["--auto", "high"]),
        ("auto-all", True, ["--auto", "low"]),
        ("--skip", True, ["--auto", "low"]),
    ],
)
@pytest.mark.parametrize(("fork", "flag"), [(False, "--resume"), (True, "--fork")])
def test_a_session_is_resumed_by_its_id_and_never_looser_than_it_was(
    store: Store, mode: str | None, loose: bool, flags: list[str], fork: bool, flag: str
) -> None:
    """A session keeps its level of autonomy; what is left out would come back with it."""
    settings(store.put(*turn("hi", NOW)), autonomyMode=mode, autonomyLevel=None)
    options = launch.Options(fork=fork, allow_loose=loose)
    assert launch.plan(store.app, store.row(ID), options, launch.Found()).argv == ["droid", *flags, flag, ID]
