"""`sess pick` on a terminal: from its start until its first row is on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from typing import TYPE_CHECKING

from tests.bench.figure import at_most
from tests.bench.find import SIZES, installed

if TYPE_CHECKING:
    from tests.bench.corpora import Corpus
    from tests.bench.run import Run

LONGEST = 20
"""Seconds after which no row will come."""


def run(run: Run) -> None:
    """Start the picker and the peer's list in turn, at three sizes."""
    part = run.part("The picker")
    program = str(installed(run.folder) / "sess")
    floor = [
        first_row(run.corpora.empty(), ["/bin/sh", "-c", "echo checkout | fzf"], b"checkout") for _ in run.times(30)
    ]
    part.median("floor: fzf alone", floor, "ms", "from starting a shell that gives it one line, until that shows")
    for sessions in SIZES:
        home = run.corpora.short(sessions)
        daemon = home.serve()
        number = len(home.transcripts())
        newest = daemon.find(limit=1)[0]["title"].split()[0].encode()
        ours: list[float] = []
        peer: list[float] = []
        if not run.peer.problem:
            run.peer.first(home.path)
        for _ in run.times(30):
            ours.append(first_row(home, [program, "pick"], newest))
            if not run.peer.problem:
                peer.append(run.peer.list(home.path))
        daemon.stop()
        how = "from starting the installed program on a terminal, with the fzf of the machine, until a title shows"
        part.median(f"{number:,} sessions: first rows", ours, "ms", how)
        if peer:
            part.median(
                f"{number:,} sessions: fast-resume's list", peer, "ms", "`fr --list --limit 20`, in turn with it"
            )
            part.ratio(f"{number:,} sessions: first rows / fast-resume's list", ours, peer, at_most(1))


def first_row(home: Corpus, command: list[str], row: bytes) -> float:
    """Return the ms until *row* has been drawn. Raises TimeoutError when it never is."""
    env = {key: home.env[key] for key in ("PATH", "SESS_STATE_DIR")}
    env |= {"HOME": str(home.path), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "SESS_NO_SPAWN": "1"}
    begin = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
        os.execve(command[0], command, env)
    drawn = b""
    try:
        while row not in drawn:
            if not select.select([terminal], [], [], LONGEST)[0]:
                raise TimeoutError(f"no row came; what did: {drawn!r}")
            said = os.read(terminal, 65536)
            drawn += said
            if b"\x1b[6n" in said:  # where is the cursor? fzf waits for the answer
                os.write(terminal, b"\x1b[1;1R")
        return (time.perf_counter() - begin) * 1000
    finally:
        os.write(terminal, b"\x1b")
        os.close(terminal)  # hangs up what still runs there
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
