"""What a Codex rollout says, from its head and its tail.

A line is an envelope with a type and a payload. Prompts come in two encodings, the settings in
two records, and a file may be compressed; docs/formats/codex.md lists what is read.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from sessiond.apps._codex_sandbox import sandbox
from sessiond.apps._jsonl import (
    HEAD_TOTAL,
    TAIL,
    Tail,
    Transcript,
    cut_strings,
    given,
    grew,
    guard,
    milliseconds,
    mode,
    records,
    text,
)
from sessiond.apps.base import Origin
from sessiond.session import Scan
from sessiond.text import title

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessiond.apps._jsonl import HeadLine
    from sessiond.session import Facts, Previous

    Record = dict[str, Any]

ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""The form of a thread's id."""
REQUEST = "## My request for Codex:"
"""Stands between the open files that an IDE puts before a prompt and what the person typed."""
PROMPT = 4096
"""Characters of a prompt that `prompts` returns."""
UNPACKED = 64 << 20
"""Bytes a compressed rollout may unpack to on the way to its end; of a longer one only the head is known."""
WINDOW_LOG = 23
"""A zstd frame may ask for 8 MiB of memory; Codex's level 3 needs 2 MiB."""

_ID = re.compile(ID)
_COMMIT = re.compile("[0-9a-f]{7,64}")
_NAMED = re.compile(rf"({ID})(?:_{ID})?\.jsonl")
_PROMPTS = (b'"UserMessage"', b'"user_message"', b'"thread_goal_updated"')
_BARE_PROMPTS = (b'"input_text"',)
_SETTINGS = b'"approval_policy"'
_TURN = (
    (b'"task_complete"', ""),
    (b'"turn_complete"', ""),
    (b'"turn_aborted"', ""),
    (b'"task_started"', "busy"),
    (b'"turn_started"', "busy"),
    (b'_approval_request"', "waiting"),
    (b'"request_user_input"', "waiting"),
)
"""The events by which a turn begins, ends and waits. The requests are not in the recordings up to 0.171."""
_INJECTED = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")


def read(path: str, previous: Previous | None, *, recent: bool) -> Scan:
    """Return the facts of the rollout at *path*; see `App.read`. Of a *recent* one also whether a turn is open."""
    session, known = next(iter(previous.facts.items()), ("", {})) if previous else ("", {})
    start = known.get("end", 0)
    with _open(path) as rollout:
        if known.get("prompt") and grew(rollout, previous, start, known["guard"]):
            facts = known.copy()
        else:
            start, (facts, prompt) = 0, _head(rollout)
            found = facts.pop("id", None) or thread_id(path)
            if not found:
                return Scan(problem="neither its first line nor its name has an id", read=rollout.read)
            if found == session:
                facts = {key: known[key] for key in ("name", "prompt") if key in known} | facts
            # What is longer than a tail is no stub, whether or not a prompt was in reach.
            facts |= given(asked=prompt is not None or rollout.size > TAIL, prompt=headline(prompt))
            session = found
        tail = rollout.tail(start)
        settings = tail.last(_SETTINGS, _settings)
        # What is compressed has ended, and is not kept in memory but for its ends.
        complete = settings is not None or tail.offset <= start or path.endswith(".zst")
        if previous and not previous.complete and not settings and not path.endswith(".zst"):
            settings, complete = rollout.look_back(tail.offset).last(_SETTINGS, _settings), True
        facts |= given(
            updated=tail.last(b'"timestamp"', lambda record: milliseconds(record.get("timestamp"))),
            settings=settings,
            name=tail.last(b'"thread_name_updated"', _name),
        )
        if recent and (state := turn(tail, facts.get("turn"))) is not None:
            facts["turn"] = state
        if not facts.get("prompt"):
            # The first prompt can lie beyond the head (openai/codex#21619); a later one is better than none.
            prompt = _last_prompt(tail, _BARE_PROMPTS if facts.get("bare") else _PROMPTS)
            facts |= given(asked=facts.get("asked") or prompt is not None, prompt=headline(prompt))
        facts |= {"end": tail.end, "guard": guard(rollout, tail.end)}
        return Scan({session: facts}, complete, read=rollout.read)


def turn(tail: Tail, before: str | None) -> str | None:
    """Return how the last turn stands after *tail*, when *before* it stood so.

    ``busy``, ``waiting``, ``""`` for ended; None for not known.
    """
    latest = tail.last(b'"timestamp"', lambda record: milliseconds(record.get("timestamp")))
    events = [(tail.last(needle, functools.partial(_when, needle)) or 0, state) for needle, state in _TURN]
    moment, said = max(events)
    state = said if moment else before
    # What came after a request answered it.
    return "busy" if state == "waiting" and latest and latest > moment else state


def _when(needle: bytes, record: Record) -> int | None:
    payload = record.get("payload")
    kind = payload.get("type") if isinstance(payload, dict) and record.get("type") == "event_msg" else None
    fits = isinstance(kind, str) and f'"{kind}"'.encode("utf-8", "replace").endswith(needle)
    return milliseconds(record.get("timestamp")) if fits else None


def prompts(paths: list[str]) -> tuple[str | None, str | None]:
    """Return the first and the last prompt of a thread in the segments at *paths*, cut to ``PROMPT`` characters."""
    first = last = None
    for path in paths:
        with _open(path) as rollout:
            first = first or _head(rollout)[1]
            last = _last_prompt(rollout.tail(), (*_PROMPTS, *_BARE_PROMPTS)) or last
    last = last or first
    return first[:PROMPT] if first else None, last[:PROMPT] if last else None


def origin(path: str) -> Origin:
    """Return what the first line of the rollout at *path* says of the repository."""
    with _open(path) as rollout:
        line = next((line for line in rollout.head() if line.data.strip()), None)
    meta = next(iter(records(line.data)), {}).get("payload") if line else None
    git = meta.get("git") if isinstance(meta, dict) else None
    git = git if isinstance(git, dict) else {}
    commit, repository = text(git.get("commit_hash")), text(git.get("repository_url"))
    return Origin(
        commit if commit and _COMMIT.fullmatch(commit) else None,
        re.sub("//[^/@]*@", "//", repository) if repository else None,
    )


def thread_id(path: str) -> str:
    """Return the id in a rollout's name, the one before that of a segment, or ``""``."""
    match = _NAMED.search(os.path.basename(path))
    return match[1] if match else ""


def headline(prompt: object) -> str:
    """Return the first line of what a person asked for, as a title."""
    return title((_request(prompt) or "").partition("\n")[0])


def is_agent(source: object, thread_source: object) -> bool:
    """Return whether a program began the thread: a sub-agent, a review, Codex's own housekeeping.

    ``thread_source`` alone cannot tell: 0.135 brought it, and clients of the app server leave it out.
    """
    if isinstance(source, dict):
        return "custom" not in source or thread_source == "subagent"
    return thread_source == "subagent" or (isinstance(source, str) and source.startswith(("internal", "subagent")))


class _Compressed(Transcript):
    """A zstd rollout, unpacked once as a stream: only what a head and a tail can ask for is kept."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._front, self._back = bytearray(), bytearray()
        self.size = 0
        try:
            self._unpack()
        except OSError:
            os.close(self._fd)
            raise

    def _unpack(self) -> None:
        options = {int(zstd.DecompressionParameter.window_log_max): WINDOW_LOG}
        with open(self._fd, "rb", closefd=False) as packed, zstd.ZstdFile(packed, options=options) as stream:
            try:
                while self.size <= UNPACKED and (data := stream.read1(TAIL)):
                    self.size += len(data)
                    self._front += data[: HEAD_TOTAL - len(self._front)]
                    self._back += data
                    del self._back[: -TAIL - 1]
            except (zstd.ZstdError, EOFError):
                pass  # Torn or damaged: what could be unpacked is what there is.
            self.read = packed.tell()

    def bytes_at(self, offset: int, length: int) -> bytes:
        if offset + length <= len(self._front) or len(self._front) == self.size:
            return bytes(self._front[offset : offset + length])
        start = offset - (self.size - len(self._back))
        return bytes(self._back[max(0, start) : start + length])

    def tail(self, start: int = 0) -> Tail:
        return super().tail(start) if self.size <= UNPACKED else Tail(b"", self.size)


def _open(path: str) -> Transcript:
    return _Compressed(path) if path.endswith(".zst") else Transcript(path)


def _head(rollout: Transcript) -> tuple[Facts, str | None]:
    """Return what the first lines say, and the first prompt: ``""`` for a picture alone, None for none."""
    lines = (line for line in rollout.head() if line.data.strip())
    facts = next((_identity(line) for line in lines), {})
    needles = _BARE_PROMPTS if facts.get("bare") else _PROMPTS
    prompt: str | None = None
    for line in lines:
        if not prompt and any(needle in line.data for needle in needles):
            found = _cut_prompt(line) if line.cut else _first(_prompt, line)
            prompt = prompt if found is None else found
        elif "settings" not in facts and _SETTINGS in line.data:
            facts |= given(settings=_first(_settings, line))
        if prompt and "settings" in facts:
            break
    return facts, prompt


def _identity(line: HeadLine) -> Facts:
    """Return what the first line says. No other one counts: a fork repeats those of its parent."""
    meta: object
    if line.cut:
        payload, bare = line.data.partition(b'"payload"')[2], False
        found = {key: next(cut_strings(payload, key), None) for key in ("id", "timestamp", "cwd", "source")}
        meta = found | {"thread_source": "subagent" if b'"subagent"' in payload else None}
    else:
        record = next(iter(records(line.data)), {})
        # Before the envelope (2025-09, about 0.32) the fields stood in the record itself, without a folder.
        bare = "payload" not in record and "timestamp" in record
        meta = record if bare else record.get("payload") if record.get("type") == "session_meta" else None
    if not isinstance(meta, dict):
        return {}
    session, git, created = meta.get("id"), meta.get("git"), milliseconds(meta.get("timestamp"))
    return given(
        id=session if isinstance(session, str) and _ID.fullmatch(session) else None,
        created=created,
        updated=created if bare else None,
        cwd=text(meta.get("cwd")),
        branch=text(git.get("branch")) if isinstance(git, dict) else None,
        agent=is_agent(meta.get("source"), meta.get("thread_source")),
        fork=bool(meta.get("forked_from_id") or meta.get("history_base")),
        bare=bare,
    )


def _first(accept: Callable[[Record], Any], line: HeadLine) -> Any:
    return next((found for record in records(line.data) if (found := accept(record)) is not None), None)


def _cut_prompt(line: HeadLine) -> str | None:
    """Return the prompt of a line that is too long, as with a pasted picture: its text comes first."""
    return _request(next((found for key in ("message", "text") for found in cut_strings(line.data, key)), ""))


def _last_prompt(tail: Tail, needles: tuple[bytes, ...]) -> str | None:
    return next((found for needle in needles if (found := tail.last(needle, _prompt)) is not None), None)


def _prompt(record: Record) -> str | None:
    """Return what a person asked for in *record*, ``""`` for a picture alone, or None.

    Never from a ``response_item``, in which AGENTS.md and the environment come as ``user`` too.
    Before the envelope there was nothing else.
    """
    if record.get("type") == "message" and record.get("role") == "user":
        return _request(_joined(record.get("content")))
    payload = record.get("payload")
    if record.get("type") != "event_msg" or not isinstance(payload, dict):
        return None
    kind, item, goal = (payload.get(key) for key in ("type", "item", "goal"))
    if kind == "user_message" and payload.get("kind") in (None, "plain"):
        return _request(payload.get("message"))
    if kind == "item_completed" and isinstance(item, dict) and item.get("type") == "UserMessage":
        return _request(_joined(item.get("content")))
    if kind == "thread_goal_updated" and isinstance(goal, dict):
        return _request(goal.get("objective"))
    return None


def _joined(content: object) -> str:
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _request(prompt: object) -> str | None:
    """Return what of *prompt* a person typed; None when a program wrote all of it."""
    if not isinstance(prompt, str):
        return ""
    before, mark, after = prompt.partition(REQUEST)
    typed = (after if mark else before).strip()
    return None if typed.startswith(_INJECTED) else typed


def _name(record: Record) -> str | None:
    """Return the name given by a renaming, which 0.125 also wrote here."""
    payload = record.get("payload")
    if not isinstance(payload, dict) or payload.get("type") != "thread_name_updated":
        return None
    name = payload.get("thread_name")
    return title(name) if isinstance(name, str) else ""


def _settings(record: Record) -> Facts | None:
    """Return folder, model and modes, of a turn or, from 0.153 on, of a resume that had none."""
    said, effort = record.get("payload"), "effort"
    if isinstance(said, dict) and said.get("type") == "thread_settings_applied":
        said, effort = said.get("thread_settings"), "reasoning_effort"
    elif record.get("type") != "turn_context":
        return None
    if not isinstance(said, dict):
        return None
    cwd = text(said.get("cwd"))
    found = given(
        cwd=cwd,
        model=text(said.get("model")),
        effort=text(said.get(effort)),
        approval=mode(said.get("approval_policy")),
        sandbox=sandbox(cwd, said.get("sandbox_policy"), said.get("permission_profile")),
    )
    return found | given(at=milliseconds(record.get("timestamp"))) if found else None
