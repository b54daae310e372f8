"""A terminal for a command, and somebody who sits at it."""

from __future__ import annotations

import fcntl
import os
import re
import select
import subprocess
import termios
import time
from typing import TYPE_CHECKING, BinaryIO, Self

from tests.daemon import PATIENCE

if TYPE_CHECKING:
    from tests.cli.machine import Machine

_CONTROL = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?<>=$]*[a-zA-Z]|\x1b[=>()78][B0]?")


class Terminal:
    """A command whose input and output are a terminal of its own."""

    def __init__(self, machine: Machine, *words: str, stdout: BinaryIO | None = None, **env: str) -> None:
        """Start it; with *stdout*, what it writes there is captured, as by `$(…)`."""
        self._ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (40, 100))
        self._process = subprocess.Popen(
            machine.argv(*words), env=machine.env | env, cwd="/", stdin=theirs, stdout=stdout or theirs, stderr=theirs,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(theirs)
        self.shown = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, text: bytes) -> None:
        """Read until *text* is the last that was shown."""
        deadline = time.monotonic() + PATIENCE
        while not self.shown.endswith(text):
            assert select.select([self._ours], [], [], deadline - time.monotonic())[0], self.shown
            self.shown += os.read(self._ours, 4096)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def code(self) -> int:
        """Return the exit code, once the command ended; ``shown`` then has everything."""
        while True:
            try:
                data = os.read(self._ours, 4096)
            except OSError:  # Linux says so when nobody has the other end open any more
                data = b""
            if not data:
                return self._process.wait(PATIENCE)
            self.shown += data

    def see(self, text: str) -> None:
        """Read until *text* was shown somewhere; spaces and what moves the cursor count as one space."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.text:
            assert select.select([self._ours], [], [], max(0, deadline - time.monotonic()))[0], self.text
            data = os.read(self._ours, 65536)
            self.shown += data
            if b"\x1b[6n" in data:  # the program waits to be told where the cursor is
                self.type("\x1b[1;1R")

    @property
    def text(self) -> str:
        """What was shown, on one line."""
        return " ".join(_CONTROL.sub(b" ", self.shown).decode("utf-8", "replace").split())
