"""Draw what ``./try --demo find`` prints: ``python3 -m tools.picture`` writes docs/sess-find.svg."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unicodedata
from html import escape
from typing import NamedTuple

from tools.environment import ROOT

COLUMNS = 100
WIDTH, HEIGHT, MARGIN = 8.4, 20, 24
"""Pixels of a character cell at a font size of 14, and around the text."""
COLOURS = {
    "": "#d7dae0", "31": "#f07178", "32": "#a5d67a", "33": "#f0c674", "34": "#7aa6f0", "35": "#c9a0f0",
    "36": "#70cfd8", "37": "#d7dae0", "90": "#7f8794", "93": "#f5dc9a",
    "94": "#a3c3f7", "95": "#dcc2f7",
}  # fmt: skip
_STYLE = re.compile(r"\x1b\[([\d;]*)m")


class Run(NamedTuple):
    """Text of one style, where it begins, in cells."""

    column: int
    text: str
    colour: str
    bold: bool
    dim: bool


def capture(command: list[str]) -> str:
    """Return what *command* prints to a terminal of ``COLUMNS`` columns; raises CalledProcessError."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("4H", 24, COLUMNS, 0, 0))
    env = os.environ | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
    for key in ("COLUMNS", "NO_COLOR", "LC_ALL"):
        env.pop(key, None)
    process = subprocess.Popen(command, env=env, stdin=inner, stdout=inner)
    os.close(inner)
    printed = b""
    # Linux ends a terminal whose other side is closed with an error, macOS with nothing.
    try:
        while data := os.read(outer, 65536):
            printed += data
    except OSError:
        pass
    os.close(outer)
    if code := process.wait():
        raise subprocess.CalledProcessError(code, command)
    return printed.decode().replace("\r\n", "\n").strip("\n")


def cells(text: str) -> int:
    """Return how many cells *text* takes in a terminal."""
    return sum(
        0 if unicodedata.combining(char) or char in "\u200d\ufe0f" else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def runs(line: str) -> list[Run]:
    """Return *line* cut where its style changes, and before and after what is wide: fonts disagree about that."""
    found, column, colour, bold, dim = [], 0, "", False, False
    for index, piece in enumerate(_STYLE.split(line)):
        if index % 2:
            for code in piece.split(";"):
                if code in ("", "0"):
                    colour, bold, dim = "", False, False
                bold, dim = bold or code == "1", dim or code == "2"
                colour = code if code in COLOURS else colour
            continue
        for text in re.findall(r"[\x00-\u10ff]+|[^\x00-\u10ff]+", piece):
            found.append(Run(column, text, colour, bold, dim))
            column += cells(text)
    return found


def draw(lines: list[str]) -> str:
    """Return an SVG of *lines*, as a terminal would show them."""
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    picture = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}">',
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#1e2127"/>',
        f'<g font-family="{fonts}" font-size="14" xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        for run in runs(line):
            if run.text.strip():
                style = ' font-weight="bold"' * run.bold + ' opacity="0.65"' * run.dim
                picture.append(
                    f'<text x="{MARGIN + run.column * WIDTH:.1f}" y="{MARGIN + (number + 0.75) * HEIGHT:.0f}" '
                    f'fill="{COLOURS[run.colour]}"{style} textLength="{cells(run.text) * WIDTH:.1f}" '
                    f'lengthAdjust="spacingAndGlyphs">{escape(run.text)}</text>'
                )
    return "\n".join([*picture, "</g>", "</svg>\n"])


if __name__ == "__main__":
    output = capture([sys.executable, f"{ROOT}/try", "--demo", "find"])
    with open(f"{ROOT}/docs/sess-find.svg", "w", encoding="utf-8") as file:
        file.write(draw(["\x1b[1m$ sess find\x1b[0m", *output.split("\n")]))
