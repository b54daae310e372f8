"""What the sandbox of a Codex thread is called, however a release recorded it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.apps._codex_sandbox import WIDER, sandbox
from tests.apps.codex_home import CWD, ID, Home, applied, item, meta, turn

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

READ, WRITE, FULL = "read-only", "workspace-write", "danger-full-access"
NETWORK, FOLDERS = "workspace-write with network access", "workspace-write with more folders"


def special(kind: str, **more: object) -> Json:
    return {"type": "special", "value": {"kind": kind, **more}}


def path(name: str) -> Json:
    return {"type": "path", "path": name}


def entry(place: object, access: object = "write") -> Json:
    return {"path": place, "access": access}


def profile(*entries: object, network: object = "restricted") -> Json:
    """Return a profile of 0.144 and later that lets everything be read and *entries* be done."""
    files = {"type": "restricted", "entries": [entry(special("root"), "read"), *entries]}
    return {"type": "managed", "file_system": files, "network": network}


# As 0.171.0 records its own default, with the folders that it protects in the workspace.
DEFAULT = profile(
    entry(path(CWD)),
    entry(special("slash_tmp")),
    entry(special("tmpdir")),
    entry(path(f"{CWD}/.git"), "read") | {"missing_path_behavior": "skip"},
)


@pytest.mark.parametrize(
    ("policy", "word"),
    [
        ("read-only", READ),
        ({"mode": "read-only"}, READ),
        ({"type": "read-only"}, READ),
        ({"type": "read-only", "network_access": True}, "read-only with network access"),
        ({"mode": "workspace-write", "network_access": False}, WRITE),
        ({"type": "workspace-write", "writable_roots": [], "exclude_slash_tmp": True}, WRITE),
        ({"type": "workspace-write", "network_access": True}, NETWORK),
        ({"type": "workspace-write", "network_access": "enabled"}, NETWORK),
        ({"type": "workspace-write", "writable_roots": ["/x"]}, FOLDERS),
        (
            {"type": "workspace-write", "writable_roots": ["/x"], "network_access": True},
            "workspace-write with network access and more folders",
        ),
        ({"type": "danger-full-access"}, FULL),
        ({"type": "disabled"}, FULL),
        ({"type": "external-sandbox"}, "external-sandbox"),
        (DEFAULT, WRITE),
        (profile(), READ),
        (profile(network="enabled"), "read-only with network access"),
        (profile(entry(path(CWD)), network="enabled"), NETWORK),
        (profile(entry(path(CWD)), network={"domains": ["*"]}), NETWORK),
        (profile(entry(path(f"{CWD}/src"))), WRITE),
        (profile(entry(special("project_roots"))), WRITE),
        (profile(entry(special("current_working_directory", subpath="src"))), WRITE),
        (profile(entry(special("project_roots", subpath="../.."))), "read-only with more folders"),
        (profile(entry(path(CWD)), entry(path("/home/ana"))), FOLDERS),
        (profile(entry(path(CWD)), entry(path(f"{CWD}-other"))), FOLDERS),
        (profile(entry(path(CWD)), entry(path(f"{CWD}/../.."))), FOLDERS),
        (profile(entry(path("/srv"))), "read-only with more folders"),
        (profile(entry(path(CWD)), entry({"type": "glob_pattern", "pattern": "/**"})), FOLDERS),
        (profile(entry(path(CWD)), entry(special("unknown", path=":home"))), FOLDERS),
        (profile(entry(path(CWD)), entry(path("/srv"), "execute")), FOLDERS),
        (profile(entry(path(CWD)), "/srv"), FOLDERS),
        (profile(entry(path(CWD)), entry(path("/srv"), "deny"), entry(path("/opt"), "none")), WRITE),
        (profile(entry(special("root"))), FULL),
        (profile(entry(path("/"))), FULL),
        ({"type": "managed", "file_system": {"type": "unrestricted"}}, FULL),
        ({"type": "managed", "file_system": {"entries": "all"}}, None),
        ({"type": "managed"}, "managed"),
        ({"type": ["read-only"]}, '["read-only"]'),
        ({"kind": "read-only"}, '{"kind":"read-only"}'),
        (["read-only"], '["read-only"]'),
        (True, "true"),
        ({}, None),
        ("", None),
        (None, None),
    ],
)
def test_a_sandbox_that_allows_more_than_its_word_is_not_called_by_it(policy: object, word: str | None) -> None:
    """By mode until 2025-11, by type, and as a permission profile from 0.144 on; what is not known stays as it is."""
    if word is None and policy:
        assert sandbox(CWD, policy) not in (READ, WRITE, None)
    else:
        assert sandbox(CWD, policy) == word


@pytest.mark.parametrize("folder", [None, "", "/elsewhere"])
def test_without_its_workspace_no_folder_counts_as_one(folder: str | None) -> None:
    assert sandbox(folder, DEFAULT) == "read-only with more folders"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("looser", [FULL, NETWORK, FOLDERS, "external-sandbox", WRITE])
def test_of_a_policy_and_a_profile_the_looser_counts(looser: str, order: int) -> None:
    """0.171 records both in one turn, and a policy cannot say all that a profile can."""
    assert sandbox(CWD, *["read-only", looser, None][::order]) == looser


WORDS = st.sampled_from(
    ["path", "special", "type", "kind", "value", "root", "write", "read", "entries", CWD, "managed"]
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
)


@given(ANY)
def test_what_is_not_known_never_passes_for_strict(policy: Any) -> None:
    """Of whatever shape: a strict word comes from one alone, or from a profile with entries."""
    word = sandbox(CWD, {"type": "managed", "file_system": policy})
    if word in (READ, WRITE):
        assert isinstance(policy, dict)
        assert isinstance(policy["entries"], list)
        assert all(isinstance(found, dict) for found in policy["entries"])


def test_a_session_tells_its_profile(tmp_path: Path) -> None:
    """In a turn, in the settings of a resume, and in the database."""
    codex = Home(tmp_path / ".codex")
    wide = profile(entry(path(CWD)), entry(path("/srv")))
    codex.put(meta(), turn(permission_profile=wide), item("Fix the cart"))
    assert codex.row().sandbox == FOLDERS
    assert codex.add(applied("09:00:00.000", permission_profile=DEFAULT)).sandbox == WRITE
    assert codex.add(applied("09:00:01.000", permission_profile=profile(network="enabled"))).sandbox in WIDER
    codex.database({"id": ID, "cwd": CWD, "updated_at_ms": 1_800_000_000_000, "sandbox_policy": json.dumps(wide)})
    assert codex.row().sandbox == FOLDERS
