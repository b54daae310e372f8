"""The sessions of Kimi CLI, the older program in Python."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents.kimi_cli import context, folder, folders, hash_of, session, state, wire
from sessiond.apps.base import Watch
from sessiond.apps.kimi_cli import KimiCLI
from sessiond.launch import Found, Options, plan
from sessiond.session import Settings
from tests.apps.odd import ODD
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OWN = "dd936728-530e-468c-9a1e-912f2f30c06b"
CWD = "/home/ana/src/shop"
WEB = "/home/ana/src/web"
ID = f"{OWN}_{hash_of(CWD)}"
NOW = 1_796_078_395_000
HOME = "/srv/ana/home/machine1/home-kimicli"


class Store(Reader):
    """A folder of Kimi CLI to put sessions into."""

    def __init__(self, root: Path) -> None:
        super().__init__(KimiCLI(), root)
        self.place = folder(str(root), OWN, CWD)

    def put(self, title: object = "CI", *prompts: str, cwd: str = CWD, **more: object) -> str:
        folders(str(self.root), CWD, WEB)
        return session(str(self.root), OWN, cwd, title, NOW, *(prompts or ("why is\nCI red?",)), **more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".kimi")


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    title: str
    updated: int
    cwd: str
    hidden: str | None = None


RECORDED = {
    Seen("3f247029-8eb3-487f-9948-2f6cddfced61", "Renamed in TUI: é", 1796079678479, "src/shop"),
    Seen("511e5047-76d8-4e66-922b-ad275ac02e61", "", 1796079827575, "src/shop", "empty"),
    Seen("dd936728-530e-468c-9a1e-912f2f30c06b", "cart total is off by a cent", 1796079691772, "src/shop"),
    Seen("d8c27ec8-f6c5-4e5e-a3bc-324c8b03b2cd", "prompt in gone", 1796079653757, "src/gone"),
    Seen("00000000-530e-468c-9a1e-912f2f30c06b", "unk", 1796079701405, "src/other"),
    Seen("bdbe3f07-f4e8-4ab2-910f-27a99002419f", "prompt in other", 1796079646079, "src/other"),
    Seen("dd936728-530e-468c-9a1e-912f2f30c06b", "other", 1796079697187, "src/other"),
}


def test_a_recorded_store_gives_every_session(unpack: Callable[[str], Path]) -> None:
    reader = Store(unpack("others/kimi-cli-1.49.0") / ".kimi")
    rows = reader.rows()
    want = {
        seen._replace(id=f"{seen.id}_{hash_of(f'{HOME}/{seen.cwd}')}", cwd=f"{HOME}/{seen.cwd}") for seen in RECORDED
    }
    # That of the empty one is when its file was written.
    assert {(row.id, row.title, row.updated, row.cwd, row.hidden) for row in rows.values()} == want
    for row in rows.values():
        assert (row.launch_dir, row.approval, row.archived, row.model) == (row.cwd, "ask", False, None)
        assert reader.app.present(row)
    twice = rows[f"dd936728-530e-468c-9a1e-912f2f30c06b_{hash_of(f'{HOME}/src/shop')}"]
    assert reader.app.prompts(twice) == ("cart total is off by a cent", "own")
    assert twice.created == 1796079638610
    assert not reader.problems


# Titles, layouts, one id in two folders


@pytest.mark.parametrize("title", [None, "", " ", "Untitled", 7])
def test_a_session_without_a_title_is_called_by_its_first_prompt(store: Store, title: object) -> None:
    store.put(title, "why is\nCI red?", "and now?")
    assert store.row(ID).title == "why is CI red?"
    assert store.app.prompts(store.row(ID)) == ("why is\nCI red?", "and now?")


def test_a_prompt_may_be_a_list_of_parts(store: Store) -> None:
    store.put(None)
    wire(str(store.root), OWN, CWD, NOW, [{"type": "image_url"}, {"type": "text", "text": "what is this?"}])
    assert store.row(ID).title == "what is this?"


def test_one_id_in_two_folders_is_two_sessions(store: Store) -> None:
    store.put("in shop")
    store.put("in web", cwd=WEB)
    rows = store.rows()
    assert {(row.title, row.cwd) for row in rows.values()} == {("in shop", CWD), ("in web", WEB)}
    commands = {tuple(store.app.launch(row, Settings(), fork=False, folder=None)) for row in rows.values()}
    assert commands == {("kimi-cli", "--work-dir", cwd, "--session", OWN) for cwd in (CWD, WEB)}


@pytest.mark.parametrize("flat", [False, True])
def test_a_session_of_before_the_transcripts_is_read(store: Store, *, flat: bool) -> None:
    """It had no more than what was sent to the model; 1.49 moves the file into a folder when it resumes it."""
    folders(str(store.root), CWD)
    path = context(str(store.root), OWN, CWD, "<system>CHECKPOINT 0</system>", "an old\nquestion", "more", flat=flat)
    row = store.row(ID)
    assert (row.title, row.cwd, row.path, row.hidden, row.approval) == ("an old question", CWD, path, None, "ask")
    assert row.updated == os.stat(path).st_mtime_ns // 1_000_000
    assert store.app.present(row)
    assert store.app.prompts(row) == ("an old\nquestion", "more")


def test_one_that_was_moved_meanwhile_is_not_deleted(store: Store) -> None:
    folders(str(store.root), CWD)
    flat = context(str(store.root), OWN, CWD, "an old question", flat=True)
    store.rows()
    os.makedirs(store.place)
    os.rename(flat, f"{store.place}/context.jsonl")
    row = store.row(ID)
    assert (row.title, row.hidden) == ("an old question", None)
    assert store.app.present(row)


# What is hidden, and what is no longer found


def test_a_session_in_which_nothing_was_asked_is_empty(store: Store) -> None:
    folders(str(store.root), CWD)
    context(str(store.root), OWN, CWD)
    assert store.row(ID).hidden == "empty"


def test_a_sub_agent_is_no_session(store: Store) -> None:
    store.put()
    os.makedirs(f"{store.place}/subagents/a1")
    shutil.copy(f"{store.place}/wire.jsonl", f"{store.place}/subagents/a1/wire.jsonl")
    assert list(store.rows()) == [ID]


@pytest.mark.parametrize(("value", "archived"), [(True, True), (False, False), (None, False)])
def test_an_archived_session_is_so(store: Store, value: object, *, archived: bool) -> None:
    store.put(archived=value)
    assert store.row(ID).archived is archived


def test_a_session_that_was_deleted_is_so(store: Store) -> None:
    store.put()
    row = store.row(ID)
    shutil.rmtree(store.place)
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "CI")
    assert not store.app.present(row)


@pytest.mark.parametrize("what", ["context", "list", "folder"])
def test_what_kimi_would_not_find_is_not_there(store: Store, what: str) -> None:
    """It would begin a new session under that id."""
    store.put()
    row = store.row(ID)
    assert store.app.present(row)
    if what == "context":
        os.unlink(f"{store.place}/context.jsonl")
    elif what == "list":
        os.unlink(f"{store.root}/kimi.json")
    else:
        folders(str(store.root), WEB)
    assert not store.app.present(row)


@pytest.mark.parametrize("dirs", [None, 7, [], [7], [{}], [{"path": 7}], [{"path": "\ud800"}], [{"path": WEB}], "x"])
def test_a_session_whose_folder_is_not_listed_has_none(store: Store, dirs: object) -> None:
    store.put()
    with open(f"{store.root}/kimi.json", "w", encoding="utf-8") as target:
        json.dump({"work_dirs": dirs}, target)
    row = store.row(ID)
    assert (row.title, row.cwd, row.launch_dir) == ("CI", None, None)
    assert plan(store.app, row, Options(), Found()).folder is None


def test_a_folder_that_was_known_stays_known(store: Store) -> None:
    store.put()
    store.rows()
    os.unlink(f"{store.root}/kimi.json")
    context(str(store.root), OWN, CWD, "hi", "and now?")
    assert store.row(ID).cwd == CWD


# Whatever is in it


@pytest.mark.parametrize("key", ["custom_title", "approval", "archived", "version"])
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_manifest_may_hold_anything(store: Store, key: str, value: Any) -> None:
    store.put()
    state(str(store.root), OWN, CWD, "CI", **{key: value})
    row = store.row(ID)
    assert row.hidden is None
    assert len(row.title) <= 200
    assert "\x1b" not in row.title
    json.dumps([scan.facts for _, scan in store.scans.values()]).encode()


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_prompt_may_be_anything(store: Store, value: Any) -> None:
    store.put()
    wire(str(store.root), OWN, CWD, NOW, value)
    row = store.row(ID)
    assert (row.title, row.updated) == ("CI", NOW + 500)
    store.app.prompts(row)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\0" * 50])
def test_a_manifest_met_half_written_keeps_its_session(store: Store, content: bytes) -> None:
    store.put("CI", approval={"yolo": True})
    store.rows()
    with open(f"{store.place}/state.json", "wb") as target:
        target.write(content)
    assert (store.row(ID).title, store.row(ID).approval) == ("CI", "yolo")


# Permissions


@pytest.mark.parametrize(
    ("recorded", "approval", "checks"),
    [
        ({"yolo": False, "afk": False, "auto_approve_actions": []}, "ask", []),
        ({}, "ask", []),
        ({"yolo": True}, "yolo", ["refused"]),
        ({"yolo": "yes"}, "yolo", ["refused"]),
        ({"afk": True, "yolo": False}, "afk", ["refused"]),
        ({"auto_approve_actions": ["run command"]}, "some-unasked", ["refused"]),
        (7, "unknown", ["refused"]),
    ],
)
def test_a_loose_permission_that_nothing_takes_back_is_refused_unless_it_is_asked_for(
    store: Store, recorded: object, approval: str, checks: list[str]
) -> None:
    store.put(approval=recorded)
    row = store.row(ID)
    assert row.approval == approval
    argv = ["kimi-cli", "--work-dir", CWD, "--session", OWN]
    for allow in (False, True):
        made = plan(store.app, row, Options(allow_loose=allow), Found())
        assert made.argv == argv
        assert [check.state for check in made.checks] == (["noted"] * len(checks) if allow else checks)


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.kimi"]),
        ({"HOME": "/home/ana", "KIMI_SHARE_DIR": "/data/kimi/"}, ["/data/kimi"]),
        ({"HOME": "/home/ana", "KIMI_SHARE_DIR": ""}, ["/home/ana/.kimi"]),
        ({}, ["/.kimi"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert KimiCLI().roots(env) == roots
    assert KimiCLI().environment("/data/kimi") == {"KIMI_SHARE_DIR": "/data/kimi"}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert KimiCLI().watches("/d") == [Watch("/d/sessions", 2)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"{OWN}/state.json", "state"),
        (f"{OWN}/wire.jsonl", "wire"),
        (f"{OWN}/context.jsonl", "context"),
        (f"{OWN}.jsonl", "flat"),
        ("my-session/wire.jsonl", "wire"),
        (f"{OWN}/context_1.jsonl", None),
        (f"{OWN}/subagents/a1/wire.jsonl", None),
        (f"{OWN}/tasks/x.json", None),
        ("-rf/wire.jsonl", None),
        ("a b/wire.jsonl", None),
        (f"../ssh_{hash_of(CWD)}/{OWN}/wire.jsonl", None),
        ("../../kimi.json", None),
        ("../../config.toml", None),
        ("../../credentials/kimi-code.json", None),
    ],
)
def test_only_the_files_of_sessions_are_units(path: str, kind: str | None) -> None:
    unit = KimiCLI().unit("/d", os.path.normpath(f"/d/sessions/{hash_of(CWD)}/{path}"))
    assert (unit.kind if unit else None) == kind


def test_a_session_goes_on_in_its_own_folder_wherever_it_is_started(store: Store) -> None:
    store.put()
    argv = store.app.launch(store.row(ID), Settings(approval="ask"), fork=False, folder="/else")
    assert argv == ["kimi-cli", "--work-dir", CWD, "--session", OWN]
