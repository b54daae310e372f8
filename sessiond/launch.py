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

    from sessiond.apps.base import App, Live, Modes
    from sessiond.session import Session

# They come from files that anyone may have written. None can be an option or hold a space; Claude
# Code's models may end in `[1m]`, those of Bedrock are ARNs, those of Vertex have an `@`.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_NAMES = {
    "model": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}(?:\[[0-9a-z]{1,8}\])?"),
    "effort": re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}"),
}

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
    """The command; empty when the id could be taken for an option."""
    folder: str | None
    """Where; None when no absolute path of a folder is recorded."""
    set: dict[str, str]
    """Environment variables to set."""
    unset: list[str]
    """Environment variables to remove."""
    store_variable: str
    """The one that names the store. Where it names this one already, it is left as it is."""
    carried: dict[str, str]
    """Settings that are passed on as they were recorded."""
    withheld: list[dict[str, str]]
    """Those that are not: ``name``, ``value``, ``why``, and what is passed ``instead`` or ``""``."""
    checks: list[Check]
    folder_gone: str
    """What to do when the folder is gone, in the agent's case."""

    def as_json(self) -> dict[str, Any]:
        """Return it as it goes over the wire."""
        return {**self._asdict(), "checks": [check._asdict() for check in self.checks]}


class Found(NamedTuple):
    """What was found of a session a moment ago."""

    live: Live | None = None
    """The process that has it open, or may have."""
    present: bool | None = True
    """Whether its agent still has it; None when that cannot be told."""
    default_store: bool = True
    """Whether it lies in the store that the agent uses when it is told of none."""


def plan(app: App, session: Session, options: Options, found: Found) -> Plan:
    """Return how *session* is resumed, as it was *found*."""
    settled = _settle(app, session, options)
    safe = bool(_ID.fullmatch(session.id))
    folder = options.folder or _recorded(session.launch_dir or "")
    named = {} if found.default_store else app.environment(session.root)
    leading = [name for name in (app.store_variable, *app.variables) if name and name not in (*app.kept, *named)]
    return Plan(
        argv=app.launch(session, settled.settings, fork=options.fork, folder=options.folder) if safe else [],
        folder=folder or None,
        set=named,
        unset=[*app.markers, *leading],
        store_variable=app.store_variable,
        carried=settled.carried,
        withheld=settled.withheld,
        checks=[*_state(app, session, options, found), *settled.checks],
        folder_gone=app.folder_gone,
    )


def _recorded(folder: str) -> str:
    """Return *folder* if it is the same one for every process, else ``""``.

    ``/proc/self/cwd`` is wherever a program was started.
    """
    return folder if folder.startswith("/") and not re.match(r"/+(\./+)*(proc|dev/fd)/", folder) else ""


def _state(app: App, session: Session, options: Options, found: Found) -> Iterator[Check]:
    """Yield what there is to say of the session itself."""
    if not _ID.fullmatch(session.id):
        yield Check("session", "refused", f"its id could be taken for an option: {session.id}")
    if session.hidden in _REFUSED:
        yield Check("session", "refused", _REFUSED[session.hidden])
    elif found.present is None:
        yield Check("session", "asks", f"whether {app.label} still has it cannot be told", "If it has: --yes")
    elif not found.present:
        yield Check("session", "refused", f"{app.label} does not have it any more")
    if not found.default_store and not app.environment(session.root):
        yield Check("session", "refused", f"{app.label} looks into its default store only, and it is in {session.root}")
    if session.hidden in _NOTED:
        yield Check("session", "noted", _NOTED[session.hidden])
    if session.archived and app.archived:
        yield Check("archived", "noted", app.archived)
    if options.fork and not app.forks:
        yield Check("session", "refused", f"{app.label} cannot go on in a copy")
    if live := found.live:
        text = f"open {live.where} ({live.status})" if live.certain else f"may be open {live.where}"
        hint = "Go on there, or in a copy: --fork" if app.forks else "Go on there"
        if options.fork:
            yield Check("live", "noted", f"{text}; this is a copy")
        elif live.certain:
            yield Check("live", "refused", text, hint)
        else:
            yield Check("live", "asks", text, f"{hint}\nIf it is not open: --yes")


class _Settled(NamedTuple):
    """What becomes of the recorded settings; the fields are those of `Plan`."""

    settings: Settings
    carried: dict[str, str]
    withheld: list[dict[str, str]]
    checks: list[Check]


class _Reason(NamedTuple):
    """Why a setting is not passed on as it was recorded."""

    why: str
    remedy: str = ""
    gets: str = ""
    """What the program gets, where that is more than another value of the same setting."""


_ASKED = _Reason("left out as asked")


def _settle(app: App, session: Session, options: Options) -> _Settled:
    """Return what is passed, and what to say of it: that comes from comparing it with what was recorded."""
    recorded = {name: value for name in app.carries if (value := getattr(session, name))}
    settings, reasons = _choose(app, recorded, options)
    loose = {modes.setting: modes for modes in app.modes if recorded.get(modes.setting) in modes.loose}
    settled = _Settled(settings, {}, [], [])
    for name, value in recorded.items():
        passed, shown = getattr(settings, name) or "", value if len(value) <= 60 else value[:59] + "…"
        if passed == value:
            settled.carried[name] = value
            if name in loose and not loose[name].restored:
                text = f"{shown} is carried this once, looser than {loose[name].default}"
                settled.checks.append(Check(name, "noted", text))
            continue
        reason = reasons[name]
        settled.withheld.append({"name": name, "value": value, "why": reason.why, "instead": passed})
        gets = reason.gets or passed
        parts = [f"{shown} is withheld, {reason.why}", f"{app.program} gets {gets}" if gets else "", reason.remedy]
        if reason is not _ASKED:
            settled.checks.append(Check(name, "noted", "; ".join(filter(None, parts))))
    for modes in app.modes:
        if modes.restored:
            settled.checks.extend(_restored(app, modes, recorded.get(modes.setting, ""), options))
        elif modes.setting not in recorded:
            text = f"none was found; {app.program} gets {getattr(settings, modes.setting)}"
            settled.checks.append(Check(modes.setting, "noted", text))
    return settled


def _restored(app: App, modes: Modes, value: str, options: Options) -> Iterator[Check]:
    """Yield what there is to say of a mode that the program brings back, whatever it is told."""
    if value in modes.strict:
        return
    shown = value if len(value) <= 60 else value[:59] + "…"
    what = (
        f"{shown} comes back, looser than {modes.default}" if value in modes.loose else "what comes back is not known"
    )
    if options.allow_loose:
        yield Check(modes.setting, "noted", what)
        return
    hint = f"With it: --allow-loose, and there {modes.restored}"
    yield Check(modes.setting, "refused", f"{what}, and no option of {app.program} is known to prevent that", hint)


def _choose(app: App, recorded: dict[str, str], options: Options) -> tuple[Settings, dict[str, _Reason]]:
    """Return the settings to pass, and why each of the others is not."""
    passed: dict[str, str | None] = {}
    reasons: dict[str, _Reason] = {}
    for name, form in _NAMES.items():
        value = recorded.get(name, "")
        if not options.carry:
            reasons[name] = _ASKED
        elif form.fullmatch(value):
            passed[name] = value
        else:
            reasons[name] = _Reason("no name of one")
    for modes in app.modes:
        name, value = modes.setting, recorded.get(modes.setting, "")
        if value in modes.strict or modes.restored or (value in modes.loose and options.allow_loose):
            passed[name] = value or None
            continue
        # Also in place of none: there may be one that was not found. And also where the agent would forget a loose
        # one, since that depends on its release.
        passed[name] = modes.wider.get(value, modes.default)
        if value in modes.loose:
            reasons[name] = _Reason("looser than the default", "--allow-loose carries it this once")
        elif value in modes.wider:
            reasons[name] = _Reason("looser than the default, and there is no option for it")
        else:
            reasons[name] = _Reason("not known to be strict")
    for modes in app.modes:
        value = recorded.get(modes.setting, "")
        if stricter := modes.replaced.get(value):
            words = {name: word for name, word in stricter._asdict().items() if word}
            passed |= words
            reasons |= {name: _Reason(f"as {word} takes the place of {value}") for name, word in words.items()}
            gets = ", ".join(f"{name} {word}" for name, word in words.items())
            reasons[modes.setting] = _Reason("no longer accepted", gets=gets)
    return Settings(**passed), reasons
