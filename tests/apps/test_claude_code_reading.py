"""Reading Claude Code's transcripts in any state they can be in, and never much of them."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from sessiond.session import Part, Previous
from tests.apps.claude_store import (
    APP,
    CWD,
    FOLDER,
    ID,
    Record,
    Store,
    ai_title,
    answer,
    custom_title,
    every_kind,
    filler,
    line,
    prompt,
    said,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WINDOW = 512 << 10
FIRST_LOOK = (4 << 20) + WINDOW + 8192
"""Bytes: the head at most, the tail, and what tells whether the file only grew."""
SECOND_LOOK = FIRST_LOOK + (8 << 20) * 2 + (4 << 20)


def scan_of(store: Store) -> Any:
    ((_, scan),) = store.scans.values()
    return scan


def test_a_file_of_gigabytes_is_read_at_both_ends(claude: Store) -> None:
    """3.8 GB were reported (#22365, #21022), and the middle is never touched."""
    path = claude.put(prompt("typed"), answer())
    with path.open("ab") as file:
        file.truncate(3_800_000_000)
    claude.put(b"\n", answer(gitBranch="fix/x", version="2.1.30"), ai_title("generated"), append=True)
    row = claude.row(second_look=False)
    assert (row.title, row.branch, row.bytes) == ("generated", "fix/x", path.stat().st_size)
    assert scan_of(claude).read <= FIRST_LOOK
    assert claude.row().title == "generated"
    assert scan_of(claude).read <= SECOND_LOOK
    row = claude.add(custom_title("the name"))
    assert row.title == "the name"
    assert scan_of(claude).read <= 8192


def test_thousands_of_progress_records_do_not_hide_the_conversation(claude: Store) -> None:
    """A file was reported with 4,041 of them among 4,801 lines (#24457)."""
    progress = {"type": "progress", "data": {"type": "bash_progress", "output": "x" * 60}, "uuid": "x", "cwd": CWD}
    claude.put(prompt("typed"), answer(effort="high"), *[progress] * 4041)
    row = claude.row()
    assert (row.title, row.cwd, row.model, row.effort) == ("typed", CWD, "claude-opus-5-5", "high")


@pytest.mark.parametrize("after", [[answer(gitBranch="fix/x")], []])
def test_a_line_longer_than_the_tail_hides_nothing(claude: Store, after: list[Record]) -> None:
    """A tool's output of 12.8 million characters was line 18 of 19 (#24118); also when it is the last line."""
    giant = prompt([{"type": "tool_result", "content": "x" * 3_000_000}], gitBranch="fix/x")
    claude.put(prompt("typed"), answer(), *[said("attachment", "")] * 15, giant, *after)
    row = claude.row()
    # What the long line itself says of the branch comes after its output, and is not seen.
    assert (row.title, row.cwd, row.launch_dir, row.branch) == ("typed", CWD, CWD, "fix/x" if after else "main")
    assert row.model == "claude-opus-5-5"
    row = claude.add(answer(gitBranch="next"), custom_title("the name"))
    assert (row.title, row.branch) == ("the name", "next")


@pytest.mark.parametrize(
    "garbage",
    [
        b'{"type":"attachment","attachment":{"type":"queued_com\n',
        b"\0" * 143_000 + b"\n",
        b"\0" * 143_000,
        b"\n\n\n",
        b"not json\n",
        b'"type":"user"}\n',
        b'{"type":"user","message":\n',
        b'[{"type":"user"}]\n',
        b"\xff\xfe\xff\n",
        b'{"a":' * 50_000 + b"\n",
    ],
)
def test_a_damaged_line_costs_only_itself(claude: Store, garbage: bytes) -> None:
    """Torn writes, NUL runs and merge accidents are found in the middle of files (#50347, #53821, #76059)."""
    claude.put(garbage, prompt("typed"), garbage, answer(effort="high"), custom_title("the name"), garbage)
    row = claude.row()
    assert (row.title, row.cwd, row.effort) == ("the name", CWD, "high")
    assert APP.prompts(row) == ("typed", "typed")


def test_two_records_on_a_line_are_both_read(claude: Store) -> None:
    """A lost newline glues them together."""
    claude.put(line(prompt("typed")).strip() + line(answer(effort="low")).strip() + line(custom_title("the name")))
    row = claude.row()
    assert (row.title, row.effort, APP.prompts(row)) == ("the name", "low", ("typed", "typed"))


def test_a_torn_last_line_is_read_when_it_is_whole(claude: Store) -> None:
    """Killing the program leaves one; while the program writes, every reader meets one."""
    whole = line(answer(gitBranch="fix/x"))
    claude.put(prompt("typed"), whole[:-30])
    assert claude.row().branch == "main"
    assert claude.add(whole[-30:]).branch == "fix/x"
    assert claude.add(whole[:-30]).branch == "fix/x"
    assert claude.add(b"\n", answer(gitBranch="next")).branch == "next"


@pytest.mark.parametrize("shift", range(4))
def test_a_character_cut_by_the_edge_of_the_tail_is_no_harm(claude: Store, shift: int) -> None:
    """The tail begins inside a character of four bytes, or between two."""
    wide = line(answer("😀" * 10_000))
    claude.put(prompt("typed"), *[wide] * 20, b" " * shift + b"\n", answer(gitBranch="fix/x"), custom_title("名前"))
    assert (claude.row().title, claude.row().branch) == ("名前", "fix/x")


def test_only_what_was_added_is_read_again(claude: Store) -> None:
    """A session that is being written to changes several times a second."""
    claude.put(prompt("typed"), *filler(2 * WINDOW))
    before = claude.row()
    row = claude.add(prompt("second", cwd=CWD + "/sub"), answer(effort="high", cwd=CWD + "/sub", gitBranch="fix/x"))
    assert scan_of(claude).read < 8192
    assert (row.title, row.created) == ("typed", before.created)
    assert (row.cwd, row.launch_dir, row.branch, row.effort) == (CWD + "/sub", CWD, "fix/x", "high")


def test_a_file_rewritten_in_place_is_read_anew(claude: Store) -> None:
    """Redaction keeps name, inode and sometimes the size (CL 2.1.69 cuts a line off)."""
    path = claude.put(prompt("with a secret"), answer(gitBranch="one"), custom_title("name one"))
    assert claude.row().title == "name one"
    inode = path.stat().st_ino
    claude.put(prompt("with a ******"), answer(gitBranch="two"), custom_title("name two"))
    row = claude.row()
    assert (row.title, row.branch, path.stat().st_ino) == ("name two", "two", inode)
    claude.put(prompt("with a ******"))
    row = claude.row()
    assert (row.title, row.model) == ("with a ******", None)


def test_what_is_no_regular_file_is_neither_listed_nor_opened(claude: Store) -> None:
    """Opening a FIFO would wait for ever; a link could lead anywhere."""
    path = claude.put(prompt("typed"))
    target = path.rename(path.with_name("elsewhere"))
    for make in (lambda: os.mkfifo(path), lambda: path.symlink_to(target), path.mkdir):
        make()
        assert claude.rows() == {}
        unit = APP.unit(str(claude.root), str(path))
        assert unit
        with pytest.raises(OSError, match=r"regular|symbolic"):
            APP.read(unit, APP.stat(unit), None)
        (path.rmdir if path.is_dir() and not path.is_symlink() else path.unlink)()


def test_a_file_that_vanishes_raises(claude: Store) -> None:
    """So that its row stays until it is known to be gone."""
    path = claude.put(prompt("typed"))
    ((unit, stat),) = APP.units(str(claude.root), pytest.fail)
    row = claude.row()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        APP.read(unit, stat, None)
    with pytest.raises(FileNotFoundError):
        APP.prompts(row)


def read_all(path: Path, root: Path) -> None:
    """Read the transcript in every way there is: first and second look, and as one that only grew."""
    unit = APP.unit(str(root), str(path))
    assert unit
    stat = APP.stat(unit)
    scan = APP.read(unit, stat, None)
    for complete in (False, True):
        again = APP.read(unit, stat, Previous(stat, scan.facts, complete))
        assert list(again.facts) == [ID]
        row = APP.merge(ID, [Part(unit, stat, again.facts[ID], gone=False)])
        assert row
        APP.prompts(row)


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value in a record."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@pytest.mark.parametrize(
    "value", [None, True, -1, 1e999, "", "x" * 2000, "\ud83d\0", [], {}, [[]], {"a": {}}], ids=repr
)
def test_no_value_of_an_unexpected_type_is_trusted(claude: Store, value: object) -> None:
    """Each value of each kind of record in its turn."""
    records = every_kind()
    for number, record in enumerate(records):
        for *way, last in places(record):
            changed = [dict(other) for other in every_kind()]
            target: Any = changed[number]
            for key in way:
                target = target[key]
            target[last] = value
            path = claude.put(*changed)
            read_all(path, claude.root)


@pytest.mark.parametrize("seed", range(30))
def test_no_damage_makes_reading_raise(claude: Store, seed: int) -> None:
    """Pieces of a transcript are cut out, doubled, swapped and overwritten."""
    rng = random.Random(seed)
    data = bytearray(b"".join(map(line, [*every_kind(), *every_kind()])))
    for _ in range(20):
        begin = rng.randrange(len(data))
        piece = data[begin : begin + rng.randrange(200)]
        where = rng.randrange(len(data))
        data[where : where + rng.choice([0, len(piece)])] = rng.choice([b"", piece, b"\0" * 9, b'"', b"\n", b"\xf0"])
        path = claude.put(bytes(data), folder=FOLDER)
        read_all(path, claude.root)
