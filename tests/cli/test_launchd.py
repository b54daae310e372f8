"""The login service of macOS, with a stand-in for `launchctl` that records its calls and starts what it is told to.

The real one is nowhere but on macOS. What this one answers is taken from the manual page and from what others report
of it; nobody has tried it there yet.
"""

from __future__ import annotations

import json
import os
import plistlib
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sess import launchd
from sessiond.protocol import Problem
from tests.daemon import Home, until

if TYPE_CHECKING:
    from collections.abc import Iterator

LABEL = "sess.sessiond"
LAUNCHCTL = f"""\
#!{os.path.realpath(sys.executable)} -ISs
import json, os, plistlib, signal, subprocess, sys, time
here = os.path.dirname(__file__)
words = sys.argv[1:]
with open(here + "/calls", "a") as calls:
    calls.write(json.dumps(words) + "\\n")
with open(here + "/launchd.json") as file:
    known = json.load(file)

def end(code, text=""):
    with open(here + "/launchd.json.new", "w") as file:
        json.dump(known, file)
    os.rename(here + "/launchd.json.new", here + "/launchd.json")
    print(text, file=sys.stderr if code else sys.stdout)
    sys.exit(code)

def lives():
    try:
        with open(f"/proc/{{known['pid']}}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

def start():
    with open(known["loaded"], "rb") as file:
        agent = plistlib.load(file)
    env = {{"PATH": os.defpath, "HOME": os.environ["HOME"], **agent["EnvironmentVariables"]}}
    nothing = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    started = subprocess.Popen(agent["ProgramArguments"], env=env, cwd="/", start_new_session=True, **nothing)
    known["pid"] = started.pid

def stop():
    while lives():
        os.kill(known["pid"], signal.SIGTERM)
        time.sleep(0.02)

verb, *rest = words
if verb == "print" and rest[0] in known["domains"]:
    end(0, "domain")
if verb == "print" and "/sess.sessiond" not in rest[0]:
    end(113, "Could not find domain for " + rest[0])
if verb == "print-disabled":
    end(0, 'disabled services = {{\\n\\t"sess.sessiond" => ' + known["disabled"] + "\\n}}")
if verb == "enable":
    known["disabled"] = "enabled"
    end(0)
if verb == "bootstrap" and known["refuses"]:
    end(int(known["refuses"].split(":")[0]), "Bootstrap failed: " + known["refuses"])
if verb == "bootstrap":
    if known["busy"]:
        known["busy"] -= 1
        end(37, "Bootstrap failed: 37: Operation already in progress")
    if known["loaded"]:
        end(5, "Bootstrap failed: 5: Input/output error")
    known["loaded"] = rest[1]
    start()
    end(0)
if not known["loaded"]:
    end(113, 'Could not find service "sess.sessiond" in domain for user gui: 501')
if verb == "print":
    state = f"state = running\\n\\tpid = {{known['pid']}}" if lives() else "state = not running"
    if known["state"]:
        state = "state = " + known["state"]
    path = "path = " + known["loaded"]
    end(0, rest[0] + " = {{\\n\\tactive count = 1\\n\\t" + path + "\\n\\t" + state + "\\n\\tlast exit code = "
        + known["exit"] + "\\n\\tspawn = {{\\n\\t\\tstate = active\\n\\t}}\\n}}")
if verb == "bootout":
    stop()
    known["loaded"] = None
elif verb == "kickstart":
    if "-k" in rest:
        stop()
    if not lives():
        start()
elif verb == "kill":
    os.kill(known["pid"], signal.SIGTERM)
end(0)
"""


class Mac(Home):
    """A home on macOS, as far as the client can tell."""

    def __init__(self) -> None:
        super().__init__()
        self.bin = self.path / "bin"
        self.bin.mkdir()
        (self.bin / "launchctl").write_text(LAUNCHCTL)
        (self.bin / "launchctl").chmod(0o755)
        self.plist = self.path / f"Library/LaunchAgents/{LABEL}.plist"
        self.know(domains=[f"gui/{os.getuid()}", f"user/{os.getuid()}"])

    @property
    def env(self) -> dict[str, str]:
        return super().env | {"PATH": f"{self.bin}:{os.environ['PATH']}"}

    def know(self, **values: Any) -> None:
        """Set what launchd knows."""
        known = {"domains": [], "loaded": None, "pid": 0, "busy": 0, "disabled": "enabled", "exit": "(never exited)",
                 "refuses": "", "state": ""}  # fmt: skip
        (self.bin / "launchd.json").write_text(json.dumps({**known, **self.known(), **values}))

    def known(self) -> dict[str, Any]:
        try:
            return json.loads((self.bin / "launchd.json").read_text())
        except FileNotFoundError:
            return {}

    def calls(self) -> list[list[str]]:
        """Return the calls since the last time, but for those that only ask."""
        lines = (self.bin / "calls").read_text().splitlines()
        (self.bin / "calls").unlink()
        return [words for words in map(json.loads, lines) if not words[0].startswith("print")]

    def sess(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        code = "import sys; sys.platform = 'darwin'; import sess.relay; sess.relay.main()"
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            env=self.env | env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip


@pytest.fixture
def mac() -> Iterator[Mac]:
    """A Mac whose daemon ends with the test."""
    mac = Mac()
    yield mac
    mac.sess("stop")
    mac.remove()


DOMAIN = f"gui/{os.getuid()}"
SERVICE = f"{DOMAIN}/{LABEL}"


def test_it_is_loaded_and_started(mac: Mac) -> None:
    """Into the domain of the graphical session, with the Python of the installation and the paths of this shell."""
    installed = mac.sess("service", "install")
    assert installed.returncode == 0, installed.stderr
    assert f"launchd: wrote ~/Library/LaunchAgents/{LABEL}.plist" in installed.stdout
    assert "answers, and starts at every login" in installed.stdout
    assert mac.calls() == [["enable", SERVICE], ["bootstrap", DOMAIN, str(mac.plist)]]
    agent = plistlib.loads(mac.plist.read_bytes())
    assert agent["ProgramArguments"] == [sys.executable, "-E", "-P", "-m", "sessiond"]
    assert agent["EnvironmentVariables"]["SESS_STATE_DIR"] == mac.env["SESS_STATE_DIR"]
    mac.claude_session("Fix the checkout")
    assert "Fix the checkout" in mac.sess("find", "--sync", "checkout").stdout
    assert f"pid {mac.known()['pid']}" in mac.sess("service", "status").stdout


def test_again_is_harmless(mac: Mac) -> None:
    """Nothing is written, nothing restarted."""
    mac.sess("service", "install")
    pid = mac.known()["pid"]
    mac.calls()
    assert "nothing to change" in mac.sess("service", "install").stdout
    assert mac.calls() == []
    assert mac.known()["pid"] == pid


def test_a_changed_agent_is_loaded_anew(mac: Mac) -> None:
    """Launchd reads the file only then; it may take a while to let go of the old one."""
    mac.sess("service", "install")
    mac.calls()
    mac.know(busy=2)
    assert mac.sess("service", "install", CODEX_HOME="/srv/codex").returncode == 0
    bootstrap = ["bootstrap", DOMAIN, str(mac.plist)]
    assert mac.calls() == [["enable", SERVICE], ["bootout", SERVICE], bootstrap, bootstrap, bootstrap]
    assert plistlib.loads(mac.plist.read_bytes())["EnvironmentVariables"]["CODEX_HOME"] == "/srv/codex"


def test_a_daemon_on_demand_hands_over(mac: Mac) -> None:
    """It ends before the other one starts, which would otherwise find its lock held."""
    mac.sess("find")
    assert "handed over" in mac.sess("service", "install").stdout
    assert f"pid {mac.known()['pid']}" in mac.sess("status").stdout


def test_its_commands_speak_to_launchd(mac: Mac) -> None:
    """start, stop and restart; after a stop the next search has launchd start it."""
    mac.sess("service", "install")
    mac.calls()
    assert mac.sess("service", "stop").returncode == 0
    assert mac.calls() == [["kill", "SIGTERM", SERVICE]]
    assert mac.sess("service", "status").returncode == 3
    assert mac.sess("service", "start").returncode == 0
    assert mac.calls() == [["kickstart", SERVICE]]
    assert mac.sess("service", "restart").returncode == 0
    assert mac.calls() == [["kickstart", "-k", SERVICE]]
    os.kill(mac.known()["pid"], signal.SIGKILL)
    until(lambda: mac.sess("service", "status").returncode == 3)
    mac.calls()
    assert mac.sess("find").returncode == 1
    assert mac.calls() == [["kickstart", SERVICE]]


def test_its_log_is_the_daemons_own(mac: Mac) -> None:
    """Launchd would not rotate it."""
    mac.sess("service", "install")
    assert re.search(r"serves \d+ roots", mac.sess("service", "logs").stdout)


def test_uninstalling_leaves_the_index_alone(mac: Mac) -> None:
    """And `--purge` takes that too."""
    mac.sess("service", "install")
    mac.sess("find", "--sync")
    mac.calls()
    gone = mac.sess("service", "uninstall")
    assert gone.returncode == 0, gone.stderr
    assert mac.calls() == [["bootout", SERVICE]]
    assert [path.name for path in mac.path.rglob("*") if path.is_file() and path.parent != mac.bin] == ["index.sqlite"]
    assert mac.sess("service", "uninstall", "--purge").returncode == 0
    assert set(mac.path.iterdir()) == {mac.bin, mac.claude, mac.codex}


def test_without_a_graphical_session_it_goes_to_the_users_own(mac: Mac) -> None:
    """As over ssh."""
    mac.know(domains=[f"user/{os.getuid()}"])
    assert mac.sess("service", "install").returncode == 0
    assert ["bootstrap", f"user/{os.getuid()}", str(mac.plist)] in mac.calls()


def test_without_any_domain_it_says_what_happens_instead(mac: Mac) -> None:
    """And writes nothing."""
    mac.know(domains=[])
    refused = mac.sess("service", "install")
    assert refused.returncode == 3
    assert "no service manager: launchd has no domain for this user: Could not find domain" in refused.stderr
    assert "starts with the first search" in refused.stderr
    assert not mac.plist.exists()


@pytest.mark.parametrize(
    ("knows", "state", "says"),
    [
        ({"exit": "1"}, "fault", r"failed \(exit code 1\)"),
        ({"exit": "0"}, "warning", "inactive"),
        ({"disabled": "disabled"}, "warning", "does not start at login"),
        ({"disabled": "true"}, "warning", "does not start at login"),
    ],
)
def test_the_doctor_sees_what_is_wrong_with_it(mac: Mac, knows: dict[str, str], state: str, says: str) -> None:
    """By what launchd prints of it."""
    mac.sess("service", "install")
    if "exit" in knows:
        mac.sess("service", "stop")
    mac.know(**knows)
    assert re.search(rf"(?m)^{state} +service +launchd: .*{says}", mac.sess("doctor").stdout)


def test_an_agent_of_another_home_is_not_ours(mac: Mac) -> None:
    """A test, or a second index, starts its own daemon and leaves that one in peace."""
    mac.sess("service", "install")
    mac.calls()
    other = mac.sess("service", "status", SESS_STATE_DIR=str(mac.path / "other"))
    assert "no service is installed" in other.stdout


@pytest.mark.parametrize("action", ["install", "uninstall"])
@pytest.mark.parametrize("variable", ["SESS_STATE_DIR", "HOME"])
def test_the_service_of_another_index_is_left_alone(mac: Mac, action: str, variable: str) -> None:
    """The label is the same in every home: launchd would take the one for the other."""
    mac.sess("service", "install")
    mac.calls()
    other = mac.path / "other"
    other.mkdir(mode=0o700)
    env = {variable: str(other)} | ({"SESS_STATE_DIR": ""} if variable == "HOME" else {})
    refused = mac.sess("service", action, **env)
    assert (refused.returncode, "keeps another index" in refused.stderr) == (4, True)
    assert mac.calls() == []
    assert mac.plist.exists()


def test_uninstalling_without_launchd_claims_no_success(mac: Mac) -> None:
    """The file goes; what runs may go on until the next boot."""
    mac.sess("service", "install")
    mac.know(domains=[])
    done = mac.sess("service", "uninstall")
    assert (done.returncode, "the service may still run" in done.stderr) == (1, True)
    assert not mac.plist.exists()


@pytest.mark.parametrize(
    ("refuses", "hint"),
    [
        ("5: Input/output error", "`sess service uninstall`, and install again"),
        ("37: Operation already in progress", "try again in a moment"),
        ("125: Domain does not support specified action", "log in at the screen"),
        ("134: something new", "`sess doctor` looks at everything"),
    ],
)
def test_why_launchd_refuses_is_told(mac: Mac, monkeypatch: pytest.MonkeyPatch, refuses: str, hint: str) -> None:
    """Its own words, and what to do about the numbers that people met."""
    mac.know(refuses=refuses)
    agent = launchd.Launchd({**mac.env, "HOME": str(mac.path)})
    monkeypatch.setattr(launchd, "SETTLE", 0)
    with pytest.raises(Problem, match=f"failed: Bootstrap failed: {refuses}") as raised:
        agent.start()
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("state", "last", "active"),
    [
        ("running", "0", "active"),
        ("running", "1", "active"),
        ("waiting", "0", "inactive"),
        ("not running", "0", "inactive"),
        ("not running", "(never exited)", "inactive"),
        ("not running", "1", "failed"),
        ("not running", "78: EX_CONFIG", "failed"),
        ("spawn scheduled", "1", "failed"),
        ("spawn scheduled", "0", "inactive"),
        ("exited", "2", "failed"),
    ],
)
def test_what_launchd_prints_is_understood(mac: Mac, state: str, last: str, active: str) -> None:
    """Of each state that it has a word for, with the end of the last daemon."""
    mac.know(loaded=str(mac.plist), state=state, exit=last)
    assert launchd.Launchd({**mac.env, "HOME": str(mac.path)}).state().active == active


@pytest.mark.parametrize("content", [b"", b"<plist", b"nothing", plistlib.dumps([])])
def test_a_damaged_agent_is_as_none(mac: Mac, content: bytes) -> None:
    """And is written anew."""
    mac.plist.parent.mkdir(parents=True)
    mac.plist.write_bytes(content)
    assert "no service is installed" in mac.sess("service", "status").stdout
    assert mac.sess("service", "install").returncode == 0
