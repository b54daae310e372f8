"""The questions of ``sess resume``, at a terminal."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessiond.protocol import AMBIGUOUS, INTERRUPTED, NO_PROGRAM, REFUSED
from tests.cli.machine import RAN
from tests.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable

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
        assert terminal.shown.endswith(b"sess: not resumed\r\nNothing was started or changed.\r\n")
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


def test_a_printed_line_is_said_once(machine: Machine, changed: str) -> None:
    """Also where the agent is not installed: who sees stdout has read it there."""
    with Terminal(machine, "resume", changed, "--print", PATH=str(machine.tools)) as terminal:
        assert terminal.code() == NO_PROGRAM
        assert b"claude is not installed here" in terminal.shown
        assert terminal.shown.count(changed.encode()) == 1


@pytest.mark.parametrize("answer", [[], ["--yes"]])
def test_a_line_that_is_captured_is_read_by_nobody(
    machine: Machine, changed: str, tmp_path: Path, answer: list[str]
) -> None:
    """`eval "$(sess resume --print)"` runs it at once: what would be asked is refused, unless it was said before."""
    path = tmp_path / "captured"
    words = ("resume", "--print", changed, *answer)
    with path.open("wb") as captured, Terminal(machine, *words, stdout=captured) as terminal:
        assert terminal.code() == (0 if answer else REFUSED)
        assert b"[y/N]" not in terminal.shown
    line = path.read_text()
    assert line.startswith("cd /") if answer else line == ""


def to_another_branch(machine: Machine, session: str, folder: str) -> None:
    machine.git(folder, "checkout", "-q", "-b", "later")


def commit_something(machine: Machine, session: str, folder: str) -> None:
    machine.commit(folder)


def change_a_file(machine: Machine, session: str, folder: str) -> None:
    Path(folder, "new").touch()


def replace_the_folder(machine: Machine, session: str, folder: str) -> None:
    os.rename(folder, f"{folder}-moved")
    shutil.copytree(f"{folder}-moved", folder)


def break_the_repository(machine: Machine, session: str, folder: str) -> None:
    Path(folder, ".git/config").write_text("[core\n")


def go_on_in_another_mode(machine: Machine, session: str, folder: str) -> None:
    path = next(machine.home.claude.glob(f"projects/*/{session}.jsonl"))
    with path.open("a") as file:
        file.write(json.dumps({"type": "permission-mode", "permissionMode": "plan", "sessionId": session}) + "\n")


def remove_the_folder(machine: Machine, session: str, folder: str) -> None:
    shutil.rmtree(folder)


def open_it_elsewhere(machine: Machine, session: str, folder: str) -> None:
    machine.live(session, os.getpid())


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (to_another_branch, b"noted    branch    then then; here now later\r\n"),
        (commit_something, b"noted    branch    now at "),
        (change_a_file, b"noted    changes   1 file with uncommitted changes\r\n"),
        (replace_the_folder, b"noted    folder    another one is in its place since you were asked\r\n"),
        (break_the_repository, b"noted    branch    then then; now not known: "),
        (go_on_in_another_mode, b"noted    command   it is another one since you were asked: cd /"),
    ],
)
def test_what_changes_while_it_is_asked_is_asked_again(
    machine: Machine, happens: Callable[[Machine, str, str], None], says: bytes
) -> None:
    """A question may be open over lunch; a yes is to what was shown."""
    folder = machine.repository("then", "now")
    session = machine.claude(folder, "then")
    machine.forget()
    with Terminal(machine, "resume", session) as terminal:
        terminal.wait_for(GO_ON)
        happens(machine, session, folder)
        assert says not in terminal.shown
        terminal.type("y\n")
        terminal.wait_for(b"y\r\n")
        terminal.wait_for(GO_ON)
        assert says in terminal.shown
        assert machine.nothing_ran()
        terminal.type("y\n")
        assert terminal.code() == RAN
    assert machine.ran().cwd == folder


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (remove_the_folder, b" is gone\r\n"),
        (open_it_elsewhere, b"refused  live      open in process "),
    ],
)
def test_what_is_refused_by_now_is_refused(
    machine: Machine, happens: Callable[[Machine, str, str], None], says: bytes
) -> None:
    """Although the person said yes."""
    folder = machine.repository("then", "now")
    session = machine.claude(folder, "then")
    machine.forget()
    with Terminal(machine, "resume", session) as terminal:
        terminal.wait_for(GO_ON)
        happens(machine, session, folder)
        terminal.type("y\n")
        assert terminal.code() == REFUSED
        assert says in terminal.shown
    assert machine.nothing_ran()


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


def test_two_of_one_id_are_told_apart_by_their_store(machine: Machine) -> None:
    """Below each; its number chooses it."""
    session = machine.claude(machine.repository("main"), title="the twin")
    path = next(machine.home.claude.glob(f"projects/*/{session}.jsonl"))
    copy = machine.home.work / path.relative_to(machine.home.claude)
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    with Terminal(machine, "resume", session) as terminal:
        terminal.wait_for(b"Which one, 1 to 2? ")
        stores = [line.strip() for line in terminal.shown.decode().splitlines() if line.startswith("   ")]
        assert stores[0] != stores[1]
        terminal.type("2\n")
        assert terminal.code() == RAN
    named = machine.ran().env.get("CLAUDE_CONFIG_DIR")
    assert named == (None if stores[1] == f"store:{machine.home.claude}" else str(machine.home.work))


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
