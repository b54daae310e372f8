"""The log: where it goes, how large it gets, and what never stands in it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sessiond import log

if TYPE_CHECKING:
    from pathlib import Path

    from tests.daemon import Daemon, Home

SPEAK = """
import logging, os, sys
from sessiond import log
if sys.argv[2] == "journal":
    found = os.fstat(2)
    os.environ["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
log.set_up(sys.argv[1], os.environ)
logging.info("counted %d", 3)
try:
    raise ValueError("a secret\\nof two lines")
except ValueError:
    logging.exception("it failed")
"""


def speak(path: Path, kind: str, **env: str) -> str:
    """Return what a process writes to stderr that logs to *path*, or to the journal."""
    done = subprocess.run(
        [sys.executable, "-c", SPEAK, path, kind],
        env=os.environ | env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stderr


def test_under_systemd_it_goes_to_the_journal_with_its_priority(tmp_path: Path) -> None:
    """Each line has it, and no time: the journal knows that."""
    lines = speak(tmp_path / "log", "journal").splitlines()
    assert lines[0] == "<6>root: counted 3"
    assert lines[1] == "<3>root: it failed"
    assert all(line.startswith("<3>") for line in lines[1:])
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("stream", ["", "1:1"])
def test_otherwise_it_goes_to_a_file(tmp_path: Path, stream: str) -> None:
    """Also below a terminal that was itself started by systemd, whose variable is inherited."""
    assert speak(tmp_path / "log", "file", JOURNAL_STREAM=stream) == ""
    assert "INFO root: counted 3" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("kind", ["journal", "file"])
def test_an_exception_is_shown_without_its_message(tmp_path: Path, kind: str) -> None:
    """That may quote a transcript; type and place are what helps."""
    text = speak(tmp_path / "log", kind) + ((tmp_path / "log").read_text() if kind == "file" else "")
    assert "secret" not in text.replace('raise ValueError("a secret', "")
    assert "ValueError" in text
    assert 'File "<string>"' in text


UNCAUGHT = {
    "main": "raise ValueError(secret)",
    "thread": "thread = threading.Thread(target=fail); thread.start(); thread.join()",
    "destructor": "type('T', (), {'__del__': fail})()",
    "chained": "try: fail()\nexcept ValueError as first: raise KeyError(secret) from first",
    "group": "raise ExceptionGroup(secret, [ValueError(secret)])",
    "noted": "error = ValueError(secret); error.add_note(secret); raise error",
}


@pytest.mark.parametrize("kind", ["journal", "file"])
@pytest.mark.parametrize("how", UNCAUGHT)
def test_what_nobody_caught_is_logged_without_its_message(tmp_path: Path, kind: str, how: str) -> None:
    """Wherever it ends the interpreter, a thread or nothing at all."""
    code = (
        SPEAK + "import threading\nsecret = 'zan' + 'zibar'\ndef fail(*_): raise ValueError(secret)\n" + UNCAUGHT[how]
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log", kind], capture_output=True, text=True, check=False
    )
    text = done.stderr if kind == "journal" else (tmp_path / "log").read_text()
    assert "zanzibar" not in done.stdout + done.stderr + text
    assert "was ended by an error" in text
    assert text.splitlines()[-1].endswith(("ValueError", "KeyError", "ExceptionGroup"))


def test_the_file_is_renamed_before_it_grows_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two older ones are kept."""
    assert log.BYTES * (log.KEPT + 1) <= 4 << 20
    code = SPEAK + "for number in range(2000): logging.info('x' * 60)\n"
    code = code.replace("log.set_up", "log.BYTES = 20_000; log.set_up")
    subprocess.run([sys.executable, "-c", code, tmp_path / "log", "file"], check=True, capture_output=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert all(path.stat().st_size <= 20_000 for path in tmp_path.iterdir())


def test_nothing_of_a_session_is_logged(home: Home, daemon: Daemon) -> None:
    """No title, prompt, folder or branch; that something was read, and how long it took."""
    home.claude_session("Zanzibar", cwd="/srv/Yucatan", branch="Xanadu")
    home.codex_session("Wyoming please", cwd="/srv/Yucatan", branch="Xanadu")
    daemon.sync()
    assert "files read since the last time: " in daemon.log.read_text()
    for words in ({"q": "Zanzibar"}, {"q": "Zanzibar", "sort": "nonsense"}, {"q": "since:Zanzibar"}):
        daemon.answers("find", **words)
    daemon.stop()
    text = daemon.log.read_text()
    assert not [word for word in ("Zanzibar", "Yucatan", "Xanadu", "Wyoming", str(home.path)) if word in text]


def test_a_daemon_that_cannot_start_says_why_in_its_log(home: Home) -> None:
    """Under launchd nobody sees what goes to stderr."""
    config = home.path / "config.toml"
    config.write_text("exclude = 1\n")
    env = home.env | {"SESS_CONFIG": str(config)}
    ended = subprocess.run(
        [sys.executable, "-m", "sessiond"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert "exclude: it has to be a list" in ended.stderr
    assert "exclude: it has to be a list" in (home.path / "state/sessiond.log").read_text()
