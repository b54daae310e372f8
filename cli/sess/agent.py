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


def changes(plan: Mapping[str, Any], app: str, root: str) -> Changes:
    """Return what has to change in the environment for a session of the store *root* of *app*.

    A variable with which its program finds the store already stays: a program may keep its account in another place
    when it is told of the default store than when it is told of none, and every other one heeds those of XDG.
    """
    found: Changes = {name: None for name in plan["unset"] if name in os.environ}
    found |= plan["set"]
    places = {name for name in found if name == plan["store_variable"] or name.startswith("XDG_")}
    kept = _leading(app, root, places) if places & os.environ.keys() else set()
    return {name: value for name, value in found.items() if name not in kept}


def _leading(app: str, root: str, places: set[str]) -> set[str]:
    """Return those of the variables *places* with which the program of *app* finds *root*, wherever it is started."""
    from sessiond.apps import APPS  # 50 ms, and seldom needed

    if _same(next(iter(APPS[app].roots(os.environ)), ""), root):
        return places
    # Some look into several places at once.
    named = APPS[app].environment(root)
    return {name for name in places & named.keys() if _same(os.environ.get(name, ""), named[name])}


def _same(path: str, other: str) -> bool:
    # A relative one is another after the change to the folder of the session.
    return os.path.isabs(path) and os.path.realpath(path) == os.path.realpath(other)


def become(program: str, argv: list[str], folder: str, env: Changes) -> NoReturn:
    """Replace this process by *program* in *folder*. Raises Problem for the folder, OSError for the program."""
    program = os.path.abspath(program)
    try:
        os.chdir(folder)
    except OSError as error:
        raise Problem("refused", f"not resumed: {folder} cannot be entered: {error.strerror}", "Try again.") from None
    # A PWD with a `..` in it is not heeded.
    merged = {**_inherited(), **env, "PWD": os.getcwd() if ".." in folder.split("/") else folder}
    environment = {name: value for name, value in merged.items() if value is not None}
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
