"""A store, read the way the daemon reads it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessiond.session import Part, Previous, Scan, Session, Stat, Unit

if TYPE_CHECKING:
    from pathlib import Path

    from sessiond.apps.base import App


class Reader:
    """What an index would hold of the store of *app* at *root*."""

    def __init__(self, app: App, root: Path) -> None:
        self.app = app
        self.root = root
        self.scans: dict[Unit, tuple[Stat, Scan]] = {}
        self.problems: dict[str, str] = {}
        self.read = 0

    def refresh(self) -> None:
        """Read every unit that changed, twice where it asks for that; keep what is known of one that cannot be read."""
        found = dict(self.app.units(str(self.root), lambda path, error: self.problems.update({path: str(error)})))
        for unit, stat in found.items():
            old = self.scans.get(unit)
            if old and old[0] == stat and not old[1].problem:
                continue
            try:
                scan = self.app.read(unit, stat, Previous(old[0], old[1].facts, old[1].complete) if old else None)
                if not scan.complete:
                    self.read += scan.read
                    scan = self.app.read(unit, stat, Previous(stat, scan.facts, complete=False))
            except OSError as error:
                self.problems[os.path.basename(unit.path)] = error.strerror or str(error)
                scan = Scan(old[1].facts if old else {}, problem="kept")
            self.read += scan.read
            self.scans[unit] = stat, scan

    def rows(self) -> dict[str, Session]:
        """Return the rows of all sessions, by id."""
        self.refresh()
        ids = dict.fromkeys(key for _, scan in self.scans.values() for key in scan.facts)
        rows = {key: self.app.merge(key, self.parts(key)) for key in ids}
        return {key: row for key, row in rows.items() if row}

    def row(self, id: str) -> Session:
        return self.rows()[id]

    def parts(self, id: str) -> list[Part]:
        return [
            Part(unit, stat, scan.facts[id], gone=not os.path.lexists(unit.path))
            for unit, (stat, scan) in self.scans.items()
            if id in scan.facts
        ]
