"""Real shells, with the code of ``sess init`` and a home of their own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessiond.paths import snapshot_name
from tests.daemon import REPOSITORY, Home, ends_with_its_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHELLS = {
    "bash": ["bash", "--noprofile", "--norc"],
    "zsh": ["zsh", "-f"],
    "fish": ["fish", "--no-config"],
}
LOAD = {
    "bash": 'eval "$(sess init bash)"\n',
    "zsh": 'eval "$(sess init zsh)"\n',
    "fish": "sess init fish | source\n",
}


class Shells:
    """What runs a script in a shell, with ``sess`` on its PATH."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.here = home.path / "state" / "run" / "here"
        programs = home.path / "bin"
        programs.mkdir(exist_ok=True)
        # Without it, fish reads all manual pages at its first start.
        (home.path / ".local/share/fish/generated_completions").mkdir(parents=True, exist_ok=True)
        (programs / "sess").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sess "$@"\n')
        (programs / "sess").chmod(0o755)
        self.env = {**home.env, "PATH": f"{programs}:{os.environ['PATH']}", "TERM": "xterm", "LC_ALL": "C.UTF-8"}

    def run(
        self, shell: str, script: str, *, load: bool = True, env: dict[str, str] | None = None, cwd: str = "/"
    ) -> str:
        """Return what *script* prints on stdout; anything on stderr, or another exit code than 0, fails."""
        code = LOAD[shell] + script if load else script
        done = subprocess.run(
            [*SHELLS[shell], "-c", code], env={**self.env, **(env or {})}, cwd=cwd, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stderr.decode()) == (0, ""), done.stdout.decode()
        return done.stdout.decode()

    def snapshot(self, folder: str, *rows: tuple[str, str, str], waiting: int = 0, version: str = "sess 1") -> None:
        """Write the file about *folder* as the daemon does; a row is state, branch and title."""
        self.here.mkdir(parents=True, exist_ok=True)
        content = f"{version}\0{folder}\0{len(rows)}\x1f{waiting}\x1f{len(rows)} · {rows[0][2]}\0"
        for number, (live, branch, title) in enumerate(rows):
            content += (
                "\x1f".join((f"id-{number}", "claude", "1000000000", "2001-09-09 01:46", live, branch, "", title))
                + "\0"
            )
        (self.here / snapshot_name(os.fsencode(folder))).write_bytes(os.fsencode(content))


@pytest.fixture
def home(home: Home) -> Iterator[Home]:
    """A home of which no process is left at the end: shells, terminals and pickers start many."""
    yield home
    ends_with_its_processes(home)


@pytest.fixture
def shells(home: Home) -> Shells:
    """Shells in `home`, without a daemon."""
    return Shells(home)


START = {"bash": "bash --noprofile --rcfile {}", "zsh": "env ZDOTDIR={} zsh", "fish": "env XDG_CONFIG_HOME={} fish"}


def started(shells: Shells, shell: str, rc: str) -> str:
    """Return the command that starts *shell* with the start file *rc*."""
    folder = shells.home.path / "start"
    path = {"bash": folder / "rc", "zsh": folder / ".zshrc", "fish": folder / "fish" / "config.fish"}[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rc)
    return START[shell].format(path if shell == "bash" else folder)


class Tmux:
    """A terminal, and what is on it."""

    def __init__(self, shells: Shells, name: str) -> None:
        self._tmux = ["tmux", "-L", name, "-f", "/dev/null"]
        # What still runs here when the daemon has ended must not start another.
        self._env = {**shells.env, "TERM": "screen-256color", "SESS_NO_SPAWN": "1"}

    def start(self, command: str, *, columns: int = 120, lines: int = 40, cwd: str = "/") -> None:
        self._do("new-session", "-d", "-x", str(columns), "-y", str(lines), "-c", cwd, command)

    def keys(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def type(self, text: str) -> None:
        self._do("send-keys", "-l", text)

    @property
    def screen(self) -> str:
        done = subprocess.run([*self._tmux, "capture-pane", "-p"], env=self._env, capture_output=True, timeout=20)
        return done.stdout.decode()

    @property
    def history(self) -> str:
        """What is on it, after what has left it at the top."""
        return self._do("capture-pane", "-p", "-S", "-").stdout.decode()

    @property
    def windows(self) -> list[str]:
        done = self._do("list-windows", "-a", "-F", "#{window_name}")
        return done.stdout.decode().splitlines()

    def _do(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*self._tmux, *words], env=self._env, check=True, capture_output=True, timeout=20)

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], env=self._env, capture_output=True, timeout=20)


@pytest.fixture
def tmux(shells: Shells, request: pytest.FixtureRequest) -> Iterator[Callable[[], Tmux]]:
    """Open a terminal; it ends with the test."""
    opened: list[Tmux] = []

    def open_one() -> Tmux:
        opened.append(Tmux(shells, f"sess-{os.getpid()}-{len(opened)}-{shells.home.path.name}"))
        return opened[-1]

    yield open_one
    for each in opened:
        each.end()


FILES = Path(REPOSITORY) / "cli" / "sess" / "shell"
