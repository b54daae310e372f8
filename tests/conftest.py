"""What every test gets: a home of its own, and the marker ``needs``."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from sessiond.apps import APPS
from tests.daemon import Daemon, Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OTHERS = ("SESS_", "XDG_", *(name for app in APPS.values() for name in (app.store_variable, *app.variables) if name))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*programs): skip without these programs, and fail when CI=true")


def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = {name for mark in item.iter_markers("needs") for name in mark.args if not shutil.which(name)}
    if missing:
        reason = f"needs {', '.join(sorted(missing))}, which is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test away from the sessions of whoever runs it."""
    for key in list(os.environ):
        if key.startswith(OTHERS):
            monkeypatch.delenv(key)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def home() -> Iterator[Home]:
    """A home to put sessions in; every daemon started in it ends with the test."""
    home = Home()
    yield home
    home.remove()


@pytest.fixture
def daemon(home: Home) -> Iterator[Daemon]:
    """A running daemon in `home`."""
    daemon = Daemon(home)
    yield daemon
    daemon.kill()
