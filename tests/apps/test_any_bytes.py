"""Whatever is in a file, reading it gives facts, none, or a counted problem; and never an exception."""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures import home as sample_home
from sessiond.apps import APPS
from sessiond.reading import Job, read
from sessiond.session import Part, Previous, Scan, Session, Unit

INTERNAL = re.compile(r"\w+ in \w+\.py:\d+")
"""How an exception of our own is noted; the operating system's reasons look otherwise."""


FOLDER = tempfile.TemporaryDirectory(prefix="sess-samples-")
"""Removed when the test process ends."""


def _samples(folder: str) -> list[tuple[Unit, bytes]]:
    """Return a unit of every kind that the sample home in *folder* has, with its content."""
    sample_home.make(folder, now=1_790_000_000_000)
    found: dict[tuple[str, str], tuple[Unit, bytes]] = {}
    for app in APPS.values():
        for root in app.roots({"HOME": folder}):
            for unit, _ in app.units(root, lambda path, error: None):
                found.setdefault((app.name, unit.kind), (unit, Path(unit.path).read_bytes()))
    return list(found.values())


SAMPLES = _samples(FOLDER.name)
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1e308,
    10**400,
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
]


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
            for value in (row.cwd, row.branch, row.launch_dir, row.model, row.effort, row.approval, row.sandbox):
                assert value is None or isinstance(value, str)
    return scan


@pytest.fixture(params=SAMPLES, ids=lambda sample: f"{sample[0].app}-{sample[0].kind}")
def sample(request: pytest.FixtureRequest) -> tuple[Unit, bytes]:
    unit, content = request.param
    os.makedirs(os.path.dirname(unit.path), exist_ok=True)
    return unit, content


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=2000))
def test_any_bytes_are_read(sample: tuple[Unit, bytes], content: bytes) -> None:
    outcome(sample[0], content)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32))
def test_damaged_files_are_read(sample: tuple[Unit, bytes], seed: int) -> None:
    """Bytes changed, lost, doubled, cut; NUL runs; and then the file goes on growing from there."""
    unit, content = sample
    rng = random.Random(seed)
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        at, length = rng.randrange(len(damaged) + 1), rng.choice([1, 2, 50, 3000])
        damaged[at : at + length] = rng.choice(
            [b"", b"\0" * length, rng.randbytes(length), b"\n", b'{"', content[:length]]
        )
    whole = bytes(damaged)
    cut = rng.randrange(len(whole) + 1)
    first = outcome(unit, whole[:cut])
    previous = Previous(APPS[unit.app].stat(unit), first.facts, first.complete)
    with open(unit.path, "ab") as file:
        file.write(whole[cut:])
    scan = read(APPS[unit.app], Job(unit, APPS[unit.app].stat(unit), previous))
    assert scan is not None
    assert not INTERNAL.fullmatch(scan.problem), scan.problem


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32))
def test_values_of_another_type_are_read(sample: tuple[Unit, bytes], seed: int) -> None:
    """Any value of any record may be anything that JSON has."""
    unit, content = sample
    if unit.kind == "database":
        pytest.skip("its columns are tested with the database")
    rng = random.Random(seed)
    lines = []
    for line in content.split(b"\n"):
        try:
            record = json.loads(line)
        except ValueError:
            lines.append(line)
            continue
        _disturb(record, rng)
        lines.append(json.dumps(record).encode())
    outcome(unit, b"\n".join(lines))


def _disturb(value: Any, rng: random.Random) -> None:
    """Replace one value in ten, somewhere in *value*, by an odd one."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in items:
        if rng.random() < 0.1:
            value[key] = rng.choice(ODD)
        else:
            _disturb(inner, rng)


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":"' + b"x" * 13_000_000 + b'"}\n',
        (b'{"a":"' + b"x" * 255 * 1024 + b'"}\n') * 80,
        b"[" * 1_000_000,
        b'{"a":' * 300_000 + b"1",
        b"\0" * 3_000_000,
        b"{}\n" * 500_000,
        b'{"type":"user","message":{"content":"' + b"\\u0041" * 2_000_000,
        b'"custom-title"' * 200_000,
    ],
    ids=["long line", "long head", "nesting", "deep objects", "NUL", "many lines", "escapes", "needles"],
)
def test_a_unit_takes_little_memory(sample: tuple[Unit, bytes], content: bytes) -> None:
    """At most 16 MiB, whatever it is made of."""
    unit, _ = sample
    Path(unit.path).write_bytes(content)
    stat = APPS[unit.app].stat(unit)
    tracemalloc.start()
    scan = read(APPS[unit.app], Job(unit, stat, None))
    if scan and not scan.complete:
        scan = read(APPS[unit.app], Job(unit, stat, Previous(stat, scan.facts, complete=False)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert scan is None or not INTERNAL.fullmatch(scan.problem), scan.problem
    assert peak < 16 << 20
