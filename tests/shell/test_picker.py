"""The picker on a real terminal, with fzf and without."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sess import picker
from tests.daemon import Daemon, until
from tests.shell.conftest import LOAD, SHELLS, Shells, started
from tests.shell.test_prompt import QUIET

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


def without_fzf(shells: Shells, *more: str) -> str:
    """Return a PATH with all that is needed, and *more*, but fzf."""
    folder = shells.home.path / "few"
    folder.mkdir()
    for name in ("sh", "cat", "git", "env", "sleep", *more):
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


VI = {"bash": "set -o vi\n", "zsh": "bindkey -v\n", "fish": "fish_vi_key_bindings\n"}


def interactive(shells: Shells, shell: str, before: str = "", after: str = "", path: str = "$PATH") -> str:
    """Return the command that starts *shell* with the code between *before* and *after*, and the prompt ``ready>``."""
    prompt = {
        "bash": "PS1='ready> '\n",
        "zsh": "PROMPT='ready> '\n",
        "fish": "function fish_prompt; echo 'ready> '; end\nfunction fish_mode_prompt; end\n",
    }[shell]
    return f"env PATH={path} " + started(shells, shell, QUIET[shell] + before + LOAD[shell] + after + prompt)


@with_fzf
@pytest.mark.parametrize("shell", SHELLS)
def test_a_key_of_the_shell_opens_it(
    shells: Shells, picking: dict[str, str], tmux: Callable[[], Tmux], shell: str, tmp_path: Path
) -> None:
    """Alt-S; what was typed is untouched when nothing is chosen, and what is chosen is resumed."""
    terminal = tmux()
    terminal.start(interactive(shells, shell))
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
@pytest.mark.parametrize("when", ["before the line", "after the line"])
@pytest.mark.parametrize("shell", SHELLS)
def test_the_key_opens_it_in_vi_mode(
    shells: Shells, picking: dict[str, str], tmux: Callable[[], Tmux], shell: str, when: str
) -> None:
    """While inserting, and in command mode."""
    before, after = (VI[shell], "") if when == "before the line" else ("", VI[shell])
    terminal = tmux()
    terminal.start(interactive(shells, shell, before, after))
    until(lambda: "ready>" in terminal.screen)
    terminal.keys("M-s")
    until(lambda: "Newest of all" in terminal.screen)
    terminal.keys("Escape")
    until(lambda: "Newest of all" not in terminal.screen)
    terminal.type("echo command ")
    until(lambda: "echo command" in terminal.screen)
    terminal.keys("Escape")
    # `D` deletes what is under the cursor in command mode only.
    terminal.type("bD")
    until(lambda: "echo command" not in terminal.screen)
    terminal.keys("M-s")
    until(lambda: "Newest of all" in terminal.screen)
    terminal.type("title:older")
    until(lambda: "Newest of all" not in terminal.screen)
    terminal.keys("Enter")
    until(lambda: f"--resume {picking['Older task']}" in terminal.screen.replace("\n", ""))


@pytest.mark.parametrize("shell", SHELLS)
def test_the_key_opens_the_numbered_list_too(
    shells: Shells, picking: dict[str, str], tmux: Callable[[], Tmux], shell: str
) -> None:
    """A shell has the terminal raw then: still the line is shown and edited, and Enter, Esc and Ctrl-C work."""
    path = without_fzf(shells, shell)
    terminal = tmux()
    terminal.start(interactive(shells, shell, path=path))
    until(lambda: "ready>" in terminal.screen)
    terminal.type("echo half a line")
    until(lambda: "half a line" in terminal.screen)
    # An empty line, Esc, Ctrl-C and Ctrl-D leave it, and the shell has its line and its terminal as before.
    for number, key in enumerate(("Enter", "Escape", "Up", "C-c", "C-d"), 1):
        terminal.keys("M-s")
        until(lambda: terminal.history.count("search for:") == number)  # noqa: B023 - called at once
        terminal.keys(key)
        until(lambda: terminal.screen.rstrip().endswith("ready> echo half a line"))
    terminal.keys("C-u")
    terminal.type("echo 'still' works")
    terminal.keys("Enter")
    until(lambda: "\nstill works" in terminal.screen)
    terminal.keys("M-s")
    until(lambda: terminal.screen.rstrip().endswith("search for:"))
    terminal.type("doublx")
    terminal.keys("BSpace")
    terminal.type("e")
    until(lambda: terminal.screen.rstrip().endswith("search for: double"))
    terminal.keys("Enter")
    until(lambda: terminal.screen.rstrip().endswith("search for:"))
    terminal.type("1")
    terminal.keys("Enter")
    until(lambda: f"--resume {picking['Fix double charge']}" in terminal.screen.replace("\n", ""))


@with_fzf
def test_what_somebody_set_for_fzf_changes_nothing_but_colors(
    shells: Shells, picking: dict[str, str], tmux: Callable[[], Tmux], tmp_path: Path
) -> None:
    """Each of these makes another fzf of it."""
    settings = [
        *("--multi --print0 --read0", "--expect=f1 --print-query", "--filter=zzz", "--query=zzz --exact"),
        *("--bind=enter:abort", "--bind=start:abort", "--bind=ctrl-m:print-query", "--select-1 --exit-0"),
        *("--with-nth=1 --delimiter=x --nth=9", "--header-lines=9", "--no-such-option", "--preview=false --sync"),
    ]
    (tmp_path / "opts").write_text("--filter=zzz\n")
    environments = [f"FZF_DEFAULT_OPTS='{each}'" for each in settings]
    environments += [f"FZF_DEFAULT_OPTS_FILE={tmp_path}/opts", "FZF_DEFAULT_COMMAND='echo zzz'"]
    script = "".join(
        f"env {each} sess pick --print-id title:older > {tmp_path}/{number}\n"
        for number, each in enumerate(environments)
    )
    (tmp_path / "script").write_text(script + "sleep 60\n")
    terminal = tmux()
    terminal.start(f"sh {tmp_path}/script")
    for number, environment in enumerate(environments):
        chosen = tmp_path / str(number)
        until(lambda: chosen.exists() and "enter prints the id" in terminal.screen)  # noqa: B023 - called at once
        until(lambda: "1/1" in terminal.screen and "Older task" in terminal.screen)
        terminal.keys("Enter")
        until(chosen.read_text)
        assert chosen.read_text() == picking["Older task"] + "\n", environment


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (b"--color=light --multi", b"--color=light"),
        (b"--height 40% --color 'fg:1,bg:2' --border", b"--color=fg:1,bg:2"),
        (b"--multi", b""),
    ],
)
def test_the_colors_for_fzf_stay(given: bytes, kept: bytes) -> None:
    environment = {b"FZF_DEFAULT_OPTS": given, b"FZF_DEFAULT_COMMAND": b"x", b"HOME": b"/"}
    assert picker.fzf_environment(environment) == {b"FZF_DEFAULT_OPTS": kept, b"HOME": b"/", b"SHELL": b"/bin/sh"}


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
    modules = f"{shells.env['PYTHONPATH']}:{tmp_path}"
    terminal.start(f"env PATH={path} 'PYTHONPATH={modules}' sh -c 'sess pick; sleep 60'")
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
    terminal.start("env -u SESS_NO_SPAWN sess pick; sleep 60")
    try:
        until(lambda: "Only one" in terminal.screen)
    finally:
        terminal.end()
        until(lambda: len(home.processes()) <= 1)  # what a preview asks would start it again
        asked = [sys.executable, "-m", "sess", "stop"]
        subprocess.run(asked, env=home.env, capture_output=True, timeout=60, check=False)
