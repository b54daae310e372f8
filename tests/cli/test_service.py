"""``sess service`` where there is no service manager, and its words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
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
    assert "runs on demand; no service is installed" in service("start").stdout
    running = service("status")
    assert (running.returncode, "runs on demand (pid " in running.stdout) == (3, True)
    assert "runs on demand" in service("restart").stdout
    assert service("status").stdout != running.stdout
    assert " serves " in service("logs").stdout
    assert "the next search starts it" in service("stop").stdout
    assert "is not running" in service("status").stdout


def test_there_is_no_log_before_the_first_daemon(service: Service) -> None:
    """Which is said."""
    done = service("logs")
    assert (done.returncode, "there is no log yet" in done.stderr) == (1, True)


def test_uninstalling_clears_up_without_a_service_as_well(home: Home, service: Service) -> None:
    """All but the index, and with --purge all."""
    service("start")
    service("--sync", command="find")
    assert "the index stays" in service("uninstall").stdout
    assert [path.name for path in home.path.rglob("*") if path.is_file()] == ["index.sqlite"]
    assert service("uninstall", "--purge").returncode == 0
    assert set(home.path.iterdir()) == {home.claude, home.codex}
    assert service("uninstall", "--purge").returncode == 0


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
