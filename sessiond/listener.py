"""The socket that clients connect to: bound by the daemon, or passed on by a service manager that looks after it."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import struct
import sys
import time

from sessiond.paths import clear_place, identity

log = logging.getLogger(__name__)

BACKLOG = 1024
"""Connections the kernel holds for us: with 128, the 128th connect to a stopped daemon blocks for ever."""
SOCKET = 0o140000
"""The kind of file that a socket is."""
SWEPT = 86_400.0
"""Seconds in which no cleaner of temporary folders takes a file that was touched; the shortest known is 3 days."""


class Listener:
    """A listening Unix socket at a path."""

    def __init__(self, path: str, inherited: socket.socket | None = None) -> None:
        """Bind *path*, removing what is left there: the caller holds the lock. Raises OSError.

        Or use the *inherited* socket, which somebody else bound there and looks after.
        """
        self.path = path
        self._inherited = inherited
        self._folder = identity(os.path.dirname(path))
        self.socket = inherited or self._bind()
        self.socket.setblocking(False)
        self._file = identity(path)

    def _bind(self) -> socket.socket:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        clear_place(self.path, SOCKET)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        bound.bind(self.path)
        os.chmod(self.path, 0o600)
        bound.listen(BACKLOG)
        return bound

    def accept(self) -> socket.socket:
        """Return the next connection; those of other users, root excepted, are closed unread.

        Raises BlockingIOError when there is none now, another OSError when none can be accepted.
        """
        while True:
            accepted, _ = self.socket.accept()
            if _peer(accepted)[1] in (os.getuid(), 0):
                accepted.setblocking(False)
                return accepted
            accepted.close()

    def reachable(self) -> bool:
        """Return whether clients find this socket at its path, where it may be gone or another's."""
        if self._file is None or identity(self.path) != self._file:
            return False
        with contextlib.suppress(OSError):  # read-only by now, or swept this moment
            if os.stat(self.path).st_mtime < time.time() - SWEPT:
                os.utime(self.path)
        return True

    def renew(self) -> None:
        """Bind the path again: clients would never reach us (atuinsh/atuin#4115).

        Raises OSError when that cannot be, or had better not: with its folder the lock is gone too, and another
        daemon may run; an inherited socket is not ours to bind. In both cases the next daemon starts better.
        """
        if self._inherited or identity(os.path.dirname(self.path)) != self._folder:
            raise OSError(errno.ESTALE, "the socket at which clients look is another one")
        log.warning("the socket file vanished; binding again")
        self.socket.close()
        self.socket = self._bind()
        self.socket.setblocking(False)
        self._file = identity(self.path)

    def release(self) -> bool:
        """Let new clients find nobody, and return whether those that wait to be accepted are still ours to answer.

        At an inherited socket the next daemon answers them.
        """
        if self._inherited:
            return False
        if self.reachable():
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        return True


def own(connected: socket.socket) -> bool:
    """Return whether this process itself is at the other end, which only Linux tells."""
    return _peer(connected)[0] == os.getpid()


def _peer(connected: socket.socket) -> tuple[int, int]:
    """Return the ids of the process at the other end and of its user, -1 for what cannot be told."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, uid, _ = struct.unpack("3i", credentials)
            return pid, uid
        if sys.platform == "darwin":
            # struct xucred of <sys/ucred.h>: version, uid, …; LOCAL_PEERCRED is 1 at level 0.
            return -1, struct.unpack_from("II", connected.getsockopt(0, 1, 76))[1]
    except OSError:
        pass
    return -1, -1
