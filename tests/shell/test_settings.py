"""In shells that somebody has set up in other ways: IFS, options, aliases, readonly variables, narrow terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from wcwidth import wcswidth

from tests.daemon import Daemon, Home, ends_with_its_processes, until
from tests.shell.conftest import LOAD, SHELLS, Shells
from tests.shell.test_prompt import PROMPT, QUIET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.needs("zsh", "fish")]
each_shell = pytest.mark.parametrize("shell", SHELLS)

BUILTINS = (
    "local cd read printf echo return shopt bind complete compgen compopt typeset print setopt zmodload test true"
)
NAMES = (
    "name line lead age now given record count waiting text rest live branch updated moment columns id each at end used"
    " width present declared current before command kind value shown said listed plain"
)

SETTINGS = {
    "bash": {
        "IFS is a colon": "IFS=:",
        "IFS is nothing": "IFS=",
        "IFS is unset": "unset IFS",
        "IFS has what we have": "IFS=$'a1d-/\\037'",
        "variables are readonly": f"readonly path words {NAMES}",
        "PROMPT_COMMAND is readonly": "PROMPT_COMMAND='true'; readonly PROMPT_COMMAND",
        "PROMPT_COMMAND is a readonly array": "PROMPT_COMMAND=(true); readonly PROMPT_COMMAND",
        "builtins are aliases": f"shopt -s expand_aliases; alias {'=false '.join(BUILTINS.split())}=false",
        "cd is a function": "cd() { echo moved; }",
        "errors end it": "set -euo pipefail",
        "files are not overwritten": "set -C",
        "nothing is expanded": "set -f",
        "all is exported": "set -a",
        "POSIX": "set -o posix",
        "patterns": "shopt -u extglob; shopt -s nullglob failglob nocaseglob nocasematch dotglob",
        "locals inherit": "shopt -s localvar_inherit; readonly line=1; rest=x",
        "links are resolved": "set -P",
        "the locale is not installed": "{ LC_ALL=xx_YY.UTF-8; } 2>/dev/null",
    },
    "zsh": {
        "IFS is a colon": "IFS=:",
        "IFS is nothing": "IFS=",
        "IFS is unset": "unset IFS",
        "IFS has what we have": "IFS=$'a1d-/\\037'",
        "variables are readonly": f"readonly {NAMES}",
        "builtins are aliases": "; ".join(f"alias {name}=false" for name in BUILTINS.split()),
        "words are aliases": "; ".join(f"alias -g {name}=false" for name in [*NAMES.split(), "in", "g"]),
        "errors end it": "setopt err_exit no_unset pipe_fail",
        "POSIX": "emulate sh",
        "ksh": "emulate ksh",
        "options": "setopt ksh_arrays sh_word_split glob_subst rc_quotes ignore_braces no_short_loops "
        "noclobber extended_glob null_glob magic_equal_subst octal_zeroes c_bases no_multibyte chase_links "
        "no_function_argzero ksh_typeset posix_builtins posix_identifiers warn_create_global no_eval_lineno",
        "the locale is not installed": "LC_ALL=xx_YY.UTF-8",
    },
    "fish": {
        "IFS is a colon": "set -g IFS :",
        "IFS is nothing": "set -g IFS ''",
        "IFS is exported": "set -gx IFS ''",
        "IFS has what we have": "set -g IFS a1d-/",
        "cd is a function": "function cd; echo moved; end",
        "variables": "".join(f"set -g {name} x; " for name in NAMES.split()),
        "the locale is not installed": "set -gx LC_ALL xx_YY.UTF-8",
    },
}  # fmt: skip
CASES = [(shell, setting) for shell, settings in SETTINGS.items() for setting in settings]
COMPLETE = {
    "bash": "for COMP_TYPE in 9 63; do\n"
    "COMP_WORDS=(sess find --sort 're'); COMP_CWORD=3; __sess_complete; \\printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    "COMP_WORDS=(sess find --app ''); COMP_CWORD=3; __sess_complete; \\printf '%s\\n' \"${COMPREPLY[@]%%  *}\"\ndone",
    "zsh": "\\builtin emulate zsh -o no_aliases -c 'compadd() { emulate -L zsh; local given=$argv[-1]; "
    "print -rl -- ${(P)given} }'\n"
    "words=(sess find --sort re); CURRENT=4; PREFIX=re; \\_sess\n"
    'words=(sess find --app ""); CURRENT=4; PREFIX=; \\_sess',
    "fish": "complete -C 'sess find --sort re'; complete -C 'sess find --app ' | string replace -r '\\t.*' ''",
}
OFFERED = {
    "bash": ["recent", "relevance", "claude", "codex"] * 2,
    "zsh": ["recent", "relevance", "claude", "codex"],
    "fish": ["recent\twhat comes first", "relevance\twhat comes first", "claude", "codex"],
}


@pytest.fixture(scope="module")
def shells() -> Iterator[Shells]:
    """Shells beside a daemon that knows two sessions, in a folder ``a1 d`` of the home."""
    home = Home()
    shells = Shells(home)
    folder = home.path / "a1 d"
    folder.mkdir()
    home.codex_session("first", cwd=str(folder))
    home.now += 60_000
    home.claude_session("Fix double charge", cwd=str(folder))
    daemon = Daemon(home)
    daemon.sync()
    until(lambda: any("2 · Fix" in path.read_text() for path in shells.here.glob("*-a1-d")))
    yield shells
    daemon.kill()
    ends_with_its_processes(home)
    home.remove()


@pytest.mark.parametrize(("shell", "setting"), CASES)
def test_the_prompt_and_completion_work_whatever_is_set(shells: Shells, shell: str, setting: str) -> None:
    """Set before the code is loaded, and as it runs; nothing is said on stderr."""
    show = '\\printf "%s|%s|%s\\n" "$SESS_PROMPT" "$SESS_COUNT" "$SESS_WAITING"'
    load = LOAD[shell].replace("eval", "\\eval")
    hook = PROMPT[shell] if shell == "fish" else f"\\{PROMPT[shell]}"
    before = "compopt() { :; }\n" if shell == "bash" else ""  # which works in a real completion only
    script = f"{before}{SETTINGS[shell][setting]}\n{load}{load}{hook}\n{show}\n{COMPLETE[shell]}\n"
    printed = shells.run(shell, script, load=False, cwd=str(shells.home.path / "a1 d")).splitlines()
    listed, variables, *offered = printed
    assert listed.startswith("2 sessions here · main · ")
    assert listed.endswith(" · Fix double charge")
    assert variables == "2 · Fix double charge|2|0"
    if not (shell == "fish" and "IFS is" in setting and ":" not in SETTINGS[shell][setting]):
        assert offered == OFFERED[shell]  # in fish, no completion at all works without IFS


@pytest.mark.parametrize("set_to", ["IFS=:", "alias if=false", "alias local=false"])
def test_what_was_set_stays_set(shells: Shells, set_to: str) -> None:
    """Aliases are out of force only while the code is read."""
    for shell, ask in (("bash", "alias; \\shopt expand_aliases"), ("zsh", "\\alias; [[ -o aliases ]]; echo $?")):
        before = f"shopt -s expand_aliases\n{set_to}\n" if shell == "bash" else f"{set_to}\n"
        load = LOAD[shell].replace("eval", "\\eval")
        asked = f"\\printf '%s' \"$IFS\"; {ask}"
        with_us, without = (shells.run(shell, f"{before}{loaded}{asked}", load=False) for loaded in (load, ""))
        assert with_us == without


@each_shell
def test_loading_it_again_enters_the_folder_no_second_time(shells: Shells, shell: str) -> None:
    """As `source ~/.bashrc` does after each change to it."""
    script = f"{PROMPT[shell]}\n{LOAD[shell]}{PROMPT[shell]}\n"
    assert shells.run(shell, script, cwd=str(shells.home.path / "a1 d")).count("2 sessions here") == 1


@each_shell
def test_a_link_that_leads_elsewhere_by_now_moves_nobody(shells: Shells, tmp_path: Path, shell: str) -> None:
    """The shell stays in the folder it is in, under the name by which it came."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to("old")
    script = f"cd {link}\nrm {link}\nln -s new {link}\n{PROMPT[shell]}\ntouch here\necho $PWD"
    assert shells.run(shell, QUIET[shell] + script) == f"{link}\n"
    assert (tmp_path / "old" / "here").exists()


WIDE = {
    "plain": "x" * 60,
    "CJK": "修正重复扣款的问题" * 6,
    "Hangul": "결제 오류 수정 " * 7,
    "full width": "＄％！" * 20,
    "emoji": "✅ fixed 🚀🎉" * 8,
    "joined emoji": "👩‍💻 " * 15,
    "combining": "é" * 30,
    "accents": "é" * 60,
    "dashes": "— … → " * 10,
    "Devanagari": "भुगतान" * 10,
    "mixed": "a修b正c重d复" * 8,
}


@each_shell
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_listed_session_fits_into_one_line(shells: Shells, tmp_path: Path, shell: str, locale: str) -> None:
    """Whatever it is called, whether it waits or not; and what is cut off is marked."""
    rows = [(live, branch, title) for title in WIDE.values() for live in ("", "waiting") for branch in ("", "fix/é修")]
    script, widths = "", (21, 40, 57, 80, 300)
    for number, row in enumerate(rows):
        folder = tmp_path / str(number)
        folder.mkdir()
        shells.snapshot(str(folder), row)
        for columns in widths:
            setting = f"set -g COLUMNS {columns}" if shell == "fish" else f"COLUMNS={columns}"
            script += f"cd /usr; {PROMPT[shell]}; {setting}; cd {folder}; {PROMPT[shell]}\n"
    lines = shells.run(shell, script, env={"LC_ALL": locale}).splitlines()
    assert len(lines) == len(rows) * len(widths)
    for number, line in enumerate(lines):
        columns, row = widths[number % len(widths)], rows[number // len(widths)]
        assert wcswidth(line) <= columns, line
        whole = line.rstrip().endswith(row[2].rstrip())
        assert whole or line.endswith("…"), line
        assert whole or columns < 300, line
        assert whole or wcswidth(line) > columns - 3 or row[2] != WIDE["plain"], line
