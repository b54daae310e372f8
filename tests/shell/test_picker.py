"""The picker on a real terminal, with fzf and without."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.daemon import Daemon, until
from tests.shell.conftest import LOAD, Shells

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.daemon import Home
    from tests.shell.conftest import Tmux

pytestmark = [pytest.mark.needs("tmux", "zsh", "fish")]
with_fzf = pytest.mark.needs("fzf")


@pytest.fixture
def picking(home: Home, daemon: Daemon, shells: Shells, tmp_path: Path) -> dict[str, str]:
    """Three sessions, and a `claude` that says what it was started with; returns ids by title."""
    ids = {}
    for title, cwd in (("Older task", "/usr"), ("Fix double charge", str(tmp_path)), ("Newest of all", "/usr/lib")):
        home.now += 60_000
        session, _ = home.claude_session(title, cwd=cwd, branch="HEAD")
        ids[title] = session.id
    daemon.sync()
    agent = home.path / "bin" / "claude"
    agent.write_text('#!/bin/sh\necho "resumed in $PWD: $*"\nexec cat\n')
    agent.chmod(0o755)
    return ids


def without_fzf(shells: Shells) -> str:
    """Return a PATH with all that is needed but fzf."""
    folder = shells.home.path / "few"
    folder.mkdir()
    for name in ("sh", "cat", "git", "env", "sleep"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return f"{shells.home.path / 'bin'}:{folder}"


@with_fzf
def test_enter_resumes_the_session_in_its_folder(
    picking: dict[str, str], tmux: Callable[[], Tmux], tmp_path: Path
) -> None:
    """The list is there at once, what is typed is searched for by the daemon, the preview shows the row."""
    terminal = tmux()
    terminal.start("sess pick; sleep 60")
    until(lambda: all(title in terminal.screen for title in picking))
    terminal.type("title:DOUBLE")
    until(lambda: "Older task" not in terminal.screen and "Fix double charge" in terminal.screen)
    until(lambda: picking["Fix double charge"] in terminal.screen)
    terminal.keys("Enter")
    until(
        lambda: f"resumed in {tmp_path}: --resume {picking['Fix double charge']}" in terminal.screen.replace("\n", "")
    )


@with_fzf
def test_the_id_is_printed_for_scripts(picking: dict[str, str], tmux: Callable[[], Tmux]) -> None:
    """The list is drawn on the terminal although stdout is none; leaving it is told by the exit code."""
    terminal = tmux()
    terminal.start("bash --norc -c 'id=$(sess pick --print-id title:older 2>/dev/null); echo got=$id=$?; "
                   "id=$(sess pick --print-id); echo left=$id=$?; sleep 60'")  # fmt: skip
    until(lambda: "Older task" in terminal.screen)
    terminal.keys("Enter")
    until(lambda: f"got={picking['Older task']}=0" in terminal.screen or "Newest" in terminal.screen)
    until(lambda: "Newest of all" in terminal.screen)
    terminal.keys("Escape")
    until(lambda: f"got={picking['Older task']}=0" in terminal.screen and "left==130" in terminal.screen)


@with_fzf
def test_keys_print_the_command_and_copy_the_id(picking: dict[str, str], tmux: Callable[[], Tmux]) -> None:
    terminal = tmux()
    terminal.start("sess pick newest; sess pick older; echo copied; sleep 60", columns=200)
    until(lambda: "Newest of all" in terminal.screen)
    terminal.keys("C-o")
    until(lambda: "Older task" in terminal.screen)
    terminal.keys("C-y")
    until(lambda: "copied" in terminal.screen)
    assert f"cd /usr/lib && claude --resume {picking['Newest of all']}" in terminal.screen


@with_fzf
def test_keys_narrow_to_the_folder_and_show_what_is_hidden(
    home: Home, daemon: Daemon, picking: dict[str, str], tmux: Callable[[], Tmux], tmp_path: Path
) -> None:
    """And back; what was typed stays."""
    _, path = home.claude_session("Deleted one", cwd="/usr")
    daemon.sync()
    path.unlink()
    daemon.sync()
    terminal = tmux()
    terminal.start("sess pick; sleep 60", cwd=str(tmp_path))
    until(lambda: all(title in terminal.screen for title in picking))
    assert "Deleted one" not in terminal.screen
    terminal.keys("M-h")
    until(lambda: "Older task" not in terminal.screen and "Fix double charge" in terminal.screen)
    terminal.keys("M-h")
    until(lambda: all(title in terminal.screen for title in picking))
    terminal.keys("M-a")
    until(lambda: "Deleted one" in terminal.screen)


def test_without_fzf_it_is_a_numbered_list(
    shells: Shells, picking: dict[str, str], tmux: Callable[[], Tmux], tmp_path: Path
) -> None:
    """Words search, a number resumes."""
    terminal = tmux()
    terminal.start(f"env PATH={without_fzf(shells)} sh -c 'sess pick; sleep 60'")
    until(lambda: "A number, or words" in terminal.screen)
    assert "1 " in terminal.screen
    terminal.type("nothing-like-it")
    terminal.keys("Enter")
    until(lambda: "Nothing found" in terminal.screen)
    terminal.type("double")
    terminal.keys("Enter")
    until(lambda: terminal.screen.count("Fix double charge") == 2)
    terminal.type("1")
    terminal.keys("Enter")
    until(lambda: f"--resume {picking['Fix double charge']}" in terminal.screen.replace("\n", ""))
    assert f"resumed in {tmp_path}" in terminal.screen.replace("\n", "")


@with_fzf
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_key_of_the_shell_opens_it(
    shells: Shells, picking: dict[str, str], tmux: Callable[[], Tmux], shell: str, tmp_path: Path
) -> None:
    """Alt-S; what was typed is untouched when nothing is chosen, and what is chosen is resumed."""
    rc = {
        "bash": f"SESS_LINES=0\n{LOAD['bash']}PS1='ready> '\n",
        "zsh": f"SESS_LINES=0\n{LOAD['zsh']}PROMPT='ready> '\n",
        "fish": f"set -g SESS_LINES 0\n{LOAD['fish']}function fish_prompt; echo 'ready> '; end\n",
    }[shell]
    folder = shells.home.path / "start"
    path = {"bash": folder / "rc", "zsh": folder / ".zshrc", "fish": folder / "fish" / "config.fish"}[shell]
    path.parent.mkdir(parents=True)
    path.write_text(rc)
    start = {
        "bash": f"bash --noprofile --rcfile {path}",
        "zsh": f"env ZDOTDIR={folder} zsh",
        "fish": f"env XDG_CONFIG_HOME={folder} fish",
    }
    terminal = tmux()
    terminal.start(start[shell])
    until(lambda: "ready>" in terminal.screen)
    terminal.type("echo half a line")
    terminal.keys("M-s")
    until(lambda: "Newest of all" in terminal.screen)
    terminal.keys("Escape")
    until(lambda: "Newest of all" not in terminal.screen and "half a line" in terminal.screen)
    terminal.keys("M-s")
    until(lambda: "Newest of all" in terminal.screen)
    terminal.type("double")
    until(lambda: "Older task" not in terminal.screen and "Fix double charge" in terminal.screen)
    terminal.keys("Enter")
    until(lambda: f"resumed in {tmp_path}" in terminal.screen.replace("\n", ""))
    assert f"sess resume {picking['Fix double charge']}" in terminal.screen.replace("\n", "")


@with_fzf
def test_the_fzf_of_a_python_package_will_do(
    shells: Shells, picking: dict[str, str], tmux: Callable[[], Tmux], tmp_path: Path
) -> None:
    """That of iterfzf, where none is on PATH; of a fzf that cannot do it, the list takes the place."""
    bundled = tmp_path / "iterfzf" / "fzf"
    bundled.parent.mkdir()
    bundled.symlink_to(str(shutil.which("fzf")))
    path = without_fzf(shells)
    terminal = tmux()
    terminal.start(f"env PATH={path} PYTHONPATH={shells.env['PYTHONPATH']}:{tmp_path} sh -c 'sess pick; sleep 60'")
    until(lambda: "Newest of all" in terminal.screen and "enter resumes" in terminal.screen)
    old = shells.home.path / "few" / "fzf"
    old.write_text("#!/bin/sh\nexit 2\n")
    old.chmod(0o755)
    terminal = tmux()
    terminal.start(f"env PATH={path} sh -c 'sess pick; sleep 60'")
    until(lambda: "A number, or words" in terminal.screen)


def test_without_a_terminal_it_says_so(shells: Shells, daemon: Daemon) -> None:
    done = subprocess.run(
        ["setsid", "--wait", "sess", "pick"],
        env=shells.env,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "there is no terminal" in done.stderr


@with_fzf
def test_it_starts_the_daemon(home: Home, shells: Shells, tmux: Callable[[], Tmux]) -> None:
    home.claude_session("Only one")
    terminal = tmux()
    terminal.start("sess pick; sleep 60")
    until(lambda: "Only one" in terminal.screen)
    subprocess.run([sys.executable, "-m", "sess", "stop"], env=home.env, capture_output=True, timeout=60, check=True)
