"""A home of Codex to put rollouts, names and databases into, read the way the daemon reads it."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from sessiond.apps.codex import Codex
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

    from sessiond.session import Session

ID = "01a1f000-798a-76f0-9430-e29822ad4fc7"
OTHER = "01a1f000-9101-7be0-8a11-0c0ffee0beef"
SEGMENT = "01a1f001-53af-7380-b558-fecc4a7588ae"
DAY = "sessions/2026/11/21"
CWD = "/home/ana/src/shop"
CREATED = 1795248894612
"""2026-11-21T08:14:54.612Z in ms."""

Record = dict[str, Any]


def envelope(kind: str, payload: Record, at: str = "08:15:08.389") -> Record:
    return {"timestamp": f"2026-11-21T{at}Z", "type": kind, "payload": payload}


def meta(id: str = ID, **more: object) -> Record:
    """Return the first line of a rollout, as 0.171.0 writes it."""
    payload: Record = {"session_id": id, "id": id, "timestamp": "2026-11-21T08:14:54.612Z", "cwd": CWD}
    payload |= {"originator": "codex-tui", "cli_version": "0.171.0", "source": "cli", "thread_source": "user"}
    payload |= {"model_provider": "openai", "base_instructions": {"text": "You are a coding agent. " * 900}}
    git = {"branch": "feat/cart", "repository_url": "https://ana:secret@example.com/acme/shop.git"}
    return envelope("session_meta", payload | {"history_mode": "paginated", "git": git} | more, "08:15:08.301")


def item(text: str, kind: str = "UserMessage", at: str = "08:15:08.389") -> Record:
    """Return a message in the encoding of 0.153 and later."""
    words = {"type": "text" if kind == "UserMessage" else "Text", "text": text}
    return envelope("event_msg", {"type": "item_completed", "item": {"type": kind, "content": [words]}}, at)


def legacy(text: str, **more: object) -> Record:
    """Return a prompt in the encoding before that."""
    return envelope("event_msg", {"type": "user_message", "message": text, **more})


def injected(text: str) -> Record:
    """Return what Codex tells the model in a user's name."""
    content = [{"type": "input_text", "text": text}]
    return envelope("response_item", {"type": "message", "role": "user", "content": content})


def turn(at: str = "08:15:08.371", **more: object) -> Record:
    payload: Record = {"cwd": CWD, "approval_policy": "on-request", "model": "gpt-6-sol", "effort": "high"}
    return envelope("turn_context", payload | {"sandbox_policy": {"type": "workspace-write"}} | more, at)


def applied(at: str, **more: object) -> Record:
    """Return the settings of a resume, with a turn or without one."""
    settings: Record = {"cwd": CWD, "approval_policy": "never", "model": "gpt-5.5"}
    settings |= {"permission_profile": {"type": "disabled"}} | more
    return envelope("event_msg", {"type": "thread_settings_applied", "thread_settings": settings}, at)


def filler(size: int) -> list[Record]:
    """Return answers of 8 KB that take *size* bytes together."""
    return [item("x" * 8000, "AgentMessage")] * (size // 8000 + 1)


def line(record: Record | bytes) -> bytes:
    if isinstance(record, bytes):
        return record
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


class Home(Reader):
    """One ``.codex`` folder, and what an index would hold of it."""

    def __init__(self, path: Path, env: dict[str, str] | None = None) -> None:
        super().__init__(Codex(env or {}), path)

    def put(self, *records: Record | bytes, id: str = ID, folder: str = DAY, append: bool = False) -> Path:
        """Write a rollout of the thread or segment *id*, or append to it."""
        path = self.root / folder / f"rollout-2026-11-21T09-14-54-{id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if append else "wb") as file:
            file.writelines(map(line, records))
        return path

    def name(self, name: str, id: str = ID) -> Path:
        """Append a renaming to the file of names."""
        self.root.mkdir(exist_ok=True)
        path = self.root / "session_index.jsonl"
        with path.open("ab") as file:
            file.write(line({"id": id, "thread_name": name, "updated_at": "2026-11-21T08:15:08.542989335Z"}))
        return path

    def database(self, *threads: Record, name: str = "state_5.sqlite") -> Path:
        """Write a database of *threads*; it has the columns that they name."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        columns = list(dict.fromkeys(["id", *(key for thread in threads for key in thread)]))
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"CREATE TABLE threads ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            rows = [tuple({"id": ID, **thread}.get(column) for column in columns) for thread in threads]
            database.executemany(f"INSERT INTO threads VALUES ({marks})", rows)
        database.close()
        return path

    def row(self, id: str = ID) -> Session:
        return super().row(id)

    def add(self, *records: Record | bytes) -> Session:
        """Append to the rollout and return its new row."""
        self.put(*records, append=True)
        return self.row()
