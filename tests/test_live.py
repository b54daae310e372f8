"""Which sessions are running, and which ended without being closed."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon import PATIENCE, Daemon, Home, until
from tests.test_snapshot import records

if TYPE_CHECKING:
    from pathlib import Path

    from fixtures.transcripts import Codex

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


def begun(pid: int) -> str:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()


def running(home: Home, session: str, process: subprocess.Popen[bytes], status: str = "busy") -> Path:
    """Write what Claude Code writes while *process* has *session* open."""
    path = home.claude / "sessions" / f"{process.pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"pid": process.pid, "sessionId": session, "procStart": begun(process.pid), "status": status}
    path.write_text(json.dumps(record))
    return path


@pytest.fixture
def process() -> Any:
    """A process that may be killed."""
    child = subprocess.Popen(["sleep", "600"])
    yield child
    child.kill()
    child.wait(PATIENCE)


def state(daemon: Daemon, **fields: Any) -> tuple[str | None, bool]:
    """Return the live state of the only session, and whether it is lost."""
    rows = daemon.find(**fields)
    return (rows[0]["live"], rows[0]["lost"] is not None) if rows else ("unknown", False)


@pytest.mark.parametrize("status", ["busy", "idle", "waiting"])
def test_a_running_session_is_live(home: Home, daemon: Daemon, process: subprocess.Popen[bytes], status: str) -> None:
    """For ``is:live`` and in the files for the prompt."""
    session, _ = home.claude_session("at work")
    running(home, session.id, process, status)
    until(lambda: daemon.titles("is:live") == ["at work"])
    assert state(daemon) == (status, False)
    until(lambda: records(daemon)[1:] and records(daemon)[1].split("\x1f")[4] == status)


def test_a_session_that_waits_is_first_in_the_files_for_the_prompt(
    home: Home, daemon: Daemon, process: subprocess.Popen[bytes]
) -> None:
    session, _ = home.claude_session("Approve me")
    running(home, session.id, process, "waiting")
    for _ in range(2):
        home.now += 60_000
        home.claude_session("newer")
    until(lambda: len(records(daemon)) == 4 and records(daemon)[0] == "3\x1f1\x1f3 · waiting: Approve me")
    assert records(daemon)[1].endswith("Approve me")


def test_a_killed_process_is_noticed_within_seconds_and_its_session_is_lost(
    home: Home, daemon: Daemon, process: subprocess.Popen[bytes]
) -> None:
    """Although no file changes: it left its own behind."""
    session, _ = home.claude_session("crashed")
    running(home, session.id, process)
    until(lambda: state(daemon) == ("busy", False))
    process.kill()
    process.wait(PATIENCE)
    begun = time.monotonic()
    until(lambda: state(daemon) == (None, True))
    assert time.monotonic() - begun < 10
    assert daemon.titles("is:lost") == ["crashed"]


def test_a_closed_session_is_neither_live_nor_lost(
    home: Home, daemon: Daemon, process: subprocess.Popen[bytes]
) -> None:
    """A clean end removes the file."""
    session, _ = home.claude_session("closed")
    path = running(home, session.id, process)
    until(lambda: state(daemon) == ("busy", False))
    path.unlink()
    until(lambda: state(daemon) == (None, False))


def test_a_lost_session_stays_so_over_a_restart_until_it_was_closed(
    home: Home, daemon: Daemon, process: subprocess.Popen[bytes]
) -> None:
    """Also when the agent sweeps the file away, as it does when it starts again."""
    session, _ = home.claude_session("crashed")
    path = running(home, session.id, process)
    until(lambda: state(daemon) == ("busy", False))
    daemon.kill()
    process.kill()
    process.wait(PATIENCE)
    daemon.start()
    until(lambda: state(daemon) == (None, True))
    path.unlink()
    daemon.sync()
    assert state(daemon) == (None, True)
    again = subprocess.Popen(["sleep", "600"])
    path = running(home, session.id, again)
    until(lambda: state(daemon) == ("busy", False))
    path.unlink()
    until(lambda: state(daemon) == (None, False))
    again.kill()
    again.wait(PATIENCE)


@pytest.mark.parametrize("closed", [True, False])
def test_what_was_open_when_the_machine_went_down_is_lost(
    home: Home, daemon: Daemon, process: subprocess.Popen[bytes], closed: bool
) -> None:
    """Also when the agent closed it on the way down. Once it is open again it is not lost any more."""
    session, _ = home.claude_session("interrupted")
    path = running(home, session.id, process)
    until(lambda: state(daemon) == ("busy", False))
    if closed:
        path.unlink()
        until(lambda: state(daemon) == (None, False))
    daemon.stop()
    if not closed:
        path.unlink()
    memory = home.path / "state" / "open.json"
    assert memory.stat().st_mode & 0o777 == 0o600
    memory.write_text(json.dumps(json.loads(memory.read_text()) | {"boot": "the one before"}))
    daemon.start()
    until(lambda: state(daemon) == (None, True))
    path = running(home, session.id, process)
    until(lambda: state(daemon) == ("busy", False))
    path.unlink()
    until(lambda: state(daemon) == (None, False))


class Rollout:
    """A Codex rollout that is being written now, and its writer lock."""

    def __init__(self, home: Home) -> None:
        self.session: Codex
        home.now = int(time.time() * 1000) - 60_000
        self.session, self.path = home.codex_session("write the report")
        os.utime(self.path)
        self.locks = home.codex / "thread-writer-locks"
        self.lock = -1

    def event(self, kind: str) -> None:
        self.session.now += 1000
        self.session.add("event_msg", {"type": kind, "turn_id": "t"})
        with self.path.open("ab") as file:
            file.write(self.session.lines[-1])

    def open(self) -> None:
        self.locks.mkdir(exist_ok=True)
        self.lock = os.open(self.locks / f"{self.session.id}.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def close(self) -> None:
        os.close(self.lock)


def test_a_codex_turn_that_began_and_did_not_end_is_busy(home: Home, daemon: Daemon) -> None:
    """From the tail; of releases before 0.147, or where nothing tells who has locked the thread."""
    rollout = Rollout(home)
    until(lambda: daemon.find())
    assert state(daemon) == (None, False)
    for kind, expected in (
        ("task_started", "busy"),
        ("exec_approval_request", "waiting"),
        ("agent_message", "busy"),
        ("task_complete", None),
        ("turn_started", "busy"),
        ("turn_aborted", None),
    ):
        rollout.event(kind)
        until(lambda: state(daemon)[0] == expected)  # noqa: B023 - called at once


def test_a_codex_thread_whose_writer_lock_is_held_is_open(home: Home, daemon: Daemon) -> None:
    """Idle between turns. When the lock is gone in the middle of one, the session is lost."""
    rollout = Rollout(home)
    rollout.open()
    rollout.event("task_complete")
    until(lambda: state(daemon) == ("idle", False))
    rollout.event("task_started")
    until(lambda: state(daemon) == ("busy", False))
    rollout.close()
    until(lambda: state(daemon) == (None, True))
    rollout.open()
    rollout.event("task_complete")
    until(lambda: state(daemon) == ("idle", False))
    rollout.close()
    until(lambda: state(daemon) == (None, False))


def reopen(home: Home, *words: str, typed: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sess", "reopen", *words], env={**home.env, **env}, input=typed or "",
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def lost(home: Home, title: str, cwd: str) -> str:
    """Write a session whose process died, and return its id."""
    session, _ = home.claude_session(title, cwd=cwd, branch="HEAD")
    child = subprocess.Popen(["sleep", "600"])
    running(home, session.id, child)
    child.kill()
    child.wait(PATIENCE)
    return session.id


def test_reopen_lists_lost_sessions_with_what_a_resume_would_do(home: Home, daemon: Daemon, tmp_path: Path) -> None:
    interrupted = lost(home, "Interrupted work", str(tmp_path))
    home.claude_session("Closed work")
    done = reopen(home)
    assert done.returncode == 0
    assert "Interrupted work" in done.stdout
    assert f"claude --resume {interrupted}" in done.stdout
    assert "Closed work" not in done.stdout
    assert reopen(home, "--ids").stdout == interrupted + "\n"
    row = json.loads(reopen(home, "--json").stdout)
    assert (row["id"], row["plan"]["argv"][:3]) == (interrupted, ["claude", "--resume", interrupted])


def test_reopen_says_when_there_is_nothing(home: Home, daemon: Daemon) -> None:
    home.claude_session("Closed work")
    done = reopen(home)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no session ended without being closed since 2" in done.stderr
    assert "without being closed since 2026-11-30 00:00 " in reopen(home, "--since", "2026-11-30").stderr


@pytest.mark.needs("tmux")
def test_reopen_gives_each_session_a_window_of_its_own(home: Home, daemon: Daemon, tmp_path: Path) -> None:
    ids = [lost(home, title, str(tmp_path)) for title in ("One", "#(touch ran) two")]
    agent = home.path / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text('#!/bin/sh\necho "$@" >> "$HOME/started"\nexec sleep 600\n')
    agent.chmod(0o755)
    tmux = {"PATH": f"{agent.parent}:{os.environ['PATH']}", "TMUX_TMPDIR": str(home.path), "TERM": "xterm"}
    try:
        done = reopen(home, "--tmux", "--all", **tmux)
        assert (done.returncode, done.stderr) == (0, "")
        assert "2 windows in tmux" in done.stdout
        started = home.path / "started"
        until(lambda: started.exists() and len(started.read_text().splitlines()) == 2)
        assert {line.split()[1] for line in started.read_text().splitlines()} == set(ids)
    finally:
        subprocess.run(["tmux", "kill-server"], env={**home.env, **tmux}, capture_output=True, timeout=20)


@pytest.mark.needs("tmux")
@pytest.mark.parametrize("inside", [False, True], ids=["from outside", "from inside of tmux"])
def test_reopen_says_whose_window_closed_at_once(home: Home, daemon: Daemon, tmp_path: Path, inside: bool) -> None:
    """Also when it was the only one, and tmux ended with it; what lasts is counted."""
    ids = {title: lost(home, title, str(tmp_path)) for title in ("Stays", "Fails")}
    agent = home.path / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(f'#!/bin/sh\ncase "$*" in *{ids["Fails"]}*) exit 1 ;; esac\nexec sleep 600\n')
    agent.chmod(0o755)
    env = {"PATH": f"{agent.parent}:{os.environ['PATH']}", "TMUX_TMPDIR": str(home.path), "TERM": "xterm"}
    tmux = ["tmux", "-f", "/dev/null"]
    try:
        if inside:
            subprocess.run([*tmux, "new-session", "-d", "sleep 600"], env={**home.env, **env}, check=True, timeout=20)
            env["TMUX"] = f"{home.path}/tmux-{os.getuid()}/default,1,0"
        done = reopen(home, "--tmux", "--all", **env)
        assert done.returncode == 6
        assert done.stderr == (
            f"sess: reopen: its window closed at once: Fails\n  `sess resume {ids['Fails']}` says why.\n"
        )
        assert ("1 window in tmux" in done.stdout) is not inside
    finally:
        subprocess.run(["tmux", "kill-server"], env={**home.env, **env}, capture_output=True, timeout=20)


def test_all_at_once_needs_windows(home: Home, daemon: Daemon) -> None:
    done = reopen(home, "--all")
    assert done.returncode == 2
    assert "--tmux" in done.stderr
