"""A person's machine: a home, its daemon, repositories, and stand-ins for the agents' programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from fixtures.transcripts import Claude, Codex, write
from tests.daemon import PATIENCE, Daemon, Home

if TYPE_CHECKING:
    from pathlib import Path

STAND_IN = f"""\
#!{os.path.realpath(sys.executable)} -ISs
import json, os, sys
name = os.path.basename(__file__)
with open(os.path.dirname(__file__) + "/ran.json", "w") as file:
    json.dump({{"argv": [name, *sys.argv[1:]], "cwd": os.getcwd(), "env": dict(os.environ)}}, file)
sys.exit(42)
"""
RAN = 42
"""The exit code of a stand-in: with it, `sess` became the agent."""


class Ran(NamedTuple):
    """What a stand-in was given."""

    argv: list[str]
    cwd: str
    env: dict[str, str]


class TwoAccounts(Home):
    """A home whose daemon knows of a second store of Claude Code."""

    @property
    def work(self) -> Path:
        return self.path / "work account"

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "CLAUDE_CONFIG_DIR": str(self.work)}


class Machine:
    """One for many tests: each has a session of its own."""

    def __init__(self) -> None:
        self.home = TwoAccounts()
        self.programs = self.home.path / "bin"
        self.programs.mkdir()
        self._record = self.programs / "ran.json"
        for name in ("claude", "codex"):
            (self.programs / name).write_text(STAND_IN)
            (self.programs / name).chmod(0o755)
        # Of the real PATH nothing but this: the real agents may be there.
        self.tools = self.home.path / "tools"
        self.tools.mkdir()
        for name in ("git", "env", "printf"):
            if found := shutil.which(name):
                (self.tools / name).symlink_to(found)
        self._folders = 0
        self.home.now -= 30 * 86_400_000
        self.daemon = Daemon(self.home)

    def close(self) -> None:
        self.daemon.kill()
        self.home.remove()

    @property
    def env(self) -> dict[str, str]:
        env = self.home.env | {"PATH": f"{self.programs}:{self.tools}", "SESS_NO_SPAWN": "1"}
        del env["CLAUDE_CONFIG_DIR"]
        return env

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "sess", *words]

    def sess(self, *words: str, cwd: str | Path = "/", **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command without a terminal."""
        self.forget()
        return subprocess.run(
            self.argv(*words), env=self.env | env, cwd=cwd, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="surrogateescape", timeout=PATIENCE, check=False,
        )  # fmt: skip

    def resume(self, *words: str, cwd: str | Path = "/", **env: str) -> Ran:
        """Run `sess resume`, which has to become an agent, and return what that was given."""
        done = self.sess("resume", *words, cwd=cwd, **env)
        assert done.returncode == RAN, (done.returncode, done.stdout, done.stderr)
        return self.ran()

    def ran(self) -> Ran:
        """Return what the last stand-in was given, once."""
        ran = Ran(**json.loads(self._record.read_text()))
        self._record.unlink()
        return ran

    def forget(self) -> None:
        """Forget what the last stand-in was given."""
        self._record.unlink(missing_ok=True)

    def nothing_ran(self) -> bool:
        return not self._record.exists()

    def folder(self, name: str = "") -> str:
        """Make a folder of its own and return its path."""
        self._folders += 1
        path = self.home.path / f"p{self._folders}{name}"
        path.mkdir()
        return str(path)

    def repository(self, *branches: str) -> str:
        """Make a repository with a commit and *branches*, the last of them checked out; return its folder."""
        folder = self.folder()
        self.git(folder, "init", "-q", "-b", branches[0] if branches else "main")
        self.commit(folder)
        for branch in branches[1:]:
            self.git(folder, "checkout", "-q", "-b", branch)
        return folder

    def commit(self, folder: str) -> str:
        """Commit something and return the id of the commit."""
        self.git(folder, "commit", "-q", "--allow-empty", "-m", f"work in {folder}")
        return self.git(folder, "rev-parse", "HEAD")

    def git(self, folder: str, *words: str) -> str:
        identity = ("-c", "user.name=Anna", "-c", "user.email=anna@example.com")
        done = subprocess.run(
            ["git", "-C", folder, *identity, *words], env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout.removesuffix("\n")

    def claude(
        self,
        cwd: str,
        branch: str = "main",
        *,
        mode: str = "default",
        model: str = "claude-opus-5-5",
        effort: str = "high",
        title: str = "",
        prompt: str = "please do the thing",
        root: Path | None = None,
        **extra: Any,
    ) -> str:
        """Write a session of Claude Code; return its id."""
        self.home.now += 60_000
        session = Claude(self.home.random, cwd, branch, self.home.now, model=model, mode=mode)
        session.effort = effort
        session.custom_title = title
        session.extra = extra
        session.turn(prompt)
        session.metadata()
        write(f"{root or self.home.claude}/projects/{session.path}", session.lines, session.now)
        return session.id

    def codex(
        self,
        cwd: str,
        branch: str | None = "main",
        *,
        approval: str | dict[str, Any] = "on-request",
        sandbox: str = "workspace-write",
        model: str = "gpt-6-sol",
        effort: str = "high",
        prompt: str = "please do the thing",
        commit: str = "",
        repository: str = "",
        archived: bool = False,
    ) -> str:
        """Write a session of Codex; return its id."""
        self.home.now += 60_000
        session = Codex(self.home.random, cwd, branch, self.home.now)
        session.approval, session.sandbox, session.model, session.effort = approval, sandbox, model, effort
        if commit or repository:
            first = json.loads(session.lines[0])
            first["payload"]["git"] = {"commit_hash": commit, "branch": branch, "repository_url": repository}
            session.lines[0] = json.dumps(first).encode() + b"\n"
        session.turn(prompt)
        place = f"archived_sessions/{session.name}" if archived else f"sessions/{session.path}"
        write(f"{self.home.codex}/{place}", session.lines, session.now)
        return session.id

    def live(self, session: str, pid: int, status: str = "idle") -> Path:
        """Write the record of a process of Claude Code that has *session* open; return its path."""
        from sessiond.apps._process import started

        record = {"pid": pid, "sessionId": session, "procStart": started(str(pid)), "status": status}
        path = self.home.claude / "sessions" / f"{pid}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(record))
        return path
