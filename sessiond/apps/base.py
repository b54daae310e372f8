"""What the rest of the daemon asks of an agent."""

from __future__ import annotations

import errno
import os
import stat as stat_module
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from sessiond.session import Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sessiond.session import Part, Previous, Scan, Session, Settings, Unit


class Watch(NamedTuple):
    """A folder to watch, and how many levels of folders below it."""

    path: str
    depth: int
    store: str = "/"
    """The store it belongs to. While that is missing, nothing is watched for the folder to come."""


class Modes(NamedTuple):
    """The values of a setting that says what the agent may do without asking."""

    setting: str
    """Its name in `Settings`."""
    default: str
    """What a new session has; passed in place of a looser value."""
    strict: frozenset[str]
    """Those that allow no more than the default."""
    loose: frozenset[str]
    """Those that allow more, each of which the program accepts."""
    replaced: Mapping[str, Settings] = {}
    """Of the strict ones those that the program no longer accepts, and what to pass instead that allows no more."""
    wider: Mapping[str, str] = {}
    """Further loose ones, for which the program has no option, and the strict one to pass instead."""
    restored: str = ""
    """What to do in the program to be asked again, where it brings any mode back or may, and no option is known to win.

    A mode that is not strict is then refused unless the person allows it.
    """


class Live(NamedTuple):
    """A process that has a session open."""

    status: str
    """As in `Session.live`."""
    where: str
    """Which process, on which terminal, as far as that is known; of one that is not certain also why."""
    certain: bool = True
    """False when it may have it open, and that cannot be told."""


class Origin(NamedTuple):
    """Where a session began, as its transcript tells; None when it does not."""

    commit: str | None
    """What HEAD was, in hexadecimal."""
    repository: str | None
    """The address of the remote repository, without credentials."""


class App(ABC):
    """One coding agent: where its sessions lie, how one is read, how one is resumed.

    Everything known of the agent stands in the file of its subclass. A unit that no app
    claims in `unit` is never opened.
    """

    name: str
    """Short and lower case, as in ``app:codex``."""
    label: str
    """What its makers call it."""
    verified: str
    """The releases whose own files were read, or ``""`` when all is known from others' readers."""
    reads: tuple[str, ...]
    """What is opened, for people: paths below the root, ID for a session's id."""
    program: str
    """The command that a resume starts."""
    store_variable: str = ""
    """The environment variable that tells the program of a store other than its default, if there is one."""
    variables: tuple[str, ...] = ()
    """Other environment variables that decide where it keeps what is read here."""
    kept: tuple[str, ...] = ()
    """Those of them that hold for every store, and stay for a resume."""
    markers: tuple[str, ...] = ()
    """Environment variables that make a session started inside another one behave as a part of it."""
    carries: tuple[str, ...] = ()
    """The fields of `Settings` that `launch` passes on. The others are its program's own affair."""
    modes: tuple[Modes, ...] = ()
    """Its permissions, where a session has any of its own; it carries all of them."""
    forks: bool = False
    """Whether it can go on in a copy of a session."""
    archived: str = ""
    """What the program does before it resumes an archived session."""
    folder_gone: str
    """What to do when the folder that a session has to start in is gone."""

    @abstractmethod
    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return the folders its stores are in, environment overrides first. Touches no file."""

    @abstractmethod
    def watches(self, root: str) -> list[Watch]:
        """Return the folders below *root* in which a change matters. They need not exist."""

    @abstractmethod
    def unit(self, root: str, path: str) -> Unit | None:
        """Return the unit that *path* belongs to, or None: the allow-list. Touches no file."""

    @abstractmethod
    def units(self, root: str, unreadable: Callable[[str, OSError], None]) -> Iterator[tuple[Unit, Stat]]:
        """Yield every unit with its stat, all of one folder together.

        A folder that exists and cannot be listed is reported to *unreadable*, so that
        nothing below it counts as deleted. A missing root yields nothing.
        """

    def stat(self, unit: Unit) -> Stat:
        """Return what tells whether *unit* changed.

        Raises FileNotFoundError when it is gone, OSError when that cannot be told.
        """
        found = os.lstat(unit.path)
        if not stat_module.S_ISREG(found.st_mode):
            # A link, a FIFO or a folder by that name is no unit, as `units` has it.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), unit.path)
        return stat_of(found)

    def companions(self, unit: Unit) -> list[str]:  # noqa: ARG002 - most apps need none
        """Return paths to look at as well whenever *unit* changed, as they lie where nothing is watched."""
        return []

    @abstractmethod
    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit* within the limits of ``_jsonl.py`` and return what it says.

        *stat* was taken just before. With *previous*, a unit that only grew is read from
        where it ended, and facts that the new bytes do not repeat are kept. Called again
        with ``previous.complete`` False for the slower look that `Scan.complete` asked for.
        Malformed content is no error. Raises OSError when the file cannot be read; its
        rows then stay as they are.
        """

    @abstractmethod
    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row that all units together make of a session, or None for no session. Pure."""

    @abstractmethod
    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, read from the file now and stored nowhere.

        Raises OSError when the file cannot be read.
        """

    def live(self, session: Session) -> Live | None:
        """Return the process that has *session* open at this moment, or may have; None when none has.

        Asked before a start, so what the index holds is enough only where nothing else tells.
        """
        return Live(session.live, "elsewhere") if session.live else None

    def origin(self, session: Session) -> Origin:  # noqa: ARG002 - for those whose transcripts tell
        """Return where *session* began, read from the file now. Raises OSError when it cannot be read."""
        return Origin(None, None)

    def present(self, session: Session) -> bool:
        """Return whether *session* is still there to be resumed.

        Looked at before a start, since several programs begin a new session in the place of one they do not find.
        Raises OSError when it cannot be told.
        """
        try:
            os.lstat(session.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def environment(self, root: str) -> dict[str, str]:
        """Return the variables with which the program takes *root* for its store, when it is not the default one."""
        return {self.store_variable: root} if self.store_variable else {}

    @abstractmethod
    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:
        """Return the command that resumes *session*, or a copy of it, with *settings*.

        *folder* is where the person wants it instead of the launch directory. Pure.
        """


def stat_of(result: os.stat_result) -> Stat:
    """Return the part of *result* that tells whether a file changed."""
    # ZFS and overlayfs number inodes above 2**63, ext4 dates files up to 2446: more than SQLite can hold.
    times = (max(-_MOST, min(_MOST, time)) for time in (result.st_mtime_ns, result.st_ctime_ns))
    return Stat(result.st_dev, result.st_ino & _MOST, result.st_size, *times)


_MOST = 0x7FFF_FFFF_FFFF_FFFF
