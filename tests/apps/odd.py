"""What a JSON value may be in place of what it should be."""

from __future__ import annotations

from typing import Any

ODD = [None, 7, -1, 1.5, 10**400, "", "\0", "\ud800", "x" * 5000, [], [7], {}, {"a": []}, True, "\x1b[31m", "-rf"]


def replaced(found: Any, key: str, value: object) -> Any:
    """Return *found* with *value* for each *key* in it, however deep."""
    if isinstance(found, list):
        return [replaced(part, key, value) for part in found]
    if isinstance(found, dict):
        return {name: value if name == key else replaced(part, key, value) for name, part in found.items()}
    return found
