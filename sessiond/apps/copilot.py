"""GitHub Copilot CLI: a folder for each session, with a small YAML file and a JSONL of events."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from sessiond.apps import _process
from sessiond.apps._jsonl import LOOK_BACK, Transcript, given, instant, mode, text
from sessiond.apps._store import MANIFEST, UUID, Place, newest
from sessiond.apps._transcripts import Transcripts
from sessiond.apps.base import Live, Modes
from sessiond.session import Scan
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessiond.apps._transcripts import Record
    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

_FOLDER = rf"session-state/(?P<id>{UUID})"
_LOCK = re.compile(r"inuse\.([1-9][0-9]{0,9})\.lock")
_KEY = re.compile(r"([a-z_]{1,64}):(?: (.*))?")


class Copilot(Transcripts):
    """GitHub Copilot CLI 1.0. Since 1.0.78 a resume brings the permission back to do everything unasked."""

    name = "copilot"
    label = "GitHub Copilot CLI"
    verified = "1.0.102"
    reads = (
        *("session-state/ID/workspace.yaml", "session-state/ID/events.jsonl", "session-state/ID.jsonl"),
        "session-state/ID/inuse.PID.lock",
    )
    program = "copilot"
    store_variable = "COPILOT_HOME"
    carries = ("approval",)
    modes = (Modes("approval", "off", strict=frozenset({"off"}), loose=frozenset({"on"}), wider={"auto": "off"}),)
    folder_gone = (
        "Copilot warns and works in the folder in which it is started.\n"
        "Make it again: mkdir -p FOLDER\n"
        "Or go on in another one: --dir DIR"
    )
    places: Mapping[str, Place] = {
        "workspace": Place(rf"{_FOLDER}/workspace\.yaml"),
        "events": Place(rf"{_FOLDER}/events\.jsonl"),
        "lock": Place(rf"{_FOLDER}/{_LOCK.pattern}"),
        "flat": Place(rf"{_FOLDER}\.jsonl"),
    }
    user = b'"user.message"'

    def __init__(self) -> None:
        """Take the last of what events say again and again."""
        self.latest = {
            "model": (b'Model"', _model),
            "approval": (b'"session.permissions_changed"', _approval),
            "updated": (b'"timestamp"', lambda record: instant(record.get("timestamp"))),
        }

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``COPILOT_HOME``, else ``~/.copilot``, on macOS too."""
        return [os.path.normpath(env.get("COPILOT_HOME") or os.path.join(env.get("HOME") or "/", ".copilot"))]

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        if unit.kind == "lock":
            return self._lock(unit, stat)
        if unit.kind == "workspace":
            return self._workspace(unit, previous)
        scan = super().read(unit, stat, previous)
        if scan.complete and stat.size <= LOOK_BACK:
            # All of it was looked at, so there was no change.
            for facts in scan.facts.values():
                facts.setdefault("approval", "off")
        return scan

    def _workspace(self, unit: Unit, previous: Previous | None) -> Scan:
        with Transcript(unit.path) as file:
            said = scalars(file.bytes_at(0, MANIFEST)) if file.size <= MANIFEST else {}
            if said.get("id") != self.session_id(unit):
                # Overwritten in place, it can be met half written.
                return Scan(previous.facts if previous else {}, problem="it is no session", read=file.read)
            facts = given(
                # The second is what 1.0.10 to 1.0.36 are reported to write.
                title=title(said.get("name") or said.get("summary") or ""),
                cwd=text(said.get("cwd")),
                branch=text(said.get("branch")),
                created=instant(said.get("created_at")),
                updated=instant(said.get("updated_at")),
            )
            return Scan({said["id"]: facts}, read=file.read)

    def _lock(self, unit: Unit, stat: Stat) -> Scan:
        """Tell whether the process runs that has the session open; it removes the file when it ends (1.0.102)."""
        runs = _process.runs(_pid(unit.path))
        return Scan({self.session_id(unit): {"live": "idle"} if runs else {"lost": stat.mtime}}, volatile=runs)

    def opening(self, record: Record, facts: Facts) -> None:
        """Take in the first folder and branch, and whether anything was asked."""
        kind, data = record.get("type"), _data(record)
        if kind == "session.start" and "created" not in facts:
            context = data["context"] if isinstance(data.get("context"), dict) else {}
            created = instant(data.get("startTime")) or instant(record.get("timestamp"))
            facts |= given(created=created, cwd=text(context.get("cwd")), branch=text(context.get("branch")))
        elif isinstance(kind, str) and kind.startswith(("user.", "assistant.")):
            facts["asked"] = True

    def texts(self, record: Record) -> list[str]:
        """Return what a person said; a sub-agent's events stand in the same file, and have its id."""
        words = _data(record).get("content")
        return [words] if record.get("type") == "user.message" and isinstance(words, str) else []

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session: what its folder says, and over it what the YAML file does."""
        events, workspace = newest(parts, "events", "flat"), newest(parts, "workspace")
        events.sort(key=lambda part: (part.gone, part.unit.kind == "flat"))
        if not events and not workspace:
            return None
        main = (events or workspace)[0]
        locks = newest(parts, "lock")
        said: Facts = {}
        for part in (*events[:1], *workspace[:1]):
            said |= {key: value for key, value in part.facts.items() if key != "updated"}
        live = next((part.facts["live"] for part in locks if not part.gone and "live" in part.facts), None)
        return self.row(
            id,
            main,
            said,
            # That of the YAML file stays behind where it is not renamed.
            updated=max(part.facts.get("updated", 0) for part in (*events[:1], *workspace[:1])),
            live=live,
            lost=locks[0].facts.get("lost") if locks and not live else None,
            hidden=_hidden(main, said),
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt that head and tail hold, each cut to 4,096 characters."""
        return super().prompts(session) if session.path.endswith(".jsonl") else (None, None)

    def live(self, session: Session) -> Live | None:
        """Return the process that has *session* open, from the locks beside it as they are now."""
        folder = f"{session.root}/session-state/{session.id}"
        try:
            names = sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Live("", f"elsewhere: {folder} cannot be looked at ({error.strerror})", certain=False)
        pids = [match[1] for name in names if (match := _LOCK.fullmatch(name))]
        where = next((_process.place(pid) for pid in pids if _process.runs(pid)), None)
        return (
            Live("", f"{where}: its lock may be an earlier process's of that number", certain=False) if where else None
        )

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``copilot --resume=ID``, which goes on in the recorded folder with the recorded model (1.0.102).

        No flag takes the permission to do everything away that it brings back, but the command does, which came
        with that in 1.0.78; ``-i`` runs it before anything else.
        """
        argv = [self.program, f"--resume={session.id}"]
        if settings.approval == "on":
            return [*argv, "--allow-all"]
        known = session.approval == "off" or not settings.approval
        return argv if known else [*argv, "-i", "/permissions manual"]


def scalars(data: bytes) -> dict[str, str]:
    """Return the top-level scalars of a YAML file as text, but for those that are not understood."""
    entries: dict[str, list[str]] = {}
    key = ""
    for line in data.decode("utf-8", "replace").split("\n"):
        if match := _KEY.fullmatch(line.rstrip("\r")):
            key = match[1]
            entries[key] = [match[2] or ""]
        elif not line.strip() or line.startswith(" "):
            entries.setdefault(key, [""]).append(line.strip())
        else:
            key = ""
    return {key: value for key, (first, *more) in entries.items() if (value := _scalar(first.strip(), more))}


def _scalar(first: str, more: list[str]) -> str:
    if first[:1] in ("|", ">"):
        return "\n".join(more)
    value = " ".join([first, *more]).strip()
    if value[:1] == "'":
        return value[1:-1].replace("''", "'") if len(value) > 1 and value.endswith("'") else ""
    if value[:1] == '"':
        try:
            return str(json.loads(value, strict=False))
        except ValueError:
            return ""
    return "" if value in ("null", "~") else value


def _data(record: Record) -> dict[str, Any]:
    """Return the body of an event of the session's own agent."""
    data = record.get("data")
    return data if isinstance(data, dict) and not record.get("agentId") else {}


def _model(record: Record) -> str | None:
    key = {"session.model_change": "newModel", "session.start": "selectedModel", "session.resume": "selectedModel"}
    kind = record.get("type")
    return text(_data(record).get(key[kind])) if isinstance(kind, str) and kind in key else None


def _approval(record: Record) -> str | None:
    """Return the mode that was chosen: ``on`` for everything unasked, ``off`` for none of it."""
    if record.get("type") != "session.permissions_changed" or record.get("agentId"):
        return None
    data = _data(record)
    if word := mode(data.get("allowAllPermissionMode")):
        return word
    # What nobody knows must not pass for none of it.
    everything = data.get("allowAllPermissions")
    return ("on" if everything else "off") if isinstance(everything, bool) else "unknown"


def _hidden(part: Part, said: Facts) -> str | None:
    if not said.get("asked"):
        return "empty"
    return "not-resumable" if part.unit.kind == "flat" else None


def _pid(path: str) -> str:
    match = _LOCK.fullmatch(os.path.basename(path))
    return match[1] if match else "0"
