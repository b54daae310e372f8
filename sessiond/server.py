"""The socket: one thread reads requests and writes answers for every connection.

Answers from the index take well under a millisecond and are given in this thread. What may
wait (a file to read, a reconcile to finish) runs in a thread of its own, so that a folder
that hangs holds up nobody else.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING

from sessiond.connection import Connection
from sessiond.dialects import event_lines, refusal, respond
from sessiond.follow import Followers
from sessiond.listener import own
from sessiond.protocol import output_frame
from sessiond.service import Blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessiond.follow import Follower
    from sessiond.listener import Listener
    from sessiond.service import Service
    from sessiond.session import Changes

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 1000
"""Connections at one time; what the daemon asks itself, to know that it lives, comes on top."""
MAX_WORKERS = 16
"""Requests that wait at one time; the next ones wait their turn."""
MAX_UNREAD = 1 << 20
"""Bytes of answers that a client has not read yet, from which on its next request has to wait."""
TURN = 0.002
"""Seconds for which one connection's requests are answered while others wait."""
SWEEP = 1.0
"""Seconds between two looks for connections past their deadline."""
SIGN_OF_LIFE = output_frame(2, b"")
"""Sent every ``SWEEP`` to a client whose command takes its time, which would think us hung."""
HOUSEKEEPING = 5.0
"""Seconds between two looks at the socket file: less than a client waits for a daemon that it cannot reach."""
FINISH = 0.5
"""Seconds for clients that have connected to get an answer when the daemon ends."""


class Server:
    """Serves a listening Unix socket until `stop`."""

    def __init__(self, listener: Listener, service: Service) -> None:
        """Serve who connects to *listener*."""
        self._listener = listener
        self.service = service
        """Who answers the requests from now on."""
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, Connection] = {}
        self._workers = 0
        self._waiting: collections.deque[Callable[[], None]] = collections.deque()
        self._results: collections.deque[Callable[[], None]] = collections.deque()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ, self._on_wake)
        self._followers: Followers[Connection] = Followers(lambda: self.post(self._publish))
        self._stopping = False
        self._resting = True
        """The listener is not watched, until the next sweep."""
        self._rise()

    def stop(self) -> None:
        """End `run` after the events at hand. May be called from any thread and from a signal handler."""
        self._stopping = True
        self._wake()

    def changed(self, changes: Changes) -> None:
        """Take word of what a commit changed, for those who follow. May be called from any thread."""
        self._followers.add(changes)

    def run(self) -> None:
        """Serve until `stop`, then answer who has connected already, and leave the socket to the next daemon."""
        housekeeping = sweep = time.monotonic()
        while not self._stopping:
            now = time.monotonic()
            if now >= sweep:
                sweep = now + SWEEP
                self._rise()
                if self._waiting:
                    self._in_worker(self._waiting.popleft())
                for connection in list(self._connections.values()):
                    if connection.deadline and now > connection.deadline:
                        self._close(connection)
                    elif connection.busy and connection.relay:
                        self._send(connection, SIGN_OF_LIFE)
            if now >= housekeeping:
                housekeeping = now + HOUSEKEEPING
                self._keep_house()
            for key, mask in self._selector.select((sweep if self._connections else housekeeping) - now):
                self._handle(key.data, mask)
        self._rest()
        if self._listener.release():
            self._on_connect(selectors.EVENT_READ)
        self._listener.socket.close()
        self._finish()
        for connection in list(self._connections.values()):
            self._close(connection)

    def _finish(self) -> None:
        """Answer, for a short while, what clients that have connected are asking: the next daemon does not know it.

        Who does not read the answer meanwhile does not get it: systemd waits 5 s for the whole end.
        """
        deadline = time.monotonic() + FINISH
        while any(each.busy or each.behind or each.expected or each.outgoing for each in self._connections.values()):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            for key, mask in self._selector.select(left):
                self._handle(key.data, mask)

    def _handle(self, event: Callable[[int], None], mask: int) -> None:
        """Do what *event* is there for. Without memory for it, who holds most of that is dropped."""
        try:
            event(mask)
        except MemoryError:
            if largest := max(self._connections.values(), key=Connection.size, default=None):
                self._close(largest)
                log.error("out of memory: a connection was closed")

    def _keep_house(self) -> None:
        """Make sure that clients find us; end when they cannot."""
        if self._listener.reachable():
            return
        self._rest()
        try:
            self._listener.renew()
        except OSError as error:
            log.error("clients cannot reach this daemon, which ends: %s", error.strerror)
            self.stop()
        else:
            self._rise()

    def _rest(self) -> None:
        """Watch the listener no longer."""
        if not self._resting:
            self._resting = True
            self._selector.unregister(self._listener.socket)

    def _rise(self) -> None:
        """Watch the listener again after a rest."""
        if self._resting:
            self._resting = False
            self._selector.register(self._listener.socket, selectors.EVENT_READ, self._on_connect)

    def _on_connect(self, _mask: int) -> None:
        while True:
            try:
                accepted = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                # Out of descriptors: it stays ready, and would be tried thousands of times a second.
                log.error("connections cannot be accepted for a while: %s", error)
                self._rest()
                return
            if len(self._connections) >= MAX_CONNECTIONS and not own(accepted):
                accepted.close()
                continue
            connection = Connection(accepted)
            self._connections[accepted.fileno()] = connection
            self._listen_for(connection)

    def _on_ready(self, connection: Connection, mask: int) -> None:
        try:
            if mask & selectors.EVENT_READ:
                data = connection.socket.recv(65536)
                connection.incoming += data
                connection.finished = not data
            if mask & selectors.EVENT_WRITE or connection.busy:
                self._flush(connection)
            self._proceed(connection)
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, MemoryError):
            self._close(connection)

    def _proceed(self, connection: Connection) -> None:
        """Answer what requests have arrived in whole, one after another; then wait for more, or end.

        After ``TURN`` it is others' turn: thousands of them may have arrived at one time.
        """
        connection.behind = False
        until = time.monotonic() + TURN
        while not connection.busy and not connection.closed and len(connection.outgoing) < MAX_UNREAD:
            try:
                request = connection.take()
            except ValueError as error:
                connection.incoming.clear()
                connection.finished = True
                self._send(connection, refusal(str(error)))
                return
            if request is None:
                break
            connection.busy = True
            connection.expected = False
            self._answer(connection, request)
            if time.monotonic() > until and not connection.busy and connection.waiting():
                connection.behind = True
                self.post(lambda: self._proceed(connection))
                break
        if not connection.busy and not connection.closed:
            self._flush(connection)

    def _answer(self, connection: Connection, request: bytes) -> None:
        """Answer *request* here and now, or in a worker thread when it turns out that it may wait."""
        try:
            follow = functools.partial(self._follow, connection)
            respond(request, self.service, connection.outgoing.extend, may_wait=False, follow=follow)
        except Blocks:
            connection.deadline = 0.0  # From now on it is for us to act.
            self._in_worker(lambda: self._answer_waiting(connection, request))
            return
        self._done(connection)

    def _answer_waiting(self, connection: Connection, request: bytes) -> None:
        def send(data: bytes) -> None:
            self.post(lambda: self._send(connection, data))

        def follow(follower: Follower) -> None:
            self.post(lambda: self._follow(connection, follower))

        try:
            respond(request, self.service, send, may_wait=True, follow=follow)
        finally:
            self.post(lambda: self._end(connection))

    def _follow(self, connection: Connection, follower: Follower) -> None:
        """Tell *connection* of changes from now on."""
        connection.follows = True
        self._followers.join(connection, follower)

    def _publish(self) -> None:
        """Tell those who follow what changed since the last time. Who does not read is dropped."""
        for connection, events in self._followers.told(self.service):
            if connection.closed or len(connection.outgoing) > MAX_UNREAD:
                self._followers.leave(connection)
                self._close(connection)
            elif events:
                self._send(connection, event_lines(events))

    def _end(self, connection: Connection) -> None:
        self._done(connection)
        self._proceed(connection)

    def _done(self, connection: Connection) -> None:
        connection.busy = False
        if connection.relay:
            connection.incoming.clear()
            connection.finished = True

    def _send(self, connection: Connection, data: bytes) -> None:
        if not connection.closed:
            connection.outgoing += data
            self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        """Send what the client takes now, and set until when it has to act again."""
        outgoing = connection.outgoing
        before = len(outgoing)
        try:
            while outgoing:
                sent = connection.socket.send(outgoing[: 256 << 10])
                del outgoing[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._close(connection)
            return
        if connection.finished and not (connection.busy or outgoing or connection.waiting()):
            self._close(connection)
            return
        connection.expect(moved=len(outgoing) != before)
        self._listen_for(connection)

    def _listen_for(self, connection: Connection) -> None:
        """Ask to be woken for what the connection can do next, be it nothing."""
        wanted = selectors.EVENT_WRITE if connection.outgoing else 0
        if not (connection.finished or connection.behind) and len(connection.outgoing) < MAX_UNREAD:
            wanted |= selectors.EVENT_READ
        if wanted == connection.events:
            return
        if connection.events:
            self._selector.unregister(connection.socket)
        if wanted:
            self._selector.register(connection.socket, wanted, lambda mask: self._on_ready(connection, mask))
        connection.events = wanted

    def _close(self, connection: Connection) -> None:
        if not connection.closed:
            connection.closed = True
            del self._connections[connection.socket.fileno()]
            if connection.events:
                self._selector.unregister(connection.socket)
            connection.socket.close()

    def _in_worker(self, job: Callable[[], None]) -> None:
        if self._workers < MAX_WORKERS:
            try:
                threading.Thread(target=self._work, args=(job,), name="worker", daemon=True).start()
            except RuntimeError as error:
                log.error("a request has to wait: %s", error)
            else:
                self._workers += 1
                return
        self._waiting.append(job)

    def _work(self, job: Callable[[], None]) -> None:
        try:
            job()
        finally:
            self.post(self._worker_ended)

    def _worker_ended(self) -> None:
        self._workers -= 1
        if self._waiting:
            self._in_worker(self._waiting.popleft())

    def post(self, result: Callable[[], None]) -> None:
        """Have *result* called in the serving thread. May be called from any thread and from a signal handler."""
        self._results.append(result)
        self._wake()

    def _wake(self) -> None:
        # A full pipe wakes as well as one byte more.
        with contextlib.suppress(BlockingIOError):
            self._wake_out.send(b"!")

    def _on_wake(self, _mask: int) -> None:
        self._wake_in.recv(4096)
        for _ in range(len(self._results)):  # Not those that come meanwhile, or no connection would be looked at.
            self._results.popleft()()
        if self._results:
            self._wake()
