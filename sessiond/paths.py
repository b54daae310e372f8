"""Every decision about where things are, as pure functions of the environment.

Shared with the client, so it imports nothing that a bare interpreter has not loaded already.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SUN_PATH = 107
"""Bytes a Unix socket path may have on Linux; macOS has 103 (measured and sys/un.h)."""


class Paths:
    """Where one user's index, socket and the rest are."""

    __slots__ = ("config", "index", "lock", "log", "runtime", "snapshots", "socket", "state")

    def __init__(self, state: str, runtime: str, config: str, log: str) -> None:
        self.state = state
        self.index = state + "/index.sqlite"
        self.log = log + "/sessiond.log"
        self.runtime = runtime
        self.socket = runtime + "/sessiond.sock"
        self.lock = runtime + "/sessiond.lock"
        self.snapshots = runtime + "/here"
        self.config = config


def locate(env: "Mapping[str, str]", uid: int, platform: str, private: "Callable[[str], bool]") -> Paths:
    """Return the paths for a user.

    *platform* is as in ``sys.platform``. *private* tells whether a folder exists, is the
    user's own and closed to others. ``XDG_RUNTIME_DIR`` is not asked: launchd, cron, ssh and
    a desktop terminal disagree about it, and client and daemon must not (atuinsh/atuin#3910).
    """

    def folder(key: str) -> str:
        # A relative one would be another folder for client and daemon; XDG has it ignored as well.
        return env.get(key, "") if env.get(key, "").startswith("/") else ""

    home = env.get("HOME") or "/"
    mac = platform == "darwin"
    support = home + "/Library/Application Support/sess"
    state = folder("SESS_STATE_DIR") or (
        support if mac else (folder("XDG_STATE_HOME") or home + "/.local/state") + "/sess"
    )
    runtime = folder("SESS_RUNTIME_DIR")
    if not runtime and not folder("SESS_STATE_DIR") and not mac and private(f"/run/user/{uid}"):
        runtime = f"/run/user/{uid}/sess"
    config = folder("SESS_CONFIG") or (
        support + "/config.toml" if mac else (folder("XDG_CONFIG_HOME") or home + "/.config") + "/sess/config.toml"
    )
    log = home + "/Library/Logs/sess" if mac and not folder("SESS_STATE_DIR") else state
    return Paths(state, runtime or state + "/run", config, log)


_NAME_BYTES = bytes(byte if chr(byte).isalnum() and byte < 128 else 0x2D for byte in range(256))


def snapshot_name(folder: bytes) -> str:
    """Return the name of the file in ``snapshots`` that tells of the sessions in *folder* or below it.

    Its path with every byte but ASCII letters and digits as ``-``, and of a long one the end, as a name
    may have 255 bytes: what a shell's builtins can do too. Folders may share a name; the file tells them apart.
    """
    return folder.translate(_NAME_BYTES)[-200:].decode()


def socket_path_problem(path: str, platform: str) -> str:
    """Return why *path* cannot be a socket's address, or ``""``."""
    limit = 103 if platform == "darwin" else SUN_PATH
    length = len(path.encode("utf-8", "surrogateescape"))
    return f"{path} has {length} bytes, and a socket's path may have {limit}" if length > limit else ""


def exposure(folder: str, uid: int) -> str:
    """Return why *folder* is not *uid*'s alone, or ``""``. Raises OSError when that cannot be told.

    Not every system heeds the mode of a socket; all heed that of the folder it is in.
    """
    found = posix.lstat(folder)
    if found.st_mode & 0o170000 != 0o040000:
        return f"{folder} is not a folder"
    if found.st_uid != uid:
        return f"{folder} belongs to user {found.st_uid}"
    if found.st_mode & 0o077:
        return f"{folder} is open to others (mode {found.st_mode & 0o7777:04o})"
    return ""


def make_private(folder: str, uid: int) -> str:
    """Make *folder*, and what is missing above it, *uid*'s alone; return why it is not, or ``""``. Raises OSError.

    The umask, of which a process with several threads has only one, is neither heeded nor changed.
    """
    missing: list[str] = []
    while folder_above := (missing[-1] if missing else folder + "/").rpartition("/")[0]:
        try:
            posix.stat(folder_above)
            break
        except FileNotFoundError:
            missing.append(folder_above)
    for path in reversed(missing):
        try:
            posix.mkdir(path, 0o700)
            posix.chmod(path, 0o700)
        except FileExistsError:  # somebody else was quicker, or it is a link to nothing
            pass
    return exposure(folder, uid)


FILE, FOLDER = 0o100000, 0o040000


def clear_place(path: str, kind: int = FILE) -> None:
    """Rename what is at *path* unless it is of this *kind*: a link or a FIFO, say, in the place of a file of ours."""
    try:
        if posix.lstat(path).st_mode & 0o170000 == kind:
            return
        number = 1
        while True:
            stranger = path + ".stranger" + (str(number) if number > 1 else "")
            try:
                posix.lstat(stranger)
            except FileNotFoundError:
                break
            number += 1
        posix.rename(path, stranger)
    except FileNotFoundError:
        pass


def ours(path: str, flags: int) -> int:
    """Open a file of ours for `open`: follows no link, waits for no FIFO."""
    return posix.open(path, flags | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC, 0o600)


def identity(path: str) -> tuple[int, int] | None:
    """Return what tells the file or folder at *path* from any other, None when there is none."""
    try:
        found = posix.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_private(folder: str) -> bool:
    """Return whether *folder* exists, is the user's own and closed to others."""
    try:
        return not exposure(folder, posix.getuid())
    except OSError:
        return False
