"""What a service manager is given: the files in ``systemd/`` and ``launchd/``, for this installation."""

from __future__ import annotations

import os
import plistlib
import pwd
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sessiond.paths import is_private, locate
from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessiond.paths import Paths

LABEL = "sess.sessiond"
"""What launchd calls the service."""

OURS = ("SESS_STATE_DIR", "SESS_RUNTIME_DIR", "SESS_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
"""The variables by which paths.py decides."""
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"s": b" ", b"t": b"\t", b"v": b"\v"}
_NO_PROGRAM = re.compile(r"[\"'\\\x00-\x1f\x7f]")
"""Signs for which systemd takes no path for that of a program (252, ``string_is_safe``)."""


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
        # The dash: one that is missing is no reason not to start, which systemd would say with "226/NAMESPACE" alone.
        folders = " ".join(_literally("-" + folder) for folder in dict.fromkeys((self.paths.state, self.paths.runtime)))
        return _filled(
            "systemd/hardening.conf",
            {
                "Environment=TMPDIR=%h/.local/state/sess": f"Environment={_quoted(f'TMPDIR={self.paths.state}')}",
                "ReadWritePaths=-%h/.local/state/sess -%t/sess": f"ReadWritePaths={folders}",
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
    if _NO_PROGRAM.search(command[0]):
        command = ["/bin/sh", "-c", 'exec "$0" "$@"', *command]
    # Without the colon, systemd would look for variables in the words.
    return "ExecStart=" + " ".join(_quoted(word) for word in (":" + command[0], *command[1:]))


def variables(unit: str) -> dict[str, str]:
    """Return the variables that the text of a ``sessiond.service`` sets."""
    lines = (line.removeprefix("Environment=") for line in unit.splitlines() if line.startswith("Environment="))
    assigned = (word.replace("%%", "%").partition("=") for line in lines for word in words(line))
    return {name: value for name, _, value in assigned}


def place(variables: Mapping[str, str], uid: int) -> Paths:
    """Return where a daemon of *uid* that is started with *variables*, as `environment` gave them, has its things."""
    return locate({"HOME": pwd.getpwuid(uid).pw_dir, **variables}, uid, sys.platform, is_private)


def words(text: str) -> list[str]:
    """Return the words of what systemd wrote, or reads, of which some are in quotes."""
    return [unescaped(quoted or plain) for quoted, plain in _WORD.findall(text)]


def unescaped(text: str) -> str:
    """Return *text* without the escapes of systemd.syntax(7)."""

    def sign(escape: re.Match[bytes]) -> bytes:
        said = escape[1]
        return bytes([int(said[1:], 16)]) if len(said) == 3 else _LETTERS.get(said, said)

    return os.fsdecode(_ESCAPE.sub(sign, os.fsencode(text)))


def environment(env: Mapping[str, str], uid: int) -> dict[str, str]:
    """Return the variables of *env* that decide where the daemon of *uid* finds things, with absolute paths."""
    from sessiond.apps import APPS

    names = {*OURS, *(name for app in APPS.values() for name in (app.store_variable, *app.variables))}
    # A relative one of ours, or of XDG, is heeded by nobody, see paths.py.
    names = {name for name in names if not name.startswith(("SESS_", "XDG_")) or env.get(name, "").startswith("/")}
    # A bare name is no path (OPENCODE_DB), and a tilde is for the agent to resolve.
    kept = {
        name: env[name] if "/" not in env[name] or env[name].startswith("~") else os.path.abspath(env[name])
        for name in sorted(names)
        if env.get(name)
    }
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


def _literally(path: str) -> str:
    """Return *path* for a list of paths, where systemd knows quotes and specifiers, and a backslash is itself."""
    return '"' + path.replace("%", "%%").replace('"', '"\'"\'"') + '"'


def _bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
