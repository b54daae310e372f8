"""What is no file by the name of one is never opened; a file that changes or is closed to us is a reason, no error."""

from __future__ import annotations

import os
import random
import shutil
import socket
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessiond.apps import APPS
from sessiond.reading import Job, read
from sessiond.session import Stat, Unit
from tests import samples
from tests.samples import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = b'{"type":"user","message":{"content":"hunter2"}}\n'


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(path.parent, os.O_RDONLY)
        try:
            bound.bind(f"/proc/self/fd/{here}/{path.name}")  # the path itself may be too long
        finally:
            os.close(here)


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root can make a device")


def _credentials(path: Path) -> None:
    target = path.with_name("auth.json")
    target.write_bytes(SECRET)
    path.symlink_to(target)


def _elsewhere(path: Path) -> None:
    target = Path(samples.FOLDER.name) / "elsewhere.jsonl"
    target.write_bytes(SECRET)
    path.symlink_to(target)


ODD: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "socket": _socket,
    "device": _device,
    "folder": Path.mkdir,
    "full folder": lambda path: (path / "x").mkdir(parents=True),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to nothing": lambda path: path.symlink_to("/nowhere"),
    "link to credentials": _credentials,
    "link out of the store": _elsewhere,
}


@pytest.fixture(params=SAMPLES, ids=samples.name)
def sample(request: pytest.FixtureRequest) -> Iterator[tuple[Unit, bytes]]:
    unit, content = request.param
    path = Path(unit.path)
    yield unit, content
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_what_is_no_file_is_no_unit(sample: tuple[Unit, bytes], make: Callable[[Path], object]) -> None:
    """It is not listed, its stat says that it is gone, and opening it gives a reason at once."""
    unit, _ = sample
    app, path = APPS[unit.app], Path(unit.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    assert unit not in [found for found, _ in app.units(unit.root, lambda path, error: None)]
    with pytest.raises(FileNotFoundError):
        app.stat(unit)
    scan = read(app, Job(unit, Stat(1, 1, 1, 1, 1), None))
    assert scan is None or (scan.problem and not scan.facts)
    assert scan is None or not samples.INTERNAL.fullmatch(scan.problem), scan.problem


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_a_file_closed_to_us_is_a_reason(sample: tuple[Unit, bytes]) -> None:
    """No permission is said in the words of the system."""
    unit, content = sample
    Path(unit.path).write_bytes(content)
    Path(unit.path).chmod(0)
    stat = APPS[unit.app].stat(unit)
    effective = os.geteuid()
    os.chmod(samples.FOLDER.name, 0o711)
    os.seteuid(65534)
    try:
        scan = read(APPS[unit.app], Job(unit, stat, None))
    finally:
        os.seteuid(effective)
    assert scan is not None
    assert scan.problem == "Permission denied"


def test_a_file_that_changes_while_it_is_read(sample: tuple[Unit, bytes]) -> None:
    """Cut short, replaced, grown and emptied all the time: facts, or a reason of the system's or the database's."""
    unit, content = sample
    app, path = APPS[unit.app], Path(unit.path)
    rng = random.Random(1)
    ended = threading.Event()

    def disturb() -> None:
        while not ended.is_set():
            with path.open("r+b") as file:
                file.truncate(rng.randrange(len(content)))
                file.write(content[: rng.randrange(len(content))])
            new = path.with_name("new.tmp")
            new.write_bytes(content)
            new.rename(path)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(150):
            scan = read(app, Job(unit, app.stat(unit), None))
            assert scan is not None
            assert not samples.INTERNAL.fullmatch(scan.problem), scan.problem
    finally:
        ended.set()
        thread.join()
