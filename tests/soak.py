"""Simulated use with an independent oracle: ``python -m tests.soak --minutes 20``.

Sessions are begun, go on, are renamed, move between folders and are deleted; sub-agents write
beside them, files are cut short and rewritten; the daemon is stopped and killed at any moment.
At every pause the list has to be what the oracle, which never read a file, says it is, the
index whole, and neither memory nor descriptors have grown.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from tests.daemon import Daemon, Home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fixtures.transcripts import Claude, Codex

FOLDERS = [f"/srv/{name}" for name in ("shop", "shop/api", "mobile", "日本", "a b")]
MOST = 2000
"""Sessions at most: an answer has 10,000 rows, and more would only make each comparison slower."""
BRANCHES = ["main", "fix/cart", "feat/検索", "v1.0"]


@dataclass
class Expected:
    """A session as the list should show it."""

    writer: Claude | Codex
    path: Path
    title: str
    cwd: str
    branch: str
    written: int
    """Lines of the writer that are in the file."""
    deleted: bool = False
    seen: bool = False
    """The list had it once; what was deleted before that may never be known."""


class Life:
    """A home in use, and what the oracle expects of it."""

    def __init__(self, seed: int) -> None:
        self.home = Home()
        self.random = random.Random(seed)
        self.sessions: list[Expected] = []
        self.daemon = Daemon(self.home)
        self.done: dict[str, int] = {}
        self.kills = 0

    def end(self) -> None:
        self.daemon.kill()
        self.home.remove()

    def act(self) -> None:
        """Do one thing that a person or an agent does."""
        choices: list[tuple[int, Callable[[], None]]] = [
            (5, self.begin),
            (20, self.go_on),
            (4, self.rename),
            (2, self.move),
            (2, self.delete),
            (2, self.delegate),
            (2, self.compact),
            (1, self.rewrite),
            (2, self.search),
        ]
        (action,) = self.random.choices([action for _, action in choices], [weight for weight, _ in choices])
        action()
        self.done[action.__name__] = self.done.get(action.__name__, 0) + 1

    def any(self, kind: str = "") -> Expected | None:
        """Return a session that is there, of that agent."""
        there = [one for one in self.sessions if not one.deleted and kind in type(one.writer).__name__]
        return self.random.choice(there) if there else None

    def begin(self) -> None:
        if len(self.sessions) >= MOST:
            return
        number, cwd, branch = len(self.sessions), self.random.choice(FOLDERS), self.random.choice(BRANCHES)
        make = self.home.claude_session if self.random.random() < 0.6 else self.home.codex_session
        writer, path = make(f"session {number}", cwd, branch)
        self.sessions.append(Expected(writer, path, f"session {number}", cwd, branch, len(writer.lines)))

    def go_on(self) -> None:
        if one := self.any():
            one.writer.now = max(one.writer.now, self.home.now) + self.random.randrange(1, 5000)
            if "Claude" in type(one.writer).__name__ and self.random.random() < 0.2:
                one.branch = one.writer.branch = self.random.choice(BRANCHES)
            one.writer.turn(f"prompt {self.random.random()}", tools=self.random.randrange(4))
            self.flush(one)

    def rename(self) -> None:
        if one := self.any("Claude"):
            one.title = one.writer.custom_title = f"renamed {self.random.randrange(10**6)}"
            one.writer.metadata()
            self.flush(one)

    def compact(self) -> None:
        if one := self.any("Claude"):
            one.writer.fill(200_000)
            self.flush(one)

    def move(self) -> None:
        if one := self.any("Claude"):
            target = one.path.parent.with_name(f"-moved-{self.random.randrange(5)}")
            target.mkdir(exist_ok=True)
            one.path = one.path.rename(target / one.path.name)

    def delete(self) -> None:
        if one := self.any():
            one.path.unlink()
            one.deleted = True

    def delegate(self) -> None:
        """Have a sub-agent write beside a session, flat or in a folder of its own."""
        if one := self.any("Claude"):
            folder = self.random.choice([one.path.parent, one.path.with_suffix("") / "subagents"])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"agent-{self.random.getrandbits(64):016x}.jsonl").write_bytes(one.writer.lines[-1])

    def rewrite(self) -> None:
        """Replace a file by a copy, as redaction tools do."""
        if one := self.any():
            copy = one.path.with_name("copy.tmp")
            copy.write_bytes(one.path.read_bytes())
            copy.rename(one.path)

    def search(self) -> None:
        self.daemon.find(self.random.choice(["session", "renamed", "fix", "検索", "zz", "e", "-main", "app:codex"]))

    def flush(self, one: Expected) -> None:
        """Append what the writer has and the file has not, now and then torn in the middle of a line."""
        data = b"".join(one.writer.lines[one.written :])
        one.written = len(one.writer.lines)
        cut = self.random.randrange(len(data) + 1) if self.random.random() < 0.3 else len(data)
        for part in (data[:cut], data[cut:]):
            with one.path.open("ab") as file:
                file.write(part)

    def restart(self) -> None:
        """Stop or kill the daemon, and start it again."""
        if self.random.random() < 0.3:
            assert self.daemon.stop() == 0
        else:
            self.daemon.kill()
            self.kills += 1
        self.verify_index()
        self.daemon.start()

    def verify_index(self) -> None:
        """Check the index as it lies there, as after a power cut of the process."""
        db = apsw.Connection(str(self.daemon.index))
        assert db.pragma("integrity_check") == "ok"
        db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
        db.close()

    def verify_list(self) -> None:
        """Compare every row with the oracle."""
        self.daemon.sync()
        rows = {row["id"]: row for row in self.daemon.find(limit=10_000, all=True)}
        for one in self.sessions:
            row = rows.pop(one.writer.id, None)
            if row is None and one.deleted and not one.seen:
                continue
            assert row is not None, (one, self.log())
            one.seen = True
            if one.deleted:
                # What it last said may have gone with it, unread.
                assert row["hidden"] == "deleted"
                continue
            got = (row["title"], row["cwd"], row["branch"], row["hidden"])
            assert got == (one.title, one.cwd, one.branch, None), (one.path, got)
            assert row["path"] == str(one.path)
            assert row["bytes"] == one.path.stat().st_size
        assert not rows
        assert self.daemon.ask("status")["unreadable"] == 0

    def log(self) -> str:
        return self.daemon.log.read_text()

    def footprint(self) -> tuple[int, int]:
        """Return resident KiB and open descriptors of the daemon."""
        pid = self.daemon.process.pid
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        return resident, len(os.listdir(f"/proc/{pid}/fd"))

    def spend(self, acts: int) -> tuple[int, int]:
        """Return the footprint of the daemon after so many *acts*."""
        for _ in range(acts):
            self.act()
        self.verify_list()
        return self.footprint()


def live(seconds: float, kills: int, seed: int, acts: int = 60) -> Life:
    """Live for *seconds* and at least until *kills*; return the life, which the caller ends."""
    life = Life(seed)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or life.kills < kills:
        # A kill meets the daemon in the middle of a few things, or of many.
        for _ in range(life.random.randrange(1, 2 * acts)):
            life.act()
        if life.random.random() < 0.7:
            # Without waiting: whatever the daemon is doing now is cut off.
            life.restart()
        life.verify_list()
    return life


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    life = live(options.minutes * 60, options.kills, options.seed)
    try:
        # The daemon was just started: the first turn is what it takes, the second what it leaves behind.
        before, after = life.spend(1000), life.spend(2000)
        errors = [line for line in life.log().splitlines() if " ERROR " in line]
        print(f"{len(life.sessions)} sessions, {sum(life.done.values())} acts {life.done}, {life.kills} kills, 0 lost")
        print(f"resident {before[0]} to {after[0]} KiB, descriptors {before[1]} to {after[1]}, {len(errors)} errors")
        assert not errors, errors
        assert after[1] <= before[1] + 5
        assert after[0] <= before[0] * 1.25
    finally:
        life.end()


if __name__ == "__main__":
    main()
