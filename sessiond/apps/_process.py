"""Which processes run, and where: what ``/proc`` tells on Linux, and ``ps`` on macOS."""

from __future__ import annotations

import os
import re
import subprocess
import sys


def runs(pid: str) -> bool:
    """Return whether a process has the number *pid*, also when it is somebody else's."""
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return int(pid) > 0


def started(pid: str) -> str | None:
    """Return when process *pid* began; None when it does not run or that is unknown.

    That is field 22 of ``/proc/<pid>/stat`` on Linux, and asctime in UTC on macOS.
    """
    try:
        if sys.platform != "darwin":
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The second field, the program's name in parentheses, may hold spaces.
                return file.read().rpartition(b")")[2].split()[19].decode()
        return _ps("lstart=", pid) or None
    except (OSError, IndexError, subprocess.SubprocessError):
        return None


def place(pid: str) -> str:
    """Return process *pid* in words, with the terminal that it reads from if that is known and there is one."""
    try:
        name = _ps("tty=", pid) if sys.platform == "darwin" else os.readlink(f"/proc/{pid}/fd/0")
    except (OSError, subprocess.SubprocessError):
        name = ""
    return f"in process {pid}" + (f" on {name}" if re.fullmatch(r"(/dev/)?(tty|pts/)\w+", name) else "")


def _ps(column: str, pid: str) -> str:
    asked = subprocess.run(  # noqa: S603 - fixed words, and a pid that is digits
        ["/bin/ps", "-o", column, "-p", pid],
        capture_output=True,
        text=True,
        timeout=2,
        check=False,
        env={"TZ": "UTC", "LC_ALL": "C"},
    )
    return " ".join(asked.stdout.split())
