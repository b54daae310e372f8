"""The sessions of Kimi Code."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents.kimi_code import asked, folder, permission, session, wire
from fixtures.agents.lines import write
from sessiond.apps._jsonl import LOOK_BACK
from sessiond.apps.base import Watch
from sessiond.apps.kimi_code import KimiCode
from sessiond.launch import Found, Options, plan
from sessiond.session import Settings
from tests.apps.odd import ODD
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "session_2cfdcb53-c220-4764-8169-c72e06f405d1"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_088
HOME = "/srv/ana/home/machine1/home-kimicode"


class Store(Reader):
    """A folder of Kimi Code to put sessions into."""

    def __init__(self, root: Path) -> None:
        super().__init__(KimiCode(), root)

    def state(self, **more: object) -> str:
        return session(str(self.root), ID, CWD, NOW, **more)

    def wire(self, *records: dict[str, Any]) -> str:
        return wire(str(self.root), ID, CWD, *records)

    def put(self, prompt: str = "why is\nCI red?", mode: object = "manual", **more: object) -> str:
        self.wire(permission(mode), *asked(prompt))
        return self.state(**more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".kimi-code")


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    title: str
    updated: int
    cwd: str
    approval: str = "auto"


DELEGATE = ' %%TOOL:Agent:{"description":"look at tests","prompt":"list the tests","subagent_type":"explore"}%%'
RECORDED = {
    Seen("session_2cfdcb53-c220-4764-8169-c72e06f405d1", "prompt in gone", 1796079041831, "src/gone"),
    Seen("session_50e47ec9-b140-4f8e-85b5-d28a21bcd4ef", "prompt in other", 1796079036190, "src/other"),
    Seen("session_428da55a-728c-46e3-9d20-91d5df0c1bd2", f"delegate please{DELEGATE}", 1796079028874, "src/shop"),
    Seen("session_44083344-60b1-444c-9d53-972f31e37742", f"delegate again{DELEGATE}", 1796079076284, "src/shop"),
    Seen("session_4d21cc99-a0df-4990-b310-10bb486cc789", "Renamed in TUI: é", 1796079073850, "src/shop", "manual"),
    Seen("session_d5c59d05-ebba-4fba-9a5e-91ba72917199", "cart total is off by a cent", 1796079086216, "src/shop"),
}


def test_a_recorded_store_gives_every_session(unpack: Callable[[str], Path]) -> None:
    reader = Store(unpack("others/kimi-code-2.1.0") / ".kimi-code")
    rows = reader.rows()
    seen = {(row.id, row.title, row.updated, row.cwd, row.approval) for row in rows.values()}
    assert seen == {want._replace(cwd=f"{HOME}/{want.cwd}") for want in RECORDED}
    for row in rows.values():
        assert (row.launch_dir, row.model, row.hidden, row.archived) == (row.cwd, "fake", None, False)
        assert row.created
        assert row.created <= row.updated
        assert reader.app.present(row)
    twice = rows["session_d5c59d05-ebba-4fba-9a5e-91ba72917199"]
    assert reader.app.prompts(twice) == ("cart total is off by a cent", "own")
    assert not reader.problems


# Titles, layouts, copies


@pytest.mark.parametrize("title", [None, "", " ", "New Session", "Untitled", 7])
def test_a_session_without_a_title_is_called_by_its_first_prompt(store: Store, title: object) -> None:
    store.put(title=title, lastPrompt="and now?")
    assert (store.row(ID).title, store.row(ID).hidden) == ("why is CI red?", None)


def test_a_session_whose_transcript_is_missing_is_called_by_its_last_prompt(store: Store) -> None:
    store.state(lastPrompt="and\nnow?")
    assert (store.row(ID).title, store.row(ID).approval) == ("and now?", None)


def test_a_session_that_is_named_is_called_so_from_then_on(store: Store) -> None:
    store.put()
    assert store.row(ID).title == "why is CI red?"
    store.state(title="Red CI", titleKind="custom")
    assert store.row(ID).title == "Red CI"


def test_what_a_program_put_there_is_no_prompt(store: Store) -> None:
    store.wire(*asked("remind", kind="injection"), *asked("hi"), *asked("a cron job", kind="schedule"))
    store.state()
    row = store.row(ID)
    assert row.title == "hi"
    assert store.app.prompts(row) == ("hi", "hi")


@pytest.mark.parametrize("more", [{"workDir": CWD}, {"custom": {"cwd": CWD}}])
def test_an_older_manifest_is_read(store: Store, more: dict[str, Any]) -> None:
    """They have the folder under another key, and times in ISO 8601."""
    store.put()
    state = {"createdAt": "2026-08-20T09:10:11.256Z", "updatedAt": "2026-08-20T09:14:08.967Z", "title": "Carts"}
    place = folder(str(store.root), ID, CWD)
    os.unlink(f"{place}/state.json")
    path = write(f"{place}/session-meta/state.json", state | more)
    row = store.row(ID)
    assert (row.title, row.cwd, row.path) == ("Carts", CWD, path)
    assert row.created
    assert row.updated - row.created == 237_711
    assert store.app.prompts(row) == ("why is\nCI red?", "why is\nCI red?")


def test_of_two_folders_with_one_id_the_later_counts_alone(store: Store) -> None:
    path = store.put(title="later")
    other = session(str(store.root), ID, "/home/ana/src/web", NOW, title="earlier")
    wire(str(store.root), ID, "/home/ana/src/web", permission("auto"), *asked("earlier"))
    os.utime(other, ns=(1, 1))
    assert (store.row(ID).title, store.row(ID).path, store.row(ID).approval) == ("later", path, "manual")
    shutil.rmtree(os.path.dirname(path))
    assert (store.row(ID).title, store.row(ID).hidden, store.row(ID).approval) == ("earlier", None, "auto")


# What is hidden


def test_a_sub_agent_is_no_session(store: Store) -> None:
    store.put()
    wire(str(store.root), ID, CWD, *asked("list the tests"), agent="agent-0")
    assert [(row.title, row.hidden) for row in store.rows().values()] == [("why is CI red?", None)]


def test_a_session_in_which_nothing_was_asked_is_empty(store: Store) -> None:
    store.wire(permission("manual"))
    store.state(title="New Session")
    assert store.row(ID).hidden == "empty"


def test_a_transcript_alone_is_no_session(store: Store) -> None:
    """Kimi Code lists what has a manifest."""
    store.wire(*asked("hi"))
    assert store.rows() == {}


@pytest.mark.parametrize(("value", "archived"), [(True, True), (False, False), (None, False), ("x", False)])
def test_an_archived_session_is_so(store: Store, value: object, *, archived: bool) -> None:
    store.put(archived=value)
    assert store.row(ID).archived is archived


def test_a_session_that_was_deleted_is_so(store: Store) -> None:
    path = store.put()
    row = store.row(ID)
    shutil.rmtree(os.path.dirname(path))
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "why is CI red?")
    assert not store.app.present(row)


# Whatever is in it


@pytest.mark.parametrize("key", ["title", "lastPrompt", "cwd", "updatedAt", "createdAt", "custom", "archived", "id"])
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_manifest_may_hold_anything(store: Store, key: str, value: Any) -> None:
    store.put(**{key: value} if key not in ("id", "cwd") else {})
    write(f"{folder(str(store.root), ID, CWD)}/state.json", {"id": ID, "cwd": CWD} | {key: value})
    row = store.row(ID)
    assert row.updated
    assert len(row.title) <= 200
    assert "\x1b" not in row.title
    json.dumps([scan.facts for _, scan in store.scans.values()]).encode()


@pytest.mark.parametrize("key", ["type", "input", "origin", "mode", "modelAlias"])
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_transcript_may_hold_anything(store: Store, key: str, value: Any) -> None:
    store.wire(*({**record, key: value} for record in (permission("auto"), *asked("hi"))))
    store.state(title="CI")
    row = store.row(ID)
    assert row.title == "CI"
    assert row.model is None or isinstance(row.model, str)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\0" * 50, b'{"id":'])
def test_a_manifest_met_half_written_keeps_its_session(store: Store, content: bytes) -> None:
    path = store.put(title="CI")
    store.rows()
    with open(path, "wb") as target:
        target.write(content)
    assert (store.row(ID).title, store.row(ID).cwd) == ("CI", CWD)


# Permissions


@pytest.mark.parametrize(
    ("mode", "allow", "state"),
    [
        ("manual", False, None),
        ("manual", True, None),
        ("yolo", False, "refused"),
        ("yolo", True, "noted"),
        ("auto", False, "refused"),
        ("auto", True, "noted"),
        ("bypass", False, "refused"),
        ("bypass", True, "noted"),
        (None, False, "refused"),
        ({"a": 1}, False, "refused"),
    ],
)
def test_a_loose_permission_that_nothing_takes_back_is_refused_unless_it_is_asked_for(
    store: Store, mode: object, state: str | None, *, allow: bool
) -> None:
    store.put(mode=mode)
    made = plan(store.app, store.row(ID), Options(allow_loose=allow), Found())
    assert [check.state for check in made.checks if check.name == "approval"] == ([state] if state else [])
    assert made.argv == ["kimi", "--session", ID]
    assert made.withheld == []


def test_the_last_permission_counts(store: Store) -> None:
    store.wire(permission("auto"), *asked("hi"), permission("manual"))
    store.state()
    assert store.row(ID).approval == "manual"


def test_a_session_that_never_had_another_permission_has_the_default(store: Store) -> None:
    store.wire(*asked("hi"))
    store.state()
    assert store.row(ID).approval == "manual"


def test_one_too_long_to_tell_is_refused(store: Store) -> None:
    path = store.wire(*asked("hi"))
    with open(path, "ab") as target:
        target.write(b'{"type":"x"}\n' * (LOOK_BACK // 13 + 99_999))
    store.state()
    row = store.row(ID)
    assert (row.title, row.approval) == ("hi", None)
    made = plan(store.app, row, Options(), Found())
    assert [(check.name, check.state) for check in made.checks] == [("approval", "refused")]


# Where it lies, and how it goes on


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.kimi-code"]),
        ({"HOME": "/home/ana", "KIMI_CODE_HOME": "/data/kimi/"}, ["/data/kimi"]),
        ({"HOME": "/home/ana", "KIMI_CODE_HOME": ""}, ["/home/ana/.kimi-code"]),
        ({}, ["/.kimi-code"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert KimiCode().roots(env) == roots
    assert KimiCode().environment("/data/kimi") == {"KIMI_CODE_HOME": "/data/kimi"}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert KimiCode().watches("/d") == [Watch("/d/sessions", 4)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"sessions/wd_shop_e04d378054f9/{ID}/state.json", "state"),
        (f"sessions/wd_shop_e04d378054f9/{ID}/session-meta/state.json", "old-state"),
        (f"sessions/wd_shop_e04d378054f9/{ID}/agents/main/wire.jsonl", "wire"),
        (f"sessions/wd_shop_e04d378054f9/{ID}/agents/agent-0/wire.jsonl", None),
        (f"sessions/wd_shop_e04d378054f9/{ID}/notify/state.json", None),
        (f"sessions/wd_shop_e04d378054f9/{ID}/state.json.tmp", None),
        ("sessions/wd_shop_e04d378054f9/x/state.json", None),
        (f"sessions/.index-cache/{ID}/state.json", None),
        ("sessions/.index-cache/scan.json", None),
        ("config.toml", None),
        ("session_index.jsonl", None),
        ("workspaces.json", None),
    ],
)
def test_only_the_files_of_sessions_are_units(path: str, kind: str | None) -> None:
    unit = KimiCode().unit("/d", f"/d/{path}")
    assert (unit.kind if unit else None) == kind


def test_a_session_is_resumed_by_its_id(store: Store) -> None:
    store.put()
    argv = store.app.launch(store.row(ID), Settings(model="k", approval="auto"), fork=False, folder="/else")
    assert argv == ["kimi", "--session", ID]
