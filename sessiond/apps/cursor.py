"""Cursor CLI: a folder for each chat, under the hash of the folder it was started in."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import apsw

from sessiond.apps import _sqlite
from sessiond.apps._jsonl import Transcript, given, instant, mode, records, text
from sessiond.apps._store import MANIFEST, UUID, Place, Store, manifest
from sessiond.apps.base import Modes
from sessiond.session import Scan
from sessiond.text import storable, title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

ROOT = 64 << 10
"""Bytes of the blob at the root of a chat that are looked at for its folder."""
META = 64 << 10
"""Hexadecimal digits of a chat's record; it is reported to have some 500."""

_FOLDER = rf"chats/[0-9a-f]{{32}}/(?P<id>{UUID})"
_UNTITLED = "New Agent"
_EVERYTHING = "run-everything"
# Field 9 of the blob, its length and what follows.
_WORKSPACE = re.compile(rb"J([\x01-\x7f]|[\x80-\xff][\x01-\x1f])(?=file:///|/)")


class Cursor(Store):
    """Cursor CLI 2025.09 to 2026.10, as others read it: the program is closed and could not be had."""

    name = "cursor"
    label = "Cursor CLI"
    verified = ""
    reads = ("chats/*/ID/meta.json", "chats/*/ID/store.db", "chats/*/ID/prompt_history.json")
    program = "cursor-agent"
    store_variable = "CURSOR_DATA_DIR"
    variables = ("XDG_CONFIG_HOME",)
    carries = ("approval",)
    modes = (
        Modes(
            *("approval", "default"),
            strict=frozenset({"default", "plan", "ask", "search"}),
            loose=frozenset({_EVERYTHING, "auto-run", "background"}),
            restored="/auto-run off",
        ),
    )
    folder_gone = (
        "Cursor keeps its chats by folder, and begins a new one anywhere else.\n"
        "It goes on once that folder exists again, even empty: mkdir -p FOLDER"
    )
    places: Mapping[str, Place] = {
        "meta": Place(rf"{_FOLDER}/meta\.json"),
        "store": Place(rf"{_FOLDER}/store\.db", database=True),
    }

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``CURSOR_DATA_DIR``, else ``~/.cursor``; and but for macOS ``cursor`` in ``XDG_CONFIG_HOME``.

        One reader has seen chats in the last.
        """
        home = env.get("HOME") or "/"
        folders = [env.get("CURSOR_DATA_DIR") or os.path.join(home, ".cursor")]
        if sys.platform != "darwin":
            config = env.get("XDG_CONFIG_HOME", "")
            folders.append(os.path.join(config if os.path.isabs(config) else os.path.join(home, ".config"), "cursor"))
        return list(dict.fromkeys(map(os.path.normpath, folders)))

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:  # noqa: ARG002 - all of it is read anew
        """Read *unit*, as `App.read` says."""
        session, folder = self.session_id(unit), os.path.dirname(unit.path)
        known = previous.facts if previous else {}
        if unit.kind == "store":
            facts = _sqlite.read(unit.path, lambda database: _chat(database, _bucket(unit.path)))
            read = 0
        else:
            record, read = manifest(unit.path)
            if record is None:
                # Overwritten in place, it can be met half written.
                return Scan(known, problem="it is no session", read=read)
            facts = _meta(record)
        if not facts.get("title"):
            prompt = known.get(session, {}).get("prompt") or next(iter(_prompts(folder)), "")
            facts |= given(prompt=title(prompt))
        return Scan({session: facts}, read=read)

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a chat; of two folders that have it, from that which was used last."""
        folders: dict[str, list[Part]] = {}
        for part in parts:
            folders.setdefault(os.path.dirname(part.unit.path), []).append(part)
        chosen = max(folders.values(), key=lambda here: (not all(part.gone for part in here), _updated(here)))
        kinds = list(self.places)
        chosen.sort(key=lambda part: (part.gone, kinds.index(part.unit.kind)))
        said: Facts = {}
        for part in reversed(chosen):
            said |= part.facts
        cwd = said.get("cwd")
        return self.row(
            id,
            chosen[0],
            said,
            cwd=cwd,
            # Anywhere else the chat is not found, and a new one begins without a word.
            launch_dir=cwd if cwd and _hash(cwd) == _bucket(chosen[0].unit.path) else None,
            updated=_updated(chosen),
            hidden=_hidden(said),
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt of the history beside a chat, each cut to 4,096 characters."""
        found = _prompts(os.path.dirname(session.path))
        return (found[0][: _sqlite.TEXT], found[-1][: _sqlite.TEXT]) if found else (None, None)

    def present(self, session: Session) -> bool:
        """Return whether the chat has its database; for an id without one a new chat begins (reported)."""
        return os.path.lexists(os.path.join(os.path.dirname(session.path), "store.db"))

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``cursor-agent --resume``; from another *folder* with the one that the chat is found by."""
        argv = [self.program, "--resume", session.id]
        return [*argv, "--workspace", session.launch_dir] if folder and session.launch_dir else argv


def _meta(record: dict[str, Any]) -> Facts:
    """Return what a ``meta.json`` says, which there has been since June 2026."""
    heading = text(record.get("title")) or text(record.get("name")) or ""
    cwd = text(record.get("cwd"))
    return given(
        title="" if heading.strip() == _UNTITLED else title(heading),
        cwd=storable(cwd) if cwd and cwd.startswith("/") else None,
        created=instant(record.get("createdAtMs")),
        updated=instant(record.get("updatedAtMs")),
        agent=record.get("isSubagent") is True,
        empty=record.get("hasConversation") is False,
    )


def _chat(database: apsw.Connection, bucket: str) -> Facts:
    """Return what a chat's database says: a record of JSON as hexadecimal digits, and the blob that it points to."""
    record: dict[str, Any] = {}
    with suppress(apsw.SQLError):
        for (digits,) in database.execute(f"SELECT substr(value, 1, {META}) FROM meta WHERE key = '0'"):
            with suppress(ValueError, TypeError):
                record = next(iter(records(bytes.fromhex(digits))), {})
    heading, blob = text(record.get("name")) or "", text(record.get("latestRootBlobId"))
    return given(
        title="" if heading.strip() == _UNTITLED else title(heading),
        cwd=_workspace(database, blob, bucket) if blob and blob.isascii() else None,
        created=instant(record.get("createdAt")),
        model=text(record.get("lastUsedModel")),
        # A later name for what `mode` said in 2025.
        approval=_EVERYTHING if record.get("isRunEverything") else mode(record.get("mode")),
        agent=bool(record.get("subagentInfo")),
        used=bool(blob),
    )


def _workspace(database: apsw.Connection, blob: str, bucket: str) -> str | None:
    """Return the folder that the blob at the root of a chat names, if the chat lies under its hash."""
    with suppress(apsw.SQLError):
        for (data,) in database.execute(
            f"SELECT CAST(substr(data, 1, {ROOT}) AS BLOB) FROM blobs WHERE id = ?", (blob,)
        ):
            for match in _WORKSPACE.finditer(data or b""):
                low, *high = match[1]
                length = (low & 127) + (high[0] << 7 if high else 0)
                path = data[match.end() : match.end() + length].decode("utf-8", "replace").removeprefix("file://")
                if _hash(path) == bucket:
                    return storable(path)
    return None


def _prompts(folder: str) -> list[str]:
    """Return what was typed in the chat in *folder*, without commands; none where that is not kept or is not read."""
    with suppress(OSError, ValueError, RecursionError), Transcript(os.path.join(folder, "prompt_history.json")) as file:
        found = json.loads(file.bytes_at(0, MANIFEST))
        if isinstance(found, list):
            return [words for words in map(text, found) if words and not words.startswith("/")]
    return []


def _bucket(path: str) -> str:
    """Return the hash under which the chat with a file at *path* lies."""
    return path.split("/")[-3]


def _hash(folder: str) -> str:
    import hashlib

    return hashlib.md5(folder.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _updated(parts: list[Part]) -> int:
    """Return when a chat was used last: where no file says so, when one was written."""
    said = max(part.facts.get("updated", 0) for part in parts)
    return int(said or max(part.stat.mtime for part in parts))


def _hidden(said: Facts) -> str | None:
    if said.get("agent"):
        return "subagent"
    # A chat without a database, or with one that points to nothing, has no messages.
    return "empty" if said.get("empty") or not said.get("used") else None
