"""A real daemon in a temporary home, and the homes it reads."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fixtures.transcripts import Claude, Codex, write

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE = 30
"""Seconds after which a condition that does not come true fails its test; no test waits this long when it passes."""
REPOSITORY = Path(__file__).parent.parent


def until(condition: Callable[[], T]) -> T:
    """Return the first true result of *condition*; fail when none comes."""
    deadline = time.monotonic() + PATIENCE
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"never came true: {condition}")
        time.sleep(0.005)


class Home:
    """A person's home with agents' stores in it, in a folder short enough for a socket's path."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="sess-", dir="/tmp"))
        self.claude = self.path / ".claude"
        self.codex = self.path / ".codex"
        # Both are installed: one that is not is looked for every 5 s only.
        self.claude.mkdir()
        self.codex.mkdir()
        self.random = random.Random(1)
        self.now = int(time.time() * 1000) - 3_600_000

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def processes(self) -> list[int]:
        """Return the processes that have this home; none where there is no /proc."""
        mark, found = f"SESS_STATE_DIR={self.path}/state\0".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return found

    @property
    def env(self) -> dict[str, str]:
        """The environment in which nothing of the real home can be seen."""
        return {
            "HOME": str(self.path),
            "PATH": os.environ["PATH"],
            "SESS_STATE_DIR": str(self.path / "state"),
            "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'cli'}",
            "LANG": "C.UTF-8",
        }

    def claude_session(self, title: str, cwd: str = "/srv/shop", branch: str = "main") -> tuple[Claude, Path]:
        """Write a Claude Code session with that custom title; return its writer and its file."""
        self.now += 1000
        session = Claude(self.random, cwd, branch, self.now)
        session.custom_title = title
        session.turn("please do the thing")
        session.metadata()
        return session, Path(write(str(self.claude / "projects" / session.path), session.lines, session.now))

    def codex_session(self, prompt: str, cwd: str = "/srv/shop", branch: str | None = "main") -> tuple[Codex, Path]:
        """Write a Codex session that begins with that prompt; return its writer and its file."""
        self.now += 1000
        session = Codex(self.random, cwd, branch, self.now)
        session.turn(prompt)
        return session, Path(write(str(self.codex / "sessions" / session.path), session.lines, session.now))


def changed(code: str) -> tuple[str, ...]:
    """Return the command of a daemon that runs *code* first: shorter times, or a fault that no machine has at will."""
    start = "import sys; from sessiond.__main__ import main; sys.argv = ['sessiond']; main()"
    return sys.executable, "-c", f"{code}\n{start}"


HASTY = changed("from sessiond import indexer, server; indexer.CHECK = indexer.RETRY = server.HOUSEKEEPING = 0.2")
"""The command of a daemon that looks again after 0.2 s where the one that is shipped does so after 5 s."""


def ends_with_its_processes(home: Home) -> None:
    """Fail when a process of *home* does not end, and end it."""
    try:
        until(lambda: not home.processes())
    except AssertionError:
        left = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ") for pid in home.processes()]
        raise AssertionError(f"still running: {left}") from None
    finally:
        for pid in home.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Daemon:
    """A running ``sessiond`` of its own process, asked over its socket."""

    def __init__(self, home: Home, *, command: tuple[str, ...] = (sys.executable, "-m", "sessiond")) -> None:
        self.home = home
        self.socket = home.path / "state" / "run" / "sessiond.sock"
        self.index = home.path / "state" / "index.sqlite"
        self.log = home.path / "state" / "sessiond.log"
        self._command = command
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command,
            env=self.home.env, cwd="/", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        until(self._answers)

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended: {self.process.stderr.read().decode()}")
        try:
            self.ask("status")
        except OSError:
            return False
        return True

    def stop(self) -> int:
        """Stop it as a service manager does; return its exit code."""
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        self.process.stderr.close()
        return code

    def kill(self) -> None:
        """End it at once, if it still runs."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stderr.close()

    def answers(self, op: str, **fields: Any) -> list[dict[str, Any]]:
        """Return every object of the answer to a request."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(self.socket))
            connection.sendall(json.dumps({"v": 1, "op": op, **fields}).encode() + b"\n")
            lines = connection.makefile("rb")
            objects = [json.loads(lines.readline())]
            while "row" in objects[-1]:
                objects.append(json.loads(lines.readline()))
            return objects

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Return the closing object's content; an error fails the test."""
        closing = self.answers(op, **fields)[-1]
        assert "ok" in closing, closing
        return closing["ok"]

    def find(self, q: str = "", **fields: Any) -> list[dict[str, Any]]:
        """Return the rows found."""
        return [answer["row"] for answer in self.answers("find", q=q, **fields)[:-1]]

    def titles(self, q: str = "", **fields: Any) -> list[str]:
        return [row["title"] for row in self.find(q, **fields)]

    def sync(self) -> None:
        """Wait until everything on disk now is in the index."""
        assert self.ask("sync", timeout_ms=PATIENCE * 1000)["progress"] is None
