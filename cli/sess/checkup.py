"""What ``sess doctor`` looks at, one function for each thing."""

from __future__ import annotations

import os
import platform
import re
import stat
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from sess import client, manager, render, units
from sess.quoting import quoted
from sess.relay import daemon_pid
from sessiond import __version__, config
from sessiond.apps import APPS
from sessiond.paths import exposure, socket_path_problem
from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sess.front import Ask
    from sessiond.config import Config
    from sessiond.paths import Paths
    from sessiond.protocol import Answer

OK, WARNING, FAULT = "ok", "warning", "fault"

_STALE = 10 * 60_000
"""ms without a complete comparison with the disk, which takes place every 90 s, after which the indexer is stuck."""
_TRIES = 6
"""Times that a daemon is asked that is at work, each of which it has 5 s to answer."""
_ROOM = 1 << 20
"""Bytes that have to be free: a commit takes less."""
_LONG = 1000
"""Paths waiting to be looked at that are more than an agent at work causes."""
_WATCHES, _INSTANCES = "fs.inotify.max_user_watches", "fs.inotify.max_user_instances"
_QUEUE = "fs.inotify.max_queued_events"
_RAISED = {_WATCHES: 524_288, _INSTANCES: 1024, _QUEUE: 131_072}
"""What a limit is raised to at least. A watch takes about 1 kB of the kernel's memory."""
_HOOK = re.compile(r"^[^#\n]*\bsess init (bash|zsh|fish)\b", re.MULTILINE)


class Finding(NamedTuple):
    """What was found of one thing."""

    name: str
    state: str
    text: str
    command: str = ""
    """What to type next."""
    facts: Mapping[str, Any] = {}
    """What a bug report may say: no title, no name of a person or folder."""


def look(paths: Paths, env: Mapping[str, str], home: str, ask: Ask) -> Iterator[Finding]:
    """Yield what is found of everything, starting the daemon if it does not run."""
    yield _sess()
    yield from _folders(paths)
    yield _disk(paths)
    given = _config(paths, env, home)
    yield given
    yield _service(paths, env)
    try:
        answer = _patiently(paths, ask).ok
    except Problem as problem:
        yield Finding("daemon", FAULT, problem.message, problem.hint)
        answer = None
    yield _socket(paths, home)
    yield _lock(paths, answers=answer is not None)
    if answer is not None:
        yield from _daemon(answer, home)
        if given.state == OK:
            yield from _in_force(answer, paths, env, home)
    yield _shells(env, home)


def _sess() -> Finding:
    system, python = f"{platform.system()} {platform.release()}", platform.python_version()
    facts = {"version": __version__, "python": python, "system": system, "machine": platform.machine()}
    return Finding("sess", OK, f"{__version__}, with Python {python}, on {system}", facts=facts)


def _folders(paths: Paths) -> Iterator[Finding]:
    for folder in dict.fromkeys((paths.state, paths.runtime, os.path.dirname(paths.log))):
        try:
            problem = exposure(folder, os.getuid())
        except FileNotFoundError:
            continue  # the daemon makes it
        except OSError as error:
            problem = f"{folder}: {error.strerror}"
        if problem:
            yield Finding("folders", FAULT, problem, f"chmod 700 {quoted(folder)}")
            return
    yield Finding("folders", OK, "yours alone")


def _disk(paths: Paths) -> Finding:
    """Look whether the index could be written."""
    folder = paths.state
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return Finding("disk", FAULT, f"{folder}: {error.strerror}", f"ls -ld {quoted(folder)}")
    free = found.f_bavail * found.f_frsize
    writable = os.access(folder, os.W_OK | os.X_OK) and not found.f_flag & os.ST_RDONLY
    facts = {"free": free, "writable": writable}
    if not writable:
        text = f"{folder} cannot be written to: what changes is not noted"
        return Finding("disk", FAULT, text, f"findmnt --target {quoted(folder)}; ls -ld {quoted(folder)}", facts)
    if free < _ROOM or (found.f_files and not found.f_favail):
        text = f"{folder} is on a full disk ({render.size(free)} free): what changes is not noted"
        return Finding("disk", FAULT, text, f"df {quoted(folder)}", facts)
    return Finding("disk", OK, f"{render.size(free)} free", facts=facts)


def _config(paths: Paths, env: Mapping[str, str], home: str) -> Finding:
    try:
        given = config.load(paths.config, env.get("HOME") or "/").given
    except Problem as problem:
        return Finding("config", FAULT, problem.message, problem.hint)
    where = render.folder(paths.config, home)
    text = f"{where}: {', '.join(sorted(given)) or 'nothing'}" if os.path.exists(paths.config) else f"no {where}"
    return Finding("config", OK, text, facts={"given": sorted(given)})


def _service(paths: Paths, env: Mapping[str, str]) -> Finding:
    try:
        service = manager.choose(env)
    except Problem as problem:
        return Finding("service", OK, f"{problem.message}; the daemon starts on demand", facts={"manager": None})
    facts: dict[str, Any] = {"manager": service.name, "installed": False}
    try:
        if not service.serves(paths):
            text = f"{service.name} has none; the daemon starts on demand"
            return Finding("service", OK, text, "sess service install", facts)
        state = service.state()
        stale = service.stale(units.Units(client.DAEMON, units.environment(env, os.getuid()), paths))
    except Problem as problem:
        return Finding("service", FAULT, problem.message, problem.hint, facts)
    facts |= {**state._asdict(), "stale": stale}
    text = f"{service.name}: {state.words}"
    if state.active == "failed":
        return Finding("service", FAULT, text, "sess service logs; sess service restart", facts)
    if stale:
        return Finding("service", WARNING, f"{text}; of another installation or version", "sess service install", facts)
    if not state.enabled:
        return Finding("service", WARNING, text, "sess service install", facts)
    if state.active != "active":
        return Finding("service", WARNING, text, "sess service start", facts)
    return Finding("service", OK, text, facts=facts)


def _patiently(paths: Paths, ask: Ask) -> Answer:
    """Return what the daemon says of itself. Raises Problem when none answers, but not soon when it is at work."""
    for _ in range(_TRIES - 1):
        pid = daemon_pid(paths)
        worked = _worked(pid)
        try:
            return ask({"op": "doctor"})
        except Problem:
            if not worked or _worked(pid) == worked:
                raise
    return ask({"op": "doctor"})


def _worked(pid: int) -> list[str]:
    """Return the time that a process has computed; nothing where that cannot be told."""
    status = manager.read_file(f"/proc/{pid}/stat") or b""
    return os.fsdecode(status).rpartition(")")[2].split()[11:13]  # utime and stime, see proc(5)


def _socket(paths: Paths, home: str) -> Finding:
    where = render.folder(paths.socket, home)
    if problem := socket_path_problem(paths.socket, "darwin" if platform.system() == "Darwin" else "linux"):
        return Finding("socket", FAULT, problem, "export SESS_RUNTIME_DIR=…")
    try:
        found = os.lstat(paths.socket)
    except OSError as error:
        return Finding("socket", FAULT, f"{where}: {error.strerror}", "sess service restart")
    mode = stat.S_IMODE(found.st_mode)
    facts = {"mode": f"{mode:04o}", "own": found.st_uid == os.getuid(), "socket": stat.S_ISSOCK(found.st_mode)}
    text = f"{where}, mode {mode:04o}, user {found.st_uid}"
    if not facts["own"] or not facts["socket"]:
        return Finding("socket", FAULT, f"{text}: no socket of yours", f"rm {quoted(paths.socket)}", facts)
    if mode & 0o077:
        return Finding("socket", FAULT, f"{text}: open to others", f"chmod 600 {quoted(paths.socket)}", facts)
    return Finding("socket", OK, text, facts=facts)


def _lock(paths: Paths, *, answers: bool) -> Finding:
    pid = daemon_pid(paths)
    held = bool(pid)
    facts = {"held": held}
    if held == answers:
        return Finding("lock", OK, f"held by pid {pid}" if held else "free", facts=facts)
    if held:
        return Finding("lock", FAULT, f"held by pid {pid}, which does not answer", f"kill -9 {pid}", facts)
    text = "free, although a daemon answers: a second one could start"
    return Finding("lock", FAULT, text, "sess service restart", facts)


def overlooked(given: Config, env: Mapping[str, str], roots: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield agent and folder of each store that there is by *given* and *env*, and that is not among *roots*."""
    known = {os.path.realpath(root["path"]) for root in roots if root["state"] != "silent"}
    silent = {root["path"] for root in roots if root["state"] == "silent"}  # to follow links there may take for ever
    for app in APPS.values():
        for path in given.stores(app, env):
            if path not in silent and os.path.isdir(path) and os.path.realpath(path) not in known:
                yield app.name, path


def anew(paths: Paths, env: Mapping[str, str]) -> str:
    """Return the command that gives the daemon the variables of *env*."""
    return f"sess service {'install' if manager.installed(paths, env) else 'restart'}"


def _in_force(answer: Mapping[str, Any], paths: Paths, env: Mapping[str, str], home: str) -> Iterator[Finding]:
    """Compare what the daemon goes by with what would be read here and now."""
    given = config.load(paths.config, home)
    if given.as_json() != answer["config"]:
        yield Finding("config", WARNING, "it changed since the daemon read it", "sess service restart")
        return
    for app, path in overlooked(given, env, answer["roots"]):
        text = f"{app}: {render.folder(path, home)} is not looked into: the daemon was started with other variables"
        yield Finding("root", WARNING, text, anew(paths, env), {"app": app, "is": "overlooked"})


def _daemon(answer: Mapping[str, Any], home: str) -> Iterator[Finding]:
    now = time.time()
    versions = answer["versions"]
    names = {"python": "Python", "sqlite": "SQLite"}
    shown = ", ".join(f"{names.get(name, name)} {version}" for name, version in versions.items())
    started = render.ago(answer["started"], now)
    yield Finding(
        "daemon",
        OK,
        f"sessiond {answer['version']} (pid {answer['pid']}), started {started}; {shown}",
        facts={"version": answer["version"], "seconds": int(now - answer["started"] / 1000), **versions},
    )
    for root in answer["roots"]:
        yield _root(root, home)
    yield from _watches(answer)
    yield _reconcile(answer, now)
    yield _queue(answer)
    yield from _index(answer)
    yield _sessions(answer)
    yield _unreadable(answer, home)
    yield _slowest(answer, home)


def _root(root: Mapping[str, Any], home: str) -> Finding:
    facts = {"app": root["app"], "is": root["state"]}
    text = f"{root['app']}: {render.folder(root['path'], home)} is {root['state']}"
    if root["state"] == "unreadable":
        return Finding("root", FAULT, text, f"chmod -R u+rX {quoted(root['path'])}", facts)
    if root["state"] == "silent":
        return Finding(
            "root", FAULT, f"{text}: its file system does not answer", f"findmnt -T {quoted(root['path'])}", facts
        )
    if root["state"] == "polled":
        return Finding("root", WARNING, f"{text}: changes are seen after up to 5 s", facts=facts)
    return Finding("root", OK, text, facts=facts)


def _watches(answer: Mapping[str, Any]) -> Iterator[Finding]:
    limits, polled = answer["limits"], answer["folders_polled"]
    most = f" of {limits[_WATCHES]:,}" if _WATCHES in limits else ""
    facts = {"watched": answer["folders_watched"], "polled": polled, **limits}
    text = f"{render.count(answer['folders_watched'], 'folder')} watched{most}, {polled:,} polled"
    reason = answer["watch_problem"]
    if not polled and not reason:
        yield Finding("watches", OK, text, facts=facts)
    else:
        name = _INSTANCES if "instance" in reason else _WATCHES
        command = _sysctl(name, limits) if "limit" in reason or "instance" in reason else ""
        yield Finding("watches", WARNING, f"{text}: {reason or 'no events from there'}", command, facts)
    lost = answer["lost"]
    if lost:
        text = f"lost {render.count(lost, 'time')}; everything was compared with the disk each time"
        overflows = answer["overflows"]
        command = _sysctl(_QUEUE, limits) if overflows else ""
        yield Finding("events", WARNING if overflows else OK, text, command, {"lost": lost, "overflows": overflows})
    else:
        yield Finding("events", OK, "none lost", facts={"lost": 0})


def _sysctl(name: str, limits: Mapping[str, int]) -> str:
    """Return the command that raises a limit of the kernel; nothing where there are none."""
    return f"sudo sysctl {name}={max(_RAISED[name], 2 * limits[name])}" if name in limits else ""


def _reconcile(answer: Mapping[str, Any], now: float) -> Finding:
    progress, last = answer["progress"], answer["reconciled"]
    age = int(now * 1000) - last if last else None
    facts = {"seconds": age // 1000 if age is not None else None, "progress": progress}
    if age is not None and age > _STALE:
        text = f"last compared with the disk {render.ago(last, now)}: the indexer does not go on"
        return Finding("reconcile", FAULT, text, "sess service restart", facts)
    if progress:
        text = f"still reading: {progress['done']:,} of {progress['of']:,} files"
    else:
        text = f"compared with the disk {render.ago(last, now)}" if last else "not yet compared with the disk"
    return Finding("reconcile", OK, text, facts=facts)


def _queue(answer: Mapping[str, Any]) -> Finding:
    queue = answer["queue"]
    state = WARNING if queue > _LONG and not answer["progress"] else OK
    command = "sess service logs" if state == WARNING else ""
    return Finding("queue", state, f"{queue:,} waiting", command, {"waiting": queue})


def _index(answer: Mapping[str, Any]) -> Iterator[Finding]:
    text = f"{render.size(answer['index_bytes'])}, schema {answer['schema']}"
    facts = {"bytes": answer["index_bytes"], "schema": answer["schema"], "whole": not answer["integrity"]}
    if answer["integrity"]:
        yield Finding("index", FAULT, f"{text}, damaged: {answer['integrity']}", "sess reindex", facts)
    else:
        yield Finding("index", OK, f"{text}, whole", facts=facts)
    if answer["trouble"]:
        yield Finding("index", FAULT, answer["trouble"], "sess service logs")
    if answer["rebuilt"]:
        yield Finding("index", WARNING, f"it was set aside and built again: {answer['rebuilt']}", "sess service logs")


def _sessions(answer: Mapping[str, Any]) -> Finding:
    sessions, hidden = answer["sessions"], answer["hidden"]
    number = sum(sessions.values())
    text = f"{render.count(number, 'session')}{render.by_name(sessions)}"
    text += f", {sum(hidden.values()):,} hidden{render.by_name(hidden)}"
    facts = {"sessions": sessions, "hidden": hidden}
    if not number and not answer["progress"]:
        return Finding("sessions", WARNING, text, "sess config", facts)
    return Finding("sessions", OK, text, facts=facts)


def _unreadable(answer: Mapping[str, Any], home: str) -> Finding:
    reasons, path = answer["unreadable_reasons"], answer["unreadable_path"]
    text = f"{render.count(answer['unreadable'], 'file')} unreadable{render.by_name(reasons)}"
    facts = {"read": answer["units"], "unreadable": reasons}
    if not reasons:
        return Finding("files", OK, text, facts=facts)
    return Finding("files", WARNING, f"{text}: {render.folder(path, home)}", f"ls -l {quoted(path)}", facts)


def _slowest(answer: Mapping[str, Any], home: str) -> Finding:
    slowest = answer["slowest"]
    facts = {"slowest": [{key: read[key] for key in ("app", "ms", "bytes")} for read in slowest]}
    if not slowest:
        return Finding("reads", OK, "none since the daemon started", facts=facts)
    first = slowest[0]
    text = f"the slowest took {first['ms']:,.0f} ms for {render.size(first['bytes'])}"
    return Finding("reads", OK, f"{text}: {render.folder(first['path'], home)}", facts=facts)


def _shells(env: Mapping[str, str], home: str) -> Finding:
    zsh, fish = env.get("ZDOTDIR") or home, (env.get("XDG_CONFIG_HOME") or home + "/.config") + "/fish"
    files = [f"{home}/{name}" for name in (".bashrc", ".bash_profile", ".profile")]
    files += [f"{zsh}/{name}" for name in (".zshrc", ".zprofile")]
    files.append(f"{fish}/config.fish")
    if os.path.isdir(fish + "/conf.d"):
        files += [f"{fish}/conf.d/{name}" for name in sorted(os.listdir(fish + "/conf.d")) if name.endswith(".fish")]
    found: dict[str, None] = {}
    for path in files:
        content = manager.read_file(path) or b""
        found |= dict.fromkeys(_HOOK.findall(content.decode("utf-8", "replace")))
    facts = {"shells": list(found)}
    if found:
        return Finding("shell", OK, f"set up for {', '.join(found)}", facts=facts)
    return Finding("shell", OK, "no start file of a shell uses `sess init`", "sess init --help", facts)
