"""The configuration: what config.toml may say, and what holds when it says nothing."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from glob import escape, iglob
from itertools import islice
from typing import TYPE_CHECKING, Any

from sessiond.apps import APPS
from sessiond.patience import Patience
from sessiond.protocol import Problem
from sessiond.text import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sessiond.apps.base import App

LARGEST = 1 << 20
"""Bytes of a configuration; more is something else."""
STYLES = ("title", "count")
"""What the text for a prompt shows: the number of sessions and the newest title, or the number alone."""
_DAYS = 36_500
_COLUMNS = range(10, 201)
_PATIENCE = 1.0
"""Seconds that a file system has to say where a link leads."""
_FOUND = 1000
"""Folders at most that are looked at for what a pattern matches."""
_ESCAPED = re.compile(r"\[([*?[])\]")


@dataclass(frozen=True)
class Config:
    """What is in force. A field is the setting of its name; ``prompt_length`` is ``length`` in ``[prompt]``."""

    home: str = "/"
    """What ``~`` stands for."""

    exclude: tuple[str, ...] = ()
    """Patterns of folders whose sessions are left out."""
    exclude_apps: tuple[str, ...] = ()
    """Agents that are left out."""
    keep_deleted_days: int | None = None
    """Days for which a session stays known after its transcript was deleted; None is for ever."""
    roots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Stores besides those that an agent's own variables and defaults name, by agent."""
    prompt_length: int = 40
    """Columns of a title in the text for a prompt."""
    prompt_style: str = "title"
    """One of ``STYLES``."""
    given: frozenset[str] = frozenset()
    """The settings, by their name in the file, that come from it."""

    def as_json(self) -> dict[str, Any]:
        """Return every setting, by its name in the file."""
        return {name: _plain(getattr(self, name.replace(".", "_"))) for name in _READERS}

    def stores(self, app: App, env: Mapping[str, str]) -> list[str]:
        """Return the folders of *app* to look into: those of *env* and its defaults, and those given for it."""
        if app.name in self.exclude_apps:
            return []
        given = self.roots.get(app.name, ())
        return [*app.roots(env), *(self.home + folder[1:] if folder.startswith("~") else folder for folder in given)]

    def excludes(self, folder: str | None) -> bool:
        """Return whether *folder* is left out: it, or one above it, matches a pattern, also by another path to it.

        Where links lead is looked at once, and taken as known until the next reload.
        """
        if not folder or not self.exclude:
            return False
        if folder not in self._real:
            self._real[folder] = self._followed(folder)
        return any(
            _matches(pattern, _names(path)) for path in {folder, self._real[folder]} for pattern in self._patterns
        )

    @cached_property
    def _real(self) -> dict[str, str]:
        """Folders of sessions, without links."""
        return {}

    @cached_property
    def _patience(self) -> Patience:
        return Patience()

    def _followed(self, folder: str) -> str:
        place = "/".join(folder.split("/")[:4])  # /home/anna/mount: what hangs is not waited for again and again
        try:
            return self._patience.within(_PATIENCE, place, lambda: os.path.realpath(folder))
        except TimeoutError:
            return folder

    @cached_property
    def _patterns(self) -> list[list[str]]:
        # Agents may know the home by another path.
        homes = {escape(self.home.rstrip("/")), escape(os.path.realpath(self.home))}
        given = [
            _names(home + pattern[1:] if pattern.startswith("~") else pattern)
            for pattern in self.exclude
            for home in homes
        ]
        return given + [real for pattern in given for real in self._without_links(pattern)]

    def _without_links(self, pattern: list[str]) -> list[list[str]]:
        try:
            return self._patience.within(_PATIENCE, "/".join(pattern), lambda: list(_real_patterns(pattern)))
        except TimeoutError:
            return []


def load(path: str, home: str) -> Config:
    """Return the configuration in the file at *path*, for the *home* of a user; the defaults when there is none.

    Raises Problem, which names the setting that is wrong, and of an unknown one the nearest known.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _problem(path, "it is no regular file")
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        if any(map(os.path.islink, (path, os.path.dirname(path)))):
            raise _problem(path, "it is a link to what is not there") from None
        return Config(home)
    except OSError as error:
        raise _problem(path, error.strerror or "it cannot be read") from None
    if len(data) > LARGEST:
        raise _problem(path, f"it has more than {LARGEST >> 10} KiB")
    import tomllib

    try:
        content = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _problem(path, f"it is no TOML: {error}") from None
    settings = {}
    for name, value in _flat(content):
        read = _READERS.get(name)
        if read is None and any(known.startswith(f"{name}.") for known in _READERS):
            raise _problem(path, f"{name}: it has to be a table: [{name}]")
        if read is None:
            raise _unknown(path, name, _READERS)
        try:
            settings[name] = read(value)
        except ValueError as error:
            raise _problem(path, f"{name}: {error}") from None
        except LookupError as unknown:
            raise _unknown(path, f"{name}: {unknown.args[0]}", APPS) from None
    values: dict[str, Any] = {name.replace(".", "_"): value for name, value in settings.items()}
    return replace(Config(home, given=frozenset(settings)), **values)


def _flat(content: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the settings of *content*; those of a table that is none itself with its name before them."""
    for name, value in content.items():
        if isinstance(value, dict) and name not in _READERS:
            yield from ((f"{name}.{inner}", setting) for inner, setting in value.items())
        else:
            yield name, value


def _folders(value: Any) -> tuple[str, ...]:
    folders = _strings(value)
    for folder in folders:
        if not folder.startswith(("/", "~/")):
            raise ValueError(f'"{folder}" does not begin with / or ~/')
    return folders


def _patterns(value: Any) -> tuple[str, ...]:
    patterns = _strings(value)
    for pattern in patterns:
        if not (pattern == "~" or pattern.startswith(("/", "~/", "**/"))):
            raise ValueError(f'"{pattern}" does not begin with /, ~/ or **/')
    return patterns


def _apps(value: Any) -> tuple[str, ...]:
    for name in (names := _strings(value)):
        if name not in APPS:
            raise LookupError(name)
    return names


def _stores(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError("it has to be a table: agent = [folders]")
    _apps(list(value))
    return {app: _folders(folders) for app, folders in value.items()}


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) and entry for entry in value):
        raise ValueError('it has to be a list of texts: ["…"]')
    if any("\0" in entry for entry in value):
        raise ValueError("it has the sign U+0000, which is in no path")
    return tuple(value)


def _days(value: Any) -> int:
    return _number(value, 0, _DAYS)


def _length(value: Any) -> int:
    return _number(value, _COLUMNS.start, _COLUMNS.stop - 1)


def _number(value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"it has to be a number from {least} to {most}")
    return value


def _style(value: Any) -> str:
    if value not in STYLES:
        raise ValueError(f"it has to be one of: {' '.join(STYLES)}")
    return str(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "exclude": _patterns,
    "exclude_apps": _apps,
    "keep_deleted_days": _days,
    "roots": _stores,
    "prompt.length": _length,
    "prompt.style": _style,
}
"""What makes a value of each setting in the file; raises ValueError, or LookupError for an unknown agent."""


def _plain(value: Any) -> Any:
    """Return *value* as JSON has it."""
    if isinstance(value, dict):
        return {name: list(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _matches(pattern: Sequence[str], folder: Sequence[str]) -> bool:
    """Return whether *pattern* matches *folder* or one above it, both in names; ``**`` is any number, also none."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(_matches(pattern[1:], folder[start:]) for start in range(len(folder) + 1))
    return bool(folder) and fnmatchcase(folder[0], pattern[0]) and _matches(pattern[1:], folder[1:])


def _real_patterns(pattern: Sequence[str]) -> Iterable[list[str]]:
    """Yield what *pattern* is without links: those in its plain names, and in what its stars find before ``**``."""
    end = list(pattern).index("**") if "**" in pattern else len(pattern)
    plain = []
    for name in pattern[:end]:
        if escape(_ESCAPED.sub(r"\1", name)) != name:
            break
        plain.append(_ESCAPED.sub(r"\1", name))
    yield [*_names(escape(os.path.realpath("/" + "/".join(plain)))), *pattern[len(plain) :]]
    if len(plain) < end:
        for found in islice(iglob("/" + "/".join(pattern[:end]), include_hidden=True), _FOUND):
            yield [*_names(escape(os.path.realpath(found))), *pattern[end:]]


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _unknown(path: str, name: str, known: Iterable[str]) -> Problem:
    meant = nearest(name.rpartition(": ")[2], known)
    hint = f"Did you mean {meant}? " if meant else ""
    return _problem(path, f"{name} is not known", f"{hint}There are: {' '.join(known)}.")


def _problem(path: str, why: str, hint: str = "") -> Problem:
    return Problem("usage", f"{path}: {why}", hint or "docs/configuration.md says what may stand there.")
