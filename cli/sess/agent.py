"""Becoming the agent: what changes in the environment, and the last steps of this process."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

Changes = dict[str, str | None]
"""Of environment variables; None removes one."""


def changes(plan: Mapping[str, Any], root: str) -> Changes:
    """Return what has to change in the environment for a session of the store *root*.

    A variable that names the store already stays: Claude Code keeps its account in another place
    when ``CLAUDE_CONFIG_DIR`` names the default store than when it is not set.
    """
    found: Changes = {name: None for name in plan["unset"] if name in os.environ}
    found |= plan["set"]
    store = plan["store_variable"]
    if os.path.realpath(os.environ.get(store) or "/") == os.path.realpath(root):
        found.pop(store, None)
    return found


def become(program: str, argv: list[str], folder: str, env: Changes) -> NoReturn:
    """Replace this process by *program* in *folder*. Raises Problem for the folder, OSError for the program."""
    merged = {**_inherited(), **env, "PWD": folder}
    environment = {name: value for name, value in merged.items() if value is not None}
    program = os.path.abspath(program)
    try:
        os.chdir(folder)
    except OSError as error:
        raise Problem("refused", f"not resumed: {folder} cannot be entered: {error.strerror}", "Try again.") from None
    # Python ignores them, and what is ignored stays so in the program that follows.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execve(program, argv, environment)  # noqa: S606 - there is no shell, on purpose


def _inherited() -> dict[str, str]:
    """Return the environment that this process was started with.

    In the locale C, Python sets ``LC_CTYPE`` for itself and for all it starts (PEP 538). What it was, the
    launcher says by an option: the variable itself after a ``=``, or nothing.
    """
    environment = dict(os.environ)
    was = sys._xoptions.get("sess_ctype")  # noqa: SLF001 - documented under this name
    if was is True:
        environment.pop("LC_CTYPE", None)
    elif was is not None:
        environment["LC_CTYPE"] = was
    return environment
