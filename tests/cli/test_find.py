"""``sess find``: what is asked for, how it is shown, and what is said when there is nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.protocol import Answer
from sessiond.query import parse
from tests.cli.asking import CONTEXT, TERMINAL, Asked, row, run

FOUND = {"found": 1, "more": False, "progress": None}
NOTHING = {
    **FOUND,
    "found": 0,
    "searched": {"claude": 120, "codex": 30},
    "hidden": {},
    "excluded_by": [],
    "nearest": None,
    "unreadable": 0,
}


def asked(*words: str, **context: Any) -> dict[str, Any]:
    """Return the request that the words of a find make."""
    asked = Asked(Answer([row()], FOUND))
    code, _, err = run(["find", *words], asked, CONTEXT._replace(**context))
    assert (code, err) == (0, "")
    return asked.requests[-1]


def test_a_find_without_words_asks_for_the_most_recent() -> None:
    """Twenty of them, of all agents and folders."""
    assert asked() == {"v": 1, "op": "find", "q": "", "limit": 20, "all": False, "sort": "recent"}


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        (["--app", "codex", "--app", "claude,gemini"], {"app": ["codex", "claude", "gemini"]}),
        (["--branch", "fix/a"], {"branch": "fix/a"}),
        (["--since", "2d", "--until=2026-11-30"], {"since": "2d", "until": "2026-11-30"}),
        (["--limit", "3"], {"limit": 3}),
        (["--all"], {"all": True}),
        (["--sort", "relevance"], {"sort": "relevance"}),
        (["--here"], {"cwd": "/home/anna/src"}),
        (["--cwd", "shop/../api/"], {"cwd": "/home/anna/src/shop/../api/", "resolve": True}),
        (["--cwd", "/srv"], {"cwd": "/srv", "resolve": True}),
        (["--cwd=~/src"], {"cwd": "/home/anna/src", "resolve": True}),
        (["--cwd", "."], {"cwd": "/home/anna/src/.", "resolve": True}),
    ],
)
def test_every_option_is_asked_for(words: list[str], request_: dict[str, Any]) -> None:
    """As docs/protocol.md calls it."""
    plain = {"v": 1, "op": "find", "q": "", "limit": 20, "all": False, "sort": "recent"}
    assert asked(*words) == {**plain, **request_}


@pytest.mark.parametrize(
    ("words", "q"),
    [
        (["fix", "checkout"], "fix checkout"),
        (["fix", "--limit", "3", "checkout", "--all", "now"], "fix checkout now"),
        (["two words"], '"two words"'),
        (["-two words"], '-"two words"'),
        (["two words", "one"], '"two words" one'),
        (["two\twords"], '"two\twords"'),
        ([" one "], " one "),
        (["cwd:my folder"], "cwd:my folder"),
        (["branch:fix checkout"], "branch:fix checkout"),
        (["rapid: fire"], '"rapid: fire"'),
        (['say "two words"'], 'say "two words"'),
        (["fix", "-login", "-to"], "fix -login -to"),
        (["fix", "--", "-x"], "fix -x"),
        (["-app:codex", "is:live"], "-app:codex is:live"),
        (["--", "--all", "-h"], "--all -h"),
        (["", " ", "a"], "a"),
        (["naïve", "修复"], "naïve 修复"),
    ],
)
def test_the_query_means_what_was_typed(words: list[str], q: str) -> None:
    """What the shell kept together stays together, and options may stand anywhere."""
    assert asked(*words)["q"] == q


def test_a_phrase_of_the_shell_is_one_term() -> None:
    """For the query language, too."""
    assert [term.text for term in parse(asked("two words", "-no more")["q"], 0).terms] == ["two words", "no more"]


def test_a_folder_is_asked_for_by_its_real_path() -> None:
    """Agents record the real one; the daemon looks where that holds up nobody, as a network may be down."""
    request = asked("--cwd", "link", cwd="/srv")
    assert (request["cwd"], request["resolve"]) == ("/srv/link", True)
    assert "resolve" not in asked("--here", cwd="/srv")


def test_here_needs_a_folder() -> None:
    """One that was deleted under the shell is none."""
    code, out, err = run(["find", "--here"], Asked(), CONTEXT._replace(cwd=None))
    assert (code, out) == (2, "")
    assert err.startswith("sess: the current folder is gone\n")


def test_a_terminal_gets_a_table_and_a_pipe_gets_tabs() -> None:
    """Unless something else is asked for."""
    answer = Answer([row()], FOUND)
    tsv = (
        "84cdfff0-1111-4222-8333-444455556666\tclaude\t2023-11-14T22:13:20Z\t\t/home/anna/src/shop\t"
        "Speed up the checkout query\n"
    )
    code, out, err = run(["find"], Asked(answer), TERMINAL)
    assert (code, err) == (0, "")
    assert out.split()[1:4] == ["claude", "84cdfff0", "~/src/shop"]
    assert run(["find"], Asked(answer)) == (0, tsv, "")
    assert run(["find", "--tsv"], Asked(answer), TERMINAL) == (0, tsv, "")
    assert run(["find", "--ids"], Asked(answer), TERMINAL) == (0, "84cdfff0-1111-4222-8333-444455556666\n", "")
    code, out, err = run(["find", "--json"], Asked(answer), TERMINAL)
    assert (json.loads(out), err) == (row(), "")


def test_what_was_looked_for_is_marked() -> None:
    """On a terminal with colors."""
    _, out, _ = run(["find", "CHECKOUT"], Asked(Answer([row()], FOUND)), TERMINAL._replace(color=True))
    assert "\x1b[1;31mcheckout\x1b[0m" in out


def test_a_person_is_told_that_there_is_more() -> None:
    """A program asked for what it asked for."""
    answer = Answer([row()], {**FOUND, "more": True})
    assert run(["find", "--limit", "10"], Asked(answer), TERMINAL)[2] == "There are more: --limit 50\n"
    assert run(["find"], Asked(answer))[2] == ""


@pytest.mark.parametrize(
    ("ok", "lines"),
    [
        ({}, ["sess: nothing found: searched 150 sessions (claude 120, codex 30)"]),
        (
            {"searched": {}},
            [
                "sess: nothing found: there are no sessions yet",
                "`sess status` says which agents were found, `sess doctor` what may be wrong.",
            ],
        ),
        (
            {"hidden": {"subagent": 3, "deleted": 1}},
            ["4 hidden sessions would match (subagent 3, deleted 1): add --all"],
        ),
        ({"hidden": {"sdk": 1}}, ["1 hidden session would match (sdk 1): add --all"]),
        (
            {"searched": {}, "hidden": {"sdk": 1}},
            ["sess: nothing found: searched 0 sessions", "1 hidden session would match (sdk 1): add --all"],
        ),
        (
            {"excluded_by": [{"filter": "branch:\x1b[1mfix", "would_match": 2}, {"filter": "since", "would_match": 1}]},
            ["2 would match without branch:[1mfix", "1 would match without since"],
        ),
        (
            {"nearest": {"app": "claude", "id": "84cdfff0-1111", "title": "a\x1b[1mb"}},
            ["The nearest title: a[1mb (claude, `sess show 84cdfff0`)"],
        ),
        ({"unreadable": 5}, ["5 files could not be read: see `sess status`"]),
    ],
)
def test_nothing_found_is_explained(ok: dict[str, Any], lines: list[str]) -> None:
    """Where was looked, and what would help; on stderr, with exit code 1."""
    for words in ([], ["--json"], ["--ids"]):
        code, out, err = run(["find", "x", *words], Asked(Answer([], {**NOTHING, **ok})))
        assert (code, out) == (1, "")
        first = "sess: nothing found: searched 150 sessions (claude 120, codex 30)"
        assert err.splitlines() == ([] if lines[0].startswith("sess:") else [first]) + lines


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            "since:tuesdy",
            "since:tuesdy is no time: an age is (45m 3h 2d 1w 2mo 1y), a date (2026-11-30), today, yesterday",
        ),
        ("is:hiden", "Did you mean is:hidden in place of is:hiden?"),
        ("is:foo", "Did you mean is:live or is:lost or is:archived or is:hidden in place of is:foo?"),
        ("app:cladue", "Did you mean app:claude in place of app:cladue?"),
        ("brnach:fix", "Did you mean branch:fix in place of brnach:fix?"),
        ("snice:2d", "Did you mean since:2d in place of snice:2d?"),
        ("app:code", None),
        ("branch:fix", None),
        ("https://example.org", None),
        ('"is:foo"', None),
        ("is:live", None),
    ],
)
def test_a_mistyped_filter_is_named_when_nothing_is_found(query: str, says: str | None) -> None:
    """Any text is a query, so it was looked for as it stands."""
    _, _, err = run(["find", query], Asked(Answer([], NOTHING)))
    assert err.splitlines()[1:] == ([says] if says else [])


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["--here"], "those in ~/src and below, of "),
        (["--cwd", "shop/.."], "those in ~/src and below, of "),
        (["--app", "codex"], "those of codex, of "),
        (["--app", "codex,claude", "--cwd", "/srv"], "those of codex and claude in /srv and below, of "),
    ],
)
def test_nothing_found_says_where_it_looked(words: list[str], where: str) -> None:
    """When that was not everywhere."""
    first = run(["find", "x", *words], Asked(Answer([], NOTHING)))[2].splitlines()[0]
    assert first == f"sess: nothing found: searched {where}150 sessions (claude 120, codex 30)"


def test_a_list_is_in_the_form_asked_for() -> None:
    """Also in a pipe."""
    answer = Answer([row()] * 3, FOUND)
    for context in (CONTEXT, TERMINAL):
        assert run(["find", "--long"], Asked(answer), context)[1].count("  84cdfff0-1111-4222-8333-444455556666  ") == 3
        assert run(["find", "--plain"], Asked(answer), context)[1].count("Speed up the checkout query. claude, ") == 3
    assert run(["find"], Asked(answer), TERMINAL)[1].startswith("~/src/shop\n  ")
    assert "  ~/src/shop  " in run(["find", "--sort", "relevance"], Asked(answer), TERMINAL)[1].splitlines()[0]


def reading(done: int) -> dict[str, Any]:
    """Return the progress of a first reading."""
    return {"progress": {"done": done, "of": 2000}, "ticket": 7}


def test_an_index_that_is_nearly_complete_is_waited_for() -> None:
    """Then it is searched again, and a person has seen how far it was."""
    asked = Asked(
        Answer([], {**NOTHING, **reading(100)}),
        Answer([], reading(900)),
        Answer([], reading(1990)),
        Answer([], {"progress": None, "ticket": 7}),
        Answer([row()], FOUND),
    )
    code, out, err = run(["find", "--ids"], asked, TERMINAL)
    assert (code, out) == (0, "84cdfff0-1111-4222-8333-444455556666\n")
    assert [request["op"] for request in asked.requests] == ["find", "sync", "sync", "sync", "find"]
    assert asked.requests[0] == asked.requests[-1]
    assert err == "\rreading 900 of 2,000 files\rreading 1,990 of 2,000 files\r" + " " * 28 + "\r"


def test_the_line_about_progress_leaves_nothing_behind() -> None:
    """Also when it became shorter."""
    asked = Asked(
        Answer([row()], {**FOUND, **reading(1)}),
        Answer([], {"progress": {"done": 1990, "of": 2000}, "ticket": 7}),
        Answer([], {"progress": {"done": 5, "of": 7}, "ticket": 7}),
        Answer([], {"progress": None, "ticket": 7}),
        Answer([row()], FOUND),
    )
    screen = list(" " * 40)
    for text in run(["find"], asked, TERMINAL)[2].split("\r"):
        screen[: len(text)] = text
    assert "".join(screen).strip() == ""


def test_a_screen_reader_hears_no_line_that_changes() -> None:
    """Each change would be read out."""
    asked = Asked(
        Answer([row()], {**FOUND, **reading(1)}),
        Answer([], reading(900)),
        Answer([], {"progress": None, "ticket": 7}),
        Answer([row()], FOUND),
    )
    assert run(["find", "--plain"], asked, TERMINAL)[2] == ""


def test_an_index_that_is_far_from_complete_is_not_waited_for_long() -> None:
    """What it has is shown, and it is said that there may be more."""
    asked = Asked(Answer([row()], {**FOUND, **reading(120)}))
    code, out, err = run(["find", "--ids"], asked)
    assert (code, out) == (0, "84cdfff0-1111-4222-8333-444455556666\n")
    assert err == "sess: still reading: 120 of 2,000 files, newest first; ask again or use --sync\n"
    waited = sum(request["timeout_ms"] for request in asked.requests if request["op"] == "sync")
    assert waited == 2000


def test_sync_waits_before_it_searches() -> None:
    """For as long as it gets on."""
    asked = Asked(
        *[Answer([], reading(n)) for n in range(100)],
        Answer([], {"progress": None, "ticket": 7}),
        Answer([row()], FOUND),
    )
    code, _, err = run(["find", "--sync", "--ids"], asked)
    assert (code, err) == (0, "")
    assert [request["op"] for request in asked.requests] == ["sync"] * 101 + ["find"]
    assert [request["ticket"] for request in asked.requests[:-1]] == [0] + [7] * 100


def test_sync_gives_up_on_a_daemon_that_reads_nothing() -> None:
    """And says how far it is."""
    asked = Asked(Answer([row()], {**FOUND, **reading(7)}))
    code, _, err = run(["find", "--sync"], asked)
    assert code == 0
    assert err == "sess: still reading: 7 of 2,000 files, newest first; ask again\n"
    assert len(asked.requests) < 20


def test_waiting_is_silent_where_nobody_watches() -> None:
    """The daemon itself gives signs of life to a client that waits."""
    asked = Asked(Answer([row()], {**FOUND, **reading(7)}))
    assert run(["find", "--sync", "--ids"], asked)[2].startswith("sess: still reading")
