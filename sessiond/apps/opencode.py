"""OpenCode: one SQLite database for all sessions, and before 1.2 a JSON file for each."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import apsw

from sessiond.apps import _sqlite
from sessiond.apps._jsonl import given, instant, records, text
from sessiond.apps._store import NAME, Place, Store, manifest, xdg_data
from sessiond.session import Scan
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

DATABASE = "opencode.db"
MESSAGES = 20
"""Messages at either end of a session of files that are looked at for a prompt."""

_ID = r"ses_[A-Za-z0-9]{1,60}"
_SESSION = re.compile(_ID)
_PLACEHOLDER = re.compile(r"(?:New|Child) session - [0-9T:.-]+Z(?: \(fork #\d+\))?")
# OpenCode 2 moved the sessions to a table of their own, under the same ids, and left the old rows behind.
_TABLES = ("session", "session_v2")
_COLUMNS = (
    *("id", "project_id", "parent_id", "directory", "title", "model"),
    *("time_created", "time_updated", "time_archived"),
)
# Of the two generations of messages; in each the words stand in JSON that anyone may have written.
_PROMPTS = (
    """
    SELECT CAST(substr(data ->> '$.text', 1, 4096) AS BLOB) FROM (
      SELECT seq, iif(json_valid(data), data, '{{}}') AS data
      FROM session_message WHERE session_id = ? AND type = 'user'
    ) WHERE data ->> '$.text' <> '' ORDER BY seq {order} LIMIT 1
    """,
    """
    SELECT CAST(substr(data ->> '$.text', 1, 4096) AS BLOB) FROM (
      SELECT message.time_created AS time, message.id AS message, part.id AS part,
        iif(json_valid(message.data), message.data, '{{}}') ->> '$.role' AS role,
        iif(json_valid(part.data), part.data, '{{}}') AS data
      FROM message JOIN part ON part.message_id = message.id WHERE message.session_id = ?
    ) WHERE role = 'user' AND data ->> '$.type' = 'text' AND data ->> '$.synthetic' IS NOT 1 AND data ->> '$.text' <> ''
    ORDER BY time {order}, message {order}, part LIMIT 1
    """,
)


class OpenCode(Store):
    """OpenCode 1.2 to 2.0 with its database, and 0.3 to 1.1 with a file for each session."""

    name = "opencode"
    label = "OpenCode"
    verified = "1.1.11, 1.18.33"
    reads = (
        *("opencode*.db", "storage/session/*/ID.json", "project/*/storage/session/info/ID.json"),
        *("storage/message/ID/*.json", "storage/part/*/*.json"),
    )
    program = "opencode"
    store_variable = "XDG_DATA_HOME"
    variables = ("OPENCODE_DB",)
    forks = True
    folder_gone = (
        "OpenCode opens the session all the same, but every turn in it fails.\n"
        "It goes on once that folder exists again, even empty: mkdir -p FOLDER"
    )

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        """Take the name of the database that *env* chooses, and nothing else, out of it."""
        self._database = os.path.basename(env.get("OPENCODE_DB", "")) or DATABASE
        self.places = {
            # Each channel but the released one has a database of its own.
            "database": Place(rf"opencode(?:-[\w.-]*)?\.db|{re.escape(self._database)}", database=True),
            "session": Place(rf"storage/session/{NAME}/(?P<id>{_ID})\.json"),
            "info": Place(rf"project/{NAME}/storage/session/info/(?P<id>{_ID})\.json"),
        }

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return the folder of ``OPENCODE_DB`` if that is a path, and ``opencode`` in ``XDG_DATA_HOME``.

        That is ``~/.local/share``, on macOS too.
        """
        folders = (os.path.dirname(env.get("OPENCODE_DB", "")), os.path.join(xdg_data(env), "opencode"))
        return list(dict.fromkeys(os.path.normpath(folder) for folder in folders if os.path.isabs(folder)))

    def environment(self, root: str) -> dict[str, str]:
        """Return the parent of *root*, or for one of another name the database in it."""
        folder, name = os.path.split(root)
        if name == "opencode":
            return {"XDG_DATA_HOME": folder}
        return {"OPENCODE_DB": os.path.join(root, self._database)}

    def stat(self, unit: Unit) -> Stat:
        """Return what tells whether *unit* changed. A database beside it decides whether a file counts."""
        stat = super().stat(unit)
        return stat._replace(ctime_ns=stat.ctime_ns + 1) if unit.kind != "database" and self._moved(unit.root) else stat

    def _moved(self, root: str) -> bool:
        """Return whether the store has a database: 1.18.33 makes an empty one, imports nothing, and finds no file."""
        return os.path.lexists(os.path.join(root, self._database))

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:  # noqa: ARG002 - all of it is read anew
        """Read *unit*, as `App.read` says."""
        if unit.kind == "database":
            known = previous.facts if previous else {}
            return Scan(_sqlite.read(unit.path, lambda database: _sessions(database, known)))
        record, read = manifest(unit.path)
        if record is None:
            # Overwritten in place, it can be met half written.
            return Scan(previous.facts if previous else {}, problem="it is no session", read=read)
        session = self.session_id(unit)
        facts = _facts(_row(record), partial(_prompt_of_files, unit.root, session, last=False))
        old = unit.kind == "info" or self._moved(unit.root)
        return Scan({session: facts | given(old=old)}, read=read)

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session: from the database that spoke last, else from a file."""
        kinds = list(self.places)
        part = min(parts, key=lambda part: (part.gone, kinds.index(part.unit.kind), -part.facts.get("updated", 0)))
        facts = part.facts
        return self.row(
            id,
            part,
            facts,
            hidden=_hidden(facts),
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, each cut to 4,096 characters."""
        if session.path.endswith(".json"):
            first, last = (_prompt_of_files(session.root, session.id, last=last) for last in (False, True))
            return first, last
        return _sqlite.ends(session.path, _prompt, session.id)

    def present(self, session: Session) -> bool:
        """Return whether *session* is a row of its database, or a file in a store without one."""
        if session.path.endswith(".json"):
            return super().present(session) and not self._moved(session.root)
        return _sqlite.has(session.path, session.id, *_TABLES)

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``opencode --session``, which goes on in the recorded folder with the recorded model (1.18.33).

        ``opencode session resume`` does not exist, and ``opencode run --session`` hangs in another project.
        """
        return [self.program, "--session", session.id, *(["--fork"] if fork else [])]


def _sessions(database: apsw.Connection, known: Mapping[str, Facts]) -> dict[str, Facts]:
    """Return the facts of every session; of the two generations of one the later."""
    found: dict[str, Facts] = {}
    trees = {row["id"]: row["worktree"] for row in _sqlite.rows(database, "project", ("id", "worktree"))}
    for table in _TABLES:
        for row in _sqlite.rows(database, table, _COLUMNS):
            session, tree = row["id"], trees.get(row["project_id"])
            if not isinstance(session, str) or not _SESSION.fullmatch(session):
                continue
            row["directory"] = text(row["directory"]) or (tree if tree != "/" else None)
            prompt = known.get(session, {}).get("prompt") or partial(_prompt, database, session, last=False)
            facts = _facts(row, prompt)
            if facts.get("updated", 0) >= found.get(session, {}).get("updated", 0):
                found[session] = facts
    return found


def _row(record: dict[str, Any]) -> dict[str, Any]:
    """Return a session's file as a row of the table that came after it."""
    time = record["time"] if isinstance(record.get("time"), dict) else {}
    row = {"parent_id": record.get("parentID"), "directory": record.get("directory"), "title": record.get("title")}
    return dict.fromkeys(_COLUMNS) | row | {f"time_{key}": value for key, value in time.items()}


def _facts(row: dict[str, Any], prompt: str | Callable[[], str | None]) -> Facts:
    """Return what *row* says; *prompt* is the first one, or finds it, for one without a title."""
    heading = title(row["title"]) if isinstance(row["title"], str) else ""
    if not heading or _PLACEHOLDER.fullmatch(heading):
        heading = ""
        prompt = prompt if isinstance(prompt, str) else title(prompt() or "")
    model = records(row["model"].encode("utf-8", "replace")) if isinstance(row["model"], str) else []
    archived = row["time_archived"]
    return given(
        title=heading,
        prompt="" if heading else prompt,
        cwd=text(row["directory"]),
        agent=bool(row["parent_id"]),
        created=instant(row["time_created"]),
        updated=instant(row["time_updated"]),
        archived=isinstance(archived, int) and archived > 0,
        model=text(model[0].get("id")) if model else None,
    )


def _hidden(facts: Facts) -> str | None:
    if facts.get("agent"):
        return "subagent"
    if not any(facts.get(key) for key in ("title", "prompt", "model")):
        return "empty"
    return "not-resumable" if facts.get("old") else None


def _prompt(database: apsw.Connection, id: str, *, last: bool) -> str | None:
    """Return the first or the last prompt. Migrations have emptied tables of messages: then those of the other."""
    for query in _PROMPTS:
        with suppress(apsw.SQLError):
            for (words,) in database.execute(query.format(order="DESC" if last else "ASC"), (id,)):
                return text(_sqlite.decoded(words))
    return None


def _prompt_of_files(root: str, id: str, *, last: bool) -> str | None:
    """Return the first or the last prompt of a session of files (1.1.11), None if it is not where one is looked for."""
    storage = os.path.join(root, "storage")
    with suppress(OSError):
        names = sorted(os.listdir(f"{storage}/message/{id}"), reverse=last)
        for name in names[:MESSAGES]:
            message, _ = manifest(f"{storage}/message/{id}/{name}")
            if not message or message.get("role") != "user":
                continue
            parts = f"{storage}/part/{name.removesuffix('.json')}"
            for part in sorted(os.listdir(parts))[:MESSAGES]:
                record = manifest(f"{parts}/{part}")[0] or {}
                if record.get("type") == "text" and not record.get("synthetic") and (words := text(record.get("text"))):
                    return words[: _sqlite.TEXT]
    return None
