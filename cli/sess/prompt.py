"""The text for a prompt, from the file that the daemon keeps. Like the relay it imports what is loaded anyway."""

import posix

from sessiond.paths import snapshot_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sessiond.paths import Paths

_FORMAT = b"sess 1"


def text(paths: "Paths") -> bytes:
    """Return what ``$SESS_PROMPT`` has in the current folder; nothing where there are no sessions."""
    try:
        folder = posix.getcwdb()
        fd = posix.open(f"{paths.snapshots}/{snapshot_name(folder)}", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    content = b""
    while data := posix.read(fd, 1 << 16):
        content += data
    posix.close(fd)
    first, *records = content.split(b"\0")
    if first != _FORMAT or folder not in records:
        return b""
    return records[records.index(folder) + 1].split(b"\x1f")[2]
