"""The sessions of Gemini CLI: those of its transcripts, and those of the files it had before."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents import gemini as sample
from fixtures.agents.gemini import context, header, message, old, project, turn, updated
from fixtures.agents.lines import write
from sessiond.apps._jsonl import TAIL
from sessiond.apps._store import MANIFEST
from sessiond.apps.base import Watch
from sessiond.apps.gemini import Gemini
from sessiond.session import Settings
from tests.apps.odd import ODD, replaced
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "1ec5fa22-43c5-4f6e-92bf-79db82927ae1"
OTHER = "fe33c4d9-0a86-4481-96d0-3ca548749677"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_000
HOME = "/srv/ana/home/machine1/home-gemini"
SUMMARY = {"$set": {"summary": "CI", "memoryScratchpad": {"version": 1}}}


class Store(Reader):
    """A folder of Gemini CLI to put transcripts into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Gemini(), root)

    def put(self, *records: dict[str, Any], id: str = ID, name: str = "22-43", at: int = NOW, **more: object) -> str:
        chats = project(str(self.root), "shop", CWD)
        return write(f"{chats}/session-2026-11-30T{name}-{id[:8]}.jsonl", header(id, CWD, at, **more), *records)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".gemini")


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    title: str
    updated: int
    cwd: str = "src/shop"
    model: str = "gemini-3.8-flash"
    hidden: str | None = None


RECORDED = {
    Seen("d8d165fa-a529-4c63-8761-4745b09e0e7f", "prompt in gone", 1796078701538, "src/gone"),
    Seen("fe33c4d9-0a86-4481-96d0-3ca548749677", "prompt in other", 1796078697955, "src/other"),
    Seen("1ec5fa22-43c5-4f6e-92bf-79db82927ae1", "Auto title rounding fix", 1796078740718),
    Seen("fadf4b01-cb3e-4ca3-ad26-d978b730d526", "Auto title rounding fix", 1796078694653),
    Seen("b6aa87bc-cbc7-488e-86df-85f0c0ad0ee0", "Auto title rounding fix", 1796078858203),
}
RECORDED_AGENT = "6e5c81f1-ffc5-4ff0-9c3d-1f91348d0434"


def test_a_recorded_store_gives_every_session(unpack: Callable[[str], Path]) -> None:
    """That of 0.61.0, in which one was resumed and so has a second file without a prompt."""
    reader = Store(unpack("others/gemini-cli-0.61.0") / ".gemini")
    rows = reader.rows()
    agent = rows.pop(RECORDED_AGENT)
    found = {
        Seen(row.id, row.title, row.updated, (row.cwd or "").removeprefix(f"{HOME}/"), row.model or "", row.hidden)
        for row in rows.values()
    }
    assert found == RECORDED
    for row in [agent, *rows.values()]:
        assert (row.launch_dir, row.branch, row.live) == (row.cwd, None, None)
        assert row.created
        assert row.created <= row.updated
    assert (agent.hidden, agent.cwd, agent.updated) == ("subagent", f"{HOME}/src/shop", 1796078694608)
    assert agent.title.startswith("Your task is to do a deep investigation")
    assert reader.app.prompts(rows[ID]) == ("cart total is off by a cent", "resumed")
    assert rows[ID].path.endswith("/session-2026-11-30T22-43-1ec5fa22.jsonl")
    assert not reader.problems


# Titles


@pytest.mark.parametrize("words", ["/help", "?", "  /help", sample.CONTEXT, "<hook_context>x</hook_context>", "  "])
def test_what_is_no_prompt_gives_no_title(store: Store, words: str) -> None:
    """What 0.61.0 itself passes over."""
    store.put(context(NOW), message("user", [{"text": words}], NOW), *turn("why is\nCI red?", NOW), *turn("2", NOW))
    assert store.row(ID).title == "why is CI red?"
    assert store.app.prompts(store.row(ID)) == ("why is\nCI red?", "2")


def test_a_prompt_is_taken_as_it_was_shown(store: Store) -> None:
    """Not with the files that it named, which are sent along."""
    sent = [{"text": "see @a.py"}, {"text": "--- content of a.py ---"}]
    store.put(message("user", sent, NOW, displayContent="see @a.py, please"))
    assert store.row(ID).title == "see @a.py, please"


def test_an_answer_of_a_tool_is_no_prompt(store: Store) -> None:
    tool = message("user", [{"functionResponse": {"response": {"output": "x"}}}], NOW + 9)
    store.put(*turn("why is CI red?", NOW), tool)
    assert store.app.prompts(store.row(ID)) == ("why is CI red?", "why is CI red?")


@pytest.mark.parametrize("size", [0, TAIL, 3 * TAIL])
def test_the_last_summary_is_the_title(store: Store, size: int) -> None:
    """It may be followed by a checkpoint of megabytes."""
    checkpoint = {"$set": {"messages": [message("user", [{"text": "x" * size}], NOW)]}}
    old_one = {"$set": {"summary": "old"}}
    store.put(*turn("why is CI red?", NOW), old_one, SUMMARY, checkpoint, updated(NOW + 5000), message("info", "", NOW))
    row = store.row(ID)
    assert (row.title, row.updated, row.model) == ("CI", NOW + 5000, "gemini-3.8-flash")


def test_a_transcript_that_was_written_anew_has_its_summary_in_the_first_line(store: Store) -> None:
    store.put(*turn("why is CI red?", NOW), summary="CI")
    assert store.row(ID).title == "CI"


# Copies and generations


@pytest.mark.parametrize("order", ["resumed", "again"])
def test_the_file_that_a_resume_leaves_does_not_count(store: Store, order: str) -> None:
    first, second = ("22-43", "22-45") if order == "resumed" else ("22-45", "22-43")
    path = store.put(*turn("why is CI red?", NOW), name=first)
    store.put(context(NOW + 9_000), name=second, at=NOW + 9_000)
    row = store.row(ID)
    assert (row.title, row.path, row.created, row.updated) == ("why is CI red?", path, NOW, NOW + 1000)


def test_a_session_goes_on_in_a_transcript_beside_its_old_file(store: Store) -> None:
    """A resume writes the file anew as a transcript, and leaves it."""
    chats = project(str(store.root), "shop", CWD)
    before = old(f"{chats}/session-2026-01-02T03-04-{ID[:8]}.json", ID, CWD, turn("why is CI red?", NOW), NOW)
    assert store.row(ID).path == before
    after = write(before + "l", header(ID, CWD, NOW), *turn("why is CI red?", NOW))
    assert (store.row(ID).path, store.row(ID).title) == (after, "why is CI red?")
    os.unlink(after)
    assert (store.row(ID).path, store.row(ID).hidden) == (before, None)


def test_a_store_that_was_moved_has_each_session_once(store: Store) -> None:
    """From a folder that is named after a digest to one with a name: a copy, which the first one survives."""
    digest = hashlib.sha256(CWD.encode()).hexdigest()
    name = f"chats/session-2026-01-02T03-04-{ID[:8]}.json"
    old(f"{store.root}/tmp/{digest}/{name}", ID, CWD, turn("why is CI red?", NOW), NOW)
    row = store.row(ID)
    assert (row.title, row.cwd, row.hidden) == ("why is CI red?", None, None)
    path = old(f"{os.path.dirname(project(str(store.root), 'shop', CWD))}/{name}", ID, CWD, turn("2", NOW), NOW)
    os.utime(path, (1, 1))
    assert (store.row(ID).path, store.row(ID).cwd) == (path, CWD)


def test_of_two_files_with_prompts_that_which_was_added_to_last_counts(store: Store) -> None:
    """Whatever their own times are, which later starts move."""
    store.put(*turn("why is CI red?", NOW), name="22-45")
    path = store.put(*turn("why is CI red?", NOW), *turn("2", NOW + 60_000), name="22-43")
    os.utime(path, (1, 1))
    assert (store.row(ID).path, store.row(ID).updated) == (path, NOW + 61_000)


@pytest.mark.parametrize(("name", "recorded"), [("shop", False), ("{digest}", False), ("other", True)])
def test_a_project_without_its_own_note_is_looked_up(store: Store, name: str, recorded: bool) -> None:
    """By name, by the digest it is named after, and by the digest in the transcript."""
    digest = hashlib.sha256(CWD.encode()).hexdigest()
    store.root.mkdir()
    projects = {"/elsewhere": "elsewhere", CWD: "shop", "/odd": None}
    (store.root / "projects.json").write_text(json.dumps({"projects": projects}))
    folder = f"{store.root}/tmp/{name.format(digest=digest)}/chats"
    first = header(ID, CWD, NOW) | ({} if recorded else {"projectHash": "0" * 64})
    write(f"{folder}/session-2026-11-30T22-43-{ID[:8]}.jsonl", first, *turn("hi", NOW))
    assert store.row(ID).cwd == CWD


@pytest.mark.parametrize("answer", [0, MANIFEST, 3 * MANIFEST])
def test_an_old_file_is_read_however_large(store: Store, answer: int) -> None:
    messages = [*turn("/help", NOW), *turn("why is CI red?", NOW), message("gemini", "x" * answer, NOW, model="m")]
    path = f"{project(str(store.root), 'shop', CWD)}/session-2026-01-02T03-04-{ID[:8]}.json"
    old(path, ID, CWD, messages, NOW, summary="CI", lastUpdated="2026-11-30T22:43:33.737Z")
    row = store.row(ID)
    assert (row.title, row.cwd, row.created, row.updated) == ("CI", CWD, NOW, 1796078613737)
    assert row.model == ("m" if not answer else "gemini-3.8-flash")
    assert store.app.prompts(row)[0] == "why is CI red?"
    assert store.read < MANIFEST


# What is hidden


@pytest.mark.parametrize(
    ("records", "more", "hidden"),
    [
        (turn("hi", NOW), {}, None),
        ([context(NOW)], {}, "empty"),
        ([], {}, "empty"),
        ([message("info", "hello", NOW)], {}, "empty"),
        ([message("user", "/help", NOW)], {}, "empty"),
        ([message("gemini", "Hello.", NOW, model="m")], {}, None),
        (turn("hi", NOW), {"kind": "subagent"}, "subagent"),
        ([], {"kind": "subagent"}, "subagent"),
    ],
)
def test_what_is_not_for_people_is_hidden(
    store: Store, records: list[dict[str, Any]], more: dict[str, Any], hidden: str | None
) -> None:
    store.put(*records, **more)
    assert store.row(ID).hidden == hidden


def test_a_session_whose_file_is_gone_is_deleted(store: Store) -> None:
    path = store.put(*turn("why is CI red?", NOW))
    row = store.row(ID)
    assert store.app.present(row)
    os.unlink(path)
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "why is CI red?")
    assert not store.app.present(row)


# Whatever is in it


@pytest.mark.parametrize("kind", ["json", "jsonl"])
@pytest.mark.parametrize(
    "key", ["sessionId", "projectHash", "startTime", "lastUpdated", "kind", "type", "content", "text", "model", "$set"]
)
def test_a_record_may_hold_anything(store: Store, kind: str, key: str) -> None:
    chats = project(str(store.root), "shop", CWD)
    path = f"{chats}/session-x-{ID[:8]}.{kind}"
    write(f"{chats}/session-y-{OTHER[:8]}.jsonl", header(OTHER, CWD, NOW), *turn("2", NOW))
    lines = [header(ID, CWD, NOW), *turn("hi", NOW), SUMMARY]
    records = [header(ID, CWD, NOW, messages=turn("hi", NOW), summary="CI")] if kind == "json" else lines
    for value in ODD:
        write(path, *replaced(records, key, value))
        rows = store.rows()
        assert OTHER in rows
        for row in rows.values():
            assert (row.cwd, isinstance(row.title, str)) == (CWD, True)
            assert row.model is None or isinstance(row.model, str)
            assert store.app.prompts(row)
        json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\0" * 50, b'"x"', b'{"sessionId":"../x"}\n', b"x" * (MANIFEST + 1)]
)
@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_a_file_that_is_no_session_is_none(store: Store, kind: str, content: bytes) -> None:
    chats = project(str(store.root), "shop", CWD)
    with open(f"{chats}/session-x-{ID[:8]}.{kind}", "wb") as target:
        target.write(content)
    assert store.rows() == {}


def test_an_old_file_met_half_written_keeps_its_session(store: Store) -> None:
    path = f"{project(str(store.root), 'shop', CWD)}/session-x-{ID[:8]}.json"
    old(path, ID, CWD, turn("why is CI red?", NOW), NOW)
    assert store.row(ID).title == "why is CI red?"
    os.truncate(path, 40)
    assert store.row(ID).title == "why is CI red?"


@pytest.mark.parametrize("content", ["", "relative", "/" + "x" * 5000, "\0"])
def test_a_folder_that_is_none_is_left_out(store: Store, content: str) -> None:
    store.put(*turn("hi", NOW))
    (store.root / "tmp/shop/.project_root").write_text(content)
    assert store.row(ID).cwd is None


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.gemini"]),
        ({"HOME": "/h", "GEMINI_CLI_HOME": "/data/"}, ["/data/.gemini"]),
        ({"HOME": "/h", "GEMINI_CLI_HOME": ""}, ["/h/.gemini"]),
        ({"HOME": "/h", "GEMINI_CLI_HOME": "data"}, []),
        ({}, ["/.gemini"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert Gemini().roots(env) == roots


def test_a_store_is_named_by_the_folder_that_holds_it() -> None:
    assert Gemini().environment("/data/.gemini") == {"GEMINI_CLI_HOME": "/data"}
    assert Gemini().environment("/data/gemini") == {}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert Gemini().watches("/d") == [Watch("/d/tmp", 3)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"tmp/shop/chats/session-2026-11-30T22-43-{ID[:8]}.jsonl", "transcript"),
        (f"tmp/shop/chats/session-2026-11-30T22-43-{ID[:8]}.json", "json"),
        (f"tmp/shop/chats/{ID}/{OTHER}.jsonl", "agent"),
        (f"tmp/shop/chats/session-2026-11-30T22-43-{ID[:8]}.jsonl.unreadable-1796078395000", None),
        (f"tmp/shop/chats/session-2026-11-30T22-43-{ID[:8]}.jsonl.tmp-4711", None),
        ("tmp/shop/chats/other.jsonl", None),
        ("tmp/shop/logs.json", None),
        ("tmp/shop/shell_history", None),
        ("tmp/shop/.project_root", None),
        ("tmp/shop/session-x.jsonl", None),
        ("tmp/../chats/session-x.jsonl", None),
        ("tmp/chats/session-x.jsonl", None),
        ("history/shop/chats/session-x.jsonl", None),
        ("oauth_creds.json", None),
        ("settings.json", None),
        ("antigravity-cli/tmp/x/chats/session-x.jsonl", None),
    ],
)
def test_only_transcripts_are_units(path: str, kind: str | None) -> None:
    unit = Gemini().unit("/d", f"/d/{path}")
    assert (unit.kind if unit else None) == kind
    assert Gemini().unit("/other", f"/d/{path}") is None


def test_a_session_is_resumed_by_its_id(store: Store) -> None:
    """The model is left to its router, and the folder is where it is started."""
    store.put(*turn("hi", NOW))
    argv = store.app.launch(store.row(ID), Settings(model="gemini-3.8-flash"), fork=False, folder="/else")
    assert argv == ["gemini", "--resume", ID]
