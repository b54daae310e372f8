"""Watching real folders, and noticing what was missed."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from sessiond.apps.base import Watch
from sessiond.dirty import Dirty
from sessiond.watch import InotifyWatcher, watcher
from tests.daemon import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Watched:
    """A started watcher and what it reported."""

    def __init__(self, *watches: Watch) -> None:
        self.dirty = Dirty()
        self.seen: set[str] = set()
        self.losses = 0
        self.watcher = watcher(watches, self.dirty, self._lose)
        assert isinstance(self.watcher, InotifyWatcher)
        self.watcher.start()

    def _lose(self) -> None:
        self.losses += 1

    def saw(self, path: Path) -> bool:
        self.seen |= set(self.dirty.take(0))
        return str(path) in self.seen

    def forget(self) -> None:
        self.saw_nothing = self.dirty.take(0)
        self.seen.clear()


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    started: list[Watched] = []

    def start(*watches: Watch) -> Watched:
        started.append(Watched(*watches))
        return started[-1]

    yield start
    for one in started:
        one.watcher.stop()


def test_a_file_that_is_made_grows_moves_or_goes_is_reported(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """At both ends of a move."""
    watched = watch(Watch(str(tmp_path), 0))
    path = tmp_path / "a.jsonl"
    path.write_text("1")
    until(lambda: watched.saw(path))
    watched.forget()
    with path.open("a") as file:
        file.write("2")
    until(lambda: watched.saw(path))
    watched.forget()
    path.rename(tmp_path / "b.jsonl")
    until(lambda: watched.saw(path) and watched.saw(tmp_path / "b.jsonl"))
    watched.forget()
    (tmp_path / "b.jsonl").unlink()
    until(lambda: watched.saw(tmp_path / "b.jsonl"))
    assert watched.losses == 0


def test_folders_are_watched_as_deep_as_asked(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """A level deeper costs no watch: sub-agents by the hundred thousand lie there."""
    (tmp_path / "project" / "session" / "subagents").mkdir(parents=True)
    watched = watch(Watch(str(tmp_path), 1))
    assert watched.watcher.health().watched == 2
    (tmp_path / "project" / "session" / "deep.jsonl").write_text("1")
    (tmp_path / "project" / "a.jsonl").write_text("1")
    until(lambda: watched.saw(tmp_path / "project" / "a.jsonl"))
    assert not watched.saw(tmp_path / "project" / "session" / "deep.jsonl")


def test_what_is_in_a_new_folder_is_reported(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """Also what was there before the watch was, and what a folder moved in from elsewhere holds."""
    elsewhere = tmp_path / "elsewhere"
    root = tmp_path / "root"
    elsewhere.mkdir()
    root.mkdir()
    (elsewhere / "old.jsonl").write_text("1")
    watched = watch(Watch(str(root), 1))
    (root / "new").mkdir()
    (root / "new" / "a.jsonl").write_text("1")
    elsewhere.rename(root / "moved")
    until(lambda: watched.saw(root / "new" / "a.jsonl") and watched.saw(root / "moved" / "old.jsonl"))
    watched.forget()
    (root / "moved" / "later.jsonl").write_text("1")
    until(lambda: watched.saw(root / "moved" / "later.jsonl"))


def test_a_missing_folder_is_watched_when_it_appears(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """Several levels of it at once, without polling."""
    root = tmp_path / "not" / "there" / "yet"
    watched = watch(Watch(str(root), 1))
    assert watched.watcher.health().missing == [str(root)]
    (root / "project").mkdir(parents=True)
    (root / "project" / "a.jsonl").write_text("1")
    until(lambda: watched.saw(root / "project" / "a.jsonl"))
    assert watched.watcher.health().missing == []


def test_a_store_that_is_missing_costs_no_watch(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """It is found when next looked for, with what is in it by then."""
    store = tmp_path / "store"
    watched = watch(Watch(str(store / "sessions"), 1, str(store)))
    assert watched.watcher.health().watched == 0
    assert watched.watcher.health().missing == [str(store / "sessions")]
    (store / "sessions" / "project").mkdir(parents=True)
    (store / "sessions" / "project" / "a.jsonl").write_text("1")
    watched.watcher.check()
    until(lambda: watched.saw(store / "sessions" / "project" / "a.jsonl"))
    assert watched.watcher.health().missing == []


@pytest.mark.parametrize("how", ["delete", "rename", "rename the parent"])
def test_a_root_that_is_replaced_is_a_loss_and_watched_again(
    tmp_path: Path, watch: Callable[..., Watched], how: str
) -> None:
    """By another folder of the same name, however the first one went."""
    root = tmp_path / "home" / "root"
    root.mkdir(parents=True)
    watched = watch(Watch(str(root), 0))
    if how == "delete":
        shutil.rmtree(root)
    elif how == "rename":
        root.rename(tmp_path / "away")
    else:
        root.parent.rename(tmp_path / "away")
    root.mkdir(parents=True)
    (root / "a.jsonl").write_text("1")

    def noticed() -> bool:
        watched.watcher.check()
        return watched.losses > 0 and watched.saw(root / "a.jsonl")

    until(noticed)
    watched.forget()
    (root / "b.jsonl").write_text("1")
    until(lambda: watched.saw(root / "b.jsonl"))


def test_a_root_may_be_a_link(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """As may a folder in it; paths are reported as they were asked for."""
    (tmp_path / "real").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "real" / "project").symlink_to(tmp_path / "other")
    (tmp_path / "real" / "loop").symlink_to(tmp_path / "real")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    watched = watch(Watch(str(link), 1))
    (tmp_path / "other" / "a.jsonl").write_text("1")
    until(lambda: watched.saw(link / "project" / "a.jsonl"))


def test_a_full_queue_is_one_loss(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """Injected as the kernel reports it; every folder hears of it, one reconcile follows."""
    from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent

    for name in "abc":
        (tmp_path / name).mkdir()
    watched = watch(Watch(str(tmp_path), 1))
    watched.watcher._fd.handle_event(InotifyEvent(-1, InotifyConstants.IN_Q_OVERFLOW, 0, b""))
    assert watched.losses == 1
    assert watched.watcher.health().lost == 1
    (tmp_path / "a" / "1.jsonl").write_text("1")
    until(lambda: watched.saw(tmp_path / "a" / "1.jsonl"))
    watched.watcher._fd.handle_event(InotifyEvent(-1, InotifyConstants.IN_Q_OVERFLOW, 0, b""))
    assert watched.losses == 2


def test_everything_that_watchdog_calls_is_there(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """Its callbacks are no public interface: 7.1.1 called one more, which ended the reader thread."""
    from watchdog.observers.inotify_c import WatchCallback

    called = {name for name in vars(WatchCallback) if name.startswith("on_")}
    watched = watch(Watch(str(tmp_path), 0))
    (folder,) = watched.watcher._folders.values()
    assert {"on_event", "on_queue_overflow"} <= called
    assert called <= set(dir(folder))


def test_a_dead_reader_thread_is_replaced(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """The thread of watchdog ends at the first exception; ours is made anew."""
    watched = watch(Watch(str(tmp_path), 0))
    watched.watcher._fd.stop()
    watched.watcher._fd.join(10)
    watched.watcher.check()
    assert watched.losses == 1
    (tmp_path / "a.jsonl").write_text("1")
    until(lambda: watched.saw(tmp_path / "a.jsonl"))


def test_a_folder_that_cannot_be_watched_is_polled(
    tmp_path: Path, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system of another machine no event comes; each check lists it."""
    monkeypatch.setattr("sessiond.watch._remote", lambda path: True)
    watched = watch(Watch(str(tmp_path), 1))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.jsonl").write_text("1")

    def polled() -> bool:
        watched.watcher.check()
        return watched.saw(tmp_path / "project" / "a.jsonl")

    until(polled)
    assert watched.watcher.health().unwatched == 2
    assert watched.watcher.health().watched == 0


def test_reading_a_file_is_no_event(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    """Or every read of ours would cause the next one."""
    path = tmp_path / "a.jsonl"
    path.write_text("1")
    watched = watch(Watch(str(tmp_path), 0))
    path.read_text()
    os.stat(path)
    (tmp_path / "marker").write_text("1")
    until(lambda: watched.saw(tmp_path / "marker"))
    assert not watched.saw(path)
