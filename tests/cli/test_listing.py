"""How a list of sessions is laid out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sess import listing
from sessiond.query import Term
from tests.cli.asking import TERMINAL, row

NOW = 1_700_000_000


def by_project(*folders: str | None, columns: int = 80, terms: tuple[Term, ...] = (), color: bool = False) -> list[str]:
    """Return the lines for a row in each of *folders*, numbered in this order."""
    rows = [row(cwd=cwd, title=f"number {n}", id=f"{n}4cdfff0-1") for n, cwd in enumerate(folders)]
    context = TERMINAL._replace(columns=columns, color=color)
    return listing.by_project(rows, list(terms), context, NOW).splitlines()


def test_many_sessions_of_few_projects_stand_below_them() -> None:
    """The project of the newest comes first, and in each the newest; a folder in a project is shown beside its rows."""
    shop, api = "/home/anna/src/shop", "/srv/api"
    assert by_project(shop, api, f"{shop}/web", api, shop, api) == [
        "~/src/shop",
        "  now  claude  04cdfff0       number 0",
        "  now  claude  24cdfff0  web  number 2",
        "  now  claude  44cdfff0       number 4",
        "/srv/api",
        "  now  claude  14cdfff0       number 1",
        "  now  claude  34cdfff0       number 3",
        "  now  claude  54cdfff0       number 5",
    ]


@pytest.mark.parametrize(
    "folders",
    [
        ["/srv/a"],
        ["/srv/a", "/srv/a"],
        ["/srv/a", "/srv/a", "/srv/b", "/srv/a", "/srv/b"],
        # Neither the home folder nor the root is a project that others are in.
        ["/home/anna", "/home/anna/a", "/home/anna/b"],
        ["/", "/srv/a", "/srv/b"],
        ["/srv/a", "/srv/ab", "/srv/a-b"],
    ],
)
def test_few_sessions_of_many_projects_stay_in_the_order_of_time(folders: list[str]) -> None:
    """With a column for the folder."""
    lines = by_project(*folders)
    assert [line[-1] for line in lines] == [str(n) for n in range(len(folders))]
    assert all("/" in line or "~" in line for line in lines)


def test_sessions_without_a_folder_are_together() -> None:
    assert by_project(None, None, None)[0] == "(no folder)"


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    deep = "/home/anna/" + "a-long-name/" * 10 + "end"
    lines = by_project(deep, f"{deep}/below/it", deep, columns=columns)
    assert len(lines) == 4
    assert max(map(len, lines)) <= columns


def test_what_was_looked_for_is_marked_in_a_heading_too() -> None:
    (heading, *_) = by_project("/srv/api", "/srv/api", "/srv/api", terms=(Term("api"),), color=True)
    assert heading == "/srv/\x1b[1;31mapi\x1b[0m"


def test_the_long_form_shortens_nothing() -> None:
    """However narrow the terminal."""
    long = row(cwd="/home/anna/" + "deep/" * 20 + "end", branch="b" * 60, title="t" * 150)
    (line,) = listing.long([long], [], TERMINAL._replace(columns=40), NOW).splitlines()
    time, app, name, branch, folder, title = re.split("  +", line)
    assert re.fullmatch(r"2023-11-1\d \d\d:\d\d [+-]\d{4}", time)
    assert [app, name, branch, title] == [long[key] for key in ("app", "id", "branch", "title")]
    assert folder == "~/" + "deep/" * 20 + "end"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "Speed up the checkout query. claude, 2 hours ago, in ~/src/shop, id 84cdfff0."),
        (
            {"title": "Does it work?", "branch": "fix", "live": "waiting"},
            "Does it work? claude, waiting, 2 hours ago, in ~/src/shop, branch fix, id 84cdfff0.",
        ),
        ({"title": "", "cwd": None}, "No title. claude, 2 hours ago, id 84cdfff0."),
        ({"title": "a\x1b[31m\nb", "cwd": None}, "a[31m b. claude, 2 hours ago, id 84cdfff0."),
    ],
)
def test_a_screen_reader_hears_sentences(values: dict[str, Any], sentence: str) -> None:
    """All that the list says, and no color though the terminal has them."""
    rows = [row(**{"updated": (NOW - 7200) * 1000, **values})]
    assert listing.sentences(rows, TERMINAL._replace(color=True), NOW) == f"{sentence}\n"
