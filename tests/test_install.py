"""What is shipped: the wheel holds what it should and works where nothing else is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import NamedTuple

import pytest

import sessiond
from fixtures import home
from tests.installed import build, create, pip
from tools import environment

ROOT = Path(environment.ROOT)
pytestmark = [pytest.mark.xdist_group("install"), pytest.mark.timeout(300)]


TOP = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml", "test", "try"}
FOLDERS = {".ci", "cli", "docs", "fixtures", "launchd", "sessiond", "systemd", "tests", "tools"}


class Built(NamedTuple):
    sdist: Path
    from_tree: Path
    from_sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the sdist and a wheel from it, as PyPI gets them, and a wheel straight from the tree."""
    release, tree = tmp_path_factory.mktemp("release"), tmp_path_factory.mktemp("tree")
    build(ROOT, "--outdir", release)
    build(ROOT, "--wheel", "--outdir", tree)
    return Built(next(release.glob("*.tar.gz")), next(tree.glob("*.whl")), next(release.glob("*.whl")))


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone, into a folder with a space in its name; return the folder of its programs."""
    folder = tmp_path_factory.mktemp("clean") / "an environment"
    create(folder, built.from_sdist)
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


def test_another_day_folder_and_umask_build_the_same_bytes(built: Built, tmp_path: Path) -> None:
    """Anybody can check that a release was made from its sources."""
    sources, made = tmp_path / "elsewhere", tmp_path / "made"
    subprocess.run(["tar", "-xf", built.sdist, "-C", tmp_path], check=True)
    (tmp_path / built.sdist.name.removesuffix(".tar.gz")).rename(sources)
    (sources / "PKG-INFO").unlink()
    for path in sources.rglob("*"):
        path.chmod(0o700 if path.is_dir() or os.access(path, os.X_OK) else 0o600)
        os.utime(path, (1_900_000_000, 1_900_000_000))
    build(sources, "--outdir", made, umask=0o077)
    for release in (built.sdist, built.from_sdist):
        assert (made / release.name).read_bytes() == release.read_bytes()


def test_the_sdist_holds_the_project_and_nothing_else(built: Built) -> None:
    """All that git has but what nobody needs, and nothing that happens to lie about in a folder of the maintainer's."""
    with tarfile.open(built.sdist) as sdist:
        names = {member.name.partition("/")[2] for member in sdist if member.isfile()}
    own = {"PKG-INFO", ".gitignore", *TOP}
    assert {name for name in names if "/" not in name} == own
    assert {name.partition("/")[0] for name in names if "/" in name} == FOLDERS
    made = re.compile(r"(^|/)(__pycache__|\.venv|\.cache|\.hypothesis|\.git|dist|build)/|\.(pyc|whl)$")
    assert [name for name in names if made.search(name)] == []
    assert {name for name in names if name.startswith("tests/")} == {
        str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/*") if path.is_file() and path.suffix != ".pyc"
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


def test_man_pages_and_completions_are_installed_where_others_look(installed: Path) -> None:
    """As they are in the sources: tests/shell/test_installed_completion.py uses them."""
    shared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    for source, target in shared["targets"]["wheel"]["shared-data"].items():
        assert (installed.parent / target).read_bytes() == (ROOT / source).read_bytes()


@pytest.mark.needs("man")
@pytest.mark.parametrize(("section", "page"), [("1", "sess"), ("8", "sessiond")])
def test_man_shows_the_page(installed: Path, section: str, page: str) -> None:
    command = ["man", "-M", installed.parent / "share/man", section, page]
    env = os.environ | {"MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{page.upper()}({section})" in done.stdout.upper()


def starts(path: Path) -> bool:
    """Whether it is a Python, and not what only says that there is none."""
    probe = "import sys; sys.exit(sys.prefix != sys.base_prefix)"
    return subprocess.run([path, "-c", probe], capture_output=True, check=False).returncode == 0


def python(minor: int) -> Path | None:
    """Return the first python3.*minor* on the PATH that starts, or ``None``."""
    name = f"python3.{minor}"
    found = [Path(folder, name) for folder in os.get_exec_path() if shutil.which(name, path=folder)]
    return next(filter(starts, found), None)


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_an_installed_sess_works_with_every_python(built: Built, tmp_path: Path, minor: int) -> None:
    """Without development dependencies, away from the sources, the daemon starts and answers."""
    found = python(minor)
    if not found:
        pytest.skip(f"needs python3.{minor}, which is not installed")
    folder = tmp_path / "python"
    create(folder, built.from_sdist, found)

    sample = home.make(str(tmp_path / "home"))[0]
    (folder / "bin/claude").write_text("#!/bin/sh\n")
    (folder / "bin/claude").chmod(0o755)
    env = {"HOME": str(tmp_path / "home"), "PATH": f"{folder}/bin:{os.defpath}"}
    env |= {"SESS_STATE_DIR": str(tmp_path / "state"), "SESS_RUNTIME_DIR": str(tmp_path / "r")}

    def sess(*words: str) -> str:
        command = [folder / "bin/sess", *words]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        assert sample.id in sess("find", "--sync", "--ids", f"title:{sample.title.split()[0]}").split()
        assert sample.title in sess("show", sample.id)
        assert f"--resume {sample.id}" in sess("resume", "--print", "--yes", sample.id)
        assert json.loads(sess("status", "--json"))["version"] == sessiond.__version__
        assert f"with Python 3.{minor}." in sess("doctor")
    finally:
        sess("stop")


def test_an_installed_sess_brings_no_more_than_it_says(installed: Path) -> None:
    """Its dependencies come along; the tools of its development do not."""
    listing = pip(installed.parent, "list", "--format", "freeze")
    names = {line.partition("==")[0] for line in listing.split()}
    assert "sess" in names
    assert names <= {"apsw", "backports.zstd", "sess", "watchdog", "wcwidth"}
