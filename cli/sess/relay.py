"""The relay: hands the daemon the words of a command, and copies back what it answers.

A cold interpreter takes 12 ms for `socket`, 10 to 20 ms each for `json`, `re` and `argparse`. So
this imports what is loaded anyway, `_socket`, and the two modules shared with the daemon.
"""

import _socket
import posix
import sys
import time

from sessiond import __version__
from sessiond.paths import exposure, is_private, locate
from sessiond.protocol import DONE, HANDED_BACK, INTERRUPTED, MAX_REQUEST, NOTHING, UNREACHABLE, Problem, relay_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from sessiond.paths import Paths

SILENCE = 5
"""Seconds without a byte after which the daemon counts as hung. One at work sends an empty frame each second."""

COMPLETION = 0.1
"""The same for what completes a line, which gives up in silence: a person is typing."""

_CARERS = (b"service", b"doctor", b"config")
"""Commands that look after the daemon, so that one which hangs is none of their concern."""

PIPE_CLOSED = 141
"""What a shell reports of other tools when their reader has gone: 128 + SIGPIPE."""


def main() -> "NoReturn":
    """Run the command that the process was started with, and exit."""
    try:
        code = _run()
    except Problem as problem:
        write(2, problem.text.encode("utf-8", "surrogateescape"))
        code = problem.exit
    except KeyboardInterrupt:
        code = INTERRUPTED
    # Everything was written by system calls; tearing down the interpreter takes 1 ms.
    posix._exit(code)  # noqa: SLF001 - its public name is in `os`


def _run() -> int:
    _occupy_closed_descriptors()
    words = [word.encode(sys.getfilesystemencoding(), "surrogateescape") for word in sys.argv[1:]]
    where = paths()
    if (code := _alone(words, where)) is not None:
        return code
    known = context()
    if words and words[0] in _CARERS:
        from sess import client

        return client.run(where, known, words)
    completing = words[:1] == [b"_complete"]
    try:
        if words[:1] == [b"pick"] and (code := _pick(where, known)) is not None:
            return code
        code = relayed(where, known, words, patience=COMPLETION if completing else SILENCE)
        if code != HANDED_BACK:
            return code
        # It is of another version, or the command needs this process.
    except TimeoutError:
        if completing:
            return UNREACHABLE
        raise hung(where) from None
    except OSError:
        pass  # There is none, or it is just ending.
    if completing:
        return UNREACHABLE

    from sess import client

    return client.run(where, known, words)


def _pick(where: "Paths", known: dict[str, bytes]) -> int | None:
    """Run the picker; None when its words need a closer look. Raises OSError when there is no daemon."""
    from sess.picker import Picker

    def then(words: list[bytes]) -> int:
        from sess import client

        return client.run(where, known, words)

    try:
        picker = Picker(where, known, then, sys.argv[2:])
    except ValueError:
        return None
    return picker.run()


def relayed(
    where: "Paths",
    known: dict[str, bytes],
    words: "list[bytes]",
    put: "Callable[[int, bytes], None] | None" = None,
    patience: float = SILENCE,
) -> int:
    """Have the daemon run a command and return its exit code, or `HANDED_BACK`.

    Its output goes to *put*, or else to stdout and stderr. Raises TimeoutError after *patience* seconds of
    silence, another OSError when there is no daemon, Problem.
    """
    request = relay_request(__version__, known, words)
    if len(request) > MAX_REQUEST:
        raise Problem("usage", f"the command is too long: it may have {MAX_REQUEST} bytes", "Use fewer words.")
    connection = connect(where, patience)
    connection.sendall(request)
    return _copy(connection, put or write)


def _alone(words: "list[bytes]", where: "Paths") -> int | None:
    """Run what every prompt or shell waits for, and return its exit code; None for what is no such command.

    It works without a daemon and beside one that hangs.
    """
    if words == [b"prompt"]:
        from sess import prompt

        shown = prompt.text(where)
        write(1, shown and shown + b"\n")
        return DONE if shown else NOTHING
    if len(words) == 2 and words[0] == b"init" and words[1] in (b"bash", b"zsh", b"fish"):
        from sess import shellcode

        write(1, shellcode.code(words[1].decode(), where))
        return DONE
    return None


def connect(paths: "Paths", patience: float = SILENCE) -> _socket.socket:
    """Return a connection to the daemon, on which nothing takes longer than *patience* seconds.

    Raises TimeoutError when it does not accept, another OSError when there is none, and
    Problem when the socket may be somebody else's.
    """
    uid = posix.getuid()
    if why := exposure(paths.runtime, uid):
        from sess.quoting import quoted

        raise Problem(
            "refused",
            f"the daemon is not asked: {why}",
            f"Make the folder yours alone (chmod 700 {quoted(paths.runtime)}), or set SESS_RUNTIME_DIR to one that is.",
        )
    found = posix.lstat(paths.socket)
    if found.st_uid != uid or found.st_mode & 0o170000 != 0o140000:
        from sess.quoting import quoted

        hint = f"Look at what it is, then remove it: rm {quoted(paths.socket)}"
        raise Problem("refused", f"the daemon is not asked: {paths.socket} is no socket of yours", hint)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(patience)
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.connect(paths.socket)
        except BlockingIOError:
            # Linux says so at once when the backlog of a daemon that does not accept is full.
            if time.monotonic() > deadline:
                raise TimeoutError from None
            time.sleep(patience / 100)
        else:
            return connection


def hung(paths: "Paths") -> Problem:
    """Return what to say when the daemon accepts connections and is silent."""
    pid = daemon_pid(paths)
    process = f"it with `kill -9 {pid}`" if pid else "the process `sessiond`"
    return Problem(
        "unreachable",
        f"the daemon does not answer: nothing came from {paths.socket} for {SILENCE} s",
        f"End {process} and try again. `sess service logs` may say why.",
    )


def daemon_pid(paths: "Paths") -> int:
    """Return the process id of the daemon that holds the lock, or 0: what one that ended noted may be another's now."""
    import fcntl

    try:
        lock = posix.open(paths.lock, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return 0
    noted = b""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        noted = posix.read(lock, 64)  # "pid 4711, version 0.1.0"
    finally:
        posix.close(lock)
    pid = noted.removeprefix(b"pid ").partition(b",")[0]
    return int(pid) if pid.isdigit() else 0


def write(fd: int, data: bytes) -> None:
    """Write all of *data* to the stdout (1) or stderr (2) of the process.

    Ends the process when nobody reads its stdout any more. What stderr refuses is lost. Raises Problem
    when stdout fails in another way.
    """
    while data:
        try:
            data = data[posix.write(fd, data) :]
        except BlockingIOError:
            from select import select

            select([], [fd], [])
        except OSError as error:
            if fd == 2:
                return
            if isinstance(error, BrokenPipeError):
                posix._exit(PIPE_CLOSED)  # noqa: SLF001 - its public name is in `os`
            why = f"the output could not be written: {error.strerror}"
            raise Problem("internal", why, "Free some room there, or write it elsewhere.") from None


def _occupy_closed_descriptors() -> None:
    """Open what the process was started without, lest the socket become its stdout."""
    while (fd := posix.open("/dev/null", posix.O_RDWR)) <= 2:
        posix.set_inheritable(fd, True)
    posix.close(fd)


def paths() -> "Paths":
    """Return where this user's daemon and its files are."""
    encoding = sys.getfilesystemencoding()
    environment = {
        key.decode(encoding, "surrogateescape"): value.decode(encoding, "surrogateescape")
        for key, value in posix.environ.items()
    }
    return locate(environment, posix.getuid(), sys.platform, is_private)


def context() -> dict[str, bytes]:
    """Return what the front has to know of this process, as ``Context.from_items`` reads it."""
    environment = posix.environ
    terminals = "".join(fd for fd in "012" if posix.isatty(int(fd)))
    columns = environment.get(b"COLUMNS", b"")
    if not columns.isdigit():
        columns = b"%d" % posix.get_terminal_size(1).columns if "1" in terminals else b"0"
    color = "1" in terminals and not environment.get(b"NO_COLOR") and environment.get(b"TERM", b"dumb") != b"dumb"
    known = {
        "home": environment.get(b"HOME", b""),
        "columns": columns,
        "tty": terminals.encode(),
        "color": b"1" if color else b"0",
    }
    try:
        return {**known, "cwd": posix.getcwdb()}
    except OSError:
        return known  # The folder is gone; only `--here` needs it.


def _copy(connection: _socket.socket, put: "Callable[[int, bytes], None]") -> int:
    """Copy the answer to *put* and return its exit code, or `HANDED_BACK`.

    Raises OSError when the connection ends before any output.
    """
    copied = False
    pending = b""
    try:
        while True:
            header, complete, rest = pending.partition(b"\n")
            if not complete:
                pending += _receive(connection)
                continue
            kind, number, *_ = header.split(b" ")
            if kind == b"0":
                return int(number)
            fd, left = (b"1", b"2").index(kind) + 1, int(number)
            while left > len(rest):
                put(fd, rest)
                left -= len(rest)
                copied = True
                rest = _receive(connection)
            put(fd, rest[:left])
            copied = copied or left > 0
            pending = rest[left:]
    except ConnectionError:
        if copied:
            raise Problem("unreachable", "the answer is incomplete: the daemon ended", "Try again.") from None
        raise
    except (ValueError, IndexError):
        raise Problem("unreachable", "what answers is not sessiond: it speaks something else", "Try again.") from None


def _receive(connection: _socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionResetError
    return data
