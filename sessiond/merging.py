"""From what units say to rows, but for what the configuration leaves out."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from sessiond.opened import Opened
from sessiond.session import Changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sessiond.apps.base import App
    from sessiond.config import Config
    from sessiond.index import Identity, Index
    from sessiond.reconcile import Root

_BATCH = 500
"""Sessions merged in one transaction."""
_DAY = 86_400_000


class Merger:
    """Makes the rows of the index. Belongs to the thread that writes it."""

    def __init__(self, index: Index, apps: Mapping[str, App], config: Config) -> None:
        """Make the rows of *index* with the *apps* that are in force, by name."""
        self._index = index
        self._apps = apps
        self._config = config
        self._opened = Opened(os.path.join(os.path.dirname(index.path), "open.json"))
        self._interrupted = set(self._opened.interrupted)

    def merge(self, identities: Iterable[Identity], *, known: bool = True) -> None:
        """Make the rows of these sessions anew, within a transaction of the caller.

        Unless it is *known*, whether a session is open is what was so before the machine started.
        """
        for identity in identities:
            session = self._apps[identity.app].merge(identity.id, self._index.parts(identity))
            if session and (self._config.excludes(session.cwd) or self._config.excludes(session.launch_dir)):
                session = None
            if session and (known or not session.live):
                self._opened.note(identity, session)
            self._index.put(identity, session)
        self._opened.save()

    def enforce(self, roots: Sequence[Root]) -> Iterator[Changes]:
        """Drop the rows that the configuration has no place for, make those it has one for again; yield what changed.

        Those of other stores than *roots* go, those that were deleted long enough ago, and when
        the excluded folders are others than before, every row is made anew.
        """
        with self._index.transaction():
            others = self._index.forget_other_roots((root.app.name, root.path) for root in roots)
        if others:
            yield Changes(frozenset(), frozenset(), everything=True)
        if (days := self._config.keep_deleted_days) is not None:
            with self._index.transaction():
                self.merge(self._index.forget_gone(int(time.time() * 1000) - days * _DAY))
            yield self._index.changes()
        if self._interrupted:
            every = self._index.identities()
            stale = [each for each in every if (each.app, each.root, each.id) in self._interrupted]
            with self._index.transaction():
                self.merge(stale, known=False)
            self._interrupted.clear()
            yield self._index.changes()
        self._opened.save()
        exclude = repr(self._config.exclude)
        if self._index.made_with() == exclude:
            return
        every = self._index.identities()
        for start in range(0, len(every), _BATCH):
            with self._index.transaction():
                self.merge(every[start : start + _BATCH])
            yield self._index.changes()
        with self._index.transaction():
            self._index.note_made_with(exclude)
