"""Completion from the files that the wheel installs, where no ``sess init`` is in a start file, and beside it."""

from __future__ import annotations

import shutil
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.daemon import REPOSITORY, Daemon, Home, until
from tests.shell.conftest import LOAD, SHELLS, Shells, started

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.shell.conftest import Tmux

pytestmark = [pytest.mark.needs("zsh", "fish")]


@pytest.fixture
def share(home: Home) -> Path:
    """The folder ``share`` of an installation."""
    tool = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    for source, target in tool["hatch"]["build"]["targets"]["wheel"]["shared-data"].items():
        (home.path / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / source, home.path / target)
    return home.path / "share"


def found_in(share: Path) -> dict[str, str]:
    """Return what makes each shell look for completions in *share*, as distributions set it up."""
    return {
        # What bash-completion does at the first Tab after a command that it has not seen.
        "bash": f'look() {{ . "{share}/bash-completion/completions/$1" && return 124; }}\ncomplete -D -F look\n',
        "zsh": f"fpath=({share}/zsh/site-functions $fpath)\nautoload -Uz compinit\ncompinit -D -u\n",
        "fish": f"set -p fish_complete_path {share}/fish/vendor_completions.d\n",
    }


ORDERS = {
    "alone": lambda files, code: files,
    "before sess init": lambda files, code: files + code,
    "after sess init": lambda files, code: code + files,
}
READY = {
    "bash": "PS1='ready> '\n",
    "zsh": "PROMPT='ready> '\nunsetopt beep\n",
    "fish": "function fish_prompt; echo 'ready> '; end\n",
}


@pytest.mark.needs("tmux")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_installed_file_completes(
    home: Home, daemon: Daemon, shells: Shells, share: Path, tmux: Callable[[], Tmux], shell: str, order: str
) -> None:
    """With the completion system of the shell itself, at the first Tab and at those after it."""
    one, _ = home.claude_session("Fix double charge")
    daemon.sync()
    terminal = tmux()
    rc = ORDERS[order](found_in(share)[shell], LOAD[shell])
    terminal.start(started(shells, shell, rc + READY[shell]))
    until(lambda: "ready>" in terminal.screen)
    for typed, completed in (
        ("sess rein", "sess reindex"),
        ("sess find --sort rel", "sess find --sort relevance"),
        (f"sess show {one.id[:7]}", f"sess show {one.id}"),
    ):
        terminal.type(typed)
        terminal.keys("Tab")
        until(lambda completed=completed: f"ready> {completed}" in terminal.screen)
        terminal.keys("C-u")


def test_fish_asks_the_daemon_once_with_both_loaded(home: Home, daemon: Daemon, shells: Shells, share: Path) -> None:
    """Fish loads the file in addition to what was sourced, and would run the commands of both."""
    one, _ = home.claude_session("Fix double charge")
    daemon.sync()
    program, asked = home.path / "bin" / "sess", home.path / "asked"
    program.write_text(program.read_text().replace("exec", f'echo "$1" >>{asked}\nexec', 1))
    script = found_in(share)["fish"] + LOAD["fish"] + "complete -C 'sess show '\n"
    assert shells.run("fish", script, load=False).startswith(one.id)
    assert asked.read_text().split() == ["init", "_complete"]
