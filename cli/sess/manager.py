"""The service managers: which one there is, and whether it has our service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sess.units import Units
    from sessiond.paths import Paths

PATIENCE = 100
"""Seconds for a program of a service manager: systemd waits up to 90 for a service to become ready."""


class State(NamedTuple):
    """How the service is."""

    installed: bool
    enabled: bool
    """It starts at login."""
    active: str
    """``active``, ``inactive``, ``failed``, or a word of the manager's for something in between."""
    pid: int
    """Of its daemon; 0 when it has none."""
    detail: str
    """What the manager says of the end of the last daemon, if that was no good one."""

    @property
    def words(self) -> str:
        """It as a part of a sentence."""
        active = f"{self.active} ({self.detail})" if self.detail else self.active
        process = f", pid {self.pid}" if self.pid else ""
        return f"{active}{process}, {'starts at login' if self.enabled else 'does not start at login'}"


class Manager(ABC):
    """A service manager. Its methods raise Problem when it refuses."""

    name: str
    log_hint = ""
    """Where else the log may be when `log_command` is None."""

    @abstractmethod
    def __init__(self, env: Mapping[str, str]) -> None:
        """Find this user's. Raises Problem when there is none that can be asked."""

    @abstractmethod
    def serves(self, paths: Paths) -> bool:
        """Return whether it has our service, for the daemon that is reached by *paths*; asks as little as it can."""

    @abstractmethod
    def state(self) -> State:
        """Return how the service is."""

    @abstractmethod
    def variables(self) -> Mapping[str, str] | None:
        """Return the variables that the written service sets, None when there is none."""

    @classmethod
    @abstractmethod
    def left(cls, env: Mapping[str, str]) -> tuple[list[str], Mapping[str, str] | None]:
        """Return the paths of the service's files, and its variables, as found without asking the manager."""

    @abstractmethod
    def write(self, units: Units, *, harden: bool) -> list[str]:
        """Write the files of the service and make them known; return the paths of those that changed."""

    @abstractmethod
    def starts(self, command: Sequence[str]) -> bool:
        """Return whether *command* is what it starts the daemon with."""

    @abstractmethod
    def stale(self, units: Units) -> bool:
        """Return whether a file is of another installation or version; its variables may be those of another shell."""

    @abstractmethod
    def soften(self) -> None:
        """Take back what *harden* added."""

    @abstractmethod
    def begin(self, changed: list[str]) -> None:
        """Have the service start at login and now, in place of a daemon of its own; its files in *changed* are new."""

    @abstractmethod
    def try_start(self) -> bool:
        """Ask for a start, without waiting for its end; return whether that was taken."""

    @abstractmethod
    def start(self) -> None:
        """Start the service."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the service, until the next start or login."""

    @abstractmethod
    def restart(self) -> None:
        """Replace the daemon."""

    @abstractmethod
    def remove(self) -> list[str]:
        """Stop the service and remove its files; return their paths."""

    @abstractmethod
    def log_command(self, *, follow: bool) -> list[str] | None:
        """Return the command that shows the service's log, None when that is the daemon's own file."""


def choose(env: Mapping[str, str]) -> Manager:
    """Return the service manager of this platform. Raises Problem when there is none that can be used."""
    kind = _kind()
    if kind is None:
        raise unavailable("sess knows none on this system")
    return kind(env)


def left(env: Mapping[str, str]) -> tuple[list[str], Mapping[str, str] | None]:
    """Return what `Manager.left` does, for that of this platform."""
    kind = _kind()
    return kind.left(env) if kind else ([], None)


def _kind() -> type[Manager] | None:
    if sys.platform == "darwin":
        from sess.launchd import Launchd

        return Launchd
    if sys.platform == "linux":
        from sess.systemd import Systemd

        return Systemd
    return None


def installed(paths: Paths, env: Mapping[str, str]) -> Manager | None:
    """Return the service manager that has our service for *paths*, None when there is no such one."""
    try:
        manager = choose(env)
        return manager if manager.serves(paths) else None
    except Problem:
        return None


def unavailable(why: str) -> Problem:
    """Return what to say when no service manager can be used."""
    return Problem(
        "unreachable",
        f"there is no service manager: {why}",
        "sess works without one: the daemon starts with the first search and runs until `sess stop` or the next boot.",
    )


def run(env: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of a service manager to its end; one that cannot be run, or does not end, failed with code 127."""
    program = shutil.which(words[0], path=env.get("PATH", os.defpath))
    if program is None:
        return subprocess.CompletedProcess(words, 127, "", f"{words[0]} is not installed")
    try:
        return subprocess.run(  # noqa: S603 - the words are ours
            [program, *words[1:]],
            env={**env, "LC_ALL": "C", "SYSTEMD_COLORS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 127, "", f"{words[0]} cannot be run: {error}")


def last_line(lines: Sequence[str]) -> str:
    """Return the last of *lines* that says something."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "it gave no reason")


def fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each line ``name=value`` of *text*."""
    for line in text.splitlines():
        name, found, value = line.strip().partition("=")
        if found:
            yield name.strip(), value.strip()


def read_file(path: str) -> bytes | None:
    """Return what is in the file at *path*; None when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def put_file(path: str, content: bytes) -> bool:
    """Make *content* that of the file at *path*, at once; return whether it was another. Raises Problem."""
    if read_file(path) == content:
        return False
    # Neither a shell's umask of 0, with which others could write what is started, nor one of 077 is meant here.
    umask = os.umask(0o022)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "wb") as file:
            os.fchmod(file.fileno(), 0o644)  # it may be left of an earlier time
            file.write(content)
        os.replace(path + ".new", path)
    except OSError as error:
        raise Problem("refused", f"{path} cannot be written: {error.strerror}", "Make its folder writable.") from None
    finally:
        os.umask(umask)
    return True


def remove_files(paths: Iterable[str], home: str) -> list[str]:
    """Remove those of *paths* that exist, and the folders below *home* that are empty then; return what was removed."""
    removed = []
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        removed.append(path)
    for path in paths:
        folder = os.path.dirname(path)
        while folder.startswith(home.rstrip("/") + "/"):
            try:
                os.rmdir(folder)
            except OSError:
                break
            folder = os.path.dirname(folder)
    return removed
