"""Mistral Vibe: a folder for each session, since 3.0 with generations of snapshots in it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from sessiond.apps import _process, _sqlite
from sessiond.apps._jsonl import Transcript, given, instant, mode, records, text
from sessiond.apps._store import UUID, Place, Store, manifest, newest
from sessiond.apps._transcripts import blocks
from sessiond.apps.base import Live, Modes
from sessiond.session import Scan
from sessiond.text import storable, title

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

_ID = re.compile(UUID)
_GENERATION = re.compile(r"[0-9]{1,20}")
_STORE = "logs/session"
_UNIFIED = rf"{_STORE}/unified/(?P<id>{UUID})"
DEFAULT = "accept-edits"
"""The agent of a new session in 3.0, and one of 2.x as well."""


class Vibe(Store):
    """Mistral Vibe 3.0, and 2.x, whose sessions 3.0 takes over when they are resumed."""

    name = "vibe"
    label = "Mistral Vibe"
    verified = "3.0.2"
    reads = (
        *("logs/session/unified/ID/meta.json", "logs/session/unified/ID/CURRENT"),
        *("logs/session/unified/ID/generations/*/projection-state.json", "logs/session/active/ID.lock.json"),
        *("logs/session/unified/ID/generations/*/runtime-state.json", "logs/session/session_*/meta.json"),
        "logs/session/session_*/messages.jsonl",
    )
    program = "vibe"
    store_variable = "VIBE_HOME"
    carries = ("approval",)
    modes = (
        Modes(
            "approval",
            DEFAULT,
            strict=frozenset({"ask", "default", "plan", "chat", "explore", DEFAULT}),
            loose=frozenset({"auto-approve", "smart-approve"}),
            restored="Shift+Tab",
        ),
    )
    folder_gone = "Vibe resumes the session from any other folder as well: --dir DIR"
    places: Mapping[str, Place] = {
        "meta": Place(rf"{_UNIFIED}/meta\.json"),
        "current": Place(rf"{_UNIFIED}/CURRENT"),
        "legacy": Place(rf"{_STORE}/session_[0-9]{{8}}_[0-9]{{6}}_[0-9a-f]{{8}}/meta\.json"),
        "lock": Place(rf"{_STORE}/active/(?P<id>{UUID})\.lock\.json"),
    }

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``VIBE_HOME``, else ``~/.vibe``, on macOS too."""
        return [os.path.normpath(env.get("VIBE_HOME") or os.path.join(env.get("HOME") or "/", ".vibe"))]

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        record, read = manifest(unit.path)
        session = record.get("session_id") if record else None
        fits = isinstance(session, str) and (unit.kind == "legacy" or session == self.session_id(unit))
        if record is None or not isinstance(session, str) or not fits or not _ID.fullmatch(session):
            # Overwritten in place, it can be met half written.
            return Scan(previous.facts if previous else {}, problem="it is no session", read=read)
        if unit.kind == "lock":
            runs = _process.runs(_pid(record))
            return Scan({session: {"live": "idle"} if runs else {"lost": stat.mtime}}, volatile=runs, read=read)
        if unit.kind == "current":
            return Scan({session: _snapshot(os.path.dirname(unit.path), record)}, read=read)
        facts = _meta(record)
        if unit.kind == "legacy":
            profile = record.get("agent_profile")
            name = mode(profile.get("name")) if isinstance(profile, dict) else None
            facts |= given(prompt=title(_typed(unit.path)[0] or ""), approval=name or "default")
        return Scan({session: facts}, read=read)

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session, of one that 3.0 took over from what that wrote."""
        metas = [*newest(parts, "meta"), *newest(parts, "legacy")]
        if not metas:
            return None
        metas.sort(key=lambda part: part.gone)
        part, locks = metas[0], newest(parts, "lock")
        current = newest(parts, "current") if part.unit.kind == "meta" else []
        said: Facts = (current[0].facts if current else {}) | part.facts
        lock = locks[0].facts if locks and not locks[0].gone else {}
        heading = said.get("title") or said.get("prompt") or ""
        return self.row(
            id,
            part,
            said,
            live=lock.get("live"),
            lost=lock.get("lost"),
            hidden="subagent" if said.get("agent") else None if heading else "empty",
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, each cut to 4,096 characters; of 3.0 only how the first begins."""
        folder = os.path.dirname(session.path)
        if f"/{_STORE}/unified/" in session.path:
            return _preview(folder, _generation(folder)), None
        return _typed(session.path)

    def live(self, session: Session) -> Live | None:
        """Return the process that has *session* open, from its lock as it is now. Vibe itself refuses then."""
        try:
            record, _ = manifest(f"{session.root}/{_STORE}/active/{session.id}.lock.json")
        except FileNotFoundError:
            return None
        except OSError as error:
            return Live("", f"elsewhere: its lock cannot be read ({error.strerror})", certain=False)
        if not _process.runs(pid := _pid(record or {})):
            return None
        return Live("", f"{_process.place(pid)}: its lock may be an earlier process's of that number", certain=False)

    def present(self, session: Session) -> bool:
        """Return whether *session* has more than its description; without, Vibe does not find it."""
        name = "CURRENT" if f"/{_STORE}/unified/" in session.path else "messages.jsonl"
        return os.path.lexists(os.path.join(os.path.dirname(session.path), name))

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``vibe --resume``, which brings model and agent back, whatever ``--agent`` says (3.0.2)."""
        return [self.program, "--resume", session.id]


def _meta(record: dict[str, Any]) -> Facts:
    """Return what a ``meta.json`` says; those of 2.x and 3.0 are alike."""
    about, config = (found if isinstance(found := record.get(key), dict) else {} for key in ("environment", "config"))
    heading, cwd, branch = (
        text(record.get("title")),
        text(about.get("working_directory")),
        text(record.get("git_branch")),
    )
    return given(
        title=title(heading) if heading else None,
        cwd=storable(cwd) if cwd else None,
        branch=storable(branch) if branch else None,
        created=instant(record.get("start_time")),
        # The end moves when a session is only opened (3.0.2).
        updated=instant(record.get("bumped_at")) or instant(record.get("end_time")),
        model=text(config.get("model_name")) or text(config.get("active_model")),
        archived=bool(text(record.get("archived_at"))),
    )


def _snapshot(folder: str, current: dict[str, Any]) -> Facts:
    """Return what the newest snapshot of the session in *folder* says."""
    generation = current.get("generation")
    if not isinstance(generation, str) or not _GENERATION.fullmatch(generation):
        return {}
    state = _part_of(folder, generation, "runtime-state.json")
    about, identity = (
        found if isinstance(found := state.get(key), dict) else {} for key in ("session_metadata", "identity")
    )
    return given(
        prompt=title(_preview(folder, generation) or ""),
        # One that is named nowhere is brought back by nothing.
        approval=mode(about.get("agent_name")) or ("default" if about else None),
        agent=identity.get("kind") == "subagent",
    )


def _generation(folder: str) -> str:
    found = (manifest(f"{folder}/CURRENT")[0] or {}).get("generation")
    return found if isinstance(found, str) and _GENERATION.fullmatch(found) else ""


def _preview(folder: str, generation: str) -> str | None:
    """Return the beginning of the first prompt, as Vibe keeps it for its own list."""
    found: Any = _part_of(folder, generation, "projection-state.json")
    for key in ("snapshot", "session", "preview"):
        found = found.get(key) if isinstance(found, dict) else None
    words = text(found)
    return words[: _sqlite.TEXT] if words else None


def _part_of(folder: str, generation: str, name: str) -> dict[str, Any]:
    try:
        return manifest(f"{folder}/generations/{generation}/{name}")[0] or {}
    except OSError:
        # An older generation is removed once a newer one stands.
        return {}


def _typed(meta: str) -> tuple[str | None, str | None]:
    """Return the first and the last prompt that head and tail of the messages beside *meta* hold (2.x)."""
    try:
        with Transcript(os.path.join(os.path.dirname(meta), "messages.jsonl")) as file:
            first = next((words for line in file.head() for words in _asked(records(line.data))), None)
            last = file.tail().last(b'"user"', lambda record: next(_asked([record]), None))
    except OSError:
        return None, None
    return first, last or first


def _asked(messages: list[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        if message.get("role") == "user" and not message.get("injected"):
            yield from (words[: _sqlite.TEXT] for words in blocks(message.get("content")) if words.strip())


def _pid(record: dict[str, Any]) -> str:
    pid = record.get("process_id")
    return str(pid) if isinstance(pid, int) and 0 < pid < 1 << 31 else "0"
