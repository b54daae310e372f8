"""The login service beside a real `systemd --user`, from the built wheel."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

import sessiond
from fixtures.transcripts import Claude
from tests.daemon import until
from tests.login import HOME, RUNTIME, UID, Installation, Login, hindrance

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.needs("nsenter", "setpriv", "systemd-analyze", "unshare"),
    pytest.mark.xdist_group("login"),
    pytest.mark.timeout(300),
]

LATER = "99.0.0"
"""A version that is newer than any."""
UNITS = f"{HOME}/.config/systemd/user"


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """An installation from the wheel; skips where nobody can be logged in."""
    if why := hindrance():
        pytest.skip(why)
    installation = Installation()
    yield installation
    installation.remove()


@pytest.fixture
def login(installation: Installation) -> Iterator[Login]:
    """Somebody logged in, with one session on disk."""
    login = with_a_session(Login(installation))
    yield login
    login.close()


def with_a_session(login: Login) -> Login:
    """Put a session onto her disk."""
    login.write(".profile", "# hers\n")
    session = Claude(random.Random(1), "/srv/shop", "main", 1_790_000_000_000)
    session.custom_title = "Fix the checkout"
    session.turn("please do the thing")
    session.metadata()
    login.write(f".claude/projects/{session.path}", b"".join(session.lines).decode())
    return login


def finds(login: Login) -> bool:
    """Whether the session is found, within the time that a client takes."""
    done = login.run("sess", "find", "--sync", "--ids", "checkout")
    return done.returncode == 0 and len(done.stdout.split()) == 1


def main_pid(login: Login) -> int:
    """The daemon's, as systemd knows it; 0 when there is none."""
    return int(login.done("systemctl", "--user", "show", "sessiond", "--property=MainPID", "--value"))


def hasten(login: Login) -> None:
    """Have systemd lose its patience within the time of a test."""
    fast = "[Service]\nWatchdogSec=1\nTimeoutAbortSec=1\nRestartSec=100ms\n"
    login.write(".config/systemd/user/sessiond.service.d/fast.conf", fast)
    login.done("systemctl", "--user", "daemon-reload")


def test_the_life_of_a_login_service(login: Login, installation: Installation) -> None:
    """Installed, killed, hung, through a new login, upgraded, and gone without a trace."""
    before = login.tree()
    installed = login.done("sess", "service", "install")
    assert f"wrote ~{UNITS.removeprefix(HOME)}/sessiond.service" in installed
    assert "answers, and starts at every login" in installed
    assert finds(login)

    first = main_pid(login)
    login.done("kill", "-9", str(first))
    assert finds(login)
    assert main_pid(login) not in (0, first)

    hasten(login)
    login.done("systemctl", "--user", "restart", "sessiond")
    hung = main_pid(login)
    login.done("kill", "-STOP", str(hung))
    until(lambda: main_pid(login) not in (0, hung))
    assert finds(login)
    assert "Fatal Python error: Aborted" in login.done("sess", "service", "logs")  # with where it hung
    login.done("rm", "-r", f"{UNITS}/sessiond.service.d")
    login.done("systemctl", "--user", "daemon-reload")

    login.run("systemctl", "--user", "exit")
    until(lambda: login.run("systemctl", "--user", "is-active", "--quiet", "sessiond").returncode == 0)
    assert main_pid(login)
    assert finds(login)

    assert "the index stays" in login.done("sess", "service", "uninstall")
    assert login.done("find", f"{HOME}/.local", "-type", "f").split() == [f"{HOME}/.local/state/sess/index.sqlite"]
    login.done("sess", "service", "install")
    login.done("sess", "service", "uninstall", "--purge")
    assert login.tree() == before


@pytest.mark.parametrize("sign", [" %h\"'\\é$HOME;*[a]", "'"])
def test_any_sign_may_stand_in_every_path(installation: Installation, sign: str) -> None:
    """In the home and so in those of units and index, in that of Python, and in that of the socket."""
    login = Login(installation, f"/run/a{sign}b")
    try:
        with_a_session(login)
        login.done("ln", "-s", str(installation.folder), f"{login.home}/{sign}python")
        before = login.tree()
        sess = (f"{login.home}/{sign}python/bin/python", "-m", "sess")
        own = {"SESS_RUNTIME_DIR": f"{login.home}/socket{sign}s"}
        assert "answers, and starts at every login" in login.done(*sess, "service", "install", **own)
        found = login.done(*sess, "find", "--sync", "--ids", "checkout", **own)
        assert len(found.split()) == 1
        assert f"{sign}python" in login.done("cat", f"/proc/{main_pid(login)}/cmdline")
        assert "nothing to change" in login.done(*sess, "service", "install", **own)
        assert re.search(r"(?m)^ok +service ", login.done(*sess, "doctor", **own))
        login.done(*sess, "service", "uninstall", "--purge", **own)
        assert login.tree() == before
    finally:
        login.close()


ASK = """
import json, os, socket, sys
path, going_on = sys.argv[1:]
number, versions = 0, []
while number < 200 or os.path.exists(going_on):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(path)
        connection.sendall(b'{"v":1,"op":"find","q":"checkout"}\\n')
        with connection.makefile("rb") as lines:
            answer = [json.loads(lines.readline()), json.loads(lines.readline())]
    assert answer[0]["row"]["title"] == "Fix the checkout"
    version = answer[1]["ok"]["version"]
    if version not in versions[-1:]:
        versions.append(version)
    number += 1
print(json.dumps(versions))
"""
"""A client that knows nothing of daemons that are replaced: it asks once, on a new connection, and never again."""


def test_an_upgrade_loses_no_request(login: Login, installation: Installation) -> None:
    """Neither those of any client while pip and `service install` are at work, nor `sess find` of the new version."""
    later = installation.wheel(LATER)
    login.done("sess", "service", "install")
    assert finds(login)
    going_on = f"{HOME}/going-on"
    login.write("going-on", "")
    asking = subprocess.Popen(
        login.argv("python", "-c", ASK, f"{RUNTIME}/sess/sessiond.sock", going_on), stdout=subprocess.PIPE, text=True
    )
    found: list[subprocess.CompletedProcess[str]] = []
    upgraded = threading.Event()

    def find() -> None:
        while not upgraded.is_set():
            found.append(login.run("sess", "find", "--ids", "checkout"))

    finding = threading.Thread(target=find)
    try:
        installation.upgrade(later)
        finding.start()
        assert LATER in login.done("sess", "service", "install")
        upgraded.set()
        finding.join()
        login.done("rm", going_on)
        printed, _ = asking.communicate(timeout=60)
        assert json.loads(printed) == [sessiond.__version__, LATER]
        assert found
        assert [done for done in found if done.returncode or len(done.stdout.split()) != 1] == []
        assert LATER in login.done("sess", "status")
    finally:
        upgraded.set()
        asking.kill()
        installation.upgrade(installation.first)


def test_a_new_client_replaces_the_daemon_of_its_service(login: Login, installation: Installation) -> None:
    """Whoever upgrades and does nothing else has a new daemon with the next search; an old shell is told to end."""
    login.done("sess", "service", "install")
    old = main_pid(login)
    try:
        installation.upgrade(installation.wheel(LATER))
        assert finds(login)
        assert main_pid(login) not in (0, old)
        assert LATER in login.done("sess", "status")
        doctor = login.done("sess", "doctor")
        assert "sess service install" not in doctor
    finally:
        installation.upgrade(installation.first)
    older = login.run("sess", "find", "checkout")
    assert older.returncode == 3
    assert "sess was upgraded" in older.stderr


def test_a_service_of_another_installation_is_named(login: Login, installation: Installation) -> None:
    """It would go on starting its own daemon: `sess service install` is what helps."""
    login.done("sess", "service", "install")
    login.done("sed", "-i", "s|^ExecStart=.*|ExecStart=/bin/false|", f"{UNITS}/sessiond.service")
    login.done("systemctl", "--user", "daemon-reload")
    assert "of another installation" in login.done("sess", "doctor")
    try:
        installation.upgrade(installation.wheel(LATER))
        refused = login.run("sess", "find", "checkout")
        assert refused.returncode == 3
        assert "`sess service install`" in refused.stderr
        login.done("sess", "service", "install")
        assert finds(login)
    finally:
        installation.upgrade(installation.first)


def test_a_daemon_started_on_demand_hands_over(login: Login) -> None:
    """To the service that is installed, without a search failing, and `again` changes nothing."""
    assert finds(login)
    assert main_pid(login) == 0
    assert "handed over" in login.done("sess", "service", "install")
    pid = main_pid(login)
    assert pid
    assert finds(login)
    assert "nothing to change" in login.done("sess", "service", "install")
    assert main_pid(login) == pid


def test_a_daemon_on_demand_ends_for_one_that_systemd_starts(login: Login) -> None:
    """Clients connect to the socket of systemd: the other one would never be reached again."""
    login.done("sess", "service", "install")
    login.done("sess", "service", "stop")
    demanded = subprocess.Popen(login.argv("sessiond"), stderr=subprocess.DEVNULL)
    until(lambda: login.run("sess", "status").returncode == 0)
    assert main_pid(login) == 0
    login.done("systemctl", "--user", "start", "sessiond.socket", "sessiond.service")
    assert demanded.wait(30) == 0
    assert main_pid(login)
    assert finds(login)


def test_the_service_is_reached_by_its_commands(login: Login) -> None:
    """start, stop, restart, status and logs speak to systemd."""
    absent = login.run("sess", "service", "status")
    assert (absent.returncode, "no service is installed" in absent.stdout) == (3, True)
    login.done("sess", "service", "install")
    pid = main_pid(login)
    assert f"systemd: active, pid {pid}, starts at login" in login.done("sess", "service")
    assert "stopped" in login.done("sess", "service", "stop")
    assert main_pid(login) == 0
    stopped = login.run("sess", "service", "status")
    assert (stopped.returncode, "inactive" in stopped.stdout) == (3, True)
    assert "by systemd" in login.done("sess", "service", "start")
    assert "by systemd" in login.done("sess", "service", "restart")
    assert main_pid(login) not in (0, pid)
    until(lambda: " roots" in login.done("sess", "service", "logs"))
    assert not os.path.exists(f"{HOME}/.local/state/sess/sessiond.log")
    login.done("sess", "service", "stop")
    assert finds(login)
    assert main_pid(login)


def test_logs_can_be_followed(login: Login) -> None:
    """What comes is shown as it comes."""
    login.done("sess", "service", "install")
    until(lambda: " roots" in login.done("sess", "service", "logs"))
    following = subprocess.Popen(login.argv("sess", "service", "logs", "-f"), stdout=subprocess.PIPE, text=True)
    assert following.stdout
    assert any(" roots" in line for line in following.stdout)
    login.done("sess", "service", "stop")
    assert any("sessiond ends" in line for line in following.stdout)
    following.kill()
    following.wait()
    following.stdout.close()


def test_the_units_pass_the_check_of_systemd(login: Login) -> None:
    """Also with the drop-in."""
    login.done("sess", "service", "install", "--harden")
    units = [f"{UNITS}/sessiond.service", f"{UNITS}/sessiond.socket"]
    checked = login.run("systemd-analyze", "--user", "verify", *units)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


PROBE = """
import socket, sys
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        print(family.name)
    except OSError:
        pass
"""


def test_the_daemon_has_no_network(login: Login) -> None:
    """By the options of the unit that need no user namespace, no socket but a Unix one can be made."""
    login.done("sess", "service", "install")
    unit = login.done("cat", f"{UNITS}/sessiond.service")
    options = re.findall(r"(?m)^(?:Restrict|NoNew|Lock|Memory|SystemCall)\w+=.+$", unit)
    assert "RestrictAddressFamilies=AF_UNIX" in options
    words = [word for option in options for word in ("--property", option)]
    run = ["systemd-run", "--user", "--wait", "--pipe", "--quiet", *words, "python3", "-I", "-c", PROBE]
    assert login.done(*run).split() == ["AF_UNIX"]
    status = login.done("cat", f"/proc/{main_pid(login)}/status")
    assert re.search(r"Seccomp:\s+2", status)
    assert re.search(r"NoNewPrivs:\s+1", status)


def test_hardened_it_can_write_nothing_but_its_own(login: Login) -> None:
    """And works; the drop-in stays with the next `install`, and goes with `uninstall`."""
    login.done("sess", "service", "install", "--harden")
    assert finds(login)
    view = f"/proc/{main_pid(login)}/root"
    login.done("touch", f"{view}{HOME}/.local/state/sess/file")
    for folder in (HOME, f"{HOME}/.claude", "/tmp", RUNTIME):
        refused = login.run("touch", f"{view}{folder}/file")
        assert "Read-only file system" in refused.stderr
    assert "nothing to change" in login.done("sess", "service", "install")
    assert "hardening.conf" in login.done("sess", "service", "uninstall")


def test_a_system_that_forbids_namespaces_gets_the_service_without(login: Login) -> None:
    """The options that it cannot have are taken back and named."""
    # In place of a kernel that denies it: what fails in a user namespace, where one number is mapped.
    forbids = "[Service]\nExecStartPre=/bin/sh -c '! grep -q \" 1$\" /proc/self/uid_map'\n"
    login.write(".config/systemd/user/sessiond.service.d/other.conf", forbids)
    installed = login.run("sess", "service", "install", "--harden")
    assert installed.returncode == 3
    assert "does not start with --harden" in installed.stderr
    assert login.run("test", "-e", f"{UNITS}/sessiond.service.d/hardening.conf").returncode == 1
    assert main_pid(login)
    assert finds(login)


def test_variables_of_the_shell_reach_the_daemon(login: Login) -> None:
    """A service manager knows nothing of what a shell's start file sets."""
    login.done("mv", f"{HOME}/.claude", f"{HOME}/elsewhere")
    login.done("sess", "service", "install")
    said = login.done("sess", "doctor", CLAUDE_CONFIG_DIR=f"{HOME}/elsewhere")
    assert re.search(r"(?m)^warning +root +claude: ~/elsewhere is not looked into.*\n +sess service install$", said)
    printed = login.done("sess", "service", "install", CLAUDE_CONFIG_DIR=f"{HOME}/elsewhere")
    assert f"CLAUDE_CONFIG_DIR={HOME}/elsewhere" in printed
    assert finds(login)


def test_where_the_shell_keeps_its_configuration_matters_not(login: Login) -> None:
    """The idea that systemd has of it does: it was started before the shell."""
    login.done("sess", "service", "install", XDG_CONFIG_HOME=f"{HOME}/mine")
    assert login.run("test", "-e", f"{UNITS}/sessiond.service").returncode == 0
    assert main_pid(login)


def test_without_a_user_manager_it_says_what_happens_instead(login: Login) -> None:
    """As over ssh, in a container, in WSL."""
    login.run("systemctl", "--user", "exit")
    refused = login.run("sess", "service", "install", XDG_RUNTIME_DIR=f"{HOME}/none")
    assert refused.returncode == 3
    assert "no service manager" in refused.stderr
    assert "starts with the first search" in refused.stderr


BROKEN = '#!/bin/sh\necho "Failed to connect to bus: No such file or directory" >&2\nexit 1\n'


@pytest.mark.parametrize("how", ["no bus", "it refuses"])
def test_uninstalling_without_the_manager_claims_no_success(login: Login, how: str) -> None:
    """Exit 1; the files go, and systemd, which still knows the units, forgets them at the next login."""
    login.done("sess", "service", "install")
    login.write("bin/systemctl", BROKEN)
    login.done("chmod", "+x", f"{HOME}/bin/systemctl")
    variables = {"XDG_RUNTIME_DIR": f"{HOME}/none"} if how == "no bus" else {"PATH": f"{HOME}/bin:{login.path}"}
    done = login.run("sess", "service", "uninstall", **variables)
    assert done.returncode == 1
    assert "sess: the service may still run: " in done.stderr
    assert login.run("test", "-e", UNITS).returncode == 1
    login.run("systemctl", "--user", "exit")
    shown = ("systemctl", "--user", "show", "sessiond.socket", "--property=LoadState", "--value")
    until(lambda: login.run(*shown).stdout == "not-found\n")


def test_the_service_of_another_index_is_left_alone(login: Login) -> None:
    """Who tries something out in a home of its own keeps the service; what is said to type removes it."""
    login.done("sess", "service", "install")
    pid, before = main_pid(login), login.done("cat", f"{UNITS}/sessiond.service")
    there = f"{HOME}/else where"
    login.done("mkdir", "-m", "700", there)
    for elsewhere in ({"SESS_STATE_DIR": there}, {"XDG_STATE_HOME": there}, {"HOME": there}):
        for action in ("install", "uninstall"):
            refused = login.run("sess", "service", action, **elsewhere)
            assert (refused.returncode, refused.stdout) == (4, ""), (action, elsewhere)
            assert f"keeps another index, in {HOME}/.local/state/sess" in refused.stderr
    assert main_pid(login) == pid
    assert login.done("cat", f"{UNITS}/sessiond.service") == before
    login.done("sh", "-c", refused.stderr.partition("first remove that one: ")[2], **elsewhere)
    assert login.run("test", "-e", f"{UNITS}/sessiond.service").returncode == 1
    login.done("sess", "service", "install", **elsewhere)
    refused = login.run("sess", "service", "install")
    assert refused.returncode == 4
    login.done("sh", "-c", refused.stderr.partition("first remove that one: ")[2])
    login.done("sess", "service", "install")


def test_a_relative_folder_is_refused(login: Login) -> None:
    """It would be another one for the daemon, which starts in /."""
    for name in ("SESS_STATE_DIR", "SESS_RUNTIME_DIR", "SESS_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        refused = login.run("sess", "service", "install", **{name: "here"})
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"{name} is no absolute path: here" in refused.stderr


def test_a_hung_daemon_on_demand_is_replaced(login: Login) -> None:
    """It cannot hand over: it is ended, and that is said."""
    assert finds(login)
    pid = re.findall(r"pid (\d+)", login.done("sess", "status"))[0]
    login.done("kill", "-STOP", pid)
    installed = login.done("sess", "service", "install")
    assert f"the daemon did not answer, and was killed (pid {pid})" in installed
    assert "answers, and starts at every login" in installed
    assert finds(login)


def test_what_systemd_says_of_a_failure_is_shown(login: Login) -> None:
    """Its reason, and not the line after it that says where there is more."""
    login.done("sess", "service", "install")
    login.write(".config/systemd/user/sessiond.service.d/fails.conf", "[Service]\nExecStartPre=/bin/false\n")
    login.done("systemctl", "--user", "daemon-reload")
    failed = login.run("sess", "service", "restart")
    assert failed.returncode == 3
    assert "Job for sessiond.service failed because the control process exited with error code." in failed.stderr


def test_a_journal_that_shows_nothing_is_explained(login: Login) -> None:
    """A volatile one is the system's, which not everybody may read."""
    login.done("sess", "service", "install")
    login.write("bin/journalctl", "#!/bin/sh\n")
    login.done("chmod", "+x", f"{HOME}/bin/journalctl")
    empty = login.run("sess", "service", "logs", PATH=f"{HOME}/bin:{login.path}")
    assert empty.returncode == 1
    assert f"`sudo journalctl _SYSTEMD_USER_UNIT=sessiond.service _UID={UID}`" in empty.stderr


def test_hardened_it_survives_the_loss_of_its_folder(login: Login) -> None:
    """It cannot make that again, as nothing above it can be written: whoever starts it does."""
    login.done("sess", "service", "install", "--harden")
    for action in ("start", "restart"):
        login.done("sess", "service", "stop")
        login.done("rm", "-r", f"{HOME}/.local/state/sess")
        failed = login.run("systemctl", "--user", "start", "sessiond")
        assert failed.returncode
        until(lambda: "Read-only file system" in login.done("sess", "service", "logs"))
        login.done("sess", "service", action)
        assert main_pid(login)
        assert finds(login)


def test_nobody_else_can_write_what_is_started(login: Login) -> None:
    """Whatever umask the shell has: the files say what runs at the next login."""
    for umask in ("0", "077"):
        login.done("sh", "-c", f"umask {umask}; sess service install --harden")
        assert login.done("find", UNITS, "-type", "f", "-printf", "%m\n").split() == ["644"] * 3
        assert login.done("find", HOME, "-perm", "/022", "!", "-type", "l", "-print") == ""
        login.done("sess", "service", "uninstall", "--purge")


def test_the_configuration_is_read_again_at_a_reload(login: Login) -> None:
    """And at a restart; a mistake in it stops neither the daemon nor hides what was excluded."""
    login.done("sess", "service", "install")
    assert finds(login)
    pid = main_pid(login)
    login.write(".config/sess/config.toml", 'exclude = ["/srv/**"]\n')
    login.done("systemctl", "--user", "reload", "sessiond")
    until(lambda: not finds(login))
    assert main_pid(login) == pid
    login.write(".config/sess/config.toml", 'exlude = ["/srv/**"]\n')
    refused = login.run("sess", "service", "restart")
    assert refused.returncode == 2
    assert "Did you mean exclude?" in refused.stderr
    assert main_pid(login) == pid
    login.write(".config/sess/config.toml", "")
    login.done("sess", "service", "restart")
    assert finds(login)


def test_a_mistake_in_the_configuration_is_told_by_the_next_search(login: Login) -> None:
    """The service fails and is not tried for ever; once it is mended, the next search starts it."""
    login.done("sess", "service", "install")
    login.write(".config/sess/config.toml", "exclude = 1\n")
    login.run("systemctl", "--user", "restart", "sessiond")
    refused = login.run("sess", "find")
    assert refused.returncode == 3
    assert "exclude: it has to be a list" in refused.stderr
    faults = login.run("sess", "doctor")
    assert faults.returncode == 1
    assert re.search(r"(?m)^fault +config ", faults.stdout)
    assert re.search(r"(?m)^fault +service .*failed", faults.stdout)
    assert re.search(r"(?m)^fault +daemon ", faults.stdout)
    login.write(".config/sess/config.toml", "")
    assert finds(login)
    assert main_pid(login)


def test_a_socket_that_vanished_is_made_again(login: Login) -> None:
    """A cleaner took it: the daemon ends, and the next search has systemd listen anew."""
    login.done("sess", "service", "install")
    first = main_pid(login)
    login.done("rm", f"{RUNTIME}/sess/sessiond.sock")
    until(lambda: main_pid(login) == 0)
    assert finds(login)
    assert main_pid(login) not in (0, first)


def test_it_stops_within_the_time_that_systemd_gives_it(login: Login) -> None:
    """Also with clients that hang on; five seconds later it would be killed."""
    login.done("sess", "service", "install")
    waiting = subprocess.Popen(login.argv("sess", "watch"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    login.done("sess", "service", "stop")
    shown = login.done("systemctl", "--user", "show", "sessiond", "--property=Result,ExecMainStatus")
    assert "Result=success" in shown
    assert "ExecMainStatus=0" in shown
    waiting.kill()
    waiting.wait()


def test_a_folder_that_she_cannot_enter_is_a_fault(login: Login) -> None:
    """With the command that opens it."""
    login.done("sess", "service", "install")
    login.done("chmod", "000", f"{HOME}/.claude/projects")
    login.run("sess", "find", "--sync")
    report = login.run("sess", "doctor")
    assert report.returncode == 1
    assert re.search(
        rf"(?m)^fault +root +claude: ~/.claude is unreadable\n +chmod -R u\+rX {HOME}/.claude$", report.stdout
    )
    login.done("chmod", "700", f"{HOME}/.claude/projects")
    assert finds(login)
    assert login.run("sess", "doctor").returncode == 0


def test_a_manager_that_refuses_is_a_fault(login: Login) -> None:
    """In its own words."""
    login.done("sess", "service", "install")
    refusing = '#!/bin/sh\ncase $* in *"show sessiond.service"*) echo Access denied >&2; exit 1 ;; esac\n'
    login.write("bin/systemctl", f'{refusing}exec /usr/bin/systemctl "$@"\n')
    login.done("chmod", "+x", f"{HOME}/bin/systemctl")
    report = login.run("sess", "doctor", PATH=f"{HOME}/bin:{login.path}")
    assert report.returncode == 1
    assert re.search(r"(?m)^fault +service +`systemctl --user show .*` failed: Access denied$", report.stdout)


def test_a_service_that_is_stopped_or_does_not_start_at_login_is_a_warning(login: Login) -> None:
    """With what makes it start."""
    login.done("sess", "service", "install")
    login.done("systemctl", "--user", "disable", "sessiond.service")
    assert re.search(
        r"(?m)^warning +service .*does not start at login\n +sess service install$", login.done("sess", "doctor")
    )
    login.done("sess", "service", "install")
    login.done("sess", "service", "stop")
    assert re.search(r"(?m)^warning +service .*inactive.*\n +sess service start$", login.done("sess", "doctor"))
