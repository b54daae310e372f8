"""A FUSE file system that shows a folder, and can be told to hang or to fail: what a network mount does at its worst.

It speaks to /dev/fuse itself (protocol 7.31, include/uapi/linux/fuse.h), so it needs root and no program.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 25, 26, 27, 28, 29, 36, 42
_UNANSWERED = (FORGET, INTERRUPT, BATCH_FORGET)
_FORCE, _DETACH = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


class Mount:
    """*source* seen at *target* until `end`; raises OSError where that cannot be had."""

    def __init__(self, source: Path, target: Path) -> None:
        self.hanging: frozenset[int] = frozenset()
        """Operations that get no answer."""
        self.failing: frozenset[int] = frozenset()
        """Operations that get EIO."""
        self.asked: list[int] = []
        """Operations that were asked for while they hang or fail."""
        self._target = os.fsencode(target)
        self._paths = {1: os.fsencode(source)}
        self._held: list[bytes] = []
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        if _libc.mount(b"test", self._target, b"fuse", 0, options.encode()):
            os.close(self._fd)
            raise OSError(ctypes.get_errno(), "cannot mount")
        self._thread = threading.Thread(target=self._serve, name="fuse", daemon=True)
        self._thread.start()

    def hang(self, *operations: int) -> None:
        """Leave these without an answer from now on."""
        self.asked.clear()
        self.hanging = frozenset(operations)

    def resume(self) -> None:
        """Answer everything again, what was asked meanwhile too."""
        self.hanging = self.failing = frozenset()
        held, self._held = self._held, []
        for request in held:
            self._answer(request)

    def end(self) -> None:
        """Unmount it; who hangs in it gets an error."""
        if self._fd < 0:
            return
        for how in (_FORCE, _DETACH):
            _libc.umount2(self._target, how)
        self._thread.join(5)
        os.close(self._fd)
        self._fd = -1

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._fd, 1 << 18)
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                return
            operation = struct.unpack_from("I", request, 4)[0]
            if operation in self.hanging | self.failing:
                self.asked.append(operation)
            if operation in self.hanging:
                self._held.append(request)
            elif operation not in _UNANSWERED:
                self._answer(request)

    def _answer(self, request: bytes) -> None:
        _, operation, unique, node = struct.unpack_from("IIQQ", request)
        try:
            if operation in self.failing:
                raise OSError(errno.EIO, "told to fail")
            body, code = self._do(operation, node, request[40:]), 0
        except OSError as error:
            body, code = b"", -(error.errno or errno.EIO)
        try:
            os.write(self._fd, struct.pack("IiQ", 16 + len(body), code, unique) + body)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # interrupted, unmounted
                raise

    def _do(self, operation: int, node: int, body: bytes) -> bytes:
        path = self._paths[node] if operation != INIT else b""
        if operation == INIT:
            return struct.pack("IIIIHHIIHHI28x", 7, 31, 1 << 16, 0, 0, 0, 1 << 12, 1, 0, 0, 0)
        if operation == LOOKUP:
            child = path + b"/" + body.rstrip(b"\0")
            number, attributes = self._attributes(child)
            self._paths[number] = child
            return struct.pack("QQQQII", number, 0, 0, 0, 0, 0) + attributes
        if operation == GETATTR:
            return struct.pack("QII", 0, 0, 0) + self._attributes(path)[1]
        if operation in (OPEN, OPENDIR):
            return struct.pack("QII", 0, 1, 0)  # read straight from us, without the page cache
        if operation == READ:
            _, offset, size = struct.unpack_from("QQI", body)
            with open(path, "rb") as file:
                return os.pread(file.fileno(), size, offset)
        if operation == READDIR:
            _, offset, size = struct.unpack_from("QQI", body)
            return self._entries(path, offset, size)
        if operation in (RELEASE, RELEASEDIR, FLUSH):
            return b""
        if operation == STATFS:
            return bytes(80)
        raise OSError(errno.ENOSYS, "not needed")

    def _attributes(self, path: bytes) -> tuple[int, bytes]:
        found = os.lstat(path)
        number = 1 if path == self._paths[1] else found.st_ino
        times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        return number, struct.pack(
            "6Q10I",
            *(number, found.st_size, found.st_blocks, *(time // 10**9 for time in times)),
            *(*(time % 10**9 for time in times), found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0),
        )

    def _entries(self, path: bytes, offset: int, size: int) -> bytes:
        found = b""
        for position, name in enumerate(sorted(os.listdir(path))[offset:], offset + 1):
            entry = struct.pack("QQII", 2, position, len(name), 0) + name
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found
