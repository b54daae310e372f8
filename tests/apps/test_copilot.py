"""The sessions of GitHub Copilot CLI: a YAML file and events for each, and one file before that."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents.copilot import Event, event, events, permitted, start, turn, workspace
from fixtures.agents.lines import write
from sessiond.apps._jsonl import LOOK_BACK, TAIL
from sessiond.apps.base import Watch
from sessiond.apps.copilot import Copilot, scalars
from sessiond.launch import Found, Options, plan
from sessiond.session import Settings
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "6f1d2c34-9a0b-4c56-8d21-0c5f7a9e1b42"
OTHER = "7f1d2c34-9a0b-4c56-8d21-0c5f7a9e1b42"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_088
HOME = "/srv/ana/home/machine1/home-copilot"
STRICT = ["-i", "/permissions manual"]


class Store(Reader):
    """A folder of Copilot to put sessions into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Copilot(), root)

    def put(self, *records: Event, id: str = ID, **said: object) -> str:
        workspace(str(self.root), id, cwd=CWD, **said)
        return events(str(self.root), id, start(id, CWD, NOW), *(records or turn("why is CI red?", NOW + 1)))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".copilot")


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    title: str
    updated: int
    cwd: str = "src/shop"
    branch: str = "fix/rounding"
    model: str | None = "fake-model"
    hidden: str | None = None


RECORDED = {
    Seen("17cdd445-3ac7-41c1-a980-ac8a33069d66", "", 1796079768220, model=None, hidden="empty"),
    Seen("aef2314f-7beb-4478-a217-a558ba5aadf5", "prompt in other", 1796079242424, "src/other", "main"),
    Seen("af139112-3320-450d-93ef-bbbba38e17e9", "cart total is off by a cent", 1796079279693),
    Seen("afe3bd2a-78a0-432d-b8c5-bc61ae844d45", "prompt in gone", 1796079283682, "src/gone", "gone-branch"),
    Seen("c8a7b520-b807-4101-b62e-4b0f9cc99c34", "Fix cart: rounding #1", 1796079239195),
    Seen("f8392f4a-cee4-4503-b198-dee1575972dc", "Renamed: in TUI #1 é", 1796079295869),
}


def test_a_recorded_store_gives_every_session(unpack: Callable[[str], Path]) -> None:
    reader = Store(unpack("others/copilot-1.0.102") / ".copilot")
    rows = reader.rows()
    seen = {(row.id, row.title, row.updated, row.cwd, row.branch, row.model, row.hidden) for row in rows.values()}
    assert seen == {want._replace(cwd=f"{HOME}/{want.cwd}") for want in RECORDED}
    for row in rows.values():
        assert (row.launch_dir, row.live, row.lost) == (row.cwd, None, None)
        assert row.created
        assert row.created <= row.updated
    delegating = rows["c8a7b520-b807-4101-b62e-4b0f9cc99c34"]
    first, last = reader.app.prompts(delegating)
    assert (first or "").startswith("named; delegate")
    assert first == last, "the prompt of its sub-agent is not one of the person"
    assert reader.app.prompts(rows["af139112-3320-450d-93ef-bbbba38e17e9"]) == ("cart total is off by a cent", "other")
    assert reader.app.prompts(rows["17cdd445-3ac7-41c1-a980-ac8a33069d66"]) == (None, None)
    assert not reader.problems


# Titles


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Fix CI", "Fix CI"),
        ("'it''s: #1'", "it's: #1"),
        (r'"tab\tand \"é\""', 'tab and "é"'),
        ("|-\n  first: x\n  second # y\n\n  third", "first: x second # y third"),
        (">-\n  folded\n  over", "folded over"),
        ("plain\n  folded", "plain folded"),
        ("'quoted\n  folded'", "quoted folded"),
        ("null", "why is CI red?"),
        ("~", "why is CI red?"),
        ("''", "why is CI red?"),
        ("", "why is CI red?"),
        ("'open", "why is CI red?"),
        ('"open', "why is CI red?"),
    ],
)
def test_a_name_is_read_in_each_of_the_ways_that_yaml_has_for_one(store: Store, written: str, title: str) -> None:
    """The block is how 1.0.102 writes a prompt of several lines; the quotes it chose in the recordings."""
    store.put(name=written, branch="main")
    assert (store.row(ID).title, store.row(ID).branch) == (title, "main")


def test_a_session_of_a_release_with_a_summary_is_named_by_it(store: Store) -> None:
    store.put(summary="Fix CI")
    assert store.row(ID).title == "Fix CI"


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 99, b"\xff\xfe: x", b"- a\n- b", b"a" * 9999, b"id:\n\n  x\nid : y\n: z"]
)
def test_yaml_may_hold_anything(data: bytes) -> None:
    assert all(isinstance(value, str) for value in scalars(data).values())


# What is hidden, and the older generation


def test_a_sub_agent_is_not_a_session_and_changes_nothing_of_it(store: Store) -> None:
    agent = "131aab36-e781-4595-b785-9a704d1c3c05"
    store.put(
        *turn("delegate", NOW + 1),
        event("session.model_change", NOW + 5, agent, newModel="small"),
        event("session.permissions_changed", NOW + 6, agent, allowAllPermissionMode="on"),
        event("user.message", NOW + 7, agent, content="list the tests"),
    )
    row = store.row(ID)
    assert (row.title, row.model, row.approval) == ("delegate", "claude-sonnet-5", "off")
    assert store.app.prompts(row) == ("delegate", "delegate")


def test_a_session_in_which_nothing_was_asked_is_empty(store: Store) -> None:
    store.put(event("session.mode_changed", NOW + 1, newMode="plan"), name="Just a name")
    assert store.row(ID).hidden == "empty"


def test_a_prompt_too_long_to_read_does_not_make_it_empty(store: Store) -> None:
    store.put(*turn("x" * 600_000, NOW + 1), name="A long paste")
    assert (store.row(ID).title, store.row(ID).hidden) == ("A long paste", None)


def test_a_prompt_of_many_lines_is_read(store: Store) -> None:
    store.put(*turn("look at this\n" + "line\n" * 9000, NOW + 1))
    assert store.row(ID).title.startswith("look at this line")
    assert (store.app.prompts(store.row(ID))[0] or "").startswith("look at this\nline")


def test_a_session_of_one_file_is_listed_but_not_resumed(store: Store) -> None:
    """1.0.102: "uses a legacy flat JSONL transcript format that is no longer supported"."""
    flat = write(f"{store.root}/session-state/{ID}.jsonl", start(ID, CWD, NOW), *turn("Webhooks", NOW + 1))
    row = store.row(ID)
    assert (row.title, row.cwd, row.branch, row.hidden, row.path) == ("Webhooks", CWD, "main", "not-resumable", flat)


def test_of_two_copies_that_with_a_folder_counts(store: Store) -> None:
    path = store.put(name="new")
    write(f"{store.root}/session-state/{ID}.jsonl", start(ID, CWD, NOW), *turn("old", NOW + 99))
    assert (store.row(ID).title, store.row(ID).path, store.row(ID).hidden) == ("new", path, None)
    shutil.rmtree(os.path.dirname(path))
    assert store.row(ID).hidden == "not-resumable"


def test_a_session_that_was_deleted_is_so(store: Store) -> None:
    path = store.put(name="Fix CI")
    row = store.row(ID)
    assert store.app.present(row)
    shutil.rmtree(os.path.dirname(path))
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "Fix CI")
    assert not store.app.present(row)


# Whatever is in it


ODD: list[Any] = [None, 7, [], {}, {"a": []}, "", "\ud800", 10**400, True, "\x1b[31m"]


@pytest.mark.parametrize("key", ["type", "data", "timestamp", "agentId"])
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_an_event_may_hold_anything(store: Store, key: str, value: object) -> None:
    odd = event("session.permissions_changed", NOW, allowAllPermissionMode="on") | {key: value}
    store.put(start(ID, CWD, NOW) | {key: value}, odd, *turn("hi", NOW + 1))
    assert store.row(ID).title == "hi"
    assert all(words for words in store.app.prompts(store.row(ID)))
    json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        *(("session.start", key) for key in ("context", "startTime", "selectedModel")),
        *(("session.model_change", "newModel"), ("user.message", "content")),
    ],
)
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_the_body_of_an_event_may_hold_anything(store: Store, kind: str, key: str, value: Any) -> None:
    events(str(store.root), ID, event(kind, NOW, **{key: value}), *turn("hi", NOW + 1))
    row = store.row(ID)
    assert row.hidden is None
    assert row.model is None or isinstance(row.model, str)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\0" * 50, b'"x"', b"id: x\n"])
@pytest.mark.parametrize("name", ["workspace.yaml", "events.jsonl"])
def test_a_file_met_half_written_costs_no_row(store: Store, name: str, content: bytes) -> None:
    path = store.put(name="Fix CI")
    assert store.row(ID).title == "Fix CI"
    (store.root / "session-state" / ID / name).write_bytes(content)
    assert store.row(ID).title == "Fix CI"
    assert store.row(ID).path == path


def test_the_yaml_of_another_session_says_nothing_of_this_one(store: Store) -> None:
    store.put()
    (store.root / "session-state" / ID / "workspace.yaml").write_text(f"id: {OTHER}\nname: other\n")
    assert list(store.rows()) == [ID]
    assert store.row(ID).title == "why is CI red?"


# Permissions


@pytest.mark.parametrize(
    ("changes", "approval"),
    [([], "off"), (["on"], "on"), (["on", "off"], "off"), (["off", "auto"], "auto"), ([{"a": 1}], '{"a":1}')],
)
def test_the_last_change_of_permissions_counts(store: Store, changes: list[str], approval: str) -> None:
    store.put(*turn("hi", NOW + 1), *(permitted(word, NOW + n) for n, word in enumerate(changes)))
    assert store.row(ID).approval == approval


@pytest.mark.parametrize(("everything", "approval"), [(True, "on"), (False, "off")])
def test_a_release_without_a_word_for_it_says_whether(store: Store, approval: str, *, everything: bool) -> None:
    store.put(event("session.permissions_changed", NOW, allowAllPermissions=everything), *turn("hi", NOW + 1))
    assert store.row(ID).approval == approval


@pytest.mark.parametrize("said", [{}, {"allowAllPermissions": None}, {"allowAllPermissions": "no"}])
def test_a_change_that_says_nothing_does_not_pass_for_strict(store: Store, said: dict[str, Any]) -> None:
    store.put(*turn("hi", NOW + 1), event("session.permissions_changed", NOW + 2, **said))
    made = plan(store.app, store.row(ID), Options(allow_loose=True), Found())
    assert made.argv == ["copilot", f"--resume={ID}", *STRICT]


def test_a_change_of_a_sub_agents_permissions_is_not_one_of_the_session(store: Store) -> None:
    agent = event("session.permissions_changed", NOW + 3, "131aab36", allowAllPermissionMode="off")
    store.put(*turn("hi", NOW + 1), permitted("on", NOW + 2), agent)
    assert store.row(ID).approval == "on"


@pytest.mark.parametrize(
    ("filler", "approval"), [(TAIL + 9, "on"), (LOOK_BACK + TAIL, None)], ids=["before the tail", "beyond all reach"]
)
def test_a_change_far_back_is_looked_for_and_never_taken_for_none(
    store: Store, filler: int, approval: str | None
) -> None:
    padding = [event("tool.execution_complete", NOW + 9, result="x" * 300_000) for _ in range(filler // 300_000 + 1)]
    path = store.put(*turn("hi", NOW + 1), *turn("hi", NOW + 2), permitted("on", NOW + 3), *padding)
    store.refresh()
    for unit, (stat, scan) in list(store.scans.items()):
        if not scan.complete:
            store.scans[unit] = stat._replace(mtime_ns=0), scan
    row = store.row(ID)
    assert row.approval == approval
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(turn("more", NOW + 99)[0]) + "\n")
    assert store.row(ID).approval == approval


@pytest.mark.parametrize(
    ("changes", "allow", "more"),
    [
        ([], False, []),
        (["off"], False, []),
        (["on"], False, STRICT),
        (["on"], True, ["--allow-all"]),
        (["auto"], False, STRICT),
        (["auto"], True, STRICT),
        (["whatever"], True, STRICT),
    ],
)
def test_permission_for_everything_is_taken_back_unless_it_is_asked_for(
    store: Store, changes: list[str], more: list[str], *, allow: bool
) -> None:
    """1.0.102 brings it back by itself; its ``-i`` was seen to run the command before anything else."""
    store.put(*turn("hi", NOW + 1), *(permitted(word, NOW + n) for n, word in enumerate(changes)))
    made = plan(store.app, store.row(ID), Options(allow_loose=allow), Found())
    assert made.argv == ["copilot", f"--resume={ID}", *more]


def test_one_whose_permissions_were_not_found_starts_strict(store: Store) -> None:
    store.put()
    row = store.row(ID)
    row.approval = None
    assert store.app.launch(row, Settings(approval="off"), fork=False, folder=None)[2:] == STRICT


# Who has it open


def _lock(store: Store, pid: int) -> str:
    path = store.root / "session-state" / ID / f"inuse.{pid}.lock"
    path.write_text(str(pid))
    return str(path)


def test_a_session_that_a_process_has_open_is_live(store: Store) -> None:
    store.put()
    assert (store.row(ID).live, store.app.live(store.row(ID))) == (None, None)
    lock = _lock(store, os.getpid())
    row = store.row(ID)
    assert (row.live, row.lost) == ("idle", None)
    assert any(scan.volatile for _, scan in store.scans.values())
    live = store.app.live(row)
    assert live
    assert not live.certain
    assert f"in process {os.getpid()}" in live.where
    os.unlink(lock)
    assert (store.row(ID).live, store.app.live(row)) == (None, None)


@pytest.mark.parametrize("pid", [2**31 - 1, 9_999_999_999])
def test_a_session_whose_process_left_its_lock_is_lost(store: Store, pid: int) -> None:
    store.put()
    lock = _lock(store, pid)
    row = store.row(ID)
    assert (row.live, row.lost, store.app.live(row)) == (None, os.stat(lock).st_mtime_ns // 1_000_000, None)


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.copilot"]),
        ({"HOME": "/home/ana", "COPILOT_HOME": "/data/copilot/"}, ["/data/copilot"]),
        ({"HOME": "/home/ana", "COPILOT_HOME": ""}, ["/home/ana/.copilot"]),
        ({}, ["/.copilot"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert Copilot().roots(env) == roots


def test_a_store_elsewhere_is_named_to_the_program() -> None:
    assert Copilot().environment("/data/copilot") == {"COPILOT_HOME": "/data/copilot"}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert Copilot().watches("/d") == [Watch("/d/session-state", 1)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"session-state/{ID}/workspace.yaml", "workspace"),
        (f"session-state/{ID}/events.jsonl", "events"),
        (f"session-state/{ID}/inuse.17.lock", "lock"),
        (f"session-state/{ID}.jsonl", "flat"),
        (f"session-state/{ID}/inuse.17.hold", None),
        (f"session-state/{ID}/inuse.x.lock", None),
        (f"session-state/{ID}/session.db", None),
        (f"session-state/{ID}/plan.md", None),
        (f"session-state/{ID}/files/events.jsonl", None),
        (f"session-state/.session-operation-locks/{ID}.lock", None),
        ("session-state/x/events.jsonl", None),
        ("session-store.db", None),
        ("config.json", None),
        ("settings.json", None),
        (f"history-session-state/session_{ID}_1755681011000.json", None),
    ],
)
def test_only_the_files_of_sessions_are_units(path: str, kind: str | None) -> None:
    unit = Copilot().unit("/d", f"/d/{path}")
    assert (unit.kind if unit else None) == kind
    assert Copilot().unit("/other", f"/d/{path}") is None


def test_a_session_is_resumed_by_its_id_wherever_it_is(store: Store) -> None:
    """Model and folder are left to Copilot, which knows both."""
    store.put()
    argv = store.app.launch(store.row(ID), Settings(model="gpt-6", approval="off"), fork=False, folder="/else")
    assert argv == ["copilot", f"--resume={ID}"]
