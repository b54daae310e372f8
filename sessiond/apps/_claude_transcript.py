"""What a Claude Code transcript says, from its head and its tail.

Some of its records are the conversation, one a line and in no strict order; the others note a
title, a mode or a move, and the last of a kind counts. docs/formats/claude-code.md lists what is read.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sessiond.apps._jsonl import BLOCK, Tail, cut_strings, grew, guard, milliseconds, mode, records, text
from sessiond.apps._prompts import stand_in, typed
from sessiond.session import Scan
from sessiond.text import storable, title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sessiond.apps._jsonl import Transcript
    from sessiond.session import Facts, Previous

    Record = dict[str, Any]

    class Search(Protocol):
        """`Tail.last`, or a look further back."""

        def __call__(self, needle: bytes, accept: Callable[[Record], T | None], /) -> T | None: ...


ID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
"""The form of a session id, the stem of the file's name. The ids inside may be those of a parent."""
PLAIN = 16 << 10
"""Bytes above which a head line is parsed only if it may be a prompt: 2.1.332 writes 43 KB of tool descriptions."""
REPEATED = 192 << 10
"""Bytes in which a release that repeats the titles has done so: it does about every 64 KB, between two records."""
CUT = 200
"""Characters of a folder's name that come from the path."""
PROMPT = 4096
"""Characters of a prompt that `prompts` returns."""

T = TypeVar("T")
_ID = re.compile(ID)
_CONVERSATION = ("user", "assistant", "attachment", "system", "progress")
_INJECTED = (
    *("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "toolUseResult", "sourceToolAssistantUUID"),
    *("teamName", "turnCompanion"),
)
_CUT_PROMPT = re.compile(rb'(?!.{0,4096}"isSidechain"\s*:\s*true).{0,4096}?"type"\s*:\s*"user"', re.DOTALL)


def read(path: str, file: Transcript, previous: Previous | None) -> Scan:
    """Return the facts of the transcript at *path*, open as *file*; see `App.read`."""
    folder, name = path.split("/")[-2:]
    session = name.removesuffix(".jsonl")
    known: Facts = previous.facts.get(session, {}) if previous else {}
    # The second look starts over: it must see the whole tail to know what to look for before it.
    second = previous is not None and not previous.complete
    if known and not second and grew(file, previous, known["end"], known["guard"]):
        start, facts = known["end"], known.copy()
        tail = file.tail(start)
    else:
        start, facts = 0, {}
        tail = file.tail()
        _open(_head(file), facts)
        if tail.offset:
            # Rewritten, but still too long to be seen as a whole: its title may be there all the same.
            facts = {key: known[key] for key in ("custom", "further", "ai", "first") if key in known} | facts
    if not {"first", "start"} <= facts.keys():
        _open(_oldest_first(tail), facts)
    named = _follow(tail, facts)
    if start == 0 and tail.offset and "custom" not in facts:
        # A name given right after the first prompt; releases that repeat it do not if they were killed.
        begin = Tail(file.bytes_at(0, BLOCK), 0)
        _note(facts, "further", begin.last(b'"custom-title"', _custom_title))
    complete = tail.offset <= start or (named and {"updated", "approval"} <= facts.keys())
    if second and not complete:
        _look_back(file, tail, facts, named=named)
        complete = True
    _locate(folder, tail, facts)
    facts["end"], facts["guard"] = tail.end, guard(file, tail.end)
    return Scan({session: facts}, complete=complete, read=file.read)


def prompts(file: Transcript, *, sidechain: bool) -> tuple[str | None, str | None]:
    """Return the first and the last prompt that head and tail hold, cut to ``PROMPT`` characters."""
    tail = file.tail()
    found = (_prompt(record, sidechain=sidechain) for part in (_head(file), _oldest_first(tail)) for record in part)
    first = next(filter(None, found), "")
    last = tail.last(b'"user"', lambda record: _prompt(record, sidechain=sidechain) or None)
    last = last or tail.last(b'"last-prompt"', _last_prompt)
    return first[:PROMPT] or None, last[:PROMPT] if last else None


def _head(file: Transcript) -> Iterator[Record]:
    """Yield the records of the head as they are asked for, without the long ones that cannot be a prompt.

    Of a user record that is cut only its texts are left: folder, branch and time stand after them.
    """
    for line in file.head():
        if not line.cut:
            if len(line.data) <= PLAIN or b'"user"' in line.data:
                yield from records(line.data)
        elif _CUT_PROMPT.match(line.data) and b'"tool_result"' not in line.data:
            texts = list(cut_strings(line.data, "text")) or list(cut_strings(line.data, "content"))
            blocks = [{"type": "text", "text": found} for found in texts]
            yield {"type": "user", "message": {"role": "user", "content": blocks}}


def _oldest_first(tail: Tail) -> Iterator[Record]:
    yield from reversed(list(tail.newest_first()))


def _open(opening: Iterable[Record], facts: Facts) -> None:
    """Take into *facts* what the first records say, down to the first prompt."""
    for record in opening:
        kind = record.get("type")
        if "created" not in facts:
            snapshot = record.get("snapshot")
            time = record.get("timestamp") or (snapshot.get("timestamp") if isinstance(snapshot, dict) else None)
            _note(facts, "created", milliseconds(time))
        _note(facts, "further", _custom_title(record))
        _note(facts, "ai", _ai_title(record))
        _note(facts, "summary", _summary(record))
        _note(facts, "mode", _permission_mode(record))
        if kind in _CONVERSATION:
            facts.setdefault("sidechain", bool(record.get("isSidechain") or record.get("teamName")))
            _note(facts, "entrypoint", facts.get("entrypoint") or _word(record, "entrypoint"))
            _note(facts, "start", facts.get("start") or _cwd(record))
            if "first" not in facts:
                texts = _texts(record, sidechain=facts["sidechain"])
                _note(facts, "first", title(_some(typed, texts)))
                _note(facts, "command", facts.get("command") or title(_some(stand_in, texts)))
        if "first" in facts and "start" in facts:
            return


def _follow(tail: Tail, facts: Facts) -> bool:
    """Take into *facts* what the tail says last; return whether it would repeat a name given before it."""
    place = tail.last(b'"cwd"', _place)
    if place:
        _settle(place, facts)
    repeats = place is not None and _repeats_titles(place)
    custom = _titles(partial(tail.last, within=REPEATED), facts) if repeats else None
    if not custom and not (repeats and "ai" in facts):
        custom = _titles(tail.last, facts)
    if custom:
        facts["custom"] = custom
        _note(facts, "ai", tail.last(b'"ai-title"', _ai_title))
    if {"custom", "ai"} <= facts.keys():
        _note(facts, "worktree", tail.last(b'"worktreeSession"', _worktree))
    if "first" not in facts:
        _note(facts, "last", tail.last(b'"last-prompt"', _last_prompt))
        _note(facts, "summary", tail.last(b'"summary"', _summary))
    _note(facts, "approval", tail.last(b'"permissionMode"', _permission_mode))
    _converse(tail.last, facts)
    # Whoever goes on with a session that was continued elsewhere takes it back.
    end = next((record for record in tail.newest_first() if _talk(record) or _successor(record)), None)
    if end:
        facts.pop("successor", None)
        _note(facts, "successor", _successor(end))
    return bool(custom) or repeats


def _titles(last: Search, facts: Facts) -> str | None:
    """Return the custom title that *last* finds; take into *facts* the generated one that it passes."""
    generated: list[str] = []

    def custom(record: Record) -> str | None:
        if not generated and (found := _ai_title(record)):
            generated.append(found)
        return _custom_title(record)

    found = last(b'-title"', custom)
    _note(facts, "ai", next(iter(generated), None))
    return found


def _converse(last: Search, facts: Facts) -> None:
    """Take into *facts* what the last messages say."""
    sidechain = facts.get("sidechain", False)
    answer = last(b'"assistant"', lambda record: record if _model(record, sidechain=sidechain) else None)
    if answer:
        facts["model"] = _model(answer, sidechain=sidechain)
        facts.pop("effort", None)
        _note(facts, "effort", _word(answer, "effort"))
    # Lines are not in the order of time: an answer can stand before its prompt (2.1.332).
    talk = [last(b'"assistant"', _talk), last(b'"user"', _talk)]
    times = [milliseconds(record.get("timestamp")) or 0 for record in talk if record]
    _note(facts, "updated", max(times, default=None))


def _repeats_titles(record: Record) -> bool:
    """Return whether the release that wrote *record* writes the title again about every 64 KB.

    2.1.200 and 2.1.332 do and 2.1.100 does not, nor does the editor extension, in which names
    were lost as late as 2.1.263 (anthropics/claude-code#85548).
    """
    match = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", _word(record, "version") or "")
    release = tuple(map(int, match.groups())) if match else ()
    return record.get("entrypoint") == "cli" and release >= (2, 1, 200)


def _look_back(file: Transcript, tail: Tail, facts: Facts, *, named: bool) -> None:
    """Look for what may stand between head and tail: a name, and the conversation when the tail has none of it.

    Then the tail is one long line (12.8 MB, anthropics/claude-code#24118) or progress (#24457).
    """
    last: Search = file.look_back(tail.offset).last
    if "approval" not in facts:
        _note(facts, "approval", last(b'"permissionMode"', _permission_mode))
    if "updated" not in facts:
        _converse(last, facts)
        if place := last(b'"cwd"', _place):
            _settle(place, facts)
    if named:
        return
    if found := _titles(last, facts):
        facts["further"] = found
        facts.pop("custom", None)
    else:
        for line in file.head():
            for record in records(line.data) if b'"custom-title"' in line.data else ():
                _note(facts, "further", _custom_title(record))


def _settle(record: Record, facts: Facts) -> None:
    """Take folder and branch from *record*. Outside a repository the branch is ``HEAD``, ``""`` until 2.0.76."""
    facts["cwd"] = _cwd(record)
    facts.pop("branch", None)
    branch = _word(record, "gitBranch")
    _note(facts, "branch", branch if branch != "HEAD" else None)


def _locate(folder: str, tail: Tail, facts: Facts) -> None:
    """Find the launch directory: of the recorded folders, the newest existing one that *folder* is named after.

    The transcript stays where the session was started, while the recorded folder follows each
    ``cd`` and, from 2.1.223 on, a resume from elsewhere; releases before find it from there only.
    """

    def place(record: Record) -> str | None:
        state = record.get("worktreeSession")
        state = state if isinstance(state, dict) else {}
        found = [_word(record, key) for key in ("relocatedCwd", "cwd")]
        found += [_word(state, key) for key in ("worktreePath", "preEnterOriginalCwd", "originalCwd")]
        return next((path for path in found if path and _is_named(folder, path)), None)

    recorded = dict.fromkeys(filter(None, [facts.get("cwd"), *facts.get("places", []), facts.get("start")]))
    places = [path for path in recorded if _is_named(folder, path)]
    if len(folder) > CUT:
        places.reverse()  # A name that is cut fits every folder further down as well.
    for needle in (b'"relocatedCwd"', b'"cwd"', b'"worktreeSession"'):
        if not places and (found := tail.last(needle, place)):
            places = [found]
    if not places:
        places = [path for path in recorded if _is_named(folder, os.path.realpath(path))]
    facts["places"] = places[:4]
    existing = (path for path in places if len(places) == 1 or os.path.isdir(path))
    _note(facts, "launch_dir", next(existing, places[0] if places else facts.get("start")))


def _is_named(folder: str, path: str) -> bool:
    """Return whether Claude Code names *folder* after *path*.

    Each UTF-16 unit but an ASCII letter or digit becomes a dash, on macOS after NFC. From
    2.1.100 on what exceeds ``CUT`` units becomes a hash (2.1.332: not the one of the SDK).
    """
    for form in (path, unicodedata.normalize("NFC", path)):
        name = re.sub("[^A-Za-z0-9]", lambda match: "-" if match[0] <= "\uffff" else "--", form)
        if sys.platform == "darwin":
            name, folder = name.lower(), folder.lower()
        if name == folder or (len(name) > CUT and folder.startswith(name[:CUT] + "-")):
            return path.startswith("/")
    return False


def _texts(record: Record, *, sidechain: bool) -> list[str]:
    """Return the texts of a user record that may be a prompt; of a sub-agent's only for *sidechain*."""
    origin, message = record.get("origin"), record.get("message")
    if (
        record.get("type") != "user"
        or not isinstance(message, dict)
        or any(record.get(key) for key in _INJECTED)
        or bool(record.get("isSidechain")) != sidechain
        or (isinstance(origin, dict) and origin.get("kind") != "human")
    ):
        return []
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if any(block.get("type") == "tool_result" for block in blocks):
        return []
    found = [content, *(block.get("text") for block in blocks if block.get("type") == "text")]
    return [value for value in found if isinstance(value, str)]


def _prompt(record: Record, *, sidechain: bool) -> str:
    return _some(typed, _texts(record, sidechain=sidechain))


def _some(reading: Callable[[str], str], texts: list[str]) -> str:
    return next((found for value in texts if (found := reading(value))), "")


def _model(record: Record, *, sidechain: bool) -> str | None:
    """Return the model an answer was asked of, which ``opusplan`` and a small model do not always give."""
    message = record.get("message")
    if record.get("type") != "assistant" or not isinstance(message, dict):
        return None
    if bool(record.get("isSidechain")) != sidechain or message.get("model") == "<synthetic>":
        return None
    return _word(record, "requestedModel") or _word(message, "model")


def _talk(record: Record) -> Record | None:
    return record if record.get("type") in ("user", "assistant") else None


def _place(record: Record) -> Record | None:
    return record if _cwd(record) else None


def _cwd(record: Record) -> str | None:
    """Return the folder of a record of the conversation; an injected one may name another (openclaw#138843)."""
    return _word(record, "cwd") if record.get("type") in _CONVERSATION and not record.get("isMeta") else None


def _permission_mode(record: Record) -> str | None:
    return mode(record.get("permissionMode")) if record.get("type") in ("user", "permission-mode") else None


def _custom_title(record: Record) -> str | None:
    return _heading(record, "customTitle") if record.get("type") == "custom-title" else None


def _ai_title(record: Record) -> str | None:
    return _heading(record, "aiTitle") if record.get("type") == "ai-title" else None


def _summary(record: Record) -> str | None:
    return _heading(record, "summary") if record.get("type") == "summary" else None


def _last_prompt(record: Record) -> str | None:
    found = _heading(record, "lastPrompt") if record.get("type") == "last-prompt" else None
    return found if found and not found.startswith(("/", "<")) else None


def _worktree(record: Record) -> str | None:
    state = record.get("worktreeSession")
    return _heading(state, "worktreeName") if isinstance(state, dict) else None


def _successor(record: Record) -> str | None:
    found = _word(record, "continuedInSessionId") if record.get("type") == "continued-in" else None
    return found if found and _ID.fullmatch(found) else None


def _heading(record: Record, key: str) -> str | None:
    value = text(record.get(key))
    return title(value) or None if value else None


def _word(record: Record, key: str) -> str | None:
    value = text(record.get(key))
    return storable(value) if value else None


def _note(facts: Facts, key: str, value: object) -> None:
    """Set a fact, unless there is nothing to say."""
    if value:
        facts[key] = value
