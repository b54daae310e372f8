"""Claude Code: transcripts in ``projects/<folder>/<session id>.jsonl``, and what lies beside them."""

from __future__ import annotations

import os
import re
import stat as stat_module
import time
from typing import TYPE_CHECKING

from sessiond.apps import _claude_transcript, _process
from sessiond.apps._claude_transcript import ID
from sessiond.apps._jsonl import Transcript, records
from sessiond.apps.base import App, Live, Modes, Watch, stat_of
from sessiond.session import Scan, Session, Stat, Unit
from sessiond.text import title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sessiond.session import Facts, Part, Previous, Settings

SMALL = 64 << 10
"""Bytes a ``custom-title.json`` or ``sessions/<pid>.json`` may have; the real ones have less than 1 KB."""
LARGE = 1 << 20
"""The same where it is asked whether a session is open: a record that is not read must not pass for none."""
LOOKS = 5
"""Times a record that is being written is looked at, 10 ms apart."""

_ID = re.compile(ID)
_UNIT = re.compile(
    rf"projects/(?!\.\.?/)[^/\0]+/(?:(?P<transcript>{ID})\.jsonl|(?P<title>{ID})/custom-title\.json)"
    r"|sessions/(?P<live>[0-9]{1,10})\.json"
)
_LIVE_FILE = re.compile(r"[0-9]{1,10}\.json")
_LIVE = {"busy": "busy", "shell": "busy", "waiting": "waiting"}


class ClaudeCode(App):
    """Claude Code from 1.0 to 2.1, and the editors and desktop apps that share its store."""

    name = "claude"
    label = "Claude Code"
    verified = "2.0.76 to 2.1.332"
    reads = ("projects/*/ID.jsonl", "projects/*/ID/custom-title.json", "sessions/PID.json")
    program = "claude"
    store_variable = "CLAUDE_CONFIG_DIR"
    carries = ("model", "effort", "approval")
    forks = True
    # With one of these from a session around it, a resumed session is not saved or not listed.
    markers = (
        *("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID"),
        "CLAUDE_CODE_SKIP_PROMPT_HISTORY",
    )
    # A bare resume restores all of the loose ones but bypassPermissions (2.1.200, 2.1.332).
    modes = (
        Modes(
            "approval",
            default="default",
            strict=frozenset({"default", "plan"}),
            loose=frozenset({"acceptEdits", "auto", "dontAsk", "bypassPermissions"}),
        ),
    )
    folder_gone = (
        "Claude Code up to 2.1.222 finds the session again once that folder exists, even empty: mkdir -p FOLDER\n"
        "From 2.1.223 on it resumes it from any folder: --dir DIR"
    )

    def roots(self, env: Mapping[str, str]) -> list[str]:
        """Return ``CLAUDE_CONFIG_DIR`` and ``~/.claude``: people keep an account in each."""
        home = os.path.join(env.get("HOME") or "/", ".claude")
        return list(dict.fromkeys(os.path.normpath(path) for path in (env.get("CLAUDE_CONFIG_DIR"), home) if path))

    def watches(self, root: str) -> list[Watch]:
        """Return the project folders, but not what a session has below: up to 100,000 sub-agent files."""
        return [Watch(root + "/projects", 1), Watch(root + "/sessions", 0)]

    def unit(self, root: str, path: str) -> Unit | None:
        """Return the ``transcript``, ``title`` or ``live`` unit that *path* is, or None."""
        match = _UNIT.fullmatch(path, len(root) + 1) if path.startswith(root + "/") else None
        return Unit(self.name, root, path, match.lastgroup) if match and match.lastgroup else None

    def units(self, root: str, unreadable: Callable[[str, OSError], None]) -> Iterator[tuple[Unit, Stat]]:
        """Yield what `unit` claims: of each project folder the transcripts, then the title beside each.

        A project folder may be a link (anthropics/claude-code#60965), a file may not. A folder
        with 106,777 sub-agent files was reported (#35800), so names are sorted out before any stat.
        """
        seen: set[tuple[int, int]] = set()
        projects = root + "/projects"
        try:
            folders = [f"{projects}/{name}" for name in os.listdir(projects)]
        except (FileNotFoundError, NotADirectoryError):
            folders = []
        except OSError as error:
            folders = []
            unreadable(projects, error)
        for folder in sorted(folders, key=os.path.islink):
            yield from self._below(root, folder, _project_files, seen, unreadable)
        yield from self._below(root, root + "/sessions", _live_files, seen, unreadable)

    def _below(
        self,
        root: str,
        folder: str,
        chosen: Callable[[list[str]], list[tuple[str, str]]],
        seen: set[tuple[int, int]],
        unreadable: Callable[[str, OSError], None],
    ) -> list[tuple[Unit, Stat]]:
        """Return the units of a folder that was not *seen* under another name; *chosen* picks kind and path of each."""
        found: list[tuple[Unit, Stat]] = []
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return found
        except OSError as error:
            unreadable(folder, error)
            return found
        try:
            opened = os.fstat(fd)
            names = os.listdir(fd) if (opened.st_dev, opened.st_ino) not in seen else []
            seen.add((opened.st_dev, opened.st_ino))
            for kind, name in chosen(names):
                path = f"{folder}/{name}"
                try:
                    # Relative to the folder, which takes a third less than the whole path.
                    result = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except OSError as error:
                    unreadable(os.path.dirname(path), error)
                    continue
                if stat_module.S_ISREG(result.st_mode):
                    found.append((Unit(self.name, root, path, kind), stat_of(result)))
        except OSError as error:
            unreadable(folder, error)
        finally:
            os.close(fd)
        return found

    def companions(self, unit: Unit) -> list[str]:
        """Return the title file of a transcript: ``/rename`` writes both, and only one is watched."""
        return [unit.path.removesuffix(".jsonl") + "/custom-title.json"] if unit.kind == "transcript" else []

    def read(self, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        """Read *unit*, as `App.read` says."""
        with Transcript(unit.path) as file:
            if unit.kind == "transcript":
                return _claude_transcript.read(unit.path, file, previous)
            # sessions/<pid>.json is overwritten in place, so half of it can be met; the next look finds the whole.
            record = next(iter(records(file.bytes_at(0, SMALL))), None) if stat.size <= SMALL else None
            if record is None:
                known = previous.facts if previous else {}
                return Scan(known, volatile=True, problem="not a small JSON object", read=file.read)
            facts = _name(unit, record) if unit.kind == "title" else _life(unit, stat, record)
            return Scan(facts, volatile=any("live" in fact for fact in facts.values()), read=file.read)

    def merge(self, id: str, parts: list[Part]) -> Session | None:
        """Return the row of the newest transcript, with its title file and whether a process has it open."""
        # An empty file of the id, or one with a title alone, is not the session (2.1.223 keeps searching too).
        newest_first = sorted(
            parts, key=lambda part: (not part.gone, _hidden(part.facts) != "empty", part.stat.mtime_ns), reverse=True
        )
        transcripts = [part for part in newest_first if part.unit.kind == "transcript"]
        if not transcripts:
            return None
        unit, stat, facts, gone = transcripts[0]
        copies = [part.facts for part in transcripts[1:]]
        sidecar = next((part.facts["title"] for part in newest_first if part.unit.kind == "title"), None)
        lives = [part for part in newest_first if part.unit.kind == "live"]
        live = next((part.facts["live"] for part in lives if not part.gone and "live" in part.facts), None)
        # What was seen last counts: who resumed it after a crash and closed it then has nothing to reopen.
        last = max(lives, key=lambda part: part.stat.mtime_ns, default=None)
        return Session(
            app=self.name,
            id=id,
            root=unit.root,
            path=unit.path,
            mtime=stat.mtime,
            bytes=stat.size,
            title=_title(facts, sidecar, copies),
            cwd=facts.get("cwd") or facts.get("start"),
            launch_dir=facts.get("launch_dir"),
            branch=facts.get("branch"),
            created=facts.get("created"),
            updated=facts.get("updated", stat.mtime),
            model=facts.get("model"),
            effort=facts.get("effort"),
            # That of its beginning, where no later one was found.
            approval=facts.get("approval") or facts.get("mode"),
            live=live,
            lost=last.facts.get("lost") if last and live is None else None,
            hidden="deleted" if gone else _hidden(facts),
            successor=facts.get("successor"),
        )

    def prompts(self, session: Session) -> tuple[str | None, str | None]:
        """Return the first and the last prompt, each cut to 4,096 characters."""
        with Transcript(session.path) as file:
            return _claude_transcript.prompts(file, sidechain=session.hidden == "subagent")

    def live(self, session: Session) -> Live | None:
        """Return the process that has *session* open, from ``sessions/<pid>.json`` as they are now.

        Claude Code itself does not look: two processes that have one session open both append to it (2.1.332).
        """
        folder = session.root + "/sessions"
        try:
            names = sorted(name for _, name in _live_files(os.listdir(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return Live("", f"elsewhere: {folder} cannot be looked at ({error.strerror})", certain=False)
        found = [live for name in names if (live := _open_in(f"{folder}/{name}", session.id))]
        return max(found, key=lambda live: live.certain, default=None)

    def launch(self, session: Session, settings: Settings, *, fork: bool, folder: str | None) -> list[str]:  # noqa: ARG002 - it goes by where it is started
        """Return ``claude --resume`` with what a resume does not restore by itself: effort never, the rest by release.

        All of it is accepted from 2.1.100 on, all but ``--effort`` before; of an effort it does not know, 2.1.197
        warns and takes its own. The mode ``default`` is known to all; another word for it, ``manual``, not to 2.1.197.
        """
        argv = [self.program, "--resume", session.id]
        for flag, value in (
            ("--model", settings.model),
            ("--effort", settings.effort),
            ("--permission-mode", settings.approval),
        ):
            argv += [flag, value] if value else []
        return [*argv, "--fork-session"] if fork else argv


def _project_files(names: list[str]) -> list[tuple[str, str]]:
    transcripts = [name for name in names if len(name) == 42 and name.endswith(".jsonl") and _ID.fullmatch(name, 0, 36)]
    beside = [f"{name}/custom-title.json" for name in names if len(name) == 36 and _ID.fullmatch(name)]
    return [*(("transcript", name) for name in transcripts), *(("title", name) for name in beside)]


def _live_files(names: list[str]) -> list[tuple[str, str]]:
    return [("live", name) for name in names if _LIVE_FILE.fullmatch(name)]


def _name(unit: Unit, record: Facts) -> dict[str, Facts]:
    """Return what a ``custom-title.json`` says (2.1.332; 2.1.200 and older have none)."""
    found = record.get("customTitle")
    name = title(found) if isinstance(found, str) else ""
    return {os.path.basename(os.path.dirname(unit.path)): {"title": name}} if name else {}


def _life(unit: Unit, stat: Stat, record: Facts) -> dict[str, Facts]:
    """Return what a ``sessions/<pid>.json`` says: the state of its process, or since when that is lost.

    A clean end removes the file; a crash, a kill and a loss of power leave it behind.
    """
    session, pid = record.get("sessionId"), _pid(unit.path)
    if not isinstance(session, str) or not _ID.fullmatch(session):
        return {}
    same = _is_of(pid, record)
    if same is None:
        return {}
    return {session: {"live": _status(record)} if same else {"lost": stat.mtime}}


def _open_in(path: str, id: str) -> Live | None:
    """Return the process whose ``sessions/<pid>.json`` is at *path*, if it has the session *id* open, or may have."""
    pid = _pid(path)
    if not _process.runs(pid):
        return None
    place = _process.place(pid)
    for look in range(LOOKS):
        time.sleep(0.01 * bool(look))
        try:
            with Transcript(path) as file:
                record = next(iter(records(file.bytes_at(0, LARGE))), None)
        except FileNotFoundError:
            return None
        except OSError:
            continue
        if record is not None:
            break
    else:
        return Live("", f"{place}: its record cannot be read", certain=False)
    session = record.get("sessionId")
    if not isinstance(session, str):
        return Live("", f"{place}: its record does not say which session it has", certain=False)
    same = _is_of(pid, record) if session.lower() == id.lower() else False
    if same is None:
        return Live("", f"{place}: its record does not say when that began", certain=False)
    return Live(_status(record), place) if same else None


def _is_of(pid: str, record: Facts) -> bool | None:
    """Return whether *record* is of the process that now has the number *pid*; None when that cannot be told.

    ``procStart`` is what `_process.started` returns: in 2.1.332 on Linux, as reported on macOS.
    """
    if not _process.runs(pid):
        return False
    begun, now = record.get("procStart"), _process.started(pid)
    if not isinstance(begun, str | int) or isinstance(begun, bool) or not now:
        return None
    begun = " ".join(str(begun).split())
    # In other words for a moment than these, it says nothing.
    return begun == now if begun and begun.isdigit() == now.isdigit() else None


def _pid(path: str) -> str:
    return os.path.basename(path).removesuffix(".json")


def _status(record: Facts) -> str:
    return _LIVE.get(str(record.get("status")), "idle")


def _title(facts: Facts, sidecar: str | None, copies: list[Facts]) -> str:
    """Return the best title known: the order of 2.1.332's picker, but the first prompt before the last.

    Entering a worktree was reported to name a session after it (2.1.223); then the generated
    title says more, and the folder holds that name already.
    """
    custom = facts.get("custom")
    if custom == facts.get("worktree") and "ai" in facts:
        custom = None
    candidates = [
        *(custom, sidecar, facts.get("further")),
        *(copy.get("custom") or copy.get("further") for copy in copies),
        *(facts.get(key) for key in ("ai", "first", "last")),
        # A summary in a file without messages is that of another session (seen in 2.0.76).
        *(facts.get(key) for key in ("summary", "command") if "start" in facts),
    ]
    return next(filter(None, candidates), "")


def _hidden(facts: Facts) -> str | None:
    if facts.get("sidechain"):
        return "subagent"
    if facts.get("entrypoint", "").startswith("sdk-"):
        return "sdk"
    # A last prompt in a file without any message is that of another session, which cannot be resumed here.
    said = facts.keys() & {"first", "model"} or {"last", "updated"} <= facts.keys()
    return None if said else "empty"
