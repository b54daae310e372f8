"""What the configuration leaves out is in no list, and comes back when it no longer does."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import apsw
import pytest

from sessiond.apps import APPS
from sessiond.config import Config
from sessiond.dirty import Dirty
from sessiond.indexer import Indexer
from sessiond.reconcile import Root
from sessiond.search import Search
from tests.daemon import PATIENCE, Daemon, Home, until
from tests.test_indexer import Blind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Configured(Home):
    """A home with a configuration."""

    @property
    def env(self) -> dict[str, str]:
        return super().env | {"SESS_CONFIG": str(self.path / "config.toml")}

    def configure(self, text: str) -> None:
        (self.path / "config.toml").write_text(text)


@pytest.fixture
def home() -> Iterator[Configured]:
    home = Configured()
    yield home
    home.remove()


def reload(daemon: Daemon) -> None:
    """Have *daemon* read its configuration, and wait until that is in force."""
    before = daemon.ask("doctor")["config"]
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: daemon.ask("doctor")["config"] != before)
    daemon.sync()


def test_sessions_of_an_excluded_folder_are_not_found(home: Configured, daemon: Daemon) -> None:
    """Neither by `--all`, by their id, nor in the file for a prompt; they come back with the folder."""
    home.claude_session("private", cwd="/srv/clients/acme")
    home.codex_session("private too", cwd="/srv/clients/acme")
    home.claude_session("public", cwd="/srv/shop")
    daemon.sync()
    (row,) = daemon.find('"private"', app="claude")
    prompt = home.path / "state/run/here/-srv-clients-acme"
    until(prompt.exists)
    home.configure('exclude = ["/srv/clients/**"]\n')
    reload(daemon)
    assert daemon.titles() == ["public"]
    assert daemon.titles(all=True) == ["public"]
    assert "error" in daemon.answers("show", id=row["id"])[-1]
    until(lambda: not prompt.exists())
    home.claude_session("private as well", cwd="/srv/clients/other")
    daemon.sync()
    assert daemon.titles(all=True) == ["public"]
    home.configure("")
    reload(daemon)
    assert sorted(daemon.titles()) == ["private", "private as well", "private too", "public"]


def test_what_was_excluded_while_no_daemon_ran_is_gone_with_its_start(home: Configured, daemon: Daemon) -> None:
    """No file has to change for that."""
    home.claude_session("private", cwd="/srv/clients/acme")
    daemon.sync()
    daemon.stop()
    home.configure('exclude = ["/srv/clients/**"]\n')
    daemon.start()
    daemon.sync()
    assert daemon.titles(all=True) == []
    read = daemon.ask("status")["units_read"]
    daemon.sync()
    assert daemon.ask("status")["units_read"] == read


def test_an_excluded_session_that_goes_on_elsewhere_stays_excluded(home: Configured, daemon: Daemon) -> None:
    """It began in the folder, and its title may tell of it."""
    session, path = home.claude_session("private", cwd="/srv/clients/acme")
    home.configure('exclude = ["/srv/clients/**"]\n')
    reload(daemon)
    session.cwd = "/srv/shop"
    session.turn("go on there")
    path.write_bytes(b"".join(session.lines))
    daemon.sync()
    assert daemon.titles(all=True) == []


def test_an_agent_that_is_left_out_is_gone(home: Configured, daemon: Daemon) -> None:
    """With all its rows; the others stay."""
    home.claude_session("of one")
    home.codex_session("of the other")
    daemon.sync()
    home.configure('exclude_apps = ["codex"]\n')
    reload(daemon)
    assert daemon.titles(all=True) == ["of one"]
    assert [root["app"] for root in daemon.ask("status")["roots"]] == ["claude"]
    home.configure("")
    reload(daemon)
    assert sorted(daemon.titles()) == ["of one", "of the other"]


def test_a_store_that_is_added_is_followed(home: Configured, daemon: Daemon) -> None:
    """Like any other; and forgotten when it is no longer named."""
    elsewhere = home.claude = home.path / "work"
    home.claude_session("at work")
    daemon.sync()
    assert daemon.titles() == []
    home.configure(f'[roots]\nclaude = ["{elsewhere}"]\n')
    reload(daemon)
    assert daemon.titles() == ["at work"]
    home.configure("")
    reload(daemon)
    assert daemon.titles(all=True) == []


def test_a_mistake_leaves_the_daemon_as_it_was(home: Configured, daemon: Daemon) -> None:
    """What it excluded stays excluded, and the status tells."""
    home.claude_session("private", cwd="/srv/clients/acme")
    home.configure('exclude = ["/srv/clients/**"]\n')
    reload(daemon)
    home.configure('exlude = ["/srv/clients/**"]\n')
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: any("exlude is not known" in problem for problem in daemon.ask("status")["problems"]))
    assert daemon.titles(all=True) == []


def test_the_text_for_a_prompt_is_as_it_is_configured(home: Configured, daemon: Daemon) -> None:
    """Its length and its style; files that are there are written anew."""
    home.claude_session("A title of some length, of many words", cwd="/srv/shop")
    prompt = home.path / "state/run/here/-srv-shop"
    until(prompt.exists)
    assert b"1 \xc2\xb7 A title of some length, of many words" in prompt.read_bytes()
    home.configure("[prompt]\nlength = 12\n")
    reload(daemon)
    until(lambda: "1 · A title of…".encode() in prompt.read_bytes())
    home.configure('[prompt]\nstyle = "count"\n')
    reload(daemon)
    until(lambda: b"\x1f1\0" in prompt.read_bytes())


def test_a_connection_and_its_ticket_outlive_a_reload(home: Configured, daemon: Daemon) -> None:
    """Whoever follows goes on following; a ticket of before is none to wait for without end."""
    home.claude_session("of before")
    daemon.sync()
    ticket = max(daemon.ask("sync", timeout_ms=20_000)["ticket"] for _ in range(5))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(daemon.socket))
        lines = connection.makefile("rb")
        connection.sendall(b'{"v":1,"op":"subscribe"}\n')
        assert b'"following":1' in lines.readline()
        home.configure("[prompt]\nlength = 20\n")
        reload(daemon)
        assert daemon.ask("status")["pid"] == daemon.process.pid
        home.claude_session("of after")
        while b"of after" not in lines.readline():
            pass
    assert daemon.ask("sync", ticket=ticket, timeout_ms=20_000)["progress"] is None


class Clock:
    """Days that pass at once, for an index that knows when a file was gone."""

    def __init__(self, index: Path) -> None:
        self._index = index

    def pass_days(self, days: int) -> None:
        db = apsw.Connection(str(self._index))
        db.execute("UPDATE unit SET gone = gone - ? WHERE gone > 0", (days * 86_400_000,))
        db.close()


@pytest.mark.parametrize(("keep", "days", "known"), [(None, 9999, 2), (30, 29, 2), (30, 31, 1), (0, 1, 1)])
def test_a_deleted_session_stays_known_as_long_as_it_is_to(home: Home, keep: int | None, days: int, known: int) -> None:
    """From when it was seen to be gone; one that is there stays whatever its age."""
    _, path = home.claude_session("deleted")
    home.claude_session("kept")
    index = home.path / "index.sqlite"
    roots = [Root(APPS["claude"], str(home.claude))]

    def settle(config: Config) -> None:
        indexer = Indexer(roots, str(index), Dirty(), Blind(), config)
        indexer.start()
        assert indexer.settle(30)[1]
        assert indexer.stop(30)

    settle(Config())
    path.unlink()
    settle(Config())
    Clock(index).pass_days(days)
    for _ in range(2):  # the second time sweeps what the first one left
        settle(Config(keep_deleted_days=keep))
    search = Search(str(index))
    assert sum(search.listed().values()) == 1
    assert search.unlisted() == ({"deleted": 1} if known == 2 else {})
    search.close()
    db = apsw.Connection(str(index))
    assert db.execute("SELECT count(*) FROM unit").get == known
    db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
    db.close()
