"""Writes the table of agents in ``docs/formats.md`` from the registry: ``python -m tools.agents``."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fixtures import home
from sessiond.apps import APPS
from sessiond.apps._store import UUID
from sessiond.session import Session, Settings
from tests.apps.reader import Reader

if TYPE_CHECKING:
    from sessiond.apps.base import App

PAGE = Path(__file__).parent.parent / "docs" / "formats.md"
BEGIN, END = "<!-- made by `python -m tools.agents` -->\n", "<!-- end -->\n"
SHOWN = ("branch", "model", "effort", "approval", "sandbox", "archived", "live", "lost", "successor")
"""Columns that not every agent has."""
HOME = "/home/ana"
HEAD = """| agent | store | moved by | what is read | shown beside title, folder and times | resumed with | verified |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    """Return ``docs/formats.md`` with the table as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def table() -> str:
    """Return a line for each app of the registry, in Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        home.make(folder)
        return HEAD + "".join(_line(app, folder) for app in APPS.values())


def _line(app: App, folder: str) -> str:
    """Return the line of *app*; what it shows is what the rows of the sample home in *folder* have."""
    found = rows(app, folder)
    one = next(row for row in found if row.hidden is None)
    command = shlex.join(app.launch(one, Settings(), fork=False, folder=None))
    for said, word in ((one.path, "FILE"), (one.launch_dir or "", "FOLDER"), (one.id, "ID"), (folder, "~")):
        command = command.replace(said, word) if said else command
    # One whose rows are called by more than its own id.
    command = re.sub(UUID, "ID", command)
    cells = (
        f"[{app.label}](formats/{slug(app)}.md)",
        " ".join(f"`~{root.removeprefix(HOME)}`" for root in app.roots({"HOME": HOME})),
        " ".join(f"`{name}`" for name in (app.store_variable, *app.variables) if name),
        " ".join(f"`{place}`" for place in app.reads),
        ", ".join(name for name in SHOWN if any(getattr(row, name) for row in found)),
        f"`{command}`",
        app.verified or "*reported*",
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def rows(app: App, home: str) -> list[Session]:
    """Return the rows that *app* makes of its stores in *home*."""
    stores = [Path(root) for root in app.roots({"HOME": home}) if Path(root).is_dir()]
    return [row for store in stores for row in Reader(app, store).rows().values()]


def slug(app: App) -> str:
    """Return the name of the page of *app*: that of its module."""
    return type(app).__module__.rpartition(".")[2].replace("_", "-")


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
