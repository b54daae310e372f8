"""What is shipped: the wheel holds what it should and works where nothing else is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import NamedTuple

import pytest

import sessiond
from fixtures import home
from tools import environment

ROOT = Path(environment.ROOT)
pytestmark = [pytest.mark.xdist_group("install"), pytest.mark.timeout(300)]


class Built(NamedTuple):
    sdist: Path
    from_tree: Path
    from_sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the sdist and a wheel from it, as PyPI gets them, and a wheel straight from the tree."""
    release, tree = tmp_path_factory.mktemp("release"), tmp_path_factory.mktemp("tree")
    for arguments in (["--outdir", release], ["--wheel", "--outdir", tree]):
        command = [sys.executable, "-m", "build", *arguments, ROOT]
        done = subprocess.run(command, env=environment.clean(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return Built(next(release.glob("*.tar.gz")), next(tree.glob("*.whl")), next(release.glob("*.whl")))


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone, into a folder with a space in its name; return the folder of its programs."""
    folder = tmp_path_factory.mktemp("clean") / "an environment"
    environment.create(str(folder))
    environment.install(str(folder), [str(built.from_sdist)])
    return folder / "bin"


def test_the_wheel_brings_two_packages_and_nothing_else(built: Built) -> None:
    """An importable ``cli``, ``tests`` or ``tools`` would get in the way of other people's."""
    with zipfile.ZipFile(built.from_tree) as wheel:
        names = {name.partition("/")[0] for name in wheel.namelist()}
    assert names == {"sess", "sessiond"} | {f"sess-{sessiond.__version__}.{kind}" for kind in ("dist-info", "data")}


def test_every_file_of_the_packages_is_in_the_wheel(built: Built) -> None:
    """Shell code, units and the typing marker are as much part of the program as its modules."""
    expected = {f"sess-{sessiond.__version__}.data/scripts/sess"}
    for package, source in (("sessiond", ROOT / "sessiond"), ("sess", ROOT / "cli/sess")):
        files = [path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        expected |= {f"{package}/{path.relative_to(source)}" for path in files}
    with zipfile.ZipFile(built.from_tree) as wheel:
        assert expected <= set(wheel.namelist())


def test_a_wheel_from_the_sdist_is_the_wheel_from_the_tree(built: Built) -> None:
    """Whoever builds from the sdist, as distributions do, gets the same program."""
    with zipfile.ZipFile(built.from_tree) as tree, zipfile.ZipFile(built.from_sdist) as sdist:
        assert {name: tree.read(name) for name in tree.namelist()} == {
            name: sdist.read(name) for name in sdist.namelist()
        }


def test_the_wheel_says_what_it_needs_and_under_which_licence(built: Built) -> None:
    """The metadata agrees with pyproject.toml and the LICENSE file is inside."""
    folder = f"sess-{sessiond.__version__}.dist-info"
    with zipfile.ZipFile(built.from_tree) as wheel:
        metadata = message_from_bytes(wheel.read(f"{folder}/METADATA"))
        assert f"{folder}/licenses/LICENSE" in wheel.namelist()
    assert metadata["Version"] == sessiond.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"


def test_an_installed_sess_finds_a_session(installed: Path, tmp_path: Path) -> None:
    """Without development dependencies, away from the sources, the daemon starts and answers."""
    sample = home.make(str(tmp_path / "home"))[0]
    runtime = tmp_path / "r"
    env = {"HOME": str(tmp_path / "home"), "PATH": f"{installed}:{os.defpath}"}
    env |= {"SESS_STATE_DIR": str(tmp_path / "state"), "SESS_RUNTIME_DIR": str(runtime)}

    def sess(*words: str) -> subprocess.CompletedProcess[str]:
        command = [installed / "sess", *words]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    try:
        found = sess("find", "--sync", "--ids", f"title:{sample.title.split()[0]}")
        assert found.returncode == 0, found.stderr
        assert sample.id in found.stdout.split()
    finally:
        assert sess("stop").returncode == 0


def test_an_installed_sess_brings_no_more_than_it_says(installed: Path) -> None:
    """Its dependencies come along; the tools of its development do not."""
    listing = [installed / "python", "-m", "pip", "list", "--format", "freeze"]
    done = subprocess.run(listing, env=environment.clean(), capture_output=True, text=True, check=True)
    names = {line.partition("==")[0] for line in done.stdout.split()}
    assert names - {"pip", "setuptools"} <= {"apsw", "backports.zstd", "sess", "watchdog", "wcwidth"}
