"""The real client with the real daemon, as a person uses them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.daemon import PATIENCE, Home, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Sess = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def sess(home: Home) -> Iterator[Sess]:
    """Run ``sess`` in `home`; the daemon that it starts ends with the test."""

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sess", *words],
            env=home.env | env, cwd=home.path, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    yield run
    run("stop")


def pid_of_daemon(home: Home) -> int:
    return int((home.path / "state" / "run" / "sessiond.lock").read_text().split()[1].rstrip(","))


def test_the_first_search_has_the_answer(home: Home, sess: Sess) -> None:
    """Nothing was started or set up before; the whole home is read."""
    for number in range(300):
        home.claude_session(f"session {number}", cwd=f"/srv/p{number % 7}")
    home.claude_session("the checkout one")
    home.codex_session("checkout with the other agent")
    found = sess("find", "checkout", "--json")
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""
    assert [json.loads(line)["title"] for line in found.stdout.splitlines()] == [
        "checkout with the other agent",
        "the checkout one",
    ]
    assert len(sess("find", "--limit", "500", "--ids").stdout.splitlines()) == 302


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["checkout"], ["Fix checkout retry", "Retry the checkout"]),
        (["heckou"], ["Fix checkout retry", "Retry the checkout"]),
        (["retry", "checkout"], ["Fix checkout retry", "Retry the checkout"]),
        (["checkout retry"], ["Fix checkout retry"]),
        (["shop"], ["Fix checkout retry"]),
        (["fix/vat"], ["Retry the checkout"]),
        (["codex"], ["Rollout of the week"]),
        (["--app", "codex"], ["Rollout of the week"]),
        (["検索"], ["検索機能を直す"]),
        (["索機"], ["検索機能を直す"]),
        (["zq"], ["a rare zq pair"]),
        (["it's"], ['it\'s "quoted" 100% a_b \\ * AND NOT']),
        (['say:"quoted"'], []),
        (['"quoted"'], ['it\'s "quoted" 100% a_b \\ * AND NOT']),
        (["100%"], ['it\'s "quoted" 100% a_b \\ * AND NOT']),
        (["a_b"], ['it\'s "quoted" 100% a_b \\ * AND NOT']),
        (["\\"], ['it\'s "quoted" 100% a_b \\ * AND NOT']),
        (["*"], ['it\'s "quoted" 100% a_b \\ * AND NOT']),
        (["AND"], ['it\'s "quoted" 100% a_b \\ * AND NOT']),
        (["'; DROP TABLE session; --"], []),
        (["checkout", "-vat"], ["Fix checkout retry"]),
        (["--branch", "vat"], ["Retry the checkout"]),
        (["--cwd", "/srv/shop"], ["Fix checkout retry"]),
        (["branch:vat", "title:retry"], ["Retry the checkout"]),
    ],
)
def test_it_is_found_by(home: Home, sess: Sess, words: list[str], found: list[str]) -> None:
    """Title, folder, branch, app; a part of a word, two words, two characters, Japanese, special characters."""
    home.claude_session("Retry the checkout", cwd="/srv/pay", branch="fix/vat")
    home.claude_session("Fix checkout retry", cwd="/srv/shop/api")
    home.claude_session("検索機能を直す", cwd="/srv/jp")
    home.claude_session("a rare zq pair", cwd="/srv/x")
    home.claude_session('it\'s "quoted" 100% a_b \\ * AND NOT', cwd="/srv/y")
    home.codex_session("Rollout of the week", cwd="/srv/z")
    answer = sess("find", *words, "--json")
    assert [json.loads(line)["title"] for line in answer.stdout.splitlines()] == found
    assert answer.returncode == (0 if found else 1), answer.stderr


def test_it_is_found_by_any_part_of_its_id(home: Home, sess: Sess) -> None:
    """Also from the middle, and in capitals."""
    session, _ = home.claude_session("the one")
    home.claude_session("another")
    for part in (session.id, session.id[:8], session.id[9:18], session.id[-6:].upper()):
        assert sess("find", part, "--ids").stdout == f"{session.id}\n"
        assert sess("find", f"id:{part}", "--ids").stdout == f"{session.id}\n"


def test_clients_that_come_at_once_start_one_daemon(home: Home, sess: Sess) -> None:
    """Each of them gets its answer from it."""
    home.claude_session("the one")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: sess("find", "--json"), range(8)))
    assert [answer.returncode for answer in answers] == [0] * 8, [answer.stderr for answer in answers]
    running = subprocess.run(
        ["pgrep", "-f", f"{sys.executable}.* -m sessiond"], capture_output=True, text=True, check=False
    )
    ours = [pid for pid in running.stdout.split() if str(home.path) in _environment(pid)]
    assert ours == [str(pid_of_daemon(home))]


def _environment(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as environment:
            return environment.read()
    except OSError:
        return ""


def test_the_daemon_is_detached_from_who_started_it(home: Home, sess: Sess) -> None:
    """A session of its own, in no folder that somebody may want to unmount, its output in the log."""
    assert sess("find").returncode == 1
    pid = pid_of_daemon(home)
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{pid}/fd/2") == str(home.path / "state" / "sessiond.log")


def test_it_can_be_forbidden_to_start_one(home: Home, sess: Sess) -> None:
    """Exit 3, and a word what to do; nothing is made."""
    refused = sess("find", SESS_NO_SPAWN="1")
    assert refused.returncode == 3
    assert refused.stdout == ""
    assert "SESS_NO_SPAWN" in refused.stderr
    assert not (home.path / "state").exists()


def test_a_killed_daemon_is_started_again_by_the_next_search(home: Home, sess: Sess) -> None:
    """The stale socket is in nobody's way."""
    home.claude_session("survivor")
    assert sess("find", "--json").returncode == 0
    first = pid_of_daemon(home)
    os.kill(first, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{first}/fd"))
    again = sess("find", "survivor", "--json")
    assert again.returncode == 0, again.stderr
    assert pid_of_daemon(home) != first


def test_nothing_found_says_where_was_looked(home: Home, sess: Sess) -> None:
    """How many sessions, of which agents, what was hidden, which filter excluded everything."""
    home.claude_session("alpha", branch="main")
    home.codex_session("beta")
    _, path = home.claude_session("deleted one")
    assert sess("find").returncode == 0
    path.unlink()
    until(lambda: sess("find", "deleted").returncode == 1)
    nothing = sess("find", "deleted")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "2 sessions (claude 1, codex 1)" in nothing.stderr
    assert "1 hidden session" in nothing.stderr
    assert "--all" in nothing.stderr
    assert sess("find", "deleted", "--all", "--ids").stdout == f"{path.stem}\n"
    assert "without branch:nowhere" in sess("find", "alpha", "branch:nowhere").stderr
    assert "would match without is:live\n" in sess("find", "alpha", "is:live").stderr


@pytest.mark.parametrize("words", [["show"], ["_rows", "--plain"]])
def test_the_first_command_may_be_about_a_session(home: Home, sess: Sess, words: list[str]) -> None:
    """One that starts the daemon, which has read nothing yet, and reads the oldest last. The picker asks so, too."""
    session, _ = home.claude_session("the one")
    for number in range(300):
        home.claude_session(f"session {number}")
    shown = sess(*words, session.id)
    assert (shown.returncode, "the one" in shown.stdout) == (0, True), shown.stderr


def test_show_reads_both_prompts_now_and_names_what_it_cannot_find(home: Home, sess: Sess) -> None:
    """An ambiguous id is exit 5 with the candidates, an unknown one exit 1, a short one exit 2."""
    session, path = home.claude_session("the one")
    begin = len(session.lines)
    session.turn("and now the last one")
    with path.open("ab") as file:
        file.writelines(session.lines[begin:])
    shown = sess("show", session.id[:8], "--json")
    assert shown.returncode == 0, shown.stderr
    row = json.loads(shown.stdout)
    assert (row["first_prompt"], row["last_prompt"]) == ("please do the thing", "and now the last one")
    assert sess("show", "ffff0000").returncode == 1
    assert sess("show", "abc").returncode == 2
    for number in (1, 2):
        other = path.with_name(f"abcdef0{number}-0000-4000-8000-000000000000.jsonl")
        other.write_bytes(path.read_bytes())
    until(lambda: sess("show", "abcdef0").returncode == 5)
    assert "abcdef01" in sess("show", "abcdef0").stderr


def test_stop_and_status_start_nothing(home: Home, sess: Sess) -> None:
    """And say that there is nothing."""
    assert sess("status").returncode == 3
    assert sess("stop").returncode == 0
    assert sess("--help").returncode == 0
    assert not (home.path / "state").exists()
    assert sess("find").returncode == 1
    assert sess("status", "--json").returncode == 0
    assert sess("stop").returncode == 0
    until(lambda: sess("status").returncode == 3)


def test_reindex_brings_back_what_was_there(home: Home, sess: Sess) -> None:
    """Searches go on meanwhile."""
    for number in range(20):
        home.claude_session(f"session {number}")
    before = sess("find", "--json", "--sync").stdout
    assert sess("reindex").returncode == 0
    assert sess("find", "--json", "--sync").stdout == before
