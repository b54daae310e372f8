"""A person who is logged in beside a real `systemd --user`, and an installation of hers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import sessiond
from tests.daemon import PATIENCE, REPOSITORY
from tests.installed import build, create, pip

UID = 1000
HOME = "/run/home"
RUNTIME = f"/run/user/{UID}"
STARTER = REPOSITORY / "tests/with-user-systemd"


def hindrance() -> str:
    """Return why nobody can be logged in here, ``""`` when somebody can."""
    if sys.platform != "linux" or os.getuid():
        return "needs root on Linux, for its namespaces"
    tried = subprocess.run([STARTER, "true"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    return tried.stderr.strip() if tried.returncode else ""


class Installation:
    """An environment that holds sess, built from the sources as they are but for the version."""

    def __init__(self) -> None:
        # systemd gives a meaning to the sign, and splits at spaces.
        self.folder = Path(tempfile.mkdtemp(prefix="sess-", dir="/tmp")) / "50%h off"
        self.folder.parent.chmod(0o755)
        self.first = self.wheel(sessiond.__version__)
        create(self.folder, self.first)
        self._hand_over()

    def remove(self) -> None:
        shutil.rmtree(self.folder.parent)

    def wheel(self, version: str) -> Path:
        """Return a wheel of that version, built when it is first asked for."""
        sources = self.folder.parent / version
        if not sources.exists():
            for name in ("sessiond", "cli", "docs", "systemd", "launchd"):
                shutil.copytree(REPOSITORY / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
            for name in ("pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(REPOSITORY / name, sources)
            module = sources / "sessiond/__init__.py"
            module.write_text(module.read_text().replace(f'"{sessiond.__version__}"', f'"{version}"'))
            build(sources, "--wheel", "--outdir", sources / "dist")
        return next((sources / "dist").glob("*.whl"))

    def upgrade(self, wheel: Path) -> None:
        """Put *wheel* in place of what is installed, as pip does."""
        pip(self.folder, "install", "--no-deps", "--no-index", "--force-reinstall", wheel)
        self._hand_over()

    def _hand_over(self) -> None:
        subprocess.run(["chown", "-R", f"{UID}:{UID}", self.folder], check=True)


class Login:
    """Somebody logged in, until `close`."""

    def __init__(self, installation: Installation, home: str = HOME) -> None:
        self.home = home
        self.path = f"{installation.folder}/bin:/usr/local/bin:/usr/bin:/bin"
        self._starter = subprocess.Popen(
            [STARTER, "--show", sys.base_prefix, "--home", home, "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._starter.stdout
        assert self._starter.stdout.readline() == b"ready\n"
        pid = self._starter.pid
        self._process_1 = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]

    def close(self) -> None:
        """Log out."""
        self._starter.communicate(timeout=PATIENCE)

    def argv(self, *words: str, **variables: str) -> list[str]:
        """Return what runs a command as hers."""
        own = {"HOME": self.home, "USER": "anna", "LANG": "C.UTF-8", "PATH": self.path, "XDG_RUNTIME_DIR": RUNTIME}
        return [
            *("nsenter", "--target", self._process_1, "--mount", "--pid", "--cgroup"),
            *("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "env", "--ignore-environment"),
            *(f"{name}={value}" for name, value in (own | variables).items()),
            *("--chdir=" + self.home, *words),
        ]

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.argv(*words, **variables),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def done(self, *words: str, **variables: str) -> str:
        """Return what a command prints; its failure is that of the test."""
        done = self.run(*words, **variables)
        assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Write a file below her home, as she would."""
        command = 'mkdir -p "${1%/*}" && cat >"$1"'
        subprocess.run(self.argv("sh", "-c", command, "sh", f"{self.home}/{path}"), input=text, text=True, check=True)

    def tree(self) -> list[str]:
        """Return every file and folder of hers, with its mode, but for those of systemd's own."""
        pruned = ["-path", f"{RUNTIME}/systemd", "-prune", "-o", "-printf", "%p %M\n"]
        return sorted(self.done("find", self.home, RUNTIME, *pruned).splitlines())
