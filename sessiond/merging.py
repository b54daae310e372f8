"""From what units say to rows, but for what the configuration leaves out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

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

    def merge(self, identities: Iterable[Identity]) -> None:
        """Make the rows of these sessions anew, within a transaction of the caller."""
        for identity in identities:
            session = self._apps[identity.app].merge(identity.id, self._index.parts(identity))
            if session and (self._config.excludes(session.cwd) or self._config.excludes(session.launch_dir)):
                session = None
            self._index.put(identity, session)

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
