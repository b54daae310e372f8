"""What config.toml may say, and how a mistake in it is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from sessiond.apps import APPS
from sessiond.config import LARGEST, Config, load
from sessiond.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVERYTHING = """
exclude = ["~/clients/**", "/tmp"]
exclude_apps = ["codex"]
keep_deleted_days = 30

[roots]
claude = ["~/.claude-work", "/srv/claude"]

[prompt]
length = 60
style = "count"
"""


def loaded(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load(str(path), "/home/anna")


def test_every_setting_is_read(tmp_path: Path) -> None:
    """And it is known which came from the file."""
    config = loaded(tmp_path, EVERYTHING)
    assert config.as_json() == {
        "exclude": ["~/clients/**", "/tmp"],
        "exclude_apps": ["codex"],
        "keep_deleted_days": 30,
        "roots": {"claude": ["~/.claude-work", "/srv/claude"]},
        "prompt.length": 60,
        "prompt.style": "count",
    }
    assert config.given == config.as_json().keys()


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "[prompt]\n"])
def test_what_is_not_said_is_as_without_a_file(tmp_path: Path, text: str) -> None:
    """An empty file, comments, a table with nothing in it."""
    assert loaded(tmp_path, text) == load(str(tmp_path / "none"), "/home/anna") == Config("/home/anna")


@pytest.mark.parametrize(
    ("text", "says", "do"),
    [
        ("exlude = []", "exlude is not known", "Did you mean exclude?"),
        ("[promt]\nlength = 1", "promt.length is not known", "Did you mean prompt.length?"),
        ("[prompt]\nlenght = 1", "prompt.lenght is not known", "Did you mean prompt.length?"),
        ("zzz = 1", "zzz is not known", "There are: exclude "),
        ('exclude_apps = ["cladue"]', "exclude_apps: cladue is not known", "Did you mean claude?"),
        ('[roots]\ncodx = ["/srv"]', "roots: codx is not known", "Did you mean codex?"),
        ('exclude = "~/clients/**"', "exclude: it has to be a list", ""),
        ("exclude = [1]", "exclude: it has to be a list", ""),
        ('exclude = ["clients"]', 'exclude: "clients" does not begin with', ""),
        ('exclude = [""]', "exclude: it has to be a list", ""),
        ('roots = ["/srv"]', "roots: it has to be a table", ""),
        ('[roots]\nclaude = ["srv"]', 'roots: "srv" does not begin with', ""),
        ("keep_deleted_days = -1", "keep_deleted_days: it has to be a number from 0", ""),
        ("keep_deleted_days = true", "keep_deleted_days: it has to be a number", ""),
        ("keep_deleted_days = 1.5", "keep_deleted_days: it has to be a number", ""),
        ("[prompt]\nlength = 5", "prompt.length: it has to be a number from 10 to 200", ""),
        ('[prompt]\nstyle = "loud"', "prompt.style: it has to be one of: title count", ""),
        ("prompt = 1", "prompt: it has to be a table", ""),
        ('exclude = ["~/a\\u0000"]', "exclude: it has the sign U+0000", ""),
        ('[roots]\nclaude = ["~/a\\u0000"]', "roots: it has the sign U+0000", ""),
        ("exclude = [", "it is no TOML", ""),
        ("a = 1\na = 2", "it is no TOML", ""),
        ("x = " + "[" * 5000, "it is no TOML", ""),
    ],
)
def test_a_mistake_is_named_with_what_is_right(tmp_path: Path, text: str, says: str, do: str) -> None:
    """The file, the setting, and of an unknown one the nearest."""
    with pytest.raises(Problem) as raised:
        loaded(tmp_path, text)
    assert raised.value.exit == 2
    assert raised.value.message.startswith(str(tmp_path / "config.toml"))
    assert says in raised.value.message
    assert do in raised.value.hint


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\0" * 100])
def test_a_file_of_anything_is_a_mistake_and_no_failure(tmp_path: Path, content: bytes) -> None:
    """It was saved in another encoding, say."""
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(Problem, match="no TOML"):
        load(str(tmp_path / "config.toml"), "/home/anna")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: (folder / "config.toml").mkdir(), "it is no regular file"),
        (lambda folder: os.mkfifo(folder / "config.toml"), "it is no regular file"),
        (lambda folder: (folder / "config.toml").symlink_to("/dev/zero"), "it is no regular file"),
        (lambda folder: (folder / "config.toml").write_text("#" * LARGEST + "\n"), "it has more than 1024 KiB"),
        (lambda folder: (folder / "config.toml").symlink_to("/nowhere"), "a link to what is not there"),
        (lambda folder: (folder / "config.toml").symlink_to("config.toml"), "Too many levels of symbolic links"),
        (lambda folder: (folder.rmdir(), folder.symlink_to("/nowhere")), "a link to what is not there"),
    ],
)
def test_a_file_that_cannot_be_read_is_no_empty_one(tmp_path: Path, make: Callable[[Path], object], says: str) -> None:
    """What it excludes would be shown; nor is it waited for."""
    folder = tmp_path / "sess"
    folder.mkdir()
    make(folder)
    with pytest.raises(Problem, match=says):
        load(str(folder / "config.toml"), "/home/anna")


@pytest.mark.parametrize(
    ("pattern", "folder", "excluded"),
    [
        ("~/clients/**", "/home/anna/clients", True),
        ("~/clients/**", "/home/anna/clients/a/b", True),
        ("~/clients/**", "/home/anna/clients-old", False),
        ("~/clients/**", "/home/bert/clients/a", False),
        ("~/clients", "/home/anna/clients/a/b", True),
        ("~/clients/", "/home/anna/clients", True),
        ("~", "/home/anna/x", True),
        ("~/*/secret", "/home/anna/a/secret", True),
        ("~/*/secret", "/home/anna/a/b/secret", False),
        ("~/*/secret", "/home/anna/a/secret/deep", True),
        ("~/**/secret", "/home/anna/secret", True),
        ("~/**/secret", "/home/anna/a/b/secret/c", True),
        ("**/node_modules", "/srv/x/node_modules/y", True),
        ("**/node_modules", "/srv/x/node_modules2", False),
        ("/srv/shop-?", "/srv/shop-1", True),
        ("/srv/shop-?", "/srv/shop-/1", False),
        ("/srv/[ab]*", "/srv/alpha/x", True),
        ("/srv/[!ab]*", "/srv/alpha", False),
        ("/srv/a.b", "/srv/aXb", False),
        ("/srv/*", "/srv", False),
        ("/", "/anything", True),
        ("/srv", None, False),
        ("/srv", "", False),
        ("/Srv", "/srv", False),
        ("/srv/**/**/x", "/srv/x", True),
    ],
)
def test_a_pattern_leaves_out_a_folder_and_all_below_it(
    tmp_path: Path, pattern: str, folder: str | None, excluded: bool
) -> None:
    """Stars and the like stay within one name, but for `**`, which is any number of folders, also none."""
    assert Config("/home/anna", exclude=(pattern,)).excludes(folder) is excluded


def test_a_home_with_signs_in_its_name_is_itself(tmp_path: Path) -> None:
    """It is no pattern."""
    config = Config("/home/[anna]", exclude=("~/x",))
    assert config.excludes("/home/[anna]/x")
    assert not config.excludes("/home/a/x")


def test_a_home_that_is_a_link_is_excluded_by_both_names(tmp_path: Path) -> None:
    """Agents record the folder as the system names it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    config = Config(str(tmp_path / "link"), exclude=("~/clients/**",))
    assert config.excludes(f"{tmp_path}/link/clients/a")
    assert config.excludes(f"{tmp_path}/real/clients/a")


@pytest.mark.parametrize(
    ("pattern", "folder", "excluded"),
    [
        ("~/clients/**", "disk/clients/a", True),
        ("~/clients/**", "home/clients/a", True),
        ("~/clients/**", "disk/clients2/a", False),
        ("~/clients/new/**", "disk/clients/new/a", True),
        ("/TMP/disk/clients", "home/clients/a", True),
        ("/TMP/disk/clients", "home/twice/a", True),
        ("~/*/secret", "disk/clients/secret/a", True),
        ("~/*/secret", "disk/clients/a", False),
        ("~/cl?ents/**", "disk/clients/a", True),
        ("**/clients", "home/twice/a", True),
        ("~/twice/**", "disk/clients/a", True),
        ("~/dangling/**", "disk/gone/a", True),
        ("~/loop/**", "home/loop/a", True),
        ("~/.hidden/*", "disk/clients/a", True),
        ("~/*/[ab]", "disk/clients/a", True),
        ("~/*/[!ab]", "disk/clients/a", False),
    ],
)
def test_a_folder_is_left_out_by_whatever_path_it_was_recorded(
    tmp_path: Path, pattern: str, folder: str, excluded: bool
) -> None:
    """An agent records where it was started, or what the system calls that; a pattern is what its person types."""
    tmp_path = tmp_path.resolve()
    (tmp_path / "disk/clients/secret").mkdir(parents=True)
    (tmp_path / "disk/clients/a").mkdir()
    (tmp_path / "disk/clients2").mkdir()
    (tmp_path / "home").mkdir()
    for name, leads in {"clients": "disk/clients", "dangling": "disk/gone", ".hidden": "disk/clients"}.items():
        (tmp_path / "home" / name).symlink_to(tmp_path / leads)
    (tmp_path / "home/twice").symlink_to("clients")
    (tmp_path / "home/loop").symlink_to("loop")
    config = Config(str(tmp_path / "home"), exclude=(pattern.replace("/TMP", str(tmp_path)),))
    assert config.excludes(f"{tmp_path}/{folder}") is excluded


@pytest.mark.parametrize(
    ("config", "stores"),
    [
        ({}, ["/home/anna/.claude"]),
        ({"roots": {"claude": ("~/work", "/srv/c")}}, ["/home/anna/.claude", "/home/anna/work", "/srv/c"]),
        ({"roots": {"codex": ("/srv/x",)}}, ["/home/anna/.claude"]),
        ({"exclude_apps": ("claude",), "roots": {"claude": ("/srv/c",)}}, []),
    ],
)
def test_stores_are_added_and_agents_left_out(config: dict[str, Any], stores: list[str]) -> None:
    """Those of the agent's own defaults and variables come first."""
    found = Config("/home/anna", **config).stores(APPS["claude"], {"HOME": "/home/anna"})
    assert found == stores
