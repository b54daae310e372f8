"""Completion: commands and options from a file, ids, agents and branches from the daemon."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.daemon import Daemon, Home, until
from tests.shell.conftest import LOAD, SHELLS, Shells, started
from tools import completions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.shell.conftest import Tmux

pytestmark = [pytest.mark.needs("zsh", "fish")]


def test_the_files_are_what_the_parsers_make() -> None:
    """`python -m tools.completions` writes them anew."""
    for path, text in completions.files().items():
        assert path.read_text() == text, f"{path.name} is not current: python -m tools.completions"


def offered(shells: Shells, shell: str, line: str) -> list[str]:
    """Return what *shell* would offer for *line*, without descriptions."""
    words = line.split(" ")
    if shell == "bash":
        quoted = " ".join(f"'{word}'" for word in words)
        script = (
            f"compopt() {{ :; }}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; __sess_complete; "
            'for each in "${COMPREPLY[@]-}"; do echo "${each%%  *}"; done'
        )
    elif shell == "fish":
        script = f"complete -C '{line}' | string replace -r '\\t.*' ''; true"
    else:
        quoted = " ".join(f"'{word}'" for word in words)
        script = (
            "compadd() { local name=$argv[-1]; print -rl -- ${(P)name} }\n"
            "_describe() { local name=$argv[-1]; print -rl -- ${${(P)name}%%:*} }\n_files() { print files }\n"
            "_message() { print -r -- message: $1 }\n"
            f"words=({quoted}); CURRENT={len(words)}; PREFIX='{words[-1]}'; _sess || true"
        )
    return [
        each for each in shells.run(shell, script).splitlines() if each and (each.startswith((words[-1], "message")))
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_and_choices(shells: Shells, shell: str) -> None:
    """Without a daemon, and without asking for one."""
    commands = offered(shells, shell, "sess re")
    assert {"resume", "reindex", "reopen"} <= set(commands)
    assert {"--app", "--here", "--json", "--help"} <= set(offered(shells, shell, "sess find --"))
    assert offered(shells, shell, "sess find --sort ") == ["recent", "relevance"]
    assert sorted(offered(shells, shell, "sess init ")) == ["bash", "fish", "zsh"]
    assert {"install", "uninstall", "logs"} <= set(offered(shells, shell, "sess service "))
    assert not shells.home.path.joinpath("state").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_ids_agents_and_branches_come_from_the_daemon(home: Home, daemon: Daemon, shells: Shells, shell: str) -> None:
    one, _ = home.claude_session("Older", branch="fix/cart")
    home.now += 60_000
    two, _ = home.codex_session("Newer", branch="main")
    daemon.sync()
    assert offered(shells, shell, "sess show ") == [two.id, one.id]
    assert offered(shells, shell, f"sess show {one.id[:6]}") == [one.id]
    assert sorted(offered(shells, shell, "sess find --app ")) == ["claude", "codex"]
    assert offered(shells, shell, "sess find --branch fi") == ["fix/cart"]


# 9 completes, 33 and 64 list what is left over, 37 goes through them (menu-complete), 42 inserts all of them, 63 lists.
@pytest.mark.parametrize(("how", "described"), [(9, 0), (33, 2), (37, 0), (42, 0), (63, 2), (64, 2), ("", 0)])
def test_bash_puts_no_description_into_the_line(
    home: Home, daemon: Daemon, shells: Shells, how: object, described: int
) -> None:
    """It is only for a list of several; readline inserts whatever it is given for another purpose."""
    ids = [home.claude_session(title)[0].id for title in ("One", "Two")]
    daemon.sync()
    script = (
        f"compopt() {{ :; }}; COMP_TYPE={how}; COMP_CWORD=2\n"
        f"for word in '' {ids[0]}; do COMP_WORDS=(sess show \"$word\")\n"
        '__sess_complete; printf "%s\\n" "${COMPREPLY[@]}"; done\n'
    )
    *several, one = shells.run("bash", script).splitlines()
    assert sum("  (" in line for line in several) == described
    assert sorted(line.partition("  (")[0] for line in several) == sorted(ids)
    assert one == ids[0]


def test_fish_shows_age_and_title_with_an_id(home: Home, daemon: Daemon, shells: Shells) -> None:
    home.claude_session("Fix double charge")
    daemon.sync()
    line = shells.run("fish", "complete -C 'sess show '")
    assert "· Fix double charge" in line


@pytest.mark.needs("tmux")
@pytest.mark.parametrize("shell", SHELLS)
def test_on_a_terminal_tab_completes_and_lists(
    home: Home, daemon: Daemon, shells: Shells, tmux: Callable[[], Tmux], shell: str
) -> None:
    """With the completion system of the shell itself; ids are listed with their titles."""
    ids = [home.claude_session(title)[0].id for title in ("Fix double charge", "Another")]
    daemon.sync()
    compinit = {"zsh": "autoload -Uz compinit; compinit -D -u\n"}.get(shell, "")
    prompt = {
        "bash": "PS1='ready> '\n",
        "zsh": "PROMPT='ready> '\n",
        "fish": "function fish_prompt; echo 'ready> '; end\n",
    }
    terminal = tmux()
    terminal.start(started(shells, shell, LOAD[shell] + compinit + prompt[shell]))
    until(lambda: "ready>" in terminal.screen)
    terminal.type("sess rein")
    terminal.keys("Tab")
    until(lambda: "ready> sess reindex" in terminal.screen)
    terminal.keys("C-u")
    terminal.type("sess find --sort rel")
    terminal.keys("Tab")
    until(lambda: "ready> sess find --sort relevance" in terminal.screen)
    terminal.keys("C-u")
    terminal.type(f"sess show {ids[0][:7]}")
    terminal.keys("Tab")
    until(lambda: f"ready> sess show {ids[0]}" in terminal.screen)
    assert "Fix double charge" not in terminal.screen
    terminal.keys("C-u")
    terminal.type("sess show ")
    terminal.keys("Tab", "Tab")
    until(lambda: "Fix double charge" in terminal.screen and "Another" in terminal.screen)


@pytest.mark.parametrize("shell", SHELLS)
def test_without_a_daemon_nothing_is_offered_and_none_is_started(shells: Shells, shell: str) -> None:
    assert offered(shells, shell, "sess show ") in ([], ["message: the daemon does not answer"])
    assert not (shells.home.path / "state").exists()


@pytest.fixture
def hung(home: Home, daemon: Daemon) -> Daemon:
    """A daemon that is stopped, with connections waiting until no more fit."""
    home.claude_session("kept", cwd="/usr")
    daemon.sync()
    until(lambda: (home.path / "state/run/here/-usr").exists())
    os.kill(daemon.process.pid, signal.SIGSTOP)
    waiting = []
    try:
        for _ in range(5000):
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            connection.connect(str(daemon.socket))
            waiting.append(connection)
    except BlockingIOError:
        pass
    yield daemon
    os.kill(daemon.process.pid, signal.SIGCONT)
    for connection in waiting:
        connection.close()


def timed(home: Home, *words: str, cwd: str = "/usr") -> tuple[float, subprocess.CompletedProcess[str]]:
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "sess", *words], env=home.env, cwd=cwd, capture_output=True, text=True, timeout=60
    )
    return time.monotonic() - begun, done


def test_beside_a_hung_daemon_completion_gives_up_at_once(home: Home, hung: Daemon) -> None:
    """100 ms, and what an interpreter takes to start."""
    bare, _ = timed(home, "prompt")
    taken, done = timed(home, "_complete", "ids", "")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    assert taken < bare + 2


@pytest.mark.parametrize("shell", SHELLS)
def test_beside_a_hung_daemon_every_shell_completes_what_is_static(shells: Shells, hung: Daemon, shell: str) -> None:
    """And soon: an interpreter and 100 ms for what only the daemon knows."""
    assert offered(shells, shell, "sess find --sort ") == ["recent", "relevance"]
    assert "--json" in offered(shells, shell, "sess show --")
    begun = time.monotonic()
    static = offered(shells, shell, "sess find --sort re")
    middle = time.monotonic()
    for line in ("sess show ", "sess find --app ", "sess find --branch fi"):
        assert offered(shells, shell, line) in ([], ["message: the daemon does not answer"])
    assert static
    assert time.monotonic() - middle < 3 * (middle - begun + 2)


def test_bash_lists_why_it_offers_nothing(shells: Shells, hung: Daemon) -> None:
    """At the second Tab. Of two that begin differently nothing gets into the line."""
    script = 'COMP_WORDS=(sess show ""); COMP_CWORD=2; COMP_TYPE=63; __sess_complete; printf "%s\\n" "${COMPREPLY[@]}"'
    assert shells.run("bash", script) == " \n(the daemon does not answer)\n"


def test_zsh_says_why_it_offers_nothing(shells: Shells, hung: Daemon) -> None:
    assert offered(shells, "zsh", "sess show ") == ["message: the daemon does not answer"]


def test_beside_a_hung_daemon_the_prompt_works(home: Home, hung: Daemon, shells: Shells) -> None:
    """The command, the hook in every shell, and the start of a shell."""
    _, done = timed(home, "prompt")
    assert (done.returncode, done.stdout) == (0, "1 · kept\n")
    for shell, hook in (("bash", "__sess_prompt"), ("zsh", "__sess_prompt"), ("fish", "emit fish_prompt")):
        begun = time.monotonic()
        assert shells.run(shell, f"{LOAD[shell]}cd /usr\n{hook}\n").endswith("kept\n")
        assert time.monotonic() - begun < 3


def test_beside_a_hung_daemon_find_says_so_within_its_limit(home: Home, hung: Daemon) -> None:
    taken, done = timed(home, "find")
    assert done.returncode == 3
    assert "the daemon does not answer" in done.stderr
    assert taken < 8


def test_the_parts_of_a_shell_are_in_the_package(tmp_path: Path) -> None:
    """What `sess init` prints lies beside the code, wherever that is."""
    names = {path.name for path in completions.HERE.iterdir()}
    assert names == {f"{part}.{shell}" for part in ("sess", "complete") for shell in SHELLS}
