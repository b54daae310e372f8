"""Search for bytes that a reader or the query language stumbles over: ``python -m tests.fuzz --seconds 60``.

With atheris (``pip install atheris``) the search is guided by coverage; without it, the samples are damaged
at random. The corpus is a unit of every kind, whole and damaged, and what people type. What is found is
printed with the seed or left as a file ``crash-*`` in the current folder, and ends the search.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

try:
    import atheris
except ImportError:
    atheris = None

if atheris:
    with atheris.instrument_imports(include=["sessiond"]):
        from sessiond import query, text
        from tests import samples
else:
    from sessiond import query, text
    from tests import samples

NOW = 1_790_000_000.0
LARGEST = 1 << 16
"""Bytes of an input: enough for every rule of a reader but its limits, which have tests of their own."""
READ = 192
"""First bytes that choose a sample to read, and where it is cut; the others choose the query language."""
QUERIES = [
    'app:codex branch:fix -"two words" cart',
    "since:2d until:2026-11-30T12:00 is:live -is:archived is:hidden",
    "title:検索 cwd:/srv store:x id:84cd -",
    'since:99999mo until:0001-01-01 "',
    "since:9999-12-31 until:today yesterday",
]
WORDS = [
    *(f'"{key}"' for key in ("type", "cwd", "gitBranch", "sessionId", "timestamp", "message", "content", "payload")),
    *(f'"{key}"' for key in ("customTitle", "aiTitle", "isSidechain", "session_meta", "turn_context", "event_msg")),
    *('"id"', '"thread_name"', '"role"', '"user"', '"text"', '"model"', "since:", "until:", "is:", "null", "\\\\ud800"),
]


def try_one(data: bytes) -> None:
    """Have what the first byte chooses read the other ones; an AssertionError or another exception is a finding."""
    number, content = data[0] if data else 0, data[1:]
    if number < READ:
        unit, _ = samples.SAMPLES[number % len(samples.SAMPLES)]
        os.makedirs(os.path.dirname(unit.path), exist_ok=True)
        samples.in_two_steps(unit, content, len(content) * (number // len(samples.SAMPLES)) // 8)
        return
    typed = content.decode("utf-8", "surrogateescape" if number % 2 else "replace")
    found = query.parse(typed, NOW)
    assert len(found.terms) <= query.MAX_TERMS
    for term in found.terms:
        term.text.encode()
    query.when(typed, NOW, end=number % 4 > 1)
    shown = text.clean(typed)
    assert text.clean(shown) == shown
    assert shown.isprintable() or not shown.isascii()
    text.storable(typed).encode()


def seeds(rng: random.Random) -> list[bytes]:
    """Return inputs to begin with."""
    found = [bytes([READ + n]) + typed.encode() for n, typed in enumerate(QUERIES)]
    for n, (_, content) in enumerate(samples.SAMPLES):
        content = content[: LARGEST - 1]
        found += [
            bytes([n]) + content,
            bytes([n + (READ // len(samples.SAMPLES) - 1) * len(samples.SAMPLES)]) + samples.damaged(content, rng),
        ]
        if not content.startswith(b"SQLite"):
            found.append(bytes([n]) + samples.with_odd_values(content, rng))
    return found


def at_random(seconds: float, seed: int) -> int:
    """Try damaged samples for *seconds*; return how many."""
    rng, tried, end = random.Random(seed), 0, time.monotonic() + seconds
    begin = seeds(rng)
    while time.monotonic() < end:
        data = rng.choice(begin)
        try_one(data[:1] + samples.damaged(data[1:], rng))
        tried += 1
    return tried


def guided(seconds: int, seed: int) -> None:
    """Have libFuzzer search for *seconds*; it ends the process."""
    with tempfile.TemporaryDirectory(prefix="sess-fuzz-") as folder:
        for n, data in enumerate(seeds(random.Random(seed))):
            Path(folder, f"seed-{n}").write_bytes(data)
        words = Path(samples.FOLDER.name, "words")
        words.write_text("".join('"' + word.replace('"', '\\"') + '"\n' for word in WORDS))
        limits = [
            "-print_final_stats=1",
            f"-max_total_time={seconds}",
            f"-max_len={LARGEST}",
            "-timeout=10",
            "-rss_limit_mb=1024",
        ]
        atheris.Setup([sys.argv[0], folder, f"-dict={words}", f"-seed={seed}", *limits], try_one)
        atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    if atheris:
        guided(options.seconds, options.seed)
    else:
        print(f"without atheris, seed {options.seed}: {at_random(options.seconds, options.seed)} inputs, 0 findings")


if __name__ == "__main__":
    main()
