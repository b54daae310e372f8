"""Reading leaves no trace, and touches nothing that is not on the allow-list."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.daemon import Daemon, Home, until

if TYPE_CHECKING:
    from pathlib import Path

AUDITED = """
import os, sys
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
def hook(event, arguments):
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.utime"):
        os.write(out, repr((event, *map(str, arguments))).encode() + b"\\n")
sys.addaudithook(hook)
sys.argv = ["sessiond"]
from sessiond.__main__ import main
sys.exit(main())
"""

ALLOWED = re.compile(
    r"/\.claude/projects/[^/]+/[0-9a-f-]{36}(\.jsonl|/custom-title\.json)$"
    r"|/\.claude/sessions/\d+\.json$"
    r"|/\.codex/(sessions/([^/]+/)*|archived_sessions/)rollout-[^/]*\.jsonl(\.zst)?$"
    r"|/\.codex/session_index\.jsonl$"
    r"|/\.codex/(sqlite/)?state_\d+\.sqlite(-wal|-shm)?$"
)
SECRETS = [
    ".claude/.credentials.json",
    ".claude.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/sessions/123.abcdef.key",
    ".claude/history.jsonl",
    ".claude/ide/1234.lock",
    ".claude/projects/-srv-shop/memory/notes.jsonl",
    ".claude/projects/-srv-shop/agent-a12ba55.jsonl",
    ".claude/projects/-srv-shop/not-a-uuid.jsonl",
    ".claude/projects/-srv-shop/sessions-index.json",
    ".codex/auth.json",
    ".codex/config.toml",
    ".codex/history.jsonl",
    ".codex/logs_2.sqlite",
    ".codex/sessions/2026/11/30/notes.txt",
    ".codex/sessions/2026/11/30/rollout-x.jsonl.rollout-compress.tmp",
]


def a_home_with_everything(home: Home) -> None:
    """Sessions of both agents among files that are none of our business."""
    import apsw

    for number in range(3):
        session, path = home.claude_session(f"claude {number}")
        subagents = path.with_suffix("") / "subagents"
        subagents.mkdir(parents=True)
        (subagents / "agent-a181114ca2da77c86.jsonl").write_bytes(session.lines[-1])
        (path.with_suffix("") / "custom-title.json").write_text('{"customTitle":"side"}')
        home.codex_session(f"codex {number}")
    for secret in SECRETS:
        path = home.path / secret
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"secret":"hunter2"}')
    link = home.claude / "projects" / "-srv-shop" / "00000000-0000-4000-8000-00000000000c.jsonl"
    link.symlink_to(home.claude / ".credentials.json")
    db = apsw.Connection(str(home.codex / "state_5.sqlite"))
    db.execute("PRAGMA journal_mode = WAL; CREATE TABLE threads (id TEXT, rollout_path TEXT, title TEXT)")
    db.close()


def contents(*folders: Path) -> dict[str, tuple[int, int, str]]:
    """Return mode, mtime and checksum of everything in *folders*, by name."""
    found = {}
    for folder in folders:
        for path in [folder, *folder.rglob("*")]:
            status = path.lstat()
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (status.st_mode, status.st_mtime_ns, hashlib.sha256(data).hexdigest())
    return found


def use(home: Home, daemon: Daemon) -> None:
    """Ask for everything that makes the daemon open files."""
    daemon.sync()
    for row in daemon.find(limit=100, all=True):
        daemon.ask("show", id=row["id"])
    daemon.ask("reindex")
    daemon.sync()
    for _ in range(3):
        home.codex_session("one more")
        daemon.sync()


def test_the_agents_folders_stay_byte_for_byte_the_same(home: Home) -> None:
    """Names, times and contents, also beside databases; a restart and a rebuild included."""
    a_home_with_everything(home)
    before = contents(home.claude, home.codex)
    daemon = Daemon(home)
    daemon.sync()
    for row in daemon.find(limit=100, all=True):
        daemon.ask("show", id=row["id"])
    daemon.ask("reindex")
    daemon.sync()
    daemon.kill()
    daemon.start()
    daemon.sync()
    daemon.stop()
    assert contents(home.claude, home.codex) == before


def test_only_files_on_the_allow_list_are_opened(home: Home) -> None:
    """Every open of the interpreter, seen by an audit hook; none for writing."""
    a_home_with_everything(home)
    record = home.path / "audit"
    daemon = Daemon(home, command=(sys.executable, "-c", AUDITED, str(record)))
    use(home, daemon)
    daemon.stop()
    stores = (str(home.claude), str(home.codex))
    opened = set()
    for line in record.read_text().splitlines():
        event, path, *rest = eval(line)
        if not path.startswith((*stores, str(home.path / ".claude.json"))):
            continue
        assert event == "open", line
        assert not int(rest[1]) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC), line
        opened.add(path)
    assert len(opened) >= 8
    assert not [path for path in opened if not ALLOWED.search(path) and not os.path.isdir(path)]


@pytest.mark.needs("strace")
def test_the_kernel_sees_no_other_file_opened_either(home: Home) -> None:
    """SQLite opens files behind the interpreter's back; strace sees those too, and that nothing is changed."""
    a_home_with_everything(home)
    record = home.path / "strace"
    calls = "open,openat,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,link,linkat,symlink,symlinkat"
    daemon = Daemon(
        home,
        command=(
            *("strace", "-f", "-qq", "-s", "400", "-e", f"trace={calls},truncate,connect,socket", "-o", str(record)),
            *(sys.executable, "-m", "sessiond"),
        ),
    )
    try:
        use(home, daemon)
        daemon.ask("stop")
        until(lambda: daemon.process.poll() is not None)
    finally:
        daemon.kill()
    trace = record.read_text()
    opened = set()
    for line in trace.splitlines():
        for path in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
            if path.startswith((str(home.claude), str(home.codex))):
                assert "O_WRONLY" not in line, line
                assert "O_RDWR" not in line, line
                assert "O_CREAT" not in line, line
                assert " open" in line, line
                opened.add(path)
    assert len([path for path in opened if ALLOWED.search(path)]) >= 8
    assert not [
        path for path in opened if not ALLOWED.search(path) and os.path.lexists(path) and not os.path.isdir(path)
    ]
    assert "AF_INET" not in trace


def test_no_message_text_is_kept(home: Home, daemon: Daemon) -> None:
    """Neither in the index nor in the log: only titles, of which the beginning of the first prompt is one."""
    home.claude_session("a title")
    session, path = home.claude_session("another title")
    with path.open("ab") as file:
        begin = len(session.lines)
        session.turn("my password is xyzzy-4711", tools=1)
        session.answer([{"type": "text", "text": "noted: plugh-4711"}], "end_turn")
        file.writelines(session.lines[begin:])
    daemon.sync()
    assert "xyzzy-4711" in daemon.ask("show", id=session.id)["last_prompt"]
    daemon.stop()
    for kept in (home.path / "state").rglob("*"):
        if kept.is_file():
            assert b"plugh-4711" not in kept.read_bytes(), kept
            assert b"xyzzy-4711" not in kept.read_bytes(), kept
