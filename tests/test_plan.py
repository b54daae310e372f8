"""What the daemon looks at anew for the plan of a resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.daemon import Daemon, Home


def _moved_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _behind_a_link_to_itself(path: Path) -> None:
    _moved_away(path)
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("happens", "state", "text"),
    [
        (lambda path: None, [], ""),
        (_moved_away, ["refused"], "Claude Code does not have it any more"),
        (_behind_a_link_to_itself, ["asks"], "whether Claude Code still has it cannot be told"),
    ],
)
def test_whether_the_agent_still_has_a_session_is_looked_at(
    home: Home, daemon: Daemon, happens: Callable[[Path], None], state: list[str], text: str
) -> None:
    """As when a store is not mounted, whose sessions the index keeps; or cannot be entered."""
    session, _ = home.claude_session("Fix the cart")
    daemon.sync()
    happens(home.claude)
    answer = daemon.ask("plan", id=session.id)
    checks = [check for check in answer["checks"] if check["name"] == "session"]
    assert [check["state"] for check in checks] == state
    assert [check["text"] for check in checks] == [text] * len(state)
    assert answer["argv"][:3] == ["claude", "--resume", session.id]
