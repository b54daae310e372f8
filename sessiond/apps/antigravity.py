"""Antigravity CLI: a SQLite database for each conversation, and one with a summary of each."""

from __future__ import annotations

import os
import re
import urllib.parse
from typing import TYPE_CHECKING, Any

from sessiond.apps import _sqlite
from sessiond.apps._jsonl import Transcript, given, instant, text
from sessiond.apps._store import UUID, Place, Store, manifest, newest
from sessiond.session import Scan
from sessiond.text import storable, title

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import apsw

    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

STEP = 64 << 10
"""Bytes of a step that are looked at: the words come before what is attached."""
PROMPTS = 20
"""Steps of a person at either end that are looked at for one with words."""

_ID = re.compile(UUID)
_UNTITLED = "<conversation>"
_SUMMARY = (
    *("conversation_id", "title", "preview", "last_modified_time", "workspace_uris"),
    *("parent_conversation_id", "nesting_depth"),
)

# Numbers of the fields, in the descriptors that agy 1.2.0 and 1.2.15 carry.
_USER_INPUT = 14
_STEP_USER_INPUT = 19
_INPUT_WORDS = (2, 1)
"""``user_response``, and before there was that ``query``."""
_STEP_CREATED = 1
_WORKSPACE, _CREATED, _PARENT, _WORKSPACE_URI = 1, 2, 5, 7
_FOLDER, _BRANCH = 1, 4


class Antigravity(Store):
    """Antigravity CLI 1.0 to 1.2, as others read it: the program is closed and was not run."""

    name = "antigravity"
    label = "Antigravity CLI"
    verified = ""
    reads = ("conversations/ID.db", "conversation_summaries.db", "cache/last_conversations.json")
    program = "agy"
    folder_gone = (
        "Antigravity works in whatever folder it is started in.\n"
        "Make it again: mkdir -p FOLDER\n"
        "Or go on in another one: --dir DIR"
    )
    places: Mapping[str, Place] = {
        "conversation": Place(rf"conversations/(?P<id>{UUID})\.db", database=True),
        # Encrypted, of before 1.0.9: that there is one is all that is known.
        "sealed": Place(rf"conversations/(?P<id>{UUID})\.pb"),
        "summaries": Place(r"conversation_summaries\.db", database=True),
        "folders": Place(r"cache/last_conversations\.json"),
    }

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``~/.gemini/antigravity-cli``; no variable moves it."""
        return [os.path.join(env.get("HOME") or "/", ".gemini/antigravity-cli")]

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:  # noqa: ARG002 - all of it is read anew
        """Read *unit*, as `App.read` says."""
        known = previous.facts if previous else {}
        if unit.kind == "summaries":
            return Scan(_sqlite.read(unit.path, _summaries))
        if unit.kind == "folders":
            return _folders(unit.path, known)
        session = self.session_id(unit)
        if unit.kind == "sealed":
            with Transcript(unit.path):
                return Scan({session: {"sealed": True}})
        try:
            return Scan({session: _sqlite.read(unit.path, _conversation)})
        except _sqlite.UnreadableError as error:
            self.stat(unit)
            # It is there all the same, and what the summary says of it is shown.
            return Scan(known or {session: {"sealed": True}}, problem=error.strerror or "")

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a conversation: what its own database says, and over it the title of the summary."""
        own = [*newest(parts, "conversation"), *newest(parts, "sealed")]
        summary, folders = newest(parts, "summaries"), newest(parts, "folders")
        if not own and not summary:
            return None
        part = min(own or summary, key=lambda part: part.gone)
        said = [part.facts for part in (*own, *summary, *folders)]
        heading = _first("title", said) or _first("preview", said) or _first("prompt", said)
        cwd = _first("cwd", said)
        row = self.row(
            id,
            part,
            {},
            title=heading or "",
            cwd=cwd,
            branch=_first("branch", said),
            created=_first("created", said),
            updated=max(facts.get("updated", 0) for facts in said),
            hidden="subagent" if _first("agent", said) else None if heading or _first("sealed", said) else "empty",
        )
        if all(part.gone for part in own):
            row.hidden = "deleted"
        return row

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, each cut to 4,096 characters; None of an encrypted conversation."""
        if session.path.endswith(".pb"):
            return None, None
        return _sqlite.read(
            session.path,
            lambda database: (_prompt(database, last=False), _prompt(database, last=True)),
        )

    def present(self, session: Session) -> bool:
        """Return whether *session* has a file; without one 1.2.7 warns and begins a new conversation."""
        path = f"{session.root}/conversations/{session.id}"
        return os.path.lexists(path + ".db") or os.path.lexists(path + ".pb")

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``agy --conversation``; ``--resume`` is an error (1.2.6)."""
        return [self.program, "--conversation", session.id]


def _summaries(database: apsw.Connection) -> dict[str, Facts]:
    """Return what the list of the picker says of each conversation; it lags behind the conversations themselves."""
    found: dict[str, Facts] = {}
    for row in _sqlite.rows(database, "conversation_summaries", _SUMMARY):
        session, preview, depth = row["conversation_id"], row["preview"], row["nesting_depth"]
        if not isinstance(session, str) or not _ID.fullmatch(session):
            continue
        found[session] = given(
            title=title(row["title"]) if isinstance(row["title"], str) else None,
            preview=title(preview) if isinstance(preview, str) and preview != _UNTITLED else None,
            # The year 1 stands for none.
            updated=instant(row["last_modified_time"]),
            cwd=next(_paths(re.findall(r'"([^"\\]+)"', row["workspace_uris"] or "")), None)
            if isinstance(row["workspace_uris"], str)
            else None,
            agent=bool(text(row["parent_conversation_id"])) or (isinstance(depth, int) and depth > 0),
        )
    return found


def _folders(path: str, known: Mapping[str, Facts]) -> Scan:
    """Return the folder of each conversation that was the last one of its folder, also of those that once were.

    ``agy -p`` records no other (1.2.0).
    """
    record, read = manifest(path)
    found = {
        session: {"cwd": storable(folder)}
        for folder, session in (record or {}).items()
        if isinstance(session, str) and _ID.fullmatch(session) and folder.startswith("/")
    }
    return Scan({**known, **found}, read=read)


def _conversation(database: apsw.Connection) -> Facts:
    """Return what a conversation says of itself, in the messages of protobuf that its tables hold."""
    blob = f"SELECT CAST(substr(data, 1, {STEP}) AS BLOB) FROM trajectory_metadata_blob WHERE id = 'main'"
    about = [field for found in _blobs(database, blob) for field in _fields(found)]
    workspaces = [dict(_fields(value)) for number, value in about if number == _WORKSPACE]
    folders = [(_words(one.get(_FOLDER)), _words(one.get(_BRANCH))) for one in workspaces]
    folders += [(_words(value), "") for number, value in about if number == _WORKSPACE_URI]
    cwd, branch = next(((path, branch) for uri, branch in folders for path in _paths([uri])), (None, ""))
    step = f"SELECT CAST(substr(metadata, 1, {STEP}) AS BLOB) FROM steps ORDER BY idx DESC LIMIT 1"
    last = next(_blobs(database, step), b"")
    single, prompt = dict(about), _prompt(database, last=False)
    return given(
        prompt=title(prompt) if prompt else None,
        cwd=cwd,
        branch=text(storable(branch)),
        created=_time(single.get(_CREATED)),
        updated=_time(dict(_fields(last)).get(_STEP_CREATED)),
        agent=bool(single.get(_PARENT)),
    )


def _prompt(database: apsw.Connection, *, last: bool) -> str | None:
    """Return the first or the last prompt, as it was typed."""
    query = f"""
    SELECT CAST(substr(step_payload, 1, {STEP}) AS BLOB) FROM steps
    WHERE step_type = {_USER_INPUT} ORDER BY idx {"DESC" if last else "ASC"} LIMIT {PROMPTS}
    """
    for step in _blobs(database, query):
        said = next((dict(_fields(value)) for number, value in _fields(step) if number == _STEP_USER_INPUT), {})
        for number in _INPUT_WORDS:
            if words := text(_words(said.get(number))):
                return words[: _sqlite.TEXT]
    return None


def _blobs(database: apsw.Connection, query: str) -> Iterator[bytes]:
    """Yield what *query* finds, nothing where there is no such table."""
    table = query.split(" FROM ")[1].split()[0]
    if _sqlite.columns(database, table, ("rowid",)):
        yield from (value for (value,) in database.execute(query) if isinstance(value, bytes))


def _fields(message: object) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message of protobuf, number and value, as far as they can be read."""
    data = message if isinstance(message, bytes) else b""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        if not key:
            return
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
        elif wire == 2:
            length, position = _varint(data, position)
            yield number, data[position : position + length]
            position += length
        elif wire in (1, 5):
            position += 8 if wire == 1 else 4
        else:
            return


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number that begins at *position*, 0 when there is none, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            return 0, position
        value |= (data[position] & 127) << shift
        position += 1
        if data[position - 1] < 128:
            return value, position
    return 0, len(data)


def _time(message: object) -> int | None:
    """Return a timestamp of protobuf as ms since the epoch."""
    parts = dict(_fields(message))
    seconds, nanos = parts.get(1), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        return None
    return instant(seconds * 1000 + nanos // 1_000_000)


def _words(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _paths(uris: list[str]) -> Iterator[str]:
    """Yield the folders on this machine among *uris*."""
    for uri in uris:
        if uri.startswith("file:///"):
            yield storable(urllib.parse.unquote(uri.removeprefix("file://")))


def _first(key: str, facts: list[Facts]) -> Any:
    return next((found[key] for found in facts if found.get(key)), None)
