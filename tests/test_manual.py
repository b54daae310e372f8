"""What people look commands up in is what the commands say of themselves."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from sessiond.protocol import EXITS
from tools import manual

ROOT = Path(__file__).parent.parent
READ = re.compile(r"""(?:env(?:iron)?(?:\.get\(|\[)|folder\(|env_path\()\s*["'](SESS_[A-Z_]+|NO_COLOR)["']""")


@pytest.mark.parametrize(
    ("path", "text"), manual.pages(), ids=lambda value: value.name if isinstance(value, Path) else ""
)
def test_a_page_is_what_the_parsers_make_of_it(path: Path, text: str) -> None:
    """After a change of an option: ``python -m tools.manual``."""
    assert path.read_text(encoding="utf-8") == text


def test_every_exit_code_is_explained() -> None:
    assert set(EXITS.values()) <= set(manual.EXITS)


def test_every_variable_that_is_read_is_explained() -> None:
    """Those of the daemon and the client; what the shell code sets is on the page of the shell."""
    sources = [*ROOT.glob("sessiond/**/*.py"), *ROOT.glob("cli/**/*.py"), ROOT / "cli" / "sess.sh"]
    read = {name for path in sources for name in READ.findall(path.read_text(encoding="utf-8"))}
    assert read
    explained = {name for names in manual.ENVIRONMENT for name in names.split(", ")}
    assert read <= explained


@pytest.mark.needs("man")
@pytest.mark.parametrize("page", ["sess.1", "sessiond.8"])
def test_a_man_page_is_set_without_a_warning(page: str) -> None:
    """Every character of a --help stands in it, and no line is taken for a request."""
    done = subprocess.run(
        ["man", "--warnings", "-l", str(ROOT / "docs" / "man" / page)],
        env=os.environ | {"MANWIDTH": "100", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    shown = done.stdout.splitlines()
    if page == "sess.1":
        for parser in manual.commands().values():
            for line in parser.format_help().splitlines():
                assert any(line in each for each in shown), line
