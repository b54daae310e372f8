"""What a resume does, as one table: what was recorded, how things are now, and the flags, against what is started.

Each row runs ``sess resume`` from end to end. Stand-ins for `claude` and `codex` record what they were given.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from sessiond.protocol import REFUSED, USAGE
from tests.cli.machine import RAN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.machine import Machine, Ran

    Record = Callable[[str], str]

pytestmark = pytest.mark.needs("git")

ID, ITS, OTHER = "<its id>", "<its folder>", "<another folder>"
DEFAULT, WORK = "<default store>", "<store of another account>"


class Recorded(NamedTuple):
    """A session as it was left, on the branch `then` unless it says otherwise."""

    app: str
    values: dict[str, Any]


class Started(NamedTuple):
    """What the stand-in has to be given."""

    argv: tuple[str, ...]
    folder: str = ITS


def claude(**values: Any) -> Recorded:
    """A session with the model claude-opus-5-5, effort high, mode default, unless it says otherwise."""
    return Recorded("claude", values)


def codex(**values: Any) -> Recorded:
    """A session with the model gpt-6-sol, effort high, approval on-request, sandbox workspace-write."""
    return Recorded("codex", values)


def claude_gets(*words: str, folder: str = ITS) -> Started:
    return Started(("claude", "--resume", ID, *words), folder)


def codex_gets(*words: str, then: tuple[str, ...] = (), command: str = "resume", folder: str = ITS) -> Started:
    return Started(("codex", command, *words, ID, *then), folder)


class Now:
    """How things are now. Each makes a folder, has a session recorded in it, and yields the folder and the id."""

    @staticmethod
    def as_it_was(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("main", "then")
        yield folder, record(folder)

    @staticmethod
    def other_branch(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then", "now")
        yield folder, record(folder)

    @staticmethod
    def branch_deleted(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then", "now")
        machine.git(folder, "branch", "-q", "-D", "then")
        yield folder, record(folder)

    @staticmethod
    def detached(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then")
        machine.git(folder, "checkout", "-q", "--detach")
        yield folder, record(folder)

    @staticmethod
    def in_worktree(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then", "now")
        machine.git(folder, "worktree", "add", "-q", f"{folder}-worktree", "then")
        yield folder, record(folder)

    @staticmethod
    def no_commit_yet(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.folder()
        machine.git(folder, "init", "-q", "-b", "fresh")
        yield folder, record(folder)

    @staticmethod
    def tag_of_that_name(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then")
        machine.git(folder, "tag", "then")
        yield folder, record(folder)

    @staticmethod
    def no_repository(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.folder()
        yield folder, record(folder)

    @staticmethod
    def broken_repository(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then")
        Path(folder, ".git/config").write_text("[core\n")
        yield folder, record(folder)

    @staticmethod
    def somebody_elses(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then")
        session = record(folder)
        if os.geteuid():
            pytest.skip("only root can give a repository away")
        for path in (folder, f"{folder}/.git"):
            os.chown(path, 12345, -1)
        yield folder, session

    @staticmethod
    def gone(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.folder()
        session = record(folder)
        os.rmdir(folder)
        yield folder, session

    @staticmethod
    def a_file(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.folder()
        session = record(folder)
        os.rmdir(folder)
        Path(folder).touch()
        yield folder, session

    @staticmethod
    def below_a_file(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        above = machine.folder()
        folder = f"{above}/deep/er"
        session = record(folder)
        os.rmdir(above)
        Path(above).touch()
        yield folder, session

    @staticmethod
    def a_dangling_link(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.folder()
        session = record(folder)
        os.rmdir(folder)
        os.symlink("/no/such\x1b[2J", folder)
        yield folder, session

    @staticmethod
    def below_one(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        above = machine.folder()
        folder = f"{above}/deep/er"
        session = record(folder)
        os.rmdir(above)
        os.symlink("/no/such", above)
        yield folder, session

    @staticmethod
    def a_link_to_itself(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.folder()
        session = record(folder)
        os.rmdir(folder)
        os.symlink(folder, folder)
        yield folder, session

    @staticmethod
    def no_path(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.folder()
        yield folder, record(f"{folder}\0x")

    @staticmethod
    def open_elsewhere(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then")
        session = record(folder)
        live = machine.live(session, os.getpid())
        yield folder, session
        live.unlink()

    @staticmethod
    def may_be_open(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then")
        session = record(folder)
        live = machine.live(session, os.getpid())
        live.write_text(json.dumps({"pid": os.getpid(), "sessionId": session.upper()}))
        yield folder, session
        live.unlink()

    @staticmethod
    def locked(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
        folder = machine.repository("then")
        session = record(folder)
        lock = machine.home.codex / "thread-writer-locks" / f"{session}.lock"
        lock.parent.mkdir(exist_ok=True)
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield folder, session


OPUS, HIGH, STRICT = ("--model", "claude-opus-5-5"), ("--effort", "high"), ("--permission-mode", "default")
ALL = (*OPUS, *HIGH, *STRICT)
SOL = ("-m", "gpt-6-sol", "-c", 'model_reasoning_effort="high"')
ASKS, WRITES, READS = ("-a", "on-request"), ("-s", "workspace-write"), ("-s", "read-only")
CLAUDE = claude_gets(*ALL)
CODEX = codex_gets(*SOL, *ASKS, *WRITES)
MODE, COPY, LOOSE = "--permission-mode", "--fork-session", "--allow-loose"
COPIED = claude_gets(*ALL, "--fork-session")
CODEX_COPIED = codex_gets(*SOL, *ASKS, *WRITES, command="fork")
IN_OTHER = codex_gets(*SOL, *ASKS, *WRITES, "-C", OTHER, folder=OTHER)
BYPASS, FULL_ACCESS = "bypassPermissions", "danger-full-access"
LONG, ANY_MODEL = "claude-opus-5-5[1m]", "openai/gpt-oss:120b"
FULL = {"approval": "never", "sandbox": FULL_ACCESS}
NESTED = {
    "CLAUDECODE": "1",
    "CLAUDE_CODE_CHILD_SESSION": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SESSION_ID": "x",
    "CLAUDE_CODE_SKIP_PROMPT_HISTORY": "1",
}

# fmt: off
SETTINGS = [
    # recorded                             flags              what the agent is given
    (claude(),                             [],                CLAUDE),
    (claude(mode="plan"),                  [],                claude_gets(*OPUS, *HIGH, MODE, "plan")),
    (claude(mode="plan"),                  ["--no-carry"],    claude_gets(MODE, "plan")),
    (claude(mode="acceptEdits"),           [],                CLAUDE),
    (claude(mode="acceptEdits"),           [LOOSE],           claude_gets(*OPUS, *HIGH, MODE, "acceptEdits")),
    (claude(mode="auto"),                  [],                CLAUDE),
    (claude(mode="auto"),                  ["--no-carry"],    claude_gets(*STRICT)),
    (claude(mode="dontAsk"),               [],                CLAUDE),
    (claude(mode=BYPASS),                  [],                CLAUDE),
    (claude(mode=BYPASS),                  ["--yes"],         CLAUDE),
    (claude(mode=BYPASS),                  [LOOSE],           claude_gets(*OPUS, *HIGH, MODE, BYPASS)),
    (claude(mode="aModeOfTomorrow"),       [],                CLAUDE),
    (claude(mode="aModeOfTomorrow"),       [LOOSE],           CLAUDE),
    (claude(model=LONG),                   [],                claude_gets("--model", LONG, *HIGH, *STRICT)),
    (claude(model="<synthetic>"),          [],                claude_gets(*STRICT)),
    (claude(model="opus --dangerously"),   [],                claude_gets(*HIGH, *STRICT)),
    (claude(model="--dangerously"),        [],                claude_gets(*HIGH, *STRICT)),
    (claude(model="opus\nsonnet"),         [],                claude_gets(*HIGH, *STRICT)),
    (claude(effort="high; reboot"),        [],                claude_gets(*OPUS, *STRICT)),
    (claude(effort="ultracode"),           [],                claude_gets(*OPUS, "--effort", "ultracode", *STRICT)),
    (claude(),                             ["--fork"],        claude_gets(*ALL, COPY)),
    (claude(),                 ["--", "--add-dir", "x y", ""], claude_gets(*ALL, "--add-dir", "x y", "")),
    (claude(),                 ["--fork", "--", "--yes", "--"], claude_gets(*ALL, COPY, "--yes", "--")),
    (codex(),                              [],                CODEX),
    (codex(sandbox="read-only"),           [],                codex_gets(*SOL, *ASKS, *READS)),
    (codex(approval="never"),              [],                CODEX),
    (codex(approval="never"),              [LOOSE],           codex_gets(*SOL, "-a", "never", *WRITES)),
    (codex(**FULL),                        [],                CODEX),
    (codex(**FULL),                        ["--no-carry"],    codex_gets(*ASKS, *WRITES)),
    (codex(**FULL),                        [LOOSE],           codex_gets(*SOL, "-a", "never", "-s", FULL_ACCESS)),
    (codex(approval="untrusted"),          [],                codex_gets(*SOL, *ASKS, *READS)),
    (codex(approval="on-failure"),         [],                CODEX),
    (codex(approval="on-failure"),         [LOOSE],           CODEX),
    (codex(approval={"granular": {}}),     [LOOSE],           CODEX),
    (codex(sandbox="external-sandbox"),    [LOOSE],           CODEX),
    (codex(model=ANY_MODEL),               [],                codex_gets("-m", ANY_MODEL, *SOL[2:], *ASKS, *WRITES)),
    (codex(model="-c"),                    [],                codex_gets(*SOL[2:], *ASKS, *WRITES)),
    (codex(effort='"\napproval="never'),   [],                codex_gets(*SOL[:2], *ASKS, *WRITES)),
    (codex(),                              ["--fork"],        CODEX_COPIED),
    (codex(),                              ["--", "-x"],      codex_gets(*SOL, *ASKS, *WRITES, then=("-x",))),
]

PLACES = [
    # recorded                     now                      flags              exit      what the agent is given
    (claude(),                     Now.other_branch,        [],                REFUSED,  None),
    (claude(),                     Now.other_branch,        ["--print"],       REFUSED,  None),
    (claude(),                     Now.other_branch,        ["--yes"],         RAN,      CLAUDE),
    (codex(),                      Now.other_branch,        [],                REFUSED,  None),
    (codex(),                      Now.other_branch,        ["--yes"],         RAN,      CODEX),
    (claude(branch="x" * 200),     Now.as_it_was,           [],                REFUSED,  None),
    (claude(),                     Now.branch_deleted,      [],                REFUSED,  None),
    (claude(),                     Now.branch_deleted,      ["--yes"],         RAN,      CLAUDE),
    (claude(),                     Now.detached,            [],                REFUSED,  None),
    (claude(),                     Now.detached,            ["--yes"],         RAN,      CLAUDE),
    (claude(),                     Now.in_worktree,         [],                REFUSED,  None),
    (claude(),                     Now.in_worktree,         ["--yes"],         RAN,      CLAUDE),
    (claude(),                     Now.no_commit_yet,       [],                REFUSED,  None),
    (claude(branch="fresh"),       Now.no_commit_yet,       [],                RAN,      CLAUDE),
    (claude(),                     Now.tag_of_that_name,    [],                RAN,      CLAUDE),
    (claude(branch="heads/then"),  Now.tag_of_that_name,    [],                RAN,      CLAUDE),
    (claude(branch="heads/now"),   Now.tag_of_that_name,    [],                REFUSED,  None),
    (claude(),                     Now.no_repository,       [],                REFUSED,  None),
    (claude(),                     Now.no_repository,       ["--yes"],         RAN,      CLAUDE),
    (claude(branch="HEAD"),        Now.no_repository,       [],                RAN,      CLAUDE),
    (codex(branch=None),           Now.as_it_was,           [],                RAN,      CODEX),
    (claude(),                     Now.broken_repository,   [],                REFUSED,  None),
    (claude(),                     Now.broken_repository,   ["--yes"],         RAN,      CLAUDE),
    (claude(),                     Now.somebody_elses,      [],                REFUSED,  None),
    (claude(),                     Now.somebody_elses,      ["--yes"],         RAN,      CLAUDE),
    (claude(),                     Now.gone,                [],                REFUSED,  None),
    (claude(),                     Now.gone,                ["--yes"],         REFUSED,  None),
    (claude(),                     Now.gone,                ["--dir", OTHER],  RAN,      CLAUDE._replace(folder=OTHER)),
    (codex(),                      Now.gone,                ["--dir", OTHER],  RAN,      IN_OTHER),
    (claude(),                     Now.gone,                ["--dir", ITS],    REFUSED,  None),
    (claude(),                     Now.as_it_was,           ["--dir", ""],     USAGE,    None),
    (claude(),                     Now.a_file,              ["--yes"],         REFUSED,  None),
    (claude(),                     Now.below_a_file,        ["--yes"],         REFUSED,  None),
    (claude(),                     Now.a_dangling_link,     ["--yes"],         REFUSED,  None),
    (claude(),                     Now.below_one,           ["--yes"],         REFUSED,  None),
    (claude(),                     Now.a_link_to_itself,    ["--yes"],         REFUSED,  None),
    (claude(),                     Now.no_path,             ["--yes"],         REFUSED,  None),
    (claude(),                     Now.open_elsewhere,      ["--yes"],         REFUSED,  None),
    (claude(),                     Now.open_elsewhere,      ["--fork"],        RAN,      COPIED),
    (claude(),                     Now.may_be_open,         [],                REFUSED,  None),
    (claude(),                     Now.may_be_open,         ["--yes"],         RAN,      CLAUDE),
    (claude(),                     Now.may_be_open,         ["--fork"],        RAN,      COPIED),
    (codex(),                      Now.locked,              [],                REFUSED,  None),
    (codex(),                      Now.locked,              ["--yes"],         REFUSED,  None),
    (codex(),                      Now.locked,              ["--fork"],        RAN,      CODEX_COPIED),
]

SAID = [
    # recorded                   now                      in the block
    (claude(),                   Now.other_branch,        "branch    then then; here now now\n"),
    (claude(branch="x" * 200),   Now.as_it_was,           f"then {'x' * 59}…, which no longer exists; here now "),
    (claude(),                   Now.branch_deleted,      "then then, which no longer exists; here now now\n"),
    (claude(),                   Now.detached,            "branch    then then; here now none, HEAD is detached at "),
    (claude(),                   Now.in_worktree,         "branch    then then, now checked out in ~/p"),
    (claude(),                   Now.no_commit_yet,       "then then, which no longer exists; here now fresh\n"),
    (claude(),                   Now.no_repository,       "branch    then then; now there is no git repository\n"),
    (claude(),                   Now.broken_repository,   "branch    then then; now not known: bad config line 1"),
    (claude(),                   Now.somebody_elses,      "branch    then then; now not known: detected dubious owner"),
    (claude(),                   Now.gone,                " is gone\n"),
    (claude(),                   Now.a_file,              " is a file, not a folder\n"),
    (claude(),                   Now.below_a_file,        " is gone: <above> above it is a file\n"),
    (claude(),                   Now.a_dangling_link,     " is a link to /no/such[2J, which is gone\n"),
    (claude(),                   Now.below_one,           " is gone: <above> above it is a link to /no/such, which is"),
    (claude(),                   Now.a_link_to_itself,    " cannot be looked at: Too many levels of symbolic links\n"),
    (claude(),                   Now.no_path,             " is not there; characters that no path has are recorded"),
    (claude(),                   Now.open_elsewhere,      "live      open in process "),
    (claude(),                   Now.may_be_open,         "live      may be open in process "),
    (codex(),                    Now.locked,              "live      open in process "),
]

ENVIRONMENTS = [
    # recorded             around it                                      what of that is changed
    (claude(),             {},                                            {}),
    (claude(),             NESTED,                                        dict.fromkeys(NESTED)),
    (claude(),             {"CLAUDE_CODE_EFFORT_LEVEL": "low"},           {}),
    (claude(),             {"CLAUDECODE": DEFAULT},                       {"CLAUDECODE": None}),
    (claude(),             {"CLAUDE_CONFIG_DIR": "/some/other"},          {"CLAUDE_CONFIG_DIR": None}),
    (claude(),             {"CLAUDE_CONFIG_DIR": f"{DEFAULT}/."},         {}),
    (claude(),             {"CLAUDE_CONFIG_DIR": f".{DEFAULT}"},          {"CLAUDE_CONFIG_DIR": None}),
    (claude(),             {"XDG_DATA_HOME": "/some/other"},              {}),
    (claude(root=WORK),    {},                                            {"CLAUDE_CONFIG_DIR": WORK}),
    (claude(root=WORK),    {"CLAUDE_CONFIG_DIR": "/some/other"},          {"CLAUDE_CONFIG_DIR": WORK}),
    (claude(root=WORK),    {"CLAUDE_CONFIG_DIR": WORK},                   {}),
    (codex(),              {"CODEX_HOME": "/some/other"},                 {"CODEX_HOME": None}),
    (codex(),              {**NESTED, "GIT_DIR": "/nowhere"},             {}),
]
# fmt: on


class Left(NamedTuple):
    """A session, after what happened since."""

    folder: str
    session: str


@pytest.fixture
def leave(machine: Machine) -> Iterator[Callable[..., Left]]:
    """Record a session, and have happened what a row says."""
    with ExitStack() as stack:

        def record(recorded: Recorded, now: Callable[..., Iterator[tuple[str, str]]]) -> Left:
            values = {"branch": "then"} | recorded.values
            if "root" in values:
                values["root"] = machine.home.work
            write = {"claude": machine.claude, "codex": machine.codex}[recorded.app]
            return Left(*stack.enter_context(contextmanager(now)(machine, lambda folder: write(folder, **values))))

        yield record


def state(folder: str) -> dict[Path, int]:
    """Return when each file below *folder* changed."""
    paths = [Path(folder), *Path(folder).rglob("*")]
    return {path: path.lstat().st_mtime_ns for path in paths if os.path.lexists(path)}


def check(started: Started, ran: Ran, left: Left, other: str = "") -> None:
    """Fail unless what was started is what the row says."""
    meant = {ID: left.session, ITS: left.folder, OTHER: other}
    assert ran.argv == [meant.get(word, word) for word in started.argv]
    assert ran.cwd == ran.env["PWD"] == meant[started.folder]


@pytest.mark.parametrize(("recorded", "flags", "started"), SETTINGS)
def test_settings_go_on_as_far_as_they_are_safe(
    machine: Machine, leave: Callable[..., Left], recorded: Recorded, flags: list[str], started: Started
) -> None:
    """What is no name of a model stays behind, and of a loose mode the agent gets its default, in so many words."""
    left = leave(recorded, Now.as_it_was)
    check(started, machine.resume(left.session, *flags), left)


@pytest.mark.parametrize(("recorded", "now", "flags", "code", "started"), PLACES)
def test_it_starts_only_where_it_was(
    machine: Machine,
    leave: Callable[..., Left],
    recorded: Recorded,
    now: Callable[..., Iterator[tuple[str, str]]],
    flags: list[str],
    code: int,
    started: Started | None,
) -> None:
    """In its folder and on its branch, or as the flags say; nothing is checked out, or made, in any case."""
    left = leave(recorded, now)
    other = machine.repository("main", "then")
    before = state(left.folder)
    done = machine.sess("resume", left.session, *({OTHER: other, ITS: left.folder}.get(flag, flag) for flag in flags))
    assert done.returncode == code, done.stderr
    assert state(left.folder) == before
    if started:
        check(started, machine.ran(), left, other)
    else:
        assert machine.nothing_ran()
        assert done.stdout == ""
        # What happened, and then what to do.
        assert "\nsess: not resumed: " in done.stderr or code == USAGE
        assert not done.stderr.splitlines()[-1].startswith("sess: ")


@pytest.mark.parametrize(("recorded", "now", "says"), SAID)
def test_what_is_in_the_way_is_said_in_its_own_words(
    machine: Machine,
    leave: Callable[..., Left],
    recorded: Recorded,
    now: Callable[..., Iterator[tuple[str, str]]],
    says: str,
) -> None:
    """And the folder is made only where nothing is in its place."""
    left = leave(recorded, now)
    done = machine.sess("resume", left.session)
    assert done.returncode == REFUSED
    refused = [f"{line}\n" for line in done.stderr.splitlines() if line.startswith("refused ")]
    assert len(refused) == 1
    assert says.replace("<above>", os.path.basename(os.path.dirname(os.path.dirname(left.folder)))) in refused[0]
    assert ("mkdir -p" in done.stderr) == (now is Now.gone)
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(("recorded", "around", "changed"), ENVIRONMENTS)
def test_of_the_environment_nothing_else_is_changed(
    machine: Machine,
    leave: Callable[..., Left],
    recorded: Recorded,
    around: dict[str, str],
    changed: dict[str, str | None],
) -> None:
    """Only the marks of a session around it, and the variable that names a store."""

    def meant(value: str) -> str:
        return value.replace(DEFAULT, str(machine.home.claude)).replace(WORK, str(machine.home.work))

    left = leave(recorded, Now.as_it_was)
    around = {name: meant(value) for name, value in around.items()}
    expected = machine.env | around | changed | {"PWD": left.folder}
    ran = machine.resume(left.session, **around)
    assert ran.env == {name: meant(value) for name, value in expected.items() if value is not None}
