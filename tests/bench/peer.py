"""fast-resume, the fastest peer, in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from tools import environment

if TYPE_CHECKING:
    from pathlib import Path

LIST = ("--list", "--limit", "20")
"""Its non-interactive list. It refreshes its index first, unless told not to."""


class FastResume:
    """The installed program, or why there is none."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "fast-resume" / "bin" / "fr"
        self.problem = ""
        self.version = ""
        try:
            if not self._program.exists():
                environment.create(str(folder / "fast-resume"))
                environment.install(str(folder / "fast-resume"), ["fast-resume"])
            done = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=True)
            self.version = done.stdout.strip()
        except (SystemExit, OSError, subprocess.SubprocessError) as error:
            self.problem = str(error).splitlines()[0]

    def forget(self, home: Path) -> None:
        """Remove its index of *home*."""
        shutil.rmtree(home / ".cache", ignore_errors=True)

    def list(self, home: Path) -> float:
        """Return the ms its list of *home* takes, with the refresh that gives a fresh answer."""
        begin = time.perf_counter()
        env = {"HOME": str(home), "PATH": os.defpath}
        subprocess.run([self._program, *LIST], env=env, cwd="/", capture_output=True, check=True)
        return (time.perf_counter() - begin) * 1000

    def first(self, home: Path) -> float:
        """Return the ms its first list of *home* takes."""
        self.forget(home)
        return self.list(home)
