"""Making text from a transcript safe to store, to search and to show."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

TITLE_LENGTH = 200
"""Characters of a title that are kept, as in Claude Code's own lister."""

# C0, DEL, C1; line and paragraph separators; bidi controls; zero-width characters but
# the joiner (which emoji need); BOM; private use; surrogates, which SQLite and UTF-8 refuse.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ue000-\uf8ff\ud800-\udfff\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)
_SPACE = re.compile(r"\s+")
_JOINER = re.compile(
    "(?<![\u200d\ufe0f\u2600-\u27bf\U0001f000-\U0001faff])\u200d|\u200d(?![\u2600-\u27bf\U0001f000-\U0001faff])"
)


def clean(text: str) -> str:
    """Return *text* on one line without a character that could steer a terminal.

    Controls, bidi marks and zero-width characters become nothing or a space, runs of white
    space one space. A zero-width joiner stays between emoji only.
    """
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    text = _UNSAFE.sub(_replacement, text)
    if "\u200d" in text:
        text = _JOINER.sub("", text)
    return _SPACE.sub(" ", text).strip()


def _replacement(match: re.Match[str]) -> str:
    return " " if match[0] in "\t\n\v\f\r\x85\u2028\u2029" else ""


def title(text: str) -> str:
    """Return *text* as a title: clean, and cut to ``TITLE_LENGTH`` characters.

    Only the first part of a long prompt is looked at; a pasted file may be megabytes.
    """
    text = clean(text[: TITLE_LENGTH * 8])
    if len(text) > TITLE_LENGTH:
        text = text[: TITLE_LENGTH - 1].rstrip() + "…"
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the one of *known* that *word* may be a slip of the fingers for, or ``""``."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), 1)), "")


def storable(text: str) -> str:
    """Return *text* with what SQLite and UTF-8 refuse (lone surrogates, NUL) replaced.

    Unlike `clean` it keeps everything else: for paths, ids and branch names.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def fold(text: str) -> str:
    """Return *text* as it is compared in a search: without case and without diacritics.

    Index and query are folded by this one function, so that they always agree.
    """
    if text.isascii():
        return text.lower()
    # Twice: a compatibility form such as U+2110 has a capital letter in it.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if not unicodedata.combining(c)))
