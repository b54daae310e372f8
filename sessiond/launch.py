"""What a resume does: which settings of a session go on, which are withheld, and why. Pure.

An app says how its program is told a setting, and which values of its permissions are loose;
what is told is decided here, the same way for every agent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sessiond.session import Check, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessiond.apps.base import App, Live
    from sessiond.session import Session

# They come from files that anyone may have written. None can be an option or hold a space; Claude
# Code's models may end in `[1m]`, those of Bedrock are ARNs, those of Vertex have an `@`.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}(?:\[[0-9a-z]{1,8}\])?")
_EFFORT = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")

_REFUSED = {
    "deleted": "its transcript is gone",
    "empty": "it has no messages, so there is nothing to go on with",
    "not-resumable": "it was written by a release that the agent can no longer resume",
}
_NOTED = {
    "subagent": "a sub-agent's session",
    "sdk": "made by a program, not typed by a person",
}


class Options(NamedTuple):
    """What the person asked for."""

    fork: bool = False
    """Go on in a copy."""
    allow_loose: bool = False
    """Carry a permission that is looser than the agent's own default."""
    carry: bool = True
    """Carry model and effort."""
    folder: str | None = None
    """Where to start instead of the launch directory."""


class Plan(NamedTuple):
    """What a resume would do. Everything but folder and branch, which are looked at when it starts."""

    argv: list[str]
    folder: str | None
    """Where; None when no absolute path is recorded."""
    set: dict[str, str]
    """Environment variables to set."""
    unset: list[str]
    """Environment variables to remove."""
    carried: dict[str, str]
    """Settings that are passed on as they were recorded."""
    withheld: list[dict[str, str]]
    """Those that are not: ``name``, ``value``, ``why``, and what is passed ``instead``, ``""`` for nothing."""
    checks: list[Check]
    folder_gone: str
    """What to do when the folder is gone, in the agent's case."""

    def as_json(self) -> dict[str, Any]:
        """Return it as it goes over the wire."""
        return {**self._asdict(), "checks": [check._asdict() for check in self.checks]}


def plan(app: App, session: Session, options: Options, live: Live | None, *, default_store: bool) -> Plan:
    """Return how *session* is resumed.

    *live* is the process that has the session open; *default_store* says whether the session lies in the
    store that the agent uses when it is told of none.
    """
    settings, withheld, checks = _settle(app, session, options)
    safe = bool(_ID.fullmatch(session.id))
    folder = options.folder or session.launch_dir or ""
    return Plan(
        argv=app.launch(session, settings, fork=options.fork, folder=options.folder) if safe else [app.program],
        folder=folder if folder.startswith("/") else None,
        set={} if default_store else {app.store_variable: session.root},
        unset=[*app.markers, *([app.store_variable] if default_store else [])],
        carried={key: value for key, value in settings._asdict().items() if value and value == getattr(session, key)},
        withheld=withheld,
        checks=[*_state(app, session, options, live), *checks],
        folder_gone=app.folder_gone,
    )


def _state(app: App, session: Session, options: Options, live: Live | None) -> Iterator[Check]:
    """Yield what there is to say of the session itself."""
    if not _ID.fullmatch(session.id):
        yield Check("session", "refused", f"its id could be taken for an option: {session.id}")
    if session.hidden in _REFUSED:
        yield Check("session", "refused", _REFUSED[session.hidden])
    elif session.hidden in _NOTED:
        yield Check("session", "noted", _NOTED[session.hidden])
    if session.archived and app.archived:
        yield Check("archived", "noted", app.archived)
    if live:
        text = f"open {live.where} ({live.status})"
        if options.fork:
            yield Check("live", "noted", f"{text}; this is a copy")
        else:
            yield Check("live", "refused", text, "Go on there, or in a copy: --fork")


def _settle(app: App, session: Session, options: Options) -> tuple[Settings, list[dict[str, str]], list[Check]]:
    """Return the settings to pass, those that are withheld, and what to say of them."""
    chosen: dict[str, str | None] = {}
    withheld: list[dict[str, str]] = []
    checks: list[Check] = []

    def withhold(name: str, value: str, why: str, instead: str = "", remedy: str = "") -> None:
        withheld.append({"name": name, "value": value, "why": why, "instead": instead})
        shown = value if len(value) <= 60 else value[:59] + "…"
        parts = [f"{shown} is withheld, {why}", f"{app.program} gets {instead}" if instead else "", remedy]
        checks.append(Check(name, "noted", "; ".join(filter(None, parts))))

    for name, value, form in (("model", session.model, _MODEL), ("effort", session.effort, _EFFORT)):
        if value and not form.fullmatch(value):
            withhold(name, value, "no name of one")
        elif options.carry:
            chosen[name] = value
    for modes in app.modes:
        name, value = modes.setting, getattr(session, modes.setting)
        if value is None:
            continue
        # The default is passed also where the agent would forget a loose mode: that depends on its release.
        chosen[name] = modes.default
        if value in modes.strict:
            chosen[name] = value
        elif value not in modes.loose:
            withhold(name, value, "not known to be strict", modes.default)
        elif options.allow_loose:
            chosen[name] = value
            checks.append(Check(name, "noted", f"{value} is carried this once, looser than {modes.default}"))
        else:
            withhold(name, value, "looser than the default", modes.default, "--allow-loose carries it this once")
    for modes in app.modes:
        name, value = modes.setting, chosen.get(modes.setting) or ""
        if instead := modes.replaced.get(value):
            passed = {key: strict for key, strict in instead._asdict().items() if strict}
            chosen |= passed
            withhold(name, value, "no longer accepted", ", ".join(f"{key} {word}" for key, word in passed.items()))
    return Settings(**chosen), withheld, checks
