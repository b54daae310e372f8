"""launchd's manager of a user's services, on macOS."""

from __future__ import annotations

import os
import plistlib
import time
from typing import TYPE_CHECKING, Any
from xml.parsers.expat import ExpatError

from sess.manager import Manager, State, fields, last_line, put_file, read_file, remove_files, run, unavailable
from sess.units import LABEL, place
from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sess.units import Units
    from sessiond.paths import Paths

SETTLE = 5.0
"""Seconds for launchd to let go of a service: `bootout` returns before, and `bootstrap` then fails with 5 or 37."""


_HINTS = {
    "5": "It refuses the file, or still has the service: `sess service uninstall`, and install again.",
    "37": "It still ends the last one: try again in a moment.",
    "125": "This domain takes no agents: log in at the screen, and install from there.",
}
"""What to do about what `launchctl bootstrap` gives as its reason, by the number of it."""


class Launchd(Manager):
    """The manager that `launchctl` speaks to."""

    name = "launchd"

    def __init__(self, env: Mapping[str, str]) -> None:
        """Find the domain of this user. Raises Problem when there is none."""
        self._env = env
        self._home = env.get("HOME", "")
        self._plist = _path(env)
        # Over ssh there may be no graphical session to belong to.
        for kind in ("gui", "user"):
            self._domain = f"{kind}/{os.getuid()}"
            looked = run(env, "launchctl", "print", self._domain)
            if looked.returncode == 0:
                break
        else:
            raise unavailable(f"launchd has no domain for this user: {last_line(looked.stderr.splitlines())}")
        self._service = f"{self._domain}/{LABEL}"

    def serves(self, paths: Paths) -> bool:
        """Return whether there is a LaunchAgent whose daemon is reached by *paths*."""
        variables = self.variables()
        return variables is not None and place(variables, os.getuid()).socket == paths.socket

    def state(self) -> State:
        """Return what launchd says of the service."""
        printed = run(self._env, "launchctl", "print", self._service)
        # The words stand again further down, for parts of it.
        found: dict[str, str] = {}
        for name, value in fields(printed.stdout):
            found.setdefault(name, value)
        ended = found.get("last exit code", "0").partition(":")[0]
        running = found.get("state") == "running"
        failed = not running and ended not in ("0", "(never exited)")
        return State(
            installed=os.path.exists(self._plist),
            enabled=os.path.exists(self._plist) and not self._disabled(),
            active="active" if running else "failed" if failed else "inactive",
            pid=int(found.get("pid", "0")),
            detail=f"exit code {ended}" if failed else "",
        )

    def variables(self) -> Mapping[str, str] | None:
        """Return the variables of the property list, which is another home's if launchd has loaded that one."""
        printed = run(self._env, "launchctl", "print", self._service).stdout
        return _variables(dict(fields(printed)).get("path") or self._plist)

    @classmethod
    def left(cls, env: Mapping[str, str]) -> tuple[list[str], Mapping[str, str] | None]:
        """Return the property list, if there is one."""
        path = _path(env)
        return [path] if os.path.exists(path) else [], _variables(path)

    def write(self, units: Units, *, harden: bool) -> list[str]:
        """Write the property list."""
        if harden:
            raise Problem("usage", "service: --harden is for systemd", "Leave it out: launchd has nothing like it.")
        return [self._plist] if put_file(self._plist, units.agent()) else []

    def starts(self, command: Sequence[str]) -> bool:
        """Return whether the property list has that command."""
        return _agent(self._plist).get("ProgramArguments") == list(command)

    def stale(self, units: Units) -> bool:
        """Return whether the property list is not as it would be written, but for its variables."""
        wanted: dict[str, Any] = plistlib.loads(units.agent())
        return _agent(self._plist) != wanted | {"EnvironmentVariables": self.variables()}

    def soften(self) -> None:
        """Do nothing: there is nothing stronger."""

    def begin(self, changed: list[str]) -> None:
        """Load the agent, which starts it; a loaded one whose file changed has to be loaded anew."""
        self._done("enable", self._service)
        if not self._loaded():
            self._bootstrap()
        elif changed:
            self._done("bootout", self._service)
            self._bootstrap()
        else:
            self.restart()

    def try_start(self) -> bool:
        """Start the agent."""
        try:
            self.start()
        except Problem:
            return False
        return True

    def start(self) -> None:
        """Start the agent, loading it if need be."""
        if self._loaded():
            self._done("kickstart", self._service)
        else:
            self._bootstrap()

    def stop(self) -> None:
        """End the daemon; launchd does not start again what ended well."""
        if self.state().pid:
            self._done("kill", "SIGTERM", self._service)
            deadline = time.monotonic() + SETTLE
            while self.state().pid and time.monotonic() < deadline:
                time.sleep(0.05)

    def restart(self) -> None:
        """Replace the daemon."""
        if self._loaded():
            self._done("kickstart", "-k", self._service)
        else:
            self._bootstrap()

    def remove(self) -> list[str]:
        """Unload the agent and remove its file."""
        if self._loaded():
            self._done("bootout", self._service)
        return remove_files([self._plist], self._home)

    def log_command(self, *, follow: bool) -> list[str] | None:  # noqa: ARG002 - the interface's
        """Return None: the daemon has a log of its own."""
        return None

    def _loaded(self) -> bool:
        return run(self._env, "launchctl", "print", self._service).returncode == 0

    def _disabled(self) -> bool:
        lines = run(self._env, "launchctl", "print-disabled", self._domain).stdout.splitlines()
        return any(f'"{LABEL}"' in line and line.split()[-1] in ("true", "disabled") for line in lines)

    def _bootstrap(self) -> None:
        deadline = time.monotonic() + SETTLE
        while True:
            try:
                self._done("bootstrap", self._domain, self._plist)
            except Problem:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def _done(self, *words: str) -> None:
        done = run(self._env, "launchctl", *words)
        if done.returncode:
            code = last_line(done.stderr.splitlines()).partition(": ")[2].partition(":")[0]
            raise Problem(
                "unreachable",
                f"`launchctl {' '.join(words)}` failed: {last_line(done.stderr.splitlines())}",
                _HINTS.get(code, "`sess service logs` may say why; `sess doctor` looks at everything."),
            )


def _path(env: Mapping[str, str]) -> str:
    return f"{env.get('HOME', '')}/Library/LaunchAgents/{LABEL}.plist"


def _agent(path: str) -> dict[str, Any]:
    """Return what is in the property list at *path*, nothing when it is none."""
    try:
        return dict(plistlib.loads(read_file(path) or b""))
    except (ValueError, TypeError, ExpatError):
        return {}


def _variables(path: str) -> Mapping[str, str] | None:
    agent = _agent(path)
    found: dict[str, str] = agent.get("EnvironmentVariables", {})
    return found if agent else None
