"""Which of a person's variables a resume leaves as they are."""

from __future__ import annotations

import pytest

from sess import agent
from sessiond.apps import APPS
from sessiond.launch import Found, Options, plan
from sessiond.session import Session

HOME = "/home/ana"
DATA = f"{HOME}/.local/share"


# fmt: off
CASES = [
    # app        store                  around it                             what of that is changed
    ("opencode", f"{DATA}/opencode",    {"XDG_DATA_HOME": DATA},              {}),
    ("opencode", f"{DATA}/opencode",    {"XDG_DATA_HOME": "/srv"},            {"XDG_DATA_HOME": None}),
    ("opencode", f"{DATA}/opencode",    {"XDG_DATA_HOME": f"{DATA}/opencode"}, {"XDG_DATA_HOME": None}),
    ("opencode", f"{DATA}/opencode",    {"OPENCODE_DB": "other.db"},          {"OPENCODE_DB": None}),
    ("opencode", "/srv/opencode",       {},                                   {"XDG_DATA_HOME": "/srv"}),
    ("opencode", "/srv/opencode",       {"XDG_DATA_HOME": "/srv/./"},         {}),
    ("opencode", "/srv/opencode",       {"XDG_DATA_HOME": "/srv/opencode"},   {"XDG_DATA_HOME": "/srv"}),
    ("goose",    f"{DATA}/goose",       {"XDG_DATA_HOME": DATA},              {}),
    ("goose",    f"{DATA}/goose",       {"XDG_DATA_HOME": "/srv"},            {"XDG_DATA_HOME": None}),
    ("goose",    "/srv/data",           {"GOOSE_PATH_ROOT": "/srv"},          {}),
    ("goose",    "/srv/data",           {"GOOSE_PATH_ROOT": "/srv/data"},     {"GOOSE_PATH_ROOT": "/srv"}),
    ("crush",    f"{DATA}/crush",       {"XDG_DATA_HOME": DATA},              {}),
    ("crush",    "/srv/crush",          {"XDG_DATA_HOME": "/srv"},            {}),
    ("cursor",   f"{HOME}/.cursor",     {"XDG_CONFIG_HOME": "/srv"},          {}),
    ("kiro",     f"{DATA}/kiro-cli",    {"XDG_DATA_HOME": DATA},              {}),
    ("kiro",     f"{DATA}/kiro-cli",    {"XDG_DATA_HOME": "/srv"},            {"XDG_DATA_HOME": None}),
    ("kiro",     "/srv/kiro-cli",       {"XDG_DATA_HOME": "/srv"},            {}),
    ("gemini",   "/srv/.gemini",        {"GEMINI_CLI_HOME": "/srv"},          {}),
    ("gemini",   "/srv/.gemini",        {"GEMINI_CLI_HOME": "/srv/.gemini"},  {"GEMINI_CLI_HOME": "/srv"}),
    ("claude",   f"{HOME}/.claude",     {"XDG_DATA_HOME": "/srv"},            {}),
]
# fmt: on


@pytest.mark.parametrize(("app", "root", "around", "changed"), CASES)
def test_a_variable_that_leads_to_the_store_stays(
    monkeypatch: pytest.MonkeyPatch, app: str, root: str, around: dict[str, str], changed: dict[str, str | None]
) -> None:
    """That of the store itself, and those of XDG, which lead every other program too."""
    for name, value in {"HOME": HOME, **around}.items():
        monkeypatch.setenv(name, value)
    session = Session(app=app, id="84cdfff0", root=root, path=f"{root}/x", mtime=1, bytes=1)
    found = Found(default_store=root in APPS[app].roots({"HOME": HOME}))
    made = plan(APPS[app], session, Options(), found).as_json()
    assert agent.changes(made, app, root) == changed
