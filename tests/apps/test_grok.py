"""The sessions of Grok Build, from the summary of each."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents.grok import folder, history, nanoseconds, summary
from sessiond.apps.base import Watch
from sessiond.apps.grok import Grok
from sessiond.session import Settings
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "019f6851-7ec4-7ef0-97d3-03f3eee38755"
OTHER = "029f6851-7ec4-7ef0-97d3-03f3eee38755"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_088
HOME = "/srv/ana/home/machine1/home-grok"


class Store(Reader):
    """A folder of Grok to put sessions into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Grok(), root)

    def put(self, title: str = "CI", id: str = ID, at: int = NOW, folder: str = CWD, **more: object) -> str:
        return summary(str(self.root), id, folder, title, at, **more)

    def open(self, *entries: tuple[object, object]) -> None:
        listed = [{"session_id": session, "pid": pid, "opened_at": nanoseconds(NOW)} for session, pid in entries]
        (self.root / "active_sessions.json").write_text(json.dumps(listed, indent=2))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".grok")


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    title: str
    updated: int
    cwd: str = "src/shop"
    branch: str = "fix/rounding"
    hidden: str | None = None


DELEGATING = (
    'delegate %%TOOL:spawn_subagent:{"description":"look at tests","prompt":"list the tests",'
    '"subagent_type":"explore"}%%'
)
RECORDED = {
    Seen("01a22eab-24cd-70d2-b075-e2fc7430f1cc", "Auto title rounding fix", 1796080020546, "src/gone", "gone-branch"),
    Seen("01a22eab-2258-70c1-ac81-fdc364f75907", "prompt in other", 1796079297301, "src/other", "main"),
    Seen("01a22eaa-f0f3-79b1-9eb3-7c80c39030b6", "Auto title rounding fix", 1796080013915),
    Seen("01a22eab-1eea-7500-bf16-bb78d15ba8c0", DELEGATING, 1796079296680),
    Seen("01a22eab-1fa6-7d01-a42c-1ff06f105547", "Renamed in TUI: é", 1796079325150),
    Seen("01a22eab-1fcf-7371-a5aa-baaa98613566", "list the tests", 1796079296649, hidden="subagent"),
    Seen("01a22eb2-aaea-7c73-a08d-6b38e3d66a45", "", 1796079790979, hidden="empty"),
}


def test_a_recorded_store_gives_every_session(unpack: Callable[[str], Path]) -> None:
    reader = Store(unpack("others/grok-1.0.41") / ".grok")
    rows = reader.rows()
    seen = {(row.id, row.title, row.updated, row.cwd, row.branch, row.hidden) for row in rows.values()}
    assert seen == {want._replace(cwd=f"{HOME}/{want.cwd}") for want in RECORDED}
    for row in rows.values():
        assert (row.launch_dir, row.model, row.live, row.lost) == (row.cwd, "fake-model", None, None)
        assert row.created
        assert row.created <= row.updated
    resumed = rows["01a22eaa-f0f3-79b1-9eb3-7c80c39030b6"]
    assert (reader.app.prompts(resumed)[0], resumed.approval) == ("cart total is off by a cent", None)
    assert reader.app.prompts(rows["01a22eb2-aaea-7c73-a08d-6b38e3d66a45"]) == (None, None)
    assert not reader.problems


# Titles and prompts


@pytest.mark.parametrize(
    ("generated", "first", "title"),
    [
        ("Fix CI", "why", "Fix CI"),
        (" ", "why", "why"),
        (None, "why\nso", "why so"),
        (None, None, ""),
        (7, "why", "why"),
    ],
)
def test_a_session_without_a_title_is_called_by_its_first_prompt(
    store: Store, generated: object, first: object, title: str
) -> None:
    store.put(generated_title=generated, session_summary=first)
    assert store.row(ID).title == title


def test_prompts_are_shown_as_they_were_typed(store: Store) -> None:
    store.put()
    history(str(store.root), ID, CWD, "round half even\nplease", "see <user_query> too")
    assert store.app.prompts(store.row(ID)) == ("round half even\nplease", "see <user_query> too")


# Older releases, copies, what is hidden


def test_a_summary_of_an_older_release_is_read(store: Store) -> None:
    """With microseconds, and without what came later (reported)."""
    store.put(last_active_at=None, generated_title=None, updated_at="2026-08-20T09:14:02.118940Z", head_branch=None)
    row = store.row(ID)
    assert (row.title, row.branch, row.updated) == ("CI", None, 1787217242118)


@pytest.mark.parametrize(
    ("more", "hidden"),
    [
        ({}, None),
        ({"session_kind": "headless"}, None),
        ({"session_kind": "fork", "parent_session_id": OTHER}, None),
        ({"session_kind": "subagent"}, "subagent"),
        ({"session_kind": "subagent_fork"}, "subagent"),
        ({"hidden": True}, "subagent"),
        ({"hidden": False}, None),
        ({"num_messages": 0}, "empty"),
        ({"num_messages": None}, None),
        ({"num_messages": 0, "session_kind": "subagent"}, "subagent"),
    ],
)
def test_what_is_not_for_people_is_hidden(store: Store, more: dict[str, Any], hidden: str | None) -> None:
    store.put(**more)
    assert store.row(ID).hidden == hidden


@pytest.mark.parametrize(("first", "second"), [(NOW, NOW + 1), (NOW + 1, NOW)])
def test_of_two_folders_with_one_session_that_used_last_counts(store: Store, first: int, second: int) -> None:
    paths = {first: store.put("here", at=first), second: store.put("there", at=second, folder="/else")}
    row = store.row(ID)
    assert (row.path, row.updated) == (paths[max(paths)], max(paths))
    shutil.rmtree(os.path.dirname(row.path))
    assert (store.row(ID).path, store.row(ID).hidden) == (paths[min(paths)], None)


def test_a_session_that_was_deleted_is_so_and_is_not_looked_for_in_the_network(store: Store) -> None:
    """For an id that is not there 1.0.41 goes to the network."""
    store.put()
    row = store.row(ID)
    assert store.app.present(row)
    shutil.rmtree(folder(str(store.root), ID, CWD))
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "CI")
    assert not store.app.present(row)


# Whatever is in it


ODD: list[Any] = [None, 7, -1, [], {}, {"a": []}, "", "\ud800", "\0", 10**400, True, "\x1b[31m", "x" * 9999]


@pytest.mark.parametrize(
    "key",
    [
        "generated_title",
        "created_at",
        "last_active_at",
        "current_model_id",
        "head_branch",
        "session_kind",
        "num_messages",
    ],
)
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_a_summary_may_hold_anything(store: Store, key: str, value: Any) -> None:
    store.put(**{key: value})
    row = store.row(ID)
    assert row.updated
    assert all(words is None or isinstance(words, str) for words in (row.model, row.branch))
    json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("info", [None, 7, {}, {"id": OTHER, "cwd": CWD}, {"id": None}, [ID]])
def test_a_summary_of_another_session_is_none(store: Store, info: object) -> None:
    store.put(info=info)
    assert store.rows() == {}


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\0" * 50, b'"x"'])
def test_a_summary_met_half_written_keeps_its_session(store: Store, content: bytes) -> None:
    path = store.put()
    assert store.row(ID).title == "CI"
    with open(path, "wb") as target:
        target.write(content)
    assert (store.row(ID).title, store.row(ID).cwd) == ("CI", CWD)


@pytest.mark.parametrize("line", [b"", b"\0", b"{", b'{"type":"user"}', b'{"type":"user","content":[7,{"text":"x"}]}'])
def test_a_history_may_hold_anything(store: Store, line: bytes) -> None:
    path = store.put()
    with open(os.path.join(os.path.dirname(path), "chat_history.jsonl"), "wb") as target:
        target.write(line + b"\n")
    assert store.app.prompts(store.row(ID)) == (None, None)


# Who has it open


def test_a_session_that_a_process_has_open_is_live(store: Store) -> None:
    store.put()
    assert (store.row(ID).live, store.app.live(store.row(ID))) == (None, None)
    store.open((ID, os.getpid()), (ID, 2**31 - 1))
    row = store.row(ID)
    assert (row.live, row.lost) == ("idle", None)
    assert any(scan.volatile for _, scan in store.scans.values())
    live = store.app.live(row)
    assert live
    assert not live.certain
    assert f"in process {os.getpid()}" in live.where
    store.open()
    assert (store.row(ID).live, store.row(ID).lost, store.app.live(row)) == (None, None, None)


def test_a_session_whose_process_left_it_in_the_list_is_lost(store: Store) -> None:
    store.put()
    store.open((ID, 2**31 - 1))
    row = store.row(ID)
    assert (row.live, store.app.live(row)) == (None, None)
    assert row.lost == os.stat(store.root / "active_sessions.json").st_mtime_ns // 1_000_000


@pytest.mark.parametrize("entry", [(ID, None), (ID, "1"), (ID, 10**400), (ID, -1), (7, 1), ("-rf", 1), (OTHER, 1)])
def test_the_list_may_hold_anything(store: Store, entry: tuple[object, object]) -> None:
    store.put()
    store.open(entry)
    assert list(store.rows()) == [ID]
    assert (store.row(ID).live, store.app.live(store.row(ID))) == (None, None)


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.grok"]),
        ({"HOME": "/home/ana", "GROK_HOME": "/data/grok/"}, ["/data/grok"]),
        ({"HOME": "/home/ana", "GROK_HOME": ""}, ["/home/ana/.grok"]),
        ({}, ["/.grok"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert Grok().roots(env) == roots


def test_a_store_elsewhere_is_named_to_the_program() -> None:
    assert Grok().environment("/data/grok") == {"GROK_HOME": "/data/grok"}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert Grok().watches("/d") == [Watch("/d/sessions", 2), Watch("/d", 0)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"sessions/%2Fhome%2Fana/{ID}/summary.json", "summary"),
        (f"sessions/shop-0123456789abcdef/{ID}/summary.json", "summary"),
        ("active_sessions.json", "open"),
        (f"sessions/%2Fhome%2Fana/{ID}/chat_history.jsonl", None),
        (f"sessions/%2Fhome%2Fana/{ID}/summary.json.lock", None),
        (f"sessions/%2Fhome%2Fana/{ID}/subagents/{OTHER}/meta.json", None),
        ("sessions/%2Fhome%2Fana/prompt_history.jsonl", None),
        ("sessions/session_search.sqlite", None),
        ("auth.json", None),
        ("config.toml", None),
        ("grok.db", None),
    ],
)
def test_only_the_files_of_sessions_are_units(path: str, kind: str | None) -> None:
    unit = Grok().unit("/d", f"/d/{path}")
    assert (unit.kind if unit else None) == kind
    assert Grok().unit("/other", f"/d/{path}") is None


@pytest.mark.parametrize(("fork", "more"), [(False, []), (True, ["--fork-session"])])
def test_a_session_is_resumed_by_its_id(store: Store, more: list[str], *, fork: bool) -> None:
    """Model and folder are left to Grok, which knows both."""
    store.put()
    argv = store.app.launch(store.row(ID), Settings(model="grok-5"), fork=fork, folder="/else")
    assert argv == ["grok", "--resume", ID, *more]
