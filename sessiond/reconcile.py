"""Comparing the disk with the index: the truth, where events are hints."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING, NamedTuple

from sessiond.session import Unit

if TYPE_CHECKING:
    from sessiond.apps.base import App
    from sessiond.index import Index


class Root(NamedTuple):
    """A store of one app."""

    app: App
    path: str


class Difference(NamedTuple):
    """What of a root is not as the index has it."""

    changed: list[tuple[int, Unit]]
    """New, or with another stat, or such as can go stale unchanged; each with its last write, in ns."""
    incomplete: list[Unit]
    """Unchanged, but a second look is still to be taken."""
    absent: list[Unit]
    """Known, and not there."""
    unlisted: list[str]
    """Folders that exist and cannot be listed; nothing below them counts as absent."""


class Missing(NamedTuple):
    """What has become of units that are not there."""

    gone: list[Unit]
    """Those that were deleted."""
    suspects: set[str]
    """Paths of those that a second look decides about."""


def compare(root: Root, index: Index) -> Difference:
    """Return how *root* differs from *index*; opens no unit."""
    app = root.app
    found = Difference([], [], [], [])
    missing: list[str] = []
    visited = set()
    units = app.units(root.path, lambda path, _error: found.unlisted.append(path))
    for folder, group in itertools.groupby(units, key=lambda item: os.path.dirname(item[0].path)):
        known = index.known(app.name, root.path, folder)
        visited.add(folder)
        for unit, stat in group:
            was = known.pop(os.path.basename(unit.path), None)
            if was is None or was.stat != stat or was.gone or was.volatile:
                found.changed.append((stat.mtime_ns, unit))
            elif not was.complete:
                found.incomplete.append(unit)
        missing += [os.path.join(folder, name) for name, was in known.items() if not was.gone]
    for folder in index.folders(app.name, root.path) - visited:
        known = index.known(app.name, root.path, folder)
        missing += [os.path.join(folder, name) for name, was in known.items() if not was.gone]
    closed = tuple(folder + "/" for folder in found.unlisted)
    found.absent.extend(
        Unit(app.name, root.path, path, "")
        for path in missing
        if not path.startswith(closed) and not os.path.lexists(path)
    )
    return found


def is_there(root: Root) -> bool:
    """Return whether *root* exists, having asked its file system for what no kernel has at hand."""
    for watch in root.app.watches(root.path):
        with contextlib.suppress(OSError), os.scandir(watch.path) as entries:
            next(entries, None)
    return os.path.isdir(root.path)


def presence(root: Root, path: str) -> str:
    """Return ``full``, ``empty`` or ``away`` for the watched folder of *root* in which *path* is missing.

    From a full one the file was deleted. An empty one may be an unmounted disk or a sync tool
    at work, so a second look decides; while it is away, nothing is known.
    """
    for watch in root.app.watches(root.path):
        if path.startswith(watch.path + "/"):
            try:
                with os.scandir(watch.path) as entries:
                    return "full" if next(entries, None) else "empty"
            except OSError:
                return "away"
    return "full"


def judge(root: Root, absent: list[Unit], suspects: set[str]) -> Missing:
    """Return which of the *absent* units of *root* are gone; *suspects* were absent at the last look already."""
    missing = Missing([], set())
    for unit in absent:
        store = presence(root, unit.path)
        if store == "full" or (store == "empty" and unit.path in suspects):
            missing.gone.append(unit)
        elif store == "empty":
            missing.suspects.add(unit.path)
    return missing
