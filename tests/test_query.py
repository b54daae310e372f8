"""What a person types, and what it means."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.query import MAX_QUERY, Query, Term, parse, when

NOW = time.time()


def texts(query: Query) -> list[str]:
    return [term.text for term in query.terms]


@pytest.mark.parametrize(
    ("typed", "terms"),
    [
        ("checkout retry", ["checkout", "retry"]),
        ('"two words" three', ["two words", "three"]),
        ("Checkout ÉTÉ", ["checkout", "ete"]),
        ('an "unclosed quote', ["an", "unclosed quote"]),
        ("検索 機能", ["検索", "機能"]),
        ("it's 100% a_b \\ * AND", ["it's", "100%", "a_b", "\\", "*", "and"]),
        ("https://example.com", ["https://example.com"]),
        ("c:drive", ["c:drive"]),
        ("-", ["-"]),
        ("same same", ["same"]),
        ("   ", []),
        ("\ud83d\0", ["?\ufffd"]),
    ],
)
def test_words_are_folded_terms(typed: str, terms: list[str]) -> None:
    """What is no field is a word to look for, without case and diacritics."""
    assert texts(parse(typed, NOW)) == terms


@pytest.mark.parametrize(
    ("typed", "term"),
    [
        ("branch:Fix", Term("fix", "branch", typed="branch:Fix")),
        ('title:"two words"', Term("two words", "title", typed='title:"two words"')),
        ("-draft", Term("draft", negated=True, typed="-draft")),
        ("-app:codex", Term("codex", "app", negated=True, typed="-app:codex")),
        ("CWD:shop", Term("shop", "cwd", typed="CWD:shop")),
        ("is:nothing", Term("is:nothing", typed="is:nothing")),
        ("since:never", Term("since:never", typed="since:never")),
    ],
)
def test_fields_and_negation(typed: str, term: Term) -> None:
    """A known field narrows a term, a minus turns it round; an unknown one is a word."""
    assert parse(typed, NOW).terms == (term,)


@pytest.mark.parametrize("word", ["a ", "-a ", "a b ", "branch:a ", '" ', "is:live "])
def test_only_the_beginning_of_a_query_is_looked_at(word: str) -> None:
    """A megabyte of words took a second, in which nobody else was answered."""
    begin = (word * MAX_QUERY)[: MAX_QUERY - 9]
    assert parse(f"{begin} since:2d", NOW).since is not None or '"' in word
    assert parse(f"{begin}{word * 9} since:2d", NOW).since is None


def test_states_narrow_to_rows_in_that_state() -> None:
    """``is:hidden`` also asks for hidden rows, ``-is:live`` leaves the live ones out."""
    query = parse("is:hidden is:archived -is:live", NOW)
    assert query.states == {"hidden", "archived"}
    assert query.absent == {"live"}
    assert query.everything


@pytest.mark.parametrize(
    ("age", "seconds"),
    [("45m", 2700), ("3h", 10800), ("2d", 172800), ("1w", 604800), ("2mo", 5184000), ("1y", 31536000), ("90S", 90)],
)
def test_an_age_counts_back_from_now(age: str, seconds: int) -> None:
    """Ages are those that the list shows."""
    assert when(age, NOW) == int((NOW - seconds) * 1000)


def test_a_day_as_an_end_is_its_last_moment() -> None:
    """``until:yesterday`` includes yesterday; the same word as a beginning is its first moment."""
    begin, end = when("yesterday", NOW), when("yesterday", NOW, end=True)
    assert begin is not None
    assert end == when("today", NOW)
    assert 22 * 3_600_000 < end - begin < 26 * 3_600_000
    assert when("2026-11-30T12:00", NOW, end=True) == when("2026-11-30T12:00", NOW)


@pytest.mark.parametrize("typed", ["", "soon", "2x", "2026-13-01", "99999y", "0000-00-00", "9999-12-31"])
def test_what_is_no_time_never_raises(typed: str) -> None:
    """Years that no clock can hold give None or a number."""
    assert when(typed, NOW, end=True) is None or isinstance(when(typed, NOW, end=True), int)


@given(st.text())
def test_any_text_is_a_query(typed: str) -> None:
    """Parsing never fails, and every term can be looked for."""
    query = parse(typed, NOW)
    for term in query.terms:
        assert term.text.encode()
        assert "\0" not in term.text
