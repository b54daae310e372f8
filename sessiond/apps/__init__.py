"""The agents whose sessions are found. Adding one is a file here and a line below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessiond.apps.claude_code import ClaudeCode
from sessiond.apps.codex import Codex

if TYPE_CHECKING:
    from sessiond.apps.base import App

APPS: dict[str, App] = {app.name: app for app in (ClaudeCode(), Codex())}
