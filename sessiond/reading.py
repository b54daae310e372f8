"""Reading units, here or in a second process that takes half of a large home off this one."""

from __future__ import annotations

import collections
import os
import pickle
import select
import subprocess
import sys
import time
import traceback
from typing import TYPE_CHECKING, NamedTuple

from sessiond.session import Scan

if TYPE_CHECKING:
    from typing import IO

    from sessiond.apps.base import App
    from sessiond.session import Previous, Stat, Unit

_SLOWEST = 5


class Job(NamedTuple):
    """A unit to read."""

    unit: Unit
    stat: Stat
    """Taken just before."""
    previous: Previous | None


class Reading(NamedTuple):
    """That a unit was read."""

    seconds: float
    bytes: int
    unit: Unit


def slowest(known: list[Reading], reading: Reading) -> list[Reading]:
    """Return those of *known* and *reading* that took longest, the slowest first."""
    if len(known) == _SLOWEST and reading.seconds <= known[-1].seconds:
        return known
    return sorted([*known, reading], key=lambda each: -each.seconds)[:_SLOWEST]


def read(app: App, job: Job) -> Scan | None:
    """Return what the unit says, None when it is gone.

    Never raises: a unit that cannot be read keeps its facts, with the reason, and is tried again.
    """
    began = time.perf_counter()
    try:
        scan = app.read(*job)
    except FileNotFoundError:
        return None
    except Exception as error:
        scan = Scan(facts=job.previous.facts if job.previous else {}, volatile=True, problem=problem(error))
    scan.seconds = time.perf_counter() - began
    return scan


def problem(error: Exception) -> str:
    """Return what went wrong in words that hold nothing of the file's content or name."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {os.path.basename(last.filename)}:{last.lineno}"


class Helper:
    """A process that reads batches of units while this one stores those before.

    With two cores the first index of 2,000 sessions takes 0.7 s instead of 1.1 s, and answers
    wait for no parser. Raises OSError when the process cannot be started or ended.
    """

    def __init__(self) -> None:
        """Start the process."""
        # Without -P the folder that the daemon was started in would be searched for modules.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sessiond.reading"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pending: collections.deque[list[Job]] = collections.deque()
        """Batches that were submitted and not received yet."""

    def submit(self, jobs: list[Job]) -> None:
        """Have *jobs* read."""
        assert self._process.stdin
        self.pending.append(jobs)
        _send(self._process.stdin, jobs)

    def answered(self) -> bool:
        """Return whether what the oldest pending batch says begins to come in."""
        assert self._process.stdout
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def receive(self) -> tuple[list[Job], list[Scan | None]]:
        """Return the oldest pending batch with what each of its units says, waiting for it."""
        assert self._process.stdout
        try:
            scans: list[Scan | None] = pickle.load(self._process.stdout)  # noqa: S301 - written by our own code
        except (EOFError, pickle.UnpicklingError):
            raise ChildProcessError("the reading process ended") from None
        return self.pending.popleft(), scans

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def _send(stream: IO[bytes], value: object) -> None:
    pickle.dump(value, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _help() -> None:
    """Read what stdin asks for, until it ends."""
    from sessiond.apps import APPS

    os.nice(5)  # Where both cores are busy, whoever waits for an answer comes first.
    while True:
        try:
            jobs: list[Job] = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by our own code
        except EOFError:
            return
        _send(sys.stdout.buffer, [read(APPS[job.unit.app], job) for job in jobs])


if __name__ == "__main__":
    _help()
