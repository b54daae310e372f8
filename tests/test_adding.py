"""The guide to adding an agent: its example is an app that works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sessiond import text
from sessiond.apps import _jsonl, _store, _transcripts
from sessiond.apps._transcripts import Transcripts
from sessiond.apps.base import App, Modes
from sessiond.session import Session, Settings
from tests.apps.reader import Reader

GUIDE = Path(__file__).parent.parent / "docs" / "adding-an-agent.md"
ID = "0f7a1c62-7d0e-4b8e-9d55-3d1f0a6c2b11"
META = {"time": "2026-11-30T10:00:00Z", "cwd": "/home/ana/src/shop"}
ASKED = {"time": "2026-11-30T10:00:05Z", "role": "user", "text": "why is CI red?"}
ANSWER = {"time": "2026-11-30T10:01:00Z", "role": "assistant", "model": "corvid-2", "text": "a test is flaky"}
AGAIN = {"time": "2026-11-30T10:02:00Z", "role": "user", "text": "mend it"}


@pytest.fixture
def magpie() -> App:
    """The app of the guide."""
    code = re.search(r"(?s)```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"))
    assert code
    names: dict[str, Any] = {"__name__": "magpie"}
    exec(compile(code[1], str(GUIDE), "exec"), names)
    app: App = names["Magpie"]()
    return app


def put(root: Path, *records: object) -> None:
    path = root / "sessions" / f"{ID}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(record if isinstance(record, str) else json.dumps(record) + "\n" for record in records))


def test_the_example_reads_its_store(magpie: App, tmp_path: Path) -> None:
    put(tmp_path, META, ASKED, ANSWER, AGAIN)
    (tmp_path / "sessions" / "notes.txt").write_text("never opened")
    reader = Reader(magpie, tmp_path)
    row = reader.row(ID)
    assert (row.title, row.cwd, row.launch_dir, row.model) == ("why is CI red?", META["cwd"], META["cwd"], "corvid-2")
    assert row.created
    assert row.updated == row.created + 120_000
    assert row.hidden is None
    assert magpie.prompts(row) == ("why is CI red?", "mend it")
    assert magpie.launch(row, Settings(), fork=False, folder=None) == ["magpie", "--resume", ID]
    assert magpie.roots({"MAGPIE_HOME": "/srv/nest", "HOME": "/home/ana"}) == ["/srv/nest"]


@pytest.mark.parametrize(
    ("records", "hidden"),
    [([META | {"parent": "x"}, ASKED], "subagent"), ([META], "empty"), ([], "empty"), (["{torn", "\0\0"], "empty")],
)
def test_the_example_hides_what_is_not_for_people(
    magpie: App, tmp_path: Path, records: list[object], hidden: str
) -> None:
    put(tmp_path, *records)
    assert Reader(magpie, tmp_path).row(ID).hidden == hidden


def test_what_the_guide_names_exists() -> None:
    """Its files, and what it says of an app: an attribute, a helper, or a column of a row."""
    prose = re.sub(r"(?s)```.*?```", "", GUIDE.read_text(encoding="utf-8"))
    named = set(re.findall(r"`([^`\s]+)`", prose))
    top = GUIDE.parent.parent
    files = {name for name in named if name.endswith(".py") and "NAME" not in name}
    assert {name for name in files if not any(top.glob(f"**/{name}"))} == set()
    known = {name for place in (Transcripts, Modes, Session, _jsonl, _store, _transcripts, text) for name in dir(place)}
    known |= {*Session.__annotations__, *App.__annotations__, "database", "id", "plan", "make", "EVERY"}
    words = {name for name in named if re.fullmatch(r"[A-Za-z_]+", name)}
    assert words - known - {"NAME", "_"} == set()
