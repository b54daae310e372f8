"""Which stores are there, and which of them a file system keeps to itself."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from sessiond.patience import Patience
from sessiond.reconcile import is_there

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessiond.reconcile import Root

log = logging.getLogger(__name__)

SILENCE = 1.0
"""Seconds after which a store's file system counts as hanging, until it answers."""


class Stores:
    """The roots of every app as they were at the last look. Only the indexer looks; any thread may read."""

    def __init__(self, roots: Iterable[Root]) -> None:
        """Begin with *roots*, of which nothing is known."""
        self.roots = list(roots)
        self.patience = Patience()
        self.present: set[str] = set()
        """Roots that are there, and answer."""
        self.silent: set[str] = set()
        """Roots whose file system does not answer: nothing there is touched, and nothing counts as gone."""
        self.unreadable: set[str] = set()
        """Roots with folders that cannot be listed."""

    def look(self) -> bool:
        """Find out which roots are there, waiting for none for long; return whether others are silent than before."""
        present, silent = set(), set()
        for root in self.roots:
            try:
                if self.patience.within(SILENCE, root.path, functools.partial(is_there, root)):
                    present.add(root.path)
            except TimeoutError:
                silent.add(root.path)
        changed = silent != self.silent
        if changed:
            log.warning("stores that do not answer: %d", len(silent))
        self.present, self.silent = present, silent
        return changed

    def note_unlisted(self, root: Root, folders: int) -> None:
        """Remember whether there are *folders* of *root* that cannot be listed."""
        if folders:
            log.warning("%d folders of %s cannot be listed", folders, root.app.name)
            self.unreadable.add(root.path)
        else:
            self.unreadable.discard(root.path)

    def is_silent(self, path: str) -> bool:
        """Return whether *path* lies in a store that does not answer."""
        return any(path.startswith(root + "/") for root in self.silent)
