"""Titles that attack: through the daemon, into every shell, prompt and completion."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.daemon import Daemon, Home, until
from tests.shell.conftest import LOAD, SHELLS, Shells

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.needs("zsh", "fish")]

TITLES = [
    "$(touch ran)",
    "`touch ran`",
    "${x:-$(touch ran)}",
    "%n %{ %} %(!.%n.no) %F{red}",
    "!42 !! !$",
    "\\u \\w \\$(touch ran) \\e[31m",
    "\x1b[31mred \x1b]0;title\x07",
    "\x1b]52;c;cm0gLXJmIC8=\x07",
    "\x9b31m \x90q \x9d0;x\x9c",
    "a\u202eb\u2066c\u200f",
    "two\nlines\rand\x0bmore",
    "'; touch ran; '",
    '"; touch ran; "',
    "#(touch ran) #[fg=red]",
    "x" * 10_000,
]


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shells]:
    """Shells beside a daemon that has a session of each title, each in a folder of its own."""
    home = Home()
    shells = Shells(home)
    for number, title in enumerate(TITLES):
        folder = home.path / "work" / str(number)
        folder.mkdir(parents=True)
        home.now += 60_000
        home.claude_session(title, cwd=str(folder), branch=title[:60])
    daemon = Daemon(home)
    daemon.sync()
    until(lambda: len(list((home.path / "state/run/here").glob("*-work-*"))) == len(TITLES))
    until(lambda: list((home.path / "state/run/here").glob("-")))
    yield shells
    daemon.kill()
    home.remove()


# The prompt as the docs have it, and as they warn against.
PROMPTS = {
    "bash": ["shopt -s promptvars; PS1='${SESS_PROMPT}'", 'shopt -s promptvars; PS1="$SESS_PROMPT"'],
    "zsh": [
        "setopt prompt_subst prompt_bang prompt_percent; PROMPT='${SESS_PROMPT}'",
        'setopt prompt_subst prompt_bang; PROMPT="$SESS_PROMPT"',
    ],
    "fish": ["", ""],
}
EXPAND = {
    "bash": 'printf "%s\\n" "${PS1@P}"',
    "zsh": 'print -rP -- "$PROMPT"',
    "fish": 'echo "$SESS_PROMPT"',
}
HOOK = {"bash": "__sess_prompt", "zsh": "__sess_prompt", "fish": "emit fish_prompt"}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("way", [0, 1], ids=["as a variable", "put into the prompt"])
def test_nothing_in_a_title_runs_or_expands_or_breaks_the_line(shells: Shells, shell: str, way: int) -> None:
    """In the list on entering and in the prompt, whichever way the text got into it."""
    for number, _ in enumerate(TITLES):
        folder = shells.home.path / "work" / str(number)
        script = f"cd {folder}\n{HOOK[shell]}\necho +++\n{PROMPTS[shell][way]}\n{EXPAND[shell]}\n"
        script += "printf '%s\\n' \"$SESS_PROMPT\""
        listed, prompt = shells.run(shell, script).split("+++\n")
        expanded, plain = prompt.splitlines()
        assert expanded == plain
        assert len(listed.splitlines()) == 1
        assert all(character.isprintable() for character in listed.strip() + expanded)
        assert not (folder / "ran").exists()


def complete(shells: Shells, shell: str, line: str) -> str:
    """Return what a shell offers for *line*."""
    words = line.split(" ")
    script = {
        "bash": f"COMP_TYPE=63; COMP_WORDS=({line.rpartition(' ')[0]} '{words[-1]}'); COMP_CWORD={len(words) - 1}; "
        '__sess_complete; printf "%s\\n" "${COMPREPLY[@]}"',
        "fish": f"complete -C '{line}'",
    }
    return shells.run(shell, script[shell].replace("; __sess", "; compopt() { :; }; __sess"))


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_completion_offers_titles_that_cannot_steer_the_terminal(shells: Shells, shell: str) -> None:
    offered = complete(shells, shell, "sess show ")
    assert len(offered.splitlines()) == len(TITLES)
    assert all(character.isprintable() or character in "\n\t" for character in offered)


def test_a_branch_gets_into_the_line_quoted(shells: Shells) -> None:
    """In bash, which does not quote by itself; what is offered is one word that means the branch."""
    offered = complete(shells, "bash", "sess find --branch $(touch")
    done = subprocess.run(
        ["bash", "-c", f"printf %s {offered}"], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "$(touch ran)"


def test_zsh_lists_titles_as_they_are(shells: Shells, tmp_path: Path) -> None:
    """`compadd` gets the ids as what is inserted, and the rest only to show; here it is recorded."""
    script = (
        'compadd() { print -r -- "$*"; typeset -p values shown > /dev/null; print -rl -- $shown }\n'
        "words=(sess show ''); CURRENT=3; PREFIX=; _sess"
    )
    lines = shells.run("zsh", LOAD["zsh"] + script, load=False).splitlines()
    assert lines[0] == "-l -V ids -d shown -a values"
    assert len(lines) == len(TITLES) + 1
    assert all(character.isprintable() for line in lines for character in line)
