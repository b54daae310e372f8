"""How a session of Claude Code is resumed, and which process has it open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from sessiond.apps import _process, claude_code
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
    assert found == ("idle", f"in process {process.pid}", True)


def test_what_ended_a_moment_ago_is_not_live(claude: Store) -> None:
    """The index may still say so."""
    claude.put(prompt("hi"))
    row = replace(claude.row(), live="busy")
    assert APP.live(row) is None
    (claude.root / "sessions").mkdir()
    assert APP.live(row) is None


NOT_TOLD = {
    "half written": '{"pid":1,"sessio',
    "empty": "",
    "no object": "[]",
    "longer than is read": json.dumps({"padding": "x" * (2 << 20)}),
    "without a session": '{"status":"busy"}',
    "of another type": '{"sessionId":["7c1e0d52"]}',
    "without a start": json.dumps({"sessionId": ID}),
    "without a start, in capitals": json.dumps({"sessionId": ID.upper()}),
    "with an odd start": json.dumps({"sessionId": ID, "procStart": True}),
    "with a start in other words": json.dumps({"sessionId": ID, "procStart": "Mon Nov 30 22:14:28 2026"}),
}


@pytest.mark.parametrize("content", NOT_TOLD.values(), ids=NOT_TOLD)
def test_a_record_that_does_not_tell_is_no_proof_that_a_session_is_free(claude: Store, content: str) -> None:
    """As long as its process runs, be it another one of that number; what the index holds decides nothing."""
    claude.put(prompt("hi"))
    (claude.root / "sessions").mkdir()
    record = claude.root / "sessions" / f"{os.getpid()}.json"
    record.write_text(content)
    for row in (claude.row(), replace(claude.row(), live="busy")):
        found = APP.live(row)
        assert found
        assert not found.certain
        assert found.where.startswith(f"in process {os.getpid()}")
    record.rename(record.with_name("4194304999.json"))
    assert APP.live(claude.row()) is None


@pytest.mark.parametrize("more", [{"sessionId": ID.upper()}, {"padding": "x" * 100_000}])
def test_a_record_of_another_form_is_read_all_the_same(claude: Store, more: dict[str, str]) -> None:
    """An id in capitals, a record of 100 KB: the index takes neither in, before a start they count."""
    claude.put(prompt("hi"))
    live(claude, os.getpid(), status="busy", **more)
    found = APP.live(claude.row())
    assert found
    assert (found.status, found.certain) == ("busy", True)


def test_a_record_that_is_written_a_moment_later_is_waited_for(claude: Store) -> None:
    """It is overwritten in place, which takes less than the 40 ms in which it is looked at."""
    claude.put(prompt("hi"))
    live(claude, os.getpid(), status="busy")
    path = claude.root / "sessions" / f"{os.getpid()}.json"
    whole = path.read_text()
    path.write_text(whole[:20])
    with patch.object(claude_code.time, "sleep", lambda _seconds: path.write_text(whole)):
        assert APP.live(claude.row()) == ("busy", _process.place(str(os.getpid())), True)


def test_what_is_certain_counts_before_what_is_not(claude: Store) -> None:
    """Whichever process is looked at first."""
    claude.put(prompt("hi"))
    with subprocess.Popen(["sleep", "600"]) as process:
        for certain, other in ((os.getpid(), process.pid), (process.pid, os.getpid())):
            live(claude, certain)
            (claude.root / "sessions" / f"{other}.json").write_text("")
            found = APP.live(claude.row())
            assert found
            assert found.certain
            assert f"process {certain}" in found.where
        process.kill()


def test_a_folder_that_cannot_be_looked_at_hides_what_is_open(claude: Store) -> None:
    """Here a link to itself, as root may read every folder."""
    claude.put(prompt("hi"))
    row = claude.row()
    (claude.root / "sessions").symlink_to("sessions")
    found = APP.live(row)
    assert found
    assert not found.certain
    assert "cannot be looked at" in found.where
