"""A line that is printed means in every shell what it meant when it was made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from sess.quoting import command, quoted
from sessiond.protocol import Problem

WORDS = [
    *map(chr, range(32, 127)),
    *(chr(code) + "a" for code in range(1, 127)),
    *("a" + chr(code) for code in range(1, 127) if code != 10),
    *(
        "",
        "-n",
        "--x=y",
        "~root",
        "=ls",
        "{a,b}",
        "a b  c",
        "!!",
        "'\"'\\",
        "\\\\",
        "\\n",
        "%s%d",
        "claude-opus-5-5[1m]",
    ),
    *('model_reasoning_effort="high"', "$(touch pwned)", "`id`", "a\n\nb", "\n", "日本 語", "é", "😀", "“x”"),
    *("\x1b[31m", "\u202eabc", "a\u00a0b", "\u200d", "\udcff\udcfe", "#x", "x#y", "a;b", "a&b", "^x^y", "*", "?"),
]
FITTING = [word for word in WORDS if not word.endswith("\n")]
ECHO = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"


@pytest.mark.needs("dash", "bash", "zsh", "fish")
@pytest.mark.parametrize("shell", ["dash", "bash", "zsh", "fish"])
def test_every_word_is_read_back_as_it_was(shell: str) -> None:
    """Whatever is in it, and without that anything of it is run."""
    line = command([sys.executable, "-Ic", ECHO, *FITTING], "/", {})
    assert line.isprintable()
    done = subprocess.run([shutil.which(shell), "-c", os.fsencode(line)], capture_output=True, check=True)
    assert done.stdout.split(b"\0") == [os.fsencode(word) for word in FITTING]


@pytest.mark.needs("bash", "zsh")
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_pasted_line_is_not_taken_for_history(shell: str) -> None:
    """A `!` would be, at the prompt of a shell."""
    line = command([sys.executable, "-Ic", ECHO, "!!", "!x", 'a"!b'], "/", {})
    done = subprocess.run(
        [shutil.which(shell), "-i"], input=os.fsencode(line) + b"\n", capture_output=True, check=True,
        env={"PATH": os.defpath, "HOME": "/nonexistent"},
    )  # fmt: skip
    assert b'!!\0!x\0a"!b' in done.stdout


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ({}, "cd /a\\ b && claude -x"),
        ({"A": None}, "cd /a\\ b && env -u A claude -x"),
        ({"B": "c d", "A": None}, "cd /a\\ b && env -u A B=c\\ d claude -x"),
    ],
)
def test_the_line_changes_the_environment_as_well(env: dict[str, str | None], line: str) -> None:
    """By a program, since not every shell knows assignments before a command."""
    assert command(["claude", "-x"], "/a b", env) == line


def test_a_word_that_ends_with_a_newline_fits_on_no_line() -> None:
    """A folder that does is written in another way."""
    with pytest.raises(Problem):
        quoted("x\n")
    assert command(["x"], "/a\n", {}) == "cd \"$(printf '/a\\012/.')\" && x"
