"""Which sessions were open, remembered over a reboot.

A machine that goes down ends every agent, and they may close their sessions as if the person had. So what was open
then, or was closed within a minute before, counts as lost once the machine has started again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from sessiond.paths import clear_place, ours

if TYPE_CHECKING:
    from sessiond.index import Identity
    from sessiond.session import Session

log = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""App, root and id."""

GRACE = 60_000
"""ms before the end of the machine within which a session that was closed may have been closed by it."""
KEPT = 7 * 86_400_000
"""ms for which a session stays lost that nobody opens again."""


class Opened:
    """The sessions that are open, and those that a reboot interrupted. Belongs to the thread that writes the index."""

    def __init__(self, path: str, boot: str | None = None) -> None:
        """Go on from the file at *path*; *boot* tells one start of the machine from another."""
        self._path = path
        self._boot = boot_id() if boot is None else boot
        self._open: dict[Key, int] = {}
        """When each was closed, in ms; 0 while it is open."""
        self.interrupted: dict[Key, int] = {}
        """When each was last known to be open, in ms."""
        self._changed = False
        self._load()

    def note(self, identity: Identity, session: Session) -> None:
        """Remember whether *session* is open, and mark it as lost if a reboot ended it."""
        key = (identity.app, identity.root, identity.id)
        if session.live:
            self._changed |= key not in self._open or key in self.interrupted
            self._open[key] = 0
            self.interrupted.pop(key, None)
        elif self._open.get(key) == 0:
            self._open[key] = int(time.time() * 1000)
            self._changed = True
        if not session.live and session.lost is None:
            session.lost = self.interrupted.get(key)

    def save(self) -> None:
        """Write what changed. What cannot be written is no reason to stop: it is a memory, not a truth."""
        now = int(time.time() * 1000)
        kept = {key: closed for key, closed in self._open.items() if not closed or closed > now - GRACE}
        if not self._changed and len(kept) == len(self._open):
            return
        self._open, self._changed = kept, False
        said = {"boot": self._boot, "open": _listed(kept), "interrupted": _listed(self.interrupted)}
        new = self._path + ".new"
        try:
            for place in (self._path, new):
                clear_place(place)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new)
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "w", encoding="utf-8") as file:
                json.dump(said, file)
            os.replace(new, self._path)
        except OSError as error:
            log.warning("which sessions are open could not be noted: %s", error.strerror)

    def _load(self) -> None:
        try:
            with open(self._path, encoding="utf-8", opener=ours) as file:
                written, said = int(os.fstat(file.fileno()).st_mtime * 1000), json.load(file)
            opened, interrupted = (
                {(str(app), str(root), str(name)): int(at) for app, root, name, at in said[key]} for key in _KEYS
            )
            boot = said["boot"]
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            log.warning("which sessions were open is not known")
            return
        now = int(time.time() * 1000)
        self.interrupted = {key: at for key, at in interrupted.items() if at > now - KEPT}
        if self._boot and boot != self._boot:
            self.interrupted |= {key: closed or written for key, closed in opened.items()}
            self._changed = True
        else:
            self._open = opened


_KEYS = ("open", "interrupted")


def _listed(times: dict[Key, int]) -> list[tuple[str, str, str, int]]:
    return [(*key, at) for key, at in times.items()]


def boot_id() -> str:
    """Return what differs each time the machine starts, or ``""`` when that cannot be told."""
    try:
        if sys.platform == "darwin":
            asked = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            return subprocess.run(asked, capture_output=True, text=True, timeout=2, check=False).stdout.strip()  # noqa: S603
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
