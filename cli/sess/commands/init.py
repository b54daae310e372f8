"""``sess init``: the code that a shell's start file runs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sess import shellcode
from sess.options import Parser
from sess.relay import paths
from sessiond.protocol import Problem

if TYPE_CHECKING:
    from sess.front import Call

_DESCRIPTION = """\
Print shell code: recent sessions on entering a folder, $SESS_PROMPT for the
prompt, completion, and the picker on Alt-S. The line for your start file:

  ~/.bashrc                   eval "$(sess init bash)"
  ~/.zshrc                    eval "$(sess init zsh)"
  ~/.config/fish/config.fish  sess init fish | source

Set before that line, if you like:

  SESS_KEY    another key than Alt-S, as the shell writes it; empty for none
  SESS_LINES  sessions listed on entering a folder, 0 to 10; 1 if not set\
"""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``init``."""
    return Parser("init", "bash|zsh|fish", _DESCRIPTION, count=1)


def run(call: Call) -> int:
    """Print it. The relay does the same for a shell it knows, with fewer imports."""
    shell = call.operands[0]
    if shell not in shellcode.SHELLS:
        raise Problem(
            "usage", f"init: there is no code for {shell}", f"There is some for: {' '.join(shellcode.SHELLS)}."
        )
    call.emit(1, shellcode.code(shell, paths()).decode("utf-8", "surrogateescape"))
    return 0
