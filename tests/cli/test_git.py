"""What git is asked, in repositories of anybody."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from sess import git

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("git")

PROGRAM = "touch {ran}; false"
KEYS = [
    *("core.fsmonitor", "core.sshCommand", "core.gitProxy", "core.editor", "core.pager", "core.askPass"),
    *("core.alternateRefsCommand", "credential.helper", "diff.external", "diff.x.command", "diff.x.textconv"),
    *("difftool.x.cmd", "merge.x.driver", "mergetool.x.cmd", "interactive.diffFilter", "sequence.editor"),
    *("pager.status", "pager.config", "gpg.program", "gpg.x509.program", "gpg.ssh.program"),
    *("gpg.ssh.defaultKeyCommand", "uploadpack.packObjectsHook", "trailer.x.command", "trailer.x.cmd"),
    *("filter.x.clean", "filter.x.smudge", "filter.x.process", "filter.a.b c.clean", "FILTER.X.clean"),
    *("filter..clean", "filter..process"),
    *("remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.vcs", "browser.x.cmd", "man.x.cmd"),
    *("sendemail.toCmd", "sendemail.ccCmd", "hook.x.command", "guitool.x.cmd"),
    *(f"alias.{command}" for command in ("status", "rev-parse", "symbolic-ref", "config", "show-ref", "rev-list")),
]
HOOKS = ("post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc", "post-checkout", "p4-pre")
MISSING = "0123456789" * 4


class Trap:
    """A repository in which something is different from what the index says, and whatever it can run is set."""

    def __init__(self, path: Path) -> None:
        self.path = path / "trap"
        self.ran = path / "ran"
        self.path.mkdir()
        self.git("init", "-q", "-b", "main")
        (self.path / "file").write_text("before")
        for name in ("x", "X", "a=b", "a.b c", ""):
            (self.path / f"of {name}").write_text("before")
        (self.path / ".gitattributes").write_text(
            '* filter=x diff=x merge=x\n"of X" filter=X\n"of a=b" filter=a=b\n"of " filter=\n'
        )
        self.git("add", ".")
        self.git("commit", "-q", "-m", "all")
        for name in ("file", "of x", "of X", "of a=b", "of a.b c", "of "):
            (self.path / name).write_text("behind")  # of the same size: git has to look inside

    def git(self, *words: str) -> None:
        identity = ("-c", "user.name=Anna", "-c", "user.email=anna@example.com")
        subprocess.run(["git", "-C", self.path, *identity, *words], check=True, capture_output=True)

    def set(self, key: str, value: str = "", where: str = "--local") -> None:
        alias = "!" if key.startswith("alias.") else ""
        self.git("config", where, key, value or alias + PROGRAM.format(ran=self.ran))


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    """A repository that nothing is set in yet."""
    return Trap(tmp_path)


def ask_everything(folder: str) -> None:
    """Ask all that a resume may ask."""
    head = git.head(folder)
    assert head.branch == "main"
    assert git.has_branch(folder, "main")
    assert not git.has_branch(folder, "other")
    assert git.worktree_of(folder, "main") == folder
    assert git.holds(folder, head.commit)
    assert not git.holds(folder, MISSING)
    assert git.moved(folder, head.commit) == (0, 0)
    assert git.top(folder) == folder
    git.remotes(folder)
    assert git.changes(folder) == 6


def test_a_trap_is_one(trap: Trap) -> None:
    """`git status` as a person types it runs what these tests set; without that they would show nothing."""
    trap.set("filter.x.clean")
    subprocess.run(["git", "-C", trap.path, "status"], capture_output=True, check=False)
    assert trap.ran.exists()


@pytest.mark.parametrize("key", KEYS)
def test_no_program_that_a_repository_names_is_run(trap: Trap, key: str) -> None:
    """Whatever its configuration calls it."""
    trap.set(key)
    ask_everything(str(trap.path))
    assert not trap.ran.exists()


@pytest.mark.parametrize("where", ["worktree", "include", "includeIf"])
def test_wherever_its_configuration_is_none_is_run(trap: Trap, where: str) -> None:
    """It may be that of a worktree, and take in other files."""
    if where == "worktree":
        trap.set("extensions.worktreeConfig", "true")
        for key in KEYS:
            trap.set(key, where="--worktree")
    else:
        more = trap.path / ".git/more"
        for key in KEYS:
            trap.git("config", "-f", str(more), key, PROGRAM.format(ran=trap.ran))
        trap.set("include.path" if where == "include" else f"includeIf.gitdir:{trap.path}/.path", "more")
    ask_everything(str(trap.path))
    assert not trap.ran.exists()


def test_no_hook_is_run(trap: Trap) -> None:
    """Neither of its own folder of them nor of one that it names."""
    for folder in (trap.path / ".git/hooks", trap.path / "named"):
        folder.mkdir(exist_ok=True)
        for name in HOOKS:
            (folder / name).write_text(f"#!/bin/sh\ntouch {trap.ran}\n")
            (folder / name).chmod(0o755)
    trap.set("core.hooksPath", str(trap.path / "named"))
    (trap.path / ".git/info/exclude").write_text("named\n")
    ask_everything(str(trap.path))
    assert not trap.ran.exists()


def test_a_partial_clone_does_not_fetch_what_it_lacks(trap: Trap) -> None:
    """By a program of its choice."""
    trap.set("remote.origin.url", f"ext::sh -c touch% {trap.ran}")
    trap.set("remote.origin.promisor", "true")
    trap.set("protocol.ext.allow", "always")
    trap.set("core.repositoryFormatVersion", "1")
    trap.set("extensions.partialClone", "origin")
    ask_everything(str(trap.path))
    assert not trap.ran.exists()


def test_a_filter_that_cannot_be_switched_off_is_not_run(trap: Trap) -> None:
    """Then it is not known what was changed."""
    trap.set("filter.a=b.clean")
    with pytest.raises(git.Failed, match="cannot be switched off"):
        git.changes(str(trap.path))
    assert not trap.ran.exists()


def test_a_bare_repository_within_another_is_not_asked(trap: Trap) -> None:
    """It can lie committed in one, and would be taken for the one meant."""
    bare = trap.path / "data"
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    with pytest.raises(git.Failed, match="bare"):
        git.head(str(bare))


@pytest.mark.parametrize(
    "variables",
    [
        {"GIT_DIR": "/nowhere"},
        {"GIT_WORK_TREE": "/", "GIT_DIR": "/nowhere"},
        {"GIT_COMMON_DIR": "/nowhere"},
        {"GIT_INDEX_FILE": "/nowhere"},
        {"GIT_OBJECT_DIRECTORY": "/nowhere"},
        {"GIT_NAMESPACE": "other"},
        {"GIT_CONFIG": "/nowhere"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.bare", "GIT_CONFIG_VALUE_0": "true"},
        {"GIT_CONFIG_PARAMETERS": "'core.bare'='true'"},
        {"GIT_EXTERNAL_DIFF": "false"},
        {"GIT_CEILING_DIRECTORIES": "<folder>"},
        {"GIT_TRACE": "<folder>/trace"},
        {"GIT_TRACE2_EVENT": "<folder>/trace"},
        {"GIT_OPTIONAL_LOCKS": "1"},
        {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_the_environment_does_not_lead_git_elsewhere(
    trap: Trap, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    """A hook sets some of these, and what was started from one still has them."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("<folder>", str(trap.path)))
    ask_everything(str(trap.path))
    (trap.path / "below").mkdir()
    assert git.head(str(trap.path / "below")).branch == "main"
    assert git.changes(str(trap.path)) == 6


def test_nothing_is_written(trap: Trap) -> None:
    """Not even the index, which `git status` brings up to date."""
    paths = [trap.path, *trap.path.rglob("*")]
    before = {path: path.stat().st_mtime_ns for path in paths}
    ask_everything(str(trap.path))
    assert {path: path.stat().st_mtime_ns for path in [trap.path, *trap.path.rglob("*")]} == before


def test_what_git_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it does not answer in time: a child would go on, holding what it has open."""
    os.mkfifo(tmp_path / "alive")
    (tmp_path / "git").write_text(f'#!/bin/sh\n(exec sleep 600 >"{tmp_path}/alive") &\nexec sleep 600\n')
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    reader = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    with pytest.raises(git.Failed, match="gave no answer within 1 s"):
        git.ask("/", "status", limit=1)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_what_is_no_answer_is_no_no(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch or a commit is said to be missing only when git says so."""
    (trap.path / ".git/config").write_text("[core\n")
    for ask in (git.has_branch, git.holds, git.worktree_of):
        with pytest.raises(git.Failed, match="bad config"):
            ask(str(trap.path), "main")
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("touch") or "") + "/none")
    with pytest.raises(git.Failed, match="not installed"):
        git.head(str(trap.path))
