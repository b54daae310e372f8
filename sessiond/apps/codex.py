"""Codex CLI: rollout files, and laid over them the state database and the file of names.

The files are the truth: databases lack rows (openai/codex#31433, #40426) and break (#21750, #27363).
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sessiond.apps import _codex_live, _codex_rollout, _sqlite
from sessiond.apps._codex_rollout import ID, REQUEST, headline, is_agent, thread_id
from sessiond.apps._codex_sandbox import WIDER, sandbox
from sessiond.apps._jsonl import Transcript, given, grew, guard, mode, records, text
from sessiond.apps.base import App, Modes, Watch, stat_of
from sessiond.session import Scan, Session, Settings, Unit
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import apsw

    from sessiond.apps.base import Live, Origin
    from sessiond.session import Facts, Part, Previous, Stat

    Unreadable = Callable[[str, OSError], None]

_ID = re.compile(ID)
_FOLDER = re.compile(r"archived_sessions|sessions(?:/[0-9]+){0,3}")
# While it packs or unpacks a rollout, Codex keeps `.rollout-compress….tmp` and the like beside it.
_ROLLOUT = re.compile(r"rollout-(?!.*\.(?:rollout-|tmp)).*\.jsonl(?:\.zst)?")
_NAMES = "session_index.jsonl"
NAMES = 1 << 20
"""Bytes of that file that are read at once: its last 7,000 renamings."""
MOST_NAMES = 10_000
"""Lines that are parsed of those bytes, of which half a million fit into them."""
_DATABASE = re.compile(r"state_([0-9]{1,9})\.sqlite")
_STORED = re.compile(rf"{re.escape(_NAMES)}|{_DATABASE.pattern}")

_COLUMNS = (
    *("id", "updated_at", "updated_at_ms", "created_at", "created_at_ms", "cwd", "git_branch", "model"),
    *("reasoning_effort", "approval_mode", "sandbox_policy", "source", "thread_source"),
    *("name", "title", "preview", "first_user_message"),
)
# A title that nobody changed is the whole first prompt, of which only the beginning is wanted.
_THREADS = """
SELECT id, coalesce(updated_at_ms, updated_at * 1000), coalesce(created_at_ms, created_at * 1000), cwd, git_branch,
  model, reasoning_effort, approval_mode, sandbox_policy, source, thread_source, substr(name, 1, 400),
  substr(words, max(1, instr(words, ?)), 400)
FROM (
  SELECT *, CASE WHEN title <> '' AND title IS NOT first_user_message THEN title
    WHEN preview <> '' THEN preview ELSE first_user_message END AS words
  FROM (SELECT {columns} FROM threads)
)
"""


class Codex(App):
    """Codex CLI from 0.20 to 0.171, and the desktop app and the IDE extension that share its home."""

    name = "codex"
    label = "Codex CLI"
    verified = "0.20.0 to 0.171.0"
    reads = ("sessions/YYYY/MM/DD/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl", _NAMES, "state_N.sqlite")
    program = "codex"
    store_variable = "CODEX_HOME"
    carries = Settings._fields
    variables = kept = ("CODEX_SQLITE_HOME",)
    # A bare resume restores all of them, full access too (0.171). `-a untrusted` is an error from 0.153 on,
    # `-a on-failure` from 0.144 on. Where untrusted asks before most commands, a read-only sandbox asks
    # before all that change something: together with on-request that allows no more.
    modes = (
        Modes(
            "approval",
            default="on-request",
            strict=frozenset({"untrusted", "on-request"}),
            loose=frozenset({"never"}),
            replaced={"untrusted": Settings(approval="on-request", sandbox="read-only")},
        ),
        Modes(
            "sandbox",
            default="workspace-write",
            strict=frozenset({"read-only", "workspace-write"}),
            loose=frozenset({"danger-full-access"}),
            wider=WIDER,
        ),
    )
    forks = True
    archived = "Codex asks first whether to unarchive it and resume, or to cancel"
    folder_gone = "Codex resumes it in another folder, and keeps to that one from then on: --dir DIR"

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        """Take the folder to which *env* moves the databases, and nothing else, out of the home."""
        home = env.get("CODEX_SQLITE_HOME", "")
        self._sqlite_home = [os.path.normpath(home)] if os.path.isabs(home) else []

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``CODEX_HOME``, else ``~/.codex``."""
        return [env.get("CODEX_HOME") or os.path.join(env.get("HOME") or "/", ".codex")]

    def watches(self, root: str) -> list[Watch]:
        """Return the folders of rollouts and those of databases; the home itself holds packages and worktrees."""
        rollouts = [Watch(f"{root}/sessions", 3), Watch(f"{root}/archived_sessions", 0)]
        return [*rollouts, *(Watch(folder, 0) for folder in self._stores(root))]

    def _stores(self, root: str) -> list[str]:
        """Return the folders that may hold a state database: the desktop app was seen to use ``sqlite``."""
        return list(dict.fromkeys([root, f"{root}/sqlite", *self._sqlite_home]))

    def unit(self, root: str, path: str) -> Unit | None:
        """Return the ``rollout``, ``names`` or ``database`` unit that *path* belongs to, or None."""
        folder, name = os.path.split(path)
        if _ROLLOUT.fullmatch(name) and folder.startswith(root + "/") and _FOLDER.fullmatch(folder, len(root) + 1):
            return Unit(self.name, root, path, "rollout")
        if name == _NAMES and folder == root:
            return Unit(self.name, root, path, "names")
        if _DATABASE.fullmatch(name.removesuffix("-wal")) and folder in self._stores(root):
            return Unit(self.name, root, path.removesuffix("-wal"), "database")
        return None

    def units(self, root: str, unreadable: Unreadable) -> Iterator[tuple[Unit, Stat]]:
        """Yield what `unit` claims. A folder may be a link, a file may not."""
        for store in self._stores(root):
            for name, stat in _entries(store, _STORED, unreadable):
                unit = self.unit(root, f"{store}/{name}")
                if unit and stat:
                    yield unit, _with_log(unit, stat)
        yield from self._rollouts(root, f"{root}/archived_sessions", 0, unreadable)
        yield from self._rollouts(root, f"{root}/sessions", 3, unreadable)

    def _rollouts(self, root: str, folder: str, depth: int, unreadable: Unreadable) -> Iterator[tuple[Unit, Stat]]:
        below = []
        for name, stat in _entries(folder, _ROLLOUT, unreadable):
            if stat:
                yield Unit(self.name, root, f"{folder}/{name}", "rollout"), stat
            elif depth and name.isascii() and name.isdecimal():
                below.append(f"{folder}/{name}")
        for path in below:
            yield from self._rollouts(root, path, depth - 1, unreadable)

    def stat(self, unit: Unit) -> Stat:
        """Return what tells whether *unit* changed, be it the write-ahead log of a database."""
        return _with_log(unit, super().stat(unit))

    def companions(self, unit: Unit) -> list[str]:
        """Return the databases of earlier layouts, which count while no later one can be read."""
        return _databases(unit.path, later=False) if unit.kind == "database" else []

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says. A database that cannot be read now raises OSError."""
        if unit.kind == "rollout":
            return _codex_live.read(unit, stat, previous)
        return _read_names(unit.path, previous) if unit.kind == "names" else _read_database(unit.path, previous)

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of a thread: its segments, and over them what the database and the file of names say."""
        segments = _segments([part for part in parts if part.unit.kind == "rollout"])
        if not segments:
            return None
        last = segments[-1]
        oldest_first = [part.facts for part in segments]
        newest_first = oldest_first[::-1]
        row = max((part for part in parts if part.unit.kind == "database"), key=_freshness, default=None)
        thread: Facts = row.facts if row else {}
        settings: Facts = _first("settings", newest_first) or {}
        latest = [settings]
        # Whoever spoke last is right: a resume in another folder may be in the database alone, and a
        # database may be left behind. In seconds, as archiving cuts the time there.
        if thread.get("updated", 0) // 1000 >= settings.get("at", 0) // 1000:
            latest = [thread, settings]
        name = next((part.facts["name"] for part in parts if part.unit.kind == "names"), "") or _first(
            "name", [thread, *newest_first]
        )
        cwd = _first("cwd", [*latest, *newest_first])
        return Session(
            app=self.name,
            id=id,
            root=last.unit.root,
            path=last.unit.path,
            mtime=last.stat.mtime,
            bytes=sum(part.stat.size for part in segments),
            title=name or thread.get("title") or _first("prompt", oldest_first) or "",
            cwd=cwd,
            launch_dir=cwd,
            branch=_first("branch", [thread, *newest_first]),
            created=_first("created", [*oldest_first, thread]),
            updated=max(facts.get("updated", 0) for facts in [thread, *newest_first]) or last.stat.mtime,
            model=_first("model", latest),
            effort=_first("effort", latest),
            approval=_first("approval", latest),
            sandbox=_first("sandbox", latest),
            archived=_archived(last.unit.path),
            live=None if last.gone else last.facts.get("live"),
            lost=None if last.gone else last.facts.get("lost"),
            hidden="deleted" if last.gone else _hidden([thread, *newest_first], known=bool(row or name)),
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt of all segments, each cut to 4,096 characters."""
        folder, thread = os.path.dirname(session.path), thread_id(session.path)
        names = [name for name in os.listdir(folder) if thread and _ROLLOUT.fullmatch(name)]
        # In this order a plain file comes after, and so replaces, its compressed copy.
        siblings = sorted((name for name in names if thread_id(name) == thread), reverse=True)
        segments = {_segment(name): os.path.join(folder, name) for name in siblings}
        return _codex_rollout.prompts([segments[key] for key in sorted(segments)] or [session.path])

    def live(self, session: Session) -> Live | None:
        """Return the process that holds the lock of the thread now, or may; see `_codex_live.live`."""
        return _codex_live.live(session)

    def origin(self, session: Session) -> Origin:
        """Return what the first line of the rollout says of the repository."""
        return _codex_rollout.origin(session.path)

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:
        """Return ``codex resume`` or ``codex fork``, with the same options (0.98.0 to 0.171.0; 0.44.0 has no fork).

        Without ``-C``, Codex asks which folder it is to be whenever it is started in another than the recorded one.
        """
        argv = [self.program, "fork" if fork else "resume"]
        # A value of -c is TOML.
        effort = f'model_reasoning_effort="{settings.effort}"' if settings.effort else None
        flags = {"-m": settings.model, "-c": effort, "-a": settings.approval, "-s": settings.sandbox, "-C": folder}
        for flag, value in flags.items():
            argv += [flag, value] if value else []
        return [*argv, session.id]


def _entries(folder: str, wanted: re.Pattern[str], unreadable: Unreadable) -> list[tuple[str, Stat | None]]:
    """Return the names in *folder*, those of regular files that are *wanted* with their stat."""
    found: list[tuple[str, Stat | None]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not wanted.fullmatch(entry.name):
                    found.append((entry.name, None))
                elif entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        found.append((entry.name, stat_of(entry.stat(follow_symlinks=False))))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        unreadable(folder, error)
    return found


def _with_log(unit: Unit, stat: Stat) -> Stat:
    """Return the *stat* of a database with that of its log, to which a commit goes; of another unit as it is.

    0.171 leaves all of its threads in the log when it exits. A database of a later layout that
    comes, breaks or goes decides whether this one counts, so its change is one of this one too.
    """
    if unit.kind != "database":
        return stat
    stat = _sqlite.with_log(unit.path, stat)
    for path in _databases(unit.path, later=True):
        with contextlib.suppress(FileNotFoundError):
            stat = stat._replace(ctime_ns=stat.ctime_ns + os.lstat(path).st_ctime_ns % 1_000_000_007)
    return stat


def _databases(path: str, *, later: bool) -> list[str]:
    """Return the state databases beside that at *path* of a later layout, or an earlier one; the latest first."""
    folder, name = os.path.split(path)
    numbers = {int(match[1]): entry for entry in os.listdir(folder) if (match := _DATABASE.fullmatch(entry))}
    own = next((number for number, entry in numbers.items() if entry == name), -1)
    chosen = [number for number in sorted(numbers, reverse=True) if number != own and (number > own) == later]
    return [os.path.join(folder, numbers[number]) for number in chosen]


def _archived(path: str) -> bool:
    """Return whether a rollout lies with the archived ones; the flag in the database drifts (openai/codex#23851)."""
    return os.path.basename(os.path.dirname(path)) == "archived_sessions"


def _segment(path: str) -> str:
    """Return the name of a segment, by which those of a thread sort as they were written."""
    return os.path.basename(path).removesuffix(".zst").removesuffix(".jsonl")


def _segments(rollouts: list[Part]) -> list[Part]:
    """Return one part for each segment, the oldest first; of copies the one that Codex would open."""
    living = [part for part in rollouts if not part.gone] or rollouts
    living.sort(key=lambda part: (not _archived(part.unit.path), part.unit.path.endswith(".jsonl"), part.stat.mtime_ns))
    segments = {_segment(part.unit.path): part for part in living}
    return [segments[key] for key in sorted(segments)]


def _freshness(row: Part) -> tuple[bool, int, int]:
    match = _DATABASE.fullmatch(os.path.basename(row.unit.path))
    return not row.gone, row.facts.get("updated", 0), int(match[1]) if match else 0


def _first(key: str, facts: list[Facts]) -> Any:
    return next((found[key] for found in facts if found.get(key)), None)


def _hidden(facts: list[Facts], *, known: bool) -> str | None:
    """Return why a thread is not for people. *known*: the database or a name shows that it was used."""
    if _first("agent", facts):
        return "subagent"
    if _first("bare", facts):
        return "not-resumable"
    # A paginated fork without a turn of its own has no prompt in its file.
    return None if known or _first("asked", facts) or _first("fork", facts) else "empty"


def _read_names(path: str, previous: Previous | None) -> Scan:
    """Read what was added to the file of names: a line for each renaming, of which the last holds."""
    facts = dict(previous.facts) if previous else {}
    end, known = max(((fact["end"], fact["guard"]) for fact in facts.values() if "end" in fact), default=(0, []))
    with Transcript(path) as names:
        if not grew(names, previous, end, known):
            facts, end = {}, 0
        start = max(end, names.size - NAMES)
        data = names.bytes_at(start, names.size - start)
        lines, latest = data[: data.rfind(b"\n") + 1], None
        newest = lines.rsplit(b"\n", MOST_NAMES + 1)[-MOST_NAMES - 1 :]
        for record in (record for line in newest for record in records(line)):
            thread, name = record.get("id"), record.get("thread_name")
            if isinstance(thread, str) and _ID.fullmatch(thread) and isinstance(name, str):
                latest = facts[thread] = {"name": title(name)}
        if latest:
            # With the last thread it named, the file remembers how far it was read.
            end = start + len(lines)
            latest |= {"end": end, "guard": guard(names, end)}
        return Scan(facts, read=names.read)


def _read_database(path: str, previous: Previous | None) -> Scan:
    """Read every thread, unless a readable database of a later layout lies beside this one."""
    for later in _databases(path, later=True):
        try:
            if _sqlite.read(later, _columns):
                return Scan()
        except OSError:
            continue
    threads = _sqlite.read(path, _threads)
    if threads is None:
        return Scan(previous.facts if previous else {}, problem="it has no threads")
    return Scan({thread[0]: _thread(*thread[1:]) for thread in threads if _ID.fullmatch(str(thread[0]))})


def _columns(database: apsw.Connection) -> set[str]:
    """Return which of the columns there are: each release since 0.93 has added some."""
    return {name for _, name, *_ in database.execute("PRAGMA table_info(threads)")} & set(_COLUMNS)


def _threads(database: apsw.Connection) -> list[tuple[Any, ...]] | None:
    there = _columns(database)
    if "id" not in there:
        return None
    columns = ", ".join(name if name in there else f"NULL AS {name}" for name in _COLUMNS)
    return database.execute(_THREADS.format(columns=columns), (REQUEST,)).fetchall()


def _thread(updated: object, created: object, cwd: object, *values: object) -> Facts:
    *modes, name, words = values
    return _modes(text(cwd), *modes) | given(
        updated=_time(updated),
        created=_time(created),
        cwd=text(cwd),
        name=title(name) if isinstance(name, str) else None,
        title=headline(words),
    )


@functools.lru_cache(1024)
def _modes(cwd: str | None, *values: object) -> Facts:
    """Return the facts that thousands of threads share."""
    branch, model, effort, approval, policy, source, thread_source = values
    return given(
        branch=text(branch),
        model=text(model),
        effort=text(effort),
        approval=mode(approval),
        sandbox=sandbox(cwd, _parsed(policy)),
        agent=is_agent(_parsed(source), thread_source),
    )


def _parsed(value: object) -> object:
    """Return what a column holds: a word without quotes, or an object as JSON."""
    if isinstance(value, str) and value.startswith("{"):
        return next(iter(records(value.encode())), None)
    return value


def _time(value: object) -> int | None:
    """Return *value* if it is a time in ms of this century."""
    return value if isinstance(value, int) and 946_684_800_000 <= value < 4_102_444_800_000 else None
