"""``sess config``: what is in force, and where each value comes from."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from sessiond.apps import APPS
from tests.daemon import PATIENCE, Daemon, Home

if TYPE_CHECKING:
    from collections.abc import Iterator

Config = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def config(home: Home) -> Iterator[Config]:
    """Run the command in `home`, whose configuration is in ``config.toml``."""

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sess", "config", *words],
            env=home.env | {"SESS_CONFIG": str(home.path / "config.toml")} | env,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    yield run
    subprocess.run([sys.executable, "-m", "sess", "stop"], env=home.env, capture_output=True, check=False)


def sources(shown: subprocess.CompletedProcess[str]) -> dict[str, list[tuple[object, str]]]:
    """Return each name's values with where they come from."""
    found: dict[str, list[tuple[object, str]]] = {}
    for line in shown.stdout.splitlines():
        value = json.loads(line)
        found.setdefault(value["name"], []).append((value["value"], value["source"]))
    return found


def test_without_a_file_all_is_default_but_for_the_variables(home: Home, config: Config) -> None:
    """Those of this shell are named."""
    shown = config("--json")
    assert shown.returncode == 0
    values = sources(shown)
    assert values["exclude"] == [([], "default")]
    assert values["keep_deleted_days"] == [(None, "default")]
    assert values["claude"] == [(str(home.claude), "default")]
    assert values["config"] == [(str(home.path / "config.toml"), "SESS_CONFIG")]
    for name, place in (("state", "state"), ("runtime", "state/run"), ("log", "state/sessiond.log")):
        assert values[name] == [(str(home.path / place), "SESS_STATE_DIR")]


def test_every_value_says_where_it_comes_from(home: Home, config: Config) -> None:
    """The file, a variable of the agent's or of ours."""
    file = home.path / "config.toml"
    file.write_text('exclude = ["~/clients/**"]\n[roots]\nclaude = ["~/work"]\n[prompt]\nlength = 50\n')
    values = sources(config("--json", CLAUDE_CONFIG_DIR="/srv/claude", CODEX_HOME="/srv/codex"))
    assert values["exclude"] == [(["~/clients/**"], str(file))]
    assert values["prompt.length"] == [(50, str(file))]
    assert values["prompt.style"] == [("title", "default")]
    assert values["claude"] == [
        ("/srv/claude", "CLAUDE_CONFIG_DIR"),
        (str(home.claude), "default"),
        (str(home.path / "work"), str(file)),
    ]
    assert values["codex"] == [("/srv/codex", "CODEX_HOME")]


def test_a_variable_that_is_not_an_agents_own_is_named_as_well(config: Config) -> None:
    """For every agent, whatever variable moves its store."""
    for app in APPS.values():
        for variable in filter(None, (app.store_variable, *app.variables)):
            env = {"HOME": "/home/anna", variable: "/srv/else"}
            moved = [path for path in app.roots(env) if path not in app.roots({"HOME": "/home/anna"})]
            if moved:
                assert (moved[0], variable) in sources(config("--json", **{variable: "/srv/else"}))[app.name]


def test_an_agent_that_is_left_out_has_no_store(home: Home, config: Config) -> None:
    """Nothing of it is looked into."""
    (home.path / "config.toml").write_text('exclude_apps = ["codex"]\n')
    assert "codex" not in sources(config("--json"))


def test_a_person_sees_columns(home: Home, config: Config) -> None:
    """With the home as ~, and words for what has none."""
    lines = [line.split() for line in config().stdout.splitlines()]
    assert ["claude", "~/.claude", "default"] in lines
    assert ["keep_deleted_days", "for", "ever", "default"] in lines


def test_a_mistake_is_named(home: Home, config: Config) -> None:
    """With the nearest setting there is; exit 2, and no daemon is needed."""
    (home.path / "config.toml").write_text("exlude = []\n")
    shown = config(SESS_NO_SPAWN="1")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "exlude is not known" in shown.stderr
    assert "Did you mean exclude?" in shown.stderr


def test_what_the_daemon_has_not_read_is_said(home: Home, config: Config) -> None:
    """In force is what it read last."""
    env = home.env | {"SESS_CONFIG": str(home.path / "config.toml")}
    subprocess.run([sys.executable, "-m", "sess", "find"], env=env, capture_output=True, timeout=PATIENCE, check=False)
    assert config().stderr == ""
    (home.path / "config.toml").write_text('exclude = ["/srv/**"]\n')
    assert "`sess service restart`" in config().stderr
    restarted = subprocess.run(
        [sys.executable, "-m", "sess", "service", "restart"],
        env=env, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert restarted.returncode == 0, restarted.stderr
    assert config().stderr == ""


def test_a_store_that_the_daemon_does_not_know_is_said(home: Home, daemon: Daemon, config: Config) -> None:
    """Its variables are those that it was started with; what is not there is missed by nobody."""
    assert config(SESS_CONFIG="/none").stderr == ""
    assert config(SESS_CONFIG="/none", CLAUDE_CONFIG_DIR=str(home.path / "none")).stderr == ""
    (home.path / "elsewhere").mkdir()
    (home.path / "same").symlink_to(home.claude)
    assert config(SESS_CONFIG="/none", CLAUDE_CONFIG_DIR=str(home.path / "same")).stderr == ""
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        shown = config(SESS_CONFIG="/none", **{variable: str(home.path / "elsewhere")})
        assert shown.stderr.startswith(
            "The daemon, started with other variables, does not look into ~/elsewhere: `sess "
        )


def test_a_hung_daemon_does_not_matter(home: Home, daemon: Daemon, config: Config) -> None:
    """It is not the daemon that is looked at."""
    import signal

    daemon.process.send_signal(signal.SIGSTOP)
    shown = config()
    daemon.process.send_signal(signal.SIGCONT)
    assert shown.returncode == 0
