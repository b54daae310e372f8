"""The first command of the README: on a clone as it comes, with a space in its path."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fixtures import home
from tools import environment, picture

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.xdist_group("try"), pytest.mark.timeout(300)]


class Person:
    """Somebody with a clone, a home and a folder for temporary files."""

    def __init__(self, clone: Path, folder: Path) -> None:
        self.home, self.temporary = folder / "home", folder / "tmp"
        self.home.mkdir()
        self.temporary.mkdir()
        self.command = [sys.executable, str(clone / "try")]
        self.env = environment.clean() | {"HOME": str(self.home), "TMPDIR": str(self.temporary)}
        for key in list(self.env):
            if key.startswith(("SESS_", "XDG_", "CLAUDE_CONFIG_DIR", "CODEX_")):
                del self.env[key]

    def tries(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*self.command, *words]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120, check=False)

    def processes(self) -> list[str]:
        """Return the processes that were started from here and still run."""
        mine = f"TMPDIR={self.temporary}".encode()
        return [entry.name for entry in os.scandir("/proc") if entry.name.isdigit() and mine in _environment(entry)]


def _environment(process: os.DirEntry[str]) -> bytes:
    try:
        return Path(process.path, "environ").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project without anything that was made in it, and set it up over what an interrupted set-up left."""
    copy = tmp_path_factory.mktemp("a person") / "sess"
    made = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "dist", "build")
    shutil.copytree(environment.ROOT, copy, ignore=made)
    (copy / ".venv/lib").mkdir(parents=True)
    done = subprocess.run([sys.executable, copy / "try", "--demo", "--version"], env=environment.clean(), check=False)
    assert done.returncode == 0
    return copy


@pytest.fixture
def person(clone: Path) -> Iterator[Person]:
    # A socket's path has no room for pytest's long names.
    with tempfile.TemporaryDirectory(prefix="sess-", dir="/tmp") as folder:
        person = Person(clone, Path(folder))
        yield person
        person.tries("stop")


def test_the_demo_shows_the_sample_home_and_leaves_nothing(person: Person) -> None:
    """It finds the sessions it brings, not the person's, and removes every file and process."""
    shown = person.tries("--demo")
    assert shown.returncode == 0, shown.stderr
    for title in ("Zero VAT totals", "カート画面のちらつきを直す", "Webhook retries"):
        assert title in shown.stdout
    assert list(person.home.iterdir()) == list(person.temporary.iterdir()) == []
    if sys.platform == "linux":
        assert person.processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_demo_that_is_cut_short_leaves_nothing_either(person: Person, number: signal.Signals) -> None:
    """Ctrl-C, a kill and a closed terminal end it as cleanly as its end does."""
    with subprocess.Popen([*person.command, "--demo"], env=person.env, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        while "Zero VAT totals" not in demo.stdout.readline():
            assert demo.poll() is None
        demo.send_signal(number)
        demo.communicate(timeout=60)
    assert demo.returncode == 128 + number
    assert list(person.home.iterdir()) == list(person.temporary.iterdir()) == []
    if sys.platform == "linux":
        assert person.processes() == []


def test_somebody_with_sessions_sees_their_own(person: Person) -> None:
    """Nothing of the demo is shown, and it is said what goes on in the background and how to stop it."""
    sample = next(made for made in home.make(str(person.home)) if made.title == "Webhook retries")
    shown = person.tries()
    assert shown.returncode == 0, shown.stderr
    assert sample.title in shown.stdout
    assert "./try stop" in shown.stderr
    assert person.tries("find", "--ids", sample.title).stdout.split() == [sample.id]


def test_somebody_without_sessions_sees_the_sample_home(person: Person) -> None:
    """An empty list would show nobody what the program does; the daemon it took to find out is stopped."""
    shown = person.tries()
    assert shown.returncode == 0, shown.stderr
    assert "No sessions of yours" in shown.stderr
    assert "Zero VAT totals" in shown.stdout
    assert person.tries("status").returncode == 3


def test_the_picture_in_the_readme_is_what_is_printed(person: Person) -> None:
    """But for ids that hold the time, and the minutes it took; ``python3 -m tools.picture`` draws it anew."""
    svg = (Path(environment.ROOT) / "docs/sess-find.svg").read_text(encoding="utf-8")
    drawn = unescape(" ".join(re.findall(r"<text [^>]*>([^<]*)</text>", svg)))
    printed = "$ sess find" + re.sub(r"\x1b\[[\d;]*m", "", picture.capture([*person.command, "--demo", "find"]))
    seen, expected = (re.sub(r"\s+|[0-9a-f]{8}|\d+(?=m)", "", text) for text in (drawn, printed))
    assert seen == expected
