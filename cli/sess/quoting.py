"""A command as one line that can be pasted into a shell: sh, bash, zsh and fish read it the same way."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPECIAL = re.compile(r"[^\w./:@%+,-]")
_PLAIN = re.compile(r"[A-Za-z0-9_./-]")


def command(argv: Sequence[str], folder: str, env: Mapping[str, str | None]) -> str:
    """Return the line that runs *argv* in *folder* with the changes in *env*, where None removes a variable.

    Raises Problem for a word that no line can hold.
    """
    words = ["cd", quoted_folder(folder), "&&"]
    if env:
        words.append("env")
        words += [f"-u {name}" for name, value in env.items() if value is None]
        words += [f"{name}={quoted(value)}" for name, value in env.items() if value is not None]
    return " ".join([*words, *map(quoted, argv)])


def quoted_folder(path: str) -> str:
    """Return what names the folder *path* on a line."""
    if ".." in path.split("/"):
        # `cd` goes up in the path, the system in the file system: after a link that is another folder.
        path = os.path.realpath(path)
    # A shell drops the newlines at the end of what `$(…)` gives.
    return quoted(path + "/." if path.endswith("\n") else path)


def quoted(word: str) -> str:
    """Return *word* as a shell reads it back, in printable characters. Raises Problem if it ends with a newline."""
    if word.endswith("\n"):
        raise Problem("usage", "a word that ends with a newline does not fit on a line", "Leave the newline out.")
    if word.isprintable():
        # Backslashes, since fish gives a meaning to one between single quotes.
        return _SPECIAL.sub(r"\\\g<0>", word) or "''"
    octal = (c if _PLAIN.fullmatch(c) else "".join(f"\\{byte:03o}" for byte in os.fsencode(c)) for c in word)
    text = "".join(octal)
    # printf would take a word that begins with a dash for an option.
    text = "\\055" + text[1:] if text.startswith("-") else text
    return f"\"$(printf '{text}')\""
