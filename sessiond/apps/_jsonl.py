"""Bounded reading of JSONL transcripts, shared by every agent that writes one.

A transcript can have gigabytes (98 GB has been reported), lines of
12.8 MB (anthropics/claude-code#24118), NUL runs, two objects on a line and a torn end.
Nothing here reads more than a head, a tail and, once, a look back.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat as stat_module
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from sessiond.apps.base import stat_of
from sessiond.text import storable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessiond.session import Previous, Stat

HEAD_LINES = 80
HEAD_LINE = 256 << 10
"""Bytes kept of one head line: a first prompt with a pasted image is a line of 437 KB that begins with its text."""
HEAD_TOTAL = 4 << 20
TAIL = 512 << 10
LOOK_BACK = 8 << 20
"""Bytes before the end in which a title record is looked for once (seen 4.9 MB from the end)."""
LINES = 3000
"""Lines of a tail that are parsed at most; a real one has 50 to 2,000."""
OBJECTS = 1000
"""Objects on one line that are parsed; two are what a lost newline leaves."""
BLOCK = 64 << 10
MODE = 200
"""Characters of a permission; the longest that was seen, an object, has 131."""

T = TypeVar("T")

_DECODER = json.JSONDecoder()
_STRING = r'\s*:\s*"((?:[^"\\\x00-\x1f]|\\.)*+)'


class HeadLine(NamedTuple):
    """A line of the head; ``cut`` when it was longer than ``HEAD_LINE`` and only its beginning is here."""

    data: bytes
    cut: bool


class Transcript:
    """A transcript open for reading. Counts the bytes it reads in ``read``."""

    def __init__(self, path: str) -> None:
        """Open *path*; raises OSError also when it is a link, a FIFO, a device or a folder."""
        # O_NONBLOCK: opening a FIFO that nobody writes to would hang the indexer.
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        self.read = 0
        try:
            found = os.fstat(self._fd)
            if not stat_module.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
        except OSError:
            os.close(self._fd)
            raise
        self.stat: Stat = stat_of(found)
        self.size = found.st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def bytes_at(self, offset: int, length: int) -> bytes:
        """Return at most *length* bytes from *offset*; fewer at the end of the file."""
        data = os.pread(self._fd, length, offset)
        self.read += len(data)
        return data

    def head(self) -> Iterator[HeadLine]:
        """Yield up to ``HEAD_LINES`` lines, read as they are asked for.

        A last line without a newline is yielded too. Stops at a hole: a sparse or
        NUL-filled region longer than a line may be.
        """
        pending = b""
        offset = count = 0
        skipping = False
        while offset < min(self.size, HEAD_TOTAL) and count < HEAD_LINES:
            data = self.bytes_at(offset, min(BLOCK, HEAD_TOTAL - offset))
            if not data:
                break
            offset += len(data)
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if skipping:
                    skipping = False
                    continue
                yield HeadLine(line[:HEAD_LINE], len(line) > HEAD_LINE)
                count += 1
                if count == HEAD_LINES:
                    return
            if skipping:
                pending = b""
            elif len(pending) > HEAD_LINE:
                kept = pending[:HEAD_LINE]
                if not kept.strip(b"\0"):
                    return
                yield HeadLine(kept, cut=True)
                count += 1
                pending, skipping = b"", True
        if pending and not skipping and count < HEAD_LINES:
            yield HeadLine(pending, cut=False)

    def tail(self, start: int = 0) -> Tail:
        """Return the complete lines of the last ``TAIL`` bytes that begin at *start* or later.

        *start* is an offset at which a line begins, such as the ``end`` of an earlier tail.
        """
        offset = max(start, self.size - TAIL, 0)
        cut = offset > start
        # One byte more tells whether the window happens to begin at a line's beginning.
        data = self.bytes_at(offset - cut, self.size - offset + cut)
        if cut:
            newline = data.find(b"\n")
            if newline < 0:
                return Tail(b"", self.size)
            return Tail(data, offset + newline, newline + 1)
        return Tail(data, offset)

    def look_back(self, before: int) -> LookBack:
        """Return the lines before the offset *before*, none of them read yet."""
        return LookBack(self, before)


class LookBack:
    """The lines before a tail, read backwards in blocks as far as a search needs, once for all searches.

    No further than ``LOOK_BACK`` bytes before the end, nor beyond a block of nothing but NULs:
    runs of 143 KB are known from crashes (anthropics/claude-code#76059), more is a sparse file.
    """

    def __init__(self, transcript: Transcript, before: int) -> None:
        self._transcript = transcript
        self._end = before
        self._floor = max(0, transcript.size - LOOK_BACK)
        self._carry = b""
        self._blocks: list[Tail] = []

    def last(self, needle: bytes, accept: Callable[[dict[str, Any]], T | None]) -> T | None:
        """Return what *accept* makes of the last record whose line holds *needle*; see `Tail.last`."""
        for block in self._newest_first():
            if (found := block.last(needle, accept)) is not None:
                return found
        return None

    def _newest_first(self) -> Iterator[Tail]:
        yield from self._blocks
        while self._end > self._floor:
            begin = max(self._floor, self._end - TAIL)
            block = self._transcript.bytes_at(begin, self._end - begin)
            if not block.strip(b"\0"):
                self._end = self._floor
                return
            self._end = begin
            first = block.find(b"\n") + 1
            if begin and not first:
                # Of a line longer than a block nothing can be wanted.
                self._carry = b""
                continue
            first = first if begin else 0
            self._blocks.append(Tail(block + self._carry, begin + first, first))
            self._carry = block[:first]
            yield self._blocks[-1]


class Tail:
    """The last lines of a transcript, searched backwards for the bytes of a wanted key.

    Only a line that holds the bytes is parsed: on 512 KiB that is several times faster than
    parsing all of it. The parsed record is checked by the caller, because the same bytes
    occur inside tool output.
    """

    def __init__(self, data: bytes, offset: int, first: int = 0) -> None:
        # *first*, where the first line begins in *data*, saves a copy of half a megabyte: 0.2 ms.
        self._data = data
        self._first = first
        self._parsed: dict[int, list[dict[str, Any]]] = {}
        self.offset = offset
        """Offset in the file at which the first of these lines begins."""
        self.end = offset + max(0, data.rfind(b"\n", first) + 1 - first)
        """Offset after the last complete line: the place to go on from when the file has grown."""

    def last(self, needle: bytes, accept: Callable[[dict[str, Any]], T | None], within: int = 0) -> T | None:
        """Return the first not-None result of *accept* over the records whose line holds *needle*, newest first.

        With *within* only lines that begin in the last so many bytes: to find nothing in 512 KiB takes 0.14 ms.
        """
        data, position = self._data, len(self._data)
        first = max(self._first, data.find(b"\n", position - within) + 1) if 0 < within < position else self._first
        while (position := data.rfind(needle, first, position)) >= 0:
            begin = max(first, data.rfind(b"\n", first, position) + 1)
            for record in reversed(self._records(begin)):
                result = accept(record)
                if result is not None:
                    return result
            position = begin
        return None

    def newest_first(self) -> Iterator[dict[str, Any]]:
        """Yield the records, the last first, parsing each line as it is asked for, ``LINES`` at most."""
        end = len(self._data)
        for _ in range(LINES):
            if end <= self._first:
                return
            begin = max(self._first, self._data.rfind(b"\n", self._first, end - 1) + 1)
            yield from reversed(self._records(begin))
            end = begin

    def _records(self, begin: int) -> list[dict[str, Any]]:
        """Return the records of the line at *begin*, parsed once whatever it is looked at for, of ``LINES`` at most."""
        if begin not in self._parsed:
            if len(self._parsed) >= LINES:
                return []
            end = self._data.find(b"\n", begin)
            self._parsed[begin] = records(self._data[begin : end if end >= 0 else len(self._data)])
        return self._parsed[begin]


def records(line: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects on a line: none for garbage, two where a writer lost a newline.

    NUL runs and a BOM are skipped, invalid UTF-8 is replaced; never raises.
    """
    text = line.decode("utf-8", "replace").strip("\x00\ufeff \t\r")
    found: list[dict[str, Any]] = []
    position = 0
    while len(found) < OBJECTS and (position := text.find("{", position)) >= 0:
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        if isinstance(value, dict):
            found.append(value)
    return found


def cut_strings(line: bytes, key: str) -> Iterator[str]:
    """Yield the string values of *key* in a line that was cut, the last possibly unfinished."""
    text = line.decode("utf-8", "replace")
    for match in re.finditer(f'"{key}"{_STRING}', text):
        value = match[1]
        if match.end() == len(text):
            value = re.sub(r"\\(?:u[0-9a-fA-F]{0,3})?$", "", value)
        try:
            yield str(json.loads(f'"{value}"', strict=False))
        except ValueError:
            continue


def text(value: object) -> str | None:
    """Return *value* if it is a string with something in it, else None."""
    return value if isinstance(value, str) and value.strip() else None


def mode(value: object) -> str | None:
    """Return a permission as it was recorded, of whatever type, in ``MODE`` characters; None when there is none.

    What nobody knows must not pass for nothing.
    """
    try:
        found = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    except (RecursionError, TypeError):  # too deep; or a blob of a database
        found = "[…]"
    return storable(found[:MODE]) if value is not None and found.strip() else None


def milliseconds(value: object) -> int | None:
    """Return an ISO 8601 timestamp as ms since the epoch, or None when it is not one.

    A year before 2000 or after 2100 is a broken clock or a hostile file, not a time to sort by.
    """
    if not isinstance(value, str) or not 19 <= len(value) <= 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000) if 2000 <= moment.year <= 2100 else None


def instant(value: object) -> int | None:
    """Return a time as ms since the epoch, be it a number of s or of ms or ISO 8601; None when it is none of them."""
    if isinstance(value, int | float) and abs(value) < 1e15:
        for factor in (1000, 1):
            if 946_684_800_000 <= value * factor < 4_102_444_800_000:
                return int(value * factor)
        return None
    return milliseconds(value)


def given(**facts: object) -> dict[str, Any]:
    """Return the facts that say something."""
    return {key: value for key, value in facts.items() if value}


GUARD = 1024


def guard(transcript: Transcript, end: int) -> list[int]:
    """Return a checksum of the first and the last ``GUARD`` bytes before *end*.

    A file that kept both only grew; one that did not was rewritten in place.
    """
    first = transcript.bytes_at(0, min(GUARD, end))
    last = transcript.bytes_at(max(0, end - GUARD), min(GUARD, end))
    return [zlib.crc32(first), zlib.crc32(last)]


def grew(transcript: Transcript, previous: Previous | None, end: int, known: list[int]) -> bool:
    """Return whether the file is the one of *previous* with lines added after *end*."""
    return (
        previous is not None
        and (previous.stat.dev, previous.stat.ino) == (transcript.stat.dev, transcript.stat.ino)
        and transcript.size >= previous.stat.size
        and transcript.size >= end
        and guard(transcript, end) == known
    )
