"""``sess find``: the sessions that fit a query."""

from __future__ import annotations

import argparse
import os
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sess import listing, render
from sess.options import Parser
from sessiond.protocol import DONE, NOTHING, Problem
from sessiond.query import FIELDS, STATES, parse
from sessiond.text import clean, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sess.front import Ask, Call, Context, Emit
    from sessiond.protocol import Answer

LIMIT = 20

_DESCRIPTION = """\
Search titles, folders, branches, agents and ids. Every word has to occur.

  "two words"                   as they stand
  title: cwd: branch: app: id:  only there, as in branch:fix
  store:work                    only of that store, by its folder
  -word -app:NAME               must not occur
  since:2d until:2026-11-30     last active then
  is:live is:archived is:hidden\
"""

_PAUSE = 250
"""ms after which the daemon is asked again how far its first reading is."""
_PATIENCE = 8
"""How often: 2 s are no trouble, and most homes are read by then."""
_SYNC_PAUSE = 2000
"""ms, with ``--sync``; less than the relay takes for a hung daemon."""
_SYNC_PATIENCE = 15
"""How often without any progress."""

_FIELD = re.compile(rf"(?:^|\s)-?(?:{'|'.join(FIELDS)}|is|since|until):", re.IGNORECASE)


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``find``."""
    parser = Parser(
        "find",
        "[QUERY…]",
        _DESCRIPTION,
        count=None,
    )
    add = parser.add_argument
    add("--app", action="append", metavar="NAME", help="only this agent; may be repeated")
    add("--cwd", metavar="DIR", help="only sessions in this folder or below")
    add("--here", action="store_true", help="only sessions in the current folder or below")
    add("--branch", metavar="NAME", help="only branches with this in their name")
    add("--since", metavar="WHEN", help="last active since: 45m 3h 2d 1w, 2026-11-30")
    add("--until", metavar="WHEN", help="last active until then")
    add("--limit", type=_limit, default=LIMIT, metavar="N", help=f"at most so many; {LIMIT} if not given")
    add("--all", action="store_true", help="also sub-agents, SDK runs, what was deleted")
    add("--sort", choices=("recent", "relevance"), default="recent", help="what comes first")
    add("--sync", action="store_true", help="compare the index with the disk first")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a line")
    form.add_argument("--tsv", action="store_true", help="with tabs, as without a terminal")
    form.add_argument("--ids", action="store_true", help="one id a line")
    form.add_argument("--long", action="store_true", help="nothing shortened, and the time by the clock")
    form.add_argument("--plain", action="store_true", help="sentences, without columns: for a screen reader")
    return parser


def run(call: Call) -> int:
    """Show what was found; where that is nothing, say on stderr why that may be."""
    options, context = call.options, call.context
    request = _request(call)
    if options.bare and context.cwd:
        request["cwd"] = os.path.normpath(context.cwd)
    tell = _Progress(call.emit, visible=context.stderr_is_terminal and not options.plain)
    if options.sync:
        _catch_up(call.ask, tell, _SYNC_PAUSE, _SYNC_PATIENCE, insist=True)
        answer = call.ask(request)
    else:
        answer = call.ask(request)
        if answer.ok["progress"]:
            _catch_up(call.ask, tell, _PAUSE, _PATIENCE)
            answer = call.ask(request)
    elsewhere = options.bare and not answer.rows and "cwd" in request
    here = ""
    if elsewhere:
        here = render.folder(request.pop("cwd"), context.home)
        answer = call.ask(request)
    tell.erase()
    if elsewhere and answer.rows:
        call.emit(2, f"No session was in {clean(here)} or below; the most recent elsewhere:\n")
    if answer.rows:
        call.emit(1, _shown(answer.rows, options, request["q"], context))
    for line in _remarks(answer, request, options, context):
        call.emit(2, f"{clean(line)}\n")
    if options.bare and context.stderr_is_terminal:
        call.emit(2, "`sess find WORDS` searches everywhere; `sess --help` lists the commands.\n")
    return DONE if answer.rows else NOTHING


def _limit(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 up, not {text!r}")
    return int(text)


def _request(call: Call) -> dict[str, Any]:
    options = call.options
    request: dict[str, Any] = {
        "op": "find",
        "q": query(call.operands),
        "limit": options.limit,
        "all": options.all,
        "sort": options.sort,
    }
    if options.app:
        request["app"] = [name for names in options.app for name in names.split(",") if name]
    for key in ("branch", "since", "until"):
        if value := getattr(options, key):
            request[key] = value
    if options.cwd is not None:
        # Agents record real paths.
        request |= {"cwd": absolute(options.cwd, call.context), "resolve": True}
    elif options.here:
        request["cwd"] = os.path.normpath(absolute(".", call.context))
    return request


def query(words: Iterable[str]) -> str:
    """Return the query that *words* of a command line are."""
    return " ".join(_quoted(word) for word in words if word.strip())


def _quoted(word: str) -> str:
    """Return *word* so that it stays one term, unless a whole query was put in the shell's quotes."""
    if len(word.split()) < 2 or '"' in word or _FIELD.search(word):
        return word
    minus = "-" if word.startswith("-") else ""
    return f'{minus}"{word.removeprefix(minus)}"'


def absolute(path: str, context: Context) -> str:
    """Return the folder that *path* is for the client."""
    if path == "~" or path.startswith("~/"):
        return (context.home or "/") + path[1:]
    if context.cwd is None and not os.path.isabs(path):
        raise Problem("usage", "the current folder is gone", "Go to another one, or name one: --cwd DIR")
    return os.path.join(context.cwd or "/", path)


class _Progress:
    """One line on a terminal that says how far the daemon is."""

    def __init__(self, emit: Emit, *, visible: bool) -> None:
        self._visible = visible
        self._emit = emit
        self._width = 0

    def __call__(self, progress: dict[str, int]) -> None:
        if self._visible:
            text = f"reading {progress['done']:,} of {progress['of']:,} files"
            self._emit(2, f"\r{text:{self._width}}")
            self._width = len(text)

    def erase(self) -> None:
        """Take the line away again."""
        if self._width:
            self._emit(2, f"\r{'':{self._width}}\r")


def _catch_up(ask: Ask, tell: _Progress, pause: int, patience: int, *, insist: bool = False) -> None:
    """Wait until the daemon has read everything.

    Gives up after *patience* pauses; with *insist* only those without progress count.
    """
    left, last, ticket = patience, None, 0
    while left:
        waited = ask({"op": "sync", "timeout_ms": pause, "ticket": ticket}).ok
        progress, ticket = waited["progress"], waited["ticket"]
        if progress is None:
            return
        left = patience if insist and progress != last else left - 1
        last = progress
        tell(progress)


def _shown(rows: list[dict[str, Any]], options: argparse.Namespace, query: str, context: Context) -> str:
    if options.json:
        return render.json_lines(rows)
    if options.ids:
        return render.ids(rows)
    now = time.time()
    if options.plain:
        return listing.sentences(rows, context, now)
    if options.tsv or not (options.long or context.stdout_is_terminal):
        return render.tsv(rows)
    terms = [term for term in parse(query, now).terms if not term.negated]
    if options.long:
        return listing.long(rows, terms, context, now)
    # What is sorted by relevance is no more so with each project's sessions together.
    show = listing.by_project if options.sort == "recent" else render.table
    return show(rows, terms, context, now)


def _remarks(answer: Answer, request: dict[str, Any], options: argparse.Namespace, context: Context) -> Iterator[str]:
    """Yield what a person has to know besides the rows."""
    ok = answer.ok
    if not answer.rows:
        yield from _nothing(ok, request, context)
    elif ok["more"] and context.stdout_is_terminal and context.stderr_is_terminal:
        yield f"There are more: --limit {options.limit * 5}"
    if progress := ok["progress"]:
        again = "ask again" if options.sync else "ask again or use --sync"
        yield f"sess: still reading: {progress['done']:,} of {progress['of']:,} files, newest first; {again}"


def _nothing(ok: dict[str, Any], request: dict[str, Any], context: Context) -> Iterator[str]:
    """Yield where was looked, and what would have been found otherwise."""
    searched = ok["searched"]
    if not sum(searched.values()) and not ok["hidden"]:
        yield "sess: nothing found: there are no sessions yet"
        yield "`sess status` says which agents were found, `sess doctor` what may be wrong."
        return
    known = f"{render.count(sum(searched.values()), 'session')}{render.by_name(searched)}"
    places = [f"of {' and '.join(request['app'])}"] if "app" in request else []
    if "cwd" in request:
        folder = os.path.normpath(request["cwd"])
        places.append(f"in {render.folder(folder, context.home)} and below")
    where = f"those {' '.join(places)}, of " if places else ""
    yield f"sess: nothing found: searched {where}{known}"
    yield from _slips(request["q"], searched)
    if hidden := ok["hidden"]:
        yield f"{render.count(sum(hidden.values()), 'hidden session')} would match{render.by_name(hidden)}: add --all"
    for excluded in ok["excluded_by"]:
        yield f"{excluded['would_match']:,} would match without {excluded['filter']}"
    if near := ok.get("nearest"):
        yield f"The nearest title: {near['title']} ({near['app']}, `sess show {near['id'][:8]}`)"
    if ok["unreadable"]:
        yield f"{render.count(ok['unreadable'], 'file')} could not be read: see `sess status`"


def _slips(query: str, agents: Iterable[str]) -> Iterator[str]:
    """Yield what may be meant by each filter of *query* that is none, or that no session of *agents* can fit."""
    for term in parse(query, time.time()).terms:
        name, colon, value = term.typed.removeprefix("-").lower().partition(":")
        if not colon or not name.isalpha():
            continue
        if name in ("since", "until") and not term.negated:
            yield f"{term.typed} is no time: an age is (45m 3h 2d 1w 2mo 1y), a date (2026-11-30), today, yesterday"
        elif meant := _meant(name, value, agents):
            yield f"Did you mean {meant} in place of {term.typed}?"


def _meant(name: str, value: str, agents: Iterable[str]) -> str:
    """Return the filter that *name* and *value* may be a slip of the fingers for, or ``""``."""
    if name == "is":
        return "" if value in STATES else f"is:{nearest(value, STATES) or ' or is:'.join(STATES)}"
    if name == "app":
        near = "" if any(value in agent for agent in agents) else nearest(value, agents)
        return near and f"app:{near}"
    near = "" if name in FIELDS else nearest(name, (*FIELDS, "since", "until"))
    return near and f"{near}:{value}"
