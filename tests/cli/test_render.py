"""Rows on a terminal and in a pipe."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from sess import render
from sessiond.query import Term, parse
from sessiond.text import clean, fold
from tests.cli.asking import TERMINAL, row

NOW = 1_700_000_000
MINUTE, HOUR, DAY = 60, 3600, 86400


def table(rows: list[dict[str, Any]], columns: int = 100, query: str = "", *, color: bool = False) -> list[str]:
    """Return the lines of the table."""
    context = TERMINAL._replace(columns=columns, color=color)
    terms = [term for term in parse(query, NOW).terms if not term.negated]
    return render.table(rows, terms, context, NOW).splitlines()


@pytest.mark.parametrize(
    ("seconds", "short", "words"),
    [
        (-5 * DAY, "now", "just now"),
        (0, "now", "just now"),
        (59, "now", "just now"),
        (MINUTE, "1m", "1 minute ago"),
        (HOUR - 1, "59m", "59 minutes ago"),
        (HOUR, "1h", "1 hour ago"),
        (DAY - 1, "23h", "23 hours ago"),
        (DAY, "1d", "1 day ago"),
        (7 * DAY - 1, "6d", "6 days ago"),
        (7 * DAY, "1w", "1 week ago"),
        (29 * DAY, "4w", "4 weeks ago"),
        (30 * DAY, "1mo", "1 month ago"),
        (364 * DAY, "12mo", "12 months ago"),
        (365 * DAY, "1y", "1 year ago"),
        (800 * DAY, "2y", "2 years ago"),
    ],
)
def test_an_age_is_what_a_person_would_say(seconds: int, short: str, words: str) -> None:
    """In one unit, rounded down; a clock that is wrong makes it now."""
    assert render.age((NOW - seconds) * 1000, NOW) == short
    assert render.ago((NOW - seconds) * 1000, NOW) == words


def test_a_row_has_age_app_id_branch_folder_and_title() -> None:
    """In columns as wide as what stands in them."""
    rows = [
        row(updated=(NOW - 2 * HOUR) * 1000, branch="main"),
        row(app="codex", id="019b0000-aaaa", title="Fix", branch=None, cwd="/srv/a", updated=(NOW - 40 * DAY) * 1000),
    ]
    assert table(rows) == [
        "2h   claude  84cdfff0  main  ~/src/shop  Speed up the checkout query",
        "1mo  codex   019b0000        /srv/a      Fix",
    ]


def test_a_column_that_nobody_fills_is_left_out() -> None:
    """No repository, no branch; no folder recorded, no folder."""
    assert table([row(branch=None, cwd=None)]) == ["now  claude  84cdfff0  Speed up the checkout query"]


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (
            120,
            "now  claude  84cdfff0  feature/checkout-speed  ~/src/shop/packages/checkout  Speed up the checkout query",
        ),
        (100, "now  claude  84cdfff0  feature/checkout-speed  …/shop/packages/checkout  Speed up the checkout query"),
        (80, "now  claude  84cdfff0  feature/che…  …/checkout  Speed up the checkout query"),
        (70, "now  claude  84cdfff0  …/checkout  Speed up the checkout query"),
        (60, "now  claude  84cdfff0  …/checkout  Speed up the checkout qu…"),
        (40, "now  claude  84cdfff0  Speed up the che…"),
        (20, "now  84cdfff0  Spee…"),
        (10, "now  84cdfff0  …"),
    ],
)
def test_a_narrow_terminal_gets_what_matters_most(columns: int, line: str) -> None:
    """The branch goes first, then the folder, then the agent."""
    wide = row(branch="feature/checkout-speed", cwd="/home/anna/src/shop/packages/checkout", updated=NOW * 1000)
    assert table([wide], columns) == [line]


def test_a_long_name_of_an_agent_stays_whole_in_a_narrow_terminal() -> None:
    """With something of the title."""
    rows = [row(app="antigravity", id=f"{n}4cdfff0-1", updated=(NOW - 90 * DAY) * 1000) for n in range(2)]
    assert table(rows, 40)[0] == "3mo  antigravity  04cdfff0  Speed up th…"


@pytest.mark.parametrize(
    ("folders", "shown"),
    [
        (["~/src/team/a-long-way-down", "~/src/team/b"], ["…/a-long-way-down", "…/b"]),
        (["~/team/a-long-way-down-from-here", "/srv/b"], ["…-down-from-here", "/srv/b"]),
        (["~/a-folder-with-a-long-name-in-it", "~/b"], ["…long-name-in-it", "~/b"]),
    ],
)
def test_what_folders_have_in_common_is_shortened_where_room_is_short(folders: list[str], shown: list[str]) -> None:
    """But not where there is room for all."""
    rows = [row(cwd=path.replace("~", "/home/anna"), title="t" * 40, branch=None) for path in folders]
    assert [line.split()[3] for line in table(rows, 140)] == folders
    assert [line.split()[3] for line in table(rows, 70)] == shown


def test_wide_and_combining_characters_keep_the_columns_straight() -> None:
    """A column is counted in cells of the terminal, not in characters."""
    titles = ["plain", "カート画面のちらつきを直す", "e\u0301te\u0301", "👩‍💻 pair", "🇫🇷 TVA"]
    rows = [row(cwd=f"/srv/{title}", title="x", branch=None) for title in titles]
    starts = {wcswidth(line[: line.rindex("x")]) for line in table(rows)}
    assert len(starts) == 1


def test_what_is_cut_is_cut_between_what_a_person_sees() -> None:
    """No half of a wide character, no accent without its letter."""
    assert render.cut("カート画面", 6) == "カー…"
    assert render.cut("カート画面", 5) == "カー…"
    assert render.cut("e\u0301te\u0301 long", 4) == "e\u0301te\u0301…"
    assert render.cut("👩‍💻👩‍💻👩‍💻", 5) == "👩‍💻👩‍💻…"
    assert render.cut("as it is", 8) == "as it is"
    assert render.cut_left("/home/anna/src/shop", 12) == "…/src/shop"
    assert render.cut_left("/a/an-endless-name", 8) == "…ss-name"
    assert render.cut_left("/カート/画面", 6) == "…/画面"


@given(st.text(max_size=60), st.integers(1, 40))
def test_nothing_is_wider_than_it_may_be(text: str, room: int) -> None:
    """Whatever is in it."""
    text = clean(text)
    assert wcswidth(render.cut(text, room)) <= room
    assert wcswidth(render.cut_left(text, room)) <= room
    if room > 1:
        lines = render.wrap(text, room, 3)
        assert len(lines) <= 3
        assert max(map(wcswidth, lines)) <= room


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two three", ["one two", "three"]),
        ("one two three four five", ["one two", "three", "four fi…"]),
        ("antidisestablishment", ["antidise", "stablish", "ment"]),
        ("カート画面のちらつき", ["カート画", "面のちら", "つき"]),
        ("exactly! eight", ["exactly!", "eight"]),
    ],
)
def test_long_text_is_wrapped_between_words(text: str, lines: list[str]) -> None:
    """And ends with an ellipsis where there is no room for more."""
    assert render.wrap(text, 8, 3) == lines


@pytest.mark.parametrize(
    ("state", "title"),
    [
        ({"hidden": "subagent"}, "[subagent] Speed up the checkout query"),
        ({"archived": True}, "[archived] Speed up the checkout query"),
        ({"live": "busy"}, "[busy] Speed up the checkout query"),
        ({"live": "idle", "archived": True, "hidden": "sdk"}, "[idle, archived, sdk] Speed up the checkout query"),
        ({"title": ""}, "(no title)"),
    ],
)
def test_what_is_unusual_about_a_row_is_said(state: dict[str, Any], title: str) -> None:
    """Before its title, where it is not cut off."""
    assert table([row(**state)])[0].endswith(f"~/src/shop  {title}")


def test_ids_that_differ_late_take_no_room_from_the_other_columns() -> None:
    """As those of one session in two folders do."""
    twins = [row(id="dd936720-530e-468c-9a1e-912f2f30c06b_" + folder) for folder in "12"]
    assert all(" dd936720-530e-468c-…  " in line for line in table(twins))


def test_ids_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    """Eight characters, or more for ids that begin with the same time."""
    assert render.short_ids(["84cdfff0-1111", "019b0000-1111", "abc"]) == ["84cdfff0", "019b0000", "abc"]
    assert render.short_ids(["019b0000-1111", "84cdfff0", "019b0000-1122"]) == [
        "019b0000-111",
        "84cdfff0",
        "019b0000-112",
    ]
    assert render.short_ids(["019b0000-1111", "019b0000-1111"]) == ["019b0000", "019b0000"]
    assert render.short_ids(["019b0000", "019b0000-1"]) == ["019b0000", "019b0000-"]


def colored(line: str) -> list[tuple[str, str]]:
    """Return the parts of a line that have a color, with its code."""
    return re.findall(r"\x1b\[([\d;]+)m(.*?)\x1b\[0m", line)


@pytest.mark.parametrize(("age", "color"), [(MINUTE, "32"), (DAY, None), (10 * DAY, "2")])
def test_what_is_recent_stands_out(age: int, color: str | None) -> None:
    """And what is old stands back."""
    (line,) = table([row(updated=(NOW - age) * 1000)], color=True)
    short = render.age((NOW - age) * 1000, NOW)
    assert [code for code, text in colored(line) if text == short] == ([color] if color else [])


def test_agents_and_states_have_colors_of_their_own() -> None:
    """An agent always the same one; who waits for a person stands out."""
    rows = [row(app=app, live=live) for app, live in (("claude", "busy"), ("codex", "waiting"), ("claude", "idle"))]
    found = [{text: code for code, text in colored(line)} for line in table(rows, color=True)]
    assert found[0]["claude"] == found[2]["claude"] != found[1]["codex"]
    assert (found[0]["[busy] "], found[1]["[waiting] "]) == ("32", "1;33")


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("CHECKOUT", ["checkout"]),
        ("shop", ["shop"]),
        ("speed query", ["Speed", "query"]),
        ("cwd:checkout", []),
        ("title:shop", []),
        ("-checkout", []),
        ("e", ["e", "ee", "e", "e", "e"]),
        ("84cd", ["84cd"]),
        ("up upthe", ["up"]),
    ],
)
def test_what_was_looked_for_is_marked_where_it_was_looked_for(query: str, marked: list[str]) -> None:
    """Whatever its case."""
    (line,) = table([row(updated=(NOW - DAY) * 1000)], query=query, color=True)
    assert [text for code, text in colored(line) if code == "1;31"] == marked


@pytest.mark.parametrize(
    ("text", "term", "marked"),
    [
        ("a Straße b", "strasse", ["Straße"]),
        ("a Straße b", "as", ["aß"]),
        ("un café noir", "cafe", ["café"]),
        ("un cafe\u0301 noir", "cafe", ["cafe\u0301"]),
        ("éé a éé", "a", ["a"]),
        ("ﬁle", "i", ["ﬁ"]),
        ("修复结账流程", "结账", ["结账"]),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af x", "글", ["\u1100\u1173\u11af"]),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af x", "x", ["x"]),
        ("aaaa", "aa", ["aaaa"]),
    ],
)
def test_what_folds_to_the_term_is_marked(text: str, term: str, marked: list[str]) -> None:
    """Also where folding makes more characters, or fewer."""
    assert [found for _, found in colored(render.highlight(text, [fold(term)]))] == marked


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=30))
def test_folding_piece_by_piece_is_folding(text: str) -> None:
    """Else a mark would stand beside what it marks."""
    folded, origins = render._folded(text)
    assert folded == fold(text)
    assert len(origins) == len(folded)
    assert origins == sorted(origins)


@given(st.text(max_size=40), st.text(max_size=3), st.integers(20, 120))
def test_a_table_shows_nothing_that_steers_the_terminal(text: str, typed: str, columns: int) -> None:
    """Whatever a transcript, or a folder's name, holds; and colors change no character."""
    hostile = f"\x1b]0;{text}\x07\x9b31m\u202e\n{typed}"
    rows = [row(title=hostile, branch=hostile, cwd=f"/{hostile}", id=f"-{hostile}", app="claude")]
    (plain,) = table(rows, columns)
    assert plain == clean(plain) or "  " in plain
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e]", plain)
    terms = [Term(folded)] if (folded := fold(clean(typed))).strip() else []
    painted = render.table(rows, terms, TERMINAL._replace(columns=columns, color=True), NOW)
    assert re.sub(r"\x1b\[[\d;]+m", "", painted).rstrip() == plain


def test_tsv_is_for_programs() -> None:
    """Whole fields, no colors, times that sort; nothing that would break a line or a field."""
    hostile = row(title="a\tb\nc\x1b[31m", branch=None, cwd=None, updated=1_700_000_000_500)
    assert render.tsv([row(branch="main"), hostile]) == (
        "84cdfff0-1111-4222-8333-444455556666\tclaude\t2023-11-14T22:13:20Z\tmain\t/home/anna/src/shop\t"
        "Speed up the checkout query\n"
        "84cdfff0-1111-4222-8333-444455556666\tclaude\t2023-11-14T22:13:20Z\t\t\ta b c[31m\n"
    )


def test_json_keeps_the_text_as_it_is() -> None:
    """Escaped, so that it is safe to look at all the same."""
    odd = row(title="a\x1b[31m\nカ\x7f\x9b\ud800")
    lines = render.json_lines([odd, row()])
    assert [json.loads(line) for line in lines.splitlines()] == [odd, row()]
    assert lines.isascii()
    assert not re.search("[\x00-\x09\x0b-\x1f]", lines)


def test_ids_are_for_other_commands() -> None:
    """Whole, and one a line."""
    assert render.ids([row(id="a-b"), row(id="c\nd")]) == "a-b\nc d\n"


@pytest.mark.parametrize("moment", [10**18, -(10**18), 10**30])
def test_a_time_beyond_all_calendars_is_no_error(moment: int) -> None:
    """Some file systems hand out such."""
    odd = row(updated=moment)
    assert "\t\t" in render.tsv([odd])
    assert len(table([odd])) == 1
    assert render.local_time(moment) == "?"


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (12_345, "12.3 kB"),
        (19_400_000_000, "19.4 GB"),
        (2e15, "2,000.0 TB"),
    ],
)
def test_a_size_has_three_digits(number: int, shown: str) -> None:
    """And a unit."""
    assert render.size(number) == shown
