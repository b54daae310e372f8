"""``sess service`` where there is no service manager, and its words."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sess import manager, systemd
from sessiond.protocol import Problem
from tests.daemon import PATIENCE, Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Service = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def service(home: Home) -> Iterator[Service]:
    """Run the command in `home`, of a user for whom no service manager runs."""

    def run(*words: str, command: str = "service", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sess", command, *words],
            env=home.env | {"XDG_RUNTIME_DIR": str(home.path)} | env,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    yield run
    run(command="stop")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["instal"], "Did you mean `sess service install`?"),
        (["frobnicate"], "There are: install uninstall start stop restart status logs."),
        (["start", "stop"], "there is no action start stop"),
        (["start", "--purge"], "--purge goes with uninstall"),
        (["status", "-f"], "--follow goes with logs"),
        (["restart", "--harden"], "--harden goes with install"),
    ],
)
def test_wrong_words_are_named(service: Service, words: list[str], says: str) -> None:
    """With those that were meant; nothing is done."""
    done = service(*words)
    assert done.returncode == 2
    assert says in done.stderr


def test_installing_says_what_happens_instead(home: Home, service: Service) -> None:
    """Nothing is written."""
    done = service("install")
    assert done.returncode == 3
    assert done.stderr.startswith("sess: there is no service manager: ")
    assert "the daemon starts with the first search" in done.stderr
    assert set(home.path.iterdir()) == {home.claude, home.codex}


def test_without_a_service_its_commands_look_after_the_daemon_on_demand(home: Home, service: Service) -> None:
    """So that what documents say to type works everywhere."""
    idle = service("status")
    assert (idle.returncode, "is not running, and starts when it is needed" in idle.stdout) == (3, True)
    assert idle.stdout.startswith("there is no service manager: ")
    assert "install" not in idle.stdout  # it could not
    assert "runs on demand; no service is installed" in service("start").stdout
    running = service("status")
    assert (running.returncode, "runs on demand (pid " in running.stdout) == (3, True)
    assert "runs on demand" in service("restart").stdout
    assert service("status").stdout != running.stdout
    assert " serves " in service("logs").stdout
    assert "the next search starts it" in service("stop").stdout
    assert "is not running" in service("status").stdout


def test_the_file_can_be_followed_too(home: Home, service: Service) -> None:
    """Where the daemon logs to one."""
    service("start")
    following = subprocess.Popen(
        [sys.executable, "-m", "sess", "service", "logs", "-f"],
        env=home.env | {"XDG_RUNTIME_DIR": str(home.path)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert following.stdout
    assert any(" serves " in line for line in following.stdout)
    service("stop")
    assert any("sessiond ends" in line for line in following.stdout)
    following.kill()
    following.wait()
    following.stdout.close()


def test_there_is_no_log_before_the_first_daemon(service: Service) -> None:
    """Which is said."""
    done = service("logs")
    assert (done.returncode, "there is no log yet" in done.stderr) == (1, True)


def test_uninstalling_clears_up_without_a_service_as_well(home: Home, service: Service) -> None:
    """All but the index, and with --purge all."""
    service("start")
    service("--sync", command="find")
    for name in ("open.json", "open.json.new", "sessiond.log.1", "index.sqlite.old"):
        (home.path / "state" / name).touch()
    assert "the index stays" in service("uninstall").stdout
    assert sorted(path.name for path in home.path.rglob("*") if path.is_file()) == ["index.sqlite", "index.sqlite.old"]
    assert service("uninstall", "--purge").returncode == 0
    assert set(home.path.iterdir()) == {home.claude, home.codex}
    assert service("uninstall", "--purge").returncode == 0


def test_what_is_not_ours_stays(home: Home, service: Service) -> None:
    """With the folder that it is in."""
    service("start")
    (home.path / "state/notes.txt").touch()
    assert service("uninstall", "--purge").returncode == 0
    assert [path.name for path in (home.path / "state").rglob("*")] == ["notes.txt"]


def test_a_hung_daemon_is_ended(home: Home, service: Service) -> None:
    """Within the time that it has to answer, and that is said."""

    def ends_by(word: str) -> subprocess.CompletedProcess[str]:
        own = {"SESS_STATE_DIR": f"{home.path}/{word}"}
        service("start", **own)
        pid = int(re.findall(r"pid (\d+)", service("status", **own).stdout)[0])
        try:
            os.kill(pid, signal.SIGSTOP)
            done = service(word, **own)
            assert (done.returncode, f"was killed (pid {pid})" in done.stdout) == (0, True), done.stderr
            return service("start", **own)
        finally:
            service(command="stop", **own)

    # At the same time, as each waits for as long as a daemon may take.
    with ThreadPoolExecutor() as pool:
        assert [done.returncode for done in pool.map(ends_by, ["stop", "restart", "uninstall"])] == [0, 0, 0]


def left_units(home: Home, state: Path) -> Path:
    """Write what an installed service leaves when its manager is away; return the folder."""
    folder = home.path / ".config/systemd/user"
    (folder / "default.target.wants").mkdir(parents=True)
    (folder / "sessiond.service").write_text(f'[Service]\nEnvironment="SESS_STATE_DIR={state}"\n')
    (folder / "sessiond.socket").touch()
    (folder / "default.target.wants/sessiond.service").symlink_to(folder / "sessiond.service")
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="systemd's units")
def test_uninstalling_without_the_manager_claims_no_success(home: Home, service: Service) -> None:
    """What starts it at the next login goes; that it may go on until then is said."""
    folder = left_units(home, home.path / "state")
    done = service("uninstall")
    assert done.returncode == 1
    assert "no service is installed" not in done.stdout
    assert "sess: the service may still run: there is no service manager" in done.stderr
    assert "removed ~/.config/systemd/user/sessiond.service" in done.stdout
    assert not folder.exists()
    assert service("uninstall").returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="systemd's units")
def test_the_units_of_another_index_are_left_alone(home: Home, service: Service) -> None:
    """Also where nobody can be asked whose service it is."""
    folder = left_units(home, home.path / "other")
    done = service("uninstall")
    assert (done.returncode, "keeps another index" in done.stderr) == (4, True)
    assert (folder / "sessiond.service").exists()


def test_a_mistake_in_the_configuration_restarts_nothing(home: Home, service: Service) -> None:
    """The daemon that runs is worth more than none."""
    config = home.path / "config.toml"
    service("start", SESS_CONFIG=str(config))
    before = service("status").stdout
    config.write_text("exlude = []\n")
    done = service("restart", SESS_CONFIG=str(config))
    assert (done.returncode, "Did you mean exclude?" in done.stderr) == (2, True)
    assert service("status").stdout == before


@pytest.mark.parametrize(
    ("booted", "env", "says"),
    [
        (False, {}, "this system was not started by systemd$"),
        (False, {"WSL_DISTRO_NAME": "Debian"}, "not started by systemd; WSL needs `systemd=true`"),
        (True, {}, "systemd runs nothing for this user here"),
    ],
)
def test_why_there_is_no_manager_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, booted: bool, env: dict[str, str], says: str
) -> None:
    """A container, WSL, a login over ssh."""
    monkeypatch.setattr(systemd, "BOOTED", str(tmp_path if booted else tmp_path / "none"))
    with pytest.raises(Problem, match=says):
        systemd.Systemd({"XDG_RUNTIME_DIR": str(tmp_path), **env})


def test_a_manager_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own last words; one that is not there, or that hangs, as well."""
    monkeypatch.setattr(systemd, "BOOTED", str(tmp_path))
    (tmp_path / "bus").touch()
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "PATH": str(tmp_path)}
    with pytest.raises(Problem, match="systemctl is not installed"):
        systemd.Systemd(env).start()
    program = tmp_path / "systemctl"
    program.write_text("#!/bin/sh\necho one >&2\necho 'Access denied' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(Problem, match=r"`systemctl --user .*` failed: Access denied"):
        systemd.Systemd(env).start()
    program.write_text("#!/bin/sh\nexec /bin/sleep 100\n")
    monkeypatch.setattr(manager, "PATIENCE", 0.1)
    with pytest.raises(Problem, match=r"cannot be run: .* timed out"):
        systemd.Systemd(env).start()
