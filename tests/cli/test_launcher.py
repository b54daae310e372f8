"""``sess.sh`` in every shell that may be /bin/sh, installed in every way an installer does it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

LAUNCHER = Path(__file__).parents[2] / "cli/sess.sh"
WORDS = ["find", "", "two words", 'it\'s "quoted" $(touch injected) `x`', "*", "-x"]
# macOS lets /bin/sh be bash 3.2, dash or zsh.
SHELLS = [
    pytest.param(["bash", "--posix"], id="bash"),
    pytest.param(["dash"], id="dash", marks=pytest.mark.needs("dash")),
    pytest.param(["zsh", "--emulate", "sh"], id="zsh", marks=pytest.mark.needs("zsh")),
]
# What a shell says of itself: the name it was started by, and its words, each on a line.
TOLD = ["-X", "sess_ctype"]  # LC_CTYPE was not set
ISOLATED = [*TOLD, "-I", "-S"]
PYTHON = '#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n'


class Prefix:
    """A folder like that of a virtual environment, whose Python prints how it was called."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bin = path / "bin"
        self.bin.mkdir(parents=True)
        self.launcher = self.bin / "sess"
        shutil.copy(LAUNCHER, self.launcher)
        self.launcher.chmod(0o755)
        self.python = self.program("bin/python3.12")

    def program(self, name: str) -> Path:
        """Put a Python at that place."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PYTHON)
        path.chmod(0o755)
        return path

    def package(self, folder: str = "lib/python3.12/site-packages") -> str:
        """Install the client's package there; return its file as the launcher names it."""
        main = self.path / folder / "sess/__main__.py"
        main.parent.mkdir(parents=True)
        main.touch()
        return f"{self.bin}/../{folder}/sess/__main__.py"

    def sessiond(self, head: str) -> None:
        """Write the script that names the Python."""
        (self.bin / "sessiond").write_text(f"{head}\nimport sys\n")

    def run(self, *argv: str | Path, path: str = os.defpath, cwd: Path | None = None) -> list[str]:
        """Return what Python was called with."""
        done = subprocess.run(
            argv or [self.launcher, *WORDS], cwd=cwd, env={"PATH": path}, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.splitlines()


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    """A prefix whose path needs quoting."""
    return Prefix(tmp_path / "an 'odd' \"$HOME\" prefix")


@pytest.mark.parametrize("shell", SHELLS)
def test_python_gets_the_words_as_they_are(prefix: Prefix, shell: list[str]) -> None:
    """It runs the client's file, without `site` and whatever the environment says."""
    main = prefix.package()
    plain = prefix.program("../python3")
    prefix.sessiond(f"#!{plain.resolve()}")
    assert prefix.run(*shell, str(prefix.launcher), *WORDS) == [str(plain.resolve()), *ISOLATED, main, *WORDS]
    assert not list(prefix.path.parent.rglob("injected"))


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("installer", ["pip", "uv", "uv --relocatable"])
def test_a_python_whose_path_needs_quoting_is_found(tmp_path: Path, shell: list[str], installer: str) -> None:
    """As pip 23 to 26 and uv 0.9 write it when the path has a space."""
    prefix = Prefix(tmp_path / "a prefix")
    main = prefix.package()
    quoted = {
        "pip": f'"{prefix.python}"',
        "uv": f"'{prefix.python}'",
        "uv --relocatable": """"$(dirname -- "$(realpath -- "$0")")"/'python3.12'""",
    }[installer]
    prefix.sessiond(f"#!/bin/sh\n'''exec' {quoted} \"$0\" \"$@\"\n' '''")
    assert prefix.run(*shell, str(prefix.launcher), *WORDS) == [str(prefix.python), *ISOLATED, main, *WORDS]


def test_a_python_whose_path_is_too_long_for_the_kernel_is_found(tmp_path: Path) -> None:
    """A path that is only long is not quoted by pip."""
    prefix = Prefix(tmp_path / ("long" * 40))
    main = prefix.package()
    prefix.sessiond(f"#!/bin/sh\n'''exec' {prefix.python} \"$0\" \"$@\"\n' '''")
    assert prefix.run() == [str(prefix.python), *ISOLATED, main, *WORDS]


@pytest.mark.parametrize(
    ("head", "called"),
    [
        ("#!{}", "{}"),
        ("#! {}", "{}"),
        ("#!{} -sP", "{}"),
        ("#!/usr/bin/env python3", "python3"),
        ("#!/nix/store/abc-bash-5.2/bin/bash -e", "python3"),
        ("", "python3"),
    ],
)
def test_a_first_line_of_another_kind_is_understood(tmp_path: Path, head: str, called: str) -> None:
    """Distributions add options or wrap the script; then the first Python in the path it is."""
    prefix = Prefix(tmp_path / "usr")
    main = prefix.package("lib/python3/dist-packages")
    prefix.sessiond(head.format(prefix.python))
    other = prefix.program("elsewhere/python3")
    python, *arguments = prefix.run(path=f"{other.parent}:{os.defpath}")
    assert python == {"{}": str(prefix.python), "python3": str(other)}[called]
    assert arguments == [*ISOLATED, main, *WORDS]


@pytest.mark.parametrize("relative", [False, True])
def test_the_launcher_may_be_a_link_to_a_link(prefix: Prefix, tmp_path: Path, relative: bool) -> None:
    """As pipx and uv install it, with the paths they like."""
    main = prefix.package()
    prefix.sessiond("#!python3")
    local = tmp_path / "local bin"
    local.mkdir()
    (local / "one").symlink_to(os.path.relpath(prefix.launcher, local) if relative else prefix.launcher)
    (local / "sess").symlink_to("one" if relative else local / "one")
    other = prefix.program("elsewhere/python3")
    called = prefix.run(local / "sess", "find", path=f"{other.parent}:{os.defpath}")
    if relative:
        main = main.replace(str(prefix.path), f"{local}/{os.path.relpath(prefix.path, local)}")
    assert called == [str(other), *ISOLATED, main, "find"]


@pytest.mark.parametrize("command", [["./sess"], ["bin/sess"], ["sh", "sess"]])
def test_the_launcher_may_be_called_by_a_relative_path(tmp_path: Path, command: list[str]) -> None:
    """From its own folder and from another."""
    prefix = Prefix(tmp_path / "venv")
    prefix.package()
    prefix.sessiond(f"#!{prefix.python}")
    cwd = prefix.path if command == ["bin/sess"] else prefix.bin
    *_, main, word = prefix.run(*command, "status", cwd=cwd)
    assert (cwd / main).resolve() == prefix.path / "lib/python3.12/site-packages/sess/__main__.py"
    assert word == "status"


@pytest.mark.parametrize("folders", [[], ["lib/python3.12/site-packages", "lib/python3.13/site-packages"]])
def test_where_the_package_cannot_be_told_python_looks_for_it(tmp_path: Path, folders: list[str]) -> None:
    """An editable install has it elsewhere, and a prefix of two Pythons has two."""
    prefix = Prefix(tmp_path / "venv")
    for folder in folders:
        prefix.package(folder)
    prefix.sessiond(f"#!{prefix.python}")
    assert prefix.run() == [str(prefix.python), *TOLD, "-E", "-P", "-m", "sess", *WORDS]


@pytest.mark.needs("strace")
def test_no_other_process_is_started(tmp_path: Path) -> None:
    """A fork costs as much as all the rest of the launcher."""
    prefix = Prefix(tmp_path / "venv")
    prefix.package()
    prefix.sessiond(f"#!{prefix.python}")
    trace = tmp_path / "trace"
    traced = ["strace", "-f", "-o", trace, "-e", "trace=fork,vfork,clone,clone3,execve", prefix.launcher]
    subprocess.run(traced, stdout=subprocess.DEVNULL, check=True)
    calls = [line.split()[1].partition("(")[0] for line in trace.read_text().splitlines() if "(" in line]
    assert calls == ["execve", "execve"]


@pytest.mark.needs("shellcheck")
def test_the_launcher_is_portable() -> None:
    """What is not POSIX, shellcheck knows."""
    done = subprocess.run(["shellcheck", "-s", "sh", LAUNCHER], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
