"""How a thread of Codex is resumed, and where it says it began."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessiond.session import Settings
from tests.apps.codex_home import ID, Home, item, meta
from tests.apps.conftest import RECORDINGS
from tests.apps.test_codex_rollout import pack

if TYPE_CHECKING:
    from tests.apps.codex_home import Record


@pytest.fixture
def codex(tmp_path: Path) -> Home:
    """An empty home of Codex."""
    return Home(tmp_path / ".codex")


SHA = "d294b8b3844b1dfe16d4659a6de37d6727bd5bc6"


@pytest.mark.parametrize("fork", [False, True])
@pytest.mark.parametrize(
    ("settings", "folder", "flags"),
    [
        (Settings(), None, []),
        (Settings(effort="high"), None, ["-c", 'model_reasoning_effort="high"']),
        (Settings("gpt-6", None, "never", "read-only"), None, ["-m", "gpt-6", "-a", "never", "-s", "read-only"]),
        (Settings(), "/else where", ["-C", "/else where"]),
    ],
)
def test_only_what_is_set_becomes_a_flag(
    codex: Home, settings: Settings, folder: str | None, flags: list[str], *, fork: bool
) -> None:
    """The id is the last word, so that nothing after it is taken for a prompt."""
    codex.put(meta(), item("hi"))
    argv = codex.app.launch(codex.rows()[ID], settings, fork=fork, folder=folder)
    assert argv == ["codex", "fork" if fork else "resume", *flags, ID]


@pytest.mark.parametrize(
    ("git", "origin"),
    [
        ({"commit_hash": SHA, "repository_url": "https://example.com/a/b.git"}, (SHA, "https://example.com/a/b.git")),
        ({"repository_url": "https://ana:secret@example.com/a"}, (None, "https://example.com/a")),
        ({"repository_url": "ssh://git@example.com/a"}, (None, "ssh://example.com/a")),
        ({"repository_url": "git@example.com:a/b"}, (None, "git@example.com:a/b")),
        ({"commit_hash": "--output=/tmp/x", "repository_url": ""}, (None, None)),
        ({"commit_hash": 7, "repository_url": ["x"]}, (None, None)),
        (None, (None, None)),
        ("text", (None, None)),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_rollout_tells_where_it_began(
    codex: Home, git: Any, origin: tuple[str | None, str | None], *, packed: bool
) -> None:
    """Without credentials, and nothing that is no commit's id."""
    path = codex.put(meta(git=git), item("hi"))
    if packed:
        pack(path)
    assert codex.app.origin(codex.rows()[ID]) == origin


@pytest.mark.parametrize("first", [b"", b"{", b"[]\n", {"timestamp": "2025-08-09T10:11:47.134Z", "id": ID}])
def test_a_rollout_that_tells_nothing_raises_nothing(codex: Home, first: Record | bytes) -> None:
    """Torn, empty, or from before there was an envelope."""
    path = codex.put(meta(), item("hi"))
    row = codex.rows()[ID]
    path.unlink()
    codex.put(first)
    assert codex.app.origin(row) == (None, None)


def test_a_rollout_that_is_gone_raises_an_os_error(codex: Home) -> None:
    """As `App.origin` says."""
    path = codex.put(meta(), item("hi"))
    row = codex.rows()[ID]
    path.unlink()
    with pytest.raises(FileNotFoundError):
        codex.app.origin(row)


@pytest.mark.parametrize(
    ("release", "told", "threads"),
    [("0.20.0", 0, 1), ("0.44.0", 2, 2), ("0.115.0", 3, 3), ("0.153.4", 3, 3), ("0.171.0", 11, 13)],
)
def test_the_recorded_homes_say_where_their_threads_began(
    tmp_path: Path, release: str, told: int, threads: int
) -> None:
    """Since there is an envelope; two of 0.171.0 were begun outside a repository."""
    home = Home(Path(shutil.copytree(RECORDINGS / "codex" / release, tmp_path / "codex")))
    origins = [home.app.origin(row) for row in home.rows().values()]
    assert (sum(origin.commit is not None for origin in origins), len(origins)) == (told, threads)
