"""``show``, ``status``, ``stop`` and ``reindex``."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from sess.front import NotRunning
from sessiond.protocol import Answer, Problem
from tests.cli.asking import TERMINAL, Asked, row, run

PROMPTS = {"first_prompt": None, "last_prompt": None, "prompt_problem": None}
ID = "84cdfff0-1111-4222-8333-444455556666"
PLAN = {
    "argv": ["claude", "--resume", ID],
    "folder": "/home/anna/src/shop",
    "set": {},
    "unset": ["CLAUDECODE"],
    "carried": {},
    "withheld": [],
    "checks": [],
    "folder_gone": "make it again",
    "commit": None,
    "repository": None,
}


def known(row: dict[str, Any], ok: dict[str, Any] | None = None, plan: dict[str, Any] | None = None) -> Asked:
    """Answer what `show` asks: the session, and how it would be resumed."""
    return Asked(Answer([row], {**PROMPTS, **(ok or {})}), Answer([row], {**PLAN, **(plan or {})}))


def shown(
    row: dict[str, Any], ok: dict[str, Any] | None = None, plan: dict[str, Any] | None = None, **context: Any
) -> dict[str, str]:
    """Return what `show` says, by name."""
    code, out, err = run(["show", "84cd"], known(row, ok, plan), TERMINAL._replace(**context))
    assert (code, err) == (0, "")
    fields = re.split(r"\n(?! )", out.rstrip("\n"))
    assert all(field[11] == " " != field[12] for field in fields)
    return {field[:12].rstrip(): field[12:] for field in fields}


def test_show_asks_for_one_session() -> None:
    """By what was typed of its id."""
    asked = known(row())
    run(["show", "84cd"], asked)
    plan = {"v": 1, "op": "plan", "id": ID, "app": "claude", "root": "/home/anna/.claude"}
    assert asked.requests == [{"v": 1, "op": "show", "id": "84cd"}, plan]


def test_show_says_what_is_known() -> None:
    """And is silent about what is not."""
    now = int(time.time() * 1000)
    assert shown(row(updated=now)) == {
        "title": "Speed up the checkout query",
        "id": "84cdfff0-1111-4222-8333-444455556666",
        "app": "claude",
        "folder": "~/src/shop",
        "active": shown(row(updated=now))["active"],
        "file": "~/.claude/projects/shop/84cdfff0.jsonl (12.3 kB)",
        "resume": f"cd /home/anna/src/shop && claude --resume {ID}",
    }
    assert re.fullmatch(r"just now \(\d{4}-\d\d-\d\d \d\d:\d\d [+-]\d{4}\)", shown(row(updated=now))["active"])


def test_show_says_all_that_is_known() -> None:
    """Each with the name people know it by."""
    everything = shown(
        row(
            branch="fix/checkout",
            launch_dir="/home/anna/src",
            created=1_600_000_000_000,
            model="gpt-5",
            effort="high",
            approval="on-request",
            sandbox="workspace-write",
            archived=True,
            live="idle",
            hidden="superseded",
        ),
        {"first_prompt": "make it\nquick", "last_prompt": "thanks"},
    )
    assert {name: everything[name] for name in ("started in", "branch", "model", "effort", "approval", "sandbox")} == {
        "started in": "~/src",
        "branch": "fix/checkout",
        "model": "gpt-5",
        "effort": "high",
        "approval": "on-request",
        "sandbox": "workspace-write",
    }
    assert everything["state"] == "archived, idle, hidden: superseded"
    assert re.match(r"\d+ years ago \(2020-09-1\d ", everything["created"])
    assert (everything["first"], everything["last"]) == ("make it quick", "thanks")


def test_show_does_not_repeat_an_only_prompt() -> None:
    """The first and the last are one."""
    assert "last" not in shown(row(), {"first_prompt": "hi", "last_prompt": "hi"})


def test_show_says_why_there_is_no_prompt() -> None:
    """The file may be gone."""
    assert shown(row(), {"prompt_problem": "No such file"})["prompts"] == "not read: No such file"


def test_a_long_prompt_is_wrapped_on_a_terminal_and_whole_elsewhere() -> None:
    """Enough of it to recognise the session by."""
    prompt = "word " * 200
    narrow = shown(row(), {"first_prompt": prompt}, columns=50)["first"].split("\n")
    assert len(narrow) == 4
    assert narrow[-1].endswith("…")
    assert max(map(len, narrow)) <= 50
    assert shown(row(), {"first_prompt": prompt}, terminals="")["first"] == prompt.strip()


def test_nothing_shown_can_steer_the_terminal() -> None:
    """Whatever the transcript holds."""
    hostile = "a\x1b]0;x\x07\u202eb\nc"
    withheld = {"name": "model", "state": "noted", "text": hostile, "hint": ""}
    out = run(["show", "84cd"], known(
        row(title=hostile, cwd=f"/{hostile}", branch=hostile, model=hostile, path=f"/{hostile}"),
        {"first_prompt": hostile, "prompt_problem": hostile},
        {"folder": f"/{hostile}", "set": {"CODEX_HOME": f"/{hostile}"}, "checks": [withheld]},
    ))[1]  # fmt: skip
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)
    assert len(out.splitlines()) == 13


def test_show_says_how_the_session_would_be_resumed() -> None:
    """On one line, to be copied; not when it would be refused."""
    argv = ["claude", "--resume", ID, "--model", "claude-opus-5-5[1m]", "--permission-mode", "default"]
    withheld = {"name": "approval", "state": "noted", "text": "auto is withheld", "hint": ""}
    found = shown(row(), plan={"argv": argv, "set": {"CODEX_HOME": "/x y"}, "checks": [withheld]}, columns=40)
    command = f"claude --resume {ID} --model claude-opus-5-5\\[1m\\] --permission-mode default"
    assert found["resume"] == f"cd /home/anna/src/shop && env CODEX_HOME=/x\\ y {command}"
    assert found["noted"] == "approval: auto is withheld"
    refused = shown(row(), plan={"checks": [withheld, {**withheld, "state": "refused", "name": "live"}]})
    assert refused["refused"] == "live: auto is withheld"
    assert "resume" not in refused
    assert "resume" not in shown(row(), plan={"folder": None})


def test_show_as_json_is_the_row_the_prompts_and_the_plan() -> None:
    """In full."""
    code, out, _ = run(["show", "84cd", "--json"], known(row(), {"first_prompt": "hi\x1b"}))
    assert code == 0
    plan = {key: PLAN[key] for key in ("argv", "folder", "set", "unset", "carried", "withheld", "checks")}
    assert json.loads(out) == {**row(), "first_prompt": "hi\x1b", "last_prompt": None, "plan": plan}
    assert out.isascii()


STATUS = {
    "version": "0.1.0",
    "pid": 4711,
    "started": 0,
    "sessions": {"claude": 1200, "codex": 34},
    "hidden": {"subagent": 40, "empty": 2},
    "units": 1300,
    "unreadable": 2,
    "roots": [
        {"app": "claude", "path": "/home/anna/.claude", "state": "watched"},
        {"app": "codex", "path": "/home/anna/.codex", "state": "watched"},
    ],
    "progress": None,
    "reconciled": 0,
    "index_bytes": 2_500_000,
    "folders_watched": 40,
    "folders_polled": 0,
    "lost": 0,
    "units_read": 1300,
    "bytes_read": 9000,
    "problems": [],
}


def status(**values: Any) -> list[str]:
    """Return the lines of `sess status`."""
    now = int(time.time() * 1000)
    answer = Answer([], {**STATUS, "started": now - 3 * 3_600_000, "reconciled": now - 90_000, **values})
    code, out, err = run(["status"], Asked(answer))
    assert (code, err) == (0, "")
    return out.splitlines()


def test_status_is_three_lines_when_all_is_well() -> None:
    """The daemon, how fresh its index is, and whose sessions are in it."""
    assert status() == [
        "sessiond 0.1.0 (pid 4711), started 3 hours ago: 1,234 sessions (claude 1,200, codex 34), 42 hidden",
        "1,300 files read, 2 unreadable; compared with the disk 1 minute ago; index 2.5 MB",
        "agents found: claude, codex",
    ]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"progress": {"done": 120, "of": 2000}}, "still reading: 120 of 2,000 files"),
        ({"reconciled": None}, "not yet compared with the disk"),
    ],
)
def test_status_says_how_fresh_the_index_is(values: dict[str, Any], line: str) -> None:
    """While it is not."""
    assert line in status(**values)[1]


def test_status_says_what_is_wrong() -> None:
    """Each on a line of its own; a store is missing only if the configuration names it."""
    states = (("claude", "/home/anna/.claude", "unreadable"), ("codex", "/mnt/codex", "missing"))
    roots = [dict(zip(("app", "path", "state"), state, strict=True)) for state in states]
    assert status(roots=roots, problems=["2 unreadable: Permission denied"])[2:] == [
        "agents found: claude",
        "claude: ~/.claude is unreadable",
        "codex: /mnt/codex is missing",
        "2 unreadable: Permission denied",
    ]


def test_status_as_json_can_be_shown_to_anybody() -> None:
    """It holds no path: of the problems, which may, their number alone."""
    problems = ["not reloaded: /home/anna/.config/sess/config.toml: exlude is not known", "2 unreadable"]
    code, out, _ = run(["status", "--json"], Asked(Answer([], {**STATUS, "problems": problems})))
    assert code == 0
    assert json.loads(out) == {
        **STATUS,
        "problems": 2,
        "running": True,
        "roots": [{"app": "claude", "state": "watched"}, {"app": "codex", "state": "watched"}],
    }


def test_status_of_no_daemon_is_an_answer() -> None:
    """With the exit code of a daemon that cannot be reached."""
    code, out, err = run(["status"], Asked(NotRunning()))
    assert (code, out, err) == (3, "the daemon is not running\nAny search starts it: `sess find`\n", "")
    assert run(["status", "--json"], Asked(NotRunning())) == (3, '{"running": false}\n', "")


def test_a_daemon_that_hangs_is_not_one_that_does_not_run() -> None:
    """Stopping it did not work then."""
    for command in ("status", "stop"):
        code, out, err = run([command], Asked(Problem("unreachable", "it hangs", "kill it")))
        assert (code, out, err) == (3, "", "sess: it hangs\nkill it\n")


def test_stop_says_what_it_did() -> None:
    """And is content when there was nothing to do."""
    asked = Asked(Answer([], {}))
    assert run(["stop"], asked) == (0, "the daemon stops\n", "")
    assert asked.requests == [{"v": 1, "op": "stop"}]
    stopped = "the daemon is not running\nAny search starts it: `sess find`\n"
    assert run(["stop"], Asked(NotRunning())) == (0, stopped, "")


def test_reindex_does_not_wait() -> None:
    """It says where to look."""
    asked = Asked(Answer([], {}))
    assert run(["reindex"], asked) == (0, "the index is being rebuilt; `sess status` says how far it is\n", "")
    assert asked.requests == [{"v": 1, "op": "reindex"}]
