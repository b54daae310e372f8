"""The real agents take every flag that they are given, as far as they get without an account.

They come from npm and weigh 650 MB, so this runs when it is asked for: ``REAL_AGENTS=1 ./test
tests/cli/test_real_agents.py``. Nothing of it leaves the machine but the installation: the home is empty, the
key is none, and the address of the model is a closed port.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.apps.conftest import RECORDINGS
from tests.cli.machine import Machine
from tests.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.skipif(os.environ.get("REAL_AGENTS") != "1", reason="installs 650 MB from npm: REAL_AGENTS=1 runs it"),
    pytest.mark.timeout(600),
]

NOWHERE = "http://127.0.0.1:9"
KEY = "not-a-key-" * 2


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine for each test: Codex leaves a database, and what it said of a thread goes on to count."""
    machine = Machine()
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PATH with the real agents on it, and nothing of the machine's own."""
    npm = shutil.which("npm")
    if not npm:
        pytest.skip("needs npm, which is not installed")
    folder = tmp_path_factory.mktemp("npm")
    packages = ["@anthropic-ai/claude-code@latest", "@openai/codex@latest"]
    installed = subprocess.run(
        [npm, "install", "--no-fund", "--no-audit", "--prefix", folder, *packages],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if installed.returncode:
        pytest.skip(f"npm cannot install them: {installed.stderr}")
    # npm asks before it runs what a package does once it is installed.
    subprocess.run(["node", "install.cjs"], check=True, cwd=folder / "node_modules/@anthropic-ai/claude-code")
    return f"{folder}/node_modules/.bin:/usr/bin:/bin"


def resume(machine: Machine, path: str, *words: str, **env: str) -> Terminal:
    return Terminal(machine, "resume", *words, PATH=path, TERM="xterm-256color", **env)


def test_claude_code_comes_as_far_as_its_first_screen_without_an_account(machine: Machine, path: str) -> None:
    """A flag that it does not know would end it before that."""
    session = machine.claude(machine.repository("main"), mode="plan")
    with resume(machine, path, session, "--fork") as terminal:
        terminal.see("Welcome to Claude Code")
        assert "error: " not in terminal.text


@pytest.mark.parametrize(
    ("mode", "flags", "shows"),
    [
        ("default", [], "for shortcuts"),
        ("bypassPermissions", [], "for shortcuts"),
        ("acceptEdits", [], "for shortcuts"),
        ("acceptEdits", ["--allow-loose"], "accept edits on"),
        ("plan", [], "plan mode on"),
    ],
)
def test_claude_code_resumes_with_what_it_was_given(
    machine: Machine, path: str, mode: str, flags: list[str], shows: str
) -> None:
    """Model, effort and mode stand on its screen."""
    folder = machine.repository("main")
    (machine.home.path / ".claude.json").write_text(
        json.dumps(
            {
                "hasCompletedOnboarding": True,
                "customApiKeyResponses": {"approved": [KEY], "rejected": []},
                "projects": {folder: {"hasTrustDialogAccepted": True}},
            }
        )
    )
    session = machine.claude(folder, mode=mode, prompt="rename the flag")
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    with resume(machine, path, session, *flags, ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=NOWHERE, **quiet) as terminal:
        terminal.see("with high effort")
        terminal.see("rename the flag")
        terminal.see(shows)
        assert "error: " not in terminal.text


@pytest.mark.parametrize(
    ("session", "flags", "permissions"),
    [
        ("01a22e86-159d", [], "Workspace (Ask for approval)"),
        ("01a22e86-159d", ["--allow-loose"], "Full Access"),
        ("01a22e92-c97a", [], "Read Only (Ask for approval)"),
        ("01a22e92-ca36", [], "Workspace (Ask for approval)"),
    ],
    ids=["full access", "full access allowed", "untrusted", "granular"],
)
def test_codex_resumes_a_recorded_session_with_what_it_was_given(
    machine: Machine, path: str, session: str, flags: list[str], permissions: str
) -> None:
    """A session of full access starts without it, one that asked before everything asks no less."""
    folder = machine.repository("main")
    # Without its database, in which stands where the rollouts were on another machine.
    shutil.copytree(RECORDINGS / "codex/0.171.0", machine.home.codex, ignore=shutil.ignore_patterns("*.sqlite*"))
    (machine.home.codex / "config.toml").write_text(
        f'model_provider = "mock"\n[model_providers.mock]\nname = "mock"\nbase_url = "{NOWHERE}/v1"\n'
        f'wire_api = "responses"\n[projects."{folder}"]\ntrust_level = "trusted"\n'
    )
    words = [session, "--yes", "--dir", folder, *flags, "--", "--no-daemon"]
    with resume(machine, path, *words) as terminal:
        terminal.see("for shortcuts")
        terminal.type("/status")
        terminal.see("show current session configuration")
        terminal.type("\r")
        terminal.see(f"Permissions: {permissions}")
        assert "error: " not in terminal.text
