"""How a session of Claude Code is resumed, and which process has it open."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sessiond.session import Settings
from tests.apps.claude_store import APP, ID, OTHER, prompt
from tests.apps.test_claude_code_parts import live

if TYPE_CHECKING:
    from tests.apps.claude_store import Store


@pytest.mark.parametrize("fork", [False, True])
@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        (Settings(), []),
        (Settings(model="opus"), ["--model", "opus"]),
        (Settings(effort="max", approval="plan"), ["--effort", "max", "--permission-mode", "plan"]),
    ],
)
def test_only_what_is_set_becomes_a_flag(claude: Store, settings: Settings, flags: list[str], *, fork: bool) -> None:
    """And the folder is none: Claude Code takes the one it is started in."""
    claude.put(prompt("hi"))
    argv = APP.launch(claude.row(), settings, fork=fork, folder="/elsewhere")
    assert argv == ["claude", "--resume", ID, *flags, *(["--fork-session"] if fork else [])]


def test_the_process_that_has_a_session_open_is_found_with_its_terminal(claude: Store) -> None:
    """Whatever the index holds, and whatever other sessions are open."""
    claude.put(prompt("hi"))
    row = claude.row()
    ours, theirs = os.openpty()
    code = "import sys; sys.stdout.write('ready'); sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.read(5)
            live(claude, process.pid, status="waiting")
            live(claude, os.getpid(), sessionId=OTHER)
            found = APP.live(row)
            assert found
            assert found.status == "waiting"
            assert found.where == f"in process {process.pid} on {os.ttyname(theirs)}"
            assert APP.live(replace(row, id=ID.replace("7", "8"))) is None
        finally:
            process.kill()
    os.close(ours)
    os.close(theirs)
    assert APP.live(row) is None


def test_a_process_without_a_terminal_is_named_by_its_number(claude: Store) -> None:
    """As one in the background."""
    claude.put(prompt("hi"))
    with subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL) as process:
        live(claude, process.pid)
        found = APP.live(claude.row())
        process.kill()
    assert found == ("idle", f"in process {process.pid}")


def test_what_ended_a_moment_ago_is_not_live(claude: Store) -> None:
    """The index may still say so."""
    claude.put(prompt("hi"))
    row = replace(claude.row(), live="busy")
    assert APP.live(row) is None
    (claude.root / "sessions").mkdir()
    assert APP.live(row) is None


@pytest.mark.parametrize("content", ["", '{"pid":1,"sessio'])
def test_half_a_record_is_no_proof_that_a_session_is_free(claude: Store, content: str) -> None:
    """It is overwritten in place; meanwhile what was read of it before counts."""
    claude.put(prompt("hi"))
    row = claude.row()
    (claude.root / "sessions").mkdir()
    (claude.root / "sessions" / "4711.json").write_text(content)
    assert APP.live(replace(row, live="busy")) == ("busy", "elsewhere")
    assert APP.live(row) is None
