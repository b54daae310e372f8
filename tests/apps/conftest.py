"""What the tests of the agents share."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apps.claude_store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"


@pytest.fixture
def unpack(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that unpacks a recorded home, such as ``claude-code/claude-core-2.1.332``, and returns it."""

    def unpack(name: str) -> Path:
        target = tmp_path / name
        with tarfile.open(RECORDINGS / f"{name}.tar.gz") as archive:
            # Python 3.11.2, which Debian 12 has, knows no filters.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(target)
        (home,) = target.iterdir()
        return home

    return unpack


@pytest.fixture
def claude(tmp_path: Path) -> Store:
    """An empty store of Claude Code."""
    return Store(tmp_path / ".claude")
