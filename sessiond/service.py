"""What the daemon can be asked: one method an operation of docs/protocol.md."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from sessiond import __version__, launch
from sessiond import request as asked
from sessiond.apps.base import Origin
from sessiond.config import Config
from sessiond.follow import Follower
from sessiond.health import examine
from sessiond.launch import Options
from sessiond.patience import SILENT
from sessiond.protocol import PROTOCOL, Answer, Problem
from sessiond.search import Search
from sessiond.session import Check, Session
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessiond.apps.base import App
    from sessiond.indexer import Indexer
    from sessiond.query import Query
    from sessiond.watch import Watcher

T = TypeVar("T")

MAX_LIMIT = 10_000
"""Rows of one answer at most."""
MAX_REASONS = 8
"""Filters of which it is tried what would match without each; of a pasted paragraph nobody wants to know."""
MAX_WAIT = 600_000
"""ms that ``sync`` waits at most."""
PATIENCE = 3.0
"""Seconds that a file system has to answer what a person waits for."""
KEPT_OPEN = 2
"""Connections to the index that stay open for the next request; each may hold 4 MiB of it."""
STUCK = 10.0
"""Seconds for which indexing may be at one thing before ``status`` tells; a reconcile of 100,000 files takes 1."""
_WAITING = ("show", "plan", "sync", "doctor")
"""Operations that read a file, or wait for one to be read."""
_STARTED = int(time.time() * 1000)
"""When the daemon started."""


class Blocks(Exception):  # noqa: N818 - no error: a request that may wait has to be run where it may
    """Raised for a request that may wait, when it was asked where nothing may wait."""


class Service:
    """Answers requests. One for the daemon; may be called from several threads."""

    def __init__(
        self,
        indexer: Indexer,
        watcher: Watcher,
        index_path: str,
        stop: Callable[[], None],
        config: Config | None = None,
    ) -> None:
        """Answer from the index that *indexer* writes; *stop* ends the daemon."""
        self._indexer = indexer
        self._watcher = watcher
        self._index_path = index_path
        self._stop = stop
        self._config = config or Config()
        self._notes: list[str] = []
        self._idle: list[tuple[int, Search]] = []
        self._apps = {root.app.name: root.app for root in indexer.stores.roots}
        self._operations: dict[str, Callable[[dict[str, Any], Search], Answer]] = {
            "find": self._find,
            "show": self._show,
            "plan": self._plan,
            "status": self._status,
            "doctor": self._doctor,
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
            raise Problem("usage", f"this daemon speaks version {PROTOCOL} of the protocol", 'Send "v":1.')
        operation = self._operations.get(request.get("op", "")) if isinstance(request.get("op"), str) else None
        if operation is None:
            raise Problem("usage", "there is no such op", f"One of: {' '.join(self._operations)} subscribe")
        waits = request["op"] in _WAITING or request.get("sync") is True or request.get("resolve") is True
        if waits and not may_wait:
            raise Blocks
        try:
            with self._search() as search:
                return operation(request, search)
        except apsw.InterruptError:
            raise Problem("internal", "the query took too long", "Use fewer or longer words.") from None
        except (apsw.CorruptError, apsw.NotADBError):
            self._indexer.request_replace()
            raise Problem("internal", "the index is damaged and is being built again", "Ask again.") from None

    def follow(self, request: dict[str, Any]) -> tuple[Follower, Answer]:
        """Return who follows the query of *request* from now on, and the answer to it. Raises Problem."""
        if request.get("v") != PROTOCOL:
            raise Problem("usage", f"this daemon speaks version {PROTOCOL} of the protocol", 'Send "v":1.')
        query = self._query(request)
        with self._search() as search:
            follower = Follower(query, search)
        return follower, Answer([], {"following": follower.known})

    def events(self, follower: Follower, rows: list[int], *, everything: bool) -> list[dict[str, Any]]:
        """Return what the change of *rows*, or of *everything*, means to *follower*."""
        try:
            with self._search() as search:
                return follower.start_over(search) if everything else follower.events(rows, search)
        except apsw.Error:
            return []  # The index is being replaced; word of that comes.

    def note(self, problem: str) -> None:
        """Have ``status`` tell of *problem* from now on."""
        self._notes = [problem]

    def close(self) -> None:
        """Close the connections, so that the writer's is the last one and leaves no write-ahead log."""
        for _, search in self._idle:
            search.close()

    @contextmanager
    def _search(self) -> Iterator[Search]:
        """Lend a connection that nobody else uses meanwhile; a new one when the index file was replaced."""
        generation, search = self._indexer.generation, None
        while self._idle and search is None:
            opened, idle = self._idle.pop()
            if opened == generation:
                search = idle
            else:
                idle.close()
        search = search or Search(self._index_path)
        try:
            yield search
        finally:
            if len(self._idle) < KEPT_OPEN:
                self._idle.append((generation, search))
            else:
                search.close()

    def _find(self, request: dict[str, Any], search: Search) -> Answer:
        limit = asked.integer(request, "limit", 20, 1, MAX_LIMIT)
        sort = asked.choice(request, "sort", ("recent", "relevance"))
        query = self._query(request)
        if request.get("sync") is True:
            self._indexer.settle(MAX_WAIT / 1000)
        rows = search.find(query, limit + 1, sort)
        found = rows[:limit]
        ok: dict[str, Any] = {"found": len(found), "more": len(rows) > limit, "progress": self._unless_complete()}
        if not rows:
            ok |= {
                "searched": search.listed(),
                "hidden": {} if query.everything else search.hidden(query),
                "excluded_by": self._excluded_by(query, search),
                "nearest": _brief(search.nearest(query)),
                "unreadable": sum(search.problems().values()),
            }
        return Answer(found, ok)

    def _query(self, request: dict[str, Any]) -> Query:
        return asked.query(request, self._apps, lambda path: self._patiently(path, lambda: os.path.realpath(path)))

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
            (" ".join(f"is:{state}" for state in sorted(query.states)), query.states, {"states": frozenset()}),
        ):
            if given:
                without.append((label, replace(query, **change)))
        if len(without) > MAX_REASONS:
            return []
        counted = [{"filter": label, "would_match": search.count(other, 100)} for label, other in without]
        return [entry for entry in counted if entry["would_match"]]

    def _show(self, request: dict[str, Any], search: Search) -> Answer:
        row = self._named(request, search)
        ok: dict[str, Any] = {"first_prompt": None, "last_prompt": None, "prompt_problem": None}
        try:
            ok["first_prompt"], ok["last_prompt"] = self._indexer.stores.patience.within(
                PATIENCE, row["root"], lambda: self._apps[row["app"]].prompts(_session(row))
            )
        except OSError as error:
            ok["prompt_problem"] = error.strerror or "it cannot be read"
        return Answer([row], ok)

    def _plan(self, request: dict[str, Any], search: Search) -> Answer:
        named = self._named(request, search)
        row = _latest(named, search)
        app, session = self._apps[row["app"]], _session(row)
        folder = asked.folder(request, "folder")
        options = Options(
            fork=request.get("fork") is True,
            allow_loose=request.get("allow_loose") is True,
            carry=request.get("carry") is not False,
            folder=folder or None,
        )
        plan = launch.plan(app, session, options, self._patiently(session.root, lambda: _found(app, session)))
        if row is not named:
            plan.checks.insert(0, Check("session", "noted", f"{named['id']} was continued in this one, {row['id']}"))
        try:
            origin = self._indexer.stores.patience.within(PATIENCE, session.root, lambda: app.origin(session))
        except OSError:
            origin = Origin(None, None)
        return Answer([row], plan.as_json() | origin._asdict())

    def _named(self, request: dict[str, Any], search: Search) -> dict[str, Any]:
        """Return the row that the request names by its id or the beginning of it, and if given app and root."""
        wanted = asked.text(request, "id").strip()
        if len(wanted) < 4:
            raise Problem("usage", "an id needs four characters or more", "`sess find --ids` lists them.")
        rows = search.named(wanted)
        for key in ("app", "root"):
            if value := asked.text(request, key):
                rows = [row for row in rows if row[key] == value]
        if not rows:
            raise Problem(
                "nothing",
                f"no session has an id that begins with {clean(wanted)}",
                "`sess find --ids --all` lists the ids, `sess find WORDS` searches.",
            )
        if len({row["id"] for row in rows}) > 1:
            listed = "\n".join(f"{row['id']}  {row['app']}  {clean(row['title'])}" for row in rows[:10])
            raise Problem(
                "ambiguous",
                f"{len(rows)} sessions have an id that begins with {clean(wanted)}",
                f"{listed}\nType more of it.",
            )
        return rows[0]

    def _patiently(self, place: str, function: Callable[[], T]) -> T:
        try:
            return self._indexer.stores.patience.within(PATIENCE, place, function)
        except TimeoutError:
            message = f"{clean(place)} cannot be looked at: {SILENT}"
            raise Problem("refused", message, "Mount it again, or wait until its server answers.") from None

    def _status(self, _request: dict[str, Any], search: Search) -> Answer:
        stores, health = self._indexer.stores, self._watcher.health()
        problems = search.problems()
        silent = [root.app.label for root in stores.roots if root.path in stores.silent]
        stuck = self._indexer.stuck()
        roots = [
            {
                "app": root.app.name,
                "path": root.path,
                "state": (
                    "silent"
                    if root.path in stores.silent
                    else "unreadable"
                    if root.path in stores.unreadable
                    else "missing"
                    if root.path not in stores.present
                    else "polled"
                    if health.unwatched
                    else "watched"
                ),
            }
            for root in stores.roots
            if root.path in stores.present | stores.silent or root.app.name in self._config.roots
        ]
        return Answer(
            [],
            {
                "version": __version__,
                "pid": os.getpid(),
                "started": _STARTED,
                "sessions": search.listed(),
                "hidden": search.unlisted(),
                "units": search.units(),
                "unreadable": sum(problems.values()),
                "roots": roots,
                "progress": self._unless_complete(),
                "reconciled": self._indexer.reconciled,
                "index_bytes": sum(map(_size, (self._index_path, self._index_path + "-wal"))),
                "folders_watched": health.watched,
                "folders_polled": health.unwatched,
                "lost": health.lost,
                "units_read": self._indexer.units_read,
                "bytes_read": self._indexer.bytes_read,
                "problems": [
                    *([self._indexer.trouble] if self._indexer.trouble else []),
                    *(f"the files of {label} cannot be looked at: {SILENT}" for label in silent),
                    *([f"indexing has waited {stuck:.0f} s for a file"] if stuck > STUCK else []),
                    *self._notes,
                    *([health.problem] if health.problem else []),
                    *(f"{number} unreadable: {reason}" for reason, number in problems.items()),
                ],
            },
        )

    def _doctor(self, request: dict[str, Any], search: Search) -> Answer:
        found = examine(self._indexer, self._config, self._index_path)
        health = self._watcher.health()
        found |= {"watch_problem": health.problem, "overflows": health.overflows}
        found |= {"unreadable_reasons": search.problems(), "unreadable_path": search.unreadable()}
        return Answer([], self._status(request, search).ok | found)

    def _sync(self, request: dict[str, Any], _search: Search) -> Answer:
        timeout = asked.integer(request, "timeout_ms", 10_000, 0, MAX_WAIT) / 1000
        ticket, settled = self._indexer.settle(timeout, asked.integer(request, "ticket", 0, 0, 1 << 62))
        return Answer([], {"progress": None if settled else self._progress(), "ticket": ticket})

    def _reindex(self, _request: dict[str, Any], _search: Search) -> Answer:
        self._indexer.request_rebuild()
        return Answer([], {})

    def _end(self, _request: dict[str, Any], _search: Search) -> Answer:
        self._stop()
        return Answer([], {"version": __version__, "pid": os.getpid()})

    def _unless_complete(self) -> dict[str, int] | None:
        return None if self._indexer.complete() else self._progress()

    def _progress(self) -> dict[str, int]:
        done, total = self._indexer.progress()
        return {"done": done, "of": total}


def _latest(row: dict[str, Any], search: Search) -> dict[str, Any]:
    """Return the row of the session in which that of *row* was continued, or *row* itself."""
    seen = {row["id"]}
    while row["hidden"] == "superseded" and row["successor"] not in seen:
        seen.add(row["successor"])
        continued = search.named(row["successor"])
        row = next((other for other in continued if other["root"] == row["root"]), row)
    return row


def _found(app: App, session: Session) -> launch.Found:
    """Look at *session* as it is now."""
    try:
        present: bool | None = app.present(session)
    except OSError:
        present = None
    defaults = app.roots({"HOME": os.environ.get("HOME", "/")})
    default_store = os.path.realpath(session.root) in map(os.path.realpath, defaults)
    return launch.Found(app.live(session), present, default_store)


def _session(row: dict[str, Any]) -> Session:
    return Session(**{field.name: row[field.name] for field in fields(Session)})


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _brief(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what is told of a row that was not asked for."""
    return row and {key: row[key] for key in ("app", "id", "title")}
