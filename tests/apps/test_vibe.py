"""The sessions of Mistral Vibe: those of 3.0, and those of 2.x."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents import vibe as sample
from fixtures.agents.vibe import folder, legacy, session, snapshot, write
from sessiond.apps.base import Watch
from sessiond.apps.vibe import DEFAULT, Vibe
from sessiond.launch import Found, Options, plan
from sessiond.session import Settings
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessiond.session import Session

ID = "8d9f5934-d8a7-7d92-5fac-2f5569fa663f"
OTHER = "9d9f5934-d8a7-7d92-5fac-2f5569fa663f"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_088
HOME = "/srv/ana/home/machine1/home-vibe"


class Store(Reader):
    """A folder of Vibe to put sessions into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Vibe(), root)

    def put(self, title: str | None = "CI", agent: object = DEFAULT, **more: object) -> str:
        snapshot(str(self.root), ID, "why is\nCI red?", agent)
        return session(str(self.root), ID, CWD, title, NOW, **more)

    def old(self, title: str | None = "CI", *prompts: str, **more: object) -> str:
        return legacy(str(self.root), ID, CWD, title, NOW, *prompts, **more)

    def lock(self, pid: object, id: str = ID) -> str:
        return write(f"{self.root}/logs/session/active/{id}.lock.json", {"session_id": id, "process_id": pid})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".vibe")


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    title: str
    updated: int
    cwd: str = "src/shop"


RECORDED = {
    Seen("154dcfe1-442b-a7a3-1f07-851492d67dbb", "prompt in gone", 1796079235604, "src/gone"),
    Seen("8d9f5934-d8a7-7d92-5fac-2f5569fa663f", "prompt in other", 1796079138962, "src/other"),
    Seen("a6fd9232-21b1-4906-87d1-fb17d022e609", "Renamed in TUI: é", 1796079196515),
    Seen("e693e913-0696-7722-6809-f67f0993f253", "Auto title rounding fix", 1796079159058),
}


def test_a_recorded_store_gives_every_session(unpack: Callable[[str], Path]) -> None:
    reader = Store(unpack("others/mistral-vibe-3.0.2") / ".vibe")
    rows = reader.rows()
    seen = {(row.id, row.title, row.updated, row.cwd) for row in rows.values()}
    assert seen == {want._replace(cwd=f"{HOME}/{want.cwd}") for want in RECORDED}
    for row in rows.values():
        assert (row.launch_dir, row.model, row.hidden) == (row.cwd, "fake-model", None)
        assert row.approval == ("default" if row.title.startswith("Renamed") else "accept-edits")
        assert (row.live, row.lost, row.archived, row.branch) == (None, None, False, None)
        assert row.created
        assert row.created <= row.updated
        assert reader.app.present(row)
    gone = rows["154dcfe1-442b-a7a3-1f07-851492d67dbb"]
    assert reader.app.prompts(gone) == ("prompt in gone", None)
    assert not reader.problems


# Titles, generations, copies


@pytest.mark.parametrize("title", [None, "", "  "])
def test_a_session_without_a_title_is_called_by_its_first_prompt(store: Store, title: str | None) -> None:
    store.put(title)
    assert store.row(ID).title == "why is CI red?"
    assert store.app.prompts(store.row(ID)) == ("why is\nCI red?", None)


def test_a_session_of_the_older_generation_is_called_by_its_first_prompt_too(store: Store) -> None:
    path = store.old(None, "why is\nCI red?", "and now?", git_branch="main")
    row = store.row(ID)
    assert (row.title, row.cwd, row.branch, row.path, row.hidden) == ("why is CI red?", CWD, "main", path, None)
    assert store.app.prompts(row) == ("why is\nCI red?", "and now?")
    assert store.app.present(row)


def test_a_session_that_was_taken_over_counts_as_that_of_the_newer_release(store: Store) -> None:
    store.old("old", "hi", bumped_at="2026-12-24T00:00:00Z")
    path = store.put("new")
    assert (store.row(ID).title, store.row(ID).path) == ("new", path)
    shutil.rmtree(folder(str(store.root), ID))
    assert (store.row(ID).title, store.row(ID).hidden) == ("old", None)


def test_the_generation_that_is_current_counts(store: Store) -> None:
    store.put(None)
    snapshot(str(store.root), ID, "later")
    write(f"{folder(str(store.root), ID)}/generations/0000000000000001/projection-state.json", {})
    assert store.row(ID).title == "later"


@pytest.mark.parametrize("generation", [None, 8, "", "../..", "/etc", "00000008/../1", "0" * 99, "9"])
def test_a_generation_may_be_called_anything(store: Store, generation: object) -> None:
    store.put()
    write(f"{folder(str(store.root), ID)}/CURRENT", {"session_id": ID, "generation": generation})
    row = store.row(ID)
    assert (row.title, row.approval) == ("CI", None)
    assert store.app.prompts(row) == (None, None)


# What is hidden


def test_a_sub_agent_is_hidden(store: Store) -> None:
    session(str(store.root), ID, CWD, None, NOW, parent_session_id=OTHER)
    snapshot(str(store.root), ID, "list the tests", kind="subagent")
    assert (store.row(ID).title, store.row(ID).hidden) == ("list the tests", "subagent")


def test_a_branch_of_a_session_is_not(store: Store) -> None:
    session(str(store.root), ID, CWD, "CI", NOW, parent_session_id=OTHER)
    snapshot(str(store.root), ID, "hi", kind="fork")
    assert store.row(ID).hidden is None


def test_a_session_in_which_nothing_was_asked_is_empty(store: Store) -> None:
    session(str(store.root), ID, CWD, None, NOW)
    snapshot(str(store.root), ID, "")
    assert store.row(ID).hidden == "empty"


@pytest.mark.parametrize(("at", "archived"), [(None, False), ("", False), ("2026-11-30T22:52:18Z", True), (7, False)])
def test_a_time_of_archiving_archives(store: Store, at: object, *, archived: bool) -> None:
    store.put(archived_at=at)
    assert store.row(ID).archived is archived


def test_a_session_that_was_deleted_is_so(store: Store) -> None:
    store.put()
    row = store.row(ID)
    assert store.app.present(row)
    shutil.rmtree(folder(str(store.root), ID))
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "CI")
    assert not store.app.present(row)


# Whatever is in it


ODD: list[Any] = [None, 7, [], {}, {"a": []}, "", "\ud800", "\0", 10**400, True, "\x1b[31m"]


@pytest.mark.parametrize("key", ["title", "start_time", "bumped_at", "environment", "config", "git_branch"])
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_session_may_hold_anything(store: Store, key: str, value: Any) -> None:
    store.put(**{key: value} if key != "title" else {})
    session(str(store.root), ID, CWD, "CI", NOW, **{key: value})
    row = store.row(ID)
    assert row.updated
    assert all(words is None or isinstance(words, str) for words in (row.cwd, row.model, row.branch))
    json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("name", ["projection-state.json", "runtime-state.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"snapshot":7,"identity":7}', b'{"snapshot":{"session":[]}}'])
def test_a_snapshot_may_hold_anything(store: Store, name: str, content: bytes) -> None:
    store.put()
    with open(f"{folder(str(store.root), ID)}/generations/{sample.GENERATION}/{name}", "wb") as target:
        target.write(content)
    assert store.row(ID).title == "CI"
    assert store.row(ID).hidden is None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\0" * 50, b'{"session_id":"x"}', f'{{"session_id":"{OTHER}"}}'.encode()]
)
@pytest.mark.parametrize("name", ["meta.json", "CURRENT"])
def test_a_file_met_half_written_keeps_its_session(store: Store, name: str, content: bytes) -> None:
    store.put(None)
    assert store.row(ID).title == "why is CI red?"
    with open(f"{folder(str(store.root), ID)}/{name}", "wb") as target:
        target.write(content)
    assert (store.row(ID).title, store.row(ID).cwd, store.row(ID).approval) == ("why is CI red?", CWD, DEFAULT)
    assert list(store.rows()) == [ID]


# Permissions


@pytest.mark.parametrize(
    ("agent", "allow", "checks"),
    [
        (DEFAULT, False, []),
        ("ask", False, []),
        ("auto-approve", False, ["refused"]),
        ("auto-approve", True, ["noted"]),
        ("smart-approve", False, ["refused"]),
        ("lean", False, ["refused"]),
        ("lean", True, ["noted"]),
        ({"a": 1}, False, ["refused"]),
        (None, False, []),
    ],
)
def test_an_agent_that_approves_by_itself_is_refused_unless_it_is_asked_for(
    store: Store, agent: object, checks: list[str], *, allow: bool
) -> None:
    """Vibe brings it back whatever ``--agent`` says, so that is not passed either (3.0.2)."""
    store.put(agent=agent)
    assert approvals(store.row(ID), allow=allow) == checks


def test_one_whose_agent_was_not_found_is_refused(store: Store) -> None:
    store.put()
    os.unlink(f"{folder(str(store.root), ID)}/generations/{sample.GENERATION}/runtime-state.json")
    assert approvals(store.row(ID)) == ["refused"]


@pytest.mark.parametrize(
    ("profile", "checks"), [(None, []), ({"name": "plan"}, []), ({"name": "auto-approve"}, ["refused"])]
)
def test_so_is_one_of_the_older_generation(store: Store, profile: object, checks: list[str]) -> None:
    store.old("CI", "hi", agent_profile=profile)
    assert approvals(store.row(ID)) == checks


def approvals(row: Session, *, allow: bool = False) -> list[str]:
    """Return what the plan to resume *row* says of its agent; the command is the same for all."""
    made = plan(Vibe(), row, Options(allow_loose=allow), Found())
    assert made.argv == ["vibe", "--resume", ID]
    return [check.state for check in made.checks if check.name == "approval"]


# Who has it open


def test_a_session_that_a_process_has_open_is_live(store: Store) -> None:
    store.put()
    assert (store.row(ID).live, store.app.live(store.row(ID))) == (None, None)
    lock = store.lock(os.getpid())
    row = store.row(ID)
    assert (row.live, row.lost) == ("idle", None)
    assert any(scan.volatile for _, scan in store.scans.values())
    live = store.app.live(row)
    assert live
    assert not live.certain
    assert f"in process {os.getpid()}" in live.where
    os.unlink(lock)
    assert (store.row(ID).live, store.row(ID).lost, store.app.live(row)) == (None, None, None)


@pytest.mark.parametrize("pid", [2**31 - 1, 10**400, 0, -1, None, "1"])
def test_a_session_whose_process_left_its_lock_is_lost(store: Store, pid: object) -> None:
    store.put()
    lock = store.lock(pid)
    row = store.row(ID)
    assert (row.live, row.lost, store.app.live(row)) == (None, os.stat(lock).st_mtime_ns // 1_000_000, None)


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.vibe"]),
        ({"HOME": "/home/ana", "VIBE_HOME": "/data/vibe/"}, ["/data/vibe"]),
        ({"HOME": "/home/ana", "VIBE_HOME": ""}, ["/home/ana/.vibe"]),
        ({}, ["/.vibe"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert Vibe().roots(env) == roots


def test_a_store_elsewhere_is_named_to_the_program() -> None:
    assert Vibe().environment("/data/vibe") == {"VIBE_HOME": "/data/vibe"}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert Vibe().watches("/d") == [
        Watch("/d/logs/session/unified", 1),
        Watch("/d/logs/session", 1),
        Watch("/d/logs/session/active", 0),
    ]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"unified/{ID}/meta.json", "meta"),
        (f"unified/{ID}/CURRENT", "current"),
        ("session_20260701_190309_8d9f5934/meta.json", "legacy"),
        (f"active/{ID}.lock.json", "lock"),
        (f"active/{ID}.lock", None),
        ("active/.registry", None),
        (f"unified/{ID}/journal/0000000000000001.jsonl", None),
        (f"unified/{ID}/generations/0000000000000001/runtime-state.json", None),
        ("unified/.session-index.json", None),
        ("unified/x/meta.json", None),
        ("session_20260701_190309_8d9f5934/messages.jsonl", None),
        ("session_20260701_190309_8d9f5934/agents/x/meta.json", None),
        ("../../.env", None),
        ("../../config.toml", None),
    ],
)
def test_only_the_files_of_sessions_are_units(path: str, kind: str | None) -> None:
    unit = Vibe().unit("/d", f"/d/logs/session/{path}")
    assert (unit.kind if unit else None) == kind
    assert Vibe().unit("/other", f"/d/logs/session/{path}") is None


def test_a_session_is_resumed_by_its_id(store: Store) -> None:
    """The model is left to Vibe, which knows it."""
    store.put()
    argv = store.app.launch(store.row(ID), Settings(model="devstral", approval=DEFAULT), fork=False, folder="/else")
    assert argv == ["vibe", "--resume", ID]
