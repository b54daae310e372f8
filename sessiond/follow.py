"""Following a query: what each commit means for those who asked to be told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sessiond.query import Query
    from sessiond.search import Search
    from sessiond.service import Service
    from sessiond.session import Changes

C = TypeVar("C")

MOST = 32
"""Followers at one time; each remembers the numbers of the rows that it was told of."""


class Follower:
    """Somebody who wants to know what happens to the sessions that fit a query."""

    def __init__(self, query: Query, search: Search) -> None:
        """Follow *query* from what *search* finds now."""
        self._query = query
        self._known = search.states(query)

    @property
    def known(self) -> int:
        """How many sessions fit now."""
        return len(self._known)

    def events(self, rows: Iterable[int], search: Search) -> list[dict[str, Any]]:
        """Return what the change of *rows* means: ``new``, ``live``, ``changed`` or ``gone``, each with its row."""
        numbers = list(rows)
        fitting = search.states(self._query, numbers)
        found = []
        for number in numbers:
            if number in fitting and number in self._known:
                event = "changed" if self._known[number] == fitting[number] else "live"
            elif number in fitting:
                event = "new"
            elif number in self._known:
                event = "gone"
            else:
                continue
            found.append((number, event))
            self._known.pop(number, None)
        self._known |= fitting
        shown = search.numbered([number for number, _ in found])
        return [{"event": event, "row": shown.get(number) or search.key(number)} for number, event in found]

    def start_over(self, search: Search) -> list[dict[str, Any]]:
        """Return the same after the index was emptied or replaced: its rows have other numbers now."""
        self._known = search.states(self._query)
        return [{"event": "reset"}]


class Followers(Generic[C]):
    """Those who follow, each on a connection, and the changes that they were not told of yet.

    Commits add to these in one thread, another takes them.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """Call *wake*, from any thread, when there is something to tell."""
        self._wake = wake
        self._followers: dict[C, Follower] = {}
        self._lock = threading.Lock()
        self._rows: set[int] = set()
        self._everything = False

    def add(self, changes: Changes) -> None:
        """Keep *changes* until they are told. May be called from any thread."""
        if not self._followers:
            return
        with self._lock:
            self._rows |= changes.rows
            self._everything |= changes.everything
        self._wake()

    def join(self, connection: C, follower: Follower) -> None:
        """Let *follower* be told on *connection*, in place of an earlier one; of too many the first has to leave."""
        self._followers[connection] = follower
        if len(self._followers) > MOST:
            self.leave(next(iter(self._followers)))

    def leave(self, connection: C) -> None:
        """Forget who follows on *connection*."""
        self._followers.pop(connection, None)

    def told(self, service: Service) -> Iterator[tuple[C, list[dict[str, Any]]]]:
        """Yield what each one has to be told of the changes since the last call."""
        with self._lock:
            rows, everything = sorted(self._rows), self._everything
            self._rows, self._everything = set(), False
        for connection, follower in list(self._followers.items()) if rows or everything else ():
            yield connection, service.events(follower, rows, everything=everything)
