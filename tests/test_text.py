"""Hostile text, made harmless."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.text import TITLE_LENGTH, clean, fold, storable, title


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("  two   spaces\tand\nlines\r\n", "two spaces and lines"),
        ("\x1b[31mred\x1b]52;c;ZXZpbA==\x07", "[31mred]52;c;ZXZpbA=="),
        ("\x9b31mC1\x9d\x85x", "31mC1 x"),
        ("a\u202eb\u2066c\u200fd", "abcd"),
        ("zero\u200bwidth\ufeff\u00ad", "zerowidth"),
        ("family 👨\u200d👩\u200d👧", "family 👨\u200d👩\u200d👧"),
        ("a\u200db \u200d👩", "ab 👩"),
        ("flag ❤\ufe0f\u200d🔥", "flag ❤\ufe0f\u200d🔥"),
        ("lone \ud83d half", "lone  half".replace("  ", " ")),
        ("\ue000private\U000f0000", "private"),
        ("日本語　全角", "日本語 全角"),
        ("nul\0", "nul"),
        ("\x7fdel", "del"),
    ],
)
def test_what_could_steer_a_terminal_is_gone(text: str, shown: str) -> None:
    """Words, emoji and other scripts stay."""
    assert clean(text) == shown


@given(st.text(st.characters()))
def test_no_control_survives(text: str) -> None:
    """One line, no control, no bidi mark, no surrogate; cleaning again changes nothing."""
    shown = clean(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Co", "Zl", "Zp")]
    assert not set(shown) & set("\u200b\u200e\u200f\u202a\u202e\u2066\u2069\ufeff")
    assert clean(shown) == shown
    shown.encode()


def test_a_title_is_one_short_line() -> None:
    """Cut at 200 characters, with a sign that it was; a short one as it is."""
    assert title("Fix it\nplease") == "Fix it please"
    long = title("word " * 100_000)
    assert len(long) <= TITLE_LENGTH
    assert long.endswith("word…")


@given(st.text(st.characters()))
def test_stored_text_is_valid(text: str) -> None:
    """SQLite takes it; what was valid stays as it was."""
    stored = storable(text)
    assert "\0" not in stored
    stored.encode()
    if "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text):
        assert stored == text


@pytest.mark.parametrize(
    ("one", "other"),
    [("ÉTÉ", "ete"), ("Straße", "STRASSE"), ("ＦＵＬＬ", "full"), ("ガ", "ガ"), ("İ", "i"), ("Ω", "ω")],
)
def test_folding_ignores_case_and_diacritics(one: str, other: str) -> None:
    """Composed or decomposed, wide or narrow: the same."""
    assert fold(one) == fold(other)


@given(st.text())
def test_folding_again_changes_nothing(text: str) -> None:
    """A folded term can be compared with a folded row."""
    once = fold(text)
    assert fold(once) == once
