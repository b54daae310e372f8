"""The project built, and installed as whoever uses it has it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tools import environment

if TYPE_CHECKING:
    from pathlib import Path


def build(sources: Path, *arguments: str | Path, umask: int = -1) -> None:
    """Build *sources* with what is installed here."""
    env = {key: value for key, value in environment.clean().items() if key != "SOURCE_DATE_EPOCH"}
    _done([sys.executable, "-m", "build", "--no-isolation", *arguments, sources], env, umask)


def create(folder: Path, wheel: Path, python: str | Path = sys.executable) -> None:
    """Make an environment that holds *wheel* and what it needs."""
    # A pip of its own would take four seconds of processor time; `pip` fills it as well as its own would.
    _done([python, "-m", "venv", "--without-pip", folder], environment.clean())
    pip(folder, "install", wheel)


def pip(folder: Path, *words: str | Path) -> str:
    """Have the pip that is installed here work in the environment in *folder*; return what it prints."""
    return _done([sys.executable, "-m", "pip", "--python", folder, *words], environment.clean())


def _done(command: list[str | Path], env: dict[str, str], umask: int = -1) -> str:
    done = subprocess.run(command, env=env, umask=umask, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
