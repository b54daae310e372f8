"""What is read of a rollout, and how little of it."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.apps import _codex_rollout
from sessiond.apps._codex_rollout import zstd
from sessiond.apps._jsonl import HEAD_LINE, TAIL
from tests.apps.codex_home import (
    CREATED,
    CWD,
    DAY,
    ID,
    OTHER,
    SEGMENT,
    Home,
    applied,
    envelope,
    filler,
    injected,
    item,
    legacy,
    line,
    meta,
    turn,
)

if TYPE_CHECKING:
    from pathlib import Path

PICTURE = "data:image/png;base64," + "iVBOR" * 200_000


@pytest.fixture
def codex(tmp_path: Path) -> Home:
    """An empty home of Codex."""
    return Home(tmp_path / ".codex")


def pack(path: Path) -> Path:
    """Compress a rollout as Codex does: beside it, with its mtime, and the plain file removed."""
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstd.compress(path.read_bytes(), 3))
    found = path.stat()
    os.utime(packed, ns=(found.st_atime_ns, found.st_mtime_ns))
    path.unlink()
    return packed


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([item("Fix the cart\nand the total")], "Fix the cart"),
        ([legacy("\n  Fix the cart  \nand the total")], "Fix the cart"),
        ([legacy("Fix the cart", kind="plain")], "Fix the cart"),
        ([injected("# AGENTS.md instructions for /srv\n<INSTRUCTIONS>")], ""),
        ([injected("a prompt as the model got it"), item("as it was typed")], "as it was typed"),
        ([legacy("<environment_context>\n<cwd>/srv</cwd>", kind="environment_context"), legacy("typed")], "typed"),
        ([legacy("<user_instructions>\nbe brief"), legacy("typed")], "typed"),
        ([legacy("be brief", kind="user_instructions"), legacy("typed")], "typed"),
        ([envelope("response_item", {"type": "user_message", "message": "x"}), item("typed")], "typed"),
        ([legacy("# AGENTS.md instructions for /srv"), item("typed")], "typed"),
        ([item("", "AgentMessage"), item("an answer", "AgentMessage"), item("typed")], "typed"),
        (
            [legacy("# Context from my IDE setup:\n## Open tabs:\n- a.py\n\n## My request for Codex:\nfix a.py\n")],
            "fix a.py",
        ),
        ([legacy("", images=["x.png"]), legacy("then words")], "then words"),
        ([legacy("with a picture", images=[PICTURE])], "with a picture"),
        ([item("with a picture"), item("x", "AgentMessage")], "with a picture"),
        ([b'{"timestamp":5,"type":"event_msg","payload":[]}\n', b"\n", b"\0\0\n", b'{"to\n', item("typed")], "typed"),
        ([item("\x1b[31mred\u202e \x00and more")], "[31mred and more"),
    ],
)
def test_the_first_prompt_names_a_session(codex: Home, records: list[Any], title: str) -> None:
    """In both encodings, and never what a program said in the person's name (codeg#789, ORG2#838)."""
    codex.put(meta(), turn(), *records)
    assert codex.row().title == title


def test_a_prompt_whose_line_is_too_long_gives_its_words(codex: Home) -> None:
    """A pasted picture makes a line of a megabyte, of which only the beginning is read."""
    record = item("look at this")
    record["payload"]["item"]["content"].append({"type": "image", "image_url": PICTURE})
    codex.put(meta(), turn(), record, *filler(2 * TAIL), turn())
    assert codex.row().title == "look at this"
    assert codex.read < 2 * TAIL + HEAD_LINE


def test_a_picture_alone_is_a_prompt(codex: Home) -> None:
    """The session was used, so it is listed; the database calls it "[Image]"."""
    codex.put(meta(), turn(), legacy("", images=[PICTURE]))
    assert (codex.row().title, codex.row().hidden) == ("", None)
    codex.database({"title": "[Image]", "first_user_message": "[Image]", "preview": "[Image]", "updated_at": 1})
    assert codex.row().title == "[Image]"


def test_a_first_prompt_beyond_the_head(codex: Home) -> None:
    """openai/codex#21619: the database knows it; without one a later prompt is better than no title."""
    codex.put(meta(), *filler(2 * TAIL), item("too far"), *filler(2 * TAIL), turn(), item("a later one"))
    assert codex.row().title == "a later one"
    assert codex.add(*filler(TAIL)).title == "a later one"
    words = {"title": "the first", "first_user_message": "the first", "preview": "the first"}
    codex.database(words | {"updated_at": 1795248908})
    assert codex.row().title == "the first"


def test_a_long_file_without_a_prompt_in_reach_is_not_empty(codex: Home) -> None:
    """Only of a file that was seen as a whole can that be said."""
    codex.put(meta(), *filler(2 * TAIL), item("out of reach"), *filler(2 * TAIL))
    assert (codex.row().title, codex.row().hidden) == ("", None)


def test_only_the_first_line_says_who_a_session_is(codex: Home) -> None:
    """A fork of 0.115 repeats its parent, with the parent's first line; a sub-agent names its root."""
    codex.put(
        meta(forked_from_id=OTHER),
        meta(OTHER, cwd="/of/the/parent", source={"subagent": "review"}),
        *(legacy("asked in the parent"), turn(), meta(OTHER)),
    )
    rows = codex.rows()
    assert list(rows) == [ID]
    assert (rows[ID].cwd, rows[ID].hidden, rows[ID].title) == (CWD, None, "asked in the parent")


@pytest.mark.parametrize(
    ("first", "name", "found"),
    [
        (meta(ID), OTHER, ID),
        (meta("../../etc/passwd"), ID, ID),
        (meta(5), ID, ID),  # type: ignore[arg-type]
        (b"\0" * 999 + b"\n", ID, ID),
        (b'{"timestamp":"2026-11-21T08:15:08.301Z","type":"session_me', ID, ID),
        (b"", f"{ID}_{SEGMENT}", ID),
        (meta(ID), "copy", ID),
        (b"", "copy", None),
    ],
)
def test_where_the_id_comes_from(codex: Home, first: Any, name: str, found: str | None) -> None:
    """From the first line; if that is damaged, from the name, where a segment's own id comes second."""
    codex.put(first, id=name)
    assert list(codex.rows()) == [found] * (found is not None)


def test_a_first_line_without_end_still_says_who_and_where(codex: Home) -> None:
    """It grows with the tools of a client; what stands behind 256 KiB of it is not seen, such as the branch."""
    tools = [{"name": "tool", "description": '"id": "x" ' * 30, "cwd": {}}] * 2000
    codex.put(meta(dynamic_tools=tools), turn(cwd="/from/the/turn"), item("Fix the cart"))
    row = codex.row()
    assert (row.title, row.cwd, row.created, row.branch) == ("Fix the cart", "/from/the/turn", CREATED, None)
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": ID}}}
    codex.put(meta(OTHER, source=spawned, dynamic_tools=tools), item("explore"), id=OTHER)
    assert codex.row(OTHER).hidden == "subagent"


def test_files_older_than_the_envelope(codex: Home) -> None:
    """0.20 wrote no folder, and 0.171 can neither list nor resume these."""
    codex.put(
        {"id": ID, "timestamp": "2025-08-09T10:11:47.134Z", "instructions": None, "git": {"branch": "main"}},
        {"record_type": "state"},
        injected("<environment_context>\n<cwd>/srv</cwd>")["payload"],
        injected("Fix the login bug")["payload"],
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        folder="sessions",
    )
    row = codex.row()
    assert (row.title, row.hidden, row.cwd, row.branch) == ("Fix the login bug", "not-resumable", None, "main")
    assert row.created == row.updated == 1754734307134
    assert codex.app.prompts(row) == ("Fix the login bug", "Fix the login bug")


def test_the_first_envelopes_had_neither_source_nor_turn_context(codex: Home) -> None:
    """0.34."""
    first = {"id": ID, "timestamp": "2025-09-14T09:11:48.116Z", "cwd": CWD, "instructions": None}
    codex.put(envelope("session_meta", first), legacy("Fix the login bug", kind="plain"))
    row = codex.row()
    assert (row.title, row.cwd, row.hidden, row.model, row.sandbox) == ("Fix the login bug", CWD, None, None, None)


def test_the_last_settings_hold(codex: Home) -> None:
    """Of a turn, or of a resume without one; effort is absent where none is set."""
    row = codex.add(meta(), turn(effort="low"), item("Fix the cart"), turn("08:20:00.000", model="m2", cwd="/b"))
    assert (row.cwd, row.model, row.effort, row.approval) == ("/b", "m2", "high", "on-request")
    row = codex.add(applied("08:30:00.000", cwd="/c"))
    assert (row.cwd, row.model, row.effort, row.approval) == ("/c", "gpt-5.5", None, "never")
    assert row.sandbox == "danger-full-access"
    assert row.updated == CREATED + 905_388
    row = codex.add(applied("08:30:01.000", reasoning_effort="ultra", approval_policy={"granular": {"rules": True}}))
    assert (row.effort, row.approval) == ("ultra", '{"granular":{"rules":true}}')


def test_settings_beyond_the_tail_are_looked_for_once(codex: Home) -> None:
    """A turn whose output fills the tail says nothing of them; those of the beginning may have changed since."""
    codex.put(meta(), turn(), item("Fix the cart"), *filler(TAIL), turn(approval_policy="never"), *filler(TAIL))
    assert codex.row().approval == "never"
    assert codex.add(*filler(2 * TAIL)).approval == "never"
    assert all(scan.complete for _, scan in codex.scans.values())


@pytest.mark.parametrize(
    ("recorded", "row"),
    [("never", "never"), (None, None), ("", None), (5, "5"), (True, "true"), (["never"], '["never"]'), ({}, "{}")],
)
def test_an_approval_of_any_type_is_told(codex: Home, recorded: object, row: str | None) -> None:
    """What nobody knows must not pass for nothing."""
    codex.put(meta(), turn(approval_policy=recorded), item("Fix the cart"))
    assert codex.row().approval == row


def test_settings_in_tool_output_are_none(codex: Home) -> None:
    """A session about Codex's own files prints such lines."""
    printed = line(turn(cwd="/printed")).decode()
    output = {"type": "function_call_output", "output": printed, "approval_policy": "printed"}
    codex.put(meta(), turn(), item("Fix the cart"), envelope("response_item", output), item(printed))
    assert (codex.row().cwd, codex.row().approval) == (CWD, "on-request")


def test_a_name_of_0_125_in_the_rollout(codex: Home) -> None:
    """The last one holds, and stays when it is no longer in reach."""
    codex.put(meta(), turn(), item("Fix the cart"))
    for name in ("first", "second"):
        codex.put(envelope("event_msg", {"type": "thread_name_updated", "thread_name": name}), append=True)
    assert codex.row().title == "second"
    assert codex.add(*filler(2 * TAIL)).title == "second"
    path = codex.put(append=True)
    path.with_name("copy").write_bytes(path.read_bytes())
    path.with_name("copy").replace(path)
    assert codex.row().title == "second"


def test_what_was_added_is_all_that_is_read(codex: Home) -> None:
    """A turn more in a file of 4 MB costs that turn."""
    codex.put(meta(), turn(), item("Fix the cart"), *filler(4 << 20))
    (part,) = codex.row() and codex.parts(ID)
    known, before = deepcopy(part.facts), codex.read
    row = codex.add(turn("09:00:00.000", cwd="/b"), item("and the total", at="09:00:01.000"))
    assert (row.title, row.cwd, row.updated) == ("Fix the cart", "/b", CREATED + 2_706_388)
    assert codex.read - before < 10_000
    assert part.facts == known, "what the index holds is compared with what is new, so it must not change"


def test_a_file_of_gigabytes_costs_a_head_and_a_tail(codex: Home) -> None:
    """Files of 2 GB and of 98 GB were reported (openai/codex#24948, #29531); this one is sparse."""
    path = codex.put(meta(), turn(), item("Fix the cart"))
    with path.open("r+b") as file:
        file.truncate(4 << 30)
        file.seek(0, os.SEEK_END)
        file.writelines([b"\n", line(turn("10:00:00.000", cwd="/b"))])
    row = codex.row()
    assert (row.title, row.cwd, row.updated) == ("Fix the cart", "/b", CREATED + 6_305_388)
    assert codex.read < 1 << 20


def test_a_file_that_was_rewritten_in_place_is_read_anew(codex: Home) -> None:
    """``codex migrate-rollouts --apply`` keeps path and mtime and changes the rest."""
    path = codex.put(meta(history_mode="legacy"), turn(), legacy("Fix the cart"))
    found = codex.row()
    codex.put(meta(git={"branch": "main"}), turn(cwd="/b"), item("Fix the cart"))
    os.utime(path, ns=(0, found.mtime * 1_000_000))
    row = codex.row()
    assert (row.title, row.branch, row.cwd, row.mtime) == ("Fix the cart", "main", "/b", found.mtime)


def test_a_line_that_is_still_being_written_waits(codex: Home) -> None:
    """It counts as soon as it is whole, and never half."""
    codex.put(meta(), turn(), item("Fix the cart"))
    whole = line(turn("09:00:00.000", cwd="/b"))
    assert codex.add(whole[:-5]).cwd == CWD
    assert codex.add(whole[-5:]).cwd == "/b"


@pytest.mark.parametrize("size", [0, 300_000, 3 * TAIL, 10 * TAIL])
def test_a_compressed_rollout_is_the_same_session(codex: Home, size: int) -> None:
    """The database goes on naming it without ``.zst``. Only the size differs."""
    path = codex.put(meta(), turn(), item("Fix the cart"), *filler(size), turn("10:00:00.000", cwd="/b"), item("more"))
    plain, prompts = codex.row(), codex.app.prompts(codex.row())
    packed = pack(path)
    row = codex.row()
    assert row.path == str(packed)
    plain.path, plain.bytes = str(packed), packed.stat().st_size
    assert row == plain
    assert codex.app.prompts(row) == prompts == ("Fix the cart", "more")


def test_of_a_plain_and_a_compressed_file_the_plain_one_counts(codex: Home) -> None:
    """As for Codex, which ignores the other."""
    packed = pack(codex.put(meta(), turn(), item("packed")))
    path = codex.put(meta(), turn(), item("plain"))
    os.utime(packed)
    assert (codex.row().title, codex.row().path) == ("plain", str(path))
    assert codex.app.prompts(codex.row()) == ("plain", "plain")


def test_a_long_compressed_rollout_is_unpacked_in_part(codex: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 64 MiB, here less, only its head is known; the last activity is then its mtime."""
    monkeypatch.setattr(_codex_rollout, "UNPACKED", 8 * TAIL)
    noise = [item(os.urandom(4000).hex(), "AgentMessage") for _ in range(9 * TAIL // 8000)]
    packed = pack(codex.put(meta(), turn(), item("Fix the cart"), *noise, turn(cwd="/b")))
    row = codex.row()
    assert (row.title, row.cwd, row.updated) == ("Fix the cart", CWD, row.mtime)
    assert codex.read < packed.stat().st_size


def test_a_damaged_compressed_rollout_gives_what_can_be_unpacked(codex: Home) -> None:
    """Torn, overwritten, or no zstd at all: no error, and no session lost."""
    noise = [item(os.urandom(4000).hex(), "AgentMessage") for _ in range(80)]
    packed = pack(codex.put(meta(), turn(), item("Fix the cart"), *noise))
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 2])
    assert codex.row().title == "Fix the cart"
    packed.write_bytes(whole[: len(whole) // 2] + b"\xff" * 100 + whole[len(whole) // 2 :])
    assert codex.row().title == "Fix the cart"
    for content in (b"", b"{}", whole[:50]):
        packed.write_bytes(content)
        assert list(codex.rows()) == [ID]
    assert codex.problems == {}


def test_a_frame_that_asks_for_much_memory_is_refused(codex: Home) -> None:
    """128 MiB of window, as ``zstd --ultra --long`` makes; Codex's own frames need 2."""
    path = codex.put(meta(), turn(), item("Fix the cart"), *filler(1 << 20))
    options = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    packer = zstd.ZstdCompressor(options=options)
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(packer.compress(path.read_bytes()) + packer.flush())
    path.unlink()
    assert (codex.row().title, codex.row().hidden) == ("", "empty")


@given(st.binary(max_size=600), st.sampled_from(["jsonl", "jsonl.zst"]))
def test_any_bytes_are_a_rollout(tmp_path_factory: pytest.TempPathFactory, data: bytes, kind: str) -> None:
    """Whatever is in a file, there is one row, by its name."""
    codex = Home(tmp_path_factory.getbasetemp() / "any")
    path = codex.root / DAY / f"rollout-2026-11-21T09-14-54-{ID}.{kind}"
    path.parent.mkdir(parents=True, exist_ok=True)
    for other in path.parent.iterdir():
        other.unlink()
    path.write_bytes(data)
    assert list(codex.rows()) == [ID]
    codex.app.prompts(codex.row())


@pytest.mark.parametrize(
    "payload",
    [
        None,
        5,
        [],
        "x",
        {},
        {"type": []},
        {"type": "item_completed", "item": {"type": "UserMessage", "content": [5, {"text": 5}, None]}},
    ],
)
@pytest.mark.parametrize("kind", ["session_meta", "event_msg", "turn_context", "response_item", None, 5])
def test_records_of_another_shape_are_passed_over(codex: Home, kind: Any, payload: Any) -> None:
    """At the beginning or later; the needles that lead to a record do not promise what it is."""
    odd = envelope(kind, payload) | {"x": ["approval_policy", "thread_name_updated", "UserMessage", "user_message"]}
    codex.put(odd, turn(), odd, item("Fix the cart"), odd)
    assert codex.row().title == "Fix the cart"
    assert codex.row().cwd == CWD
