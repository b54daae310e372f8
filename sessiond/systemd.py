"""What systemd passes to the daemon, and what the daemon tells it: a socket, readiness, signs of life.

Each is a few bytes (sd_listen_fds(3), sd_notify(3)); outside systemd all of it does nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

from sessiond.protocol import PROTOCOL, Problem

if TYPE_CHECKING:
    from collections.abc import MutableMapping

log = logging.getLogger(__name__)

_FIRST = 3
"""The descriptor of the first socket that is passed."""
_PATIENCE = 10.0
"""Seconds for an answer when systemd sets no time of its own."""
_REQUEST = b'{"v":%d,"op":"find","limit":1}\n' % PROTOCOL
"""What the daemon asks itself: it takes the serving thread, and a read of the index, to answer."""


def inherited(environ: MutableMapping[str, str]) -> socket.socket | None:
    """Return the listening socket that this process was started with, None when it was not.

    Takes what says so out of *environ*, lest a child believes it. Raises Problem when it is
    not one Unix stream socket.
    """
    pid, number = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()):
        return None
    found = None
    if number == "1":
        # It comes inheritable, and the processes that the daemon starts have no use for it.
        os.set_inheritable(_FIRST, False)
        with contextlib.suppress(OSError):
            found = socket.socket(fileno=_FIRST)
    if found and (found.family, found.type) == (socket.AF_UNIX, socket.SOCK_STREAM):
        return found
    raise Problem(
        "usage",
        "the daemon was not given one Unix stream socket to listen on",
        "See systemd/sessiond.socket; `sess service install` writes it anew.",
    )


class Heartbeat:
    """Tells systemd that the daemon is ready, and then that it lives: each time when it has answered a request.

    A thread that only says so would go on while nothing is served (atuinsh/atuin#4114).
    """

    def __init__(self, environ: MutableMapping[str, str], path: str) -> None:
        """Ask at the socket at *path*. Takes the variables of sd_notify(3) out of *environ*."""
        self._path = path
        self._address = environ.pop("NOTIFY_SOCKET", "")
        usec, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", str(os.getpid()))
        self._pause = int(usec) / 3e6 if usec.isdecimal() and pid == str(os.getpid()) else 0.0
        self._stopping = threading.Event()

    @property
    def supervised(self) -> bool:
        """Whether systemd wants to be told."""
        return bool(self._address)

    def start(self) -> None:
        """Begin."""
        if self.supervised:
            threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Say that the daemon is about to end."""
        self._stopping.set()
        self.tell("STOPPING=1")

    def tell(self, message: str) -> None:
        """Send *message* to systemd, if there is one; never raises."""
        if not self.supervised:
            return
        # "@" stands for the NUL with which the name of an abstract socket begins.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(1)
                sender.sendto(message.encode(), address)
        except OSError as error:
            log.error("systemd cannot be told %s: %s", message, error.strerror)

    def _run(self) -> None:
        while not self._served():
            if self._stopping.wait(0.1):
                return
        self.tell("READY=1")
        while self._pause and not self._stopping.wait(self._pause):
            if self._served():
                self.tell("WATCHDOG=1")
            else:
                log.error("a request of the daemon's own was not answered")

    def _served(self) -> bool:
        """Return whether a request was answered; an error is an answer."""
        answer = b""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(self._pause or _PATIENCE)
                connection.connect(self._path)
                connection.sendall(_REQUEST)
                while not answer.endswith(b"\n"):
                    data = connection.recv(1 << 16)
                    if not data:
                        return False
                    answer += data
        except OSError:
            return False
        return True
