"""The questions of ``sess resume``, at a terminal."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from sessiond.protocol import AMBIGUOUS, INTERRUPTED, REFUSED
from tests.cli.machine import RAN
from tests.cli.terminal import Terminal

if TYPE_CHECKING:
    from tests.cli.machine import Machine

pytestmark = pytest.mark.needs("git")

GO_ON = b"Resume all the same? [y/N] "


@pytest.fixture
def changed(machine: Machine) -> str:
    """A session on a branch that is not checked out any more."""
    return machine.claude(machine.repository("then", "now"), "then")


@pytest.mark.parametrize("answer", ["y\n", "yes\n", " Y \n"])
def test_a_yes_goes_on(machine: Machine, changed: str, answer: str) -> None:
    """After the block has named both branches."""
    with Terminal(machine, "resume", changed) as terminal:
        terminal.wait_for(GO_ON)
        assert b"noted    branch    then then; here now now\r\n" in terminal.shown
        terminal.type(answer)
        assert terminal.code() == RAN
    assert machine.ran().argv[2] == changed


@pytest.mark.parametrize("answer", ["n\n", "\n", "what?\n", "\x04"])
def test_anything_else_does_not(machine: Machine, changed: str, answer: str) -> None:
    """Neither does the end of the input."""
    machine.forget()
    with Terminal(machine, "resume", changed) as terminal:
        terminal.wait_for(GO_ON)
        terminal.type(answer)
        assert terminal.code() == REFUSED
        assert terminal.shown.endswith(b"sess: not resumed\r\n")
    assert machine.nothing_ran()


def test_interrupting_a_question_ends_with_130(machine: Machine, changed: str) -> None:
    """And without a traceback."""
    machine.forget()
    with Terminal(machine, "resume", changed) as terminal:
        terminal.wait_for(GO_ON)
        terminal.type("\x03")
        assert terminal.code() == INTERRUPTED
        assert b"Traceback" not in terminal.shown
    assert machine.nothing_ran()


@pytest.mark.parametrize("flags", [["--yes"], ["--print"]])
def test_nothing_is_asked_when_it_was_said_or_nothing_starts(machine: Machine, changed: str, flags: list[str]) -> None:
    """With `--print`, whoever reads the block decides whether to run the line."""
    with Terminal(machine, "resume", changed, *flags) as terminal:
        assert terminal.code() == (RAN if flags == ["--yes"] else 0)
        assert b"noted    branch    then then; here now now\r\n" in terminal.shown
        assert b"[y/N]" not in terminal.shown


def test_what_is_typed_ahead_is_for_the_agent(machine: Machine, changed: str) -> None:
    """The question takes its line and not a byte more."""
    (machine.programs / "claude").rename(machine.programs / "kept")
    (machine.programs / "claude").write_text('#!/bin/sh\nread line\necho "got $line"\n')
    (machine.programs / "claude").chmod(0o755)
    try:
        with Terminal(machine, "resume", changed) as terminal:
            terminal.wait_for(GO_ON)
            terminal.type("y\nfor the agent\n")
            assert terminal.code() == 0
            assert b"got for the agent\r\n" in terminal.shown
    finally:
        (machine.programs / "kept").rename(machine.programs / "claude")


def test_one_of_several_is_chosen_by_its_number(machine: Machine) -> None:
    """The newest is the first; what is no number of the list is asked again."""
    folder = machine.repository("main")
    sessions = [machine.claude(folder, title=f"wombat {n}\x1b[2J") for n in range(3)]
    machine.daemon.sync()
    newest_first = [row["id"] for row in machine.daemon.find("wombat")]
    assert set(newest_first) == set(sessions)
    with Terminal(machine, "resume", "wombat") as terminal:
        terminal.wait_for(b"Which one, 1 to 3? ")
        lines = terminal.shown.decode().splitlines()
        assert [(line[0], line.split()[3]) for line in lines[:3]] == [
            (str(number), session[:8]) for number, session in enumerate(newest_first, 1)
        ]
        assert max(map(len, lines)) <= 100
        assert b"\x1b[2J" not in terminal.shown
        for wrong in ("0\n", "4\n", "two\n", "-1\n"):
            terminal.type(wrong)
            terminal.wait_for(f"{wrong.strip()}\r\nWhich one, 1 to 3? ".encode())
        terminal.type("2\n")
        assert terminal.code() == RAN
    assert machine.ran().argv[2] == newest_first[1]


@pytest.mark.parametrize("answer", ["\n", "\x04"])
def test_none_of_several_may_be_chosen(machine: Machine, answer: str) -> None:
    """With a line that is empty, or none."""
    folder = machine.repository("main")
    for number in range(12):
        machine.codex(folder, prompt=f"quokka {number}")
    machine.forget()
    with Terminal(machine, "resume", "quokka") as terminal:
        terminal.wait_for(b"Which one, 1 to 9? ")
        assert b"There are more" in terminal.shown
        terminal.type(answer)
        assert terminal.code() == AMBIGUOUS
    assert machine.nothing_ran()


def test_without_a_target_one_is_picked(machine: Machine) -> None:
    """In the picker; the flags hold for what was picked there."""
    session = machine.claude(machine.repository("main"), title="the numbat one")
    machine.daemon.sync()
    with Terminal(machine, "resume", "--fork", "--", "--add-dir", "/x") as terminal:
        terminal.wait_for(b"A number, or words to search for: ")
        terminal.type("numbat\n")
        terminal.wait_for(b"\nA number, or words to search for: ")
        terminal.type("1\n")
        assert terminal.code() == RAN
    ran = machine.ran()
    assert ran.argv[2] == session
    assert ran.argv[-3:] == ["--fork-session", "--add-dir", "/x"]


def test_the_agent_is_the_process_that_was_started(machine: Machine) -> None:
    """It has the terminal and the process id, so that a shell's job control holds for it."""
    (machine.programs / "codex").rename(machine.programs / "kept")
    (machine.programs / "codex").write_text('#!/bin/sh\ntest -t 0 && test -t 1 && echo "I am $$"\nread line\n')
    (machine.programs / "codex").chmod(0o755)
    session = machine.codex(machine.repository("main"))
    try:
        with Terminal(machine, "resume", session) as terminal:
            terminal.wait_for(f"I am {terminal.pid}\r\n".encode())
            os.kill(terminal.pid, signal.SIGTERM)
            assert terminal.code() == -signal.SIGTERM
    finally:
        (machine.programs / "kept").rename(machine.programs / "codex")
