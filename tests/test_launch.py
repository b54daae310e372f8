"""What a resume carries and what it withholds, for every state a session can be recorded in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.apps import APPS
from sessiond.apps.base import Live
from sessiond.launch import Options, Plan, plan
from sessiond.session import Session

CLAUDE, CODEX = APPS["claude"], APPS["codex"]
ID = "7c1e0d52-3b0a-4f6e-9a51-2f7d8a3c9e10"
LIVE = Live("waiting", "in process 4711 on /dev/pts/3")


def session(app: str, **values: Any) -> Session:
    return Session(
        **{"app": app, "id": ID, "root": "/home/ana/.store", "path": "", "mtime": 0, "bytes": 1, "launch_dir": "/src"}
        | values
    )


def planned(
    app: str, options: Options | None = None, live: Live | None = None, *, default_store: bool = True, **values: Any
) -> Plan:
    found = plan(APPS[app], session(app, **values), options or Options(), live, default_store=default_store)
    assert json.loads(json.dumps(found.as_json())) == found.as_json()
    return found


def said(plan: Plan) -> list[tuple[str, str]]:
    return [(check.name, check.state) for check in plan.checks]


def test_what_is_not_recorded_is_left_to_the_agent() -> None:
    """2.0.76 of Claude Code records neither effort nor mode, 0.34 of Codex nothing at all."""
    for app in APPS:
        found = planned(app)
        assert found.argv[-1] == ID
        assert len(found.argv) == 3
        assert (found.carried, found.withheld, found.checks) == ({}, [], [])


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
def test_every_mode_an_agent_has_is_either_strict_or_loose(app: Any, *, allow: bool) -> None:
    """A strict one goes on, a loose one only when that is allowed; its place is taken by the default, a strict one."""
    for modes in app.modes:
        assert modes.default in modes.strict
        assert not modes.strict & modes.loose
        for value in modes.strict | modes.loose:
            found = planned(app.name, Options(allow_loose=allow), **{modes.setting: value})
            carried = value in modes.strict - modes.replaced.keys() or (allow and value in modes.loose)
            assert found.carried == ({modes.setting: value} if carried else {})
            assert [entry["value"] for entry in found.withheld] == ([] if carried else [value])
            assert (value in found.argv) == carried
            assert carried or set(found.argv) & modes.strict


@given(st.text(max_size=40), st.booleans())
def test_an_unknown_mode_is_never_passed(value: str, allow: bool) -> None:
    """Whatever was recorded: the agent starts with its default."""
    for app in APPS.values():
        for modes in app.modes:
            if value not in modes.strict | modes.loose:
                found = planned(app.name, Options(allow_loose=allow), **{modes.setting: value})
                assert found.argv == planned(app.name, **{modes.setting: modes.default}).argv
                assert said(found) == [(modes.setting, "noted")]


@given(st.text(), st.text())
def test_no_recorded_text_becomes_an_option(model: str, effort: str) -> None:
    """A model or an effort is one word that begins with a letter or a digit, or is not passed."""
    for name in APPS:
        argv = planned(name, model=model, effort=effort).argv
        values = [model, effort, f'model_reasoning_effort="{effort}"']
        for word in argv[1:-1]:
            if word not in ("--resume", "resume", "--model", "--effort", "-m", "-c", ID):
                assert word in values
                assert word[0].isalnum()
                assert word.isascii()
                assert " " not in word
                assert "\n" not in word


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
    found = planned("claude", model=model)
    assert found.carried == {}
    assert "--model" not in found.argv
    assert said(found) == ([("model", "noted")] if model else [])
    assert all(len(check.text) < 120 for check in found.checks)


def test_model_and_effort_can_be_left_out() -> None:
    """Not so the mode: it is what keeps the agent strict."""
    found = planned("codex", Options(carry=False), model="gpt-6", effort="high", approval="never", sandbox="read-only")
    assert found.argv == ["codex", "resume", "-a", "on-request", "-s", "read-only", ID]
    assert found.carried == {"sandbox": "read-only"}


@pytest.mark.parametrize("sandbox", [None, "read-only", "workspace-write", "danger-full-access"])
@pytest.mark.parametrize("allow", [False, True])
def test_untrusted_becomes_what_is_accepted_and_no_looser(sandbox: str | None, *, allow: bool) -> None:
    """With on-request alone the agent could write without asking, which untrusted would not let it."""
    found = planned("codex", Options(allow_loose=allow), approval="untrusted", sandbox=sandbox)
    assert found.argv == ["codex", "resume", "-a", "on-request", "-s", "read-only", ID]
    assert ("approval", "noted") in said(found)


@pytest.mark.parametrize("id", ["-rf", "--last", "", "a b", "a\nb", "$(id)", "../x", "x" * 200, "é"])
def test_an_id_that_could_be_an_option_is_refused(id: str) -> None:
    """It reaches no command line."""
    for name, app in APPS.items():
        found = planned(name, id=id)
        assert found.argv == [app.program]
        assert said(found) == [("session", "refused")]


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
    assert said(planned("claude", hidden=hidden)) == ([("session", state)] if state else [])


def test_a_live_session_goes_on_in_a_copy_only() -> None:
    """Where it is open is said either way."""
    refused = planned("claude", live=LIVE)
    assert said(refused) == [("live", "refused")]
    assert refused.checks[0].text == "open in process 4711 on /dev/pts/3 (waiting)"
    assert "--fork" in refused.checks[0].hint
    copied = planned("claude", Options(fork=True), LIVE)
    assert said(copied) == [("live", "noted")]
    assert copied.argv[-1] == "--fork-session"


@pytest.mark.parametrize(("app", "notes"), [("codex", [("archived", "noted")]), ("claude", [])])
def test_an_archived_session_is_noted_where_the_agent_asks(app: str, notes: list[tuple[str, str]]) -> None:
    """Codex does."""
    assert said(planned(app, archived=True)) == notes


@pytest.mark.parametrize(("app", "variable"), [("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")])
def test_only_a_store_other_than_the_default_is_named(app: str, variable: str) -> None:
    """The default one must not be: Claude Code keeps its account elsewhere then (manaflow-ai/cmux#4087)."""
    usual, other = planned(app), planned(app, default_store=False)
    assert usual.set == {}
    assert variable in usual.unset
    assert other.set == {variable: "/home/ana/.store"}
    assert variable not in other.unset


def test_what_a_session_says_decides_nothing_but_itself() -> None:
    """The same row gives the same plan: nothing outside is looked at."""
    row = session("claude", model="opus", approval="auto")
    first = plan(CLAUDE, row, Options(), None, default_store=True)
    assert plan(CLAUDE, replace(row), Options(), None, default_store=True) == first
