"""``sess service``: the daemon as a login service."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from sess import client, manager, relay, render, units
from sess.front import NotRunning
from sess.options import Parser
from sess.quoting import quoted
from sessiond import __version__, config
from sessiond.protocol import DONE, NOTHING, PROTOCOL, UNREACHABLE, Problem
from sessiond.text import clean, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sess.front import Call
    from sess.manager import Manager
    from sessiond.paths import Paths

_DESCRIPTION = """\
Look after the daemon as a login service, by systemd or launchd.

  install     write the units, start them now and at every login
  uninstall   stop and remove all but the index
  start, stop, restart
  status      what the service manager says of it; so without an action
  logs        what the daemon says

Without a service the daemon starts when a search needs it, and runs until
`sess stop` or the next boot.
"""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``service``."""
    parser = Parser("service", f"[{'|'.join(_ACTIONS)}]", _DESCRIPTION, count=None)
    add = parser.add_argument
    add("--harden", action="store_true", help="with install: also the options that need a user namespace")
    add("--purge", action="store_true", help="with uninstall: the index too")
    add("-f", "--follow", action="store_true", help="with logs: go on showing")
    return parser


def run(call: Call) -> int:
    """Do what the action says."""
    action = " ".join(call.operands) or "status"
    if action not in _ACTIONS:
        near = nearest(action, _ACTIONS)
        meant = f"Did you mean `sess service {near}`? " if near else ""
        raise Problem("usage", f"service: there is no action {action}", f"{meant}There are: {' '.join(_ACTIONS)}.")
    for option, its in (("harden", "install"), ("purge", "uninstall"), ("follow", "logs")):
        if getattr(call.options, option) and action != its:
            raise Problem("usage", f"service: --{option} goes with {its}", "`sess service --help` says more.")
    return _ACTIONS[action](call, relay.paths())


def _install(call: Call, paths: Paths) -> int:
    service = manager.choose(os.environ)
    variables = units.environment(os.environ, os.getuid())
    for name in units.OURS:
        if os.environ.get(name, "/")[:1] not in ("/", ""):
            raise Problem("usage", f"{name} is no absolute path: {os.environ[name]}", "Set it to one, or unset it.")
    _check_owner(service.variables(), paths)
    _check(paths)
    client.make_folders(paths)
    changed = service.write(units.Units(client.DAEMON, variables, paths), harden=call.options.harden)
    _say(call, (f"{service.name}: wrote {render.folder(path, call.context.home)}" for path in changed))
    with client.startup_lock(paths):
        state = service.state()
        own = bool(state.pid) and relay.daemon_pid(paths) == state.pid
        if changed or not (own and state.enabled and _version(paths) == __version__):
            # One that hangs is replaced by the manager, if it is the manager's own.
            if not own and (version := _end(call, paths)):
                _say(call, [f"the daemon that ran on demand (sessiond {version}) handed over"])
            _begin(service, changed, paths, harden=call.options.harden)
        else:
            _say(call, ["nothing to change"])
    _say(call, (f"{name}={value}, as here" for name, value in variables.items()))
    _say(call, [f"sessiond {__version__} runs (pid {service.state().pid}), answers, and starts at every login"])
    return DONE


def _uninstall(call: Call, paths: Paths) -> int:
    home = call.context.home
    with contextlib.ExitStack() as held:
        if os.path.isdir(paths.runtime):
            held.enter_context(client.startup_lock(paths))
        removed, why = _withdraw(paths, home)
        _end(call, paths)
        shutil.rmtree(paths.snapshots, ignore_errors=True)
        indexes = glob.glob(glob.escape(paths.index) + "*")
        ours = [paths.socket, paths.lock, f"{paths.runtime}/startup.lock"]
        for path in (paths.log, f"{paths.state}/open.json"):
            ours += glob.glob(glob.escape(path) + "*")
        removed += manager.remove_files([*ours, *(indexes if call.options.purge else ())], home)
        for folder in (paths.runtime, paths.state):
            # Also where they are not below the home, as /run/user/1000/sess.
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    _say(call, (f"removed {render.folder(path, home)}" for path in removed))
    if not call.options.purge and indexes:
        _say(call, [f"the index stays: {render.folder(paths.index, home)} (`sess service uninstall --purge`)"])
    if why:
        # Who asked for an end of the service must not believe that it has ended.
        call.emit(2, f"sess: the service may still run: {clean(why)}\n")
        call.emit(2, "Its files are gone, so that it ends for good at the next boot, or when nobody is logged in.\n")
        return NOTHING
    _say(call, ["no service is installed; the next search starts the daemon on demand"])
    return DONE


def _withdraw(paths: Paths, home: str) -> tuple[list[str], str]:
    """Stop the service and remove its files; return their paths, and why the manager did not do its part."""
    try:
        service = manager.choose(os.environ)
        _check_owner(service.variables(), paths)
        return service.remove(), ""
    except Problem as problem:
        if problem.code == "refused":
            raise
        left, variables = manager.left(os.environ)
        _check_owner(variables, paths)
        return manager.remove_files(left, home), problem.message if left else ""


def _start(call: Call, paths: Paths) -> int:
    service = manager.installed(paths, os.environ)
    if service:
        client.make_folders(paths)
        service.start()
        _answer(paths)
    else:
        client.ensure(paths)
    _say(call, [f"sessiond {client.running(paths)} runs{_by(service)}"])
    return DONE


def _stop(call: Call, paths: Paths) -> int:
    service = manager.installed(paths, os.environ)
    if service:
        service.stop()
    _end(call, paths)
    _say(call, [f"the daemon is stopped; the next search{', or login,' if service else ''} starts it"])
    return DONE


def _restart(call: Call, paths: Paths) -> int:
    _check(paths)
    service = manager.installed(paths, os.environ)
    if service:
        client.make_folders(paths)
        service.restart()
        _answer(paths)
    else:
        _end(call, paths)
        client.ensure(paths)
    _say(call, [f"sessiond {client.running(paths)} runs{_by(service)}"])
    return DONE


def _status(call: Call, paths: Paths) -> int:
    service = manager.installed(paths, os.environ)
    if service is None:
        pid = relay.daemon_pid(paths) if _version(paths) else 0
        how = f"runs on demand (pid {pid})" if pid else "is not running, and starts when it is needed"
        try:
            manager.choose(os.environ)
        except Problem as none:
            _say(call, [f"{none.message}; the daemon {how}"])
            return UNREACHABLE
        _say(call, [f"no service is installed; the daemon {how}", "`sess service install` has it start at login"])
        return UNREACHABLE
    state = service.state()
    _say(call, [f"{service.name}: {state.words}"])
    if state.active != "active":
        _say(call, ["`sess service start` starts it; `sess service logs` says what it did"])
        return UNREACHABLE
    return DONE


def _logs(call: Call, paths: Paths) -> int:
    follow = call.options.follow
    service = manager.installed(paths, os.environ)
    command = service.log_command(follow=follow) if service else None
    if command is None:
        if not os.path.exists(paths.log):
            hint = f"The daemon has not run: any search starts it. {service.log_hint if service else ''}".rstrip()
            raise Problem("nothing", "there is no log yet", hint)
        command = ["tail", "-n", "200", *(["-F"] if follow else []), paths.log]
    try:
        os.execvp(command[0], command)  # noqa: S606 - there is no shell, on purpose
    except OSError as error:
        raise Problem("unreachable", f"{command[0]} cannot be run: {error.strerror}", "Put it on your PATH.") from None


_ACTIONS: dict[str, Callable[[Call, Paths], int]] = {
    "install": _install,
    "uninstall": _uninstall,
    "start": _start,
    "stop": _stop,
    "restart": _restart,
    "status": _status,
    "logs": _logs,
}


def _check(paths: Paths) -> None:
    """Raise Problem when a new daemon could not run: the one that does had better stay."""
    config.load(paths.config, os.environ.get("HOME") or "/")
    command = [*client.DAEMON, "--version"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", cwd="/", check=False)  # noqa: S603
    if done.stdout != f"sessiond {__version__}\n":
        why = manager.last_line((done.stderr or done.stdout).splitlines())
        raise Problem(
            "unreachable",
            f"this installation has no daemon that can run: {why}",
            "Install sess with pipx, uv or pip; the command was: " + " ".join(map(quoted, command)),
        )


def _check_owner(variables: Mapping[str, str] | None, paths: Paths) -> None:
    """Raise Problem when the service that sets *variables* is that of another index than *paths*."""
    if variables is None:
        return
    there = units.place(variables, os.getuid())
    if os.path.realpath(there.state) == os.path.realpath(paths.state):
        return
    changes: dict[str, str | None] = {name: None for name in units.OURS if name in os.environ}
    changes |= {"HOME": pwd.getpwuid(os.getuid()).pw_dir, **variables}
    words = [f"-u {name}" for name, value in changes.items() if value is None]
    words += [f"{name}={quoted(value)}" for name, value in changes.items() if value is not None]
    raise Problem(
        "refused",
        f"the service that is installed keeps another index, in {there.state}; that of here is in {paths.state}",
        f"To have this one instead, first remove that one: env {' '.join(words)} sess service uninstall",
    )


def _begin(service: Manager, changed: list[str], paths: Paths, *, harden: bool) -> None:
    """Start the service; without the stronger options when it does not start with them. Raises Problem."""
    try:
        service.begin(changed)
        _answer(paths)
    except Problem:
        if not harden:
            raise
        service.soften()
        service.begin(changed)
        _answer(paths)
        raise Problem(
            "unreachable",
            "the service does not start with --harden: this system may deny user namespaces to ordinary users",
            "It runs without.",
        ) from None


def _version(paths: Paths) -> str:
    """Return the version of the daemon that answers, ``""`` when none does."""
    try:
        return client.running(paths)
    except Problem:
        return ""


def _end(call: Call, paths: Paths) -> str:
    """Have the daemon end, if there is one, and wait for that; return its version, ``""`` when none answered."""
    version = ""
    try:
        version = client.running(paths)
        client.ask(paths, {"v": PROTOCOL, "op": "stop"})
    except NotRunning:
        return version
    except Problem:
        # The lock is the truth: whoever holds it is the daemon, unless its number is one of another container.
        pid = relay.daemon_pid(paths)
        if not pid or b"sessiond" not in (manager.read_file(f"/proc/{pid}/cmdline") or b"sessiond"):
            raise
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _say(call, [f"the daemon did not answer, and was killed (pid {pid})"])
    client.wait_for_lock(paths, time.monotonic() + client.START)
    return version


def _answer(paths: Paths) -> None:
    """Wait until a daemon of this version answers. Raises Problem when none does."""
    for _ in client.until(time.monotonic() + client.START):
        if client.running(paths) == __version__:
            return
    raise Problem("unreachable", "the service was started, and does not answer", "`sess service logs` may say why.")


def _by(service: Manager | None) -> str:
    return f", by {service.name}" if service else " on demand; no service is installed"


def _say(call: Call, lines: Iterable[str]) -> None:
    call.emit(1, "".join(clean(line) + "\n" for line in lines))
