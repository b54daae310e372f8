"""The daemon's life: one of it for a user, started in order, ended within two seconds."""

from __future__ import annotations

import fcntl
import logging
import logging.handlers
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from sessiond import __version__
from sessiond.apps import APPS
from sessiond.dirty import Dirty
from sessiond.indexer import Indexer
from sessiond.paths import exposure, is_private, locate, socket_path_problem
from sessiond.protocol import Problem
from sessiond.reconcile import Root
from sessiond.server import Server
from sessiond.service import Service
from sessiond.snapshot import Snapshots
from sessiond.watch import watcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessiond.paths import Paths

log = logging.getLogger(__name__)

SWITCH_INTERVAL = 0.0005
"""Seconds a busy thread keeps the interpreter: at the default of 5 ms an answer given while
transcripts are read takes up to 25 ms, at this 5 ms."""


def run(env: Mapping[str, str]) -> None:
    """Run the daemon for the user and home of *env* until it is told to stop.

    Raises Problem when it cannot start: ``refused`` for a folder that is not safely ours,
    ``unreachable`` for anything else.
    """
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_INTERVAL)
    paths = locate(env, os.getuid(), sys.platform, is_private)
    if problem := socket_path_problem(paths.socket, sys.platform):
        raise Problem(
            "unreachable", f"the socket cannot be made: {problem}", "set SESS_RUNTIME_DIR to a shorter folder"
        )
    for folder in (paths.state, paths.runtime, os.path.dirname(paths.log)):
        _make_private(folder)
    _log_to(paths.log)
    lock = _lock(paths)
    try:
        _serve(env, paths)
    finally:
        # Closed, never unlinked: a waiter would hold the lock of a file nobody else sees.
        os.close(lock)


def _serve(env: Mapping[str, str], paths: Paths) -> None:
    dirty = Dirty()
    roots = _roots(env)
    watches = [watch for root in roots for watch in root.app.watches(root.path)]
    watching = watcher(watches, dirty, lambda: indexer.request_reconcile())
    indexer = Indexer(roots, paths.index, dirty, watching)
    snapshots = Snapshots(paths.snapshots, paths.index, indexer)
    service = Service(indexer, watching, paths.index, lambda: server.stop())
    server = Server(paths.socket, service)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: server.stop())
    # Watching begins before the first reconcile: what changes in between is seen twice, not never.
    watching.start()
    indexer.start()
    snapshots.start()
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    log.info("sessiond %s serves %d roots", __version__, len(roots))
    server.run()
    watching.stop()
    snapshots.stop(0.5)
    service.close()
    indexer.stop(1.5)
    log.info("sessiond ends")


def _warm_up() -> None:
    """Import what the first relayed command needs, lest it wait the 60 ms that takes."""
    import sess.commands.find
    import sess.commands.show  # noqa: F401


def _roots(env: Mapping[str, str]) -> list[Root]:
    """Return every app's stores, each folder once however it is spelt."""
    roots: dict[tuple[str, str], Root] = {}
    for app in APPS.values():
        for path in app.roots(env):
            roots.setdefault((app.name, os.path.realpath(path)), Root(app, os.path.normpath(path)))
    return list(roots.values())


def _make_private(folder: str) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        problem = exposure(folder, os.getuid())
    except OSError as error:
        raise Problem("unreachable", f"{folder} cannot be made: {error.strerror}", "set SESS_STATE_DIR") from None
    if problem:
        raise Problem(
            "refused", f"the daemon would not be private: {problem}", f"chmod 700 {folder}, or set SESS_STATE_DIR"
        )


def _lock(paths: Paths) -> int:
    """Return the descriptor that holds the lock of this user's daemon; raises Problem when another has it."""
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 100, 0).decode("ascii", "replace").strip()
        os.close(lock)
        raise Problem("running", f"a daemon is running already ({holder})", "sess status") from None
    # Truncated only now that it is ours; the pid is for people, the lock is the truth.
    os.truncate(lock, 0)
    os.pwrite(lock, f"pid {os.getpid()}, version {__version__}\n".encode(), 0)
    return lock


def _log_to(path: str) -> None:
    """Log to the journal under systemd, else to a file that rotates; never titles or text."""
    handler: logging.Handler
    if "JOURNAL_STREAM" in os.environ:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    else:
        handler = logging.handlers.RotatingFileHandler(path, maxBytes=1 << 20, backupCount=2, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
