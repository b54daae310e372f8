"""The indexer without any event: what it notices by itself."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from sessiond.apps import APPS
from sessiond.dirty import Dirty
from sessiond.indexer import Indexer
from sessiond.query import parse
from sessiond.reading import Helper
from sessiond.reconcile import Root
from sessiond.search import Search
from sessiond.watch import Health
from tests.daemon import PATIENCE, Home, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessiond.reading import Job
    from sessiond.session import Part, Previous, Scan, Session, Stat, Unit


class Blind:
    """A watcher that sees nothing."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def check(self) -> None: ...

    def health(self) -> Health:
        return Health(0, 0, [], 0, "")


@pytest.fixture
def indexer(home: Home) -> Iterator[Indexer]:
    """A running indexer that no event reaches, after its first reconcile."""
    indexer = Indexer([Root(APPS["claude"], str(home.claude))], str(home.path / "index.sqlite"), Dirty(), Blind())
    indexer.start()
    indexer.settle(PATIENCE)
    yield indexer
    indexer.stop(PATIENCE)


def titles(home: Home, limit: int = 50) -> list[str]:
    search = Search(str(home.path / "index.sqlite"))
    try:
        return [row["title"] for row in search.find(parse("", time.time()), limit)]
    finally:
        search.close()


def test_waking_from_sleep_is_a_reason_to_reconcile(
    home: Home, indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the machine slept another one may have written; the wall clock went on and the other one did not."""
    home.claude_session("written while asleep")
    asleep = time.time() + 3600
    monkeypatch.setattr("sessiond.indexer.time.time", lambda: asleep)
    indexer._dirty.wake()
    until(lambda: titles(home) == ["written while asleep"])


@pytest.mark.parametrize("failure", [ValueError, MemoryError, RecursionError])
def test_a_unit_whose_reader_fails_holds_up_no_other(
    home: Home, indexer: Indexer, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    """What was known of it stays, the reason is kept without a word of its text, and it is tried again."""
    _, path = home.claude_session("first")
    indexer.settle(PATIENCE)
    read = type(APPS["claude"]).read

    def failing(self: object, unit: Unit, stat: Stat, previous: Previous | None) -> Scan:
        if unit.path == str(path):
            raise failure("the text of a private transcript")
        return read(APPS["claude"], unit, stat, previous)

    monkeypatch.setattr(type(APPS["claude"]), "read", failing)
    with path.open("ab") as file:
        file.write(b"\n")
    home.claude_session("second")
    indexer.settle(PATIENCE)
    assert titles(home) == ["second", "first"]
    search = Search(str(home.path / "index.sqlite"))
    (problem,) = search.problems()
    search.close()
    assert problem.startswith(f"{failure.__name__} in test_indexer.py:")
    monkeypatch.setattr(type(APPS["claude"]), "read", read)
    indexer.settle(PATIENCE)
    search = Search(str(home.path / "index.sqlite"))
    assert search.problems() == {}
    search.close()


@pytest.mark.parametrize("moment", [-(2**31), 0, 2**33, 15_032_385_535])
def test_a_file_of_any_date_is_listed(home: Home, indexer: Indexer, moment: int) -> None:
    """ext4 has dates from 1901 to 2446, and what is in the nanoseconds of one after 2262 no database holds."""
    _, path = home.claude_session("odd")
    os.utime(path, (moment, moment))
    home.claude_session("other")
    assert indexer.settle(PATIENCE)[1]
    assert sorted(titles(home)) == ["odd", "other"]


def test_a_session_whose_row_cannot_be_made_holds_up_no_other(
    home: Home, indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are read in one go with it are stored; why it is not is counted, and goes with the reason."""
    session, _ = home.claude_session("bad")
    merge = type(APPS["claude"]).merge

    def failing(self: object, id: str, parts: list[Part]) -> Session | None:
        if id == session.id:
            raise OverflowError("the text of a private transcript")
        return merge(APPS["claude"], id, parts)

    monkeypatch.setattr(type(APPS["claude"]), "merge", failing)
    home.claude_session("good")
    assert indexer.settle(PATIENCE)[1]
    assert titles(home) == ["good"]
    search = Search(str(home.path / "index.sqlite"))
    (problem,) = search.problems()
    search.close()
    assert problem.startswith("OverflowError in test_indexer.py:")
    monkeypatch.setattr(type(APPS["claude"]), "merge", merge)
    assert indexer.settle(PATIENCE)[1]
    assert sorted(titles(home)) == ["bad", "good"]


def test_a_large_home_is_read_by_two_processes(home: Home, indexer: Indexer, monkeypatch: pytest.MonkeyPatch) -> None:
    """And when the second one dies, the first one goes on; nothing is lost."""
    monkeypatch.setattr("sessiond.backlog.HELP", 10)
    monkeypatch.setattr("sessiond.backlog.BATCH", 20)
    monkeypatch.setattr("sessiond.backlog.SHARE", 5)
    for number in range(100):
        home.claude_session(f"session {number}", cwd=f"/srv/p{number % 5}")
    received = Helper.receive
    batches = []

    def receive(helper: Helper) -> tuple[list[Job], list[Scan | None]]:
        batches.append(len(helper.pending[0]))
        if len(batches) == 2:
            helper._process.kill()
            helper._process.wait()
        return received(helper)

    monkeypatch.setattr(Helper, "receive", receive)
    indexer.settle(PATIENCE)
    assert len(titles(home)) == 50
    assert len(batches) >= 2
    assert indexer._backlog._helper is None
    assert sorted(titles(home, 200)) == sorted(f"session {number}" for number in range(100))
