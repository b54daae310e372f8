"""How a list of sessions is laid out for a person: by project, at length, or in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sess import render
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sess.front import Context
    from sess.render import Row
    from sessiond.query import Term

_WORTH = 3
"""Sessions that a project has to have on average, lest its line takes more room than it saves."""
_INDENT = "  "
_WIDE = 1 << 20
"""Columns in which everything fits."""
_HEADING = "1"


def by_project(rows: Sequence[Row], terms: Sequence[Term], context: Context, now: float) -> str:
    """Return *rows* below the folders of their projects if those are few, or else as a table with the folders.

    The project that is named by the first row comes first, and within one the rows keep their order.
    """
    roots = _roots({row["cwd"] for row in rows if row["cwd"]}, context.home)
    projects: dict[str, list[Row]] = {}
    for row in rows:
        projects.setdefault(roots.get(row["cwd"], ""), []).append(row)
    if len(projects) * _WORTH > len(rows):
        return render.table(rows, terms, context, now)
    ordered = [row for members in projects.values() for row in members]
    within = [clean((row["cwd"] or "")[len(roots.get(row["cwd"], "")) :].lstrip("/")) for row in ordered]
    inner = context._replace(columns=context.columns - len(_INDENT))
    lines = iter(render.table(ordered, terms, inner, now, folder=within).splitlines())
    wanted = [term.text for term in terms if term.field in (None, "cwd")]
    text = ""
    for project, members in projects.items():
        heading = render.cut_left(clean(render.folder(project, context.home)) or "(no folder)", context.columns)
        if context.color:
            marked = render.highlight(heading, wanted)
            heading = render.paint(heading, _HEADING) if marked == heading else marked
        text += f"{heading}\n" + "".join(f"{_INDENT}{next(lines)}\n" for _ in members)
    return text


def long(rows: Sequence[Row], terms: Sequence[Term], context: Context, now: float) -> str:
    """Return *rows* a line each, with nothing shortened and the time of the clock."""
    times = [render.local_time(render.updated(row)) for row in rows]
    ids = [clean(row["id"]) for row in rows]
    return render.table(rows, terms, context._replace(columns=_WIDE), now, age=times, id=ids)


def sentences(rows: Sequence[Row], context: Context, now: float) -> str:
    """Return *rows* a line each, to be heard: nothing is told by a column, a color or a sign."""
    ids = render.short_ids([clean(row["id"]) for row in rows])
    return "".join(f"{_sentence(row, short, context.home, now)}\n" for row, short in zip(rows, ids, strict=True))


def _sentence(row: Row, short: str, home: str, now: float) -> str:
    title = clean(row["title"]) or "No title"
    parts = [clean(row["app"]), render.states(row), render.ago(render.updated(row), now)]
    for word, value in (("in", render.folder(row["cwd"] or "", home)), ("branch", row["branch"] or ""), ("id", short)):
        parts.append(f"{word} {clean(value)}" if value else "")
    return f"{title}{'' if title.endswith(('.', '?', '!')) else '.'} {', '.join(filter(None, parts))}."


def _roots(folders: Iterable[str], home: str) -> dict[str, str]:
    """Return for each of *folders* the outermost of them that it is in, which neither *home* nor ``/`` can be."""
    roots: dict[str, str] = {}
    root = ""
    for folder in sorted(folders, key=lambda path: path.rstrip("/") + "/"):
        if not root or not folder.startswith(root + "/"):
            root = folder if folder not in ("/", home) else ""
        roots[folder] = root or folder
    return roots
