"""The files that a prompt reads: where they are, what they say, when they change."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from sessiond.paths import snapshot_name
from tests.daemon import Daemon, ends_with_its_processes, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.daemon import Home

SHOP = "/srv/shop"


@pytest.fixture
def home(home: Home) -> Iterator[Home]:
    """A home of which no process is left at the end."""
    yield home
    ends_with_its_processes(home)


def file_of(daemon: Daemon, folder: str) -> Path:
    return daemon.home.path / "state" / "run" / "here" / snapshot_name(os.fsencode(folder))


def records(daemon: Daemon, folder: str = SHOP) -> list[str]:
    """Return the records about *folder*: the summary, then one a session; none without a file."""
    try:
        first, *rest = file_of(daemon, folder).read_text().removesuffix("\0").split("\0")
    except FileNotFoundError:
        return []
    assert first == "sess 1"
    if folder not in rest:
        return []
    found = rest[rest.index(folder) + 1 :]
    end = next((number for number, record in enumerate(found) if record.startswith("/")), len(found))
    return found[:end]


def titles(daemon: Daemon, folder: str = SHOP) -> list[str]:
    return [record.split("\x1f")[7] for record in records(daemon, folder)[1:]]


def summary(daemon: Daemon, folder: str = SHOP) -> str:
    """Return the text for a prompt; nothing without a file."""
    return "".join(record.split("\x1f")[2] for record in records(daemon, folder)[:1])


def _updated(found: list[str]) -> int:
    return int(found[1].split("\x1f")[2]) if len(found) > 1 else 0


def test_each_folder_from_a_session_up_to_the_root_has_a_file(home: Home, daemon: Daemon) -> None:
    """A prompt in any of them shows it; the fields are those of docs/protocol.md."""
    session, _ = home.claude_session("Fix double charge", cwd="/srv/shop/api", branch="fix/checkout")
    until(lambda: titles(daemon, "/srv/shop/api") == ["Fix double charge"])
    for folder, below in (("/srv/shop/api", ""), ("/srv/shop", "api"), ("/srv", "shop/api"), ("/", "srv/shop/api")):
        # First it may be read before its time is set.
        until(lambda: abs(_updated(records(daemon, folder)) - home.now / 1000) < 60)  # noqa: B023 - called at once
        head, row = records(daemon, folder)
        assert head == "1\x1f0\x1f1 · Fix double charge"
        named, app, updated, moment, *rest = row.split("\x1f")
        assert (named, app) == (session.id, "claude")
        assert rest == ["", "fix/checkout", below, "Fix double charge"]
        assert moment == time.strftime("%Y-%m-%d %H:%M", time.localtime(int(updated)))
    assert not records(daemon, "/srv/other")


def test_the_newest_ten_are_listed_and_all_are_counted(home: Home, daemon: Daemon) -> None:
    for number in range(12):
        home.now += 60_000
        home.claude_session(f"session {number}", cwd=f"/srv/shop/{number}")
    until(lambda: titles(daemon) == [f"session {number}" for number in range(11, 1, -1)])
    until(lambda: summary(daemon) == "12 · session 11")


def test_a_change_is_in_the_file_within_half_a_second(home: Home, daemon: Daemon) -> None:
    """Measured from the write to the file on disk; the median, as the machine has other work."""
    home.claude_session("first")
    until(lambda: titles(daemon))
    taken = []
    for number in range(5):
        home.now += 60_000
        begun = time.monotonic()
        home.claude_session(f"number {number}")
        until(lambda: titles(daemon)[0] == f"number {number}")  # noqa: B023 - called at once
        taken.append(time.monotonic() - begun)
    assert sorted(taken)[2] < 3


def test_a_file_goes_with_the_last_session(home: Home, daemon: Daemon) -> None:
    _, path = home.claude_session("alone")
    home.claude_session("other", cwd="/srv/other")
    until(lambda: titles(daemon) and titles(daemon, "/srv/other"))
    path.unlink()
    until(lambda: not file_of(daemon, SHOP).exists())
    until(lambda: titles(daemon, "/srv") == ["other"])


def test_a_session_that_moved_leaves_its_old_folder(home: Home, daemon: Daemon) -> None:
    session, path = home.codex_session("wander about")
    until(lambda: titles(daemon))
    session.cwd = "/srv/new"
    session.turn("go on")
    path.write_bytes(b"".join(session.lines))
    until(lambda: titles(daemon, "/srv/new"))
    until(lambda: not file_of(daemon, SHOP).exists())


def test_folders_with_one_name_share_a_file(home: Home, daemon: Daemon) -> None:
    """`/a/b-c` and `/a-b/c` are both `-a-b-c`, and each keeps what is its own."""
    home.claude_session("one", cwd="/a/b-c")
    home.claude_session("two", cwd="/a-b/c")
    until(lambda: titles(daemon, "/a/b-c") and titles(daemon, "/a-b/c"))
    assert file_of(daemon, "/a/b-c") == file_of(daemon, "/a-b/c")
    until(lambda: (titles(daemon, "/a/b-c"), titles(daemon, "/a-b/c")) == (["one"], ["two"]))


@pytest.mark.parametrize(
    "folder", ["/srv/" + "x" * 150 + "/" + "y" * 40, "/srv/ü ñ/日本", "/srv/line\n", "/srv/a b  c/\x1f"]
)
def test_any_folder_has_a_file(home: Home, daemon: Daemon, folder: str) -> None:
    home.claude_session("there", cwd=folder)
    until(lambda: titles(daemon, folder) == ["there"])
    assert len(file_of(daemon, folder).name) <= 200


def test_what_changed_while_the_daemon_was_down_is_made_good(home: Home, daemon: Daemon) -> None:
    """Missing files are written, files of folders without sessions and of other versions removed."""
    home.claude_session("kept")
    until(lambda: titles(daemon))
    daemon.stop()
    here = file_of(daemon, SHOP).parent
    file_of(daemon, SHOP).unlink()
    (here / "-gone").write_bytes(b"sess 1\0/gone\0001\x1f0\x1f1 old\0")
    (here / "-other").write_bytes(b"sess 2\0/other\0")
    (here / ".new").write_bytes(b"half")
    daemon.start()
    until(lambda: titles(daemon) == ["kept"])
    until(lambda: sorted(path.name for path in here.iterdir()) == ["-", "-srv", "-srv-shop"])


def test_files_come_back_after_the_index_was_emptied(home: Home, daemon: Daemon) -> None:
    home.claude_session("kept")
    until(lambda: titles(daemon))
    daemon.ask("reindex")
    daemon.sync()
    until(lambda: titles(daemon) == ["kept"])


def test_the_files_are_nobody_elses(home: Home, daemon: Daemon) -> None:
    home.claude_session("secret")
    until(lambda: titles(daemon, "/"))  # the last one to be written
    here = file_of(daemon, SHOP).parent
    daemon.stop()  # it may write one again, under another name at first
    assert here.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in here.iterdir())


def test_a_link_planted_in_the_place_of_a_file_is_not_followed(home: Home, daemon: Daemon) -> None:
    home.claude_session("one")
    until(lambda: titles(daemon))
    here = file_of(daemon, SHOP).parent
    victim = home.path / "victim"
    victim.write_text("precious")
    file_of(daemon, SHOP).unlink()
    file_of(daemon, SHOP).symlink_to(victim)
    (here / ".new").symlink_to(victim)
    home.now += 60_000
    home.claude_session("two")
    until(lambda: not file_of(daemon, SHOP).is_symlink())
    until(lambda: titles(daemon) == ["two", "one"])
    assert victim.read_text() == "precious"


def test_a_fifo_in_the_place_of_a_file_is_replaced(home: Home, daemon: Daemon) -> None:
    """To open one as a file waits for ever."""
    home.claude_session("one")
    until(lambda: titles(daemon, "/"))
    file_of(daemon, SHOP).unlink()
    os.mkfifo(file_of(daemon, SHOP))
    home.now += 60_000
    home.claude_session("two")
    until(lambda: file_of(daemon, SHOP).is_file() and titles(daemon) == ["two", "one"])


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("$(touch x) `id` \\u %n !42", "＄(touch x) ˋidˋ ＼u ％n ！42"),
        ("\x1b[31mred\x1b]52;c;AAAA\x07\x9b1m", "[31mred]52;c;AAAA1m"),
        ("left\u202eright\u2066", "leftright"),
        ("two\nlines\tand\x1ffields\x00", "two lines andfields"),
        ("x" * 10_000, "x" * 39 + "…"),
    ],
)
def test_nothing_in_the_text_for_a_prompt_is_special_to_a_shell(
    home: Home, daemon: Daemon, title: str, shown: str
) -> None:
    """However it gets into a prompt; in the list of sessions, which is only printed, the characters stay."""
    home.claude_session(title)
    until(lambda: titles(daemon) and summary(daemon) == f"1 · {shown}")
    assert len(records(daemon)) == 2


def test_the_bare_command_prints_the_same(home: Home, daemon: Daemon, tmp_path: Path) -> None:
    """It is for prompts that can only run a command, and needs no daemon."""
    home.claude_session("Fix it", cwd=str(tmp_path))
    until(lambda: titles(daemon, str(tmp_path)) == ["Fix it"])
    daemon.stop()
    asked = [sys.executable, "-m", "sess", "prompt"]
    done = subprocess.run(asked, cwd=tmp_path, env=home.env, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 · Fix it\n", "")
    done = subprocess.run(asked, cwd="/usr", env=home.env, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
