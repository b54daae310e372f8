"""The records of Gemini CLI, and its file of before 0.40; its fork Qwen Code began with such files too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sessiond.apps._jsonl import BLOCK, HEAD_LINE, Transcript, cut_strings, given, instant, text
from sessiond.apps._sqlite import TEXT
from sessiond.apps._store import MANIFEST, manifest
from sessiond.apps._transcripts import blocks
from sessiond.session import Scan
from sessiond.text import title

if TYPE_CHECKING:
    from sessiond.apps._transcripts import Record
    from sessiond.session import Facts, Previous, Unit

SESSION = r"session-[^\x2f\0]{1,200}"
"""The name of a session's file, without what it ends in."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
# What 0.61.0 itself does not take for a prompt.
_IGNORED = ("/", "?", "<session_context>", "<hook_context>")


def read(unit: Unit, previous: Previous | None) -> Scan:
    """Return what the JSON file *unit* says, of a large one its beginning and its end; see `App.read`."""
    record, read = manifest(unit.path)
    if record:
        messages = _messages(record)
        models = (model(message) for message in reversed(messages))
        facts = header(record) | given(
            prompt=title(next(iter(_prompts(record)), "")),
            model=next(filter(None, models), None),
            name=summary(record),
            updated=updated(record),
        )
    else:
        with Transcript(unit.path) as file:
            head = file.bytes_at(0, HEAD_LINE) if file.size > MANIFEST else b""
            tail = file.bytes_at(file.size - BLOCK, BLOCK) if head else b""
            read += file.read
        said = {key: next(cut_strings(head, key), None) for key in ("sessionId", "projectHash", "startTime", "kind")}
        facts = header(said) | given(
            prompt=title(_first(head)),
            model=next(cut_strings(head, "model"), None),
            name=title(["", *cut_strings(tail, "summary")][-1]),
            updated=instant(next(cut_strings(head, "lastUpdated"), None)),
        )
    if "id" not in facts:
        kept = previous.facts if previous else {}
        return Scan(kept, problem="it is no session" if kept else "", read=read)
    return Scan({facts["id"]: facts}, read=read)


def prompts(path: str) -> tuple[str | None, str | None]:
    """Return the first and the last prompt of the JSON file at *path*, of a large one only the first."""
    record, _ = manifest(path)
    if record:
        found = _prompts(record)
    else:
        with Transcript(path) as file:
            found = [_first(file.bytes_at(0, HEAD_LINE))]
    return (found[0][:TEXT] or None, found[-1][:TEXT] or None) if found else (None, None)


def header(record: Record) -> Facts:
    """Return what the first line, or the file, says of the session: ``id created hash agent``; no id for no session."""
    session = record.get("sessionId")
    return given(
        id=session if isinstance(session, str) and _ID.fullmatch(session) else None,
        created=instant(record.get("startTime")),
        hash=text(record.get("projectHash")),
        agent=record.get("kind") == "subagent",
    )


def texts(record: Record) -> list[str]:
    """Return the texts of a message of the type ``user``: as it was shown, else as it was sent."""
    return blocks(record.get("displayContent") or record.get("content")) if record.get("type") == "user" else []


def typed(text: str) -> str:
    """Return *text*, unless it is a command, or the context that Gemini CLI puts before the first prompt."""
    found = text.strip()
    return "" if found.startswith(_IGNORED) else found


def summary(record: Record) -> str | None:
    """Return the title that *record* gives the session, None for none."""
    found = _metadata(record).get("summary")
    return title(found) or None if isinstance(found, str) else None


def updated(record: Record) -> int | None:
    """Return the time of the last message that *record* notes, in ms."""
    return instant(_metadata(record).get("lastUpdated"))


def model(record: Record) -> str | None:
    """Return the model that an answer came from."""
    return text(record.get("model")) if record.get("type") == "gemini" else None


def _metadata(record: Record) -> dict[str, Any]:
    """Return what a record says of the session: the first line and what is set later, but no message."""
    change = record.get("$set")
    return change if isinstance(change, dict) else record if "sessionId" in record else {}


def _messages(record: Record) -> list[Record]:
    messages = record.get("messages")
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def _prompts(record: Record) -> list[str]:
    found = (next(filter(None, map(typed, texts(message))), "") for message in _messages(record))
    return [prompt for prompt in found if prompt]


def _first(head: bytes) -> str:
    return next(filter(None, map(typed, [*cut_strings(head, "text"), *cut_strings(head, "content")])), "")
