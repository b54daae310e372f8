"""A short life, with a few kills; the long one is ``python -m tests.soak``."""

from __future__ import annotations

from tests.soak import live


def test_every_row_agrees_with_the_oracle_after_kills_at_any_moment() -> None:
    """Nothing is lost, and the full-text index is in step with its table."""
    life = live(0, kills=6, seed=4711)
    try:
        assert len(life.sessions) > 10
        assert life.kills >= 6
    finally:
        life.end()
