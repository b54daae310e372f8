"""``sess resume`` from end to end, with stand-ins for the agents' programs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sess import front
from sessiond.protocol import AMBIGUOUS, NO_PROGRAM, NOTHING, REFUSED, USAGE, Answer
from tests.cli.asking import CONTEXT, Asked, row
from tests.cli.conftest import ROOT
from tests.cli.machine import RAN
from tests.daemon import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.machine import Machine

pytestmark = pytest.mark.needs("git")

OPUS = ["--model", "claude-opus-5-5"]
HIGH = ["--effort", "high"]
STRICT = ["--permission-mode", "default"]
SOL = ["-m", "gpt-6-sol", "-c", 'model_reasoning_effort="high"']
ASKS, WRITES = ["-a", "on-request"], ["-s", "workspace-write"]


def test_without_anything_to_say_nothing_is_shown(machine: Machine) -> None:
    """The folder and the branch are as they were, and all settings go on."""
    done = machine.sess("resume", machine.claude(machine.repository("main")))
    assert (done.returncode, done.stdout, done.stderr) == (RAN, "", "")


@pytest.mark.parametrize(
    ("recorded", "says"),
    [
        ({"mode": "auto"}, "noted    approval  auto is withheld, looser than the default; claude gets default; "),
        ({"mode": "odd"}, "noted    approval  odd is withheld, not known to be strict; claude gets default\n"),
        ({"model": "a b"}, "noted    model     a b is withheld, no name of one\n"),
        ({"model": "a\x1b[2Jb"}, "noted    model     a[2Jb is withheld, no name of one\n"),
    ],
)
def test_what_is_withheld_is_said(machine: Machine, recorded: dict[str, str], says: str) -> None:
    """In a line of the block that is shown before the agent starts, without steering the terminal."""
    done = machine.sess("resume", machine.claude(machine.repository("main"), **recorded))
    assert done.returncode == RAN
    assert says in done.stderr
    assert "ok       folder    ~/p" in done.stderr
    assert "ok       carried   " in done.stderr
    assert done.stderr.endswith("\n")
    assert "\x1b" not in done.stderr


def test_what_replaces_a_mode_that_is_no_longer_accepted_is_said(machine: Machine) -> None:
    """`-a untrusted` fails since Codex 0.153."""
    done = machine.sess("resume", machine.codex(machine.repository("main"), approval="untrusted"))
    assert "untrusted is withheld, no longer accepted; codex gets approval on-request, sandbox read-only" in done.stderr


def test_an_archived_session_says_what_codex_will_ask(machine: Machine) -> None:
    """It is resumed all the same."""
    done = machine.sess("resume", machine.codex(machine.repository("main"), archived=True))
    assert done.returncode == RAN
    assert "noted    archived  Codex asks first whether to unarchive it" in done.stderr


@pytest.mark.parametrize("branch", ["--upload-pack=x", "-", "a..b", "@{-1}", "x; touch pwned", "main\nfake", "\x1b[2J"])
def test_a_hostile_branch_is_only_a_name(machine: Machine, branch: str) -> None:
    """It is compared and shown, and nothing else."""
    folder = machine.repository("main")
    done = machine.sess("resume", machine.claude(folder, branch))
    assert done.returncode == REFUSED
    assert "refused  branch    then " in done.stderr
    assert len(done.stderr.splitlines()) == 5
    assert "\x1b" not in done.stderr
    assert os.listdir(folder) == [".git"]


def test_uncommitted_changes_are_noted(machine: Machine) -> None:
    """How many; that is no reason to ask."""
    folder = machine.repository("main")
    for name in ("one", "two"):
        with open(f"{folder}/{name}", "w"):
            pass
    done = machine.sess("resume", machine.claude(folder))
    assert done.returncode == RAN
    assert "noted    changes   2 files with uncommitted changes\n" in done.stderr


@pytest.mark.parametrize(
    ("rewrite", "says"),
    [
        (False, "2 commits since the session began at "),
        (True, "1 commit since the session began at "),
    ],
)
def test_commits_since_are_counted_where_the_transcript_tells(machine: Machine, *, rewrite: bool, says: str) -> None:
    """Codex records what HEAD was; also when that is no ancestor any more."""
    folder = machine.repository("main")
    begin = machine.commit(folder)
    session = machine.codex(folder, commit=begin)
    if rewrite:
        machine.git(folder, "commit", "-q", "--allow-empty", "--amend", "-m", "again")
    else:
        machine.commit(folder)
        machine.commit(folder)
    done = machine.sess("resume", session)
    assert f"noted    commits   {says}{begin[:7]}" in done.stderr
    assert ("and 1 commit of then missing" in done.stderr) == rewrite


def test_a_folder_that_is_gone_is_refused(machine: Machine) -> None:
    """With what Claude Code needs, and the folder is named; it is not resumed anywhere else."""
    folder = machine.folder(" gone")
    session = machine.claude(folder)
    os.rmdir(folder)
    done = machine.sess("resume", session, "--yes", cwd=machine.folder())
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert f"refused  folder    ~/{os.path.basename(folder)} is gone\n" in done.stderr
    assert "sess: not resumed: folder\n" in done.stderr
    assert f"even empty: mkdir -p {folder.replace(' ', chr(92) + ' ')}\n" in done.stderr
    assert "From 2.1.223 on it resumes it from any folder: --dir DIR\n" in done.stderr
    assert machine.nothing_ran()


def test_another_recorded_folder_is_named(machine: Machine) -> None:
    """A session goes on in the folder it was started in, and may have been in others since."""
    start, later = machine.folder(), machine.folder()
    session = machine.claude(start)
    path = next(machine.home.claude.glob(f"projects/*/{session}.jsonl"))
    last = json.loads(next(line for line in reversed(path.read_text().splitlines()) if '"cwd"' in line))
    with path.open("a") as file:
        file.write(json.dumps({**last, "cwd": later}) + "\n")
    assert machine.resume(session, "--yes").cwd == start
    os.rmdir(start)
    done = machine.sess("resume", session)
    assert f"The session was in this folder too: --dir {later}\n" in done.stderr


@pytest.mark.parametrize("evidence", ["remote", "commit", "another agent"])
def test_a_repository_that_moved_is_found_and_not_taken(machine: Machine, evidence: str) -> None:
    """By a remote or a commit of it, in a folder of another session; Claude Code records neither, Codex both."""
    old, new = machine.repository("main"), machine.folder()
    commit = machine.git(old, "rev-parse", "HEAD")
    if evidence == "remote":
        machine.git(old, "remote", "add", "origin", "git@example.com:acme/Shop.git")
        session = machine.codex(old, repository="https://anna:secret@EXAMPLE.com/acme/Shop")
    else:
        session = machine.codex(old, commit=commit)
    if evidence == "another agent":
        session = machine.claude(old)
    os.rmdir(new)
    os.rename(old, new)
    machine.claude(machine.repository("main"), title="of another repository")
    machine.codex(new, prompt="after the move")
    done = machine.sess("resume", session)
    assert done.returncode == REFUSED
    assert [line for line in done.stderr.splitlines() if "same repository" in line] == [
        f"The same repository is here: --dir {new}"
    ]
    assert "secret" not in done.stderr
    assert machine.nothing_ran()


def test_a_worktree_that_is_gone_names_its_repository(machine: Machine) -> None:
    """Agents make worktrees inside the repository and remove them when the branch is merged."""
    folder = machine.repository("main")
    worktree = f"{folder}/.claude/worktrees/refunds"
    machine.git(folder, "worktree", "add", "-q", "-b", "refunds", worktree)
    session = machine.claude(worktree, "refunds")
    machine.git(folder, "worktree", "remove", worktree)
    done = machine.sess("resume", session)
    assert done.returncode == REFUSED
    assert f"The same repository is here: --dir {folder}\n" in done.stderr


def test_another_folder_may_be_named_as_in_a_shell(machine: Machine) -> None:
    """From the folder the person is in, and with the home for `~`."""
    gone, folder = machine.folder(), machine.repository("main")
    session = machine.claude(gone)
    os.rmdir(gone)
    name = os.path.basename(folder)
    for given, cwd in ((name, machine.home.path), (f"../{name}", machine.programs), (f"~/{name}", "/"), (".", folder)):
        assert machine.resume(session, "--dir", given, cwd=cwd).cwd == folder


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
@pytest.mark.parametrize(
    ("shut", "says"),
    [
        ("", "may not be entered: its mode forbids it"),
        ("..", "cannot be looked at: a folder above it may not be entered"),
    ],
)
def test_a_folder_that_may_not_be_entered_is_refused(machine: Machine, shut: str, says: str) -> None:
    """That is not being gone: it is neither made nor looked for."""
    folder = f"{machine.folder()}/project"
    os.mkdir(folder)
    session = machine.claude(folder, "HEAD")
    closed = os.path.normpath(f"{folder}/{shut}")
    os.chmod(closed, 0o600)
    done = machine.sess("resume", session)
    os.chmod(closed, 0o700)
    assert done.returncode == REFUSED
    assert says in done.stderr
    assert "mkdir" not in done.stderr


HOSTILE = [
    'it\'s "two" words',
    "$(touch pwned)",
    "`touch pwned`",
    "a\nb",
    "-rf",
    "ü 日本 😀",
    "back\\slash\\",
    "*[a]{b,c}",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_only_a_folder(machine: Machine, name: str) -> None:
    """The agent is started in it, without a shell in between."""
    folder = machine.folder(name)
    machine.claude(folder, "HEAD", title=f"in {HOSTILE.index(name)}")
    ran = machine.resume("title:in", f"title:{HOSTILE.index(name)}", "--last", cwd=folder)
    assert ran.cwd == folder
    assert os.listdir(folder) == []


@pytest.mark.needs("dash", "bash", "zsh", "fish")
@pytest.mark.parametrize("shell", ["dash", "bash", "zsh", "fish"])
@pytest.mark.parametrize("name", [*HOSTILE, "ends\n"])
def test_the_printed_line_does_the_same_in_a_shell(machine: Machine, shell: str, name: str) -> None:
    """It is one line of printable text; folder, options and environment are those of a resume."""
    folder = machine.folder(name)
    root = f"{machine.home.path}/other"
    session = machine.codex(folder, None) if name == "-rf" else machine.claude(folder, "HEAD")
    environment = {"CLAUDECODE": "1", "CLAUDE_CONFIG_DIR": root}
    words = [session, "--", "--add-dir", "two words", "$HOME", "'", "\\", "\t", ""]
    printed = machine.sess("resume", "--print", *words, **environment)
    assert (printed.returncode, printed.stdout.count("\n")) == (0, 1)
    assert printed.stdout.rstrip("\n").isprintable()
    assert machine.nothing_ran()
    path = shutil.which(shell)
    assert path
    done = subprocess.run(
        [path, "-c", printed.stdout], env=machine.env | environment, capture_output=True, cwd="/", timeout=PATIENCE,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (RAN, b"", b"")
    by_shell, by_us = machine.ran(), machine.resume(*words, **environment)
    assert (by_shell.argv, by_shell.cwd) == (by_us.argv, by_us.cwd)
    assert os.path.samefile(by_shell.cwd, folder)
    ours = ("CLAUDECODE", "CLAUDE_CONFIG_DIR", "HOME")
    assert {key: by_shell.env.get(key) for key in ours} == {key: by_us.env.get(key) for key in ours}
    assert os.listdir(folder) == []


@pytest.mark.needs("dash", "bash", "zsh", "fish")
@pytest.mark.parametrize("shell", ["dash", "bash", "zsh", "fish"])
def test_the_printed_line_goes_up_from_a_link_as_the_system_does(machine: Machine, shell: str) -> None:
    """`cd link/..` of a shell leads to the folder that the link lies in."""
    start, target = machine.folder(), machine.folder()
    for above in (start, target):
        os.makedirs(f"{above}/in/it")
        os.mkdir(f"{above}/meant")
    os.symlink(f"{target}/in", f"{start}/link")
    session = machine.claude(f"{start}/link/../meant", "HEAD")
    ran = machine.resume(session)
    assert (ran.cwd, ran.env["PWD"]) == (f"{target}/meant", f"{target}/meant")
    shown = machine.sess("show", session).stdout
    for line in machine.sess("resume", session, "--print").stdout, shown[shown.index("cd /") :]:
        subprocess.run([str(shutil.which(shell)), "-c", line], env=machine.env, cwd="/", timeout=PATIENCE, check=False)
        assert machine.ran().cwd == f"{target}/meant"


@pytest.mark.parametrize(
    "folder", ["/proc/self/cwd", "//proc/self/cwd", "/./proc/self/cwd", "/dev/fd/0", "here", "C:\\src"]
)
def test_what_is_another_folder_for_each_process_is_none(machine: Machine, folder: str) -> None:
    """It would be resumed wherever one happens to be."""
    done = machine.sess("resume", machine.claude(folder, "HEAD"), "--yes", cwd=machine.folder())
    assert (done.returncode, machine.nothing_ran()) == (REFUSED, True)
    assert f"refused  folder    none is recorded, but {folder}\n" in done.stderr
    assert "--dir DIR" in done.stderr


@pytest.mark.skipif(not shutil.which("env"), reason="needs env")
@pytest.mark.parametrize("locale", [{}, {"LC_CTYPE": "C"}, {"LC_CTYPE": ""}, {"LC_CTYPE": "C.UTF-8"}, {"LC_ALL": "C"}])
def test_the_agent_gets_the_locale_that_the_person_has(
    machine: Machine, site: Path, tmp_path: Path, locale: dict[str, str]
) -> None:
    """In the locale C, Python would set LC_CTYPE for itself and all it starts."""
    launcher = site.parents[2] / "bin/sess"
    launcher.parent.mkdir(exist_ok=True)
    shutil.copy(ROOT / "cli/sess.sh", launcher)
    # As pip writes it, where there is no space on the way.
    (tmp_path / "python").symlink_to(sys.executable)
    (launcher.parent / "sessiond").write_text(f"#!{tmp_path}/python\n")
    (tmp_path / "claude").write_text(f'#!/bin/sh\nexec env -0 >"{tmp_path}/got"\n')
    (tmp_path / "claude").chmod(0o755)
    session = machine.claude(machine.repository("main"))
    machine.daemon.sync()
    own = {key: value for key, value in machine.env.items() if key not in ("LANG", "PYTHONPATH")}
    own |= {"LANG": "C", "PATH": f"{tmp_path}:{machine.tools}", "PWD": "/", **locale}
    done = subprocess.run(
        ["/bin/sh", launcher, "resume", session], env=own, cwd="/", capture_output=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    got = dict(entry.split("=", 1) for entry in (tmp_path / "got").read_text().split("\0") if entry)
    # What a shell sets for itself.
    shells = ("PWD", "OLDPWD", "SHLVL", "_")
    assert {key: value for key, value in got.items() if key not in shells} == {
        key: value for key, value in own.items() if key not in shells
    }


def test_the_line_changes_the_environment_that_it_is_for(machine: Machine) -> None:
    """What is not set is not removed."""
    session = machine.claude(machine.repository("main"))
    done = machine.sess("resume", session, "--print", CLAUDECODE="1")
    assert " && env -u CLAUDECODE claude --resume " in done.stdout
    assert "env" not in machine.sess("resume", session, "--print").stdout


def test_another_store_is_named_on_the_line(machine: Machine) -> None:
    """That of a second account, unless the environment names it already; for another machine it always is."""
    work = machine.home.work
    session = machine.claude(machine.repository("main"), root=work)
    there = f" && env CLAUDE_CONFIG_DIR={str(work).replace(' ', chr(92) + ' ')} claude --resume"
    own = {"CLAUDE_CONFIG_DIR": str(work)}
    assert there in machine.sess("resume", session, "--print").stdout
    assert there in machine.sess("show", session).stdout
    assert " && claude --resume" in machine.sess("resume", session, "--print", **own).stdout
    missing = machine.sess("resume", session, "--print", **own, PATH=str(machine.tools))
    assert missing.returncode == NO_PROGRAM
    assert there in missing.stdout
    assert there in missing.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["ffffffff-0000-4000-8000-000000000000"], NOTHING, "sess: no session to resume: ffffffff-0000-4000-"),
        (["nosuchword", "either"], NOTHING, "sess: no session to resume: nosuchword either\n"),
        (["--last"], NOTHING, "sess: no session to resume: in this folder\n"),
        (["--json"], USAGE, "sess: resume: --json goes with --print\n"),
        (["--dirr", "x"], USAGE, "sess: resume: there is no option --dirr\n"),
    ],
)
def test_what_cannot_be_resumed_is_said(machine: Machine, words: list[str], code: int, says: str) -> None:
    """And nothing runs."""
    done = machine.sess("resume", *words, cwd=machine.folder())
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(says)


@pytest.mark.parametrize("target", [[], ["frobnicate"], ["please", "frobnicate"]])
def test_several_matches_are_listed_and_none_is_taken(machine: Machine, target: list[str]) -> None:
    """On stderr, where there is no terminal to ask; without a target those are the most recent."""
    folder = machine.repository("main")
    sessions = [machine.claude(folder, title=f"please frobnicate {number}") for number in "ab"]
    done = machine.sess("resume", *target)
    assert (done.returncode, done.stdout) == (AMBIGUOUS, "")
    assert set(sessions) <= {line.split()[0] for line in done.stderr.splitlines()[1:]}
    assert machine.nothing_ran()


def test_two_stores_may_have_one_id(machine: Machine) -> None:
    """A store that was copied for a second account: then each is named by its folder, which says which one."""
    folder = machine.repository("main")
    session = machine.claude(folder, title="the twin")
    path = next(machine.home.claude.glob(f"projects/*/{session}.jsonl"))
    copy = machine.home.work / path.relative_to(machine.home.claude)
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    done = machine.sess("resume", session)
    assert done.returncode == AMBIGUOUS
    *listed, hint = done.stderr.splitlines()[1:]
    assert [line.partition(" store:")[0] for line in listed] == [f"{session} claude the twin"] * 2
    assert hint == "Add the store of the one that is meant, as it stands there."
    words = {line[line.index("store:") :] for line in listed}
    stores = {}
    for word in words:
        (store,) = shlex.split(word)
        stores[store] = machine.resume(session, store).env.get("CLAUDE_CONFIG_DIR")
    assert set(stores.values()) == {None, str(machine.home.work)}
    assert stores[f"store:{machine.home.claude}"] is None
    copy.unlink()


def test_two_sessions_that_continue_each_other_are_no_trap(machine: Machine) -> None:
    """One of them is resumed, whichever is named."""
    folder = machine.repository("main")
    sessions = [machine.claude(folder), machine.claude(folder)]
    for session, other in (sessions, sessions[::-1]):
        with next(machine.home.claude.glob(f"projects/*/{session}.jsonl")).open("a") as file:
            file.write(json.dumps({"type": "continued-in", "continuedInSessionId": other}) + "\n")
    assert {machine.resume(session).argv[2] for session in sessions} <= set(sessions)


def planned(row: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Return the plan that the daemon gives for *row*."""
    return {
        "argv": ["claude", "--resume", row["id"]],
        "folder": row["launch_dir"],
        "set": {},
        "unset": [],
        "store_variable": "CLAUDE_CONFIG_DIR",
        "carried": {},
        "withheld": [],
        "checks": [],
        "commit": None,
        **values,
    }


def test_in_an_empty_home_there_is_nothing_to_resume() -> None:
    """And no word stands behind the colon that a person could have typed."""
    asked = Asked(Answer([], {"progress": None}))
    said: list[str] = []
    assert front.run(["resume"], CONTEXT, asked, lambda _, text: said.append(text), local=True) == NOTHING
    assert "".join(said).startswith("sess: no session to resume: there are none yet\n")


def test_what_is_refused_is_not_said_to_be_carried(tmp_path: Path) -> None:
    """A mode that the agent brings back by itself is carried in the plan, and a reason to refuse."""
    found = row(launch_dir=str(tmp_path), cwd=str(tmp_path))
    check = {"name": "approval", "state": "refused", "text": "auto comes back", "hint": "With it: --allow-loose"}
    plan = planned(found, carried={"model": "k2", "approval": "auto"}, checks=[check])
    asked = Asked(Answer([], {"progress": None}), Answer([found], {"progress": None}), Answer([found], plan))
    said: list[str] = []
    code = front.run(["resume", found["id"]], CONTEXT, asked, lambda _, text: said.append(text), local=True)
    assert code == REFUSED
    assert "refused  approval  auto comes back\nok       carried   model k2\n" in "".join(said)


@pytest.mark.parametrize(("words", "code"), [(["vat", "totals"], REFUSED), (["84cd"], REFUSED), ([row()["id"]], 0)])
def test_what_is_found_while_the_daemon_still_reads_may_be_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int
) -> None:
    """The newest of what is read so far is not the newest; a whole id is what it is."""
    (tmp_path / "claude").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = row(launch_dir=str(tmp_path), cwd=str(tmp_path))
    reading = {"progress": {"done": 12, "of": 400}}
    plan = planned(found)
    asked = Asked(Answer([], reading), Answer([found], reading), Answer([found], plan))
    written: dict[int, str] = {1: "", 2: ""}

    def emit(fd: int, text: str) -> None:
        written[fd] += text

    assert front.run(["resume", "--print", *words], CONTEXT, asked, emit, local=True) == code
    said = "refused  session   another may be meant: the daemon has not read all of them yet\n" in written[2]
    assert said == (code == REFUSED)
    assert bool(written[1]) == (code == 0)


def test_a_query_with_one_match_goes_on(machine: Machine) -> None:
    """Also one of several words, with fields."""
    folder = machine.repository("main")
    session = machine.claude(folder, title="Zero VAT totals")
    assert machine.resume("vat", "title:zero").argv[2] == session
    assert machine.resume('"zero vat"').argv[2] == session


def test_the_beginning_of_an_id_is_enough(machine: Machine) -> None:
    """Four characters or more; rows that are not for people are meant only when nothing else begins so."""
    folder = machine.repository("main")
    session = machine.codex(folder)
    assert machine.resume(session[:-1]).argv[-1] == session
    claude = machine.claude(folder)
    helper = machine.claude(folder, isSidechain=True)
    path = next(machine.home.claude.glob(f"projects/*/{helper}.jsonl"))
    twin = claude[:8] + helper[8:]
    path.rename(path.with_name(f"{twin}.jsonl"))
    assert machine.resume(claude[:8]).argv[2] == claude
    done = machine.sess("resume", twin)
    assert (done.returncode, machine.ran().argv[2]) == (RAN, twin)
    assert "noted    session   a sub-agent's session\n" in done.stderr


def test_the_last_session_here_is_the_newest_of_the_folder(machine: Machine) -> None:
    """Of that and those below; with words, the newest that matches."""
    folder = machine.repository("main")
    machine.claude(folder, title="first")
    newest = machine.claude(folder, title="second")
    machine.claude(machine.repository("main"), title="elsewhere")
    assert machine.resume("--last", cwd=folder).argv[2] == newest
    assert machine.resume("--last", "first", cwd=folder).argv[2] != newest


def test_a_session_that_is_live_is_not_resumed_twice(machine: Machine) -> None:
    """Where it is open is said; a copy is something else. What counts is now, not what the index holds."""
    session = machine.claude(machine.repository("main"))
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            record = machine.live(session, process.pid, "waiting")
            refused = machine.sess("resume", session, "--yes")
            assert refused.returncode == REFUSED
            assert f"refused  live      open in process {process.pid} (waiting)\n" in refused.stderr
            assert refused.stderr.endswith("Go on there, or in a copy: --fork\n")
            assert machine.nothing_ran()
            assert machine.resume(session, "--fork").argv[-1] == "--fork-session"
        finally:
            process.kill()
    assert record.exists()
    assert machine.resume(session).argv[2] == session


def test_a_superseded_session_leads_to_its_successor(machine: Machine) -> None:
    """However long the chain."""
    folder = machine.repository("main")
    newest = machine.claude(folder)
    sessions = [newest]
    for _ in range(2):
        older = machine.claude(folder)
        with next(machine.home.claude.glob(f"projects/*/{older}.jsonl")).open("a") as file:
            file.write(json.dumps({"type": "continued-in", "continuedInSessionId": sessions[-1]}) + "\n")
        sessions.append(older)
    done = machine.sess("resume", sessions[-1])
    assert (done.returncode, machine.ran().argv[2]) == (RAN, newest)
    assert f"noted    session   {sessions[-1]} was continued in this one, {newest}\n" in done.stderr


def test_a_session_that_cannot_be_resumed_says_why(machine: Machine) -> None:
    """Its transcript is gone, or it has no messages."""
    folder = machine.repository("main")
    deleted, empty = machine.claude(folder), machine.claude(folder)
    machine.daemon.sync()
    next(machine.home.claude.glob(f"projects/*/{deleted}.jsonl")).unlink()
    note = {"type": "custom-title", "customTitle": "nothing in it", "sessionId": empty}
    next(machine.home.claude.glob(f"projects/*/{empty}.jsonl")).write_text(json.dumps(note) + "\n")
    for session, why in ((deleted, "its transcript is gone"), (empty, "it has no messages")):
        done = machine.sess("resume", session, "--yes")
        assert done.returncode == REFUSED
        assert f"refused  session   {why}" in done.stderr
        assert done.stderr.endswith("sess: not resumed: session\n`sess show` tells what is known of it.\n")
        found = json.loads(machine.sess("resume", session, "--print", "--json").stdout)
        assert (found["argv"], found["line"], found["exit"]) == ([], "", REFUSED)


def test_a_missing_program_is_said_with_the_line_to_run_elsewhere(machine: Machine) -> None:
    """Exit code 6. With `--print` the line is on stdout as ever."""
    folder = machine.repository("main")
    session = machine.codex(folder, sandbox="read-only")
    line = (
        f'cd {folder} && codex resume -m gpt-6-sol -c model_reasoning_effort\\=\\"high\\" '
        f"-a on-request -s read-only {session}\n"
    )
    done = machine.sess("resume", session, PATH=str(machine.tools))
    assert (done.returncode, done.stdout) == (NO_PROGRAM, "")
    assert done.stderr.endswith(f"sess: codex is not installed here\nWhere it is: {line}")
    printed = machine.sess("resume", session, "--print", PATH=str(machine.tools))
    assert (printed.returncode, printed.stdout) == (NO_PROGRAM, line)


def test_a_program_in_the_sessions_folder_is_not_the_agent(machine: Machine) -> None:
    """An empty or relative entry of PATH means the folder the person is in, as in a shell."""
    folder = machine.repository("main")
    shutil.copy(shutil.which("false") or "", f"{folder}/claude")
    session = machine.claude(folder)
    assert machine.sess("resume", session, PATH=f":.:{machine.tools}").returncode == NO_PROGRAM
    relative = machine.sess("resume", session, cwd=machine.home.path, PATH=f"bin:{machine.tools}")
    assert relative.returncode == RAN
    machine.ran()


@pytest.mark.parametrize(
    ("content", "why"), [("#!/no/such/interpreter\n", "No such file or directory"), ("\x7fELF", "Exec format error")]
)
def test_a_program_that_cannot_be_started_is_said(machine: Machine, tmp_path: Path, content: str, why: str) -> None:
    """It is there, and is no program, or one for another machine: with the line to run elsewhere."""
    (tmp_path / "claude").write_text(content)
    (tmp_path / "claude").chmod(0o755)
    done = machine.sess("resume", machine.claude(machine.repository("main")), PATH=f"{tmp_path}:{machine.tools}")
    assert done.returncode == NO_PROGRAM
    assert f"sess: {tmp_path}/claude cannot be started: {why}\nWhere it can: cd /" in done.stderr


def test_the_agent_gets_its_signals_as_a_shell_would_give_them(machine: Machine, tmp_path: Path) -> None:
    """Python ignores SIGPIPE, and what is ignored stays so across exec."""
    (tmp_path / "claude").write_text("#!/bin/sh\nkill -PIPE $$\nkill -XFSZ $$\nexit 0\n")
    (tmp_path / "claude").chmod(0o755)
    done = machine.sess("resume", machine.claude(machine.repository("main")), PATH=f"{tmp_path}:{machine.tools}")
    assert done.returncode == -signal.SIGPIPE


def test_json_says_all_that_the_block_says(machine: Machine) -> None:
    """To scripts: the command, what is carried and withheld, each check by name, and the exit code."""
    folder = machine.repository("main", "now")
    session = machine.claude(folder, "main", mode="auto")
    done = machine.sess("resume", session, "--print", "--json", CLAUDECODE="1")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (REFUSED, "", 1)
    found = json.loads(done.stdout)
    command = ["claude", "--resume", session, *OPUS, *HIGH, *STRICT]
    checks = {check["name"]: (check["state"], check["text"]) for check in found.pop("checks")}
    assert checks == {
        "folder": ("ok", f"~/{os.path.basename(folder)}"),
        "branch": ("refused", "then main; here now now"),
        "approval": (
            "noted",
            "auto is withheld, looser than the default; claude gets default; --allow-loose carries it this once",
        ),
    }
    assert found == {
        "id": session,
        "app": "claude",
        "root": str(machine.home.claude),
        "title": "please do the thing",
        "argv": command,
        "folder": folder,
        "env": {"CLAUDECODE": None},
        "line": "",
        "carried": {"model": "claude-opus-5-5", "effort": "high"},
        "withheld": [
            {"name": "approval", "value": "auto", "why": "looser than the default", "instead": "default"},
        ],
        "exit": REFUSED,
    }
    agreed = machine.sess("resume", session, "--print", "--json", "--yes")
    found = json.loads(agreed.stdout)
    assert (agreed.returncode, found["exit"]) == (0, 0)
    assert found["line"] == f"cd {folder} && {' '.join(command)}"
    missing = machine.sess("resume", session, "--print", "--json", "--yes", PATH=str(machine.tools))
    assert (missing.returncode, json.loads(missing.stdout)["exit"]) == (NO_PROGRAM, NO_PROGRAM)
    assert machine.nothing_ran()


def test_what_is_printed_was_checked(machine: Machine) -> None:
    """A line that would be refused is not printed, so that `eval` of it runs nothing."""
    session = machine.claude(machine.repository("main", "now"))
    done = machine.sess("resume", "--print", session)
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert machine.sess("resume", "--print", "--yes", session).stdout.startswith("cd /")


def test_show_tells_how_a_session_would_be_resumed(machine: Machine) -> None:
    """The command on one line, what it leaves out, and the same in JSON; nothing is looked up in the folder."""
    session = machine.codex("/no/such folder", approval="never")
    command = ["codex", "resume", *SOL, *ASKS, *WRITES, session]
    machine.daemon.sync()
    shown = machine.sess("show", session).stdout
    assert "\nresume      cd /no/such\\ folder && codex resume -m gpt-6-sol " in shown
    assert "\nnoted       approval: never is withheld, looser than the default; codex gets on-request; " in shown
    plan = json.loads(machine.sess("show", session, "--json").stdout)["plan"]
    assert (plan["argv"], plan["folder"], plan["set"]) == (command, "/no/such folder", {})
    assert plan["carried"] == {"model": "gpt-6-sol", "effort": "high", "sandbox": "workspace-write"}
    assert [check["name"] for check in plan["checks"]] == ["approval"]
