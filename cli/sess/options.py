"""The options of a command: argparse that neither prints nor exits."""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from sessiond.protocol import Problem
from sessiond.text import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORT = re.compile("-[A-Za-z]")
"""What looks like an option of another program: of no use as a term, since nearly every session has each letter."""


class Parser(argparse.ArgumentParser):
    """Reads the words after a command. Is built once and holds no state of a call."""

    def __init__(
        self, command: str, operand: str, description: str, *, count: int | None = 0, passes_on: bool = False
    ) -> None:
        """Make the parser of ``sess <command>``, which takes *count* operands; None is any number.

        With any number, ``-word`` is an operand too: a term that is not wanted, of two letters or more. What follows
        ``--`` is operands, unless the command *passes it on* to another program: then it is the option ``passed_on``.
        """
        super().__init__(
            prog=f"sess {command}",
            usage=" ".join(filter(None, [f"sess {command}", operand, "[OPTION…]"])),
            description=description,
            add_help=False,
            allow_abbrev=False,
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=28, width=80),
        )
        self.color = False  # since Python 3.14, argparse would look whether the daemon's own stdout has colors
        self._operand = operand
        self._count = count
        self._passes_on = passes_on

    def read(self, words: Sequence[str], elsewhere: Sequence[str] = ()) -> tuple[argparse.Namespace, list[str]]:
        """Return the options and the operands of *words*, in any order. Raises Problem.

        Options that are read *elsewhere* may be meant by one that is not known.
        """
        before, after = split(words)
        # argparse hands back what is no option of ours, in order, also between options.
        options, operands = self.parse_known_args(before)
        for word in operands:
            wanted = self._count is None and not _SHORT.fullmatch(word)
            if word.startswith("--") or (word.startswith("-") and word != "-" and not wanted):
                known = [option for option in (*self._option_string_actions, *elsewhere) if option.startswith("--")]
                raise self._problem(f"there is no option {word}", _meant(word.partition("=")[0], known))
        if self._passes_on:
            options.passed_on = after
        else:
            operands += after
        if self._count is not None and len(operands) != self._count:
            raise self._problem(f"one {self._operand} is wanted" if self._count else f"what is {operands[0]} for?")
        return options, operands

    def error(self, message: str) -> NoReturn:
        """Raise as a Problem what argparse would print and exit for."""
        raise self._problem(message.removeprefix("argument "))

    def _problem(self, why: str, near: str = "") -> Problem:
        hint = f"`{self.prog} --help` lists what there is."
        return Problem(
            "usage", f"{self.prog.removeprefix('sess ')}: {why}", f"Did you mean {near}? {hint}" if near else hint
        )


def _meant(word: str, known: Sequence[str]) -> str:
    """Return the one of *known* that *word* may stand for, by its first letter or by what is typed; or ``""``."""
    if not _SHORT.fullmatch(word):
        return nearest(word, known)
    alike = [option for option in known if option.startswith(f"-{word.lower()}")]
    return alike[0] if len(alike) == 1 else ""


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before and after the first ``--``, which ends the options."""
    end = words.index("--") if "--" in words else len(words)
    return list(words[:end]), list(words[end + 1 :])
