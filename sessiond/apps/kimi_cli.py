"""Kimi CLI: a folder for each session, under the hash of the folder it was started in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sessiond.apps._jsonl import Transcript, given, instant, text
from sessiond.apps._store import Place, manifest, newest
from sessiond.apps._transcripts import Transcripts, blocks
from sessiond.apps.base import Modes
from sessiond.session import Scan
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessiond.apps._transcripts import Record
    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

_BUCKET = "sessions/[0-9a-f]{32}"
# A person may choose one: ``--session NAME`` begins a session of that name.
_ID = "(?P<id>[A-Za-z0-9][A-Za-z0-9_-]{0,94})"
_CHECKPOINT = "<system>CHECKPOINT "


class KimiCLI(Transcripts):
    """Kimi CLI, in Python, up to 1.49. It begins a new session, under the same id, wherever it does not find one."""

    name = "kimi-cli"
    label = "Kimi CLI"
    verified = "1.49.0"
    reads = (
        *("kimi.json", "sessions/*/ID/state.json", "sessions/*/ID/wire.jsonl", "sessions/*/ID/context.jsonl"),
        "sessions/*/ID.jsonl",
    )
    # Not `kimi`, which Kimi Code installs too.
    program = "kimi-cli"
    store_variable = "KIMI_SHARE_DIR"
    carries = ("approval",)
    modes = (
        Modes(
            "approval",
            "ask",
            strict=frozenset({"ask"}),
            loose=frozenset({"yolo", "afk", "some-unasked"}),
            restored="/yolo, /afk",
        ),
    )
    folder_gone = (
        "Kimi CLI finds a session by that folder only.\n"
        "It goes on once that folder exists again, even empty: mkdir -p FOLDER"
    )
    places: Mapping[str, Place] = {
        "wire": Place(rf"{_BUCKET}/{_ID}/wire\.jsonl"),
        "context": Place(rf"{_BUCKET}/{_ID}/context\.jsonl"),
        "flat": Place(rf"{_BUCKET}/{_ID}\.jsonl"),
        "state": Place(rf"{_BUCKET}/{_ID}/state\.json"),
    }
    user = b'"user'
    latest = {"updated": (b'"timestamp"', lambda record: instant(record.get("timestamp")))}  # noqa: RUF012

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``KIMI_SHARE_DIR``, else ``~/.kimi``, on macOS too."""
        return [os.path.normpath(env.get("KIMI_SHARE_DIR") or os.path.join(env.get("HOME") or "/", ".kimi"))]

    def session_id(self, unit: Unit) -> str:
        """Return the id, and the hash of the folder: sessions of several folders can have one id (1.49.0)."""
        return f"{super().session_id(unit)}_{_bucket(unit.root, unit.path)}"

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        if unit.kind == "wire":
            return super().read(unit, stat, previous)
        session, known = self.session_id(unit), previous.facts if previous else {}
        if unit.kind == "state":
            record, read = manifest(unit.path)
            if record is None:
                # Overwritten in place, it can be met half written.
                return Scan(known, problem="it is no session", read=read)
            return Scan({session: _state(record)}, read=read)
        facts: Facts = {}
        with Transcript(unit.path) as file:
            self._begin(self._head(file), facts)
            cwd = _started_in(unit.root, unit.path) or known.get(session, {}).get("cwd")
            return Scan({session: facts | given(cwd=cwd)}, read=file.read)

    def opening(self, record: Record, facts: Facts) -> None:
        """Take in when the conversation began."""
        if "created" not in facts and (time := instant(record.get("timestamp"))):
            facts["created"] = time

    def texts(self, record: Record) -> list[str]:
        """Return the texts of a prompt, as the transcript and what is sent to the model have them."""
        message = record.get("message")
        if isinstance(message, dict) and message.get("type") == "TurnBegin":
            payload = message.get("payload")
            return blocks(payload.get("user_input")) if isinstance(payload, dict) else []
        return blocks(record.get("content")) if record.get("role") == "user" else []

    def typed(self, text: str) -> str:
        """Return *text*, unless it is a mark for the model."""
        return "" if text.startswith(_CHECKPOINT) else text.strip()

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session in one folder."""
        kinds = list(self.places)
        parts = sorted(newest(parts, *kinds), key=lambda part: (part.gone, kinds.index(part.unit.kind)))
        said: Facts = {}
        for part in reversed(parts):
            said |= part.facts
        heading = said.get("title") or said.get("prompt") or ""
        return self.row(
            id,
            parts[0],
            said,
            # So Kimi CLI takes it where there is no manifest, or one that it cannot read (source of 1.49.0).
            approval=said.get("approval", "ask"),
            hidden=None if heading else "empty",
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt that head and tail of the transcript hold."""
        return super().prompts(session) if session.path.endswith(".jsonl") else (None, None)

    def present(self, session: Session) -> bool:
        """Return whether Kimi CLI finds *session* by the folder it was started in; else it would begin another."""
        beside = os.path.join(os.path.dirname(session.path), "context.jsonl")
        flat = session.path if os.path.basename(session.path) == f"{_own(session.id)}.jsonl" else beside
        return os.path.isfile(flat) and _started_in(session.root, session.path) == session.launch_dir

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``kimi-cli --session``, with the folder as it was recorded: by another way there it finds nothing.

        It brings a permission back, and no option makes that stricter (source of 1.49.0).
        """
        where = ["--work-dir", session.launch_dir] if session.launch_dir else []
        return [self.program, *where, "--session", _own(session.id)]


def _own(id: str) -> str:
    """Return the id that Kimi CLI knows."""
    return id.rpartition("_")[0]


def _bucket(root: str, path: str) -> str:
    """Return the hash under which *path* lies in the store at *root*."""
    return path[len(root) :].split("/")[2]


def _started_in(root: str, path: str) -> str | None:
    """Return the folder whose hash *path* lies under, from the list of those that Kimi CLI was started in."""
    try:
        record, _ = manifest(f"{root}/kimi.json")
    except OSError:
        return None
    folders = (record or {}).get("work_dirs")
    for folder in folders if isinstance(folders, list) else []:
        if isinstance(folder, dict) and (name := text(folder.get("path"))) and _hash(name) == _bucket(root, path):
            return name if name.startswith("/") else None
    return None


def _hash(folder: str) -> str | None:
    import hashlib

    try:
        return hashlib.md5(folder.encode("utf-8"), usedforsecurity=False).hexdigest()
    except UnicodeEncodeError:
        return None


def _state(record: dict[str, Any]) -> Facts:
    """Return what a manifest says."""
    heading = text(record.get("custom_title")) or ""
    return given(
        title="" if heading.strip() == "Untitled" else title(heading),
        approval=_approval(record.get("approval", {})),
        archived=record.get("archived") is True,
    )


def _approval(recorded: object) -> str:
    """Return what is done unasked: all with ``yolo`` or ``afk``, or the kinds of action that were allowed for good."""
    if not isinstance(recorded, dict):
        return "unknown"
    for name in ("afk", "yolo"):
        # Kimi CLI takes "yes" and 1 for true as well.
        if recorded.get(name, False) is not False:
            return name
    return "some-unasked" if recorded.get("auto_approve_actions") else "ask"
