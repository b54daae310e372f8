"""What large homes cost, in counts and not in seconds."""

from __future__ import annotations

import os
import sys

import pytest

from fixtures import corpus
from tests.daemon import Daemon, Home, until
from tests.test_traces import AUDITED

MIB = 1 << 20


@pytest.mark.parametrize("title", ["in the tail", "far back", "nowhere"])
def test_a_transcript_of_2_gb_is_read_in_less_than_9_mib(home: Home, title: str) -> None:
    """Sparse in the middle, as only its size matters; a release that did not repeat titles needs a look back."""
    session, path = home.claude_session("")
    begin = len(session.lines)
    session.custom_title = "" if title == "nowhere" else "at the end"
    session.metadata()
    with path.open("r+b") as file:
        file.truncate(2 << 30)
        file.seek(0, os.SEEK_END)
        file.writelines([b"\n", *session.lines[begin:]])
        if title == "far back":
            file.writelines(
                b'{"type":"progress","version":"2.1.100","pad":"%s"}\n' % (b"x" * 1000) for _ in range(5000)
            )
    daemon = Daemon(home)
    try:
        daemon.sync()
        until(lambda: daemon.titles() == ["please do the thing" if title == "nowhere" else "at the end"])
        assert daemon.find()[0]["bytes"] > 2_000_000_000
        assert daemon.ask("status")["bytes_read"] < 9 * MIB
    finally:
        daemon.kill()


def test_a_turn_appended_to_a_large_file_costs_what_is_new(home: Home, daemon: Daemon) -> None:
    """Not the head again, nor the tail that was read before."""
    session, path = home.claude_session("large")
    session.fill(2 * MIB)
    path.write_bytes(b"".join(session.lines))
    daemon.sync()
    before = daemon.ask("status")
    begin = len(session.lines)
    session.turn("one more", tools=1)
    new = b"".join(session.lines[begin:])
    with path.open("ab") as file:
        file.write(new)
    daemon.sync()
    after = daemon.ask("status")
    assert after["units_read"] > before["units_read"]
    assert after["bytes_read"] - before["bytes_read"] < len(new) + 64 * 1024


def test_a_flood_of_subagent_files_is_not_looked_at(home: Home, daemon: Daemon) -> None:
    """100,000 of them beside 300 sessions: flat as older releases wrote them, and in folders of their own."""
    for number in range(300):
        home.claude_session(f"session {number}", cwd=f"/srv/p{number % 10}")
    _, path = home.claude_session("the one with helpers", cwd="/srv/p0")
    subagents = path.with_suffix("") / "subagents"
    subagents.mkdir(parents=True)
    for number in range(50_000):
        os.close(os.open(subagents / f"agent-a{number:07x}.jsonl", os.O_CREAT, 0o600))
        os.close(os.open(path.parent / f"agent-b{number:07x}.jsonl", os.O_CREAT, 0o600))
    daemon.sync()
    status = daemon.ask("status")
    assert len(daemon.find(limit=1000)) == 301
    assert status["units"] <= 301 * 2
    assert status["folders_watched"] <= 20
    assert status["units_read"] <= 301 * 2


@pytest.fixture
def two_thousand(home: Home) -> Home:
    """Half a gigabyte of both agents' transcripts."""
    corpus.make(str(home.path), sessions=2000, median_mb=0.6)
    return home


def test_a_restart_on_2000_unchanged_sessions_opens_no_transcript(two_thousand: Home) -> None:
    """Seen by an audit hook: listing folders is enough."""
    record = two_thousand.path / "audit"
    daemon = Daemon(two_thousand, command=(sys.executable, "-c", AUDITED, str(record)))
    daemon.sync()
    while daemon.ask("sync", timeout_ms=10_000)["progress"] is not None:
        pass
    found = len(daemon.find(limit=5000, all=True))
    assert found >= 2000
    assert daemon.ask("status")["units_read"] >= 2000
    daemon.stop()
    record.unlink()
    daemon.start()
    daemon.sync()
    assert len(daemon.find(limit=5000, all=True)) == found
    assert daemon.ask("status")["units_read"] == 0
    daemon.stop()
    assert ".jsonl'" not in record.read_text()


def test_answers_come_before_the_first_index_is_complete(two_thousand: Home) -> None:
    """The newest sessions first, with a word how far it is."""
    daemon = Daemon(two_thousand)
    try:
        partial = daemon.answers("find", limit=1)
        while partial[-1]["ok"]["progress"] is None or len(partial) < 2:
            assert daemon.ask("status")["reconciled"] is None, "it was complete before the first answer"
            partial = daemon.answers("find", limit=1)
        progress = partial[-1]["ok"]["progress"]
        assert 0 < progress["done"] < progress["of"]
        daemon.sync()
        assert daemon.find(limit=1)[0]["id"] == partial[0]["row"]["id"]
    finally:
        daemon.kill()
