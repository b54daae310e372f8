"""Following a query over the socket, and ``sess watch``."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon import PATIENCE, Daemon, Home, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Follower:
    """A connection that follows a query."""

    def __init__(self, daemon: Daemon, **fields: Any) -> None:
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(PATIENCE)
        self.connection.connect(str(daemon.socket))
        self.lines = self.connection.makefile("rb")
        self.connection.sendall(json.dumps({"v": 1, "op": "subscribe", **fields}).encode() + b"\n")
        self.answer = self.next()

    def next(self) -> dict[str, Any]:
        return json.loads(self.lines.readline())

    def event(self) -> tuple[str, str]:
        """Return kind and title of the next event."""
        event = self.next()
        return event["event"], event["row"].get("title")

    def close(self) -> None:
        self.lines.close()
        self.connection.close()


@pytest.fixture
def follow(daemon: Daemon) -> Iterator[Callable[..., Follower]]:
    """Follow a query."""
    opened: list[Follower] = []

    def start(**fields: Any) -> Follower:
        opened.append(Follower(daemon, **fields))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_what_happens_to_a_session_is_told(home: Home, daemon: Daemon, follow: Callable[..., Follower]) -> None:
    """That it is new, that it changed, that it is gone; and nothing of what was there before."""
    home.claude_session("before")
    daemon.sync()
    follower = follow()
    assert follower.answer["ok"]["following"] == 1
    session, path = home.claude_session("watched")
    assert follower.event() == ("new", "watched")
    session.custom_title = "renamed"
    session.metadata()
    path.write_bytes(b"".join(session.lines))
    assert follower.event() == ("changed", "renamed")
    path.unlink()
    assert follower.event() == ("gone", "renamed")


def test_only_what_fits_the_query_is_told(home: Home, daemon: Daemon, follow: Callable[..., Follower]) -> None:
    """What no longer fits is gone, what fits now is new."""
    follower = follow(q="title:cart", cwd="/srv/shop")
    home.claude_session("another cart", cwd="/srv/other")
    home.claude_session("something else")
    session, path = home.claude_session("the cart")
    assert follower.event() == ("new", "the cart")
    session.custom_title = "the basket"
    session.metadata()
    path.write_bytes(b"".join(session.lines))
    assert follower.event() == ("gone", "the basket")


def test_a_rewrite_of_the_index_is_told(home: Home, daemon: Daemon, follow: Callable[..., Follower]) -> None:
    """Who keeps a list has to ask for it again."""
    home.claude_session("one")
    daemon.sync()
    follower = follow()
    daemon.ask("reindex")
    assert follower.next() == {"event": "reset"}
    assert follower.event() == ("new", "one")


def test_a_follower_can_still_ask(home: Home, daemon: Daemon, follow: Callable[..., Follower]) -> None:
    """On the same connection, which is not dropped for being idle."""
    follower = follow()
    follower.connection.sendall(b'{"v":1,"op":"find"}\n')
    assert follower.next()["ok"]["found"] == 0


def test_a_query_that_cannot_be_is_refused(daemon: Daemon, follow: Callable[..., Follower]) -> None:
    assert follow(app="nonsense").answer["error"]["code"] == "usage"
    assert follow(v=7).answer["error"]["code"] == "usage"


def test_a_follower_that_reads_nothing_is_dropped(home: Home, daemon: Daemon, follow: Callable[..., Follower]) -> None:
    """And the others are told."""
    for number in range(40):
        home.claude_session("x" * 190 + str(number))
    daemon.sync()
    deaf = socket.socket(socket.AF_UNIX)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    deaf.connect(str(daemon.socket))
    deaf.sendall(b'{"v":1,"op":"subscribe"}\n' + b'{"v":1,"op":"find","limit":1000}\n' * 60)
    follower = follow(q="last")
    home.claude_session("the last one")
    assert follower.event() == ("new", "the last one")
    deaf.close()


def test_watch_prints_a_line_for_each_event(home: Home, daemon: Daemon) -> None:
    """With ``--json`` as it comes; it ends with the daemon."""
    watches = [
        subprocess.Popen(
            [sys.executable, "-m", "sess", "watch", "cart", *options], env=home.env, stdout=subprocess.PIPE, text=True
        )
        for options in ([], ["--json"])
    ]
    home.claude_session("a cart already there")
    lines: dict[int, str] = {}

    def seen() -> bool:
        # Nothing tells from outside that they follow; a new session does. The first line may be
        # of a file that was new before they followed, and changed after.
        home.claude_session("cart")
        for watch in watches:
            if watch.pid not in lines and select.select([watch.stdout], [], [], 0.2)[0]:
                line = watch.stdout.readline()
                if "new" in line:
                    lines[watch.pid] = line
        return len(lines) == len(watches)

    until(seen)
    plain, as_json = (lines[watch.pid] for watch in watches)
    assert plain.split("  ")[1:][0] == "new"
    assert plain.endswith("cart\n")
    event = json.loads(as_json)
    assert (event["event"], event["row"]["title"]) == ("new", "cart")
    daemon.stop()
    for watch in watches:
        watch.communicate(timeout=PATIENCE)
        assert watch.returncode == 0
