"""Crush: one SQLite database in each project, and a list of the projects."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import apsw

from sessiond.apps import _sqlite
from sessiond.apps._jsonl import given, instant, text
from sessiond.apps._store import Place, Store, manifest, xdg_data
from sessiond.apps.base import Watch
from sessiond.session import Scan, Unit
from sessiond.text import storable, title

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessiond.apps._store import Unreadable
    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat

PROJECTS = 500
"""Projects that are looked at, those used last; each costs a watch."""

_DATABASE = "crush.db"
_FOLDER = ".crush"
# That of a sub-agent's tool call has `$$` in it, which no shell should ever be shown.
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_PLACEHOLDER = re.compile(r"(?:Untitled|New) Session")
_COLUMNS = ("id", "parent_session_id", "title", "message_count", "updated_at", "created_at")
# The rows of a session in the order of its index. Only of the last is read what comes behind the message.
_MODEL = "SELECT model FROM messages WHERE session_id = ? AND role = 'assistant' ORDER BY rowid DESC LIMIT 1"
_PROMPT = """
SELECT CAST(substr(part ->> '$.data.text', 1, 4096) AS BLOB) FROM (
  SELECT messages.rowid AS number, each.key AS key, iif(each.type = 'object', each.value, '{{}}') AS part
  FROM messages, json_each(iif(json_valid(parts), parts, '[]')) AS each WHERE session_id = ? AND role = 'user'
) WHERE part ->> '$.type' = 'text' AND part ->> '$.data.hidden' IS NOT 1 AND part ->> '$.data.text' <> ''
ORDER BY number {order}, key LIMIT 1
"""


class Crush(Store):
    """Crush as its source tells (August 2026); the program was not run."""

    name = "crush"
    label = "Crush"
    verified = ""
    reads = ("projects.json", f"{_DATABASE} in the folders that it lists")
    program = "crush"
    store_variable = "CRUSH_GLOBAL_DATA"
    variables = ("XDG_DATA_HOME",)
    folder_gone = (
        "Crush keeps the sessions of a project in its folder, so they are most likely gone with it.\n"
        "Where they are kept elsewhere, it goes on in another one: --dir DIR"
    )
    places: Mapping[str, Place] = {"projects": Place(r"projects\.json")}

    def __init__(self) -> None:
        """Know of no project yet."""
        self._known: dict[str, frozenset[str]] = {}

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``CRUSH_GLOBAL_DATA`` and ``crush`` in ``XDG_DATA_HOME``, on macOS too ``~/.local/share``."""
        folders = (env.get("CRUSH_GLOBAL_DATA", ""), os.path.join(xdg_data(env), "crush"))
        return list(dict.fromkeys(os.path.normpath(folder) for folder in folders if os.path.isabs(folder)))

    def watches(self, root: str) -> list[Watch]:
        """Return the folder of the list, and those it names now; one that it names later is not watched."""
        return [*super().watches(root), *(Watch(os.path.dirname(path), 0) for path in self._databases(root))]

    def unit(self, root: str, path: str) -> Unit | None:
        """Return the unit that *path* is: the list, or a database that it named when it was last looked at."""
        own = path.removesuffix("-wal")
        if own in self._known.get(root, ()):
            return Unit(self.name, root, own, "database")
        return super().unit(root, path)

    def units(self, root: str, unreadable: Unreadable) -> Iterator[tuple[Unit, Stat]]:
        """Yield the list, and each database that it names."""
        yield from super().units(root, unreadable)
        for path in self._databases(root):
            unit = Unit(self.name, root, path, "database")
            try:
                yield unit, self.stat(unit)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                unreadable(os.path.dirname(path), error)

    def stat(self, unit: Unit) -> Stat:
        """Return what tells whether *unit* changed, be it the write-ahead log of a database."""
        if unit.kind == "database":
            return _sqlite.with_log(unit.path, super().stat(unit._replace(kind="projects")))
        return super().stat(unit)

    def companions(self, unit: Unit) -> list[str]:
        """Return the databases whenever the list changed, as it does at every start of the program."""
        return self._databases(unit.root) if unit.kind == "projects" else []

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:  # noqa: ARG002 - all of it is read anew
        """Read *unit*, as `App.read` says."""
        if unit.kind == "projects":
            record, read = manifest(unit.path)
            return Scan(problem="" if record else "it is no list", read=read)
        known = previous.facts if previous else {}
        cwd = _project(unit.root, unit.path)
        return Scan(_sqlite.read(unit.path, lambda database: _sessions(database, cwd, known)))

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session: of copies of a project that of the one used last."""
        part = min(parts, key=lambda part: (part.gone, -part.facts.get("updated", 0)))
        facts = part.facts
        return self.row(
            id,
            part,
            facts,
            hidden="subagent" if facts.get("agent") else "empty" if facts.get("empty") else None,
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, each cut to 4,096 characters."""
        return _sqlite.ends(session.path, _prompt, session.id)

    def present(self, session: Session) -> bool:
        """Return whether *session* is a row of its database."""
        return _sqlite.has(session.path, session.id, "sessions")

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``crush --session``, with the folder of the database where it is not the usual one."""
        data = os.path.dirname(session.path)
        usual = os.path.join(folder or session.launch_dir or "", _FOLDER) == data
        return [self.program, *([] if usual else ["--data-dir", data]), "--session", session.id]

    def _databases(self, root: str) -> list[str]:
        """Return the databases of the projects that the list of *root* names, and keep them for `unit`."""
        with suppress(OSError):
            found = [os.path.join(folder, _DATABASE) for _, folder in _projects(root)]
            self._known[root] = frozenset(found)
        # A list met half written names none, and its projects are there all the same.
        return sorted(self._known.get(root, ()))


def _projects(root: str) -> list[tuple[str, str]]:
    """Return folder and data folder of each project, the last used first. Raises OSError for no list."""
    record, _ = manifest(os.path.join(root, "projects.json"))
    if record is None:
        raise OSError("it is no list")
    listed = record.get("projects")
    found: dict[tuple[str, str], None] = {}
    for project in listed if isinstance(listed, list) else []:
        folder, data = (
            (text(project.get(key)) for key in ("path", "data_dir")) if isinstance(project, dict) else ("", "")
        )
        if folder and data and "\0" not in folder + data:
            data = os.path.normpath(os.path.join(folder, data))
            if os.path.isabs(data):
                found[storable(folder), storable(data)] = None
    return list(found)[:PROJECTS]


def _project(root: str, path: str) -> str | None:
    """Return the folder whose sessions the database at *path* has: with the usual name, the one that it lies in."""
    folder, name = os.path.split(os.path.dirname(path))
    if name == _FOLDER:
        return folder
    with suppress(OSError):
        return next((project for project, data in _projects(root) if data == os.path.dirname(path)), None)
    return None


def _sessions(database: apsw.Connection, cwd: str | None, known: Mapping[str, Facts]) -> dict[str, Facts]:
    """Return the facts of every session."""
    found: dict[str, Facts] = {}
    for row in _sqlite.rows(database, "sessions", _COLUMNS):
        session = row["id"]
        if not isinstance(session, str) or not _SESSION.fullmatch(session):
            continue
        heading = title(row["title"]) if isinstance(row["title"], str) else ""
        heading = "" if _PLACEHOLDER.fullmatch(heading) else heading
        find = partial(_prompt, database, session, last=False)
        prompt = "" if heading else known.get(session, {}).get("prompt") or title(find() or "")
        found[session] = given(
            title=heading,
            prompt=prompt,
            cwd=cwd,
            created=instant(row["created_at"]),
            updated=instant(row["updated_at"]),
            model=_model(database, session),
            agent=bool(row["parent_session_id"]),
            empty=not prompt and (not heading or row["message_count"] == 0),
        )
    return found


def _model(database: apsw.Connection, id: str) -> str | None:
    with suppress(apsw.SQLError):
        for (model,) in database.execute(_MODEL, (id,)):
            return text(model)
    return None


def _prompt(database: apsw.Connection, id: str, *, last: bool) -> str | None:
    """Return the first or the last prompt."""
    with suppress(apsw.SQLError):
        for (words,) in database.execute(_PROMPT.format(order="DESC" if last else "ASC"), (id,)):
            return text(_sqlite.decoded(words))
    return None
