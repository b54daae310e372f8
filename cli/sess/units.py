"""What a service manager is given: the files in ``systemd/`` and ``launchd/``, for this installation."""

from __future__ import annotations

import os
import plistlib
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessiond.paths import Paths

LABEL = "sess.sessiond"
"""What launchd calls the service."""

_OURS = ("SESS_STATE_DIR", "SESS_RUNTIME_DIR", "SESS_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
"""The variables by which paths.py decides."""


class Units(NamedTuple):
    """What the files are made from."""

    command: Sequence[str]
    """What starts the daemon."""
    environment: Mapping[str, str]
    """The variables that it has to have: a service manager knows nothing of those of a shell."""
    paths: Paths

    def socket(self) -> str:
        """Return ``sessiond.socket``. Raises Problem when its path cannot stand in it."""
        return _filled("systemd/sessiond.socket", {"ListenStream=%t/sess/sessiond.sock": self._listen()})

    def service(self) -> str:
        """Return ``sessiond.service``."""
        variables = [f"Environment={_quoted(f'{name}={value}')}" for name, value in self.environment.items()]
        lines = "\n".join([exec_start(self.command), *variables])
        return _filled("systemd/sessiond.service", {"ExecStart=/usr/bin/sessiond": lines})

    def hardening(self) -> str:
        """Return the drop-in with the options that need a user namespace."""
        folders = " ".join(_quoted(folder) for folder in dict.fromkeys((self.paths.state, self.paths.runtime)))
        return _filled(
            "systemd/hardening.conf",
            {
                "Environment=TMPDIR=%h/.local/state/sess": f"Environment={_quoted(f'TMPDIR={self.paths.state}')}",
                "ReadWritePaths=%h/.local/state/sess %t/sess": f"ReadWritePaths={folders}",
            },
        )

    def agent(self) -> bytes:
        """Return the property list of the LaunchAgent."""
        agent = plistlib.loads(_template(f"launchd/{LABEL}.plist").encode())
        agent["ProgramArguments"] = list(self.command)
        agent["EnvironmentVariables"] = dict(self.environment)
        return plistlib.dumps(agent)

    def _listen(self) -> str:
        path = self.paths.socket
        if not path.isprintable():
            raise Problem("usage", f"systemd cannot listen at {path}", "Set SESS_RUNTIME_DIR to a simpler path.")
        return "ListenStream=" + path.replace("%", "%%")


def exec_start(command: Sequence[str]) -> str:
    """Return the line of a unit that has systemd start *command*."""
    # Without the colon, systemd would look for variables in the words.
    return "ExecStart=" + " ".join(_quoted(word) for word in (":" + command[0], *command[1:]))


def environment(env: Mapping[str, str], uid: int) -> dict[str, str]:
    """Return the variables of *env* that decide where the daemon of *uid* finds things, with absolute paths."""
    from sessiond.apps import APPS

    names = [*_OURS, *(name for app in APPS.values() for name in (app.store_variable, *app.variables))]
    kept = {name: os.path.abspath(env[name]) for name in names if env.get(name)}
    home = env.get("HOME", "")
    return {"HOME": home, **kept} if home and home != pwd.getpwuid(uid).pw_dir else kept


def _template(name: str) -> str:
    here = Path(__file__).parent
    # In an installed wheel they lie beside this file, in a clone where they are edited.
    places = (here / "share" / name, here.parents[1] / name)
    return next(place for place in places if place.exists()).read_text(encoding="utf-8")


def _filled(name: str, lines: Mapping[str, str]) -> str:
    """Return a template with other ones in place of whole *lines*."""
    text = _template(name)
    for line, ours in lines.items():
        before, found, after = text.partition(f"\n{line}\n")
        assert found, f"{name} has no line {line}"
        text = f"{before}\n{ours}\n{after}"
    return text


def _quoted(word: str) -> str:
    """Return *word* as systemd.syntax(7) wants it: in quotes, no specifier, nothing that steers."""
    escaped = "".join(
        {"\\": "\\\\", '"': '\\"', "%": "%%"}.get(char, char if char.isprintable() else _bytes(char)) for char in word
    )
    return f'"{escaped}"'


def _bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
