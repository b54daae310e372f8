"""What is found, in a real index."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond import search as search_module
from sessiond.index import Index
from sessiond.query import parse
from sessiond.search import Search
from sessiond.session import Scan, Session, Stat, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = time.time()
UPDATED = int(NOW * 1000) - 3_600_000


def add(index: Index, number: int, *, app: str = "claude", **values: Any) -> None:
    """Put a session into *index*; a higher number is more recent."""
    name = values.pop("id", f"{number:08x}-0000-4000-8000-000000000000")
    unit = Unit(app, "/home/ana/." + app, f"/home/ana/.{app}/{name}.jsonl", "transcript")
    stat = Stat(1, number, 10, UPDATED * 1_000_000, 0)
    session = Session(
        app=app, id=name, root=unit.root, path=unit.path, mtime=UPDATED, bytes=10, updated=UPDATED + number, **values
    )
    with index.transaction():
        (identity,) = index.store(unit, stat, Scan(facts={name: {"n": number}}), None)
        index.put(identity, session)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(str(tmp_path / "index.sqlite"))
    yield index
    index.close()


@pytest.fixture
def searching(index: Index) -> Iterator[Search]:
    search = Search(index.path)
    yield search
    search.close()


def titles(search: Search, typed: str, limit: int = 20, **changes: Any) -> list[str]:
    return [row["title"] for row in search.find(replace(parse(typed, NOW), **changes), limit)]


ROWS: list[dict[str, Any]] = [
    {"title": "Fix the checkout retry", "cwd": "/srv/shop", "branch": "fix/cart"},
    {"title": "Café menu", "cwd": "/srv/été", "branch": "main"},
    {"title": "検索機能を直す", "cwd": "/srv/新聞", "branch": "作業"},
    {"title": 'it\'s 100% "done" a_b \\ * AND (x)', "cwd": "/srv/odd", "branch": None},
    {"title": "Rollout plan", "cwd": "/srv/shop/api", "branch": "main", "app": "codex"},
    {"title": "Old thing", "cwd": "/srv/shop", "branch": "main", "hidden": "deleted"},
]


@pytest.mark.parametrize("walked", [True, False], ids=["by walking", "by the full-text index"])
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("checkout", [0]),
        ("heckou", [0]),
        ("retry checkout", [0]),
        ("CHECKOUT", [0]),
        ('"checkout retry"', [0]),
        ('"retry checkout"', []),
        ("cafe", [1]),
        ("CAFÉ", [1]),
        ("ete", [1]),
        ("検索", [2]),
        ("索", [2]),
        ("機能を直", [2]),
        ("新聞", [2]),
        ("作業", [2]),
        ("it's", [3]),
        ('"done"', [3]),
        ("100%", [3]),
        ("a_b", [3]),
        ("\\", [3]),
        ("*", [3]),
        ("AND", [3]),
        ("(x)", [3]),
        ("x)", [3]),
        ("codex", [4]),
        ("app:codex", [4]),
        ("app:claude", [3, 2, 1, 0]),
        ("-app:codex", [3, 2, 1, 0]),
        ("store:.CODEX", [4]),
        ("-store:.codex", [3, 2, 1, 0]),
        ("store:ana checkout", [0]),
        ("store:/home/ana/.codex", [4]),
        ("store:/home/ana/.codex/", [4]),
        ("store:/home/ana", []),
        ("store:nowhere", []),
        ("shop", [4, 0]),
        ("cwd:shop", [4, 0]),
        ("title:shop", []),
        ("branch:fix", [0]),
        ("id:00000002", [1]),
        ("00000003-0000", [2]),
        ("shop -checkout", [4]),
        ("is:hidden", [5]),
        ("-is:hidden shop", [4, 0]),
        ("%", [3]),
        ("_", [3]),
        ("nothing at all", []),
        ("ol", [4]),
        ("lau", [3, 2, 1, 0]),
    ],
)
def test_a_query_finds(
    index: Index, searching: Search, monkeypatch: pytest.MonkeyPatch, typed: str, found: list[int], *, walked: bool
) -> None:
    """Every way to look gives the same rows, the newest first."""
    for number, row in enumerate(ROWS, 1):
        add(index, number, **row)
    if not walked:
        monkeypatch.setattr(search_module, "WALK", 1)
    assert titles(searching, typed) == [ROWS[number]["title"] for number in found]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(typed=st.text(max_size=40) | st.text("\"'*()-:^{}%_\\aÉ検 \0", max_size=12))
def test_no_text_makes_a_query_fail(
    index: Index, searching: Search, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    """Whatever is typed, walking and the full-text index agree."""
    if not searching.listed():
        for number, row in enumerate(ROWS, 1):
            add(index, number, **row)
    query = parse(typed, NOW)
    monkeypatch.setattr(search_module, "WALK", 1500)
    walked = searching.find(query, 20)
    monkeypatch.setattr(search_module, "WALK", 1)
    assert searching.find(query, 20) == walked


def test_a_folder_finds_what_ran_in_it_or_below(index: Index, searching: Search) -> None:
    """Neither a neighbour whose name begins the same, nor LIKE's wildcards, are below it."""
    for number, cwd in enumerate(["/srv/shop", "/srv/shop/api", "/srv/shop2", "/srv/sh_p", "/other"], 1):
        add(index, number, title=cwd, cwd=cwd)
    add(index, 9, title="moved on", cwd="/other", launch_dir="/srv/shop")
    assert titles(searching, "", below="/srv/shop") == ["moved on", "/srv/shop/api", "/srv/shop"]
    assert titles(searching, "", below="/srv/sh_p") == ["/srv/sh_p"]
    assert len(titles(searching, "", below="/")) == 6


def test_times_bound_the_last_activity(index: Index, searching: Search) -> None:
    """``since`` and ``until`` speak of when something last happened."""
    add(index, 1, title="an hour ago")
    assert titles(searching, "since:2h") == ["an hour ago"]
    assert titles(searching, "since:30m") == []
    assert titles(searching, "until:30m") == ["an hour ago"]


def test_relevance_puts_a_title_before_a_folder(index: Index, searching: Search) -> None:
    """The best match comes first, however old."""
    add(index, 1, title="checkout is slow", cwd="/srv/a")
    add(index, 2, title="something else", cwd="/srv/checkout")
    found = searching.find(parse("checkout", NOW), 20, "relevance")
    assert [row["title"] for row in found] == ["checkout is slow", "something else"]


def test_an_id_is_named_by_its_beginning(index: Index, searching: Search) -> None:
    """In any case; a whole id wins over longer ones that begin with it."""
    add(index, 1, id="abcdef01")
    add(index, 2, id="abcdef0123")
    assert {row["id"] for row in searching.named("ABCD")} == {"abcdef01", "abcdef0123"}
    assert [row["id"] for row in searching.named("abcdef01")] == ["abcdef01"]
    assert searching.named("bcde") == []


def test_a_changed_title_is_found_by_the_new_one_only(index: Index, searching: Search) -> None:
    """The full-text index follows its table."""
    add(index, 1, id="a", title="before the change")
    add(index, 1, id="a", title="after the change")
    assert titles(searching, "before") == []
    assert titles(searching, "after") == ["after the change"]


def test_a_rare_word_costs_no_walk_through_everything(index: Index, searching: Search) -> None:
    """Of 3,000 rows, a word at the far end is found by looking at no more than the newest and the match."""
    add(index, 1, title="needle")
    for number in range(2, 3000):
        add(index, number, title="hay")
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    searching._db.set_progress_handler(count, 1000, id="counter")
    assert titles(searching, "needle") == ["needle"]
    rare, steps = steps, 0
    assert titles(searching, "hay", limit=2998)[-1] == "hay"
    assert rare < steps / 2


def test_a_row_costs_the_same_however_many_there_are(index: Index) -> None:
    """Storing one and merging it touches its own rows only; the first index would take hours otherwise."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    def cost(number: int) -> int:
        nonlocal steps
        steps = 0
        add(index, number, title=f"title {number}", cwd="/srv/shop")
        return steps

    index._db.set_progress_handler(count, 10)
    few = [cost(number) for number in range(1, 50)]
    for number in range(50, 2000):
        add(index, number, title=f"title {number}", cwd="/srv/shop")
    many = [cost(number) for number in range(2000, 2050)]
    assert sum(many) / len(many) < 2 * sum(few) / len(few)


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("chekcout", "Speed up the checkout query"),
        ("CHECKUOT", "Speed up the checkout query"),
        ("title:chekout", "Speed up the checkout query"),
        ("checkout zzzzzz", "Speed up the checkout query"),
        ("zzzzzz checkout branch:x", "Speed up the checkout query"),
        ("fxi", "fix it"),
        ("cafés noires", "Un café noir"),
        ("zzzzzz", None),
        ("zzzzzz qqqqqq checkout", None),
        ("branch:checkout", None),
        ("-chekout", None),
        ("sceret", None),
        ("", None),
    ],
)
def test_the_nearest_title_is_that_of_a_slip_of_the_fingers(
    index: Index, searching: Search, query: str, title: str | None
) -> None:
    """At least half of the words are in it, or nearly; hidden sessions are not told."""
    for number, text in enumerate(("Speed up the checkout query", "fix it", "Un café noir"), 1):
        add(index, number, title=text)
    add(index, 9, title="secret", hidden="sdk")
    found = searching.nearest(parse(query, NOW))
    assert (found and found["title"]) == title


def test_the_nearest_title_may_be_an_old_one(index: Index, searching: Search) -> None:
    """When it begins or ends as what was typed."""
    add(index, 1, title="Speed up the checkout query")
    for number in range(2, search_module.NEAR + 10):
        add(index, number, title=f"number {number}")
    found = searching.nearest(parse("chekout", NOW))
    assert found is not None
    assert found["title"] == "Speed up the checkout query"
