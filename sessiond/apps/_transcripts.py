"""Stores with a JSONL transcript for each session, of which head and tail tell all that a row needs."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from sessiond.apps._jsonl import Transcript, cut_strings, grew, guard, records
from sessiond.apps._sqlite import TEXT
from sessiond.apps._store import Store
from sessiond.session import Scan
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sessiond.apps._jsonl import Tail
    from sessiond.session import Facts, Previous, Session, Stat, Unit

Record = dict[str, Any]

PLAIN = 16 << 10
"""Bytes above which a head line is parsed only if it may be a prompt: with its tools pi writes 5 to 50 KB first."""
_CUT_PROMPT = re.compile(rb'.{0,4096}?"(?:type|role)"\s*:\s*"user"', re.DOTALL)


class Transcripts(Store):
    """An agent with a transcript for each session: the head says what is said once, and of the rest the last counts."""

    latest: Mapping[str, tuple[bytes, Callable[[Record], Any]]]
    """By fact: bytes that are in each line that says it, and a function of a record. None says nothing of it."""

    user: bytes = b'"user"'
    """Bytes that are in each line with a message of a person's."""

    @abstractmethod
    def opening(self, record: Record, facts: Facts) -> None:
        """Take into *facts* what *record*, one of the first, says of the whole session, if that is not known yet."""

    @abstractmethod
    def texts(self, record: Record) -> list[str]:
        """Return the texts of *record* if it is a message of a person's, none for any other."""

    def typed(self, text: str) -> str:
        """Return what of a message's *text* a person typed, ``""`` for what a program put there."""
        return text.strip()

    def identity(self, unit: Unit, facts: Facts) -> str:  # noqa: ARG002 - for those whose names do not tell
        """Return the id of the session in *unit*, ``""`` when there is none."""
        return self.session_id(unit)

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:  # noqa: ARG002 - the open file tells
        """Read *unit*, as `App.read` says. The facts have ``prompt``, a title, and what the hooks and `latest` give."""
        known: Facts = next(iter(previous.facts.values()), {}) if previous else {}
        second = previous is not None and not previous.complete
        with Transcript(unit.path) as file:
            # The second look starts over: it must see the whole tail to know what to look for before it.
            if known and not second and grew(file, previous, known["end"], known["guard"]):
                start, facts = known["end"], known.copy()
                tail = file.tail(start)
            else:
                start, facts = 0, {}
                tail = file.tail()
                self._begin(self._head(file), facts)
                if tail.offset:
                    # Rewritten, but still too long to be seen as a whole: a name may be there all the same.
                    facts |= {key: known[key] for key in self.latest if key in known}
            if "prompt" not in facts:
                self._begin(self._oldest_first(tail), facts)
            found = {key: tail.last(needle, say) for key, (needle, say) in self.latest.items()}
            complete = tail.offset <= start or None not in found.values()
            if second and not complete:
                back = file.look_back(tail.offset)
                found |= {key: back.last(*self.latest[key]) for key, value in found.items() if value is None}
                complete = True
            facts |= {key: value for key, value in found.items() if value is not None}
            session = self.identity(unit, facts)
            if not session:
                # Overwritten in place, it can be met half written.
                kept = previous.facts if previous else {}
                return Scan(kept, problem="it is no session" if kept else "", read=file.read)
            facts["end"], facts["guard"] = tail.end, guard(file, tail.end)
            return Scan({session: facts}, complete=complete, read=file.read)

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt that head and tail hold, each cut to 4,096 characters."""
        with Transcript(session.path) as file:
            tail = file.tail()
            opening = (prompt for part in (self._head(file), self._oldest_first(tail)) for _, prompt in part)
            first = next(filter(None, opening), None)
            last = tail.last(self.user, lambda record: self._prompt(self.texts(record)) or None) or first
        return first and first[:TEXT], last and last[:TEXT]

    def _begin(self, opening: Iterator[tuple[Record, str]], facts: Facts) -> None:
        """Take into *facts* what the first records say, down to the first prompt."""
        for record, prompt in opening:
            self.opening(record, facts)
            for key, (_, say) in self.latest.items():
                if (value := say(record)) is not None:
                    facts[key] = value
            if heading := title(prompt):
                facts["prompt"] = heading
                return

    def _head(self, file: Transcript) -> Iterator[tuple[Record, str]]:
        """Yield the records of the head, each with the prompt that it is; of one that is cut the prompt alone."""
        for line in file.head():
            if line.cut:
                if _CUT_PROMPT.match(line.data):
                    yield {}, self._prompt(cut_strings(line.data, "text"))
            elif len(line.data) <= PLAIN or self.user in line.data:
                for record in records(line.data):
                    yield record, self._prompt(self.texts(record))

    def _oldest_first(self, tail: Tail) -> Iterator[tuple[Record, str]]:
        for record in reversed(list(tail.newest_first())):
            yield record, self._prompt(self.texts(record))

    def _prompt(self, texts: Iterator[str] | list[str]) -> str:
        return next(filter(None, map(self.typed, texts)), "")


class InHome(Transcripts):
    """One whose store is a folder in the home, or in what ``store_variable`` names in place of it, on macOS too."""

    folder: str
    """The name of the store."""

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return the folder in the home, or in the place of that."""
        path = os.path.join(env.get(self.store_variable) or env.get("HOME") or "/", self.folder)
        return [os.path.normpath(path)] if os.path.isabs(path) else []

    def environment(self, root: str) -> dict[str, str]:
        """Return what *root* is the folder in; there is no variable for one of another name."""
        place, name = os.path.split(root)
        return super().environment(place) if name == self.folder else {}


class Movable(Transcripts):
    """One with two variables: ``store_variable`` for all that it keeps, and one that moves the sessions alone."""

    usual: str
    """The store where no variable is set; a tilde is the home, also in the variables."""
    sessions_variable: str
    """The one that moves the sessions alone."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        """Take what the two variables say, and nothing else, out of *env*."""
        alone = self._absolute(env, env.get(self.sessions_variable))
        self._alone = os.path.realpath(alone[0]) if alone else None
        self._all = {self.store_variable: value} if (value := env.get(self.store_variable)) else {}

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return where the sessions were moved, and where they are else, on macOS too."""
        return self._absolute(env, env.get(self.sessions_variable), env.get(self.store_variable) or self.usual)

    def environment(self, root: str) -> dict[str, str]:
        """Return the variable that names *root*. What moved the sessions alone leaves the rest where it is."""
        return {**self._all, self.sessions_variable: root} if root == self._alone else super().environment(root)

    def _absolute(self, env: Mapping[str, str], *folders: str | None) -> list[str]:
        home = env.get("HOME", "")
        found = (os.path.normpath(re.sub(r"^~(?=/|$)", lambda _: home, folder)) for folder in folders if folder)
        return list(dict.fromkeys(filter(os.path.isabs, found)))


def blocks(content: object) -> list[str]:
    """Return the texts in the *content* of a message, be it a string or a list of parts."""
    parts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else [content]
    return [part for part in parts if isinstance(part, str)]
