"""What things cost, in counts that are the same on every machine: bytes, files, statements, processes, modules.

``python -m tests.bench`` measures the same in time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fixtures import corpus
from sessiond.dirty import INTERVAL
from tests.bench.corpora import complete
from tests.daemon import REPOSITORY, Daemon, Home

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells in /proc what a process has read")

KIB, MIB = 1 << 10, 1 << 20
HEAD_AND_TAIL = 700 * KIB
"""Read of a transcript the first time: 80 lines, which in a generated one have up to 150 KiB, and 512 KiB."""
COUNTED = """
import apsw, json, os, sys, threading
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
def note(**event):
    os.write(out, json.dumps(event).encode() + b"\\n")
def opened(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        note(file=arguments[0])
def executed(event):
    thread = threading.current_thread().name
    if event["code"] == apsw.SQLITE_TRACE_STMT:
        if not event["trigger"]:
            note(sql=event["sql"], thread=thread)
    elif thread == "MainThread" and "'main'.'search_" not in event["sql"]:  # of full text, counted twice
        note(steps=event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])
sys.addaudithook(opened)
events = apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_PROFILE
apsw.connection_hooks.append(lambda db: db.trace_v2(events, executed))
sys.argv = ["sessiond"]
from sessiond.__main__ import main
sys.exit(main())
"""

START = f"""
import sys
sys.path += [{str(REPOSITORY)!r}, {str(REPOSITORY / "cli")!r}]
from sess.relay import main
main()
"""
"""The client as the launcher starts it, but from this tree."""


class Cost(NamedTuple):
    """What a daemon did."""

    files: list[str]
    """Transcripts it opened."""
    queries: list[str]
    """SQL that its main thread ran, which answers."""
    writes: list[str]
    """SQL that its indexer ran."""
    steps: int
    """Instructions of SQLite's machine for the main thread."""
    read: int
    """Bytes it read from any file, its index included, as the kernel counts them."""
    units: int
    """Units it read, as it counts them itself."""


class Counted(Daemon):
    """A daemon whose opened files and SQL statements are written down as they happen."""

    def __init__(self, home: Home) -> None:
        self._record = home.path / "record"
        self._before = (0, 0)
        super().__init__(home, command=(sys.executable, "-c", COUNTED, str(self._record)))
        complete(self)

    def settle(self) -> None:
        """Wait until all that changed on disk before now is in the index."""
        while self.ask("sync", timeout_ms=30_000)["progress"] is not None:
            pass

    def cost(self) -> Cost:
        """Return what it did since the last call."""
        with open(f"/proc/{self.process.pid}/io", encoding="ascii") as io:
            read = int(io.readline().removeprefix("rchar:"))
        noted = [json.loads(line) for line in self._record.read_text().splitlines()]
        units = self.ask("status")["units_read"]
        self._record.write_text("")  # what `status` took goes as well
        before, self._before = self._before, (read, units)
        return Cost(
            files=[each["file"] for each in noted if each.get("file", "").endswith(".jsonl")],
            queries=[each["sql"] for each in noted if "sql" in each and each["thread"] == "MainThread"],
            writes=[each["sql"] for each in noted if "sql" in each and each["thread"] == "indexer"],
            steps=sum(each["steps"] for each in noted if "steps" in each),
            read=read - before[0],
            units=units - before[1],
        )


@pytest.fixture
def counted(home: Home) -> Iterator[Counted]:
    """A daemon in a home without sessions."""
    (home.claude / "projects").mkdir(parents=True)
    (home.codex / "sessions").mkdir(parents=True)
    daemon = Counted(home)
    daemon.cost()
    yield daemon
    daemon.kill()


def move_in(daemon: Counted, **wanted: Any) -> None:
    """Have a corpus appear in the home of *daemon* at once, and be indexed."""
    elsewhere = daemon.home.path / "elsewhere"
    corpus.make(str(elsewhere), **wanted)
    for store in (".claude/projects", ".codex/sessions"):
        for folder in (elsewhere / store).iterdir():
            folder.rename(daemon.home.path / store / folder.name)
    daemon.settle()


def test_a_first_index_opens_each_transcript_once_and_reads_its_head_and_tail(counted: Counted) -> None:
    """Whatever lies between; what the kernel counts is what `status` says, and little more for the index."""
    before = counted.ask("status")["bytes_read"]
    move_in(counted, sessions=60, median_mb=50, share_2gb=0.1)
    cost = counted.cost()
    assert len(cost.files) == len(set(cost.files)) == cost.units == 60
    told = counted.ask("status")["bytes_read"] - before
    assert told < 60 * HEAD_AND_TAIL
    assert told < cost.read < told + 60 * 32 * KIB


def test_a_first_index_runs_few_statements_and_transactions(home: Home) -> None:
    """Rows are stored many at a time; a restart runs some statements for each folder, and none for a session."""
    corpus.make(str(home.path), sessions=1000, tail_kb=0)
    folders = len(list((home.claude / "projects").iterdir())) + len(list((home.codex / "sessions").glob("*/*/*")))
    daemon = Counted(home)
    try:
        first = daemon.cost()
        assert first.units == 1000
        assert len(first.writes) < 1000 * 15
        assert first.writes.count("COMMIT") < 1000 / 20
        daemon.stop()
        daemon.start()
        complete(daemon)
        again = daemon.cost()
        assert again.files == []
        assert len(again.writes) < 50 + 2 * folders
    finally:
        daemon.kill()


@pytest.mark.parametrize(("tools", "most"), [(2, 64 * KIB), (350, 700 * KIB)], ids=["small", "larger than a tail"])
def test_a_turn_appended_to_2_gb_costs_what_is_new(home: Home, counted: Counted, tools: int, most: int) -> None:
    """One open, a few statements, the new bytes; of a turn that is larger than a tail no more than a tail."""
    session, path = home.claude_session("large")
    begin = len(session.lines)
    session.fill(MIB)
    tail = b"\n" + b"".join(session.lines[begin:])
    with path.open("r+b") as file:
        file.truncate((2 << 30) - len(tail))
        file.seek(0, os.SEEK_END)
        file.write(tail)
    counted.settle()
    counted.cost()
    begin = len(session.lines)
    session.turn("one more", tools=tools, words=60)
    new = b"".join(session.lines[begin:])
    with path.open("ab", buffering=0) as file:
        file.write(new)
    counted.settle()
    cost = counted.cost()
    assert cost.files == [str(path)]
    assert cost.read < min(len(new) + 64 * KIB, most)
    assert len(cost.writes) < 40


def test_lines_that_come_fast_are_read_together(home: Home, counted: Counted) -> None:
    """The first at once, the others after 0.2 s each: however many lines, no more reads than time allows."""
    session, path = home.claude_session("busy")
    counted.settle()
    counted.cost()
    line = max(session.lines, key=len)
    begin = time.monotonic()
    with path.open("ab", buffering=0) as file:
        for _ in range(2000):
            file.write(line)
    counted.settle()
    cost = counted.cost()
    assert 1 <= len(cost.files) <= 3 + (time.monotonic() - begin) / INTERVAL
    assert cost.read < 2000 * len(line) + len(cost.files) * 128 * KIB


@pytest.fixture(scope="module")
def many() -> Iterator[Counted]:
    """A daemon of 8,000 sessions, more than are looked at one by one (`search.WALK`) or fetched (`search.COMMON`)."""
    home = Home()
    corpus.make(str(home.path), sessions=8_000, tail_kb=0)
    plain = Daemon(home)
    complete(plain)
    plain.stop()
    daemon = Counted(home)
    yield daemon
    daemon.kill()
    home.remove()


@pytest.mark.xdist_group("many")
@pytest.mark.parametrize(
    "text",
    ["", "7973", "cart", "fix cart", "ca", "xq", "v1", "検索", "亀", "branch:release", "app:codex webhooks", "zyzzyva"],
)
def test_a_query_takes_a_bounded_number_of_steps(many: Counted, text: str) -> None:
    """Common, rare, two words, two characters, Japanese, a field, no match: bounded however many sessions there are."""
    many.cost()
    many.find(text)
    cost = many.cost()
    assert cost.files == []
    assert cost.units == 0
    assert len(cost.queries) < 30
    assert cost.steps < 80_000


@pytest.mark.xdist_group("many")
def test_memory_and_index_stay_small(many: Counted) -> None:
    """Resident at most 60 MB, on disk at most 1,250 bytes a session."""
    with open(f"/proc/{many.process.pid}/status", encoding="ascii") as status:
        resident = int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) * KIB
    assert resident < 60_000_000
    assert os.path.getsize(many.index) < 8_000 * 1250


def test_the_daemon_imports_nothing_that_it_may_never_need() -> None:
    """Each of these is slow to import, and wanted for a copy, a hash, a file of settings or a report only."""
    code = "import sys, sessiond.daemon, sessiond.apps; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert not {"argparse", "email", "hashlib", "importlib.metadata", "shutil", "tempfile", "tomllib"} & set(
        done.stdout.split()
    )


@pytest.mark.needs("strace")
def test_a_find_is_one_process_that_opens_few_files(home: Home, daemon: Daemon) -> None:
    """No thread, no child; beside what the bare interpreter opens only itself, and nothing of the sessions."""
    home.claude_session("here")
    daemon.sync()
    record = home.path / "strace"

    def traced(*words: str) -> tuple[list[str], list[str]]:
        calls = "trace=execve,fork,vfork,clone,clone3,openat,open"
        command = ["strace", "-f", "-qq", "-o", str(record), "-e", calls, sys.executable, "-I", "-S", *words]
        subprocess.run(command, env=home.env, cwd="/", check=True, stdout=subprocess.DEVNULL)
        lines = record.read_text().splitlines()
        opened = [line for line in lines if re.search(r"\bopen(at)?\(", line) and "ENOENT" not in line]
        return [line for line in lines if re.search(r"\b(execve|v?fork|clone3?)\(", line)], opened

    started, bare = traced("-c", "pass")
    again, opened = traced("-c", START, "find")
    assert len(started) == len(again) == 1
    assert len(opened) - len(bare) < 20
    assert not [line for line in opened if str(home.claude) in line or str(home.codex) in line]
