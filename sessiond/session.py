"""The nouns everything else is about: a session, and the units it is read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

Facts = dict[str, Any]


class Stat(NamedTuple):
    """What tells whether a unit changed. Equal stats mean equal content.

    ctime is part of it because a rewrite in place that restores size and mtime
    (redaction tools and migrations do) still moves ctime.
    """

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def mtime(self) -> int:
        """Last modification, in ms since the epoch."""
        return self.mtime_ns // 1_000_000


class Unit(NamedTuple):
    """The smallest thing read again at once: a transcript, a manifest, a database."""

    app: str
    root: str
    """The store it belongs to, a real path."""
    path: str
    kind: str
    """The app's own word for it; nothing outside the app looks at it."""


class Changes(NamedTuple):
    """What one commit changed in the index."""

    rows: frozenset[int]
    """Numbers of the rows that are new, say something else or are gone."""
    folders: frozenset[str]
    """The folders, current and launch, that those rows are in and were in."""
    everything: bool = False
    """The index was emptied or replaced: no row is what it was."""


class Previous(NamedTuple):
    """What is stored of a unit from the last time it was read."""

    stat: Stat
    facts: dict[str, Facts]
    complete: bool


@dataclass(slots=True)
class Scan:
    """What reading a unit gave.

    ``facts`` maps a session id to what this unit says of that session, as JSON values. An
    app decides what stands in them; only its own ``merge`` reads them. They never hold
    message text beyond a title.
    """

    facts: dict[str, Facts] = field(default_factory=dict)
    complete: bool = True
    """False when a second, slower look would find more; it is taken once the first pass is done."""
    volatile: bool = False
    """True when the facts can go stale without the unit changing (a process that may end)."""
    problem: str = ""
    """Why the unit could not be read as it should, for ``sess doctor``; no text of the transcript."""
    read: int = 0
    """Bytes read from the file."""
    seconds: float = 0.0
    """How long it took."""


class Part(NamedTuple):
    """One unit's facts about one session, as handed to ``App.merge``."""

    unit: Unit
    stat: Stat
    facts: Facts
    gone: bool
    """The unit is no longer there; its last facts are kept for a session people still look for."""


@dataclass(slots=True, kw_only=True)
class Session:
    """A row of the index: one conversation that a person may want to find again.

    Times are ms since the epoch. ``None`` means not recorded.
    """

    app: str
    id: str
    root: str
    path: str
    mtime: int
    bytes: int
    title: str = ""
    cwd: str | None = None
    """The last folder recorded, for display."""
    launch_dir: str | None = None
    """The folder a resume has to start in."""
    branch: str | None = None
    created: int | None = None
    updated: int = 0
    """Last activity the transcript records, else mtime. Lists are sorted by it."""
    model: str | None = None
    effort: str | None = None
    approval: str | None = None
    sandbox: str | None = None
    archived: bool = False
    live: str | None = None
    """``busy``, ``idle`` or ``waiting`` while a process has the session open."""
    lost: int | None = None
    """When it was last seen open, if its process ended without closing it: a crash, a reboot, a lost terminal."""
    hidden: str | None = None
    """Why the row is not for people: ``subagent sdk empty deleted superseded not-resumable``."""
    successor: str | None = None
    """The id of the session this one was continued in."""


class Settings(NamedTuple):
    """What a resume tells the program; None leaves a setting to it."""

    model: str | None = None
    effort: str | None = None
    approval: str | None = None
    sandbox: str | None = None


class Check(NamedTuple):
    """One thing that was looked at before a resume."""

    name: str
    state: str
    """``ok``, ``noted``, ``refused``, or ``asks`` until the person has answered."""
    text: str
    hint: str = ""
    """What to do when it is refused, or not answered."""
