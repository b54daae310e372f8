"""The daemon's life: one of it for a user, started in order, ended within two seconds."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import functools
import logging
import os
import signal
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING

import apsw

from sessiond import __version__, systemd
from sessiond.apps import APPS
from sessiond.apps._sqlite import remove_copies
from sessiond.config import load
from sessiond.dirty import Dirty
from sessiond.indexer import Indexer
from sessiond.listener import Listener
from sessiond.log import set_up
from sessiond.paths import is_private, locate, make_private, socket_path_problem
from sessiond.patience import Patience
from sessiond.protocol import Problem
from sessiond.reconcile import Root
from sessiond.server import Server
from sessiond.service import Service
from sessiond.session import Changes
from sessiond.snapshot import Snapshots
from sessiond.stores import SILENCE
from sessiond.watch import watcher

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, MutableMapping

    from sessiond.config import Config
    from sessiond.paths import Paths

log = logging.getLogger(__name__)

SWITCH_INTERVAL = 0.0005
"""Seconds a busy thread keeps the interpreter: at the default of 5 ms an answer given while
transcripts are read takes up to 25 ms, at this 5 ms."""


HAND_OVER = 5.0
"""Seconds that a daemon has to end for the one that a service manager started."""
_WRITABLE = "Make its folder writable and leave 1 MB free there, or set SESS_STATE_DIR to another."
PROBED = 0.5
"""Seconds after which the lock is another daemon's for certain: a client that looks holds it for a moment."""


def run(env: MutableMapping[str, str]) -> None:
    """Run the daemon for the user and home of *env* until it is told to stop.

    Raises Problem when it cannot start: ``refused`` for a folder that is not safely ours, ``usage``
    for a mistake in the configuration, ``unreachable`` for anything else.
    """
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_INTERVAL)
    # Where a hang or a crash of the interpreter was; the watchdog ends us with SIGABRT.
    with contextlib.suppress(OSError, ValueError):
        faulthandler.enable()
    paths = locate(env, os.getuid(), sys.platform, is_private)
    if problem := socket_path_problem(paths.socket, sys.platform):
        raise Problem("unreachable", f"the socket cannot be made: {problem}", "Set SESS_RUNTIME_DIR to a shorter path.")
    for folder in (paths.state, paths.runtime, os.path.dirname(paths.log)):
        _make_private(folder)
    try:
        set_up(paths.log, env)
    except OSError as error:
        raise Problem("unreachable", f"{paths.log} cannot be written: {error.strerror}", _WRITABLE) from None
    try:
        inherited = systemd.inherited(env)
        config = load(paths.config, env.get("HOME") or "/")
        lock = _lock(paths, HAND_OVER if inherited else PROBED)
    except Problem as refusal:
        # Under launchd nobody reads what goes to stderr.
        log.error("%s", refusal.message)
        raise
    try:
        _serve(env, paths, config, inherited)
    except apsw.Error as error:
        # Set aside it is only when it is damaged: what was deleted stands nowhere else.
        log.error("the index cannot be used: %s", error)
        raise Problem("unreachable", f"{paths.index} cannot be used: {error}", _WRITABLE) from None
    except OSError as error:
        log.exception("the daemon ends")
        raise Problem("unreachable", f"the daemon cannot go on: {error}", _WRITABLE) from None
    finally:
        # Closed, never unlinked: a waiter would hold the lock of a file nobody else sees.
        os.close(lock)


class Core:
    """What one configuration holds for: watching, indexing, the files for the prompt, answering."""

    def __init__(
        self,
        env: Mapping[str, str],
        paths: Paths,
        config: Config,
        stop: Callable[[], None],
        changed: Callable[[Changes], None],
    ) -> None:
        """Prepare it; *stop* ends the daemon, *changed* is told of every commit."""
        dirty = Dirty()
        roots = _roots(env, config)
        watches = [watch._replace(store=root.path) for root in roots for watch in root.app.watches(root.path)]
        self._watching = watcher(watches, dirty, lambda: self._indexer.request_reconcile())
        self._indexer = Indexer(roots, paths.index, dirty, self._watching, config)
        self._indexer.listen(changed)
        self._snapshots = Snapshots(paths.snapshots, paths.index, self._indexer, config)
        self.service = Service(self._indexer, self._watching, paths.index, stop, config)

    def start(self) -> None:
        """Begin to index, which begins with watching, and to write the files for the prompt."""
        self._indexer.start()
        self._snapshots.start()
        log.info("sessiond %s serves %d roots", __version__, len(self._indexer.stores.roots))

    def stop(self) -> bool:
        """End it; return whether the indexer ended in time."""
        self._snapshots.stop(0.5)
        self.service.close()
        ended = self._indexer.stop(1.5)
        self._watching.stop()
        return ended


def _serve(env: MutableMapping[str, str], paths: Paths, config: Config, inherited: socket.socket | None) -> None:
    core = Core(env, paths, config, lambda: server.stop(), lambda changes: server.changed(changes))
    listener = Listener(inherited.getsockname() if inherited else paths.socket, inherited)
    server = Server(listener, core.service)
    heartbeat = systemd.Heartbeat(env, listener.path)

    def reload() -> None:
        nonlocal core
        try:
            config = load(paths.config, env.get("HOME") or "/")
        except Problem as problem:
            log.error("not reloaded: %s", problem.message)
            core.service.note(f"not reloaded: {problem.message}")
            return
        if not core.stop():
            # It hangs in a file system, say. Two must not write; the next daemon will have the configuration.
            log.error("not reloaded: the indexer does not end")
            server.stop()
            return
        core = Core(env, paths, config, lambda: server.stop(), lambda changes: server.changed(changes))
        server.service = core.service
        server.changed(Changes(frozenset(), frozenset(), everything=True))
        core.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    # SIGHUP is word of a closed terminal to what runs in one.
    in_terminal = os.isatty(0)
    signal.signal(signal.SIGHUP, lambda *_: server.stop() if in_terminal else server.post(reload))
    core.start()
    heartbeat.start()
    threading.Thread(target=_after_start, name="after-start", daemon=True).start()
    server.run()
    heartbeat.stop()
    core.stop()
    log.info("sessiond ends")


def _after_start() -> None:
    """Remove what a kill left, and import what the first relayed command needs, lest it wait the 60 ms that takes."""
    remove_copies()
    import sess.commands.find
    import sess.commands.show  # noqa: F401


def _roots(env: Mapping[str, str], config: Config) -> list[Root]:
    """Return every app's stores, each folder once however it is spelt, if its file system answers."""
    roots: dict[tuple[str, str], Root] = {}
    patience = Patience()
    for app in APPS.values():
        for path in config.stores(app, env):
            try:
                real = patience.within(SILENCE, path, functools.partial(os.path.realpath, path))
            except TimeoutError:
                real = path
            roots.setdefault((app.name, real), Root(app, os.path.normpath(path)))
    return list(roots.values())


def _make_private(folder: str) -> None:
    try:
        problem = make_private(folder, os.getuid())
    except OSError as error:
        hint = "Set SESS_STATE_DIR to a folder that can be."
        raise Problem("unreachable", f"{folder} cannot be made: {error.strerror}", hint) from None
    if problem:
        from sess.quoting import quoted

        hint = f"Make it yours alone (chmod 700 {quoted(folder)}), or set SESS_STATE_DIR to another."
        raise Problem("refused", f"the daemon would not be private: {problem}", hint)


def _lock(paths: Paths, patience: float) -> int:
    """Return the descriptor that holds the lock of this user's daemon; raises Problem when another has it.

    With more *patience* than it takes to be certain of that, the other one is told to end: clients
    connect to the socket that a service manager gave to us.
    """
    try:
        lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Problem("unreachable", f"{paths.lock} cannot be opened: {error.strerror}", _WRITABLE) from None
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise Problem("unreachable", f"{paths.lock} cannot be opened: it is no file", "Move it away.")
    began = time.monotonic()
    told = patience <= PROBED
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            waited = time.monotonic() - began
            holder = os.pread(lock, 100, 0).decode("ascii", "replace").strip()
            if waited > patience:
                os.close(lock)
                raise Problem(
                    "running", f"a daemon is running already ({holder})", "`sess status` says how it is."
                ) from None
            if waited > PROBED and not told:
                told = True
                _tell_to_end(holder)
            time.sleep(0.02)
    # Truncated only now that it is ours; the pid is for people, the lock is the truth.
    os.truncate(lock, 0)
    os.pwrite(lock, f"pid {os.getpid()}, version {__version__}\n".encode(), 0)
    return lock


def _tell_to_end(holder: str) -> None:
    """End the process of which the lock says that it is the daemon, if it looks like one."""
    pid = holder.removeprefix("pid ").partition(",")[0]
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{int(pid)}/cmdline", "rb") as words:
        if b"sessiond" in words.read():
            os.kill(int(pid), signal.SIGTERM)
