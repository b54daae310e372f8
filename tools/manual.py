"""Writes what people look commands up in, from the parsers: ``python -m tools.manual``.

``docs/commands.md`` has every ``--help``; ``docs/man`` the man pages, which the wheel installs.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from sessiond import protocol
from sessiond.__main__ import USAGE as SESSIOND

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

DOCS = Path(__file__).parent.parent / "docs"
MADE = "made by `python -m tools.manual` from the parsers of the commands"

EXITS = {
    protocol.DONE: "It is done; of a search, something was found.",
    protocol.NOTHING: "Nothing was found; of doctor, a fault was.",
    protocol.USAGE: "The command line, or a value in the configuration, cannot be understood.",
    protocol.UNREACHABLE: "The daemon cannot be reached, or failed.",
    protocol.REFUSED: "It was refused, with the reason; nothing was started or changed.",
    protocol.AMBIGUOUS: "Several sessions match; they are listed on stderr.",
    protocol.NO_PROGRAM: "The agent's program is not installed.",
    protocol.INTERRUPTED: "It was left with Ctrl-C or Esc.",
}

ENVIRONMENT = {
    "SESS_CONFIG": "The configuration, in place of $XDG_CONFIG_HOME/sess/config.toml.",
    "SESS_STATE_DIR": "The folder of index and log, in place of $XDG_STATE_HOME/sess; then also of the socket.",
    "SESS_RUNTIME_DIR": "The folder of socket, lock and the files for the prompt.",
    "SESS_NO_SPAWN": "If set, no daemon is started on demand.",
    "SESS_KEY, SESS_LINES": "What the shell code of sess init goes by; see sess init --help.",
    "NO_COLOR": "If set, nothing is coloured.",
}

FILES = {
    "~/.config/sess/config.toml": "The configuration; none is needed.",
    "~/.local/state/sess/index.sqlite": "The index, which can be deleted at any time.",
    "~/.local/state/sess/sessiond.log": "The log, when no journal takes it; an older one ends in .1.",
    "/run/user/UID/sess/": "The socket, the lock, the files for the prompt; without it they are beside the index.",
}

SESS = """\
sess finds the sessions that coding agents such as Claude Code and Codex leave on disk, by title, folder and branch, and
resumes one after a look at what has changed since. It asks sessiond(8), which keeps an index of them, and starts it
when it does not run.

Without a command it lists the sessions of the current folder; it takes what find takes.
"""

DAEMON = """\
sessiond watches the folders in which coding agents keep their sessions, reads the head and the tail of each file that
changes, keeps titles, folders and branches in an index, and answers sess(1) over a Unix socket. It opens no network
connection, and writes nothing near the files of the agents.

It is started by sess when it is needed, or at login after sess service install. SIGHUP has it read its configuration
again; SIGTERM ends it.
"""


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command that is listed for people."""
    from sess.front import COMMANDS

    return {name: import_module(f"sess.commands.{name}").parser() for name in COMMANDS}


def reference() -> str:
    """Return ``docs/commands.md``."""
    from sess.front import HELP

    parts = [f"# Commands\n\n<!-- {MADE} -->\n\nWhat `--help` says of each.\n", _block("sess", HELP)]
    parts += [_block(f"sess {name}", parser.format_help()) for name, parser in commands().items()]
    parts += [_block("sessiond", SESSIOND)]
    exits = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXITS.items())
    parts.append(f"## Exit codes\n\n| code | when |\n|---:|---|\n{exits}")
    variables = "".join(f"| `{name.replace(', ', '`, `')}` | {meaning} |\n" for name, meaning in ENVIRONMENT.items())
    parts.append(f"## Environment\n\n| variable | what it does |\n|---|---|\n{variables}")
    return "\n".join(parts)


def _block(name: str, text: str) -> str:
    return f"## {name}\n\n```text\n{text}```\n"


def sess_1() -> str:
    """Return the man page of ``sess``."""
    page = [_head("SESS", 1), ".SH NAME\nsess \\- find any coding\\-agent session again\n"]
    page.append(".SH SYNOPSIS\n.B sess\n.RI [ COMMAND ]\n.RI [ OPTION\\fR.\\|.\\|.]\n")
    page.append(f".SH DESCRIPTION\n{_paragraphs(SESS)}.SH COMMANDS\n")
    page += [f".SS {name}\n.nf\n{_verbatim(parser.format_help())}.fi\n" for name, parser in commands().items()]
    page.append(f".SH EXIT STATUS\n{_terms({str(code): meaning for code, meaning in EXITS.items()})}")
    page.append(f".SH ENVIRONMENT\n{_terms(ENVIRONMENT)}")
    page.append(f".SH FILES\n{_terms(FILES)}")
    page.append(".SH SEE ALSO\n.BR sessiond (8)\n")
    return "".join(page)


def sessiond_8() -> str:
    """Return the man page of ``sessiond``."""
    page = [_head("SESSIOND", 8), ".SH NAME\nsessiond \\- keep the index of coding\\-agent sessions fresh\n"]
    page.append('.SH SYNOPSIS\n.B sessiond\n.RB [ \\-\\-version " | " \\-\\-help ]\n')
    page.append(f".SH DESCRIPTION\n{_paragraphs(DAEMON)}")
    page.append(f".SH ENVIRONMENT\n{_terms({key: ENVIRONMENT[key] for key in list(ENVIRONMENT)[:3]})}")
    page.append(f".SH FILES\n{_terms(FILES)}")
    page.append(".SH SEE ALSO\n.BR sess (1)\n")
    return "".join(page)


def _head(name: str, section: int) -> str:
    return f'.\\" {MADE.capitalize()}\n.TH {name} {section}\n'


def _roff(text: str) -> str:
    """Return *text* such that groff shows every character as it stands."""
    text = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha")
    )
    return re.sub(r"(?m)^(?=[.'])", r"\\&", text.replace("~", "\\(ti").replace("…", "\\[u2026]"))


def _paragraphs(text: str) -> str:
    return ".PP\n".join(f"{_roff(paragraph.strip())}\n" for paragraph in text.split("\n\n"))


def _verbatim(text: str) -> str:
    return f"{_roff(text.strip())}\n"


def _terms(terms: dict[str, str]) -> str:
    return "".join(f".TP\n.B {_roff(term)}\n{_roff(meaning)}\n" for term, meaning in terms.items())


def pages() -> Iterable[tuple[Path, str]]:
    """Yield each file with what it should hold."""
    yield DOCS / "commands.md", reference()
    yield DOCS / "man" / "sess.1", sess_1()
    yield DOCS / "man" / "sessiond.8", sessiond_8()


def main() -> int:
    """Write the files."""
    sys.path.insert(0, str(DOCS.parent / "cli"))
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
