"""pi: a JSONL transcript for each session, opened by its path."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from sessiond.apps._jsonl import instant, text
from sessiond.apps._store import NAME, Place, newest
from sessiond.apps._transcripts import Movable, blocks
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessiond.apps._transcripts import Record
    from sessiond.session import Facts, Part, Session, Settings, Unit

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FILE = r"[0-9T-]{19,23}Z_[^\x2f\0]{1,200}\.jsonl"


class Pi(Movable):
    """pi 0.73 to 1.6. It has no permissions: every tool runs unasked."""

    name = "pi"
    label = "pi"
    verified = "1.6.0"
    reads = ("sessions/FOLDER/*.jsonl", "TIME_ID.jsonl")
    program = "pi"
    store_variable = "PI_CODING_AGENT_DIR"
    sessions_variable = "PI_CODING_AGENT_SESSION_DIR"
    variables = (sessions_variable,)
    usual = "~/.pi/agent"
    forks = True
    folder_gone = "pi asks then whether to go on in the folder in which it is started: --dir DIR"

    places: Mapping[str, Place] = {
        "transcript": Place(rf"sessions/{NAME}/{NAME}\.jsonl"),
        "flat": Place(_FILE),
    }

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        """Take the stores that *env* chooses, and nothing else, out of it."""
        super().__init__(env)
        self.latest = {
            "name": (b'"session_info"', _name),
            "model": (b'"provider"', _model),
            "updated": (b'"timestamp"', lambda record: instant(record.get("timestamp"))),
        }

    def present(self, session: Session) -> bool:
        """Return whether the file has something in it: of one that has not, or is not there, pi makes a new session."""
        return super().present(session) and os.path.getsize(session.path) > 0

    def opening(self, record: Record, facts: Facts) -> None:
        """Take in the header, which comes first; whatever has none is no session."""
        if "id" not in facts:
            found = record.get("id")
            header = record.get("type") == "session" and isinstance(found, str) and _ID.fullmatch(found)
            facts["id"] = found if header else ""
            facts["created"], facts["cwd"] = instant(record.get("timestamp")), text(record.get("cwd"))
        elif _message(record).get("role") == "user":
            facts["asked"] = True

    def texts(self, record: Record) -> list[str]:
        """Return the texts of a message with the role ``user``. From 1.0 on one with ``system`` comes before it."""
        message = _message(record)
        return blocks(message.get("content")) if message.get("role") == "user" else []

    def identity(self, unit: Unit, facts: Facts) -> str:  # noqa: ARG002 - a file may have any name
        """Return the id of the header."""
        return str(facts.get("id", ""))

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session, of copies of its file from the newest."""
        part = newest(parts, *self.places)[0]
        facts = part.facts
        heading = facts.get("name") or facts.get("prompt") or ""
        return self.row(
            id,
            part,
            facts,
            title=heading,
            hidden=None if heading or facts.get("asked") else "empty",
        )

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``pi --session`` or ``pi --fork`` with the path (1.6.0), which is found from every folder.

        An id of another project pi offers to fork. The first goes on in the recorded folder with the recorded
        model, the second in the folder in which it is started.
        """
        return [self.program, "--fork" if fork else "--session", session.path]


def _message(record: Record) -> dict[str, Any]:
    message = record.get("message")
    return message if record.get("type") == "message" and isinstance(message, dict) else {}


def _name(record: Record) -> str | None:
    """Return the name that a record gives, ``""`` for one that takes it away."""
    if record.get("type") != "session_info":
        return None
    name = record.get("name")
    return title(name) if isinstance(name, str) else ""


def _model(record: Record) -> str | None:
    """Return the model that was chosen, or that an answer came from, which is what pi goes on with."""
    if record.get("type") == "model_change":
        return text(record.get("modelId"))
    message = _message(record)
    return text(message.get("model")) if message.get("role") == "assistant" else None
