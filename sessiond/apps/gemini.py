"""Gemini CLI: a JSONL transcript for each session, below a folder for each project; before 0.40 a JSON file."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sessiond.apps import _gemini_json
from sessiond.apps._gemini_json import SESSION, header, model, summary, texts, typed, updated
from sessiond.apps._jsonl import Transcript
from sessiond.apps._store import NAME, Place, manifest
from sessiond.apps._transcripts import InHome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessiond.apps._transcripts import Record
    from sessiond.session import Facts, Part, Previous, Scan, Session, Settings, Stat, Unit

PATH = 4096
"""Bytes of the file that names a project's folder."""


class Gemini(InHome):
    """Gemini CLI 0.61, and the files of releases before 0.40 as others read them."""

    name = "gemini"
    label = "Gemini CLI"
    verified = "0.61.0"
    reads = (
        *("tmp/PROJECT/chats/session-*.jsonl", "tmp/PROJECT/chats/PARENT/*.jsonl", "tmp/PROJECT/chats/session-*.json"),
        *("tmp/PROJECT/.project_root", "projects.json"),
    )
    program = "gemini"
    store_variable = "GEMINI_CLI_HOME"
    folder = ".gemini"
    folder_gone = (
        "Gemini CLI finds a session only from the folder that it belongs to.\n"
        "It goes on once that folder exists again, even empty: mkdir -p FOLDER"
    )
    places: Mapping[str, Place] = {
        "transcript": Place(rf"tmp/{NAME}/chats/{SESSION}\.jsonl"),
        "agent": Place(rf"tmp/{NAME}/chats/{NAME}/{NAME}\.jsonl"),
        "json": Place(rf"tmp/{NAME}/chats/{SESSION}\.json"),
    }

    def __init__(self) -> None:
        """Know what of a transcript counts last."""
        self.latest = {
            "name": (b'"summary"', summary),
            "model": (b'"gemini"', model),
            "updated": (b'"lastUpdated"', updated),
        }

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        scan = _gemini_json.read(unit, previous) if unit.kind == "json" else super().read(unit, stat, previous)
        for facts in scan.facts.values():
            if "cwd" not in facts and (folder := _folder(unit, facts.get("hash"))):
                facts["cwd"] = folder
        return scan

    def opening(self, record: Record, facts: Facts) -> None:
        """Take in the first line."""
        if "id" not in facts:
            facts |= header(record)

    def texts(self, record: Record) -> list[str]:
        """Return the texts of a message of a person's."""
        return texts(record)

    def typed(self, text: str) -> str:
        """Return *text*, unless a person did not type it."""
        return typed(text)

    def identity(self, unit: Unit, facts: Facts) -> str:  # noqa: ARG002 - the name has a part of it
        """Return the id of the first line."""
        return str(facts.get("id", ""))

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session, from the file that Gemini CLI goes on in.

        Each resume leaves a second file without a prompt, and each release that moved the store a copy.
        """
        part = max(parts, key=_preference)
        facts = part.facts
        cwd = next((other.facts["cwd"] for other in [part, *parts] if "cwd" in other.facts), None)
        heading = facts.get("name") or facts.get("prompt") or ""
        used = heading or facts.get("model")
        return self.row(
            id,
            part,
            facts,
            title=heading,
            cwd=cwd,
            hidden="subagent" if facts.get("agent") else None if used else "empty",
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, each cut to 4,096 characters; of a large JSON file only the first."""
        return _gemini_json.prompts(session.path) if session.path.endswith(".json") else super().prompts(session)

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``gemini --resume``, which finds the session only from its project's folder (0.61.0).

        The recorded model is the one that its router chose for a turn, so the choice is left to it.
        """
        return [self.program, "--resume", session.id]


def _preference(part: Part) -> tuple[bool, bool, int, bool, bool, int]:
    facts = part.facts
    used = bool(facts.get("prompt") or facts.get("model"))
    return not part.gone, used, facts.get("updated", 0), "cwd" in facts, part.unit.kind != "json", part.stat.mtime_ns


def _folder(unit: Unit, digest: object) -> str | None:
    """Return the folder of the project that *unit* belongs to, as Gemini CLI notes it in one of two places."""
    parts = len(unit.root.split("/")) + 2
    project = "/".join(unit.path.split("/")[:parts])
    with suppress(OSError), Transcript(f"{project}/.project_root") as file:
        path = os.fsdecode(file.bytes_at(0, PATH)).strip()
        if os.path.isabs(path) and file.size < PATH:
            return path
    with suppress(OSError):
        record, _ = manifest(f"{unit.root}/projects.json")
        projects = record.get("projects") if record else None
        for path, name in projects.items() if isinstance(projects, dict) else ():
            # A folder of before 0.40 is named after this digest.
            if name == os.path.basename(project) or _digest(path) in (os.path.basename(project), digest):
                return str(path)
    return None


def _digest(path: str) -> str:
    import hashlib

    return hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()
