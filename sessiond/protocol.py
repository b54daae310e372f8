"""The wire format, as docs/protocol.md describes it; shared by client and daemon.

One Unix stream socket, two dialects, told apart by the first byte of a connection: ``{``
opens JSON lines, ``R`` one relayed command. Imports nothing: the relay needs it cold.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PROTOCOL = 1

MAX_REQUEST = 1 << 20
"""Bytes of one request, a JSON line or a relayed command."""

DONE, NOTHING, USAGE, UNREACHABLE, REFUSED, AMBIGUOUS, NO_PROGRAM, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130

HANDED_BACK = -1
"""In place of an exit code: the daemon ran nothing, and the client is to run the command itself."""

EXITS = {
    "nothing": NOTHING,
    "usage": USAGE,
    "unreachable": UNREACHABLE,
    "refused": REFUSED,
    "ambiguous": AMBIGUOUS,
    "no-program": NO_PROGRAM,
    "running": DONE,
    "internal": UNREACHABLE,
}
"""The exit code of the client for each ``code`` of an error on the wire."""


class Problem(Exception):  # noqa: N818 - the word a person reads
    """What happened, why, and what to type next: the one kind of error that reaches a person."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    @property
    def exit(self) -> int:
        """The exit code of a command that ends with this."""
        return EXITS[self.code]

    @property
    def text(self) -> str:
        """What stderr shows of it: ``sess: what happened: why``, and a line saying what to do."""
        return f"sess: {self.message}\n" + (f"{self.hint}\n" if self.hint else "")


class Answer:
    """What the daemon gave for a request: the rows and the closing object."""

    __slots__ = ("ok", "rows")

    def __init__(self, rows: "list[dict[str, Any]]", ok: "dict[str, Any]") -> None:
        self.rows = rows
        self.ok = ok


def relay_request(version: str, context: "dict[str, bytes]", words: "Iterable[bytes]") -> bytes:
    r"""Return the bytes that ask the daemon to run *words* for a client that knows *context*.

    ``R <protocol> <version> <length>\n``, then *length* bytes: ``key=value`` items of the
    context, an empty item, the words; each ends with a NUL, which neither can hold.
    """
    items = [key.encode() + b"=" + value for key, value in context.items()]
    body = b"".join(item + b"\0" for item in [*items, b"", *words])
    return b"R %d %s %d\n" % (PROTOCOL, version.encode(), len(body)) + body


def parse_relay(body: bytes) -> "tuple[dict[str, bytes], list[bytes]]":
    """Return context and words of the body of a relay request; raises ValueError when malformed."""
    items = body.split(b"\0")
    if b"" not in items[:-1] or items[-1]:
        raise ValueError("a relay request is items that end with a NUL, an empty one, then the words")
    end = items.index(b"")
    context = {}
    for item in items[:end]:
        key, equals, value = item.partition(b"=")
        if not equals:
            raise ValueError("a context item is key=value")
        context[key.decode("ascii", "replace")] = value
    return context, items[end + 1 : -1]


def output_frame(fd: int, data: bytes) -> bytes:
    """Return a part of a relayed answer: *data* for the client's stdout (1) or stderr (2)."""
    return b"%d %d\n" % (fd, len(data)) + data


def exit_frame(code: int, version: str) -> bytes:
    r"""Return the end of a relayed answer: ``0 <exit code> <daemon's version>\n``."""
    return b"0 %d %s\n" % (code, version.encode())
