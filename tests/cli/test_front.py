"""From words to a command: what is run, what is refused, what is suggested."""

from __future__ import annotations

import pytest

from sess import front
from sess.front import COMMANDS, LOCAL, Context
from sessiond import __version__
from sessiond.protocol import HANDED_BACK, PROTOCOL, Answer, Problem
from sessiond.service import Blocks
from tests.cli.asking import CONTEXT, TERMINAL, Asked, row, run

FOUND = {"found": 1, "more": False, "progress": None}
NOTHING = {
    "found": 0,
    "more": False,
    "progress": None,
    "searched": {},
    "hidden": {},
    "excluded_by": [],
    "unreadable": 0,
}


def test_every_command_says_what_it_takes() -> None:
    """And no help needs a daemon."""
    for name in COMMANDS:
        for words in ([name, "--help"], [name, "-h"]):
            code, out, err = run(words, Asked())
            assert (code, err) == (0, "")
            assert out.startswith(f"usage: sess {name}")
            assert max(map(len, out.splitlines())) <= 80


def test_the_help_names_every_command() -> None:
    """With one line for each."""
    code, out, err = run(["--help"], Asked())
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == list(COMMANDS)


def test_the_version_is_that_of_the_package() -> None:
    """Client and daemon are one package."""
    assert run(["--version"], Asked()) == (0, f"sess {__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fnid"], "sess: there is no command fnid\nDid you mean `sess find`? To search for it: `sess find fnid`."),
        (["checkout"], "sess: there is no command checkout\nTo search for it: `sess find checkout`."),
        (["vat", "retry"], "sess: there is no command vat\nTo search for it: `sess find vat retry`."),
        (["search", "vat"], "sess: there is no command search\nDid you mean `sess find vat`? "),
        (["ls"], "sess: there is no command ls\nDid you mean `sess find`? "),
        (["help"], "sess: there is no command help\nDid you mean `sess --help`? "),
        (["version"], "sess: there is no command version\nDid you mean `sess --version`? "),
        (["--hlp"], "sess: find: there is no option --hlp\nDid you mean --help?"),
        (["--vresion"], "sess: find: there is no option --vresion\nDid you mean --version?"),
        (["-V"], "sess: find: there is no option -V\nDid you mean --version?"),
        (["config", "--hepl"], "sess: config: there is no option --hepl\nDid you mean --help?"),
        (["find", "-n", "5"], "sess: find: there is no option -n\n`sess find --help`"),
        (["find", "vat", "-l", "5"], "sess: find: there is no option -l\n"),
        (["find", "-j"], "sess: find: there is no option -j\nDid you mean --json?"),
        (["resume", "-y"], "sess: resume: there is no option -y\nDid you mean --yes?"),
        (["find", "--jsn"], "sess: find: there is no option --jsn\nDid you mean --json?"),
        (["find", "--limt=3"], "sess: find: there is no option --limt=3\nDid you mean --limit?"),
        (["find", "--lim", "3"], "sess: find: there is no option --lim\nDid you mean --limit?"),
        (["--jsn"], "sess: find: there is no option --jsn\nDid you mean --json?"),
        (["find", "--zzz"], "sess: find: there is no option --zzz\n`sess find --help`"),
        (["find", "--limit"], "sess: find: --limit: expected one argument\n`sess find --help`"),
        (["find", "--limit", "0"], "sess: find: --limit: a number from 1 up, not '0'\n"),
        (["find", "--limit", "x"], "sess: find: --limit: a number from 1 up, not 'x'\n"),
        (["find", "--sort", "size"], "sess: find: --sort: invalid choice: 'size'"),
        (["find", "--json", "--ids"], "sess: find: --ids: not allowed with argument --json\n"),
        (["show"], "sess: show: one ID is wanted\n`sess show --help`"),
        (["show", "abcd", "efgh"], "sess: show: one ID is wanted\n"),
        (["show", "-x"], "sess: show: there is no option -x\n"),
        (["stop", "now"], "sess: stop: what is now for?\n"),
        (["status", "-v"], "sess: status: there is no option -v\n"),
    ],
)
def test_wrong_use_says_what_is_right(words: list[str], says: str) -> None:
    """On stderr, with exit code 2, and nothing is asked."""
    asked = Asked()
    code, out, err = run(words, asked)
    assert (code, out, asked.requests) == (2, "", [])
    assert err.startswith(says)
    assert err.count("\n") == 2


def test_what_is_typed_cannot_steer_the_terminal() -> None:
    """Also in a message about it."""
    _, _, err = run(["\x1b]0;x\x07\n\udcff"], Asked())
    assert err.startswith("sess: there is no command ]0;x")
    assert err.isprintable() is False
    assert "\x1b" not in err
    assert "\x07" not in err


HELP = "`sess find WORDS` searches everywhere; `sess --help` lists the commands.\n"


def test_without_a_command_the_most_recent_of_this_folder_are_listed() -> None:
    """And who sees it is told how to search."""
    asked = Asked(Answer([row()], FOUND))
    code, out, err = run([], asked, TERMINAL)
    assert (code, "checkout" in out, err) == (0, True, HELP)
    assert [(each["op"], each["q"], each["cwd"]) for each in asked.requests] == [("find", "", "/home/anna/src")]
    assert run([], Asked(Answer([row()], FOUND)))[2] == ""


def test_without_a_command_the_most_recent_elsewhere_are_listed_when_none_was_here() -> None:
    """It is said that they are others."""
    asked = Asked(Answer([], NOTHING), Answer([row()], FOUND))
    code, out, err = run([], asked, TERMINAL)
    assert (code, "checkout" in out) == (0, True)
    assert err == f"No session was in ~/src or below; the most recent elsewhere:\n{HELP}"
    assert "cwd" not in asked.requests[1]


def test_without_a_command_and_sessions_it_is_said_that_there_are_none() -> None:
    """In no folder, also when this one is gone."""
    for context in (TERMINAL, TERMINAL._replace(cwd=None)):
        code, _, err = run([], Asked(Answer([], NOTHING)), context)
        assert code == 1
        assert err.startswith("sess: nothing found: there are no sessions yet\n")
        assert err.endswith(HELP)


def test_without_a_command_where_only_hidden_sessions_are_known_they_are_named() -> None:
    """As they were looked for everywhere, no folder is."""
    found = Answer([], {**NOTHING, "hidden": {"subagent": 2}})
    err = run([], Asked(found), TERMINAL)[2]
    assert err.startswith(
        "sess: nothing found: searched 0 sessions\n2 hidden sessions would match (subagent 2): add --all"
    )


def test_without_a_command_the_options_of_find_apply() -> None:
    """`sess --here` is short for it."""
    asked = Asked(Answer([], NOTHING))
    run(["--limit", "3", "--", "--odd"], asked)
    assert (asked.requests[0]["limit"], asked.requests[0]["q"]) == (3, "--odd")


def test_every_request_says_which_protocol_it_speaks() -> None:
    """As docs/protocol.md wants it."""
    asked = Asked(Answer([], NOTHING))
    run(["find"], asked)
    assert asked.requests[0]["v"] == PROTOCOL


def test_a_command_that_needs_the_clients_process_is_handed_back() -> None:
    """The daemon must not become an agent; wrong use it can tell at once."""
    for name in LOCAL:
        asked = Asked()
        assert run([name], asked) == (HANDED_BACK, "", "")
        assert run([name, "--no-such-option"], asked)[0] == 2
        assert asked.requests == []


def test_a_problem_of_the_daemon_is_shown_with_its_exit_code() -> None:
    """Line by line: a hint may list candidates, whose titles are anybody's text."""
    problem = Problem("ambiguous", "2 sessions", "abcd  one\x1b[31m\nabce two")
    code, out, err = run(["show", "abcd"], Asked(problem))
    assert (code, out, err) == (5, "", "sess: 2 sessions\nabcd one[31m\nabce two\n")


def test_what_is_no_problem_passes_through() -> None:
    """The daemon stops the front that way when it would have to wait, and nothing was written yet."""
    written = []
    for words in (["find"], ["find", "--sync"], ["show", "abcd"], ["status"], ["reindex"], ["stop"]):
        with pytest.raises(Blocks):
            front.run(words, TERMINAL, Asked(Blocks()), lambda fd, text: written.append(text))
    assert written == []


def test_a_find_that_has_to_wait_has_written_nothing() -> None:
    """The first search is answered, the wait for a complete index is not."""
    written: list[str] = []
    asked = Asked(Answer([], {**NOTHING, "progress": {"done": 1, "of": 9}}), Blocks())
    with pytest.raises(Blocks):
        front.run(["find"], TERMINAL, asked, lambda fd, text: written.append(text))
    assert written == []


@pytest.mark.parametrize(
    ("items", "context"),
    [
        ({}, Context(None, "", 80, "", color=False)),
        (
            {"cwd": b"/a\xff", "home": b"/home/anna/", "columns": b"99", "tty": b"12", "color": b"1"},
            Context("/a\udcff", "/home/anna", 99, "12", color=True),
        ),
        ({"columns": b"0", "color": b"0"}, CONTEXT._replace(cwd=None, home="")),
        ({"columns": b"-1"}, CONTEXT._replace(cwd=None, home="")),
    ],
)
def test_the_context_is_what_the_client_said(items: dict[str, bytes], context: Context) -> None:
    """And what it did not say is not known."""
    assert Context.from_items(items) == context
