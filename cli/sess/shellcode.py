"""What ``sess init`` prints. Every new shell waits for it, so it asks no daemon and imports what is loaded anyway."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sessiond.paths import Paths

SHELLS = ("bash", "zsh", "fish")
_HERE = __file__.removesuffix("shellcode.py") + "shell/"


def code(shell: str, paths: "Paths") -> bytes:
    """Return the code for *shell*: where the snapshots are, then the files of ``shell/``.

    Aliases, and in zsh options, would change what the files mean as they are read: there they are out of force.
    """
    folder = paths.snapshots.encode(sys.getfilesystemencoding(), "surrogateescape")
    if shell == "fish":
        parts = [b"set -g __sess_snapshots '%s'\n" % folder.replace(b"\\", b"\\\\").replace(b"'", b"\\'")]
    else:
        parts = [b"__sess_snapshots=%s\n" % _quoted(folder)]
    for name in ("sess", "complete"):
        with open(f"{_HERE}{name}.{shell}", "rb", buffering=0) as file:
            parts.append(file.read())
    whole = b"\n".join(parts)
    if shell == "zsh":
        return b"\\builtin emulate zsh -o no_aliases -c %s\n" % _quoted(whole)
    return b"%s\n%s\n%s" % (_NO_ALIASES, whole, _ALIASES) if shell == "bash" else whole


# bash reads a line once the one before has run.
_NO_ALIASES = rb"""__sess_aliases=-u
\shopt -q expand_aliases && __sess_aliases=-s
\shopt -u expand_aliases
"""
_ALIASES = rb"""shopt "$__sess_aliases" expand_aliases
"""


def _quoted(text: bytes) -> bytes:
    return b"'" + text.replace(b"'", b"'\\''") + b"'"
