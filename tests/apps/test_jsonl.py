"""Bounded reading of transcripts that nobody promised anything about."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.apps import _jsonl
from sessiond.apps._jsonl import Transcript, cut_strings, grew, guard, milliseconds, records
from sessiond.session import Previous

if TYPE_CHECKING:
    from pathlib import Path


def line(**record: Any) -> bytes:
    return json.dumps(record).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"a":1}', [{"a": 1}]),
        (b'{"a":1}{"b":2}', [{"a": 1}, {"b": 2}]),
        (b'{"a":1} ,{"b":2}', [{"a": 1}, {"b": 2}]),
        (b"\0" * 1000 + b'{"a":1}', [{"a": 1}]),
        (b'\xef\xbb\xbf{"a":1}\r', [{"a": 1}]),
        (b'{"a":"\xff\xfe"}', [{"a": "\ufffd\ufffd"}]),
        (b'{"a":"\\ud83d"}', [{"a": "\ud83d"}]),
        (b'{"a":1,"a":2}', [{"a": 2}]),
        (b'{"a":', []),
        (b'[{"a":1}', [{"a": 1}]),
        (b"null", []),
        (b"", []),
        (b'{"a":' * 100_000, []),
        (b'{"a":' + b"9" * 5000 + b"}", []),
    ],
)
def test_a_line_gives_the_objects_on_it(data: bytes, found: list[Any]) -> None:
    """Garbage gives none, two objects give two, and nothing raises."""
    assert records(data) == found


@given(st.binary(max_size=300))
def test_any_bytes_are_a_line(data: bytes) -> None:
    """Whatever is in a file, reading a line of it gives a list of objects."""
    assert all(isinstance(record, dict) for record in records(data))


def test_the_head_stops_at_80_lines(tmp_path: Path) -> None:
    """And reads no more of the file than it yields."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(line(n=n, pad="x" * 1000) for n in range(10_000)))
    with Transcript(str(path)) as transcript:
        head = list(transcript.head())
        assert [records(entry.data)[0]["n"] for entry in head] == list(range(80))
        assert transcript.read < 200_000


def test_a_long_line_of_the_head_keeps_its_beginning(tmp_path: Path) -> None:
    """The lines after it are still seen."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(n=1) + line(text="begin " + "x" * 1_000_000) + line(n=3))
    with Transcript(str(path)) as transcript:
        one, two, three = transcript.head()
    assert (one.cut, two.cut, three.cut) == (False, True, False)
    assert len(two.data) == _jsonl.HEAD_LINE
    assert next(cut_strings(two.data, "text")).startswith("begin x")
    assert records(three.data) == [{"n": 3}]


@pytest.mark.parametrize("cut", [b'"te', b'"text', b'"text":"ab\\', b'"text":"ab\\u12', b'"text": "ab'])
def test_a_string_is_read_from_a_cut_line(cut: bytes) -> None:
    """However it was cut, escapes included."""
    assert next(cut_strings(b'{"text":"first \\"one\\"","k":1,' + cut, "text")) == 'first "one"'
    assert [value[:2] for value in cut_strings(cut, "text")] in ([], ["ab"])


def test_the_head_ends_at_a_hole(tmp_path: Path) -> None:
    """A sparse file of 2 GB costs a few blocks."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(n=1))
    os.truncate(path, 2 << 30)
    with Transcript(str(path)) as transcript:
        assert records(next(iter(transcript.head())).data) == [{"n": 1}]
        assert len(list(transcript.head())) == 1
        assert transcript.read < 1 << 20


def test_the_tail_begins_with_a_whole_line(tmp_path: Path) -> None:
    """The line that the window cuts is dropped, also when the window begins right at a line."""
    path = tmp_path / "t.jsonl"
    body = b"".join(line(n=n, pad="x" * 990) for n in range(1000))
    for extra in range(3):
        path.write_bytes(b"y" * extra + b"\n" + body)
        with Transcript(str(path)) as transcript:
            tail = transcript.tail()
            numbers = [record["n"] for record in tail.newest_first()]
        assert numbers == list(range(999, numbers[-1] - 1, -1))
        assert len(numbers) == pytest.approx(_jsonl.TAIL / 1010, rel=0.05)
        assert tail.end == path.stat().st_size


def test_a_tail_within_one_line_is_empty(tmp_path: Path) -> None:
    """A line of 12 MB at the end gives nothing to read, and costs one window."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(n=1) + b'{"x":"' + b"y" * 12_000_000 + b'"}\n')
    with Transcript(str(path)) as transcript:
        assert list(transcript.tail().newest_first()) == []
        assert transcript.read <= _jsonl.TAIL + 1


def test_the_last_record_with_a_key_is_found_and_checked(tmp_path: Path) -> None:
    """The same bytes in tool output are no record; an unfinished last line is none yet."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(
        line(type="title", t="old")
        + line(type="title", t="new")
        + line(type="tool", output='{"type":"title","t":"fake"}')
        + b'{"type":"title","t":"unfin'
    )
    with Transcript(str(path)) as transcript:
        tail = transcript.tail()
    assert tail.last(b'"title"', lambda r: r.get("t") if r.get("type") == "title" else None) == "new"
    assert tail.last(b'"title"', lambda r: None) is None
    assert tail.end == path.read_bytes().rindex(b"\n") + 1


@pytest.mark.parametrize("back", [600_000, 3_000_000, 7_000_000])
def test_looking_back_finds_a_record_before_the_tail(tmp_path: Path, back: int) -> None:
    """Up to 8 MiB from the end, and never further."""
    path = tmp_path / "t.jsonl"
    filler = line(pad="x" * 9000)
    path.write_bytes(filler * 1000 + line(type="title", t="found") + filler * (back // len(filler)))
    with Transcript(str(path)) as transcript:
        tail = transcript.tail()
        found = transcript.look_back(tail.offset).last(b'"title"', lambda r: r.get("t"))
        assert found == "found"
        assert transcript.read <= _jsonl.LOOK_BACK + _jsonl.TAIL
    path.write_bytes(line(type="title", t="too far") + filler * 2000)
    with Transcript(str(path)) as transcript:
        assert transcript.look_back(transcript.tail().offset).last(b'"title"', lambda r: r.get("t")) is None
        assert transcript.read <= _jsonl.LOOK_BACK + _jsonl.TAIL


def test_looking_back_twice_reads_once(tmp_path: Path) -> None:
    """Whatever is looked for, the limit is for all of it together; a hole ends the look."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(type="title", t="found"))
    os.truncate(path, 1 << 30)
    with path.open("ab") as file:
        file.write(b"\n" + line(pad="x" * 9000) * 300)
    with Transcript(str(path)) as transcript:
        back = transcript.look_back(transcript.tail().offset)
        assert [back.last(needle, lambda r: r.get("t")) for needle in (b"title", b"nothing", b"t")] == [None] * 3
        assert transcript.read < 4 << 20


def test_looking_back_passes_over_a_giant_line(tmp_path: Path) -> None:
    """A line of several windows lies between the tail and the title."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(type="title", t="found") + b'{"x":"' + b"y" * 2_000_000 + b'"}\n' + line(n=1) * 40_000)
    with Transcript(str(path)) as transcript:
        assert transcript.look_back(transcript.tail().offset).last(b'"title"', lambda r: r.get("t")) == "found"


@pytest.mark.parametrize("kind", ["folder", "fifo", "link", "loop", "missing"])
def test_only_a_regular_file_is_opened(tmp_path: Path, kind: str) -> None:
    """A link to a credential, a pipe nobody writes to: an error, and no waiting."""
    path = tmp_path / "t.jsonl"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "secret").write_text("secret")
        path.symlink_to(tmp_path / "secret")
    elif kind == "loop":
        path.symlink_to(path)
    with pytest.raises(OSError):  # noqa: PT011 - each kind has its own
        Transcript(str(path))


def test_a_file_that_grew_is_told_from_one_that_was_rewritten(tmp_path: Path) -> None:
    """In place, longer, with the same inode: only the checksums can tell."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(n=1) * 500)
    with Transcript(str(path)) as transcript:
        end = transcript.tail().end
        known = guard(transcript, end)
        previous = Previous(transcript.stat, {}, complete=True)
    with path.open("ab") as file:
        file.write(line(n=2))
    with Transcript(str(path)) as transcript:
        assert grew(transcript, previous, end, known)
        assert [record["n"] for record in transcript.tail(end).newest_first()] == [2]
    with path.open("r+b") as file:
        file.write(line(n=7))
    with Transcript(str(path)) as transcript:
        assert not grew(transcript, previous, end, known)
    path.write_bytes(line(n=1) * 400)
    with Transcript(str(path)) as transcript:
        assert not grew(transcript, previous, end, known)


@pytest.mark.parametrize(
    "value",
    [None, 5, "", "yesterday", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "x" * 999],
)
def test_what_is_no_time_gives_none(value: object) -> None:
    """Years no list should be sorted by are no times either."""
    assert milliseconds(value) is None


def test_a_timestamp_becomes_milliseconds() -> None:
    """With a zone or without one, which means UTC."""
    now = int(time.time()) * 1000
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1000))
    assert milliseconds(stamp + ".123Z") == now + 123
    assert milliseconds(stamp) == now
