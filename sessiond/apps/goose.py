"""Goose: one SQLite database for all sessions, and before 1.10 a JSONL file for each."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import apsw

from sessiond.apps import _sqlite
from sessiond.apps._jsonl import Transcript, given, instant, records, text
from sessiond.apps._store import Place, Store, xdg_data
from sessiond.session import Scan
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

DATABASE = "sessions/sessions.db"

# The database numbers the sessions of a day; the name of a file was the time, or what the person called it.
_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
_SESSION = re.compile(_ID)
_PLACEHOLDER = re.compile(r"(?:CLI|ACP) Session|New (?:Chat|session \d+)|New session")
_COLUMNS = (
    *("id", "name", "description", "session_type", "working_dir", "created_at", "updated_at", "archived_at"),
    *("model_config_json", "parent_session_id"),
)
_TYPES = {
    # Those that a person typed into, also by a schedule of their own.
    **dict.fromkeys(("user", "scheduled", ""), ""),
    **dict.fromkeys(("sub_agent", "specialist"), "subagent"),
}
_PROMPT = """
SELECT CAST(substr(content ->> '$.text', 1, 4096) AS BLOB) FROM (
  SELECT message.id AS id, part.key AS key, iif(part.type = 'object', part.value, '{{}}') AS content
  FROM messages AS message, json_each(iif(json_valid(content_json), content_json, '[]')) AS part
  WHERE session_id = ? AND role = 'user' {visible}
) WHERE content ->> '$.type' = 'text' AND content ->> '$.text' <> '' ORDER BY id {order}, key LIMIT 1
"""
_VISIBLE = "AND iif(json_valid(metadata_json), metadata_json, '{}') ->> '$.userVisible' IS NOT 0"


class Goose(Store):
    """Goose from 1.10 on with its database, and before with a file for each session, as its source tells."""

    name = "goose"
    label = "Goose"
    verified = ""
    reads = (DATABASE, "sessions/ID.jsonl")
    program = "goose"
    store_variable = "GOOSE_PATH_ROOT"
    variables = ("XDG_DATA_HOME",)
    forks = True
    folder_gone = (
        "Goose asks, and goes on in the folder it is started in.\n"
        "Make it again: mkdir -p FOLDER\n"
        "Or go on in another one: --dir DIR"
    )
    places: Mapping[str, Place] = {
        "database": Place(r"sessions/sessions\.db", database=True),
        "file": Place(rf"sessions/(?P<id>{_ID})\.jsonl"),
    }

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``data`` in ``GOOSE_PATH_ROOT`` and ``goose`` in ``XDG_DATA_HOME``, on macOS as on Linux.

        That is ``~/.local/share``, unless it is set to an absolute path.
        """
        moved = env.get("GOOSE_PATH_ROOT", "")
        folders = ([f"{moved}/data"] if os.path.isabs(moved) else []) + [f"{xdg_data(env)}/goose"]
        return list(dict.fromkeys(map(os.path.normpath, folders)))

    def environment(self, root: str) -> dict[str, str]:
        """Return what ``GOOSE_PATH_ROOT``, or ``XDG_DATA_HOME`` without it, has to be for *root*."""
        folder, name = os.path.split(root)
        return {"GOOSE_PATH_ROOT" if name == "data" else "XDG_DATA_HOME": folder}

    def stat(self, unit: Unit) -> Stat:
        """Return what tells whether *unit* changed. A database beside it decides whether a file counts."""
        stat = super().stat(unit)
        return stat._replace(ctime_ns=stat.ctime_ns + 1) if unit.kind == "file" and self._moved(unit.root) else stat

    def _moved(self, root: str) -> bool:
        """Return whether the store has a database: it takes in the files when it is made, and no file later."""
        return os.path.lexists(os.path.join(root, DATABASE))

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:  # noqa: ARG002 - all of it is read anew
        """Read *unit*, as `App.read` says."""
        if unit.kind == "database":
            known = previous.facts if previous else {}
            return Scan(_sqlite.read(unit.path, lambda database: _sessions(database, known)))
        session = self.session_id(unit)
        with Transcript(unit.path) as file:
            first = next((record for line in file.head() for record in records(line.data)), {})
            facts = _facts(first, partial(_prompt_of_file, file, last=False))
            return Scan({session: facts | given(old=self._moved(unit.root))}, read=file.read)

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session: from the database, else from a file."""
        kinds = list(self.places)
        part = min(parts, key=lambda part: (part.gone, kinds.index(part.unit.kind)))
        facts = part.facts
        return self.row(
            id,
            part,
            facts,
            hidden=_hidden(facts),
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, each cut to 4,096 characters."""
        if session.path.endswith(".jsonl"):
            with Transcript(session.path) as file:
                return _prompt_of_file(file, last=False), _prompt_of_file(file, last=True)
        return _sqlite.ends(session.path, _prompt, session.id)

    def present(self, session: Session) -> bool:
        """Return whether *session* is a row of the database, or a file of which one will be made."""
        if session.path.endswith(".jsonl"):
            return super().present(session) and not self._moved(session.root)
        return _sqlite.has(session.path, session.id, "sessions")

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``goose session --resume``, which goes on with the recorded model and mode.

        An option for the model is accepted from July 2026 on only (aaif-goose/goose#10810).
        """
        return [self.program, "session", "--resume", "--session-id", session.id, *(["--fork"] if fork else [])]


def _sessions(database: apsw.Connection, known: Mapping[str, Facts]) -> dict[str, Facts]:
    """Return the facts of every session."""
    found: dict[str, Facts] = {}
    for row in _sqlite.rows(database, "sessions", _COLUMNS):
        session = row["id"]
        if isinstance(session, str) and _SESSION.fullmatch(session):
            prompt = known.get(session, {}).get("prompt") or partial(_prompt, database, session, last=False)
            found[session] = _facts(row, prompt)
    return found


def _facts(row: Mapping[str, Any], prompt: str | Callable[[], str | None]) -> Facts:
    """Return what *row* says; *prompt* is the first one, or finds it, for one without a title."""
    names = [title(name) for key in ("name", "description") if isinstance(name := row.get(key), str)]
    heading = next((name for name in names if name and not _PLACEHOLDER.fullmatch(name)), "")
    if not heading:
        prompt = prompt if isinstance(prompt, str) else title(prompt() or "")
    config = row.get("model_config_json")
    model = records(config.encode("utf-8", "replace")) if isinstance(config, str) else []
    kind = row.get("session_type")
    return given(
        title=heading,
        prompt="" if heading else prompt,
        cwd=text(row.get("working_dir")),
        created=instant(row.get("created_at")),
        updated=instant(row.get("updated_at")),
        archived=row.get("archived_at") is not None and instant(row["archived_at"]) is not None,
        model=text(model[0].get("model_name")) if model else None,
        hidden="subagent" if text(row.get("parent_session_id")) else _TYPES.get(str(kind or ""), "sdk"),
    )


def _hidden(facts: Facts) -> str | None:
    if facts.get("hidden"):
        return str(facts["hidden"])
    if not facts.get("title") and not facts.get("prompt"):
        return "empty"
    return "not-resumable" if facts.get("old") else None


def _prompt(database: apsw.Connection, id: str, *, last: bool) -> str | None:
    """Return the first or the last prompt of a session in the database that is not hidden from its person."""
    with suppress(apsw.SQLError):
        there = _sqlite.columns(database, "messages", ("metadata_json",))
        query = _PROMPT.format(visible="" if there.startswith("NULL") else _VISIBLE, order="DESC" if last else "ASC")
        for (words,) in database.execute(query, (id,)):
            return text(_sqlite.decoded(words))
    return None


def _prompt_of_file(file: Transcript, *, last: bool) -> str | None:
    """Return the first prompt in the head of *file*, or the last in its tail."""
    lines: Iterable[dict[str, Any]] = file.tail().newest_first()
    if not last:
        lines = (record for line in file.head() for record in records(line.data))
    for record in lines:
        content = record.get("content") if record.get("role") == "user" else None
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == "text" and (words := text(block.get("text"))):
                return words[: _sqlite.TEXT]
    return None
