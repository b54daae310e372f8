"""``sess config``: what is configured, and where it comes from."""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sess import client, relay, render
from sess.checkup import anew, overlooked
from sess.options import Parser
from sessiond import config
from sessiond.apps import APPS
from sessiond.paths import is_private, locate
from sessiond.protocol import DONE, PROTOCOL, Problem
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sess.front import Call
    from sessiond.config import Config
    from sessiond.paths import Paths

_PLACES = ("config", "state", "runtime", "log")


class Value(NamedTuple):
    """Something that is in force."""

    name: str
    value: Any
    source: str
    """The variable or the file that it comes from, or ``default``."""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``config``."""
    parser = Parser("config", "", "Show what is in force, and where each value comes from.")
    parser.add_argument("--json", action="store_true", help="one JSON object a value")
    return parser


def run(call: Call) -> int:
    """Show it. Raises Problem for a mistake in the file."""
    env, home = os.environ, call.context.home
    paths = relay.paths()
    given = config.load(paths.config, env.get("HOME") or "/")
    values = [*_settings(given, paths), *_stores(given, env, paths), *_places(env, paths)]
    if call.options.json:
        call.emit(1, "".join(json.dumps(value._asdict()) + "\n" for value in values))
        return DONE
    names = max(len(value.name) for value in values)
    shown = [(value, _shown(value.value, home)) for value in values]
    width = max(len(text) for _, text in shown)
    for value, text in shown:
        call.emit(1, f"{value.name:{names}}  {clean(text):{width}}  {clean(render.folder(value.source, home))}\n")
    if (known := _known(paths)) is None:
        return DONE
    if known["config"] != given.as_json():
        call.emit(2, "The daemon has not read this yet: `sess service restart`\n")
    else:
        for _, path in overlooked(given, env, known["roots"]):
            where = clean(render.folder(path, home))
            call.emit(
                2, f"The daemon, started with other variables, does not look into {where}: `{anew(paths, env)}`\n"
            )
    return DONE


def _settings(given: Config, paths: Paths) -> Iterator[Value]:
    for name, value in given.as_json().items():
        yield Value(name, value, paths.config if name in given.given else "default")


def _stores(given: Config, env: Mapping[str, str], paths: Paths) -> Iterator[Value]:
    """Yield the folders that are looked into, for each agent."""
    for app in APPS.values():
        own = app.roots(env)
        for path in given.stores(app, env):
            source = "default" if path in own else paths.config
            for variable in (app.store_variable, *app.variables):
                if path in own and path not in app.roots(_without(env, variable)):
                    source = variable
            yield Value(app.name, path, source)


def _places(env: Mapping[str, str], paths: Paths) -> Iterator[Value]:
    """Yield where things are."""
    for name in _PLACES:
        value = getattr(paths, name)
        source = "default"
        for variable in ("SESS_CONFIG", "SESS_RUNTIME_DIR", "SESS_STATE_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            elsewhere = locate(_without(env, variable), os.getuid(), sys.platform, is_private)
            if variable in env and getattr(elsewhere, name) != value:
                source = variable
                break
        yield Value(name, value, source)


def _without(env: Mapping[str, str], variable: str) -> dict[str, str]:
    return {name: value for name, value in env.items() if name != variable}


def _shown(value: Any, home: str) -> str:
    if value is None:
        return "for ever"
    return render.folder(value, home) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _known(paths: Paths) -> dict[str, Any] | None:
    """Return what the running daemon says of itself, None when there is none."""
    try:
        client.running(paths)  # one that hangs is soon known by that
        known: dict[str, Any] = client.ask(paths, {"v": PROTOCOL, "op": "doctor"}).ok
    except Problem:
        return None
    return known
