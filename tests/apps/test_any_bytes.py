"""Whatever is in a file, reading it gives facts, none, or a counted problem; and never an exception."""

from __future__ import annotations

import json
import os
import random
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond.apps import APPS
from sessiond.reading import Job, read
from sessiond.session import Previous
from tests import fuzz, samples
from tests.samples import SAMPLES, in_two_steps, outcome

if TYPE_CHECKING:
    from sessiond.session import Scan, Unit

MEMORY, SECONDS = 16 << 20, 0.05
"""What reading a unit may take, whatever it is made of."""


@pytest.fixture(params=SAMPLES, ids=samples.name)
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
    rng = random.Random(seed)
    content = samples.damaged(sample[1], rng)
    in_two_steps(sample[0], content, rng.randrange(len(content) + 1))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32))
def test_values_of_another_type_are_read(sample: tuple[Unit, bytes], seed: int) -> None:
    """Any value of any record may be anything that JSON has, and a key may come twice."""
    unit, content = sample
    odd = samples.with_odd_values(samples.plain(unit, content), random.Random(seed))
    outcome(unit, samples.packed(unit, odd))


def is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


LINED = [sample for sample in SAMPLES if all(map(is_record, samples.plain(*sample).splitlines()))]
"""The units of which every line is a record."""


@pytest.mark.parametrize("sample", LINED, indirect=True, ids=samples.name)
@pytest.mark.parametrize(
    "end", [b"\r\n", b"\n\n", b"\n\xef\xbb\xbf", b"\n\0\0\0", b"\n\x80\xff\n", b"\n42\n", b"", b"\t"]
)
def test_lines_may_end_and_begin_as_they_like(sample: tuple[Unit, bytes], end: bytes) -> None:
    """CRLF, a BOM before each, NUL, bytes that are no UTF-8, a value between; several objects on one line."""
    unit, content = sample
    whole = outcome(unit, content)
    odd = samples.packed(unit, samples.plain(unit, content).replace(b"\n", end) + b"\n")
    assert outcome(unit, odd).facts.keys() == whole.facts.keys()


def test_the_search_for_findings_runs() -> None:
    """`python -m tests.fuzz` goes on for longer, guided by coverage; here its samples and a second of chance."""
    for data in fuzz.seeds(random.Random(1)):
        fuzz.try_one(data)
    assert fuzz.at_random(1, seed=1) > 100


HUGE = {
    "long line": b'{"a":"' + b"x" * 13_000_000 + b'"}\n',
    "long head": (b'{"a":"' + b"x" * 255 * 1024 + b'"}\n') * 80,
    "nesting": b"[" * 1_000_000,
    "deep objects": b'{"a":' * 300_000 + b"1",
    "braces": (b"{" * 250_000 + b"\n") * 20,
    "NUL": b"\0" * 100_000_000,
    "many lines": b"{}\n" * 500_000,
    "many objects": b'{"a":1}' * 500_000 + b"\n",
    "many keys": b"{" + b",".join(b'"%d":{}' % n for n in range(60_000)) + b"}\n",
    "digits": b'{"type":"user","a":' + b"9" * 200_000 + b"}\n",
    "escapes": b'{"type":"user","message":{"content":"' + b"\\u0041" * 2_000_000,
    "needles": b'"custom-title"' * 200_000,
    "titles": b'{"type":"custom-title","customTitle":"x","sessionId":"z"}\n' * 100_000,
    "names": b'{"id":"019ae8a0-0000-7000-8000-000000000000","thread_name":"x"}\n' * 100_000,
    "prompts": b'{"type":"user","isMeta":true,"message":{"role":"user","content":"x"}}\n' * 100_000,
}


@pytest.mark.parametrize("content", HUGE.values(), ids=HUGE)
def test_a_unit_takes_little_memory_and_time(sample: tuple[Unit, bytes], content: bytes) -> None:
    """At most 16 MiB and 50 ms of processor time for each look, whatever it is made of."""
    unit, _ = sample
    Path(unit.path).write_bytes(samples.packed(unit, content))
    stat = APPS[unit.app].stat(unit)

    def look(previous: Previous | None) -> Scan | None:
        scan = read(APPS[unit.app], Job(unit, stat, previous))
        assert scan is None or not samples.INTERNAL.fullmatch(scan.problem), scan.problem
        return scan

    previous = None
    for _ in range(2):
        # Another process may be served from the same caches: the quickest of a few is what it costs.
        costs = []
        while not costs or (min(costs) >= SECONDS and len(costs) < 20):
            begin = time.process_time()
            scan = look(previous)
            costs.append(time.process_time() - begin)
        assert min(costs) < SECONDS
        tracemalloc.start()
        look(previous)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MEMORY
        if scan is None or scan.complete:
            break
        previous = Previous(stat, scan.facts, complete=False)
