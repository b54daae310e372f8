"""Nothing that a transcript holds steers a terminal, whichever way it gets there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.daemon import PATIENCE, Daemon, Home, until

if TYPE_CHECKING:
    from collections.abc import Iterator

C0, DEL, C1 = map(chr, range(32)), "\x7f", map(chr, range(0x80, 0xA0))
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
INVISIBLE = "\u00ad\u180e\u200b\u200c\u200d\u2028\u2029\u2060\u2061\u2064\ufeff\ufff9\ufffb\U000e0041\U000e007f"
HOSTILE = [*C0, DEL, *C1, *BIDI, *INVISIBLE]
SEQUENCES = ["\x1b[2J", "\x1b]0;owned\x07", "\x1b]52;c;cm0=\x1b\\", "\x9b31m", "\x9d8;;file:///\x9c", "\x1bP+q\x1b\\"]
FAMILY = "👨\u200d👩\u200d👧"
FOUND = re.compile("[" + re.escape("".join(HOSTILE)) + "]")


def found(text: str, *allowed: str) -> set[str]:
    """Return what of `HOSTILE` is in *text*, but in an emoji and for what is *allowed*."""
    return set(FOUND.findall(text.replace(FAMILY, ""))) - set(allowed)


@pytest.fixture
def hostile(home: Home) -> Iterator[Daemon]:
    """A daemon with each of `HOSTILE` in a title, a folder and a branch, and a family of emoji beside them."""
    for start in range(0, len(HOSTILE), 12):
        some = "".join(f"x{character}y" for character in HOSTILE[start : start + 12])
        folder = "/srv/" + some.replace("\0", "")
        home.claude_session(f"{FAMILY} {some} {''.join(SEQUENCES)}", cwd=folder, branch=some)
        home.codex_session(f"{FAMILY} {some} {''.join(SEQUENCES)}", cwd=folder, branch=some)
    daemon = Daemon(home)
    daemon.sync()
    yield daemon
    daemon.kill()


def sess(home: Home, *words: str) -> str:
    """Return all that a command writes, to stdout and stderr, for a terminal of 300 columns."""
    env = home.env | {"COLUMNS": "300"}
    command = [sys.executable, "-m", "sess", *words]
    done = subprocess.run(command, env=env, cwd=home.path, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode in (0, 1, 4), done.stderr
    return done.stdout.decode() + done.stderr.decode()


def test_what_a_person_reads_has_no_control(home: Home, hostile: Daemon) -> None:
    """In lists, details, resume lines, completion, the prompt, and in what is said of words that match nothing."""
    (row, *_) = rows = hostile.find(limit=100)
    assert len(rows) == 2 * -(-len(HOSTILE) // 12)
    shown = sess(home, "find", "--limit", "100")
    assert shown.count(FAMILY) == len(rows)
    for words in (
        ["find", "--limit", "100", "--tsv"],
        ["find", "nothing " + "".join(HOSTILE[1:]) + "".join(SEQUENCES)],
        ["show", row["id"]],
        ["resume", "--print", row["id"]],
        ["_complete", "ids", ""],
        ["_complete", "branches", ""],
        ["status"],
        ["doctor"],
    ):
        shown += sess(home, *words)
    for row in rows[::4]:
        shown += sess(home, "show", row["id"])
    assert found(shown, "\n", "\t") == set()


def test_json_keeps_the_text_and_escapes_it(home: Home, hostile: Daemon) -> None:
    """Programs get what is there; a terminal that shows the line is not steered."""
    shown = sess(home, "find", "--json", "--limit", "100")
    assert found(shown, "\n") == set()
    branches = "".join(json.loads(line)["branch"] or "" for line in shown.splitlines())
    assert set(HOSTILE) - set(branches) <= {"\0"}


def test_files_for_the_prompt_and_the_log_have_no_control(home: Home, hostile: Daemon) -> None:
    """But for the signs that part their records."""
    here = home.path / "state" / "run" / "here"
    folders = {row["cwd"] for row in hostile.find(limit=100)}

    def records() -> list[str]:
        if not here.exists():
            return []
        return [
            record
            for path in here.iterdir()
            if path.name != ".new"  # being written, and gone under that name in a moment
            for record in path.read_bytes().decode().split("\0")
        ]

    until(lambda: folders <= set(records()))
    # A record that begins with a slash is the true path of a folder, by which alone a shell finds it.
    assert found("".join(record for record in records() if not record.startswith("/")), "\x1f") == set()
    assert found(hostile.log.read_bytes().decode(), "\n") == set()
