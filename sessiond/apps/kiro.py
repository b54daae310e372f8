"""Kiro CLI: a file for each session, in one of two layouts, and before them a SQLite database."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import apsw

from sessiond.apps import _process, _sqlite
from sessiond.apps._jsonl import LOOK_BACK, Transcript, cut_strings, given, instant, records, text
from sessiond.apps._store import MANIFEST, Place, Store, manifest, xdg_data
from sessiond.apps.base import Live, Modes
from sessiond.session import Scan
from sessiond.text import storable, title

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

HEAD = 64 << 10
"""Bytes of a file too large to be parsed in which the keys are looked for, and of a conversation its first prompt."""

_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
_SESSION = re.compile(_ID)
_KEYS = ("cwd", "title", "created_at", "updated_at", "parent_session_id")
_PROMPT = b'"Prompt":{"prompt":'
# Each reads an index and no row: a row holds a whole conversation, and the times come behind it.
_CONVERSATIONS = """
SELECT rowid, CAST(substr(key, 1, 4096) AS BLOB), CAST(substr(conversation_id, 1, 200) AS BLOB) FROM conversations_v2
"""
_TIMES = "SELECT rowid, updated_at FROM conversations_v2"
DEFAULT = "default"
"""What is shown of one that says it lets nothing pass."""
TRUSTED = "trusted"
"""What is shown of a session in which the person let tools, commands or folders pass for good."""


class Kiro(Store):
    """Kiro CLI 1 and 2 with the stores of its three engines, as others read them: it is closed and was not run."""

    name = "kiro"
    label = "Kiro CLI"
    verified = ""
    reads = (
        *("sessions/cli/ID.json", "sessions/cli/ID.jsonl", "sessions/cli/ID.lock"),
        *("sessions/*/ID/session.json", "sessions/*/ID/messages.jsonl", "data.sqlite3"),
    )
    program = "kiro-cli"
    store_variable = "KIRO_HOME"
    variables = ("XDG_DATA_HOME",)
    carries = ("approval",)
    modes = (
        Modes(
            *("approval", DEFAULT),
            strict=frozenset({DEFAULT}),
            loose=frozenset({TRUSTED}),
            restored="/tools reset",
        ),
    )
    folder_gone = (
        "Kiro finds a session of its third engine from that folder only. It can be made again: mkdir -p FOLDER\n"
        "The others go on in whatever folder it is started in: --dir DIR"
    )
    places: Mapping[str, Place] = {
        "session": Place(rf"sessions/cli/(?P<id>{_ID})\.json"),
        "workspace": Place(rf"sessions/(?:[0-9a-f]{{16}}|_global)/(?P<id>{_ID})/session\.json"),
        "database": Place(r"data\.sqlite3", database=True),
    }

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``KIRO_HOME``, ``~/.kiro``, and the folder of the database.

        2.16.2 wrote sessions of the third engine to ``~/.kiro`` whatever ``KIRO_HOME`` was.
        """
        home = env.get("HOME") or "/"
        if sys.platform == "darwin":
            data = os.path.join(home, "Library/Application Support")
        else:
            data = xdg_data(env)
        folders = (env.get("KIRO_HOME", ""), os.path.join(home, ".kiro"), os.path.join(data, "kiro-cli"))
        return list(dict.fromkeys(os.path.normpath(folder) for folder in folders if os.path.isabs(folder)))

    def environment(self, root: str) -> dict[str, str]:
        """Return what tells the program of *root*, be it the folder of files or that of the database."""
        folder, name = os.path.split(root)
        return {"XDG_DATA_HOME": folder} if name == "kiro-cli" else {"KIRO_HOME": root}

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        known = previous.facts if previous else {}
        if unit.kind == "database":
            return Scan(_sqlite.read(unit.path, lambda database: _conversations(database, known)))
        session = self.session_id(unit)
        record, read = manifest(unit.path)
        cut = record is None and unit.kind == "session" and stat.size > MANIFEST
        if cut:
            record, more = _cut(unit.path)
            read += more
        if record is None:
            # Overwritten in place, it can be met half written.
            return Scan(known, problem="it is no session", read=read)
        facts = _of_session(record, cut=cut) if unit.kind == "session" else _of_workspace(record)
        if not facts.get("title"):
            facts |= given(prompt=title(_prompts(_log(unit.path), last=False) or ""))
        return Scan({session: facts}, read=read)

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session: of several copies that of the one used last."""
        part = min(parts, key=lambda part: (part.gone, -part.facts.get("updated", 0)))
        facts = part.facts
        heading = facts.get("title") or facts.get("prompt") or ""
        return self.row(
            id,
            part,
            facts,
            hidden="subagent" if facts.get("agent") else None if heading else "empty",
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, each cut to 4,096 characters."""
        if session.path.endswith(".json"):
            log = _log(session.path)
            return _prompts(log, last=False), _prompts(log, last=True)
        return _sqlite.read(session.path, lambda database: _prompts_of(database, session.id))

    def live(self, session: Session) -> Live | None:
        """Return the process that the lock names, if it runs: a crash leaves the lock behind."""
        with suppress(OSError):
            record, _ = manifest(session.path.removesuffix(".json") + ".lock")
            pid = str((record or {}).get("pid"))
            if pid.isdecimal() and _process.runs(pid):
                return Live("idle", f"{_process.place(pid)}, as its lock says", certain=False)
        return None

    def present(self, session: Session) -> bool:
        """Return whether *session* is there; of an id that it does not find, 2.21.1 may begin a new session."""
        if session.path.endswith(".json"):
            return super().present(session)
        return _sqlite.has(session.path, session.id, "conversations_v2", key="conversation_id")

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``kiro-cli`` with the engine that wrote *session*: none of the three finds another's sessions.

        What the person let pass may come back, and whether ``--trust-tools=`` would prevent it is not known.
        """
        if session.path.endswith("/session.json"):
            return [self.program, "--v3", "--resume-id", session.id]
        engine = [] if session.path.endswith(".json") else ["--classic"]
        return [self.program, "chat", *engine, "--resume-id", session.id]


def _of_session(record: Mapping[str, Any], *, cut: bool) -> Facts:
    """Return what a file of the second engine says; *cut* when only the beginning of it could be read."""
    state = _part(record, "session_state")
    allowed = _part(state, "permissions")
    passed = [allowed.get("trusted_tools"), allowed.get("allowed_commands")]
    passed.append(_part(allowed, "filesystem").get("allowed_write_paths"))
    return given(
        title=title(record["title"]) if isinstance(record.get("title"), str) else None,
        cwd=text(record.get("cwd")),
        created=instant(record.get("created_at")),
        updated=instant(record.get("updated_at")),
        model=text(_part(_part(state, "rts_model_state"), "model_info").get("model_id")),
        agent=bool(record.get("parent_session_id")),
        approval="unknown" if cut else TRUSTED if any(passed) else DEFAULT if allowed else None,
    )


def _of_workspace(record: Mapping[str, Any]) -> Facts:
    """Return what a file of the third engine says. The name of its folder is a hash of the workspace."""
    paths = record.get("workspacePaths")
    return given(
        title=title(record["title"]) if isinstance(record.get("title"), str) else None,
        cwd=text(paths[0]) if isinstance(paths, list) and paths else None,
        created=instant(record.get("createdAt")),
        updated=instant(record.get("lastModifiedAt")),
        model=text(record.get("modelId")),
        agent=bool(record.get("parentSessionId")),
    )


def _cut(path: str) -> tuple[dict[str, Any] | None, int]:
    """Return the first keys of a file that holds its last request, and the bytes read; None without any."""
    with Transcript(path) as file:
        head = file.bytes_at(0, HEAD).partition(b'"session_state"')[0]
        found = {key: next(cut_strings(head, key), None) for key in _KEYS}
        return (found if any(found.values()) else None), file.read


def _part(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _log(path: str) -> str:
    """Return the path of what was said in the session at *path*."""
    folder, name = os.path.split(path)
    return os.path.join(folder, "messages.jsonl") if name == "session.json" else path + "l"


def _prompts(path: str, *, last: bool) -> str | None:
    """Return the first prompt in the head of a log, or the last in its tail; None when there is no log."""
    try:
        with Transcript(path) as file:
            lines: Iterable[dict[str, Any]] = file.tail().newest_first()
            if not last:
                lines = (record for line in file.head() for record in records(line.data))
            return next((words[: _sqlite.TEXT] for record in lines for words in _words(record)), None)
    except FileNotFoundError:
        return None


def _words(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a person said in a line of a log. The third engine has the first prompt in ``session_start``."""
    if record.get("kind") == "Prompt":
        content = _part(record, "data").get("content")
        for block in content if isinstance(content, list) else []:
            if isinstance(block, dict) and block.get("kind") == "text" and (words := text(block.get("data"))):
                yield words
    elif (said := _part(record, "payload")).get("type") in ("session_start", "user") and (
        words := text(said.get("content"))
    ):
        yield words


def _conversations(database: apsw.Connection, known: Mapping[str, Facts]) -> dict[str, Facts]:
    """Return the facts of every conversation of the first engine."""
    found: dict[str, Facts] = {}
    with suppress(apsw.SQLError):
        times = dict(database.execute(_TIMES))
        for row, folder, name in database.execute(_CONVERSATIONS).fetchall():
            session, updated = _sqlite.decoded(name), instant(times.get(row)) or 0
            if not isinstance(session, str) or not _SESSION.fullmatch(session) or not isinstance(row, int):
                continue
            if updated < found.get(session, {}).get("updated", 0):
                continue
            prompt = known.get(session, {}).get("prompt")
            prompt = prompt or title(_prompt(_head(database, row, HEAD), last=False) or "")
            cwd = storable(_sqlite.decoded(folder) or "")
            found[session] = given(prompt=prompt, cwd=text(cwd), updated=updated)
    return found


def _prompts_of(database: apsw.Connection, id: str) -> tuple[str | None, str | None]:
    query = "SELECT rowid FROM conversations_v2 WHERE conversation_id = ? ORDER BY updated_at DESC"
    for (row,) in database.execute(query, (id,)):
        data = _head(database, int(row or 0), LOOK_BACK)
        return _prompt(data, last=False), _prompt(data, last=True)
    return None, None


def _head(database: apsw.Connection, row: int, length: int) -> bytes:
    """Return the first bytes of a conversation; of what comes behind no page is read."""
    with suppress(apsw.SQLError), database.blob_open("main", "conversations_v2", "value", row, writeable=False) as blob:
        return blob.read(length)
    return b""


def _prompt(data: bytes, *, last: bool) -> str | None:
    position = data.rfind(_PROMPT) if last else data.find(_PROMPT)
    if position < 0:
        return None
    words = next(cut_strings(data[position : position + HEAD], "prompt"), None)
    return words[: _sqlite.TEXT] if words and text(words) else None
