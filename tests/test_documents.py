"""What the documents say is what the program does: messages, examples, settings, figures, agents."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fixtures.home import make
from sess.commands import service as service_command
from sess.front import COMMANDS
from sessiond import config
from sessiond.apps import APPS
from sessiond.protocol import UNREACHABLE, USAGE
from tests.daemon import PATIENCE, Daemon, Home
from tools import comparison, messages

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
BLOCK = re.compile(r"(?ms)^```(\w+)\n(.*?)^```")

ACTS = frozenset({"resume", "pick", "service", "reopen", "watch", "stop", "reindex"})
"""Commands that need a terminal, a service manager or an agent, or do what no example should: only parsed here."""

PASSES_ON = {
    ("client", "_problem"): "what the daemon said",
    ("config", "_problem"): "what open(2) or the reader of TOML said",
    ("options", "_problem"): "what argparse said",
    ("dialects", "refusal"): "the reason that is given to it",
    ("checkup", "look"): "a Problem of the daemon",
    ("checkup", "_folders"): "what `exposure` or the system said",
    ("checkup", "_disk"): "what the system said",
    ("checkup", "_config"): "a Problem of the configuration",
    ("checkup", "_service"): "a Problem or the state of the manager",
    ("checkup", "_socket"): "what the system said",
    ("checkup", "_index"): "the trouble that the daemon is in",
    ("choice", "line"): "the question that is given to it",
    ("choice", "_one"): "rows",
    ("find", "run"): "rows and remarks",
    ("resume", "_block"): "what is carried",
    ("preflight", "look"): "a folder, or what is in its way",
    ("preflight", "_branch"): "a branch",
    ("launch", "_state"): "what an app says of an archived session",
    ("launch", "_settle"): "what is withheld, with a reason that has words",
}
"""Where something is said in words that come from elsewhere: they are found there."""


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@lru_cache
def source() -> tuple[frozenset[messages.Message], frozenset[messages.Unread]]:
    """Return every message of the source, and the places that have none of their own."""
    read = messages.read()
    return frozenset(read.messages()), frozenset(read.unread)


def test_the_page_of_messages_is_what_the_source_says() -> None:
    """After a change of a message: ``python -m tools.messages``."""
    assert text(messages.PAGE) == messages.page()


def test_every_message_of_the_source_is_read() -> None:
    """One that is said in a way that the tool does not understand would be missing from the page."""
    said, unread = source()
    assert len(said) > 150
    assert {(place.module, place.function) for place in unread} <= PASSES_ON.keys()


def test_every_error_says_what_to_do() -> None:
    """But for those whose hint is a list of sessions or comes from what was found."""
    without = {each.text for each in source()[0] if each.kind == "Problem" and not each.hint}
    assert without == {"which of these is meant?", "not resumed: …"}


def test_every_hint_of_an_error_is_a_sentence() -> None:
    """Or a command, or ends with what only the moment knows."""
    for each in source()[0]:
        if each.kind == "Problem" and each.hint:
            assert each.hint[0].isupper() or each.hint[0] in "`…" or each.hint.startswith(("docs/", "sess ")), each
            assert each.hint.endswith((".", "?", "…", "`")) or ": " in each.hint, each


def test_the_faq_answers_messages_that_there_are() -> None:
    """Whoever searches for the words of a message finds its heading; none is left of a message that changed."""
    said = {each.text for each in source()[0]}
    headings = re.findall(r"(?m)^### `(.*)`$", text(ROOT / "docs/faq.md"))
    assert headings
    assert set(headings) <= said


def examples() -> dict[str, list[str]]:
    """Return each `sess` that the documents show, as its document and line, with its words."""
    found = {}
    for document in DOCUMENTS:
        for language, block in BLOCK.findall(text(document)):
            for line in block.splitlines() if language in ("sh", "console", "zsh", "fish") else ():
                command = re.match(r"(?:\$ )?(sess(?: [^|]*)?)(?:$|\|)", line) or re.search(r"\$\((sess [^)]*)\)", line)
                words = shlex.split(command[1], comments=True) if command else []
                if words and words not in found.values():
                    found[f"{document.name}: {line}"] = words
    return found


@pytest.fixture(scope="module")
def sample() -> Iterator[Home]:
    """The sample home, with a daemon that has read it."""
    home = Home()
    make(str(home.path))
    daemon = Daemon(home)
    daemon.sync()
    yield home
    daemon.kill()
    home.remove()


WRONG = [
    "fnid",
    "find --hree",
    "find --since soon",
    "find --since",
    "find --limit 0",
    "find --app cluade",
    "find --sort age",
    "find --json --tsv",
    "find --here=no",
    "find nothing has these words",
    "show",
    "show abc",
    "show zzzz",
    "resume nothing has these words",
    "resume --json",
    "resume --dir=",
    "init csh",
    "service instal",
    "service start --purge",
    "pick",
    "reopen --all",
    "reopen",
    "status now",
]


@pytest.mark.parametrize("words", WRONG)
def test_what_is_printed_is_on_the_page(words: str, sample: Home) -> None:
    """In the words that a person would search for."""
    done = subprocess.run(
        [sys.executable, "-m", "sess", *words.split()],
        env=sample.env, cwd="/", capture_output=True, text=True, timeout=PATIENCE, check=False, start_new_session=True,
    )  # fmt: skip
    said = done.stderr.splitlines()[0].removeprefix("sess: ")
    forms = [re.escape(each.text).replace("…", ".*") for each in source()[0] if each.kind in ("Problem", "remark")]
    assert any(re.fullmatch(form, said) for form in forms), said


@pytest.mark.parametrize("words", [pytest.param(words, id=name) for name, words in examples().items()])
def test_an_example_runs(words: list[str], sample: Home) -> None:
    """On the sample home; what would act on the machine is at least understood."""
    name, rest = (words[1], words[2:]) if len(words) > 1 else ("find", [])
    if name in ACTS and "--print" not in rest:
        _, operands = import_module(f"sess.commands.{name}").parser().read(rest)
        assert name != "service" or not operands or operands[0] in service_command._ACTIONS
        return
    done = subprocess.run(
        [sys.executable, "-m", "sess", *words[1:]],
        env=sample.env, cwd=sample.path / "src", capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode not in (USAGE, UNREACHABLE), done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_command_in_a_sentence_is_understood(document: Path) -> None:
    """What stands between backticks can be typed, but for what is left open in it."""
    for command in re.findall(r"`(sess [a-z][^`|]*)`", text(document)):
        name, *rest = shlex.split(command)[1:]
        assert name in COMMANDS, command
        if rest and "…" not in command and "--help" not in rest:
            import_module(f"sess.commands.{name}").parser().read(rest)


def snippets(*languages: str) -> list[str]:
    return [
        block for document in DOCUMENTS for language, block in BLOCK.findall(text(document)) if language in languages
    ]


@pytest.mark.parametrize(
    ("shell", "languages"),
    [
        pytest.param(shell, languages, marks=pytest.mark.needs(shell))
        for shell, languages in {"bash": ("sh",), "zsh": ("sh", "zsh"), "fish": ("fish",)}.items()
    ],
)
def test_the_shell_code_of_the_documents_is_understood(shell: str, languages: tuple[str, ...]) -> None:
    """By each shell that it is for."""
    found = snippets(*languages)
    assert found
    for code in found:
        done = subprocess.run([shell, "-n"], input=code, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), code


def test_the_example_of_the_configuration_has_every_setting(tmp_path: Path) -> None:
    """It is valid as it stands, and a setting that is not in it is documented nowhere."""
    example = next(
        block for language, block in BLOCK.findall(text(ROOT / "docs/configuration.md")) if language == "toml"
    )
    (tmp_path / "config.toml").write_text(example, encoding="utf-8")
    assert config.load(str(tmp_path / "config.toml"), "/home/ana").given == config._READERS.keys()


def test_the_figures_of_the_readme_are_those_that_were_measured() -> None:
    """After a measurement: ``python -m tools.comparison``. Elsewhere in the README there are none."""
    assert text(README) == comparison.readme()
    before, _, rest = text(README).partition(comparison.BEGIN)
    prose = before + rest.partition(comparison.END)[2]
    assert re.findall(r"\d[\d,.]* ?(?:ms|seconds|minutes|MB|GB|x|times)\b", prose) == []


def test_the_readme_names_every_agent() -> None:
    """And says how many they are."""
    page = text(README)
    agents = page[page.index("## Agents") : page.index("## Limits")].replace("\n", " ")
    assert [app.label for app in APPS.values() if app.label not in agents] == []
    assert f"| agents | {len(APPS)} |" in page


def test_the_readme_leads_to_every_document() -> None:
    """A page that nothing leads to is read by nobody."""
    page = text(README)
    assert [path.name for path in ROOT.glob("docs/*.md") if f"](docs/{path.name})" not in page] == []


def test_the_guide_or_the_readme_shows_every_command() -> None:
    """A command that neither shows is known to nobody."""
    shown = {words[1] for words in examples().values() if len(words) > 1}
    assert set(COMMANDS) - shown == set()
