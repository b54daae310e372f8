"""The dirty set: first report at once, then at most so often."""

from __future__ import annotations

import threading

from sessiond.dirty import INTERVAL, Dirty
from tests.daemon import until


def test_the_first_report_is_due_at_once() -> None:
    """Waiting is only for what was looked at just now."""
    dirty = Dirty()
    dirty.add("/a")
    dirty.add("/a")
    assert dirty.take(0) == ["/a"]
    assert dirty.take(0) == []


def test_a_path_that_changes_all_the_time_is_taken_now_and_then() -> None:
    """Every report is followed by a look after it, and many reports by few looks."""
    dirty = Dirty()
    looks = reports = 0

    def busy() -> bool:
        nonlocal looks, reports
        dirty.add("/a")
        reports += 1
        looks += len(dirty.take(0))
        return looks >= 3

    until(busy)
    assert reports > looks
    dirty.add("/a")
    assert dirty.take(INTERVAL * 10) == ["/a"]


def test_waiting_ends_when_a_path_is_reported_or_when_woken() -> None:
    """The indexer sleeps until there is something to do."""
    dirty = Dirty()
    taken: list[list[str]] = []

    def take() -> None:
        taken.append(dirty.take(60))
        taken.append(dirty.take(60))

    thread = threading.Thread(target=take)
    thread.start()
    dirty.add("/a")
    until(lambda: taken)
    dirty.wake()
    thread.join(10)
    assert taken == [["/a"], []]
