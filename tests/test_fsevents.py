"""The macOS watcher, with a stand-in for the stream: what it makes of native events was only ever tried so."""

from __future__ import annotations

import sys
import types
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from watchdog.observers.api import EventEmitter

from sessiond.apps.base import Watch
from sessiond.dirty import Dirty
from sessiond.fsevents import LOSSES, FSEventsWatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Native:
    """A native event, as `_watchdog_fsevents` gives them."""

    def __init__(self, path: str, *marks: str) -> None:
        self.path = path
        for mark in LOSSES:
            setattr(self, mark, mark in marks)


class Stream(EventEmitter):
    """Stands in for FSEventsEmitter: a thread that is handed events."""

    def queue_events(self, timeout: float, events: list[Any]) -> None:
        raise NotImplementedError

    def run(self) -> None:
        self.stopped_event.wait()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FSEventsWatcher]]:
    module = types.ModuleType("watchdog.observers.fsevents")
    module.FSEventsEmitter = Stream  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "watchdog.observers.fsevents", module)
    started: list[FSEventsWatcher] = []

    def start(*watches: Watch) -> FSEventsWatcher:
        watcher = FSEventsWatcher(watches, Dirty(), lambda: None)
        watcher.start()
        started.append(watcher)
        return watcher

    yield start
    for watcher in started:
        watcher.stop()


def deliver(watcher: FSEventsWatcher, *events: Native) -> set[str]:
    """Hand *events* to every stream; return the paths that became dirty."""
    for emitter in watcher._observer.emitters:
        emitter.queue_events(1, list(events))
    return set(watcher._dirty.take(0))


@pytest.mark.parametrize(
    ("inside", "depth", "seen"),
    [
        ("a.jsonl", 0, True),
        ("project/a.jsonl", 0, False),
        ("project/a.jsonl", 1, True),
        ("project/id/subagents/b.jsonl", 1, False),
        ("../elsewhere", 1, False),
        ("..a", 0, True),
    ],
)
def test_a_path_is_reported_if_it_is_not_too_deep(
    tmp_path: Path, watched: Callable[..., FSEventsWatcher], inside: str, depth: int, seen: bool
) -> None:
    """FSEvents reports everything below a folder."""
    watcher = watched(Watch(str(tmp_path), depth))
    assert (str(tmp_path / inside) in deliver(watcher, Native(f"{tmp_path}/{inside}"))) == seen


def test_paths_come_back_as_they_were_asked_for(tmp_path: Path, watched: Callable[..., FSEventsWatcher]) -> None:
    """Through a link, and composed although the disk has them decomposed."""
    real = tmp_path / unicodedata.normalize("NFC", "café")
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    watcher = watched(Watch(str(link), 0))
    native = unicodedata.normalize("NFD", str(real)) + "/a.jsonl"
    assert deliver(watcher, Native(native)) == {str(link / "a.jsonl")}


@pytest.mark.parametrize("mark", LOSSES)
def test_each_sign_of_a_loss_is_counted(tmp_path: Path, watched: Callable[..., FSEventsWatcher], mark: str) -> None:
    """The library itself does not look at them."""
    watcher = watched(Watch(str(tmp_path), 0))
    before = watcher.health().lost
    deliver(watcher, Native(str(tmp_path), mark))
    assert watcher.health().lost == before + 1


def test_a_folder_that_appears_or_is_replaced_is_watched(
    tmp_path: Path, watched: Callable[..., FSEventsWatcher]
) -> None:
    """Each time a loss is reported, as what happened before was not seen."""
    root = tmp_path / "root"
    watcher = watched(Watch(str(root), 0))
    assert watcher.health()[:3] == (0, 0, [str(root)])
    root.mkdir()
    watcher.check()
    assert watcher.health()[:4] == (1, 0, [], 1)
    watcher.check()
    assert watcher.health().lost == 1
    root.rename(tmp_path / "away")
    root.mkdir()
    watcher.check()
    assert watcher.health()[:4] == (1, 0, [], 2)
    root.rmdir()
    watcher.check()
    assert watcher.health()[:3] == (0, 0, [str(root)])


def test_without_fsevents_folders_are_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on any other system, where the module cannot be imported."""
    watcher = FSEventsWatcher([Watch(str(tmp_path), 1)], Dirty(), lambda: None)
    watcher.start()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.jsonl").write_text("1")
    watcher.check()
    assert str(tmp_path / "project" / "a.jsonl") in watcher._dirty.take(0)
    assert "not available" in watcher.health().problem
    assert watcher.health().unwatched == 1
