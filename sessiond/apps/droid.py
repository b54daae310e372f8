"""Factory Droid: a JSONL transcript for each session, and beside it a file of the session's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessiond.apps._jsonl import given, instant, mode, text
from sessiond.apps._prompts import typed
from sessiond.apps._store import NAME, UUID, Place, manifest, newest
from sessiond.apps._transcripts import InHome, blocks
from sessiond.apps.base import Modes
from sessiond.session import Scan
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessiond.apps._transcripts import Record
    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

_PLACEHOLDERS = ("New Session", "Generating title…")
# What `--auto` can tell.
_LEVELS = {"auto-low": "low", "auto-medium": "medium", "auto-high": "high"}


class Droid(InHome):
    """Factory Droid 0.215."""

    name = "droid"
    label = "Factory Droid"
    verified = "0.215.0"
    reads = (
        "sessions/FOLDER/ID.jsonl",
        "sessions/FOLDER/ID.settings.json",
        "sessions/ID.jsonl",
        "sessions/ID.settings.json",
    )
    program = "droid"
    store_variable = "FACTORY_HOME_OVERRIDE"
    folder = ".factory"
    carries = ("approval",)
    # A session keeps its level (0.215.0). A new one has less than low, for which there is no option.
    modes = (
        Modes(
            "approval",
            default="auto-low",
            strict=frozenset({"normal", "spec", "auto-low"}),
            loose=frozenset({"auto-medium", "auto-high"}),
        ),
    )
    forks = True
    folder_gone = "Make it again: mkdir -p FOLDER\nOr start Droid in another one: --dir DIR"
    places: Mapping[str, Place] = {
        "transcript": Place(rf"sessions/{NAME}/(?P<id>{UUID})\.jsonl"),
        "settings": Place(rf"sessions/{NAME}/(?P<id>{UUID})\.settings\.json"),
        "flat": Place(rf"sessions/(?P<id>{UUID})\.jsonl"),
        "flat-settings": Place(rf"sessions/(?P<id>{UUID})\.settings\.json"),
    }

    def __init__(self) -> None:
        """Know what of a transcript counts last."""
        self.latest = {
            "model": (b'"modelId"', _model),
            "updated": (b'"timestamp"', lambda record: instant(record.get("timestamp"))),
        }

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        if not unit.kind.endswith("settings"):
            return super().read(unit, stat, previous)
        record, read = manifest(unit.path)
        if record is None:
            # Overwritten in place, it can be met half written.
            return Scan(previous.facts if previous else {}, problem="it is no settings", read=read)
        tags = record.get("tags")
        facts = given(
            approval=mode(record.get("autonomyMode")) or _mode(record.get("autonomyLevel")),
            model=text(record.get("model")),
            archived=bool(text(record.get("archivedAt"))),
            tags=[name for tag in tags if isinstance(tag, dict) and (name := text(tag.get("name")))][:20]
            if isinstance(tags, list)
            else None,
        )
        return Scan({self.session_id(unit): facts}, read=read)

    def opening(self, record: Record, facts: Facts) -> None:
        """Take in the first line, and when the conversation began."""
        if "start" not in facts:
            facts["start"] = record.get("type") == "session_start"
            heading = record.get("sessionTitle") or record.get("title")
            heading = title(heading) if isinstance(heading, str) else ""
            facts["title"] = heading if heading not in _PLACEHOLDERS else ""
            facts["named"] = record.get("isSessionTitleManuallySet") is True
            facts["cwd"] = text(record.get("lastCwd")) or text(record.get("cwd"))
            facts["agent"] = bool(record.get("callingSessionId"))
        if "created" not in facts and (time := instant(record.get("timestamp"))):
            facts["created"] = time

    def texts(self, record: Record) -> list[str]:
        """Return the texts of a message with the role ``user``."""
        message = _message(record)
        return blocks(message.get("content")) if message.get("role") == "user" else []

    def typed(self, text: str) -> str:
        """Return *text*, unless it is what Droid tells the model before the first prompt."""
        return typed(text).strip()

    def identity(self, unit: Unit, facts: Facts) -> str:
        """Return the id of the file's name, if the first line begins a session."""
        return self.session_id(unit) if facts.get("start") else ""

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session, of copies of its transcript from the newest, with what its settings say."""
        transcripts = newest(parts, "transcript", "flat")
        if not transcripts:
            return None
        part = transcripts[0]
        facts = part.facts
        settings = next((found.facts for found in newest(parts, "settings", "flat-settings")), {})
        heading = facts["title"] or facts.get("prompt") or ""
        return self.row(
            id,
            part,
            facts,
            title=heading,
            model=settings.get("model") or facts.get("model"),
            # What Droid takes where none is recorded (0.215.0).
            approval=settings.get("approval", "normal"),
            archived=settings.get("archived", False),
            hidden=_hidden(part, settings.get("tags", [])),
        )

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``droid --resume`` or ``droid --fork``, which go on with the recorded model.

        Of a level that is less than ``--auto`` can tell nothing is said: Droid takes it from the session.
        """
        level = _LEVELS.get(settings.approval or "")
        return [self.program, *(["--auto", level] if level else []), "--fork" if fork else "--resume", session.id]


def _hidden(part: Part, tags: list[str]) -> str | None:
    facts = part.facts
    if facts["agent"] or not {"subagent", "btw-fork"}.isdisjoint(tags) or "/sessions/btw/" in part.unit.path:
        return "subagent"
    if "exec" in tags:
        return "sdk"
    return None if facts["named"] or facts.get("prompt") or facts.get("model") else "empty"


def _message(record: Record) -> dict[str, Any]:
    message = record.get("message")
    return message if record.get("type") == "message" and isinstance(message, dict) else {}


def _model(record: Record) -> str | None:
    return text(_message(record).get("modelId"))


def _mode(level: object) -> str | None:
    """Return the mode that a level alone stands for."""
    return "normal" if level == "off" else f"auto-{found}" if (found := mode(level)) else None
