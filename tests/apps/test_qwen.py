"""The sessions of Qwen Code: those of its transcripts, and those of the files that its first releases wrote."""

from __future__ import annotations

import json
import os
import shutil
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents import gemini
from fixtures.agents.lines import write
from fixtures.agents.qwen import answered, asked, noted, record
from sessiond.apps._jsonl import TAIL
from sessiond.apps.base import Watch
from sessiond.apps.qwen import Qwen
from sessiond.session import Settings
from tests.apps.odd import ODD, replaced
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "033a1b34-f4a1-4490-99e3-b6cb9dd9a00d"
OTHER = "09277e02-ad99-4527-852a-fc6b096d37f1"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_000
HOME = "/srv/ana/home/machine1/home-qwen"
CONTEXT = "<qwen:user-prompt-submit-context>\nthe branch is main\n</qwen:user-prompt-submit-context>"


class Store(Reader):
    """A folder of Qwen Code to put transcripts into."""

    def __init__(self, root: Path) -> None:
        super().__init__(Qwen(), root)

    def put(self, *records: dict[str, Any], id: str = ID, folder: str = "projects/-home-ana-src-shop/chats") -> str:
        return write(f"{self.root}/{folder}/{id}.jsonl", *records)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / ".qwen")


def prompt(words: str = "why is CI red?", at: int = NOW, **more: object) -> dict[str, Any]:
    return asked(ID, CWD, at, words, **more)


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    title: str
    updated: int
    cwd: str = "src/shop"
    branch: str = "fix/rounding"
    model: str = "fake-model"


RECORDED = {
    Seen("ba2006bf-94f9-47ca-a105-6fbc383fc6f8", "prompt in gone", 1796078930300, "src/gone", "gone-branch"),
    Seen("dec3f77e-838c-4149-bb23-4eac7f52a20f", "prompt in other", 1796078923849, "src/other", "main"),
    Seen("033a1b34-f4a1-4490-99e3-b6cb9dd9a00d", "cart total is off by a cent", 1796078914901),
    Seen("09277e02-ad99-4527-852a-fc6b096d37f1", "Renamed in TUI: é", 1796078982147),
    Seen("42514a20-ce2c-4ef5-a29b-c405bbbfafa7", "delegate again", 1796079025984),
    Seen("bf27d4d4-5bf4-4d8c-836a-ac0c304e0095", "delegate please", 1796078990638),
}


def test_a_recorded_store_gives_every_session(unpack: Callable[[str], Path]) -> None:
    """That of 0.24.4. A sub-agent lies in a folder of its own, and is none."""
    reader = Store(unpack("others/qwen-code-0.24.4") / ".qwen")
    rows = reader.rows()
    found = set()
    for row in rows.values():
        title, cwd = row.title.split(" %%")[0].split(" @@")[0], (row.cwd or "").removeprefix(f"{HOME}/")
        found.add(Seen(row.id, title, row.updated, cwd, row.branch or "", row.model or ""))
        assert (row.launch_dir, row.live, row.hidden, row.archived) == (row.cwd, None, None, False)
        assert row.created
        assert row.created <= row.updated
        assert reader.app.present(row)
    assert found == RECORDED
    assert reader.app.prompts(rows[OTHER]) == ("interactive prompt in tui", "interactive prompt in tui")
    last = reader.app.prompts(rows["42514a20-ce2c-4ef5-a29b-c405bbbfafa7"])[1]
    assert last
    assert last.startswith("delegate again")
    assert not reader.problems


# Titles, folders, branches


@pytest.mark.parametrize(
    "words",
    [
        {"words": "why is\nCI red?"},
        {"words": f"why is CI red?\n{CONTEXT}"},
        {"words": f"{CONTEXT}\nwhy is CI red?"},
        {"words": "see: a file", "systemPayload": {"displayText": "why is CI red?"}},
    ],
)
def test_the_first_prompt_is_the_title(store: Store, words: dict[str, Any]) -> None:
    """Not what a hook added, nor what a task or a schedule sent in a person's name."""
    notice = prompt("<task-notification>", subtype="notification")
    unseen = prompt("sent", systemPayload={"displayText": ""})
    store.put(notice, unseen, prompt(CONTEXT), prompt(**words), prompt("2"), prompt("cron", subtype="cron"))
    assert store.row(ID).title == "why is CI red?"
    assert store.app.prompts(store.row(ID))[1] == "2"


@pytest.mark.parametrize("size", [0, TAIL, 3 * TAIL])
def test_the_last_name_is_the_title(store: Store, size: int) -> None:
    names = [noted(ID, CWD, NOW, "custom_title", customTitle=name) for name in ("old", "CI")]
    result = record("tool_result", ID, CWD, NOW + 5, message={"parts": [{"text": "x" * size}]})
    store.put(prompt(), *names, result, answered(ID, CWD, NOW + 9))
    row = store.row(ID)
    assert (row.title, row.updated, row.model) == ("CI", NOW + 9, "qwen4-coder")


def test_two_records_on_one_line_are_two(store: Store) -> None:
    path = store.put(prompt())
    with open(path, "a", encoding="utf-8") as target:
        target.write(
            json.dumps(answered(ID, CWD, NOW)) + json.dumps(noted(ID, CWD, NOW + 7, "custom_title", customTitle="CI"))
        )
    row = store.row(ID)
    assert (row.title, row.model, row.updated) == ("CI", "qwen4-coder", NOW + 7)


@pytest.mark.parametrize(
    ("cwd", "launch_dir"),
    [(CWD, CWD), (f"{CWD}/.qwen/worktrees/fix", CWD), ("/.qwen/worktrees/fix", "/.qwen/worktrees/fix")],
)
def test_a_worktree_is_resumed_from_its_project(store: Store, cwd: str, launch_dir: str) -> None:
    store.put(asked(ID, cwd, NOW, "hi"))
    assert (store.row(ID).cwd, store.row(ID).launch_dir) == (cwd, launch_dir)


@pytest.mark.parametrize(("last", "branch"), [("main", "main"), (None, None), ("HEAD", None), ("", None)])
def test_folder_and_branch_are_the_last_and_the_launch_folder_is_the_first(
    store: Store, last: str | None, branch: str | None
) -> None:
    end = {key: value for key, value in answered(ID, "/else", NOW + 1).items() if key != "gitBranch"}
    store.put(prompt(), end | ({} if last is None else {"gitBranch": last}))
    row = store.row(ID)
    assert (row.launch_dir, row.cwd, row.branch) == (CWD, "/else", branch)


# Copies, generations, and what is hidden


def test_a_transcript_counts_more_than_its_copy_in_the_archive(store: Store) -> None:
    filed = store.put(prompt("old"), folder="projects/-home-ana-src-shop/chats/archive")
    row = store.row(ID)
    assert (row.title, row.archived, row.hidden, store.app.present(row)) == ("old", True, None, False)
    path = store.put(prompt("new"))
    row = store.row(ID)
    assert (row.title, row.path, row.archived, store.app.present(row)) == ("new", path, False, True)
    os.unlink(path)
    assert (store.row(ID).path, store.row(ID).archived) == (filed, True)


def test_of_two_copies_of_a_session_the_newest_counts(store: Store) -> None:
    old, new = store.put(prompt("old")), store.put(prompt("new"), folder="projects/-else/chats")
    os.utime(old, (1, 1))
    assert (store.row(ID).title, store.row(ID).path) == ("new", new)


def test_a_file_of_the_first_releases_is_listed_but_not_resumed(store: Store) -> None:
    path = f"{store.root}/tmp/{'0' * 64}/chats/session-2025-09-02T03-04-{ID[:8]}.json"
    gemini.old(path, ID, CWD, gemini.turn("why is CI red?", NOW), NOW, summary="CI")
    row = store.row(ID)
    assert (row.title, row.cwd, row.updated, row.hidden) == ("CI", None, NOW, "not-resumable")
    assert store.app.prompts(row) == ("why is CI red?", "why is CI red?")


@pytest.mark.parametrize(
    ("records", "hidden"),
    [
        ([prompt()], None),
        ([answered(ID, CWD, NOW)], None),
        ([noted(ID, CWD, NOW, "attribution_snapshot")], "empty"),
        ([prompt("x", subtype="notification")], "empty"),
        ([noted(ID, CWD, NOW, "parent_session", parentSessionId=OTHER), prompt()], "subagent"),
    ],
)
def test_what_is_not_for_people_is_hidden(store: Store, records: list[dict[str, Any]], hidden: str | None) -> None:
    store.put(*records)
    assert store.row(ID).hidden == hidden


def test_a_session_whose_file_is_gone_is_deleted(store: Store) -> None:
    path = store.put(prompt())
    row = store.row(ID)
    os.unlink(path)
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "why is CI red?")
    assert not store.app.present(row)


# Whatever is in it


@pytest.mark.parametrize(
    "key",
    [
        *("sessionId", "timestamp", "type", "cwd", "gitBranch", "model", "message", "parts", "text"),
        *("subtype", "systemPayload", "customTitle"),
    ],
)
def test_a_record_may_hold_anything(store: Store, key: str) -> None:
    records = [prompt(), answered(ID, CWD, NOW + 1), noted(ID, CWD, NOW + 2, "custom_title", customTitle="CI")]
    store.put(asked(OTHER, CWD, NOW, "2"), id=OTHER)
    for value in ODD:
        store.put(*replaced(records, key, value))
        rows = store.rows()
        assert OTHER in rows
        for row in rows.values():
            for text in (row.cwd, row.launch_dir, row.branch, row.model):
                assert text is None or isinstance(text, str)
            assert isinstance(row.title, str)
            assert store.app.prompts(row)
        json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\0" * 50, b'"x"', b'{"type":"user"}\n'])
def test_a_file_that_is_no_session_is_none(store: Store, content: bytes) -> None:
    path = store.put(prompt())
    with open(path, "wb") as target:
        target.write(content)
    assert store.rows() == {}


@pytest.mark.parametrize(("id", "found"), [(ID, True), (ID.upper(), True), (OTHER, False)])
def test_the_first_record_has_to_agree_with_the_name(store: Store, id: str, found: bool) -> None:
    store.put(asked(id, CWD, NOW, "hi"), asked(ID, CWD, NOW, "2"))
    assert (ID in store.rows()) is found


# Who has it open


def runtime(path: str, **more: object) -> None:
    note = {"schema_version": 1, "pid": os.getpid(), "session_id": ID, "hostname": socket.gethostname()} | more
    with open(path.removesuffix(".jsonl") + ".runtime.json", "w", encoding="utf-8") as target:
        json.dump(note, target)


@pytest.mark.parametrize(
    "more",
    [
        {"pid": 2**30},
        {"pid": None},
        {"pid": -1},
        {"pid": "1; rm"},
        {"session_id": OTHER},
        {"hostname": "elsewhere"},
    ],
)
def test_a_note_of_another_process_says_nothing(store: Store, more: dict[str, Any]) -> None:
    runtime(store.put(prompt()), **more)
    assert store.app.live(store.row(ID)) is None


def test_a_session_may_be_open_in_the_process_that_is_noted(store: Store) -> None:
    """The note stays when a process ends, and another may have its number by then."""
    path = store.put(prompt())
    assert store.app.live(store.row(ID)) is None
    runtime(path)
    live = store.app.live(store.row(ID))
    assert live
    assert not live.certain
    assert live.where.startswith(f"in process {os.getpid()}")


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.qwen"]),
        ({"HOME": "/h", "QWEN_HOME": "/data/qwen/"}, ["/data/qwen"]),
        ({"HOME": "/h", "QWEN_HOME": "~/qwen"}, ["/h/qwen"]),
        ({"HOME": "/h", "QWEN_RUNTIME_DIR": "/run/qwen"}, ["/run/qwen", "/h/.qwen"]),
        ({"HOME": "/h", "QWEN_RUNTIME_DIR": "~", "QWEN_HOME": "/h"}, ["/h"]),
        ({"HOME": "/h", "QWEN_RUNTIME_DIR": "run"}, ["/h/.qwen"]),
        ({}, ["/.qwen"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert Qwen().roots(env) == roots


def test_a_store_is_named_by_the_variable_that_it_was_found_by() -> None:
    """The one for sessions alone leaves account and settings where they are."""
    assert Qwen({}).environment("/data/qwen") == {"QWEN_HOME": "/data/qwen"}
    env = {"QWEN_RUNTIME_DIR": "/run/qwen", "QWEN_HOME": "/data/qwen"}
    assert Qwen(env).environment("/run/qwen") == env
    assert Qwen(env).environment("/data/qwen") == {"QWEN_HOME": "/data/qwen"}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert Qwen().watches("/d") == [Watch("/d/projects", 3), Watch("/d/tmp", 2)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"projects/-x/chats/{ID}.jsonl", "transcript"),
        (f"projects/-x/chats/archive/{ID}.jsonl", "archived"),
        (f"tmp/x/chats/session-2025-09-02T03-04-{ID[:8]}.json", "json"),
        (f"projects/-x/chats/{ID}.runtime.json", None),
        (f"projects/-x/chats/{ID}.ledger.jsonl", None),
        (f"projects/-x/chats/{ID}.jsonl.maintenance", None),
        (f"projects/-x/subagents/{ID}/agent-x.jsonl", None),
        ("projects/-x/chats/history.jsonl", None),
        (f"projects/../chats/{ID}.jsonl", None),
        (f"projects/-x/{ID}.jsonl", None),
        ("usage_record.jsonl", None),
        ("oauth_creds.json", None),
        ("settings.json", None),
    ],
)
def test_only_transcripts_are_units(path: str, kind: str | None) -> None:
    unit = Qwen().unit("/d", f"/d/{path}")
    assert (unit.kind if unit else None) == kind
    assert Qwen().unit("/other", f"/d/{path}") is None


@pytest.mark.parametrize(
    ("settings", "fork", "argv"),
    [
        (Settings(), False, ["qwen", "--resume", ID]),
        (Settings(model="qwen4-coder"), False, ["qwen", "--model", "qwen4-coder", "--resume", ID]),
        (Settings(), True, ["qwen", "--resume", ID, "--fork-session"]),
    ],
)
def test_a_session_is_resumed_by_its_id(store: Store, settings: Settings, fork: bool, argv: list[str]) -> None:
    store.put(prompt())
    assert store.app.launch(store.row(ID), settings, fork=fork, folder="/else") == argv


def test_a_transcript_that_grows_is_read_on_from_where_it_ended(store: Store) -> None:
    path = store.put(prompt(), *[record("tool_result", ID, CWD, NOW, message="x" * 1000)] * 300)
    assert store.row(ID).title == "why is CI red?"
    read = store.read
    with open(path, "a", encoding="utf-8") as target:
        target.write(json.dumps(answered(ID, CWD, NOW + 60)) + "\n")
    assert store.row(ID).updated == NOW + 60
    assert store.read - read < 10_000
    shutil.copyfile(store.put(prompt("another"), id=OTHER), path)
    assert store.row(ID).title == "another"
