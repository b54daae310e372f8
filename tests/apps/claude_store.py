"""A store of Claude Code to put records into, read the way the daemon reads it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from sessiond.apps.claude_code import ClaudeCode
from sessiond.session import Part, Previous, Scan, Session, Stat, Unit

if TYPE_CHECKING:
    from pathlib import Path

ID = "7c1e0d52-3b0a-4f6e-9a51-2f7d8a3c9e10"
OTHER = "b4f2a6d8-1c3e-4a5b-8d7f-90a1b2c3d4e5"
CWD = "/home/ana/src/shop"
FOLDER = "-home-ana-src-shop"
APP = ClaudeCode()

Record = dict[str, Any]


def said(kind: str, content: object, **more: object) -> Record:
    """Return a record of the conversation, as 2.1.332 writes it."""
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message["model"] = "claude-opus-5-5"
    record = {"parentUuid": None, "isSidechain": False, "type": kind, "message": message}
    record |= {"timestamp": "2026-08-12T09:14:02.201Z", "entrypoint": "cli", "cwd": CWD, "version": "2.1.332"}
    return record | {"gitBranch": "main"} | more


def prompt(content: object, **more: object) -> Record:
    return said("user", content, **more)


def answer(content: object = "Done.", **more: object) -> Record:
    return said("assistant", [{"type": "text", "text": content}], **more)


def custom_title(title: str) -> Record:
    return {"type": "custom-title", "customTitle": title, "sessionId": ID}


def ai_title(title: str) -> Record:
    return {"type": "ai-title", "aiTitle": title, "sessionId": ID}


def last_prompt(text: str) -> Record:
    return {"type": "last-prompt", "lastPrompt": text, "sessionId": ID}


def filler(size: int, **more: object) -> list[Record]:
    """Return answers of 8 KB that take *size* bytes together; *more* goes into each."""
    record = answer("x" * 8000, **more)
    return [record] * (size // len(line(record)) + 1)


def line(record: Record | bytes) -> bytes:
    if isinstance(record, bytes):
        return record
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


def every_kind() -> list[Record]:
    """Return a session that was renamed, compacted, moved into a worktree and continued in another session."""

    def at(time: str, branch: str = "main", cwd: str = "/home/ana/src/shop_api") -> Record:
        return {"timestamp": f"2026-08-12T{time}Z", "cwd": cwd, "version": "2.1.236", "gitBranch": branch}

    command = "<command-message>model</command-message>\n            <command-args>opus</command-args>"
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    typed = {"type": "text", "text": "[Image #1] the checkout total is wrong for 0% VAT, please fix it and add a test"}
    call = {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "cd services/cart && pytest -q"}}
    result = {"tool_use_id": "toolu_01", "type": "tool_result", "content": "2 passed in 0.31s", "is_error": False}
    summary = "This session is being continued from a previous conversation that ran out of context. Analysis: ..."
    state = {"originalCwd": "/home/ana/src/shop_api", "preEnterOriginalCwd": "/home/ana/src/shop_api"}
    state |= {"worktreePath": "/home/ana/src/shop_api/.claude/worktrees/vat", "worktreeName": "vat"}
    branch, cart = "fix/vat-zero", "/home/ana/src/shop_api/services/cart"
    return [
        {"type": "permission-mode", "permissionMode": "acceptEdits", "sessionId": ID},
        {"type": "file-history-snapshot", "snapshot": {"timestamp": "2026-08-12T09:14:02.118Z"}},
        prompt("<local-command-caveat>Caveat: ...</local-command-caveat>", isMeta=True, **at("09:14:02.201")),
        prompt(f"<command-name>/model</command-name>\n            {command}", **at("09:14:02.203")),
        prompt([image, typed], permissionMode="acceptEdits", origin={"kind": "human"}, **at("09:15:40.007")),
        said("assistant", [call], effort="high", **at("09:15:47.551")),
        prompt([result], toolUseResult={"stdout": "2 passed in 0.31s"}, **at("09:15:49.020", branch, cart)),
        said("system", "", subtype="compact_boundary", isMeta=False, **at("11:02:10.400", branch)),
        prompt(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True, **at("11:02:10.401", branch)),
        custom_title("vat-zero-fix"),
        ai_title("Zero VAT checkout total"),
        {"type": "worktree-state", "worktreeSession": state},
        {"type": "relocated", "relocatedCwd": "/home/ana/src/shop_api/.claude/worktrees/vat"},
        {"type": "pr-link", "prNumber": 42, "timestamp": "2026-08-12T11:20:33.914Z"},
        last_prompt("now open a PR"),
        {"type": "continued-in", "timestamp": "2026-08-12T11:30:00.000Z", "continuedInSessionId": OTHER},
    ]


class Store:
    """One ``.claude`` folder, and what an index would hold of it."""

    def __init__(self, path: Path) -> None:
        self.root = path
        self.scans: dict[Unit, tuple[Stat, Scan]] = {}
        self.unreadable: list[str] = []

    def put(self, *records: Record | bytes, id: str = ID, folder: str = FOLDER, append: bool = False) -> Path:
        """Write a transcript, or append to it."""
        path = self.root / "projects" / folder / f"{id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if append else "wb") as file:
            file.writelines(map(line, records))
        return path

    def add(self, *records: Record | bytes, folder: str = FOLDER) -> Session:
        """Append to the transcript and return its new row."""
        self.put(*records, folder=folder, append=True)
        return self.row()

    def sidecar(self, content: str, id: str = ID, folder: str = FOLDER) -> Path:
        """Write what lies beside a transcript as ``custom-title.json``."""
        path = self.root / "projects" / folder / id / "custom-title.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def refresh(self, *, second_look: bool = True) -> None:
        """Read every unit that changed; then those again that asked for it."""
        root = str(self.root)
        found = dict(APP.units(root, lambda path, _error: self.unreadable.append(path)))
        for unit, stat in found.items():
            old = self.scans.get(unit)
            if old is None or old[0] != stat or old[1].volatile:
                known = Previous(old[0], old[1].facts, old[1].complete) if old else None
                self.scans[unit] = stat, APP.read(unit, stat, known)
        for unit, (stat, scan) in self.scans.items():
            if second_look and not scan.complete:
                self.scans[unit] = stat, APP.read(unit, stat, Previous(stat, scan.facts, complete=False))

    def rows(self, *, second_look: bool = True) -> dict[str, Session]:
        """Return the rows of all sessions, by id."""
        self.refresh(second_look=second_look)
        ids = dict.fromkeys(key for _, scan in self.scans.values() for key in scan.facts)
        rows = {key: APP.merge(key, self.parts(key)) for key in ids}
        return {key: row for key, row in rows.items() if row}

    def row(self, id: str = ID, *, second_look: bool = True) -> Session:
        return self.rows(second_look=second_look)[id]

    def parts(self, id: str) -> list[Part]:
        return [
            Part(unit, stat, scan.facts[id], gone=not os.path.lexists(unit.path))
            for unit, (stat, scan) in self.scans.items()
            if id in scan.facts
        ]
