"""What the client's tests share: an installed client, and daemons that answer as a test wants."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import wcwidth

from sessiond.paths import Paths
from tests.cli.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Handler = Callable[[socket.socket], None]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A runtime folder with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="sess", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def paths(runtime: Path) -> Paths:
    """The paths of a user whose state and runtime folder are one."""
    return Paths(str(runtime), str(runtime), str(runtime / "config.toml"), str(runtime))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages: ours and what they need."""
    folder = tmp_path_factory.mktemp("venv") / "lib/python3/site-packages"
    folder.mkdir(parents=True)
    for package in (ROOT / "sessiond", ROOT / "cli/sess", Path(wcwidth.__file__).parent):
        (folder / package.name).symlink_to(package)
    return folder


class Client:
    """The installed client, in an environment of its own."""

    def __init__(self, site: Path, runtime: Path) -> None:
        self.site = site
        self.env = {
            "HOME": "/home/anna",
            "PATH": os.defpath,
            "SESS_STATE_DIR": str(runtime),
            "SESS_RUNTIME_DIR": str(runtime),
            "SESS_NO_SPAWN": "1",
        }

    def argv(self, *words: str | bytes, before: str = "") -> list[str | bytes]:
        """Return what starts the client; *before* is Python to run first."""
        if before:
            code = f"import sys; sys.path.append({str(self.site)!r})\n{before}\nimport sess.relay; sess.relay.main()"
            return [sys.executable, "-I", "-S", "-c", code, *words]
        return [sys.executable, "-I", "-S", str(self.site / "sess/__main__.py"), *words]

    def __call__(self, *words: str | bytes, before: str = "", **env: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        argv = self.argv(*words, before=before)
        return subprocess.run(
            argv, env={**self.env, **env}, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )


@pytest.fixture
def client(site: Path, runtime: Path) -> Client:
    """The installed client, in an environment of its own."""
    return Client(site, runtime)


@pytest.fixture
def listen(runtime: Path) -> Iterator[Callable[[Handler], None]]:
    """Start a daemon that serves every connection with the given function, one after the other."""
    listeners: list[tuple[socket.socket, threading.Thread]] = []

    def start(serve: Handler) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(runtime / "sessiond.sock"))
        listener.listen()

        def loop() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        listeners.append((listener, thread))

    yield start
    for listener, thread in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A person's machine, shared by the tests of a module."""
    machine = Machine()
    yield machine
    machine.close()
