"""The client at length: asks the daemon in JSON, starts one, replaces an older one.

The relay imports this when no daemon of its own version answers. A command then runs in this
process, and the daemon is started when the command first asks something of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sess import front, manager
from sess.relay import connect, daemon_pid, hung, write
from sessiond import __version__
from sessiond.paths import make_private, socket_path_problem
from sessiond.protocol import EXITS, PROTOCOL, Answer, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sessiond.paths import Paths

START = 10.0
"""Seconds that a daemon has to end, and a new one to answer."""

EXAMINATION = 300.0
"""Seconds for an answer to ``doctor``, for which the whole index is read."""

# -I, but for -s: with `pip install --user` the daemon lies in the user's own folder of packages.
DAEMON = (sys.executable, "-E", "-P", "-m", "sessiond")

_ASIDE = frozenset({"status", "stop"})
"""What is asked of the daemon as it is: it is neither started nor replaced for that."""

_TRIES = 3
"""Times that a request is put when the daemon ends before it has answered."""


def run(paths: Paths, context: Mapping[str, bytes], words: Sequence[bytes]) -> int:
    """Run a command in this process, for a client that knows *context*, and return its exit code."""
    if sys.flags.no_site:
        # What the front imports may lie in any folder that only `site` knows.
        import site

        site.main()
    ready = False

    def ask_ready(request: dict[str, Any]) -> Answer:
        nonlocal ready
        if request["op"] in _ASIDE:
            return ask(paths, request)
        for _ in range(_TRIES - 1):
            if not ready:
                ensure(paths)
                ready = True
            try:
                return ask(paths, request)
            except front.NotRunning:
                ready = False  # it is just being replaced
        ensure(paths)
        return ask(paths, request)

    def emit(fd: int, text: str) -> None:
        write(fd, text.encode("utf-8", "replace"))

    decoded = [os.fsdecode(word) for word in words]
    return front.run(decoded, front.Context.from_items(context), ask_ready, emit, local=True)


def ask(paths: Paths, request: dict[str, Any]) -> Answer:
    """Return what the running daemon answers. Raises Problem, also when there is none."""
    rows = []
    pending = b""
    try:
        with closing(connect(paths)) as connection:
            if request["op"] == "doctor":
                connection.settimeout(EXAMINATION)
            connection.sendall(json.dumps(request).encode() + b"\n")
            while data := connection.recv(1 << 16):
                *lines, pending = (pending + data).split(b"\n")
                for part in map(json.loads, lines):
                    if "row" in part:
                        rows.append(part["row"])
                    elif "ok" in part:
                        return Answer(rows, part["ok"])
                    else:
                        raise _problem(part["error"])
    except TimeoutError:
        raise hung(paths) from None
    except (FileNotFoundError, ConnectionError):
        pass
    except OSError as error:
        why = error.strerror or str(error)
        raise Problem(
            "unreachable", f"the daemon cannot be reached: {paths.socket}: {why}", "`sess doctor` looks at everything."
        ) from None
    except (KeyError, TypeError, ValueError):
        raise Problem("unreachable", f"what answers at {paths.socket} is not sessiond", "Try again.") from None
    raise front.NotRunning


def follow(paths: Paths, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what the daemon tells of changes, until it ends. Raises Problem."""
    pending = b""
    try:
        with closing(connect(paths)) as connection:
            connection.settimeout(None)
            connection.sendall(json.dumps({"v": PROTOCOL, **request}).encode() + b"\n")
            while data := connection.recv(1 << 16):
                *lines, pending = (pending + data).split(b"\n")
                for part in map(json.loads, lines):
                    if "error" in part:
                        raise _problem(part["error"])
                    if "event" in part:
                        yield part
    except TimeoutError:
        raise hung(paths) from None
    except OSError as error:
        why = error.strerror or str(error)
        raise Problem("unreachable", f"the daemon cannot be followed: {why}", "Try again.") from None


def _problem(error: dict[str, str]) -> Problem:
    code = error["code"] if error["code"] in EXITS else "internal"  # a later daemon may have more
    return Problem(code, error["message"], error["hint"])


def ensure(paths: Paths, command: Sequence[str] = DAEMON) -> None:
    """Return once a daemon of this version answers, started by *command* if need be.

    A running one that is older is told to stop first. Raises Problem when it cannot be.
    """
    if not _has_to_start(running(paths)):
        return
    if problem := socket_path_problem(paths.socket, sys.platform):
        raise Problem("unreachable", f"no daemon can be started: {problem}", "Set SESS_RUNTIME_DIR to a shorter path.")
    make_folders(paths)
    with startup_lock(paths):
        deadline = time.monotonic() + START
        version = running(paths)
        if not _has_to_start(version):
            return
        if version:
            _check_service(paths, version)
            with suppress(front.NotRunning):
                ask(paths, {"v": PROTOCOL, "op": "stop"})
        wait_for_lock(paths, deadline, lambda: running(paths) == __version__)
        if running(paths) != __version__ and not _start_service(paths, deadline):
            _start(paths, command, deadline)


def _has_to_start(version: str) -> bool:
    """Return whether a daemon is to be started, *version* being the running one's. Raises Problem when none may be."""
    if version == __version__:
        return False
    if _release(version) > _release(__version__):
        raise Problem(
            "unreachable",
            f"this is sess {__version__}, and the daemon is already sess {version}",
            "sess was upgraded: open a new shell, or look which one runs with `command -v sess`.",
        )
    if os.environ.get("SESS_NO_SPAWN"):
        raise Problem(
            "unreachable",
            f"the daemon {f'is of version {version}' if version else 'is not running'}, and SESS_NO_SPAWN is set",
            "Unset it, or start the daemon with `sessiond`.",
        )
    return True


def running(paths: Paths) -> str:
    """Return the version of the daemon that answers, or ``""`` when none does."""
    try:
        return str(ask(paths, {"v": PROTOCOL, "op": "status"}).ok["version"])
    except front.NotRunning:
        return ""


def _release(version: str) -> tuple[int, ...]:
    """Return *version* for comparison. A pre-release counts as its release: then this client's is taken."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def make_folders(paths: Paths) -> None:
    """Create the daemon's folders. Raises Problem when one cannot be, or is not this user's alone."""
    for folder in (paths.state, paths.runtime, os.path.dirname(paths.log)):
        try:
            problem = make_private(folder, os.getuid())
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}"
        if problem:
            raise Problem(
                "unreachable",
                f"no daemon can be started: {problem}",
                "Make that folder writable for you alone, or set SESS_STATE_DIR to another.",
            )


@contextmanager
def startup_lock(paths: Paths) -> Iterator[None]:
    """Hold the lock by which of several clients one starts the daemon. Its file stays: a lock is an inode."""
    lock = _opened(paths.runtime + "/startup.lock", os.O_RDWR)
    try:
        for _ in until(time.monotonic() + 2 * START):  # its holder may wait for an end and for a start
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pass
        else:
            raise Problem("unreachable", "another client is starting the daemon and does not end", "Try again.")
        yield
    finally:
        os.close(lock)


def wait_for_lock(paths: Paths, deadline: float, enough: Callable[[], bool] = lambda: False) -> None:
    """Return once no daemon holds the daemon's lock, or *enough* is true: one that somebody just started answers."""
    try:
        lock = os.open(paths.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        for _ in until(deadline):
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                if enough():
                    return
            else:
                return
    finally:
        os.close(lock)
    pid = daemon_pid(paths)
    raise Problem(
        "unreachable",
        f"a daemon holds {paths.lock} and does not answer",
        f"{f'End it with `kill -9 {pid}` and try again' if pid else 'Try again'}. `sess service logs` may say why.",
    )


def _check_service(paths: Paths, version: str) -> None:
    """Raise Problem when a service would go on starting a daemon of another installation, of which one is *version*."""
    service = manager.installed(paths, os.environ)
    if service and not service.starts(DAEMON):
        raise Problem(
            "unreachable",
            f"this is sess {__version__}, and {service.name} starts sess {version}, of another installation",
            "`sess service install` has it start this one.",
        )


def _start_service(paths: Paths, deadline: float) -> bool:
    """Have the service manager start the daemon, if it is to serve here; return whether it answers."""
    service = manager.installed(paths, os.environ)
    if service is None or not service.try_start():
        return False
    for _ in until(deadline):
        if running(paths) == __version__:
            return True
        if service.state().active == "failed":
            break
    return False


def _start(paths: Paths, command: Sequence[str], deadline: float) -> None:
    """Start *command* detached from the terminal, and wait until it answers."""
    import subprocess

    log = _opened(paths.log, os.O_WRONLY | os.O_APPEND)
    before = os.fstat(log).st_size
    child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, umask=0o077
    )
    os.close(log)
    for _ in until(deadline):
        ended = child.poll()
        if running(paths):
            return
        if ended is not None:
            how = f"it was killed by signal {-ended}" if ended < 0 else f"it ended with exit code {ended}"
            raise Problem(
                "unreachable",
                f"the daemon could not be started: {how}: {_last_line(paths.log, before)}",
                f"Its log may say more: {paths.log}. `sess doctor` looks at what it needs.",
            )
    raise Problem(
        "unreachable",
        f"the daemon was started and does not answer within {START:.0f} s",
        "Try again. `sess service logs` may say why.",
    )


def _opened(path: str, flags: int) -> int:
    """Return a descriptor of the file of ours at *path*, made if it is missing; raises Problem."""
    try:
        # O_NONBLOCK: a FIFO in its place would hang us.
        return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Problem(
            "unreachable",
            f"no daemon can be started: {path}: {error.strerror}",
            "Make its folder writable and leave 1 MB free there, and nothing but a file in its place.",
        ) from None


def _last_line(path: str, start: int) -> str:
    """Return the last line that was written to the log after *start*."""
    with open(path, "rb") as log:
        log.seek(max(start, os.fstat(log.fileno()).st_size - 4096))
        lines = log.read().decode("utf-8", "replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it wrote nothing to its log")


def until(deadline: float) -> Iterator[None]:
    """Yield at once, then after growing pauses until *deadline*, at least once."""
    pause = 0.005
    while True:
        yield
        if time.monotonic() > deadline:
            return
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
