"""Grok Build: a folder for each session, with a small summary, under the folder it was started in."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from sessiond.apps import _process, _sqlite
from sessiond.apps._jsonl import Transcript, given, instant, records, text
from sessiond.apps._store import MANIFEST, NAME, UUID, Place, Store, manifest, newest
from sessiond.apps._transcripts import blocks
from sessiond.apps.base import Live
from sessiond.session import Scan
from sessiond.text import storable, title

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessiond.session import Facts, Part, Previous, Session, Settings, Stat, Unit

_ID = re.compile(UUID)
_QUERY = re.compile(r"\s*<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_OPEN = "active_sessions.json"


class Grok(Store):
    """Grok Build 1.0. Its permissions are a setting of the person's, and no session brings one back."""

    name = "grok"
    label = "Grok Build"
    verified = "1.0.41"
    reads = ("sessions/*/ID/summary.json", "sessions/*/ID/chat_history.jsonl", _OPEN)
    program = "grok"
    store_variable = "GROK_HOME"
    forks = True
    folder_gone = (
        "Grok opens the session all the same, in a folder that is not there.\n"
        "It goes on once that folder exists again, even empty: mkdir -p FOLDER"
    )
    places: Mapping[str, Place] = {
        "summary": Place(rf"sessions/{NAME}/(?P<id>{UUID})/summary\.json"),
        "open": Place(re.escape(_OPEN)),
    }

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``GROK_HOME``, else ``~/.grok``, on macOS too."""
        return [os.path.normpath(env.get("GROK_HOME") or os.path.join(env.get("HOME") or "/", ".grok"))]

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        if unit.kind == "open":
            found: dict[str, Facts] = {}
            for session, pid in _open(unit.path):
                # Of several processes one that runs counts.
                if _process.runs(pid):
                    found[session] = {"live": "idle"}
                else:
                    found.setdefault(session, {"lost": stat.mtime})
            return Scan(found, volatile=any("live" in facts for facts in found.values()))
        record, read = manifest(unit.path)
        info = record.get("info") if record else None
        if record is None or not isinstance(info, dict) or info.get("id") != self.session_id(unit):
            # Overwritten in place, it can be met half written.
            return Scan(previous.facts if previous else {}, problem="it is no session", read=read)
        return Scan({info["id"]: _summary(record, info)}, read=read)

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a session; of two folders that have it, from that which was used last."""
        summaries = newest(parts, "summary")
        if not summaries:
            return None
        part = max(summaries, key=lambda part: (not part.gone, part.facts.get("updated", 0)))
        facts = part.facts
        opened = next((part.facts for part in newest(parts, "open") if not part.gone), {})
        return self.row(
            id,
            part,
            facts,
            title=facts.get("title", ""),
            live=opened.get("live"),
            lost=opened.get("lost"),
            hidden="subagent" if facts.get("agent") else "empty" if facts.get("empty") else None,
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt that head and tail hold, each cut to 4,096 characters."""
        with Transcript(os.path.join(os.path.dirname(session.path), "chat_history.jsonl")) as file:
            lines = (line.data for line in file.head() if b'"user"' in line.data)
            first = next(filter(None, (_prompt(record) for line in lines for record in records(line))), None)
            return first, file.tail().last(b'"user"', _prompt) or first

    def live(self, session: Session) -> Live | None:
        """Return the process that has *session* open, from the list that Grok keeps, as it is now."""
        try:
            pids = [pid for opened, pid in _open(os.path.join(session.root, _OPEN)) if opened == session.id]
        except FileNotFoundError:
            return None
        except OSError as error:
            return Live("", f"elsewhere: {_OPEN} cannot be read ({error.strerror})", certain=False)
        where = next((_process.place(pid) for pid in pids if _process.runs(pid)), None)
        return (
            Live("", f"{where}: {_OPEN} may mean an earlier process of that number", certain=False) if where else None
        )

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002
        """Return ``grok --resume``, which goes on in the recorded folder (1.0.41).

        A model that is not to be had any more would be an error, so it is left to Grok.
        """
        return [self.program, "--resume", session.id, *(["--fork-session"] if fork else [])]


def _summary(record: dict[str, Any], info: dict[str, Any]) -> Facts:
    heading = text(record.get("generated_title")) or text(record.get("session_summary"))
    cwd, branch, kind = text(info.get("cwd")), text(record.get("head_branch")), record.get("session_kind")
    return given(
        title=title(heading) if heading else None,
        cwd=storable(cwd) if cwd else None,
        branch=storable(branch) if branch else None,
        created=instant(record.get("created_at")),
        updated=instant(record.get("last_active_at")) or instant(record.get("updated_at")),
        model=text(record.get("current_model_id")),
        agent=record.get("hidden") is True or (isinstance(kind, str) and kind.startswith("subagent")),
        empty=record.get("num_messages") == 0,
    )


def _open(path: str) -> Iterator[tuple[str, str]]:
    """Yield id and process of each session that is open, as the list at *path* has it; raises OSError."""
    with Transcript(path) as file:
        for record in records(file.bytes_at(0, MANIFEST)):
            session, pid = record.get("session_id"), record.get("pid")
            if isinstance(session, str) and _ID.fullmatch(session) and isinstance(pid, int) and 0 < pid < 1 << 31:
                yield session, str(pid)


def _prompt(record: dict[str, Any]) -> str | None:
    """Return what a person asked; Grok puts a tag around it, and other messages of that role before it (1.0.41)."""
    if record.get("type") != "user":
        return None
    found = (match[1] for words in blocks(record.get("content")) if (match := _QUERY.match(words)))
    return next((words[: _sqlite.TEXT] for words in found if words.strip()), None)
