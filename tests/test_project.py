"""The project around the code: what its documents promise, checked against what is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sessiond
from sessiond import connection, follow, query, server, service, text
from sessiond.apps import _claude_transcript
from sessiond.protocol import EXITS, MAX_REQUEST
from sessiond.search import ROW

if TYPE_CHECKING:
    from tests.daemon import Daemon

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def ours() -> list[Path]:
    """Return the files of the project: those of git, or all of them where there is no git."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    if (ROOT / ".git").exists():
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]


def anchors(document: Path) -> set[str]:
    """Return the fragments that point into *document*, as GitHub makes them of its headings."""
    headings = re.findall(r"(?m)^#+ (.+)$", document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    """A link to a file of the project, with or without a fragment, names one that is there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, fragment = target.partition("#")
        path = document.parent / name if name else document
        assert path.exists(), f"{document.name} links to {target}"
        if fragment:
            assert fragment in anchors(path), f"{document.name} links to {target}"


def test_the_newest_version_in_the_changelog_is_the_one_in_the_code() -> None:
    """Whoever looks up what changed finds the version that ``sess --version`` prints."""
    released = re.findall(r"(?m)^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert released[0] == sessiond.__version__


def test_every_module_has_its_place_on_the_map() -> None:
    """Whoever opens docs/architecture.md finds what each file of the two packages is for."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for module in [*ROOT.glob("sessiond/*.py"), *ROOT.glob("cli/sess/*.py")]:
        assert module.name.startswith("__") or f"{module.name}`" in page, module.name


def test_the_protocol_page_names_all_that_goes_over_the_wire(daemon: Daemon) -> None:
    """Every operation, key of a row, key of the status, error and its exit code stands in docs/protocol.md."""
    page = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    operations = daemon.answers("no such op")[-1]["error"]["hint"].removeprefix("One of: ").split()
    for name in [*operations, *daemon.ask("status"), *ROW]:
        assert f"`{name}`" in page, name
    for code, number in EXITS.items():
        assert f"| `{code}` | {number} |" in page


LIMITS = {
    "bytes of a request": MAX_REQUEST,
    "seconds from a request's first byte to its last": connection.REQUEST_DEADLINE,
    "seconds for which an answer may stand still, unread": connection.REQUEST_DEADLINE,
    "bytes unread": server.MAX_UNREAD,
    "seconds without a request": connection.IDLE_DEADLINE,
    "connections": server.MAX_CONNECTIONS,
    "requests that wait, worked on at one time": server.MAX_WORKERS,
    "followers": follow.MOST,
    "`limit`": service.MAX_LIMIT,
    "`timeout_ms`": service.MAX_WAIT,
    "characters of a query": query.MAX_QUERY,
    "words of a query": query.MAX_TERMS,
    "filters in `excluded_by`": service.MAX_REASONS,
    "characters of a title": text.TITLE_LENGTH,
    "characters of a prompt": _claude_transcript.PROMPT,
    "seconds for a file system to answer": service.PATIENCE,
}


def test_the_protocol_page_has_the_limits_that_are_in_force() -> None:
    """Each by its number, all of them, and what is beyond it."""
    page = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    table = page[page.index("### Limits") : page.index("## Relay")]
    rows = re.findall(r"(?m)^\| (.+) \| ([\d,]+) \| .+ \|$", table)
    assert {name: int(number.replace(",", "")) for name, number in rows} == LIMITS


@pytest.mark.parametrize("command", ["try", "test"])
def test_the_two_commands_of_the_readme_are_there(command: str) -> None:
    """They are named as they are typed, and can be typed so."""
    assert re.search(rf"(?m)^\./{command}\b", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert os.access(ROOT / command, os.X_OK)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    """What a newcomer runs is what decides."""
    assert re.search(r"(?m)^\./test$", (ROOT / ".ci/run").read_text(encoding="utf-8"))


def test_ci_installs_every_program_that_a_test_needs() -> None:
    """A test that needs a program nobody installs would fail there and be skipped everywhere else."""
    installed = set(re.findall(r"([\w-]+):[\w-]+", (ROOT / ".ci/run").read_text(encoding="utf-8")))
    for path in (ROOT / "tests").rglob("*.py"):
        for arguments in re.findall(r"mark\.needs\(([^)]*)\)", path.read_text(encoding="utf-8")):
            assert set(re.findall(r'"([^"]+)"', arguments)) <= installed, path


def test_no_file_names_a_folder_of_the_machine_it_was_made_on() -> None:
    """A path like that means nothing to anybody else."""
    stray = re.compile(rb"(?<![\w.$}~])/(?:work|root)/")
    assert [path for path in ours() if stray.search(path.read_bytes())] == []


@pytest.mark.parametrize("name", ["try", "test"])
def test_an_old_python_is_told_so(name: str) -> None:
    """The check of the version comes before anything that an old Python cannot read."""
    code = f"import sys; sys.version_info = (3, 8); sys.argv = ['{name}']; exec(open('{name}').read())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
