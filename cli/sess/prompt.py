"""The text for a prompt, from the file that the daemon keeps. Like the relay it imports what is loaded anyway."""

import posix

from sessiond.paths import snapshot_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sessiond.paths import Paths

_FORMAT = b"sess 1"
_TURNING = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""What turns or breaks a line."""


def text(paths: "Paths") -> bytes:
    """Return what ``$SESS_PROMPT`` has in the current folder; nothing where there are no sessions."""
    try:
        folder = posix.getcwdb()
        # O_NONBLOCK: a FIFO in its place would hang us.
        flags = posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC
        fd = posix.open(f"{paths.snapshots}/{snapshot_name(folder)}", flags)
        if posix.fstat(fd).st_mode & 0o170000 != 0o100000:
            return b""
        content = b""
        while data := posix.read(fd, 1 << 16):
            content += data
    except OSError:
        return b""
    first, *records = content.split(b"\0")
    if first != _FORMAT or folder not in records[:-1]:
        return b""
    count, _, rest = records[records.index(folder) + 1].partition(b"\x1f")
    waiting, _, shown = rest.partition(b"\x1f")
    # No daemon writes controls, what turns or breaks a line, or here what a prompt would expand.
    refused = "$`\\%!" + _TURNING
    harmful = any(c < " " or "\x7f" <= c <= "\x9f" or c in refused for c in shown.decode("utf-8", "replace"))
    numbers = (count.removesuffix(b"+"), waiting)
    return b"" if harmful or any(not number.isdigit() or len(number) > 12 for number in numbers) else shown
