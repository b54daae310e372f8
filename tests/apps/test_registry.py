"""What holds for every agent of the registry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from fixtures import agents, home
from sessiond.apps import APPS
from tests.apps.reader import Reader
from tools import agents as table

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from sessiond.apps.base import App
    from sessiond.session import Session

EVERY = pytest.mark.parametrize("app", APPS.values(), ids=lambda app: app.name)


class Noting(dict[str, str]):
    """An environment that notes which variables somebody asked for."""

    def __init__(self, *values: object) -> None:
        super().__init__(*values)
        self.asked: set[str] = set()

    def get(self, key: str, default: object = None) -> object:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.asked.add(key)
        return super().__getitem__(key)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Session]]:
    """The rows of the sample home, by agent."""
    folder = str(tmp_path_factory.mktemp("home"))
    home.make(folder)
    return {app.name: table.rows(app, folder) for app in APPS.values()}


def test_the_table_of_agents_is_made_of_the_registry() -> None:
    """After a change: ``python -m tools.agents``."""
    assert table.PAGE.read_text(encoding="utf-8") == table.page()


@EVERY
def test_an_agent_has_a_page(app: App) -> None:
    page = table.PAGE.parent / "formats" / f"{table.slug(app)}.md"
    assert page.read_text(encoding="utf-8").startswith(f"# {app.label}\n")


@EVERY
def test_an_agent_is_in_the_sample_home(app: App, rows: dict[str, list[Session]]) -> None:
    assert any(row.hidden is None and row.title for row in rows[app.name])


@pytest.mark.parametrize("agent", agents.EVERY, ids=lambda agent: agent.__name__.rpartition(".")[2])
def test_a_sample_store_is_found_as_it_was_meant(agent: ModuleType, tmp_path: Path) -> None:
    written = agent.make(str(tmp_path), 1_796_078_395_088)
    found = table.rows(APPS[written[0].app], str(tmp_path))
    assert {(s.id, s.title, s.cwd, s.branch, s.updated, s.hidden, s.path) for s in written} == {
        (row.id, row.title, row.cwd, row.branch, row.updated, row.hidden, row.path) for row in found
    }


@EVERY
def test_the_variables_that_move_a_store_are_declared(app: App) -> None:
    """Those that are not are neither set for a session of another store nor removed for one of the default."""
    env = Noting({"HOME": "/home/ana"})
    app.roots(env)
    assert env.asked - {"HOME"} <= {app.store_variable, *app.variables}


@EVERY
def test_the_store_of_the_variable_is_the_first_one(app: App) -> None:
    """So it is with several: the variable is where new sessions go."""
    if app.store_variable:
        assert app.roots({"HOME": "/home/ana", app.store_variable: "/srv/elsewhere"})[0].startswith("/srv/elsewhere")


@EVERY
def test_an_agent_that_is_not_installed_has_neither_unit_nor_problem(app: App, tmp_path: Path) -> None:
    for root in app.roots({"HOME": str(tmp_path)}):
        reader = Reader(app, tmp_path / root)
        assert reader.rows() == {}
        assert reader.problems == {}


@EVERY
def test_no_two_agents_claim_a_file(app: App, tmp_path: Path) -> None:
    """Not even where a store lies in another's, as those of forks do."""
    home.make(str(tmp_path))
    mine = {unit.path for root in app.roots({"HOME": str(tmp_path)}) for unit, _ in app.units(root, print)}
    assert mine
    for other in APPS.values():
        if other is not app:
            claimed = (other.unit(root, path) for root in other.roots({"HOME": str(tmp_path)}) for path in mine)
            assert not any(claimed), other.name


def test_names_are_short_words_that_can_be_typed() -> None:
    assert [name for name in APPS if not re.fullmatch(r"[a-z]+(-[a-z]+)*", name)] == []
    assert len({app.label for app in APPS.values()}) == len(APPS)


def test_every_further_agent_has_a_sample() -> None:
    names = {agent.__name__.rpartition(".")[2].replace("_", "-") for agent in agents.EVERY}
    assert names | {"claude", "codex"} == set(APPS)


def test_no_app_looks_at_the_environment_when_it_is_asked_for_its_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's environment is asked as well as that of the daemon."""
    before = {name: app.roots({"HOME": "/home/ana"}) for name, app in APPS.items()}
    for app in APPS.values():
        for name in filter(None, (app.store_variable, *app.variables)):
            monkeypatch.setenv(name, "/srv/elsewhere")
    assert {name: app.roots({"HOME": "/home/ana"}) for name, app in APPS.items()} == before


@EVERY
def test_a_relative_folder_of_xdg_is_ignored(app: App) -> None:
    """As its specification has it; for the daemon it would lie elsewhere than for a client."""
    for name in (name for name in (app.store_variable, *app.variables) if name.startswith("XDG_")):
        assert app.roots({"HOME": "/home/ana", name: "./x"}) == app.roots({"HOME": "/home/ana"})
