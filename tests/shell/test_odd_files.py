"""Files in the place of a snapshot that no daemon wrote: none runs, hangs, or makes a sound."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sessiond.paths import snapshot_name
from tests.shell.conftest import SHELLS, Shells
from tests.shell.test_prompt import PROMPT, SHOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.needs("zsh", "fish")]
each_shell = pytest.mark.parametrize("shell", SHELLS)

NUMBERS = [
    "a[$(touch ran)]", "$(touch ran)", "`touch ran`", "x=1", "1+1", "-1", "", " ", "1 -o 1", "(", "9" * 40, "1\n",
]  # fmt: skip
TEXTS = ["\x1b]52;c;AAAA\x07", "\x1b[2J", "\x9b2J", "two\nlines", "\r", "\x7f"]
TEXTS += ["turned \u202e", "turned \u2066", "mark \u200e", "mark \u061c", "two\u2028lines", "two\u2029lines"]
EXPANDING = ["$(touch ran)", "`touch ran`", "${x:=1}", "%n", "!!", "\\u"]


def content(folder: str, **odd: str) -> bytes:
    """Return what the daemon writes of *folder*, but for *odd*."""
    good = {
        "count": "2",
        "waiting": "0",
        "text": "2 · fine",
        "updated": "1000000000",
        "title": "fine",
        "branch": "main",
    }
    said = {**good, **odd}
    head = "\x1f".join((said["count"], said["waiting"], said["text"]))
    row = "\x1f".join(("id", "claude", said["updated"], "2001-09-09 01:46", "", said["branch"], "", said["title"]))
    return os.fsencode(f"sess 1\0{folder}\0{head}\0{row}\0")


def written(data: Callable[[str], bytes]) -> Callable[[Path, str], None]:
    return lambda path, folder: path.write_bytes(data(folder)) and None


def odd_field(field: str, value: str) -> Callable[[Path, str], None]:
    return written(lambda folder: content(folder, **{field: value}))


def a_link_to_a_fifo(path: Path, folder: str) -> None:
    os.mkfifo(path.parent / ".f")
    path.symlink_to(path.parent / ".f")


def a_socket(path: Path, folder: str) -> None:
    # A socket's own path may have 108 bytes at most.
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path.parent / "s"))
    (path.parent / "s").rename(path)


SILENT: dict[str, Callable[[Path, str], None]] = {
    **{f"{field} {value!r}": odd_field(field, value) for field in ("count", "waiting") for value in NUMBERS},
    **{f"text {value!r}": odd_field("text", value) for value in TEXTS + EXPANDING},
    "fifo": lambda path, _: os.mkfifo(path),
    "link to a fifo": a_link_to_a_fifo,
    "device": lambda path, _: path.symlink_to("/dev/zero"),
    "folder": lambda path, _: path.mkdir(),
    "socket": a_socket,
    "dangling link": lambda path, _: path.symlink_to("/nowhere"),
    "link in a circle": lambda path, _: path.symlink_to(path),
    "empty": written(lambda _: b""),
    "no end": written(lambda _: b"sess 1"),
    "first record": written(lambda _: b"sess 1\0"),
    "name only": written(lambda folder: b"sess 1\0" + os.fsencode(folder)),
    "name and nothing": written(lambda folder: b"sess 1\0" + os.fsencode(folder) + b"\0"),
    "empty summary": written(lambda folder: b"sess 1\0" + os.fsencode(folder) + b"\0\0"),
    "no text": written(lambda folder: b"sess 1\0" + os.fsencode(folder) + b"\0002\x1f0\0"),
    "two names": written(lambda folder: b"sess 1\0" + os.fsencode(f"{folder}\0{folder}\0")),
    "noise": written(lambda _: bytes(range(256)) * 300),
    "noise after the name": written(lambda folder: content(folder).partition(b"2\x1f")[0] + bytes(range(1, 256)) * 300),
    "a later format": written(lambda folder: content(folder).replace(b"sess 1", b"sess 10")),
}
"""As if there were none."""

UNLISTED: dict[str, Callable[[Path, str], None]] = {
    **{f"updated {value!r}": odd_field("updated", value) for value in NUMBERS},
    **{f"{field} {value!r}": odd_field(field, value) for field in ("title", "branch") for value in TEXTS},
    "half a row": written(lambda folder: content(folder)[:-30]),
    "a row of nothing": written(lambda folder: content(folder).partition(b"id\x1f")[0] + b"\0"),
}
"""The summary is good, and the row must do no harm."""


def folders(shells: Shells, tmp_path: Path, cases: dict[str, Callable[[Path, str], None]]) -> list[Path]:
    """Make a folder and its file for each case, and a last one with a good file."""
    shells.here.mkdir(parents=True)
    made = []
    for number, make in enumerate([*cases.values(), written(content)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(shells.here / snapshot_name(os.fsencode(folder)), str(folder))
        made.append(folder)
    return made


@each_shell
@pytest.mark.parametrize("cases", [SILENT, UNLISTED], ids=["nothing is shown", "nothing is done"])
def test_an_odd_file_neither_runs_nor_hangs_nor_makes_a_sound(
    shells: Shells, tmp_path: Path, shell: str, cases: dict[str, Callable[[Path, str], None]]
) -> None:
    made = folders(shells, tmp_path, cases)
    script = "".join(f"cd {folder}\n{PROMPT[shell]}\n{SHOW}\nprintf '+++\\n'\n" for folder in made)
    *shown, good, _ = shells.run(shell, script).split("+++\n")
    assert good.endswith("fine\n2 · fine|2|0\n")
    for case, output in zip(cases, shown, strict=True):
        assert all(character.isprintable() or character == "\n" for character in output), case
        assert output == "|0|0\n" if cases is SILENT else output.endswith("2 · fine|2|0\n"), (case, output)
    assert not [folder for folder in made if (folder / "ran").exists()]


def test_the_command_for_prompts_takes_them_for_none(shells: Shells, tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom sess import prompt, relay\n"
        "for line in sys.stdin:\n    os.chdir(line.rstrip())\n    print(repr(prompt.text(relay.paths()).decode()))\n"
    )
    made = "".join(f"{folder}\n" for folder in folders(shells, tmp_path, SILENT))
    asked = [sys.executable, "-c", code]
    done = subprocess.run(asked, env=shells.env, input=made, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    *shown, good = done.stdout.splitlines()
    assert good == "'2 · fine'"
    assert {case: text for case, text in zip(SILENT, shown, strict=True) if text != "''"} == {}


@each_shell
@pytest.mark.parametrize("value", ["a[$(touch ran)]", "", "1 -o 1", "08", "9" * 20])
def test_a_variable_that_is_no_number_is_not_calculated_with(
    shells: Shells, tmp_path: Path, shell: str, value: str
) -> None:
    """Of the environment, which ssh may pass on."""
    shells.snapshot(str(tmp_path), ("", "", "fine"))
    env = dict.fromkeys(("SESS_LINES", "EPOCHSECONDS", "COLUMNS"), value)
    shells.run(shell, PROMPT[shell], cwd=str(tmp_path), env=env)
    assert not (tmp_path / "ran").exists()
