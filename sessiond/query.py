"""The query language: from what a person types to terms and limits. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from sessiond.text import fold, storable

MAX_TERMS = 24
"""Terms of a query that count; a pasted paragraph has hundreds, and the first ones tell it apart."""
MAX_QUERY = 4096
"""Characters of a query that are looked at; 400,000 words took a second in which nobody else was answered."""
FIELDS = ("title", "cwd", "branch", "app", "id", "store")
STATES = ("live", "lost", "archived", "hidden")

_TOKEN = re.compile(r'(-?)(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))', re.IGNORECASE)
_AGE = re.compile(r"(\d{1,5})\s*(mo|[smhdwy])[a-z]*", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "mo": 30 * 86400, "y": 365 * 86400}


class Term(NamedTuple):
    """One thing a row must hold, or must not."""

    text: str
    """Folded, never empty."""
    field: str | None = None
    """One of ``FIELDS``; None is any of them."""
    negated: bool = False
    typed: str = ""
    """As the person wrote it, to say which filter excluded everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What rows are wanted. Times are ms since the epoch."""

    terms: tuple[Term, ...] = ()
    since: int | None = None
    until: int | None = None
    states: frozenset[str] = field(default_factory=frozenset)
    """Of ``STATES``; each one named must hold."""
    absent: frozenset[str] = field(default_factory=frozenset)
    """Of ``STATES``; none of these may hold."""
    apps: tuple[str, ...] = ()
    """Only sessions of these apps; none means all."""
    below: str | None = None
    """A folder: only sessions that were in it or below it."""
    everything: bool = False
    """Hidden rows too."""


def parse(text: str, now: float) -> Query:
    """Return the query that *text* means at *now* (s since the epoch).

    Any text is a query: what is no known field, state or time is a word to look for.
    """
    terms: list[Term] = []
    since = until = None
    states: set[str] = set()
    absent: set[str] = set()
    for match in _TOKEN.finditer(storable(text[:MAX_QUERY])):
        minus, name, quoted, bare = match.groups()
        value = quoted if quoted is not None else bare
        name = name.lower() if name else None
        negated = bool(minus)
        if name == "is" and value.lower() in STATES:
            (absent if negated else states).add(value.lower())
            continue
        if name in ("since", "until") and not negated:
            moment = when(value, now, end=name == "until")
            if moment is not None:
                since, until = (moment, until) if name == "since" else (since, moment)
                continue
        if name is not None and name not in FIELDS:
            value, name = f"{name}:{value}", None
        folded = fold(value)
        if folded.strip():
            terms.append(Term(folded, name, negated, match[0]))
        elif minus and not value:
            terms.append(Term("-", typed="-"))
    return Query(
        terms=tuple(dict.fromkeys(terms))[:MAX_TERMS],
        since=since,
        until=until,
        states=frozenset(states),
        absent=frozenset(absent),
        everything="hidden" in states,
    )


def when(text: str, now: float, *, end: bool = False) -> int | None:
    """Return the moment *text* names, in ms since the epoch, or None when it names none.

    An age (``45m 3h 2d 1w 2mo 1y``) counts back from *now*; a date (``2026-11-30``), a date with
    a time, ``today`` and ``yesterday`` are local. With *end* a day means its end.
    """
    text = text.strip().lower()
    if match := _AGE.fullmatch(text):
        return int((now - int(match[1]) * _UNITS[match[2].lower()]) * 1000)
    today = datetime.fromtimestamp(now).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        moment, day = today - timedelta(days=text == "yesterday"), True
    else:
        try:
            moment = datetime.fromisoformat(text.upper())
        except ValueError:
            return None
        day = len(text) <= len("2026-11-30")
    try:
        return int((moment + timedelta(days=day and end)).timestamp() * 1000)
    except (OverflowError, ValueError):
        return None
