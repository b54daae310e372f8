"""The files of a store at places that a pattern tells: all that most agents need of `App` but reading and resuming."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from sessiond.apps import _sqlite
from sessiond.apps._jsonl import Transcript, records
from sessiond.apps.base import App, Watch
from sessiond.session import Session, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sessiond.session import Facts, Part, Stat

    Unreadable = Callable[[str, OSError], None]
    Step = re.Pattern[str]

MANIFEST = 1 << 20
"""Bytes of a manifest that is still read; the recorded ones have 0.4 to 9 KB."""

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

NAME = r"[^\x2f\0.][^\x2f\0]*"
"""Any name that is not hidden."""

_LITERAL = re.compile(r"(?:[A-Za-z0-9_-]|\\\.)+")


class Place(NamedTuple):
    """Where units of one kind lie."""

    pattern: str
    """The path below the root: between slashes, a regular expression of one name; the group ``id`` is the session's."""
    database: bool = False
    """A SQLite database, in whose write-ahead log beside it most changes show."""


class Store(App):
    """An agent whose units are files at known places. A folder on the way may be a link, a unit may not."""

    places: Mapping[str, Place]
    """By kind of unit. This is the allow-list: nothing else is opened."""

    @cached_property
    def _paths(self) -> dict[str, re.Pattern[str]]:
        return {kind: re.compile(place.pattern) for kind, place in self.places.items()}

    @cached_property
    def _steps(self) -> list[tuple[str, tuple[Step, ...]]]:
        return [(kind, tuple(map(re.compile, place.pattern.split("/")))) for kind, place in self.places.items()]

    def watches(self, root: str) -> list[Watch]:
        """Return the folders in which a unit may come, change or go."""
        depths: dict[str, int] = {}
        for _, (*folders, _name) in self._steps:
            known = next((n for n, step in enumerate(folders) if _literal(step) is None), len(folders))
            path = "/".join([root, *(_literal(step) or "" for step in folders[:known])])
            depths[path] = max(depths.get(path, 0), len(folders) - known)
        return [Watch(path, depth) for path, depth in depths.items()]

    def unit(self, root: str, path: str) -> Unit | None:
        """Return the unit that *path*, or the database whose log it is, is; None for what has no place."""
        if not path.startswith(root + "/"):
            return None
        for kind, place in self.places.items():
            own = path.removesuffix("-wal") if place.database else path
            if self._paths[kind].fullmatch(own, len(root) + 1):
                return Unit(self.name, root, own, kind)
        return None

    def session_id(self, unit: Unit) -> str:
        """Return the id that the path of *unit* tells."""
        match = self._paths[unit.kind].fullmatch(unit.path, len(unit.root) + 1)
        return match["id"] if match else ""

    def row(self, id: str, part: Part, facts: Facts, **said: Any) -> Session:
        """Return the row of *id* from the unit of *part*: what *facts* have under its names, or else what is *said*.

        A title is the first prompt where there is none, the folder to start in that of the session.
        """
        row: dict[str, Any] = {
            name: facts.get(name) for name in ("cwd", "branch", "created", "updated", "model", "approval")
        }
        row |= {
            "title": facts.get("title") or facts.get("prompt") or "",
            "archived": facts.get("archived", False),
        } | said
        row.setdefault("launch_dir", row["cwd"])
        row["updated"] = row["updated"] or part.stat.mtime
        if part.gone:
            row["hidden"] = "deleted"
        unit, stat = part.unit, part.stat
        return Session(app=self.name, id=id, root=unit.root, path=unit.path, mtime=stat.mtime, bytes=stat.size, **row)

    def units(self, root: str, unreadable: Unreadable) -> Iterator[tuple[Unit, Stat]]:
        """Yield what `unit` claims."""
        yield from self._below(root, root, self._steps, unreadable)

    def _below(
        self, root: str, folder: str, steps: list[tuple[str, tuple[Step, ...]]], unreadable: Unreadable
    ) -> Iterator[tuple[Unit, Stat]]:
        names = _names(folder, [step for _, (step, *_) in steps], unreadable)
        further: dict[str, list[tuple[str, tuple[Step, ...]]]] = {}
        for name in names:
            for kind, (step, *rest) in steps:
                if not step.fullmatch(name):
                    continue
                if rest:
                    further.setdefault(name, []).append((kind, tuple(rest)))
                    continue
                unit = Unit(self.name, root, f"{folder}/{name}", kind)
                try:
                    yield unit, self.stat(unit)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except OSError as error:
                    unreadable(folder, error)
        for name, remaining in further.items():
            yield from self._below(root, f"{folder}/{name}", remaining, unreadable)

    def stat(self, unit: Unit) -> Stat:
        """Return what tells whether *unit* changed, be it the write-ahead log of a database."""
        stat = super().stat(unit)
        return _sqlite.with_log(unit.path, stat) if self.places[unit.kind].database else stat


def xdg_data(env: Mapping[str, str]) -> str:
    """Return ``XDG_DATA_HOME``, or ``~/.local/share`` where it is no absolute path, as its specification has it."""
    data = env.get("XDG_DATA_HOME", "")
    return data if os.path.isabs(data) else os.path.join(env.get("HOME") or "/", ".local/share")


def manifest(path: str) -> tuple[dict[str, Any] | None, int]:
    """Return the JSON object that is all of the file at *path*, and the bytes read; None for anything else.

    Raises OSError when it cannot be read.
    """
    with Transcript(path) as file:
        data = file.bytes_at(0, MANIFEST) if file.size <= MANIFEST else b""
        return next(iter(records(data)), None), file.read


def newest(parts: list[Part], *kinds: str) -> list[Part]:
    """Return the parts of units of these *kinds*: those that are there before those that are gone, the newest first."""
    chosen = [part for part in parts if part.unit.kind in kinds]
    return sorted(chosen, key=lambda part: (not part.gone, part.stat.mtime_ns), reverse=True)


def _literal(step: Step) -> str | None:
    """Return the one name that *step* stands for, None when there can be several."""
    return step.pattern.replace("\\", "") if _LITERAL.fullmatch(step.pattern) else None


def _names(folder: str, steps: list[Step], unreadable: Unreadable) -> list[str]:
    """Return the names that may fit one of *steps*; *folder* is listed only where one can be more than one name."""
    literals = [_literal(step) for step in steps]
    if None not in literals:
        return list(dict.fromkeys(name for name in literals if name))
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        unreadable(folder, error)
        return []
