"""The agents whose sessions are found. Adding one is a file here and a line below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessiond.apps.antigravity import Antigravity
from sessiond.apps.claude_code import ClaudeCode
from sessiond.apps.codex import Codex
from sessiond.apps.copilot import Copilot
from sessiond.apps.crush import Crush
from sessiond.apps.cursor import Cursor
from sessiond.apps.droid import Droid
from sessiond.apps.gemini import Gemini
from sessiond.apps.goose import Goose
from sessiond.apps.grok import Grok
from sessiond.apps.kimi_cli import KimiCLI
from sessiond.apps.kimi_code import KimiCode
from sessiond.apps.kiro import Kiro
from sessiond.apps.opencode import OpenCode
from sessiond.apps.pi import Pi
from sessiond.apps.qwen import Qwen
from sessiond.apps.vibe import Vibe

if TYPE_CHECKING:
    from sessiond.apps.base import App

_EVERY: tuple[App, ...] = (
    ClaudeCode(),
    Codex(),
    OpenCode(),
    Copilot(),
    Cursor(),
    Antigravity(),
    Grok(),
    Pi(),
    Gemini(),
    KimiCode(),
    KimiCLI(),
    Qwen(),
    Goose(),
    Kiro(),
    Droid(),
    Vibe(),
    Crush(),
)
APPS: dict[str, App] = {app.name: app for app in _EVERY}
