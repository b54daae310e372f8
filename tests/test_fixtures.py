"""The homes that tests, demo and benchmarks use are what they say they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fixtures import corpus, home
from tests.daemon import Daemon, Home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fixtures.transcripts import Sample

NOW = 1_790_000_000_000
"""A time for homes of which nobody asks how old they are."""


@pytest.fixture
def person() -> Iterator[Home]:
    person = Home()
    yield person
    person.remove()


def rows(person: Home) -> dict[str, dict[str, Any]]:
    """Return what a daemon finds in the person's home, in its order, by id."""
    daemon = Daemon(person)
    try:
        daemon.sync()
        return {row["id"]: row for row in daemon.find(all=True, limit=1000)}
    finally:
        daemon.stop()


def check(row: dict[str, Any], sample: Sample) -> None:
    for key in ("app", "title", "cwd", "branch", "hidden", "path"):
        assert row[key] == getattr(sample, key), (key, sample)
    # The last record of a transcript is not always one that counts as activity.
    assert abs(row["updated"] - sample.updated) < 2000, sample


def test_the_sample_home_is_found_as_it_was_meant(person: Home) -> None:
    """Every session of it shows the title, folder, branch and hidden reason that it was written with."""
    samples = home.make(str(person.path))
    found = rows(person)
    for sample in samples:
        check(found[sample.id], sample)
    assert len(found) == len(samples)


def test_a_corpus_is_found_as_it_was_meant(person: Home) -> None:
    """Small files, files with a hole and files of 2 GB: head and tail of all are real."""
    samples = corpus.make(str(person.path), sessions=80, median_mb=0.8, share_2gb=0.1, cjk=0.3, subagents=40)
    found = rows(person)
    for sample in samples:
        check(found[sample.id], sample)
    listed = [row["id"] for row in found.values() if row["hidden"] is None]
    assert listed == [sample.id for sample in samples]


def test_a_corpus_of_short_transcripts_is_found_as_it_was_meant(person: Home) -> None:
    """One turn each, of 1 to 3 KB, so that 100,000 of them are written in seconds."""
    samples = corpus.make(str(person.path), sessions=80, tail_kb=0, cjk=0.3)
    found = rows(person)
    for sample in samples:
        check(found[sample.id], sample)
        assert 1000 < os.path.getsize(sample.path) < 4000
    assert list(found) == [sample.id for sample in samples]


def test_a_corpus_takes_little_room(tmp_path: Path) -> None:
    """A file of 2 GB takes less than 1 MB on disk, so that a home of hundreds of GB fits a laptop."""
    samples = corpus.make(str(tmp_path), sessions=4, share_2gb=1)
    for sample in samples:
        stat = os.stat(sample.path)
        assert stat.st_size == 2 << 30
        assert stat.st_blocks * 512 < 1 << 20


@pytest.mark.parametrize(
    "make",
    [
        home.make,
        lambda path, now: corpus.make(path, sessions=5, subagents=5, now=now),
        lambda path, now: corpus.make(path, sessions=5, tail_kb=0, now=now),
    ],
)
def test_the_same_request_gives_the_same_home(make: Any, tmp_path: Path) -> None:
    """A failure found on a generated home can be looked at again."""

    def content() -> dict[Path, bytes]:
        make(str(tmp_path), NOW)
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert content() == content()


@pytest.mark.parametrize(("ci", "code", "word"), [("true", 1, "ERROR"), ("", 0, "SKIPPED")])
def test_a_missing_program_is_visible_and_fails_ci(tmp_path: Path, ci: str, code: int, word: str) -> None:
    """The marker skips with the program's name where somebody works, and fails where it decides."""
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.needs('no-such-program')\ndef test(): pass\n")
    env = os.environ | {"CI": ci, "PYTHONPATH": str(Path(__file__).parent), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-c", os.devnull, "-ra", str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert word in done.stdout
    assert "needs no-such-program" in done.stdout
