"""The clone's own environment, ``.venv``: made when it is missing, and again when what it is made of changed."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = os.path.realpath(os.path.dirname(os.path.dirname(__file__)))
VENV = f"{ROOT}/.venv"
BIN = f"{VENV}/bin"
STAMP = "made.json"


def ensure(group: str = "") -> str:
    """Return the folder of the programs of an environment that holds this project.

    With *group*, a dependency group of ``pyproject.toml``, that is installed as well. Waits
    while another process makes it. Exits with a message when it cannot be made.
    """
    with _lock():
        made = _read_stamp()
        digest = _digest()
        if made.get("digest") != digest:
            made = {"digest": digest, "groups": []}
            wanted = ["--editable", ROOT, *_requirements(group)]
        elif group and group not in made["groups"]:
            wanted = _requirements(group)
        else:
            return BIN
        print("Setting up .venv; this takes about half a minute, once.", file=sys.stderr)
        if "--editable" in wanted:
            create(VENV)
        install(VENV, wanted)
        made["groups"] += [group] * bool(group)
        _write_stamp(made)
    return BIN


def create(path: str) -> None:
    """Make an environment with pip in *path*, in place of what is there; exits with a message when that fails."""
    # Debian without python3-venv has pip but no ensurepip; pip can fill another environment since 22.3.
    borrow = not importlib.util.find_spec("ensurepip")
    if borrow and not importlib.util.find_spec("pip"):
        sys.exit(
            f"sess: {sys.executable} cannot make an environment: it has neither ensurepip nor pip\n"
            "On Debian and Ubuntu: apt install python3-venv"
        )
    with suppress(FileNotFoundError):
        os.unlink(f"{path}/{STAMP}")
    bare = ["--without-pip"] if borrow else []
    _run([sys.executable, "-m", "venv", "--clear", *bare, path], "the environment could not be made")
    if borrow:
        _run([sys.executable, "-m", "pip", "--python", path, "install", "--quiet", "pip"], "pip could not be installed")


def install(path: str, requirements: list[str]) -> None:
    """Install *requirements* into the environment in *path*; exits with a message when pip fails."""
    pip = [f"{path}/bin/python", "-m", "pip", "install", "--quiet"]
    _run([*pip, *requirements], "pip could not install what is needed; its words are above")


def clean() -> dict[str, str]:
    """Return this process's variables without those that would send Python or pip elsewhere."""
    strays = {"PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "VIRTUAL_ENV"}
    kept = {key: value for key, value in os.environ.items() if key not in strays}
    return kept | {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def _run(command: list[str], failure: str) -> None:
    if subprocess.run(command, env=clean(), stdin=subprocess.DEVNULL, check=False).returncode:
        sys.exit(f"sess: {failure}\nThe command was: {' '.join(command)}")


def _project() -> dict[str, Any]:
    with open(f"{ROOT}/pyproject.toml", "rb") as file:
        return tomllib.load(file)


def _requirements(group: str) -> list[str]:
    # pip reads dependency groups itself since 25.1; Python 3.11 came with 22.3.
    return list(_project()["dependency-groups"][group]) if group else []


def _digest() -> str:
    """Return a checksum of everything that an environment made now depends on."""
    project = _project()
    parts = [project["build-system"], project["project"], project["dependency-groups"], project["tool"]["hatch"]]
    with open(f"{ROOT}/cli/sess.sh", "rb") as launcher:
        copied = hashlib.sha256(launcher.read()).hexdigest()
    return hashlib.sha256(json.dumps([parts, copied, ROOT, sys.version, sys.base_prefix]).encode()).hexdigest()


def _read_stamp() -> dict[str, Any]:
    try:
        with open(f"{VENV}/{STAMP}", encoding="utf-8") as file:
            stamp: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {}
    return stamp


def _write_stamp(made: dict[str, Any]) -> None:
    """Written last and by rename: an environment without it was interrupted and is made again."""
    with open(f"{VENV}/{STAMP}.new", "w", encoding="utf-8") as file:
        json.dump(made, file)
    os.replace(f"{VENV}/{STAMP}.new", f"{VENV}/{STAMP}")


@contextmanager
def _lock() -> Iterator[None]:
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
