"""From a query to rows. Reads the index through a connection of its own."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sessiond.schema import connect
from sessiond.text import fold, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessiond.query import Query

WALK = 1500
"""Newest rows looked at one by one before the full-text index is asked: a common word is there, at 0.7 µs a row."""
FEW = 300
"""Candidates up to which all are fetched and sorted, at 3 µs each. Of more, the newest are found by recency."""
COMMON = 4000
"""Candidates above which even to list them takes longer than to walk on by recency."""
TRIGRAMS = 3
"""Trigrams of one term that are asked for: each more one is another list to walk, and candidates are checked anyway."""
NEAR = 100
"""Titles compared with what was typed, the newest and as many that share its beginning or end: 5 ms a word."""
NEAR_WORDS = 4
"""Words of a query that are compared with those of titles."""
_WORD = re.compile(r"\w+")
_FOLDED = {
    "title": "folded_title",
    "cwd": "coalesce(folded_cwd, cwd, '')",
    "branch": "coalesce(folded_branch, branch, '')",
    "id": "folded_id",
}
_LOOKED_AT = "id, root, cwd, branch, launch_dir, folded_title, folded_cwd, folded_branch, folded_id"
_STATES = {
    "live": "live IS NOT NULL",
    "lost": "lost IS NOT NULL",
    "archived": "archived = 1",
    "hidden": "hidden IS NOT NULL",
}
ROW = (
    *("app", "id", "title", "cwd", "branch", "mtime", "bytes", "path", "root", "created", "updated", "model", "effort"),
    *("approval", "sandbox", "archived", "live", "hidden", "launch_dir", "successor", "lost"),
)
_ROW_SQL = (
    "SELECT session.id, root.app, identity.name, title, cwd, branch, mtime, bytes, folder.path, unit.name, "
    "root.path, created, updated, model, effort, approval, sandbox, archived, live, hidden, launch_dir, successor, "
    "lost FROM session JOIN identity ON identity.id = session.id JOIN root ON root.id = session.root "
    "JOIN unit ON unit.id = session.unit JOIN folder ON folder.id = unit.folder "
)


class Search:
    """Answers queries. Belongs to one thread."""

    def __init__(self, path: str) -> None:
        """Open the index at *path*; raises apsw.Error when it cannot be read."""
        self._db = connect(path)

    def close(self) -> None:
        """Close the connection. May be called from any thread."""
        self._db.close(True)

    def find(self, query: Query, limit: int, sort: str = "recent") -> list[dict[str, Any]]:
        """Return at most *limit* rows, the last active first, or with *sort* ``relevance`` the best first."""
        if sort == "relevance" and query.terms:
            # Of more matches than this the best one is not worth waiting for.
            numbers = self._matches(query, max(limit, COMMON // 2))
            rows = self._rows(numbers)
            terms = [term.text for term in query.terms if not term.negated]
            rows.sort(key=lambda row: -_relevance(row, terms))
            return rows[:limit]
        return self._rows(self._matches(query, limit))

    def count(self, query: Query, limit: int = 1000) -> int:
        """Return how many rows match, counting no further than *limit*."""
        return len(self._matches(query, limit))

    def hidden(self, query: Query, limit: int = 1000) -> dict[str, int]:
        """Return how many hidden rows match, by reason, looking at no more than *limit*."""
        numbers = self._matches(replace(query, everything=True, states=query.states | {"hidden"}), limit)
        found: dict[str, int] = {}
        for row in self._rows(numbers):
            found[row["hidden"]] = found.get(row["hidden"], 0) + 1
        return found

    def nearest(self, query: Query) -> dict[str, Any] | None:
        """Return the row for people whose title comes nearest to the words of *query*, or None if half are unlike.

        Whatever else the query limits does not count.
        """
        words = [term.text for term in query.terms if not term.negated and term.field in (None, "title")][:NEAR_WORDS]
        if not words:
            return None
        ends = {end for word in words if len(word) >= 3 for end in (word[:3], word[-3:])}
        alike = (
            self._numbers(
                f"SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT {NEAR}",
                [" OR ".join(map(_quoted, sorted(ends)))],
            )
            if ends
            else []
        )
        titles = dict(
            self._db.execute(
                "SELECT id, folded_title FROM session WHERE hidden IS NULL AND (id IN "
                f"(SELECT id FROM session WHERE hidden IS NULL ORDER BY updated DESC LIMIT {NEAR}) "
                f"OR id IN ({','.join(map(str, alike))})) ORDER BY updated DESC"
            )
        )
        known = {word for title in titles.values() for word in _WORD.findall(title)}
        scores = dict.fromkeys(titles, 0)
        for word in words:
            like = word if any(word in title for title in titles.values()) else nearest(word, known)
            for number, title in titles.items():
                scores[number] += bool(like) and like in title
        best = max(scores, key=lambda number: scores[number], default=0)
        return self._rows([best])[0] if best and scores[best] * 2 >= len(words) else None

    def named(self, prefix: str) -> list[dict[str, Any]]:
        """Return the rows whose id is *prefix*, or else those whose id begins with it, newest first.

        Of more than a hundred the newest hundred.
        """
        wanted = fold(prefix)
        rows = self._rows(
            self._numbers(
                "SELECT id FROM session WHERE folded_id >= ? AND folded_id < ? ORDER BY updated DESC LIMIT 100",
                [wanted, wanted + "\U0010ffff"],
            )
        )
        return [row for row in rows if fold(row["id"]) == wanted] or rows

    def key(self, number: int) -> dict[str, Any]:
        """Return ``app``, ``id`` and ``root`` of a row, also of one that is gone; nothing of one that never was."""
        found = self._db.execute(
            "SELECT app, name, path FROM identity JOIN root ON root.id = root WHERE identity.id = ?", (number,)
        ).fetchone()
        return {"app": found[0], "id": found[1], "root": os.fsdecode(found[2])} if found else {}

    def states(self, query: Query, rows: Iterable[int] | None = None) -> dict[int, str | None]:
        """Return the numbers of all rows that match, or of those of *rows*, each with its ``live``."""
        bounds, conditions, values = self._conditions(query)
        every = " AND ".join([*bounds, *conditions]) or "1"
        chosen = [""] if rows is None else [f"id IN ({','.join(map(str, some))}) AND" for some in _batches(list(rows))]
        found: dict[int, str | None] = {}
        for some in chosen:
            found.update(self._db.execute(f"SELECT id, live FROM session WHERE {some} {every}", values))
        return found

    def listed(self) -> dict[str, int]:
        """Return how many rows are for people, by app."""
        return _totals(
            self._db.execute(
                "SELECT app, number FROM tally JOIN root ON root.id = root WHERE hidden = '' AND number > 0"
            )
        )

    def unlisted(self) -> dict[str, int]:
        """Return how many rows are hidden, by reason."""
        return _totals(self._db.execute("SELECT hidden, number FROM tally WHERE hidden <> '' AND number > 0"))

    def units(self) -> int:
        """Return how many files and databases the index was read from."""
        return int(self._db.execute("SELECT count(*) FROM unit WHERE gone = 0").get)

    def problems(self) -> dict[str, int]:
        """Return why units could not be read, with how many of each."""
        rows = self._db.execute(
            "SELECT problem, count(*) FROM unit WHERE problem <> '' AND gone = 0 GROUP BY 1 ORDER BY 2 DESC"
        )
        return _totals(rows)

    def unreadable(self) -> str:
        """Return the path of one unit that could not be read, ``""`` when all could."""
        row = self._db.execute(
            "SELECT path, name FROM unit JOIN folder ON folder.id = folder WHERE problem <> '' AND gone = 0 LIMIT 1"
        ).fetchone()
        return os.path.join(*map(os.fsdecode, row)) if row else ""

    def _rows(self, numbers: list[int]) -> list[dict[str, Any]]:
        rows = self.numbered(numbers)
        return [rows[number] for number in numbers if number in rows]

    def numbered(self, numbers: list[int]) -> dict[int, dict[str, Any]]:
        """Return the rows with these numbers."""
        rows: dict[int, dict[str, Any]] = {}
        for some in _batches(numbers):
            marks = ",".join("?" * len(some))
            for number, *values in self._db.execute(_ROW_SQL + f"WHERE session.id IN ({marks})", some):
                folder, name, root = (os.fsdecode(value) for value in values[7:10])
                row = dict(zip(ROW, [*values[:7], os.path.join(folder, name), root, *values[10:]], strict=True))
                row["archived"] = bool(row["archived"])
                rows[number] = row
        return rows

    def _matches(self, query: Query, limit: int) -> list[int]:
        """Return the numbers of the newest *limit* matching rows.

        Three ways, the cheapest first: look at the newest rows one by one, which finds what
        is common; fetch what an index says, when that is little; walk through everything.
        """
        bounds, conditions, values = self._conditions(query)
        bounded = " AND ".join(bounds) or "1"
        every = " AND ".join([*bounds, *conditions])
        self._db.set_progress_handler(_Deadline(), _Deadline.STEP)
        try:
            if not conditions:
                return self._numbers(f"SELECT id FROM session WHERE {bounded} ORDER BY updated DESC LIMIT {limit}", [])
            found = self._numbers(
                f"SELECT id FROM (SELECT {_LOOKED_AT} FROM session WHERE {bounded} ORDER BY updated DESC LIMIT {WALK}) "
                f"WHERE {' AND '.join(conditions)} LIMIT {limit}",
                values,
            )
            if len(found) >= limit or self._total(bounded, WALK) < WALK:
                return found
            for few, given in self._narrowings(query):
                candidates = self._numbers(f"SELECT id FROM ({few}) LIMIT {COMMON}", given)
                if len(candidates) < COMMON:
                    # With the sign SQLite goes by recency and looks into a row only if it is a candidate.
                    chosen = "id" if len(candidates) <= FEW else "+id"
                    return self._numbers(
                        f"SELECT id FROM session WHERE {chosen} IN ({','.join(map(str, candidates))}) AND {every} "
                        f"ORDER BY updated DESC LIMIT {limit}",
                        values,
                    )
            return self._numbers(f"SELECT id FROM session WHERE {every} ORDER BY updated DESC LIMIT {limit}", values)
        finally:
            self._db.set_progress_handler(None)

    def _numbers(self, sql: str, values: list[Any]) -> list[int]:
        return [number for (number,) in self._db.execute(sql, values)]

    def _total(self, bounded: str, limit: int) -> int:
        # The order makes SQLite take the index of the rows that count: without, "hidden" was looked for in all, 3 ms.
        rows = f"SELECT 1 FROM session WHERE {bounded} ORDER BY updated DESC LIMIT {limit}"
        return int(self._db.execute(f"SELECT count(*) FROM ({rows})").get)

    def _conditions(self, query: Query) -> tuple[list[str], list[str], list[Any]]:
        """Return *query* in SQL: limits an index serves, conditions on a row, the values of the conditions."""
        bounds = [] if query.everything else ["hidden IS NULL"]
        bounds += [f"updated >= {query.since}"] if query.since is not None else []
        bounds += [f"updated < {query.until}"] if query.until is not None else []
        bounds += [f"root IN ({self._roots(query.apps)})"] if query.apps else []
        bounds += [_STATES[state] for state in sorted(query.states)]
        bounds += [f"NOT ({_STATES[state]})" for state in sorted(query.absent)]
        conditions, values = [], []
        for term in query.terms:
            columns = [_FOLDED[term.field]] if term.field in _FOLDED else [] if term.field else list(_FOLDED.values())
            choices = [f"instr({column}, ?) > 0" for column in columns]
            values += [term.text] * len(choices)
            if term.field in (None, "app"):
                choices.append(f"root IN ({self._roots_named(term.text)})")
            elif term.field == "store":
                choices.append(f"root IN ({self._roots_at(term.text)})")
            conditions.append(f"{'NOT ' if term.negated else ''}({' OR '.join(choices)})")
        if query.below is not None:
            within, given = _below(query.below)
            conditions.append(f"({' OR '.join(within)})")
            values += given
        return bounds, conditions, values

    def _narrowings(self, query: Query) -> Iterable[tuple[str, list[Any]]]:
        """Yield the selections of ``id`` that hold every match and that an index serves."""
        if query.below is not None:
            within, given = _below(query.below)
            yield " UNION ".join(f"SELECT id FROM session WHERE {choice}" for choice in within), given
        expressions = []
        for term in query.terms:
            if term.negated or term.field in ("app", "store") or (term.field is None and self._roots_named(term.text)):
                continue
            if len(term.text) >= 3:
                expressions.append(" AND ".join(map(_quoted, _trigrams(term.text))))
            else:
                tokens = self._db.execute(
                    "SELECT term FROM term WHERE term >= ? AND term < ? LIMIT 200",
                    (term.text, term.text + "\U0010ffff"),
                ).fetchall()
                if not tokens:
                    yield "SELECT id FROM session WHERE 0", []
                elif len(tokens) < 200:
                    expressions.append(" OR ".join(_quoted(str(token)) for (token,) in tokens))
        if expressions:
            match = " AND ".join(f"({expression})" for expression in expressions)
            yield "SELECT rowid AS id FROM search WHERE search MATCH ?", [match]

    def _roots(self, apps: Iterable[str]) -> str:
        """Return the numbers of the roots of *apps*, for an SQL list."""
        rows = self._db.execute("SELECT id, app FROM root")
        return ",".join(str(number) for number, app in rows if app in apps)

    def _roots_named(self, text: str) -> str:
        """Return the numbers of the roots of the apps whose name holds *text*, for an SQL list."""
        rows = self._db.execute("SELECT id FROM root WHERE instr(app, ?) > 0", (text,))
        return ",".join(str(number) for (number,) in rows)

    def _roots_at(self, text: str) -> str:
        """Return the numbers of the roots in whose path *text* is, or whose path it is if it begins with a slash."""
        roots = [(number, fold(os.fsdecode(path))) for number, path in self._db.execute("SELECT id, path FROM root")]
        whole = text.startswith("/")
        return ",".join(str(number) for number, path in roots if (text.rstrip("/") == path if whole else text in path))


def _batches(numbers: list[int]) -> Iterable[list[int]]:
    return (numbers[start : start + 500] for start in range(0, len(numbers), 500))


def _totals(rows: Iterable[tuple[Any, ...]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for name, number in rows:
        totals[name] = totals.get(name, 0) + number
    return totals


class _Deadline:
    """Ends a query that runs too long: no text may hold up the daemon."""

    STEP = 20_000
    """SQLite instructions between two looks at the clock."""
    LIMIT = 0.3
    """Seconds."""

    def __init__(self) -> None:
        self._end = time.monotonic() + self.LIMIT

    def __call__(self) -> bool:
        return time.monotonic() > self._end


def _below(folder: str) -> tuple[list[str], list[str]]:
    """Return the choices, and their values, that hold for a row in *folder* or below it."""
    folder = folder.rstrip("/")
    choices, values = [], []
    for column, partial in (("cwd", ""), ("launch_dir", " AND launch_dir IS NOT cwd")):
        choices.append(f"({column} = ?{partial})")
        choices.append(f"({column} > ? AND {column} < ?{partial})")
        # "0" is the character after "/".
        values += [folder or "/", folder + "/", folder + "0"]
    return choices, values


def _trigrams(text: str) -> list[str]:
    """Return ``TRIGRAMS`` of those in *text*, spread from its beginning to its end."""
    last = len(text) - 3
    starts = sorted({last * n // (TRIGRAMS - 1) for n in range(TRIGRAMS)})
    return list(dict.fromkeys(text[start : start + 3] for start in starts))


def _quoted(token: str) -> str:
    return '"' + token.replace('"', '""') + '"'


def _relevance(row: dict[str, Any], terms: list[str]) -> float:
    """Return how well *row* fits: words in the title weigh most, whole words more, then recency."""
    score = 0.0
    for key, weight in (("title", 4.0), ("branch", 2.0), ("cwd", 1.0)):
        text = fold(row[key] or "")
        for term in terms:
            position = text.find(term)
            if position >= 0:
                whole = not text[max(0, position - 1) : position].isalnum()
                score += weight * (1.5 if whole else 1.0)
    return score + float(row["updated"]) / 1e14
