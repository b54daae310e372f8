"""Qwen Code: a JSONL transcript for each session, below a folder for each project; its first releases as Gemini CLI."""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sessiond.apps import _gemini_json
from sessiond.apps._gemini_json import SESSION
from sessiond.apps._jsonl import instant, text
from sessiond.apps._process import place, runs
from sessiond.apps._store import NAME, Place, manifest
from sessiond.apps._transcripts import Movable, blocks
from sessiond.apps.base import Live
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessiond.apps._transcripts import Record
    from sessiond.session import Facts, Part, Previous, Scan, Session, Settings, Stat, Unit

_ID = "(?P<id>[0-9a-fA-F-]{32,36})"
_CONTEXT = re.compile(r"<qwen:user-prompt-submit-context>.*?</qwen:user-prompt-submit-context>", re.DOTALL)
_WORKTREES = "/.qwen/worktrees/"


class Qwen(Movable):
    """Qwen Code 0.24, and the files of its first releases as others read them."""

    name = "qwen"
    label = "Qwen Code"
    verified = "0.24.4"
    reads = (
        *("projects/PROJECT/chats/ID.jsonl", "projects/PROJECT/chats/archive/ID.jsonl"),
        *("projects/PROJECT/chats/ID.runtime.json", "tmp/PROJECT/chats/session-*.json"),
    )
    program = "qwen"
    store_variable = "QWEN_HOME"
    sessions_variable = "QWEN_RUNTIME_DIR"
    variables = (sessions_variable,)
    usual = "~/.qwen"
    carries = ("model",)
    forks = True
    archived = "Qwen Code finds it again once it is no longer archived"
    folder_gone = (
        "Qwen Code finds a session only from the folder that it belongs to.\n"
        "It goes on once that folder exists again, even empty: mkdir -p FOLDER"
    )
    places: Mapping[str, Place] = {
        "transcript": Place(rf"projects/{NAME}/chats/{_ID}\.jsonl"),
        "archived": Place(rf"projects/{NAME}/chats/archive/{_ID}\.jsonl"),
        "json": Place(rf"tmp/{NAME}/chats/{SESSION}\.json"),
    }

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        """Take the stores that *env* chooses, and nothing else, out of it."""
        super().__init__(env)
        self.latest = {
            "name": (b'"custom_title"', _name),
            "model": (b'"assistant"', _model),
            "cwd": (b'"cwd"', lambda record: text(record.get("cwd"))),
            "branch": (b'"cwd"', _branch),
            "updated": (b'"timestamp"', lambda record: instant(record.get("timestamp"))),
        }

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        return _gemini_json.read(unit, previous) if unit.kind == "json" else super().read(unit, stat, previous)

    def opening(self, record: Record, facts: Facts) -> None:
        """Take in who the session belongs to, and where and when it began."""
        if "id" not in facts and "sessionId" in record:
            facts["id"] = record["sessionId"]
            facts["created"] = instant(record.get("timestamp"))
            facts["launch_dir"] = _project(text(record.get("cwd")))
        if record.get("subtype") == "parent_session":
            facts["agent"] = True

    def texts(self, record: Record) -> list[str]:
        """Return the texts of a person's message: as it was shown, else as it was sent.

        Notices of tasks and schedules are of the same type, with a ``subtype`` (0.24.4).
        """
        if record.get("type") != "user" or "subtype" in record:
            return []
        shown = _payload(record).get("displayText")
        message = record.get("message")
        return (
            blocks(shown) if shown is not None else blocks(message.get("parts") if isinstance(message, dict) else None)
        )

    def typed(self, text: str) -> str:
        """Return *text* without what a hook added to it."""
        return _CONTEXT.sub("", text).strip()

    def identity(self, unit: Unit, facts: Facts) -> str:
        """Return the id of the file's name, if the first record agrees: else Qwen Code does not take it for one."""
        session = self.session_id(unit)
        return session if str(facts.get("id")).lower() == session.lower() else ""

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session, from its transcript before that in the archive, before a file of old."""
        kinds = list(self.places)
        part = min(parts, key=lambda part: (part.gone, kinds.index(part.unit.kind), -part.stat.mtime_ns))
        facts = part.facts
        heading = facts.get("name") or facts.get("prompt") or ""
        return self.row(
            id,
            part,
            facts,
            title=heading,
            launch_dir=facts.get("launch_dir"),
            branch=facts.get("branch") or None,
            archived=part.unit.kind == "archived",
            hidden=_hidden(part, used=bool(heading or facts.get("model"))),
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, each cut to 4,096 characters; of a large JSON file only the first."""
        return _gemini_json.prompts(session.path) if session.path.endswith(".json") else super().prompts(session)

    def live(self, session: Session) -> Live | None:
        """Return the process that opened *session* last, if one of its number runs on this host.

        The note of it stays when the process ends (0.24.4).
        """
        with suppress(OSError):
            note, _ = manifest(session.path.removesuffix(".jsonl") + ".runtime.json")
            pid = str(note.get("pid")) if note and note.get("session_id") == session.id else ""
            if note and pid.isdecimal() and note.get("hostname") == socket.gethostname() and runs(pid):
                return Live("", f"{place(pid)}: the note of it outlives it", certain=False)
        return None

    def present(self, session: Session) -> bool:
        """Return whether *session* is there to be resumed, which it is not in the archive."""
        return super().present(session) and not session.archived

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``qwen --resume``, which finds the session only from its project's folder (0.24.4).

        It would go on with the model of its settings.
        """
        model = ["--model", settings.model] if settings.model else []
        return [self.program, *model, "--resume", session.id, *(["--fork-session"] if fork else [])]


def _hidden(part: Part, *, used: bool) -> str | None:
    if part.facts.get("agent"):
        return "subagent"
    if not used:
        return "empty"
    return "not-resumable" if part.unit.kind == "json" else None


def _project(folder: str | None) -> str | None:
    """Return the folder of the project: of a worktree that Qwen Code made, the one that it is kept in (0.24.4)."""
    index = folder.rfind(_WORKTREES) if folder else -1
    return folder[:index] if folder and index > 0 else folder


def _payload(record: Record) -> dict[str, Any]:
    payload = record.get("systemPayload")
    return payload if isinstance(payload, dict) else {}


def _name(record: Record) -> str | None:
    found = _payload(record).get("customTitle") if record.get("subtype") == "custom_title" else None
    return title(found) or None if isinstance(found, str) else None


def _model(record: Record) -> str | None:
    return text(record.get("model")) if record.get("type") == "assistant" else None


def _branch(record: Record) -> str | None:
    """Return the branch at a record that tells its folder, ``""`` when it was on none."""
    if not text(record.get("cwd")):
        return None
    branch = text(record.get("gitBranch")) or ""
    return branch if branch != "HEAD" else ""
