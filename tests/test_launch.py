"""What a resume carries and what it withholds, for every state a session can be recorded in."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond import apps
from sessiond.apps.base import Live
from sessiond.apps.opencode import OpenCode
from sessiond.launch import Found, Options, Plan, plan
from sessiond.session import Session, Settings

if TYPE_CHECKING:
    from sessiond.apps.base import App

APPS: dict[str, App] = {**apps.APPS, "opencode": OpenCode({})}
ID = "7c1e0d52-3b0a-4f6e-9a51-2f7d8a3c9e10"
LIVE = Live("waiting", "in process 4711 on /dev/pts/3")


def session(app: str, **values: Any) -> Session:
    return Session(
        **{"app": app, "id": ID, "root": "/home/ana/.store", "path": "", "mtime": 0, "bytes": 1, "launch_dir": "/src"}
        | values
    )


def planned(app: str, options: Options | None = None, *found: Any, **values: Any) -> Plan:
    """Return the plan for a session with the recorded *values*, as it was *found*: see `Found`."""
    made = plan(APPS[app], session(app, **values), options or Options(), Found(*found))
    assert json.loads(json.dumps(made.as_json())) == made.as_json()
    return made


def said(plan: Plan) -> list[tuple[str, str]]:
    return [(check.name, check.state) for check in plan.checks]


# What was recorded, under which flags, and what becomes of it. In the order: model, effort, approval, sandbox.
CLAUDE_MODE, NO_CARRY, ALLOW = "--permission-mode", Options(carry=False), Options(allow_loose=True)
ELSEWHERE_STORED = Found(default_store=False)
FORK, ELSEWHERE = Options(fork=True), Options(folder="/else where")
ALL = ("opus", "high", "plan")
STRICT = ("gpt-6", "high", "on-request", "workspace-write")
HIGH = ("-c", 'model_reasoning_effort="high"')
ASKS, WRITES, READS = ("-a", "on-request"), ("-s", "workspace-write"), ("-s", "read-only")
FULL = "danger-full-access"


class Row(NamedTuple):
    app: str
    recorded: tuple[str | None, ...]
    options: Options
    argv: tuple[str, ...]
    """Without the program and what names the session."""
    carried: str
    withheld: str
    """The names of those settings."""


TABLE = [
    Row("claude", ALL, Options(), ("--model", "opus", "--effort", "high", CLAUDE_MODE, "plan"), "mea", ""),
    Row("claude", ALL, NO_CARRY, (CLAUDE_MODE, "plan"), "a", "me"),
    Row("claude", ALL, FORK, ("--model", "opus", "--effort", "high", CLAUDE_MODE, "plan", "--fork-session"), "mea", ""),
    Row("claude", (None, None, None), Options(), (CLAUDE_MODE, "default"), "", ""),
    Row("claude", ("<synthetic>", "a b", "default"), Options(), (CLAUDE_MODE, "default"), "a", "me"),
    Row("claude", (None, None, "acceptEdits"), Options(), (CLAUDE_MODE, "default"), "", "a"),
    Row("claude", (None, None, "bypassPermissions"), Options(), (CLAUDE_MODE, "default"), "", "a"),
    Row("claude", (None, None, "acceptEdits"), ALLOW, (CLAUDE_MODE, "acceptEdits"), "a", ""),
    Row("claude", (None, None, "yolo"), ALLOW, (CLAUDE_MODE, "default"), "", "a"),
    Row("claude", (None, None, '["plan"]'), ALLOW, (CLAUDE_MODE, "default"), "", "a"),
    Row("codex", STRICT, Options(), ("-m", "gpt-6", *HIGH, *ASKS, *WRITES), "meas", ""),
    Row("codex", STRICT, NO_CARRY, (*ASKS, *WRITES), "as", "me"),
    Row("codex", STRICT, ELSEWHERE, ("-m", "gpt-6", *HIGH, *ASKS, *WRITES, "-C", "/else where"), "meas", ""),
    Row("codex", (None, None, None, None), Options(), (*ASKS, *WRITES), "", ""),
    Row("codex", (None, None, "on-request", "read-only"), Options(), (*ASKS, *READS), "as", ""),
    Row("codex", (None, None, "never", FULL), Options(), (*ASKS, *WRITES), "", "as"),
    Row("codex", (None, None, "never", FULL), ALLOW, ("-a", "never", "-s", FULL), "as", ""),
    Row("codex", (None, None, "never", "read-only"), Options(), (*ASKS, *READS), "s", "a"),
    Row("codex", (None, None, "untrusted", "read-only"), Options(), (*ASKS, *READS), "s", "a"),
    Row("codex", (None, None, "untrusted", "workspace-write"), Options(), (*ASKS, *READS), "", "as"),
    Row("codex", (None, None, "untrusted", FULL), Options(), (*ASKS, *READS), "", "as"),
    Row("codex", (None, None, "untrusted", FULL), ALLOW, (*ASKS, *READS), "", "as"),
    Row("codex", (None, None, "untrusted", None), ALLOW, (*ASKS, *READS), "", "a"),
    Row("codex", (None, None, '{"granular":{"rules":true}}', None), ALLOW, (*ASKS, *WRITES), "", "a"),
    Row("codex", (None, None, None, "workspace-write with network access"), Options(), (*ASKS, *WRITES), "", "s"),
    Row("codex", (None, None, None, "workspace-write with more folders"), ALLOW, (*ASKS, *WRITES), "", "s"),
    Row("codex", (None, None, None, "read-only with network access"), Options(), (*ASKS, *READS), "", "s"),
    Row("codex", (None, None, "untrusted", "workspace-write with more folders"), ALLOW, (*ASKS, *READS), "", "as"),
    Row("opencode", ("gpt-6",), Options(), (), "", ""),
    Row("opencode", ("gpt-6",), FORK, ("--fork",), "", ""),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.app}-{'-'.join(map(str, row.recorded))}")
def test_what_was_recorded_and_the_flags_decide_what_is_passed(row: Row) -> None:
    """And it is said which settings go on as they were, and which do not."""
    values = dict(zip(Settings._fields, row.recorded, strict=False))
    made = planned(row.app, row.options, **values)
    assert tuple(word for word in made.argv if word not in ("claude", "codex", "opencode", *COMMANDS)) == row.argv
    assert "".join(name[0] for name in made.carried) == row.carried
    assert "".join(entry["name"][0] for entry in made.withheld) == row.withheld
    assert made.set == {}


COMMANDS = ("--resume", "resume", "--session", ID)


def recorded(app: App) -> st.SearchStrategy[dict[str, str | None]]:
    """Return states that a session of *app* can be recorded in, each mode of it as likely as any text."""
    known = {modes.setting: [*modes.strict, *modes.loose, *modes.wider] for modes in app.modes}
    other = st.none() | st.text(max_size=40) | st.sampled_from(["opus", "high", "<synthetic>", "-x", "--yolo"])
    return st.fixed_dictionaries(
        {name: st.sampled_from(known[name]) | other if name in known else other for name in Settings._fields}
    )


@pytest.mark.parametrize("app", [APPS[name] for name in ("claude", "codex", "opencode")], ids=lambda app: app.name)
@given(data=st.data())
@settings(max_examples=300)
def test_what_is_said_of_a_setting_and_what_is_passed_agree(app: App, data: st.DataObject) -> None:
    """Whatever was recorded, and under all flags."""
    values = data.draw(recorded(app))
    options = Options(*(data.draw(st.booleans()) for _ in ("fork", "allow_loose", "carry")))
    made = planned(app.name, options, **values)
    words = [word for word in made.argv if word not in (app.program, "--fork-session", "--fork", "fork", *COMMANDS)]
    passed = {OPTION[flag]: value for flag, value in zip(words[::2], words[1::2], strict=True)}
    if effort := passed.get("effort"):
        passed["effort"] = effort.removeprefix('model_reasoning_effort="').removesuffix('"')
    for name in app.carries:
        known, withheld = values[name] or None, {entry["name"]: entry for entry in made.withheld}.get(name)
        # Each that is recorded is either carried, and passed, or withheld, and not passed.
        assert (name in made.carried) + (withheld is not None) == (known is not None)
        if name in made.carried:
            assert made.carried[name] == known == passed[name]
        if withheld:
            assert withheld["value"] == known != passed.get(name)
            assert withheld["instead"] == passed.get(name, "")
    for modes in app.modes:
        allowed = modes.strict | (modes.loose if options.allow_loose else set())
        assert passed[modes.setting] in allowed - modes.replaced.keys()
        assert passed[modes.setting] == values[modes.setting] or passed[modes.setting] in modes.strict
        assert passed[modes.setting] == values[modes.setting] or said(made).count((modes.setting, "noted")) == 1
    assert passed.keys() <= set(app.carries)
    assert "untrusted" not in made.argv
    # A model or an effort is one word that begins with a letter or a digit.
    assert all(re.fullmatch(r"[A-Za-z0-9][!-~]*", word) for word in passed.values())


OPTION = {"--model": "model", "-m": "model", "--effort": "effort", "-c": "effort"} | {
    "--permission-mode": "approval",
    "-a": "approval",
    "-s": "sandbox",
}


@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
def test_every_mode_an_agent_has_is_either_strict_or_loose(app: App) -> None:
    """What takes the place of another is strict, and all of them are passed on by its command."""
    for modes in app.modes:
        assert modes.default in modes.strict - modes.replaced.keys()
        assert not modes.strict & modes.loose
        assert not modes.wider.keys() & (modes.strict | modes.loose)
        assert set(modes.wider.values()) | modes.replaced.keys() <= modes.strict
        assert modes.setting in app.carries


@pytest.mark.parametrize("app", [app for app in APPS.values() if app.modes], ids=lambda app: app.name)
@given(data=st.data())
def test_no_agent_starts_with_more_than_its_own_default_unless_it_is_allowed(app: App, data: st.DataObject) -> None:
    """What is not recorded as strict is refused, or another that is strict is passed, and it is said."""
    values = data.draw(recorded(app))
    made = planned(app.name, Options(), **values)
    for modes in app.modes:
        value, states = values[modes.setting] or "", [c.state for c in made.checks if c.name == modes.setting]
        if value in modes.strict - modes.replaced.keys():
            assert "refused" not in states
        elif modes.restored:
            assert states == ["refused"]
            assert "--allow-loose" in "".join(check.hint for check in made.checks)
        else:
            assert states == ["noted"]
            assert modes.setting not in made.carried


def test_the_page_tells_of_every_agent_what_becomes_of_its_permissions_and_whether_it_copies() -> None:
    """One line each, in the order of the registry."""
    page = (Path(__file__).parent.parent / "docs" / "resume.md").read_text(encoding="utf-8")
    table = page.partition("| agent | started in |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert [row[0] for row in rows] == [app.label for app in apps.APPS.values()]
    for row, app in zip(rows, apps.APPS.values(), strict=True):
        assert (row[4] != "no") == app.forks
        assert (row[3] == "refused") == any(modes.restored for modes in app.modes)
        assert (row[3] == "withheld") == any(not modes.restored for modes in app.modes)


@pytest.mark.parametrize("app", ["claude", "codex"])
def test_where_no_mode_was_found_the_strict_one_is_passed_and_said(app: str) -> None:
    """There may be one beyond what is read, and the agent would restore it."""
    made = planned(app)
    names = [modes.setting for modes in APPS[app].modes]
    assert said(made) == [(name, "noted") for name in names]
    assert all(modes.default in made.argv for modes in APPS[app].modes)


@pytest.mark.parametrize(
    "model",
    [
        *("opus", "claude-opus-5-5[1m]", "claude-haiku-4-5-20251001", "claude-opus-4@20250514", "gpt-5.5-codex"),
        *("openai/gpt-oss-120b", "llama3:8b", "us.anthropic.claude-opus-4-20250514-v1:0"),
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4",
    ],
)
def test_a_model_of_any_provider_goes_on(model: str) -> None:
    """Names, aliases, ARNs."""
    assert planned("claude", model=model).carried == {"model": model}


@pytest.mark.parametrize("model", ["<synthetic>", "", "a b", "-x", "[1m]", "opus[1m][1m]", "x" * 300, "modèle", "a\n"])
def test_what_is_no_model_is_withheld_and_said(model: str) -> None:
    """Placeholders too; a long one is cut where it is shown."""
    found = planned("claude", model=model, approval="default")
    assert found.carried == {"approval": "default"}
    assert "--model" not in found.argv
    assert said(found) == ([("model", "noted")] if model else [])
    assert all(len(check.text) < 120 for check in found.checks)


@pytest.mark.parametrize("id", ["-rf", "--x", "--last", "", "a b", "a\nb", "$(id)", "../x", "x" * 200, "é"])
def test_an_id_that_could_be_an_option_is_refused(id: str) -> None:
    """It reaches no command line."""
    for name in APPS:
        made = planned(name, id=id)
        assert made.argv == []
        assert said(made)[0] == ("session", "refused")


@pytest.mark.parametrize("folder", [None, "", "relative", "-", "~", "./x"])
def test_a_folder_that_is_no_absolute_path_is_none(folder: str | None) -> None:
    """`cd -` would go anywhere."""
    assert planned("claude", launch_dir=folder).folder is None
    assert planned("claude", Options(folder="/asked"), launch_dir=folder).folder == "/asked"


@pytest.mark.parametrize(
    ("hidden", "state"),
    [
        ("deleted", "refused"),
        ("empty", "refused"),
        ("not-resumable", "refused"),
        ("subagent", "noted"),
        ("sdk", "noted"),
        ("superseded", None),
        (None, None),
    ],
)
def test_what_a_hidden_session_is_decides_whether_it_can_go_on(hidden: str | None, state: str | None) -> None:
    """Not for people to see in lists is no reason, nothing to go on with is one."""
    assert said(planned("opencode", hidden=hidden)) == ([("session", state)] if state else [])


@pytest.mark.parametrize(
    ("certain", "fork", "state"),
    [(True, False, "refused"), (False, False, "asks"), (True, True, "noted"), (False, True, "noted")],
)
@pytest.mark.parametrize("app", [app for app in APPS.values() if app.forks], ids=lambda app: app.name)
def test_a_live_session_goes_on_in_a_copy_only(app: App, state: str, *, certain: bool, fork: bool) -> None:
    """One that may be live is asked about. Where it is open is said either way."""
    made = planned(app.name, Options(fork=fork), LIVE._replace(certain=certain))
    (check,) = [check for check in made.checks if check.name == "live"]
    assert check.state == state
    assert "open in process 4711 on /dev/pts/3" in check.text
    assert ("may be open" in check.text) != certain
    assert ("--fork" in check.hint) != fork
    assert ("--yes" in check.hint) == (state == "asks")


@pytest.mark.parametrize("live", [None, LIVE, LIVE._replace(certain=False)])
def test_an_agent_that_makes_no_copies_is_asked_for_none(monkeypatch: pytest.MonkeyPatch, live: Live | None) -> None:
    """A copy is refused, and none offered."""
    monkeypatch.setattr(OpenCode, "forks", False)
    assert ("session", "refused") in said(planned("opencode", FORK, live))
    assert all("--fork" not in check.hint + check.text for check in planned("opencode", None, live).checks)


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize(("present", "state"), [(True, None), (False, "refused"), (None, "asks")])
def test_a_session_that_its_agent_does_not_have_is_not_resumed(app: str, present: bool | None, state: str) -> None:
    """Some begin a new one in its place. What cannot be told is asked."""
    made = planned(app, None, None, present)
    assert [check.state for check in made.checks if check.name == "session"] == ([state] if state else [])


@pytest.mark.parametrize(("app", "notes"), [("codex", [("archived", "noted")]), ("claude", [])])
def test_an_archived_session_is_noted_where_the_agent_asks(app: str, notes: list[tuple[str, str]]) -> None:
    """Codex does."""
    assert said(planned(app, archived=True))[:1] == (notes or [("approval", "noted")])


@pytest.mark.parametrize(
    ("app", "root", "variables"),
    [
        ("claude", "/srv/.claude", {"CLAUDE_CONFIG_DIR": "/srv/.claude"}),
        ("codex", "/srv/.codex", {"CODEX_HOME": "/srv/.codex"}),
        ("opencode", "/srv/opencode", {"XDG_DATA_HOME": "/srv"}),
        ("opencode", "/srv/other", {"OPENCODE_DB": "/srv/other/opencode.db"}),
    ],
)
def test_only_a_store_other_than_the_default_is_named(app: str, root: str, variables: dict[str, str]) -> None:
    """The default one must not be: Claude Code keeps its account elsewhere then (manaflow-ai/cmux#4087).

    And no variable may stay that leads to yet another store. Where the databases of Codex are is no such thing.
    """
    usual, other = planned(app, root=root), planned(app, None, *ELSEWHERE_STORED, root=root)
    leading = {"claude": {"CLAUDE_CONFIG_DIR"}, "codex": {"CODEX_HOME"}, "opencode": {"XDG_DATA_HOME", "OPENCODE_DB"}}
    assert (usual.set, set(usual.unset) - set(APPS[app].markers)) == ({}, leading[app])
    assert (other.set, set(other.unset) - set(APPS[app].markers)) == (variables, leading[app] - variables.keys())


def test_a_store_that_no_variable_names_cannot_be_resumed_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program would look into the default one."""
    monkeypatch.setattr(type(APPS["codex"]), "store_variable", "")
    assert ("session", "refused") not in said(planned("codex"))
    made = planned("codex", None, *ELSEWHERE_STORED)
    assert ("session", "refused") in said(made)
    assert (made.set, made.unset) == ({}, [])


def test_what_a_session_says_decides_nothing_but_itself() -> None:
    """The same row gives the same plan: nothing outside is looked at."""
    row = session("claude", model="opus", approval="auto")
    first = plan(APPS["claude"], row, Options(), Found())
    assert plan(APPS["claude"], replace(row), Options(), Found()) == first
