"""Kimi Code: a folder for each session, with a manifest and a transcript of the main agent."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sessiond.apps._jsonl import LOOK_BACK, given, instant, mode, text
from sessiond.apps._store import NAME, UUID, Place, manifest, newest
from sessiond.apps._transcripts import Transcripts, blocks
from sessiond.apps.base import Modes
from sessiond.session import Scan
from sessiond.text import storable, title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessiond.apps._transcripts import Record
    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

_FOLDER = rf"sessions/{NAME}/(?P<id>session_{UUID})"
_WIRE = "agents/main/wire.jsonl"
_PLACEHOLDERS = ("New Session", "Untitled")


class KimiCode(Transcripts):
    """Kimi Code, in TypeScript. Kimi CLI, its forerunner in Python, is another agent with a store of its own."""

    name = "kimi-code"
    label = "Kimi Code"
    verified = "2.1.0"
    reads = ("sessions/*/ID/state.json", "sessions/*/ID/session-meta/state.json", f"sessions/*/ID/{_WIRE}")
    program = "kimi"
    store_variable = "KIMI_CODE_HOME"
    carries = ("approval",)
    modes = (
        Modes(
            "approval",
            "manual",
            strict=frozenset({"manual"}),
            loose=frozenset({"yolo", "auto"}),
            restored="/permission",
        ),
    )
    folder_gone = (
        "Kimi Code resumes it there only. It goes on once that folder exists again, even empty: mkdir -p FOLDER"
    )
    places: Mapping[str, Place] = {
        "state": Place(rf"{_FOLDER}/state\.json"),
        "old-state": Place(rf"{_FOLDER}/session-meta/state\.json"),
        "wire": Place(rf"{_FOLDER}/agents/main/wire\.jsonl"),
    }
    user = b'"turn.prompt"'

    def __init__(self) -> None:
        """Know what of a transcript counts last."""
        self.latest = {
            "model": (b'"modelAlias"', lambda record: text(record.get("modelAlias"))),
            "approval": (b'"permission.set_mode"', _approval),
        }

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``KIMI_CODE_HOME``, else ``~/.kimi-code``, on macOS too."""
        return [os.path.normpath(env.get("KIMI_CODE_HOME") or os.path.join(env.get("HOME") or "/", ".kimi-code"))]

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        if unit.kind == "wire":
            scan = super().read(unit, stat, previous)
            if scan.complete and stat.size <= LOOK_BACK:
                # All of it was looked at, so there was no change.
                for facts in scan.facts.values():
                    facts.setdefault("approval", "manual")
            return scan
        record, read = manifest(unit.path)
        if record is None:
            # Overwritten in place, it can be met half written.
            return Scan(previous.facts if previous else {}, problem="it is no session", read=read)
        return Scan({self.session_id(unit): _state(record)}, read=read)

    def opening(self, record: Record, facts: Facts) -> None:
        """Take in nothing: what holds for the whole session stands in its manifest."""

    def texts(self, record: Record) -> list[str]:
        """Return the texts of a prompt; those that a program put there have another origin."""
        origin = record.get("origin")
        typed = isinstance(origin, dict) and origin.get("kind") == "user"
        return blocks(record.get("input")) if record.get("type") == "turn.prompt" and typed else []

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session; of two folders that have it, from that which was changed last."""
        states = newest(parts, "state", "old-state")
        if not states:
            return None
        part = states[0]
        said, folder = part.facts, _folder(part.unit.path)
        wire: Facts = next((found.facts for found in newest(parts, "wire") if _folder(found.unit.path) == folder), {})
        heading = said.get("title") or wire.get("prompt") or said.get("prompt") or ""
        return self.row(
            id,
            part,
            said,
            title=heading,
            model=wire.get("model"),
            approval=wire.get("approval"),
            hidden=None if heading else "empty",
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt that head and tail of the transcript hold."""
        return super().prompts(replace(session, path=f"{_folder(session.path)}/{_WIRE}"))

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``kimi --session``, which brings the model and the permission back (2.1.0).

        There are ``--yolo`` and ``--auto`` to loosen that, and nothing that makes it stricter.
        """
        return [self.program, "--session", session.id]


def _folder(path: str) -> str:
    """Return the folder of the session that has a manifest or a transcript at *path*."""
    return path.removesuffix(f"/{_WIRE}").removesuffix("/state.json").removesuffix("/session-meta")


def _state(record: dict[str, Any]) -> Facts:
    """Return what a manifest says."""
    custom = record["custom"] if isinstance(record.get("custom"), dict) else {}
    heading = (text(record.get("title")) or "").strip()
    cwd = text(record.get("cwd")) or text(record.get("workDir")) or text(custom.get("cwd"))
    return given(
        title="" if heading in _PLACEHOLDERS else title(heading),
        prompt=title(text(record.get("lastPrompt")) or ""),
        cwd=storable(cwd) if cwd else None,
        created=instant(record.get("createdAt")),
        updated=instant(record.get("updatedAt")),
        archived=record.get("archived") is True,
    )


def _approval(record: Record) -> str | None:
    """Return the mode that was set; one that nobody knows must not pass for the default."""
    return mode(record.get("mode")) or "unknown" if record.get("type") == "permission.set_mode" else None
