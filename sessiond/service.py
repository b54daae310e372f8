"""What the daemon can be asked: one method an operation of docs/protocol.md."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import apsw

from sessiond import __version__
from sessiond.protocol import PROTOCOL, Answer, Problem
from sessiond.query import Query, Term, parse, when
from sessiond.search import Search
from sessiond.session import Session
from sessiond.text import clean, fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessiond.indexer import Indexer
    from sessiond.watch import Watcher

MAX_LIMIT = 10_000
"""Rows of one answer at most."""
MAX_WAIT = 600_000
"""ms that ``sync`` waits at most."""


class Blocks(Exception):  # noqa: N818 - no error: a request that may wait has to be run where it may
    """Raised for a request that may wait, when it was asked where nothing may wait."""


class Service:
    """Answers requests. One for the daemon; may be called from several threads."""

    def __init__(self, indexer: Indexer, watcher: Watcher, index_path: str, stop: Callable[[], None]) -> None:
        """Answer from the index that *indexer* writes; *stop* ends the daemon."""
        self._indexer = indexer
        self._watcher = watcher
        self._index_path = index_path
        self._stop = stop
        self._started = int(time.time() * 1000)
        self._local = threading.local()
        self._apps = {root.app.name: root.app for root in indexer.roots}
        self._operations: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "find": self._find,
            "show": self._show,
            "status": self._status,
            "sync": self._sync,
            "reindex": self._reindex,
            "stop": self._end,
        }

    def answer(self, request: dict[str, Any], *, may_wait: bool) -> Answer:
        """Return the answer to *request*, a decoded JSON object.

        Raises Problem with what to tell the client, and Blocks when the request could wait
        although *may_wait* is False.
        """
        if request.get("v") != PROTOCOL:
            raise Problem("usage", f"this daemon speaks version {PROTOCOL} of the protocol", 'send "v":1')
        operation = self._operations.get(request.get("op", "")) if isinstance(request.get("op"), str) else None
        if operation is None:
            raise Problem("usage", "there is no such op", f"one of: {' '.join(self._operations)}")
        if not may_wait and (request["op"] in ("show", "sync") or request.get("sync") is True):
            raise Blocks
        try:
            return operation(request)
        except apsw.InterruptError:
            raise Problem("internal", "the query took too long", "use fewer or longer words") from None
        except (apsw.CorruptError, apsw.NotADBError):
            self._indexer.request_replace()
            raise Problem("internal", "the index is damaged and is being built again", "ask again") from None

    def _search(self) -> Search:
        """Return this thread's connection, made again when the index file was replaced."""
        generation = self._indexer.generation
        if getattr(self._local, "generation", None) != generation:
            self._local.search = Search(self._index_path)
            self._local.generation = generation
        search: Search = self._local.search
        return search

    def _find(self, request: dict[str, Any]) -> Answer:
        limit = _integer(request, "limit", 20, 1, MAX_LIMIT)
        sort = _choice(request, "sort", ("recent", "relevance"))
        query = self._query(request)
        if request.get("sync") is True:
            self._indexer.settle(MAX_WAIT / 1000)
        search = self._search()
        rows = search.find(query, limit + 1, sort)
        found = rows[:limit]
        ok: dict[str, Any] = {"found": len(found), "more": len(rows) > limit, "progress": self._progress()}
        if not rows:
            ok |= {
                "searched": search.listed(),
                "hidden": {} if query.everything else search.hidden(query),
                "excluded_by": self._excluded_by(query, search),
                "unreadable": sum(search.problems().values()),
            }
        return Answer(found, ok)

    def _query(self, request: dict[str, Any]) -> Query:
        now = time.time()
        query = parse(_text(request, "q"), now)
        changes: dict[str, Any] = {}
        for key in ("since", "until"):
            if typed := _text(request, key):
                changes[key] = when(typed, now, end=key == "until")
                if changes[key] is None:
                    raise Problem(
                        "usage", f"--{key} {clean(typed)}: not a time", "an age (45m 3h 2d 1w 2mo 1y) or a date"
                    )
        if branch := _text(request, "branch"):
            changes["terms"] = (*query.terms, Term(fold(branch), "branch", typed=f"--branch {clean(branch)}"))
        if folder := _text(request, "cwd"):
            if not folder.startswith("/"):
                raise Problem("usage", f"cwd {clean(folder)}: not an absolute folder", "send the whole path")
            changes["below"] = os.path.normpath(folder)
        if apps := request.get("app"):
            changes["apps"] = self._named_apps(apps if isinstance(apps, list) else [apps])
        if request.get("all") is True:
            changes["everything"] = True
        return replace(query, **changes)

    def _named_apps(self, names: list[Any]) -> tuple[str, ...]:
        for name in names:
            if name not in self._apps:
                raise Problem("usage", f"no app is called {clean(str(name))}", f"one of: {' '.join(self._apps)}")
        return tuple(names)

    def _excluded_by(self, query: Query, search: Search) -> list[dict[str, Any]]:
        """Return the filters without which something would have been found."""
        without: list[tuple[str, Query]] = []
        if len(query.terms) > 1:
            without += [
                (term.typed, replace(query, terms=tuple(other for other in query.terms if other is not term)))
                for term in query.terms
            ]
        elif query.terms and query.terms[0].field:
            without.append((query.terms[0].typed, replace(query, terms=())))
        for label, given, change in (
            ("since", query.since, {"since": None}),
            ("until", query.until, {"until": None}),
            ("app", query.apps, {"apps": ()}),
            ("cwd", query.below, {"below": None}),
            ("is", query.states, {"states": frozenset()}),
        ):
            if given:
                without.append((label, replace(query, **change)))
        counted = [{"filter": label, "would_match": search.count(other, 100)} for label, other in without]
        return [entry for entry in counted if entry["would_match"]]

    def _show(self, request: dict[str, Any]) -> Answer:
        wanted = _text(request, "id").strip()
        if len(wanted) < 4:
            raise Problem("usage", "an id needs four characters or more", "sess find --ids lists them")
        rows = self._search().named(wanted)
        if not rows:
            raise Problem(
                "nothing", f"no session has an id that begins with {clean(wanted)}", "sess find --ids lists them"
            )
        if len({row["id"] for row in rows}) > 1:
            listed = "\n".join(f"{row['id']}  {row['app']}  {clean(row['title'])}" for row in rows[:10])
            raise Problem("ambiguous", f"{len(rows)} sessions have an id that begins with {clean(wanted)}", listed)
        row = rows[0]
        session = Session(**{field.name: row[field.name] for field in fields(Session)})
        ok: dict[str, Any] = {"first_prompt": None, "last_prompt": None, "prompt_problem": None}
        try:
            ok["first_prompt"], ok["last_prompt"] = self._apps[row["app"]].prompts(session)
        except OSError as error:
            ok["prompt_problem"] = error.strerror or "it cannot be read"
        return Answer([row], ok)

    def _status(self, _request: dict[str, Any]) -> Answer:
        search = self._search()
        health = self._watcher.health()
        problems = search.problems()
        roots = [
            {
                "app": root.app.name,
                "path": root.path,
                "state": (
                    "missing"
                    if not os.path.isdir(root.path)
                    else "unreadable"
                    if root.path in self._indexer.unreadable_roots
                    else "polled"
                    if health.unwatched
                    else "watched"
                ),
            }
            for root in self._indexer.roots
        ]
        return Answer(
            [],
            {
                "version": __version__,
                "pid": os.getpid(),
                "started": self._started,
                "sessions": search.listed(),
                "hidden": search.unlisted(),
                "units": search.units(),
                "unreadable": sum(problems.values()),
                "roots": roots,
                "progress": self._progress(),
                "reconciled": self._indexer.reconciled,
                "index_bytes": os.path.getsize(self._index_path),
                "folders_watched": health.watched,
                "folders_polled": health.unwatched,
                "lost": health.lost,
                "units_read": self._indexer.units_read,
                "bytes_read": self._indexer.bytes_read,
                "problems": [
                    *([health.problem] if health.problem else []),
                    *(f"{number} unreadable: {reason}" for reason, number in problems.items()),
                ],
            },
        )

    def _sync(self, request: dict[str, Any]) -> Answer:
        self._indexer.settle(_integer(request, "timeout_ms", 10_000, 0, MAX_WAIT) / 1000)
        return Answer([], {"progress": self._progress()})

    def _reindex(self, _request: dict[str, Any]) -> Answer:
        self._indexer.request_rebuild()
        return Answer([], {})

    def _end(self, _request: dict[str, Any]) -> Answer:
        self._stop()
        return Answer([], {"version": __version__, "pid": os.getpid()})

    def _progress(self) -> dict[str, int] | None:
        progress = self._indexer.progress()
        return None if progress is None else {"done": progress[0], "of": progress[1]}


def _text(request: dict[str, Any], key: str) -> str:
    value = request.get(key)
    if value is not None and not isinstance(value, str):
        raise Problem("usage", f"{key} has to be a string", "see docs/protocol.md")
    return value or ""


def _integer(request: dict[str, Any], key: str, default: int, least: int, most: int) -> int:
    value = request.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Problem("usage", f"{key} has to be a number from {least} to {most}", "see docs/protocol.md")
    return value


def _choice(request: dict[str, Any], key: str, choices: tuple[str, ...]) -> str:
    value = request.get(key) or choices[0]
    if value not in choices:
        raise Problem("usage", f"{key} has to be one of: {' '.join(choices)}", "see docs/protocol.md")
    return str(value)
