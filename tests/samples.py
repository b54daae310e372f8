"""A unit of every kind that is read, and what has to hold for whatever bytes lie in its place."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fixtures import home as sample_home
from sessiond.apps import APPS
from sessiond.reading import Job, read
from sessiond.session import Part, Previous, Scan, Session, Unit

if TYPE_CHECKING:
    import random

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

INTERNAL = re.compile(r"\w+ in \w+\.py:\d+")
"""How an exception of our own is noted; the operating system's reasons look otherwise."""
RECORDED = Path(__file__).parent.parent / "fixtures/recordings/codex/0.171.0/state_5.sqlite"
FOLDER = tempfile.TemporaryDirectory(prefix="sess-samples-")
"""Removed when the process ends."""


def _samples(folder: str) -> list[tuple[Unit, bytes]]:
    """Return a unit of every kind with its content: from a sample home, a recorded database, a compressed rollout."""
    sample_home.make(folder, now=1_790_000_000_000)
    live = {"pid": os.getpid(), "sessionId": "0b7a3a52-7f0c-4d53-9f5e-1d2c3b4a5968", "procStart": "1", "status": "busy"}
    Path(folder, ".claude", "sessions").mkdir(exist_ok=True)
    Path(folder, ".claude", "sessions", f"{os.getpid()}.json").write_text(json.dumps(live))
    shutil.copyfile(RECORDED, f"{folder}/.codex/state_5.sqlite")
    rollout = next(Path(folder, ".codex", "sessions").rglob("rollout-*.jsonl"))
    Path(f"{rollout}.zst").write_bytes(zstd.compress(rollout.read_bytes()))
    rollout.unlink()
    found: dict[tuple[str, str, str], tuple[Unit, bytes]] = {}
    for app in APPS.values():
        for root in app.roots({"HOME": folder}):
            for unit, _ in app.units(root, lambda path, error: None):
                key = (app.name, unit.kind, os.path.splitext(unit.path)[1])
                found.setdefault(key, (unit, Path(unit.path).read_bytes()))
    # In one order in every worker of pytest-xdist: that of a listing depends on the names, and they on the folder.
    return [sample for _, sample in sorted(found.items())]


SAMPLES = _samples(FOLDER.name)


def name(sample: tuple[Unit, bytes]) -> str:
    """Return what tells *sample* from the others."""
    unit, _ = sample
    return f"{unit.app}-{unit.kind}" + (".zst" if unit.path.endswith(".zst") else "")


def outcome(unit: Unit, content: bytes, previous: Previous | None = None) -> Scan:
    """Read *content* in the place of *unit*, and merge what it says; return the scan."""
    Path(unit.path).write_bytes(content)
    app = APPS[unit.app]
    stat = app.stat(unit)
    scan = read(app, Job(unit, stat, previous))
    assert scan is not None
    assert not INTERNAL.fullmatch(scan.problem), scan.problem
    for key, facts in scan.facts.items():
        json.dumps(facts)
        row = app.merge(key, [Part(unit, stat, facts, gone=False)])
        assert row is None or isinstance(row, Session)
        if row:
            assert isinstance(row.title, str)
            assert isinstance(row.updated, int)
            assert abs(row.updated) < 1 << 63
            for value in (row.cwd, row.branch, row.launch_dir, row.model, row.effort, row.approval, row.sandbox):
                assert value is None or isinstance(value, str)
    return scan


def plain(unit: Unit, content: bytes) -> bytes:
    """Return *content* unpacked, if *unit* is packed."""
    return zstd.decompress(content) if unit.path.endswith(".zst") else content


def packed(unit: Unit, content: bytes) -> bytes:
    """Return *content* as *unit* would have it."""
    return zstd.compress(content) if unit.path.endswith(".zst") else content


def in_two_steps(unit: Unit, content: bytes, cut: int) -> None:
    """Read *content* up to *cut*, and again when the rest was appended, as a file grows."""
    first = outcome(unit, content[:cut])
    previous = Previous(APPS[unit.app].stat(unit), first.facts, first.complete)
    outcome(unit, content, previous)


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return *content* with bytes changed, lost and doubled, and runs of NUL."""
    result = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        at, length = rng.randrange(len(result) + 1), rng.choice([1, 2, 50, 3000])
        result[at : at + length] = rng.choice(
            [b"", b"\0" * length, rng.randbytes(length), b"\n", b'{"', content[:length]]
        )
    return bytes(result)


ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1e308,
    float("nan"),
    float("inf"),
    10**400,
    1 << 63,
    "",
    "\0",
    "\ud800",
    "x" * 5000,
    [],
    [[]],
    {},
    {"a": {}},
    "-rf",
    "\x1b[31m",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59.999-23:59",
]
"""Values that no release writes where it is read, times at the ends of the calendar among them."""


def disturb(value: Any, rng: random.Random) -> None:
    """Replace one value in ten, somewhere in *value*, by an odd one, or repeat it under another's key."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in items:
        if rng.random() < 0.1:
            value[key] = rng.choice(ODD)
        else:
            disturb(inner, rng)


def with_odd_values(content: bytes, rng: random.Random) -> bytes:
    """Return *content* with values of any type in the records of its lines, some keys twice."""
    lines = []
    for line in content.split(b"\n"):
        try:
            record = json.loads(line)
        except ValueError:
            lines.append(line)
            continue
        whole = json.dumps(record)
        disturb(record, rng)
        odd = json.dumps(record)
        twice = rng.random() < 0.2 and isinstance(record, dict) and record
        lines.append((f"{whole[:-1]}, {odd[1:]}" if twice else odd).encode())
    return b"\n".join(lines)
