"""What a session of Claude Code is called, and that it keeps its name."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.apps.claude_store import (
    APP,
    ID,
    Store,
    ai_title,
    answer,
    custom_title,
    filler,
    last_prompt,
    line,
    prompt,
    said,
)

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = 512 << 10
OLD = {"version": "2.1.100"}
SUMMARY = {"type": "summary", "summary": "An old summary", "leafUuid": "x"}
COMMAND = prompt("<command-name>/review</command-name><command-args>3</command-args>")
CONTINUED = "This session is being continued from a previous conversation that ran out of context."


@pytest.mark.parametrize("missing", range(9))
def test_the_best_title_known_is_shown(claude: Store, missing: int) -> None:
    """Each source in its turn, when the better ones are missing."""
    known = [
        ("named last", [custom_title("named last")]),
        ("named beside", '{"customTitle":"named beside"}'),
        ("named first", [custom_title("named first")]),
        ("generated", [ai_title("generated")]),
        ("typed first", [prompt("typed first")]),
        ("typed last", [last_prompt("typed last")]),
        ("An old summary", [SUMMARY]),
        ("/review 3", [COMMAND]),
        ("", []),
    ][missing:]
    records: dict[str, Any] = dict(known)
    order = ["An old summary", "/review 3", "named first", "typed first", "", "generated", "typed last", "named last"]
    records[""] = filler(WINDOW)
    claude.put(*(record for name in order for record in records.get(name, [])))
    if "named beside" in records:
        claude.sidecar(records["named beside"])
    assert claude.row().title == known[0][0]


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([custom_title("one"), custom_title("two")], "two"),
        ([custom_title("one"), custom_title("   "), custom_title("")], "one"),
        ([prompt("typed"), custom_title("   ")], "typed"),
        ([prompt("typed"), custom_title("\u200b\u202e")], "typed"),
        ([prompt("typed"), ai_title("")], "typed"),
        ([ai_title("one"), ai_title("two"), prompt("typed")], "two"),
        ([prompt("typed"), {"type": "agent-name", "agentName": "an agent"}], "typed"),
        ([prompt("typed"), {"type": "custom-title", "customTitle": ["x"]}], "typed"),
        ([prompt("typed"), {"type": "user", "customTitle": "x", "note": "custom-title"}], "typed"),
        ([answer("custom-title"), prompt('{"type":"custom-title","customTitle":"x"}')], '{"type":"custom-title","cust'),
        ([last_prompt("/clear"), COMMAND], "/review 3"),
        ([last_prompt("<command-name>"), last_prompt("typed"), last_prompt("/clear")], "typed"),
        ([prompt("<bash-input>make</bash-input>"), answer()], "! make"),
        ([prompt([{"type": "text", "text": "[Image #1]"}]), answer()], "[image]"),
        ([prompt("[Image #1]"), answer(), prompt("and now?")], "and now?"),
        ([prompt(f"{CONTINUED} Summary: ..."), answer()], ""),
        ([prompt(f"{CONTINUED} Summary: ...", isCompactSummary=True), answer(), prompt("go on")], "go on"),
        ([prompt("all\x1b[31m red\n\ton two lines\u202e"), answer()], "all[31m red on two lines"),
        ([prompt("x" * 300)], "x" * 199 + "…"),
        ([prompt("cut emoji \ud83d")], "cut emoji"),
        ([b'{"type":"user","message":{"role":"user","content":"ok \\ud83d"}}\n'], "ok"),
        ([b"\xef\xbb\xbf" + line(prompt("after a BOM"))], "after a BOM"),
        ([prompt("عنوان \u200f الجلسة")], "عنوان الجلسة"),
        ([b'{"type": "user", "message": {"role": "user", "content": "spaced"}}\n'], "spaced"),
        ([b'{"type": "custom-title", "customTitle": "spaced"}\n'], "spaced"),
    ],
)
def test_what_counts_as_a_title(claude: Store, records: list[Any], title: str) -> None:
    """Names that are empty, injected or quoted do not (cc-switch#6787, CL 2.1.132)."""
    claude.put(*records)
    assert claude.row().title.startswith(title)
    assert bool(claude.row().title) == bool(title)


@pytest.mark.parametrize(
    ("more", "typed"),
    [
        ({}, True),
        ({"origin": {"kind": "human"}}, True),
        ({"origin": "unknown form"}, True),
        ({"isMeta": False, "toolUseResult": None, "turnCompanion": False}, True),
        ({"isMeta": True}, False),
        ({"isCompactSummary": True}, False),
        ({"isVisibleInTranscriptOnly": True}, False),
        ({"isSidechain": True}, False),
        ({"teamName": "crew"}, False),
        ({"toolUseResult": {"stdout": "x"}}, False),
        ({"toolUseResult": "Error"}, False),
        ({"turnCompanion": True}, False),
        ({"origin": {"kind": "task-notification"}}, False),
        ({"origin": {"kind": "peer"}}, False),
        ({"type": "api-request-blob"}, False),
        ({"type": "system"}, False),
        ({"message": "not an object"}, False),
        ({"message": {"role": "user", "content": {"text": "no list"}}}, False),
        ({"message": {"role": "user", "content": [{"type": "tool_result", "content": "first"}]}}, False),
        (
            {"message": {"content": [{"type": "tool_result"}, {"type": "text", "text": "first"}]}},
            False,
        ),
        ({"message": {"content": [{"type": "image"}, 7, {"type": "text", "text": "first"}]}}, True),
    ],
)
def test_a_prompt_is_what_a_person_typed(claude: Store, more: dict[str, Any], typed: bool) -> None:
    """Neither what the program injects nor what a tool gave back."""
    claude.put(answer(), prompt("first", **more), prompt("second"))
    assert claude.row().title == ("first" if typed else "second")
    assert APP.prompts(claude.row())[0] == claude.row().title


def test_a_first_prompt_after_an_interruption_and_20_kb_long(claude: Store) -> None:
    """Claude Code itself did not list such sessions until 2.1.47 (#25920, #25721, #26140)."""
    text = "explain this log " + "x" * 20_000
    for content in (text, [{"type": "text", "text": text}]):
        snapshot = {"type": "file-history-snapshot", "snapshot": {}}
        claude.put(snapshot, prompt("[Request interrupted by user for tool use]"), prompt(content))
        assert claude.row().title.startswith("explain this log xxx")
        assert APP.prompts(claude.row()) == (text[:4096], text[:4096])


def test_a_command_is_not_a_title(claude: Store) -> None:
    """The warning, /clear and its output come before the prompt (#23147)."""
    claude.put(
        prompt("<local-command-caveat>Caveat: ...</local-command-caveat>", isMeta=True),
        prompt("<command-name>/clear</command-name>"),
        prompt("<local-command-stdout></local-command-stdout>"),
        said("system", ""),
        {"type": "mode", "mode": "normal"},
        prompt("write the release notes"),
    )
    assert claude.row().title == "write the release notes"


def test_a_prompt_with_a_pasted_image_is_read_from_the_part_of_its_line_that_is_kept(claude: Store) -> None:
    """Its line has 437 KB; folder and branch come from the next record."""
    text = {"type": "text", "text": 'why is "this" red?'}
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 437_000}}
    claude.put({"type": "mode", "mode": "normal"}, prompt([text, image]), answer())
    row = claude.row()
    assert (row.title, row.branch, row.hidden) == ('why is "this" red?', "main", None)
    assert APP.prompts(row)[0] == 'why is "this" red?'
    claude.put(prompt("pasted log " + "y" * 300_000), answer())
    assert claude.row().title.startswith("pasted log yyy")
    claude.put(prompt([{"type": "tool_result", "content": "z" * 300_000}]), answer(), prompt("typed"))
    assert claude.row().title == "typed"
    claude.put(prompt("count", isSidechain=True), prompt("w" * 300_000, isSidechain=True), answer(isSidechain=True))
    assert claude.row().title == "count"


def test_the_first_prompt_is_the_title_wherever_the_last_one_is(claude: Store) -> None:
    """It says what the session is about, and stays put while the session goes on."""
    claude.put(prompt("first"), answer(), last_prompt("first"))
    assert claude.row().title == "first"
    row = claude.add(prompt("second"), answer(), last_prompt("second"))
    assert (row.title, APP.prompts(row)) == ("first", ("first", "second"))


def test_without_a_prompt_in_the_head_the_next_one_known_is_the_title_and_stays(claude: Store) -> None:
    """A compacted session begins with its summary, and 80 records can follow (#11367)."""
    claude.put(prompt(CONTINUED), *[answer()] * 100, prompt("go on"), answer(), prompt("and on"))
    assert claude.row().title == "go on"
    assert claude.add(*filler(WINDOW), prompt("later"), answer()).title == "go on"


def test_the_last_prompt_is_the_one_noted_when_it_is_out_of_reach(claude: Store) -> None:
    """A long turn pushes it out of the tail; the program notes it again and again."""
    claude.put(prompt("first"), prompt("second"), *filler(WINDOW), last_prompt("second"))
    assert APP.prompts(claude.row()) == ("first", "second")
    claude.put(answer())
    assert APP.prompts(claude.row()) == (None, None)


# Names that lie far from the end


@pytest.mark.parametrize("distance", [355_000, 915_000, 3_000_000, 4_900_000])
def test_a_name_far_from_the_end_is_found(claude: Store, distance: int) -> None:
    """Names were reported lost 0.4, 3.0 and 4.9 MB from the end (#51284, #26031, #25090)."""
    claude.put(
        prompt("typed", **OLD),
        *filler(147_000, **OLD),
        custom_title("an older name"),
        *filler(300_000, **OLD),
        custom_title("the name"),
        *filler(distance, **OLD),
    )
    assert claude.row().title == "the name"


def test_a_generated_title_does_not_replace_a_name_given_in_an_editor(claude: Store) -> None:
    """The extension does not repeat the name, but the generated title (#85548, 2.1.263)."""
    editor = {"entrypoint": "claude-vscode", "version": "2.1.263"}
    generated = [record for _ in range(20) for record in (*filler(45_000, **editor), ai_title("generated"))]
    claude.put(prompt("typed", **editor), *filler(1_600_000, **editor), custom_title("the name"), *generated)
    assert claude.row(second_look=False).title == "generated"
    assert claude.row().title == "the name"
    claude.sidecar('{"customTitle":"beside"}')
    assert claude.row().title == "beside"


def test_a_name_in_the_head_is_found_in_a_file_of_any_length(claude: Store) -> None:
    """Also on a line after the first prompt (cc-switch#6787), and at the first look."""
    path = claude.put(prompt("typed", **OLD), answer(**OLD), custom_title("the name"))
    with path.open("ab") as file:
        file.truncate(20 << 20)
    claude.put(b"\n", *filler(WINDOW, **OLD), append=True)
    assert claude.row(second_look=False).title == "the name"
    assert claude.row().title == "the name"


@pytest.mark.parametrize(
    ("more", "complete"),
    [
        ({"version": "2.1.332"}, True),
        ({"version": "2.1.200"}, True),
        ({"version": "2.10.0"}, True),
        ({"version": "2.1.199"}, False),
        ({"version": "1.0.128"}, False),
        ({"version": "unknown"}, False),
        ({"version": None}, False),
        ({"version": "9" * 5000 + ".1.1"}, False),
        ({"version": "2.1.332", "entrypoint": "claude-vscode"}, False),
    ],
)
def test_a_second_look_is_taken_only_where_it_can_find_something(
    claude: Store, more: dict[str, Any], complete: bool
) -> None:
    """2.1.200 and newer repeat name and mode every 64 KB, so what the tail does not hold was never given."""
    mode = {"type": "permission-mode", "permissionMode": "default"}
    claude.put(prompt("typed", **more), *filler(WINDOW, **more), mode)
    claude.refresh(second_look=False)
    ((_, scan),) = claude.scans.values()
    assert scan.complete == complete
    claude.refresh()
    ((_, scan),) = claude.scans.values()
    assert scan.complete
    claude.put(prompt("typed", **more), answer(**more))
    claude.refresh(second_look=False)
    ((_, scan),) = claude.scans.values()
    assert scan.complete, "all of a short file was seen"


# Names that stay


def test_a_renamed_session_keeps_its_name(claude: Store) -> None:
    """However much is written after it, and also when a later record is empty or cut."""
    claude.put(prompt("typed"), answer())
    assert claude.row().title == "typed"
    assert claude.add(custom_title("the name")).title == "the name"
    for _ in range(4):
        assert claude.add(*filler(300_000), ai_title("generated")).title == "the name"
    assert claude.add(custom_title("")).title == "the name"
    assert claude.add(b'{"type":"custom-title","customTitle":"cut').title == "the name"
    assert claude.add(b' off"}\n').title == "cut off"


def test_a_name_stays_when_the_file_is_rewritten_and_still_long(claude: Store) -> None:
    """Cleaning tools rewrite transcripts; what is out of reach may be there all the same."""
    claude.put(prompt("typed"), *filler(WINDOW), custom_title("the name"))
    assert claude.row().title == "the name"
    claude.put(prompt("typed anew"), *filler(WINDOW))
    assert claude.row().title == "the name"
    claude.put(prompt("typed anew"), answer())
    assert claude.row().title == "typed anew"


def test_a_name_given_while_nobody_looked_is_found(claude: Store) -> None:
    """When more was added than a tail holds, the gap is looked through."""
    claude.put(prompt("typed", **OLD), custom_title("the name"), *filler(10_000, **OLD))
    assert claude.row().title == "the name"
    row = claude.add(custom_title("a newer name"), *filler(WINDOW, **OLD))
    assert row.title == "a newer name"


def test_a_title_file_changes_the_name_without_the_transcript(claude: Store) -> None:
    """It counts less than a name at the end of the transcript, and more than one before."""
    claude.put(prompt("typed"))
    path = claude.sidecar('{"customTitle":"beside","by":"user"}')
    assert claude.row().title == "beside"
    claude.sidecar('{"customTitle":"beside, again"}')
    assert claude.row().title == "beside, again"
    assert claude.add(custom_title("in the file")).title == "in the file"
    claude.put(prompt("typed"))
    for content in ('{"customTitle":" "}', '{"customTitle":7}', "{}"):
        path.write_text(content)
        assert claude.row().title == "typed"


def test_a_title_file_may_not_be_a_link(claude: Store, tmp_path: Path) -> None:
    """It could lead anywhere."""
    claude.put(prompt("typed"))
    (tmp_path / "elsewhere").write_text('{"customTitle":"from elsewhere"}')
    path = claude.sidecar("")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert claude.row().title == "typed"


def test_a_moved_session_keeps_its_name(claude: Store) -> None:
    """/cd renames the file into another folder (2.1.169); there its name may be out of reach."""
    path = claude.put(custom_title("the name"), prompt("typed", **OLD), answer(**OLD))
    assert claude.row().title == "the name"
    moved = path.parent.parent / "-w-b" / path.name
    moved.parent.mkdir()
    path.rename(moved)
    claude.put(prompt("typed", **OLD), *filler(WINDOW, **OLD), folder="-w-b")
    assert (claude.row().title, claude.row().path) == ("the name", str(moved))


@pytest.mark.parametrize(("generated", "title"), [(True, "fix the cart"), (False, "amber-otter")])
def test_a_name_taken_from_the_worktree_gives_way_to_a_generated_one(
    claude: Store, generated: bool, title: str
) -> None:
    """Entering a worktree was reported to name the session after it (2.1.223)."""
    state = {"type": "worktree-state", "worktreeSession": {"worktreeName": "amber-otter"}}
    named = [ai_title("fix the cart")] if generated else []
    claude.put(prompt("typed"), answer(), *named, custom_title("amber-otter"))
    assert claude.row().title == "amber-otter"
    assert claude.add(state).title == title
    claude.put(prompt("typed"), answer(), *named, custom_title("amber-otter"), state)
    assert claude.row().title == title
    assert claude.add(custom_title("mine")).title == "mine"


def test_sessions_of_one_prompt_are_told_apart_by_their_names(claude: Store) -> None:
    """A branch or fork repeats the records of its parent; 2.1.332 adds "(Branch)" to the name."""
    other = "b4f2a6d8-1c3e-4a5b-8d7f-90a1b2c3d4e5"
    forked = {"forkedFrom": {"sessionId": ID, "messageUuid": "x"}}
    claude.put(prompt("typed"), custom_title("the name"))
    claude.put(prompt("typed", **forked), custom_title("the name (Branch)"), id=other)
    assert {row.title for row in claude.rows().values()} == {"the name", "the name (Branch)"}


def test_no_message_text_is_kept_beyond_titles(claude: Store) -> None:
    """The facts go into the index; of 300 characters a title has 200."""
    secret = "the secret is " + "s" * 300
    claude.put(prompt(secret), answer(secret), prompt(secret), last_prompt(secret), COMMAND, SUMMARY)
    claude.refresh()
    stored = json.dumps([scan.facts for _, scan in claude.scans.values()])
    assert "the secret is" in stored
    assert "s" * 200 not in stored
    assert stored.count("the secret is") == 1


def test_mtime_alone_changes_nothing(claude: Store) -> None:
    """A resume touches the file before it writes; then only enough is read to see that it is the same file."""
    path = claude.put(prompt("typed"), *filler(WINDOW), custom_title("the name"))
    before = claude.row()
    os.utime(path, (2_000_000_000, 2_000_000_000))
    after = claude.row()
    ((_, scan),) = claude.scans.values()
    assert (after.title, after.updated, after.mtime) == ("the name", before.updated, 2_000_000_000_000)
    assert scan.read < 8192
