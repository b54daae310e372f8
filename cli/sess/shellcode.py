"""What ``sess init`` prints. Every new shell waits for it, so it asks no daemon and imports what is loaded anyway."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sessiond.paths import Paths

SHELLS = ("bash", "zsh", "fish")
_HERE = __file__.removesuffix("shellcode.py") + "shell/"


def code(shell: str, paths: "Paths") -> bytes:
    """Return the code for *shell*: where the snapshots are, then the files of ``shell/``."""
    folder = paths.snapshots.encode(sys.getfilesystemencoding(), "surrogateescape")
    if shell == "fish":
        quoted = folder.replace(b"\\", b"\\\\").replace(b"'", b"\\'")
        parts = [b"set -g __sess_snapshots '%s'\n" % quoted]
    else:
        quoted = folder.replace(b"'", b"'\\''")
        parts = [b"__sess_snapshots='%s'\n" % quoted]
    for name in ("sess", "complete"):
        with open(f"{_HERE}{name}.{shell}", "rb", buffering=0) as file:
            parts.append(file.read())
    return b"\n".join(parts)
