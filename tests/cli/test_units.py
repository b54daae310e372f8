"""The files that a service manager is given."""

from __future__ import annotations

import plistlib
import re
from pathlib import Path
from typing import Any

import pytest

from sess import units
from sess.units import Units
from sessiond.paths import Paths, locate
from sessiond.protocol import Problem

ROOT = Path(__file__).parents[2]
PATHS = Paths("/home/anna/.local/state/sess", "/run/user/1000/sess", "/c", "/home/anna/.local/state/sess")
COMMAND = ["/opt/venv/bin/python", "-E", "-P", "-m", "sessiond"]

KEYS: dict[str, tuple[type, Any]] = {
    "Label": (str, "sess.sessiond"),
    "ProgramArguments": (list, COMMAND),
    "EnvironmentVariables": (dict, {"CODEX_HOME": "/srv/codex"}),
    "RunAtLoad": (bool, True),
    "KeepAlive": (dict, {"SuccessfulExit": False}),
    "ThrottleInterval": (int, 10),
    "ExitTimeOut": (int, 5),
    "ProcessType": (str, "Standard"),
    "Nice": (int, 5),
    "Umask": (int, 0o77),
    "SoftResourceLimits": (dict, {"Core": 0, "NumberOfFiles": 4096}),
}
"""Every key of the LaunchAgent with its type and value, see launchd.plist(5)."""


def assigned(unit: str) -> dict[str, list[str]]:
    """Return every value of *unit*, by section and key."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in unit.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(f"{section}.{key}", []).append(value)
    return found


def test_the_socket_is_where_clients_look_and_nobody_elses() -> None:
    """The modes that systemd would give are open to everybody."""
    unit = assigned(Units(COMMAND, {}, PATHS).socket())
    assert unit["Socket.ListenStream"] == ["/run/user/1000/sess/sessiond.sock"]
    assert unit["Socket.SocketMode"] == ["0600"]
    assert unit["Socket.DirectoryMode"] == ["0700"]
    assert unit["Install.WantedBy"] == ["sockets.target"]


def test_the_socket_of_the_template_is_the_default_one() -> None:
    """A distribution ships the file as it is."""
    template = assigned((ROOT / "systemd/sessiond.socket").read_text())
    default = locate({"HOME": "/home/anna"}, 1000, "linux", lambda folder: True)
    assert template["Socket.ListenStream"][0].replace("%t", "/run/user/1000") == default.socket


def test_the_service_is_started_at_login_and_watched() -> None:
    """Every promise of docs/service.md that is a line of the unit."""
    unit = assigned(Units(COMMAND, {"CODEX_HOME": "/srv/a b"}, PATHS).service())
    for key, value in {
        "Unit.Requires": "sessiond.socket",
        "Unit.StartLimitIntervalSec": "60",
        "Unit.StartLimitBurst": "5",
        "Service.Type": "notify",
        "Service.ExecStart": '":/opt/venv/bin/python" "-E" "-P" "-m" "sessiond"',
        "Service.Environment": '"CODEX_HOME=/srv/a b"',
        "Service.Restart": "on-failure",
        "Service.WatchdogSec": "60",
        "Service.TimeoutStopSec": "5",
        "Service.UMask": "0077",
        "Service.RestrictAddressFamilies": "AF_UNIX",
        "Install.WantedBy": "default.target",
    }.items():
        assert unit[key] == [value]


def test_nothing_in_the_units_needs_what_a_user_manager_may_not_have() -> None:
    """Options that need a user namespace are in the drop-in alone, and none takes the socket's folder away."""
    needs = re.compile(r"(?m)^(?:Private|Protect|ReadOnly|ReadWrite|Inaccessible|Bind|Temporary|RuntimeDirectory=)")
    written = Units(COMMAND, {}, PATHS)
    assert not needs.search(written.service() + written.socket())
    assert needs.search(written.hardening())


def test_the_drop_in_lets_the_daemon_write_where_it_has_to() -> None:
    """And nowhere else."""
    unit = assigned(Units(COMMAND, {}, PATHS).hardening())
    assert unit["Service.ReadWritePaths"] == ['"-/home/anna/.local/state/sess" "-/run/user/1000/sess"']
    assert unit["Service.Environment"] == ['"TMPDIR=/home/anna/.local/state/sess"']


BY_A_SHELL = 'ExecStart=":/bin/sh" "-c" "exec \\"$0\\" \\"$@\\"" '


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("/a b/python", 'ExecStart=":/a b/python"'),
        ("/50%h/python", 'ExecStart=":/50%%h/python"'),
        ("/$HOME/python", 'ExecStart=":/$HOME/python"'),
        ('/"q"\\/python', BY_A_SHELL + '"/\\"q\\"\\\\/python"'),
        ("/it's/python", BY_A_SHELL + '"/it\'s/python"'),
        ("/tab\there\n/python", BY_A_SHELL + '"/tab\\x09here\\x0a/python"'),
        ("/été/python", 'ExecStart=":/été/python"'),
        ("/\udcff/python", 'ExecStart=":/\\xff/python"'),
    ],
)
def test_a_path_reaches_systemd_as_it_is(word: str, line: str) -> None:
    """Spaces split words there, and %, $, quotes and backslashes have a meaning or are refused in a program's path."""
    assert units.exec_start([word]) == line


def test_a_socket_path_that_systemd_cannot_take_is_said() -> None:
    """It knows no way to write it."""
    paths = Paths("/s", "/new\nline", "/c", "/s")
    with pytest.raises(Problem, match="cannot listen"):
        Units(COMMAND, {}, paths).socket()
    assert "ListenStream=/50%%/sessiond.sock\n" in Units(COMMAND, {}, Paths("/s", "/50%", "/c", "/s")).socket()


@pytest.mark.parametrize("value", ["/plain", "/a b", "/50%h", '/"q"', "/it's", "/back\\slash", "/é", "/=", "/t\tn\n"])
def test_a_written_unit_tells_whose_it_is(value: str) -> None:
    """The variables of a service are read from it as they were put there."""
    given = {"HOME": "/home/b", "SESS_STATE_DIR": value}
    written = units.variables(Units(COMMAND, given, PATHS).service())
    assert written == given
    assert units.place(written, 0).state == value


def test_a_unit_of_a_packager_is_that_of_the_usual_place() -> None:
    """It sets no variable, or one by hand without quotes."""
    template = (ROOT / "systemd/sessiond.service").read_text()
    assert units.variables(template) == {}
    assert units.variables(template + "Environment=SESS_STATE_DIR=/srv/a LANG=C\n") == {
        "SESS_STATE_DIR": "/srv/a",
        "LANG": "C",
    }


def test_the_agent_of_launchd_has_every_key_with_its_type() -> None:
    """And no other one: launchd ignores a misspelt key in silence."""
    agent = plistlib.loads(Units(COMMAND, {"CODEX_HOME": "/srv/codex"}, PATHS).agent())
    assert {key: (type(value), value) for key, value in agent.items()} == KEYS


def test_the_template_of_the_agent_is_a_property_list_by_itself() -> None:
    """With the label in its name, as launchd wants it."""
    path = ROOT / f"launchd/{units.LABEL}.plist"
    with path.open("rb") as file:
        assert plistlib.load(file)["Label"] == units.LABEL


@pytest.mark.parametrize(
    ("env", "kept"),
    [
        ({"HOME": "", "PATH": "/bin", "EDITOR": "vi"}, {}),
        ({"CLAUDE_CONFIG_DIR": "/srv/claude", "CODEX_HOME": ""}, {"CLAUDE_CONFIG_DIR": "/srv/claude"}),
        ({"CODEX_SQLITE_HOME": "/srv/db"}, {"CODEX_SQLITE_HOME": "/srv/db"}),
        ({"SESS_STATE_DIR": "/srv/../s", "XDG_STATE_HOME": "/x"}, {"SESS_STATE_DIR": "/s", "XDG_STATE_HOME": "/x"}),
        ({"SESS_NO_SPAWN": "1", "ANTHROPIC_API_KEY": "secret"}, {}),
        ({"CODEX_SQLITE_HOME": "name", "CLAUDE_CONFIG_DIR": "~/c"},) * 2,
        ({"SESS_STATE_DIR": "state", "XDG_CONFIG_HOME": "./c", "XDG_DATA_HOME": "./d"}, {}),
        ({"HOME": "/elsewhere"}, {"HOME": "/elsewhere"}),
    ],
)
def test_the_service_gets_the_variables_that_say_where_things_are(env: dict[str, str], kept: dict[str, str]) -> None:
    """And no others: they would stand in a file, for ever."""
    assert units.environment(env, 0) == kept
