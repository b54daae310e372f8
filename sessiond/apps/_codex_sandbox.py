"""What a sandbox of Codex lets a thread do, in a word: its policy, or from 0.144 on its permission profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessiond.apps._jsonl import mode

if TYPE_CHECKING:
    from sessiond.session import Facts

_SPECIAL = {
    "root": "everything",
    **dict.fromkeys(("project_roots", "current_working_directory"), "workspace"),
    **dict.fromkeys(("tmpdir", "slash_tmp"), "temporary"),
}
"""The folders that a permission profile has a word for, as in Codex's source."""
_STRICT = ("read-only", "workspace-write")
_MORE = ("network access", "more folders", "network access and more folders")
WIDER = {f"{kind} with {more}": kind for kind in _STRICT for more in _MORE}
"""A sandbox that allows more than its word, and that word."""


def sandbox(folder: str | None, *policies: object) -> str | None:
    """Return the word that ``--sandbox`` takes for the loosest of *policies*; None when there is none.

    0.171 records a policy beside the profile, of which it cannot say all. Of one that allows more than its word,
    it is one of ``WIDER``; of one that is not known, what was recorded. *folder* is the workspace.
    """
    words = filter(None, (_word(policy, folder) for policy in policies))
    return max(words, key=lambda word: _STRICT.index(word) if word in _STRICT else len(_STRICT), default=None)


def _word(policy: object, folder: str | None) -> str | None:
    """Return *policy* as a word. The key of it was ``mode`` until 2025-11-13 (openai/codex#6614)."""
    if not isinstance(policy, dict):
        return mode(policy)
    kind, files = policy.get("type") or policy.get("mode"), policy.get("file_system")
    if kind == "disabled":
        return "danger-full-access"
    if kind == "managed" and isinstance(files, dict):
        kind, more = _profile(files, folder)
        network = policy.get("network") not in (None, "restricted")
    else:
        more, network = bool(policy.get("writable_roots")), bool(policy.get("network_access"))
    if kind not in _STRICT:
        return mode(kind) or mode(policy or None)
    wider = " and ".join(["network access"] * network + ["more folders"] * more)
    return f"{kind} with {wider}" if wider else kind


def _profile(files: Facts, folder: str | None) -> tuple[str | None, bool]:
    """Return the word for what a permission profile lets be written, and whether it lets more than that be."""
    if files.get("type") == "unrestricted":
        return "danger-full-access", False
    entries = files.get("entries")
    if not isinstance(entries, list):
        return None, False
    written = {_place(entry, folder) for entry in entries if not _only_read(entry)}
    if "everything" in written:
        return "danger-full-access", False
    return "workspace-write" if "workspace" in written else "read-only", "more" in written


def _only_read(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("access") in ("read", "deny", "none")


def _place(entry: object, folder: str | None) -> str:
    """Return what *entry* of a profile is about: ``everything``, ``workspace``, ``temporary`` or ``more``."""
    path = entry.get("path") if isinstance(entry, dict) else None
    path = path if isinstance(path, dict) else {}
    special, name = path.get("value"), path.get("path")
    if path.get("type") == "special" and isinstance(special, dict):
        below = str(special.get("subpath") or "")
        place = _SPECIAL.get(str(special.get("kind")), "more")
        return "more" if below.startswith("/") or ".." in below.split("/") else place
    if path.get("type") != "path" or not isinstance(name, str) or not folder or ".." in name.split("/"):
        return "more"
    inside = name.rstrip("/") + "/"
    if inside == "/":
        return "everything"
    return "workspace" if inside.startswith(folder.rstrip("/") + "/") else "more"
