"""The sessions of pi, from its transcripts."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures.agents.lines import write
from fixtures.agents.pi import answered, asked, header, message, named
from sessiond.apps._jsonl import LOOK_BACK, TAIL
from sessiond.apps.base import Watch
from sessiond.apps.pi import Pi
from sessiond.session import Settings
from tests.apps.odd import ODD, replaced
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "01a22ea4-36a0-739d-8ff4-e66289010282"
OTHER = "01a22ea4-73e7-70c7-826b-1bbd00f3a718"
CWD = "/home/ana/src/shop"
NOW = 1_796_078_395_088
HOME = "/srv/ana/home/machine1/home-pi"


class Store(Reader):
    """A folder of pi to put transcripts into."""

    def __init__(self, root: Path, env: dict[str, str] | None = None) -> None:
        super().__init__(Pi(env or {}), root)

    def put(self, *records: dict[str, Any], id: str = ID, folder: str = "sessions/--home-ana-src-shop--") -> str:
        path = self.root / folder / f"2026-11-30T22-47-23-556Z_{id}.jsonl"
        return write(str(path), header(id, CWD, NOW), *records)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "agent")


class Seen(NamedTuple):
    """What a correct reader shows of a recorded session."""

    id: str
    title: str
    updated: int
    cwd: str = "src/shop"
    model: str = "fake-model"


RECORDED = {
    Seen("01a22ea4-816c-74e2-b56b-7349401cf17f", "prompt in gone", 1796078863421, "src/gone"),
    Seen("01a22ea4-7a24-73df-8d81-7eb84f049842", "prompt in other", 1796078861590, "src/other"),
    Seen("01a22ea4-36a0-739d-8ff4-e66289010282", "cart total is off by a cent", 1796078899608),
    Seen("01a22ea4-73e7-70c7-826b-1bbd00f3a718", "Fix cart rounding", 1796078859694),
    Seen("01a22ea4-86f5-7241-b88d-1df5b8933015", "Renamed in TUI: é", 1796078872580),
}


def test_a_recorded_store_gives_every_session(unpack: Callable[[str], Path]) -> None:
    """That of 1.6.0."""
    reader = Store(unpack("others/pi-1.6.0") / ".pi/agent")
    rows = reader.rows()
    found = {
        Seen(row.id, row.title, row.updated, (row.cwd or "").removeprefix(f"{HOME}/"), row.model or "")
        for row in rows.values()
    }
    assert found == RECORDED
    for row in rows.values():
        assert (row.launch_dir, row.branch, row.live, row.hidden) == (row.cwd, None, None, None)
        assert row.created
        assert row.created <= row.updated
    assert reader.app.prompts(rows[ID]) == ("cart total is off by a cent", "own by id")
    assert not reader.problems


# Titles


@pytest.mark.parametrize(
    ("names", "title"),
    [
        ([], "why is CI red?"),
        (["CI"], "CI"),
        (["CI", "CD"], "CD"),
        (["CI", ""], "why is CI red?"),
        (["CI", "  "], "why is CI red?"),
        (["CI", None], "why is CI red?"),
        (["", "CD"], "CD"),
    ],
)
def test_the_last_name_is_the_title_and_an_empty_one_takes_it_away(store: Store, names: list[Any], title: str) -> None:
    said = [named(name, NOW + 9) for name in names]
    store.put(message("system", "You are", NOW), asked("why is\nCI red?", NOW + 1), answered(NOW + 2), *said)
    assert store.row(ID).title == title


def test_a_name_given_before_the_first_prompt_counts(store: Store) -> None:
    store.put(named("CI", NOW), asked("why is CI red?", NOW))
    assert store.row(ID).title == "CI"


@pytest.mark.parametrize("content", ["why is CI red?", [{"type": "image"}, {"type": "text", "text": "why is CI red?"}]])
def test_the_first_text_of_a_person_is_the_prompt(store: Store, content: object) -> None:
    store.put(
        message("user", [{"type": "image"}], NOW), message("toolResult", "no", NOW), message("user", content, NOW)
    )
    assert store.row(ID).title == "why is CI red?"
    assert store.app.prompts(store.row(ID)) == ("why is CI red?", "why is CI red?")


def filler(length: int) -> list[dict[str, Any]]:
    return [message("toolResult", "x" * 50_000, NOW + 5)] * (length // 50_000 + 1)


@pytest.mark.parametrize("size", [20_000, 400_000])
def test_a_prompt_with_a_pasted_image_is_read_though_its_line_is_long(store: Store, size: int) -> None:
    parts = [{"type": "text", "text": "why is CI red?"}, {"type": "image", "data": "x" * size}]
    store.put(message("user", parts, NOW), *filler(TAIL), asked("2", NOW + 1))
    assert store.row(ID).title == "why is CI red?"
    assert store.app.prompts(store.row(ID)) == ("why is CI red?", "2")


@pytest.mark.parametrize(("before", "after"), [(0, TAIL), (TAIL, TAIL), (TAIL, 0), (LOOK_BACK, TAIL)])
def test_a_name_is_found_wherever_it_stands(store: Store, before: int, after: int) -> None:
    """Between head and tail a second look finds it, in the tail and before the first prompt the first one."""
    records = [asked("why is CI red?", NOW), *filler(before), named("CI", NOW), *filler(after), answered(NOW + 9)]
    store.put(*records)
    row = store.row(ID)
    assert (row.title, row.model, row.updated) == ("CI", "claude-sonnet-5", NOW + 9)
    assert all(scan.complete for _, scan in store.scans.values())


def test_a_name_once_seen_stays_though_the_file_is_written_anew(store: Store) -> None:
    """As for one of an older layout, with the name too far back to be looked for again."""
    opening = asked("why is CI red?", NOW), named("CI", NOW), *filler(TAIL // 2)
    store.put(*opening)
    assert store.row(ID).title == "CI"
    path = store.put({"type": "custom"}, *opening, *filler(LOOK_BACK + TAIL), answered(NOW + 9))
    assert os.path.getsize(path) > LOOK_BACK + TAIL
    assert store.row(ID).title == "CI"


def test_a_prompt_that_comes_later_is_the_title(store: Store) -> None:
    path = store.put(*filler(0))
    assert store.row(ID).title == ""
    with open(path, "a", encoding="utf-8") as target:
        target.write(json.dumps(asked("why is CI red?", NOW)) + "\n")
    assert (store.row(ID).title, store.row(ID).hidden) == ("why is CI red?", None)


def test_a_transcript_that_grows_is_read_on_from_where_it_ended(store: Store) -> None:
    path = store.put(named("CI", NOW), asked("why is CI red?", NOW + 1), answered(NOW + 2), *filler(TAIL // 2))
    assert store.row(ID).title == "CI"
    read = store.read
    with open(path, "a", encoding="utf-8") as target:
        target.write(json.dumps(answered(NOW + 60, "gpt-6")) + "\n")
    row = store.row(ID)
    assert (row.title, row.model, row.updated) == ("CI", "gpt-6", NOW + 60)
    assert store.read - read < 10_000


# Copies, and what is hidden


def test_of_two_copies_of_a_session_the_newest_counts(store: Store) -> None:
    old = store.put(asked("old", NOW))
    new = store.put(asked("new", NOW + 1), folder="sessions/--elsewhere--")
    os.utime(old, (1, 1))
    assert (store.row(ID).title, store.row(ID).path) == ("new", new)
    os.unlink(new)
    assert (store.row(ID).title, store.row(ID).path, store.row(ID).hidden) == ("old", old, None)


def test_a_fork_is_a_session_of_its_own(store: Store) -> None:
    store.put(asked("why is CI red?", NOW))
    write(f"{store.root}/sessions/--x--/f.jsonl", header(OTHER, CWD, NOW, parentSession="/x.jsonl"), asked("2", NOW))
    assert {(row.id, row.hidden) for row in store.rows().values()} == {(ID, None), (OTHER, None)}


@pytest.mark.parametrize(
    ("records", "hidden"),
    [
        ([], "empty"),
        ([{"type": "model_change", "provider": "x", "modelId": "y", "timestamp": "2026-11-30T22:47:43Z"}], "empty"),
        ([message("user", [{"type": "image"}], NOW)], None),
        ([named("CI", NOW)], None),
    ],
)
def test_a_session_in_which_nothing_was_asked_is_hidden(store: Store, records: list[Any], hidden: str | None) -> None:
    store.put(*records)
    assert store.row(ID).hidden == hidden


def test_a_session_whose_file_is_gone_is_deleted(store: Store) -> None:
    path = store.put(asked("why is CI red?", NOW))
    row = store.row(ID)
    os.unlink(path)
    assert (store.row(ID).hidden, store.row(ID).title) == ("deleted", "why is CI red?")
    assert not store.app.present(row)


def test_a_file_of_the_first_releases_is_read(store: Store) -> None:
    """Without version and without ids, as reported of those before 0.30; pi rewrites it when it opens it."""
    first, prompt = header(ID, CWD, NOW), asked("why is CI red?", NOW)
    del first["version"], prompt["id"], prompt["parentId"]
    write(f"{store.root}/sessions/--x--/a.jsonl", first, prompt)
    assert store.row(ID).title == "why is CI red?"


# Whatever is in it


@pytest.mark.parametrize(
    "key", ["type", "id", "timestamp", "cwd", "message", "name", "modelId", "role", "content", "text"]
)
def test_a_record_may_hold_anything(store: Store, key: str) -> None:
    change = {"provider": "x", "type": "model_change", "modelId": "y", "timestamp": "2026-11-30T22:47:43Z"}
    records = [header(ID, CWD, NOW), change, asked("hi", NOW), answered(NOW + 1), named("CI", NOW + 2)]
    write(f"{store.root}/sessions/x/b.jsonl", header(OTHER, CWD, NOW), asked("2", NOW))
    for value in ODD:
        write(f"{store.root}/sessions/x/a.jsonl", *replaced(records, key, value))
        rows = store.rows()
        assert OTHER in rows
        for row in rows.values():
            for text in (row.cwd, row.model):
                assert text is None or isinstance(text, str)
            assert isinstance(row.title, str)
            assert store.app.prompts(row)
        json.dumps([scan.facts for _, scan in store.scans.values()])


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\0" * 50, b'"x"', b'{"type":"message"}\n', b'{"type":"session"}\n']
)
def test_a_file_that_is_no_session_is_none(store: Store, content: bytes) -> None:
    path = store.put(asked("hi", NOW))
    with open(path, "wb") as target:
        target.write(content)
    assert store.rows() == {}


def test_a_file_met_half_written_keeps_its_session(store: Store) -> None:
    """It rewrites the file of an older release in place."""
    path = store.put(asked("why is CI red?", NOW))
    row = store.row(ID)
    os.truncate(path, 0)
    assert store.row(ID).title == "why is CI red?"
    assert not store.app.present(row)
    store.put(asked("why is CI red?", NOW), named("CI", NOW))
    assert store.row(ID).title == "CI"
    assert store.app.present(row)


def test_torn_and_foreign_lines_are_skipped(store: Store) -> None:
    path = store.put()
    with open(path, "ab") as target:
        target.write(
            b"\n\0\0\0{\n" + json.dumps(asked("hi", NOW)).encode() + json.dumps(named("CI", NOW)).encode() + b"\n{"
        )
    assert store.row(ID).title == "CI"


# Where it lies


@pytest.mark.parametrize(
    ("env", "roots"),
    [
        ({"HOME": "/home/ana"}, ["/home/ana/.pi/agent"]),
        ({"HOME": "/h", "PI_CODING_AGENT_DIR": "/data/pi/"}, ["/data/pi"]),
        ({"HOME": "/h", "PI_CODING_AGENT_DIR": "~/pi"}, ["/h/pi"]),
        ({"HOME": "/h", "PI_CODING_AGENT_DIR": "pi"}, []),
        ({"HOME": "/h", "PI_CODING_AGENT_SESSION_DIR": "/s"}, ["/s", "/h/.pi/agent"]),
        ({"HOME": "/h", "PI_CODING_AGENT_SESSION_DIR": "s"}, ["/h/.pi/agent"]),
        ({}, ["/.pi/agent"]),
    ],
)
def test_the_environment_says_where_the_store_is(env: dict[str, str], roots: list[str]) -> None:
    assert Pi(env).roots(env) == roots


def test_a_folder_for_sessions_alone_is_read(store: Store) -> None:
    store.put(asked("hi", NOW), folder=".")
    assert store.row(ID).title == "hi"


def test_a_store_is_named_by_the_variable_that_it_was_found_by(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    app = Pi({"PI_CODING_AGENT_SESSION_DIR": f"{tmp_path}/link"})
    assert app.environment(str(tmp_path)) == {"PI_CODING_AGENT_SESSION_DIR": str(tmp_path)}
    env = {"PI_CODING_AGENT_SESSION_DIR": str(tmp_path), "PI_CODING_AGENT_DIR": "/data/pi"}
    assert Pi(env).environment(str(tmp_path)) == env
    assert app.environment("/data/pi") == {"PI_CODING_AGENT_DIR": "/data/pi"}
    assert Pi({}).environment("/data/pi") == {"PI_CODING_AGENT_DIR": "/data/pi"}


def test_the_folders_in_which_sessions_come_and_go_are_watched() -> None:
    assert Pi({}).watches("/d") == [Watch("/d/sessions", 1), Watch("/d", 0)]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"sessions/--x--/2026-11-30T22-47-23-556Z_{ID}.jsonl", "transcript"),
        ("sessions/--x--/mine.jsonl", "transcript"),
        (f"2026-11-30T22-47-23-556Z_{ID}.jsonl", "flat"),
        ("history.jsonl", None),
        ("auth.json", None),
        ("settings.json", None),
        ("sessions/a.jsonl", None),
        ("sessions/--x--/a.json", None),
        ("sessions/--x--/a.jsonl.bak", None),
        ("sessions/--x--/.a.jsonl", None),
        ("sessions/../x/a.jsonl", None),
        ("sessions/--x--/y/a.jsonl", None),
    ],
)
def test_only_transcripts_are_units(path: str, kind: str | None) -> None:
    unit = Pi({}).unit("/d", f"/d/{path}")
    assert (unit.kind if unit else None) == kind
    assert Pi({}).unit("/other", f"/d/{path}") is None


@pytest.mark.parametrize(("fork", "flag"), [(False, "--session"), (True, "--fork")])
def test_a_session_is_resumed_by_its_path(store: Store, flag: str, *, fork: bool) -> None:
    """Model and folder are left to pi, which knows both."""
    path = store.put(asked("hi", NOW))
    argv = store.app.launch(store.row(ID), Settings(model="gpt-6"), fork=fork, folder="/else")
    assert argv == ["pi", flag, path]


@pytest.mark.parametrize("what", ["nothing", "an empty file"])
def test_a_session_whose_file_pi_would_begin_anew_is_not_present(store: Store, what: str) -> None:
    path = store.put(asked("hi", NOW))
    row = store.row(ID)
    assert store.app.present(row)
    shutil.move(path, path + ".bak")
    if what != "nothing":
        write(path)
    assert not store.app.present(row)
