"""Rows as a person or a program wants to read them. All text of a transcript is made safe here."""

from __future__ import annotations

import json
from bisect import bisect_right
from datetime import UTC, datetime
from itertools import groupby, pairwise, takewhile
from typing import TYPE_CHECKING, Any

from wcwidth import wcswidth

from sessiond.text import clean, fold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sess.front import Context
    from sessiond.query import Term

Row = dict[str, Any]

_GAP = 2
_TITLE = 24
"""Width of a title below which it takes from the other columns."""
_SHORT_ID = 8
_LONG_ID = 20
"""Width of an id that is cut: two of one store that differ later take no room from all others."""

_UNITS = {"m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}

_FIELDS = {"app": "app", "id": "id", "branch": "branch", "folder": "cwd", "title": "title"}
"""What a query calls each column that it looks at."""

_MATCH, _DIM, _RECENT, _ID = "1;31", "2", "32", "36"
_LIVE = {"busy": "32", "waiting": "1;33", "idle": ""}
_APPS = ("34", "33", "35", "94", "93", "95")
"""Colors that tell agents apart: none that a match, a recent age or an id has."""


def table(rows: Sequence[Row], terms: Sequence[Term], context: Context, now: float, **instead: Sequence[str]) -> str:
    """Return *rows* in columns that fit the terminal, a line each; where it has colors, *terms* are highlighted.

    *Instead* of what a column has by itself it gets the texts of its name, which are clean.
    """
    tags = [_tag(row) for row in rows]
    texts = {
        "age": [age(updated(row), now) for row in rows],
        "app": [clean(row["app"]) for row in rows],
        "id": [cut(short, _LONG_ID) for short in short_ids([clean(row["id"]) for row in rows])],
        "branch": [clean(row["branch"] or "") for row in rows],
        "folder": [clean(folder(row["cwd"] or "", context.home)) for row in rows],
        "title": [tag + (clean(row["title"]) or "(no title)") for row, tag in zip(rows, tags, strict=True)],
        **instead,
    }
    rooms = _fit(texts, context.columns)
    if rooms["folder"] < max(map(wcswidth, texts["folder"])):
        texts["folder"] = _without_common(texts["folder"])
        rooms = _fit(texts, context.columns)
    lines, left = [""] * len(rows), context.columns
    for name, room in rooms.items():
        if not room:
            continue
        shorten = cut_left if name == "folder" else cut
        # The title is last and gets all that is left: a shortened folder may need less than its room.
        cells = [shorten(text, max(left, 1) if name == "title" else room) for text in texts[name]]
        width = max(map(wcswidth, cells)) + _GAP
        left -= width
        wanted = [term.text for term in terms if term.field in (None, _FIELDS.get(name))]
        for number, cell in enumerate(cells):
            shown = _colored(name, cell, rows[number], tags[number], wanted, now) if context.color else cell
            lines[number] += shown + " " * (width - wcswidth(cell))
    return "".join(line.rstrip() + "\n" for line in lines)


def tsv(rows: Sequence[Row]) -> str:
    """Return *rows* as id, app, last activity (ISO 8601, UTC), branch, folder and title, separated by tabs."""
    return "".join(
        "\t".join(clean(row[key] or "") for key in ("id", "app"))
        + f"\t{_iso(updated(row))}\t"
        + "\t".join(clean(row[key] or "") for key in ("branch", "cwd", "title"))
        + "\n"
        for row in rows
    )


def json_lines(rows: Sequence[Row]) -> str:
    """Return *rows* as they are, one JSON object a line; ASCII, so that no text in it can steer a terminal."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def ids(rows: Sequence[Row]) -> str:
    """Return the full ids, one a line."""
    return "".join(clean(row["id"]) + "\n" for row in rows)


def age(moment: int, now: float) -> str:
    """Return how long ago *moment* (ms) was, as short as ``now 5m 3h 2d 3w 4mo 2y``."""
    minutes = int(now - moment / 1000) // 60
    days = minutes // (24 * 60)
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes}m"
    if days < 1:
        return f"{minutes // 60}h"
    if days < 7:
        return f"{days}d"
    if days < 30:
        return f"{days // 7}w"
    return f"{days // 30}mo" if days < 365 else f"{days // 365}y"


def ago(moment: int, now: float) -> str:
    """Return `age` in words, as a part of a sentence."""
    short = age(moment, now)
    if short == "now":
        return "just now"
    unit = short.lstrip("0123456789")
    return f"{count(int(short.removesuffix(unit)), _UNITS[unit])} ago"


def local_time(moment: int) -> str:
    """Return *moment* (ms) by the wall clock, or ``"?"`` when no calendar has it."""
    found = _datetime(moment)
    return f"{found.astimezone():%Y-%m-%d %H:%M %z}" if found else "?"


def count(number: int, noun: str) -> str:
    """Return *number* with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def by_name(numbers: Mapping[str, int]) -> str:
    """Return what a sum is made of, in brackets after a space; nothing when it is of nothing."""
    return f" ({', '.join(f'{name} {number:,}' for name, number in numbers.items())})" if numbers else ""


def size(number: float) -> str:
    """Return *number* of bytes with three digits and a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def folder(path: str, home: str) -> str:
    """Return *path* with ``~`` for *home*."""
    if home and (path == home or path.startswith(home + "/")):
        return "~" + path[len(home) :]
    return path


def short_ids(ids: Sequence[str]) -> list[str]:
    """Return the shortest beginning of each id that no other of *ids* has, of 8 characters or more.

    A time stands at the beginning of some ids: those of one minute differ late.
    """
    ordered = sorted(set(ids))
    lengths = dict.fromkeys(ordered, _SHORT_ID)
    for one, two in pairwise(ordered):
        common = next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), len(one))
        lengths[one] = max(lengths[one], common + 1)
        lengths[two] = max(lengths[two], common + 1)
    return [full[: lengths[full]] for full in ids]


def cut(text: str, room: int) -> str:
    """Return *text* in at most *room* columns of a terminal, with ``…`` where its end is missing."""
    if wcswidth(text) <= room:
        return text
    return text[: _fitting(text, room - 1)].rstrip() + "…"


def cut_left(text: str, room: int) -> str:
    """Return *text* in at most *room* columns, with ``…`` where its beginning is missing; whole folders if possible."""
    if wcswidth(text) <= room:
        return text
    missing = bisect_right(range(len(text)), -room, key=lambda n: -wcswidth(text[n:]))
    end = text[missing:]
    return "…" + end[max(end.find("/", 0, -1), 0) :]


def wrap(text: str, room: int, most: int) -> list[str]:
    """Return *text* in at most *most* lines of *room* columns, broken between words if possible."""
    lines: list[str] = []
    while len(lines) < most - 1 and wcswidth(text) > room:
        end = max(_fitting(text, room), 1)
        if text[end] != " ":
            end = max(text.rfind(" ", 0, end), 0) or end
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, cut(text, room)]


def highlight(text: str, terms: Sequence[str]) -> str:
    """Return *text* with every occurrence of the folded *terms* marked."""
    terms = [term for term in terms if term in fold(text)]
    if not terms:
        return text
    folded, origins = _folded(text)
    marks = bytearray(len(text))
    for term in terms:
        start = folded.find(term)
        while start >= 0:
            end = start + len(term)
            first, last = origins[start][0], origins[end - 1][1]
            marks[first:last] = b"\1" * (last - first)
            start = folded.find(term, end)
    runs = groupby(zip(text, marks, strict=True), key=lambda pair: pair[1])
    return "".join(paint("".join(c for c, _ in run), _MATCH if marked else "") for marked, run in runs)


def _folded(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return *text* folded, and for each of its characters the start and end of what it came from.

    Folding makes two characters of one (``ß``), none (an accent) or one of several (Hangul).
    """
    if text.isascii():
        return fold(text), [(n, n + 1) for n in range(len(text))]
    folded, origins = "", []
    for start, end in _pieces(text):
        piece = fold(text[start:end])
        folded += piece
        origins += [(start, end)] * len(piece)
    return folded, origins


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the smallest parts of *text* that can be folded each for itself."""
    start, before = 0, ""
    for n, character in enumerate(text):
        alone = fold(character)
        # Below U+0300 nothing joins what stands before it.
        if n and (character < "\u0300" or (alone and fold(text[start : n + 1]) == before + alone)):
            yield start, n
            start, before = n, alone
        else:
            before = fold(text[start : n + 1])
    yield start, len(text)


def _fitting(text: str, room: int) -> int:
    """Return how many characters of *text* fit into *room* columns."""
    return bisect_right(range(len(text) + 1), room, key=lambda n: wcswidth(text[:n])) - 1


def _without_common(paths: Sequence[str]) -> list[str]:
    """Return *paths* with ``…`` for the folders that all of them are in, when those are more than ``~``."""
    above = [path.split("/")[:-1] for path in set(paths) if path]
    common = "/".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, zip(*above, strict=False)))
    if common in ("", "~") or len(above) < 2:
        return list(paths)
    return [path and "…" + path[len(common) :] for path in paths]


def _fit(texts: Mapping[str, Sequence[str]], columns: int) -> dict[str, int]:
    """Return the width of each column of *texts*, 0 to leave it out, so that all fit."""
    natural = {name: max(map(wcswidth, column)) for name, column in texts.items()}
    widths = {
        **natural,
        "branch": min(natural["branch"], 24),
        "folder": min(natural["folder"], 32),
        "title": min(natural["title"], _TITLE),
    }

    def spare() -> int:
        return columns + _GAP - sum(width + _GAP for width in widths.values() if width)

    for name, most in (
        *(("folder", 16), ("branch", 12), ("branch", 0)),
        *(("title", 16), ("folder", 0), ("title", 6), ("app", 0)),
    ):
        if spare() < 0:
            widths[name] = min(widths[name], most)
    for name in ("title", "folder", "branch"):
        if widths[name] and spare() > 0:
            widths[name] = min(natural[name], widths[name] + spare())
    return widths


def _colored(name: str, text: str, row: Row, tag: str, terms: Sequence[str], now: float) -> str:
    if name == "age":
        seconds = now - updated(row) / 1000
        return paint(text, _RECENT if seconds < 3600 else _DIM if seconds > 7 * 86400 else "")
    if name == "title" and tag and text.startswith(tag):
        return paint(tag, _LIVE.get(row["live"], _DIM)) + highlight(text.removeprefix(tag), terms)
    if name == "title" and not row["title"]:
        return paint(text, _DIM)
    marked = highlight(text, terms)
    if marked == text and name in ("id", "app"):
        return paint(text, _ID if name == "id" else _APPS[sum(text.encode()) % len(_APPS)])
    return marked


def paint(text: str, code: str) -> str:
    """Return *text* in the colors of *code*, an SGR parameter; as it is without one."""
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def states(row: Row) -> str:
    """Return what is unusual about *row*, in words after commas."""
    return clean(", ".join(filter(None, [row["live"], row["archived"] and "archived", row["hidden"]])))


def _tag(row: Row) -> str:
    return f"[{said}] " if (said := states(row)) else ""


def updated(row: Row) -> int:
    """Return when *row* was last active, in ms since the epoch."""
    return int(row["updated"] or row["mtime"])


def _iso(moment: int) -> str:
    found = _datetime(moment)
    return f"{found:%Y-%m-%dT%H:%M:%SZ}" if found else ""


def _datetime(moment: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(moment / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
