"""systemd's manager of a user's services."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sess.manager import Manager, State, fields, last_line, put_file, read_file, remove_files, run, unavailable
from sess.units import exec_start, unescaped, variables, words
from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import CompletedProcess

    from sess.units import Units
    from sessiond.paths import Paths

SERVICE, SOCKET = "sessiond.service", "sessiond.socket"
HARDENING = SERVICE + ".d/hardening.conf"
BOOTED = "/run/systemd/system"
"""Exists where systemd is process 1, see sd_booted(3)."""


class Systemd(Manager):
    """The manager that `systemctl --user` speaks to."""

    name = "systemd"
    log_hint = f"`sudo journalctl _SYSTEMD_USER_UNIT={SERVICE} _UID={os.getuid()}` shows what only root may read."

    def __init__(self, env: Mapping[str, str]) -> None:
        """Find this user's. Raises Problem when there is none: in a container, in WSL, sometimes over ssh."""
        # cron, su and some ways of ssh lose the variable, and not the folder.
        runtime = env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
        self._env = {**env, "XDG_RUNTIME_DIR": runtime}
        if not os.path.isdir(BOOTED):
            wsl = "; WSL needs `systemd=true` below `[boot]` in /etc/wsl.conf" if "WSL_DISTRO_NAME" in env else ""
            raise unavailable(f"this system was not started by systemd{wsl}")
        if not any(os.path.exists(f"{runtime}/{name}") for name in ("systemd/private", "bus")):
            raise unavailable(f"systemd runs nothing for this user here: {runtime} has no socket of it")

    def serves(self, paths: Paths) -> bool:
        """Return whether the socket is loaded, and listens where clients with *paths* look."""
        found = dict(fields(self._systemctl("show", SOCKET, "--property=LoadState,Listen").stdout))
        return found.get("LoadState") == "loaded" and _listens_at(found) == paths.socket

    def state(self) -> State:
        """Return what systemd says of the service."""
        names = "LoadState,UnitFileState,ActiveState,MainPID,Result"
        found = dict(fields(self._done("show", SERVICE, f"--property={names}")))
        result = found.get("Result", "success")
        return State(
            installed=found.get("LoadState") == "loaded",
            enabled=found.get("UnitFileState") == "enabled",
            active=found.get("ActiveState", ""),
            pid=int(found.get("MainPID") or 0),
            detail="" if result == "success" else result,
        )

    def variables(self) -> Mapping[str, str] | None:
        """Return the variables of the service that is written for this user."""
        return _variables(self._folder())

    @classmethod
    def left(cls, env: Mapping[str, str]) -> tuple[list[str], Mapping[str, str] | None]:
        """Return what is where systemd looks by default, with the links that enable it."""
        folder = (env.get("XDG_CONFIG_HOME") or env.get("HOME", "") + "/.config") + "/systemd/user"
        links = (f"default.target.wants/{SERVICE}", f"sockets.target.wants/{SOCKET}")
        paths = [f"{folder}/{name}" for name in (HARDENING, SERVICE, SOCKET, *links)]
        return [path for path in paths if os.path.lexists(path)], _variables(folder)

    def write(self, units: Units, *, harden: bool) -> list[str]:
        """Write both units, and the drop-in when it is wanted or there already."""
        changed = [path for path, content in self._files(units, harden=harden).items() if put_file(path, content)]
        if changed:
            self._done("daemon-reload")
        return changed

    def starts(self, command: Sequence[str]) -> bool:
        """Return whether the unit has that command."""
        return exec_start(command).encode() in (read_file(f"{self._folder()}/{SERVICE}") or b"").splitlines()

    def stale(self, units: Units) -> bool:
        """Return whether a unit is not as it would be written, but for its variables."""
        return any(
            _without_variables(read_file(path) or b"") != _without_variables(content)
            for path, content in self._files(units, harden=False).items()
        )

    def soften(self) -> None:
        """Remove the drop-in again."""
        remove_files([f"{self._folder()}/{HARDENING}"], self._env.get("HOME", ""))
        self._done("daemon-reload")

    def begin(self, changed: list[str]) -> None:
        """Enable both units and start them.

        The socket stays open while the service is replaced, so that who connects meanwhile is only kept waiting.
        """
        self._systemctl("reset-failed", SERVICE, SOCKET)
        self._done("enable", SERVICE, SOCKET)
        self._listen(anew=any(path.endswith(SOCKET) for path in changed))
        self._done("restart", SERVICE)

    def try_start(self) -> bool:
        """Have systemd listen; the first connection starts the service."""
        self._systemctl("reset-failed", SERVICE, SOCKET)
        try:
            self._listen()
        except Problem:
            return False
        return True

    def start(self) -> None:
        """Start socket and service, and wait until the daemon serves."""
        self._systemctl("reset-failed", SERVICE, SOCKET)
        self._listen()
        self._done("start", SERVICE)

    def stop(self) -> None:
        """Stop both: the socket alone would start the service with the next search."""
        self._done("stop", SOCKET, SERVICE)

    def restart(self) -> None:
        """Replace the daemon; who connects meanwhile waits."""
        self._systemctl("reset-failed", SERVICE, SOCKET)
        self._listen()
        self._done("restart", SERVICE)

    def remove(self) -> list[str]:
        """Stop and disable both units, and remove their files."""
        paths = [f"{self._folder()}/{name}" for name in (HARDENING, SERVICE, SOCKET)]
        if any(map(os.path.lexists, paths)) or self.state().installed:
            self._done("disable", "--now", SERVICE, SOCKET)
        removed = remove_files(paths, self._env.get("HOME", ""))
        self._done("daemon-reload")
        self._systemctl("reset-failed", SERVICE, SOCKET)
        return removed

    def log_command(self, *, follow: bool) -> list[str] | None:
        """Return the words that show the journal, None when it shows nothing of the service.

        Then there is no journald, or only one journal for everybody, which this user may not read.
        """
        # With --user it would be looked into the user's own journal alone, which a volatile one does not have.
        command = ["journalctl", "--quiet", f"--user-unit={SERVICE}"]
        shown = run(self._env, *command, "--lines=1")
        return [*command, "--lines=200", *(["--follow"] if follow else [])] if shown.stdout.strip() else None

    def _listen(self, *, anew: bool = False) -> None:
        """Have the socket open where clients look for it; with *anew*, also when it is."""
        found = dict(fields(self._done("show", SOCKET, "--property=ActiveState,Listen")))
        if anew or found.get("ActiveState") != "active" or not os.path.exists(_listens_at(found)):
            # It cannot be started beside its running service.
            self._done("stop", SERVICE, SOCKET)
            self._done("start", SOCKET)

    def _files(self, units: Units, *, harden: bool) -> dict[str, bytes]:
        folder = self._folder()
        texts = {SOCKET: units.socket(), SERVICE: units.service()}
        if harden or os.path.exists(f"{folder}/{HARDENING}"):
            texts[HARDENING] = units.hardening()
        return {f"{folder}/{name}": text.encode() for name, text in texts.items()}

    def _folder(self) -> str:
        """Return where systemd looks for a user's units: what its own XDG_CONFIG_HOME says, and not this shell's."""
        for path in words(self._done("show", "--property=UnitPath", "--value")):
            if path.endswith("/systemd/user") and _owner(path) == os.getuid():
                return path  # the first one: the next are the administrator's
        raise unavailable("systemd names no folder for the units of a user")

    def _systemctl(self, *words: str) -> CompletedProcess[str]:
        return run(self._env, "systemctl", "--user", *words)

    def _done(self, *words: str) -> str:
        """Return what systemctl printed. Raises Problem when it failed."""
        done = self._systemctl(*words)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if not line.startswith("See ")]
            raise Problem(
                "unreachable",
                f"`systemctl --user {' '.join(words)}` failed: {last_line(said)}",
                "`sess service logs` may say why; `sess doctor` looks at everything.",
            )
        return done.stdout


def _listens_at(found: Mapping[str, str]) -> str:
    """Return the path in what systemd shows of the socket."""
    return unescaped(found.get("Listen", "").removesuffix(" (Stream)"))


def _variables(folder: str) -> Mapping[str, str] | None:
    service = read_file(f"{folder}/{SERVICE}")
    return None if service is None else variables(os.fsdecode(service))


def _owner(path: str) -> int:
    """Return the user id of whose *path* is, or of the folder in which it would be made."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.stat(path).st_uid


def _without_variables(unit: bytes) -> list[bytes]:
    return [line for line in unit.splitlines() if not line.startswith(b"Environment=")]
