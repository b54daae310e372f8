"""The hook of the prompt, in each shell: what it shows, what it costs, what it leaves alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.daemon import REPOSITORY
from tests.shell.conftest import FILES, LOAD, SHELLS, Shells

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.needs("zsh", "fish")]

each_shell = pytest.mark.parametrize("shell", SHELLS)

ONE = ("", "fix/checkout-retry", "Fix double charge")

# Runs the hook as a prompt would. fish fires an event for it.
PROMPT = {"bash": "__sess_prompt", "zsh": "__sess_prompt", "fish": "emit fish_prompt"}
QUIET = {"bash": "SESS_LINES=0\n", "zsh": "SESS_LINES=0\n", "fish": "set -g SESS_LINES 0\n"}
SHOW = 'printf "%s|%s|%s\\n" "$SESS_PROMPT" "$SESS_COUNT" "$SESS_WAITING"'


@each_shell
def test_entering_a_folder_lists_its_sessions_once(shells: Shells, tmp_path: Path, shell: str) -> None:
    shells.snapshot(str(tmp_path), ONE, ("", "", "Another"))
    script = f"{PROMPT[shell]}\ncd {tmp_path}\n{PROMPT[shell]}\n{PROMPT[shell]}\n{SHOW}"
    shown, variables = shells.run(shell, script).splitlines()
    assert re.fullmatch(r"2 sessions here · fix/checkout-retry · \d+ y ago · Fix double charge", shown)
    assert variables == "2 · Fix double charge|2|0"


@each_shell
def test_how_many_are_listed_is_a_variable(shells: Shells, tmp_path: Path, shell: str) -> None:
    shells.snapshot(str(tmp_path), ONE, ("", "", "Another"), ("", "", "Third"))
    lines = shells.run(shell, QUIET[shell].replace("0", "2") + PROMPT[shell], cwd=str(tmp_path)).splitlines()
    assert [line.rpartition(" · ")[2] for line in lines] == ["Fix double charge", "Another"]
    assert shells.run(shell, QUIET[shell] + PROMPT[shell], cwd=str(tmp_path)) == ""


@each_shell
def test_a_session_that_waits_stands_out(shells: Shells, tmp_path: Path, shell: str) -> None:
    shells.snapshot(str(tmp_path), ("waiting", "main", "Approve me"), waiting=1)
    shown, variables = shells.run(shell, f"{PROMPT[shell]}\n{SHOW}", cwd=str(tmp_path)).splitlines()
    assert shown.startswith("1 session here · waiting · main · ")
    assert variables.endswith("|1|1")


@each_shell
def test_a_folder_without_sessions_shows_nothing(shells: Shells, tmp_path: Path, shell: str) -> None:
    """Also after one with sessions."""
    shells.snapshot(str(tmp_path), ONE)
    script = f"{QUIET[shell]}cd {tmp_path}\n{PROMPT[shell]}\ncd /usr\n{PROMPT[shell]}\n{SHOW}"
    assert shells.run(shell, script) == "|0|0\n"


@each_shell
def test_another_format_is_ignored_in_silence(shells: Shells, tmp_path: Path, shell: str) -> None:
    shells.snapshot(str(tmp_path), ONE, version="sess 2")
    assert shells.run(shell, f"{PROMPT[shell]}\n{SHOW}", cwd=str(tmp_path)) == "|0|0\n"


@each_shell
def test_a_file_about_another_folder_of_that_name_is_none(shells: Shells, tmp_path: Path, shell: str) -> None:
    here, there = tmp_path / "a-b", tmp_path / "a" / "b"
    here.mkdir()
    there.mkdir(parents=True)
    shells.snapshot(str(there), ONE)
    assert shells.run(shell, f"{PROMPT[shell]}\n{SHOW}", cwd=str(here)) == "|0|0\n"


@each_shell
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("name", ["with  space", "ü ñ 日本", "x" * 150 + "/" + "y" * 149, "line\n", "$(touch x)`'\"\\"])
def test_any_folder_is_found(shells: Shells, tmp_path: Path, shell: str, locale: str, name: str) -> None:
    """Names are made of bytes, in whatever locale the shell is."""
    folder = tmp_path / name
    folder.mkdir(parents=True)
    shells.snapshot(str(folder), ("", "", "found"))
    script = f"{QUIET[shell]}{PROMPT[shell]}\nprintf %s $SESS_COUNT"
    assert shells.run(shell, script, cwd=str(folder), env={"LC_ALL": locale}) == "1"


@each_shell
def test_a_folder_entered_by_a_link_is_the_one_it_leads_to(shells: Shells, tmp_path: Path, shell: str) -> None:
    """Agents record real paths. The shell's own idea of where it is stays."""
    real, link = tmp_path / "real" / "below", tmp_path / "link"
    real.mkdir(parents=True)
    link.symlink_to(tmp_path / "real")
    shells.snapshot(str(real), ONE)
    script = f"{QUIET[shell]}cd /usr\ncd {link}/below\n{PROMPT[shell]}\npwd\necho $SESS_COUNT $OLDPWD $PWD\ncd ..\npwd"
    after = {"bash": "/usr", "zsh": "/usr", "fish": ""}[shell]
    printed = shells.run(shell, script).replace("  ", " ").splitlines()
    assert printed == [f"{link}/below", f"1 {after} {link}/below".replace("  ", " "), str(link)]


@each_shell
def test_without_any_files_there_is_no_error(shells: Shells, shell: str) -> None:
    """As before the daemon ran for the first time."""
    assert shells.run(shell, f"{PROMPT[shell]}\n{SHOW}") == "|0|0\n"


@each_shell
def test_a_folder_that_was_deleted_is_no_error(shells: Shells, tmp_path: Path, shell: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    assert shells.run(shell, f"cd {gone}\ncommand rmdir {gone}\n{PROMPT[shell]}\n{SHOW}") == "|0|0\n"


@each_shell
def test_a_prompt_starts_no_process_and_opens_no_socket(shells: Shells, tmp_path: Path, shell: str) -> None:
    """What a positive control does is seen in the trace."""
    shells.snapshot(str(tmp_path), ONE, ("waiting", "", "x"))
    rendered = tmp_path / f"rendered.{shell}"
    rendered.write_text(shells.run(shell, f"sess init {shell}", load=False))
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    script = (
        f"source {rendered}\ntest -e /mark-1\n{PROMPT[shell]}\ncd {tmp_path}\n{PROMPT[shell]}\n{PROMPT[shell]}\n"
        f"cd {link}\n{PROMPT[shell]}\ntest -e /mark-2\ncommand true | cat\ntest -e /mark-3\ntrue\n"
    )
    trace = tmp_path / "trace"
    done = subprocess.run(
        ["strace", "-f", "-o", str(trace), "-e", "trace=%process,%network,%file", *SHELLS[shell], "-c", script],
        env=shells.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=True,
    )  # fmt: skip
    assert b"2 sessions here" in done.stdout
    _, hook, control, _ = re.split(r".*mark-\d.*", trace.read_text())
    started = re.compile(r"\b(execve|fork|vfork|connect|socket|clone3?)\(")

    def calls(text: str) -> list[str]:
        return [line for line in text.splitlines() if started.search(line) and "CLONE_THREAD" not in line]

    assert calls(control)
    assert calls(hook) == []


CLOCK = {
    "bash": "t=${EPOCHREALTIME/./}; for ((i = 0; i < 1000; i++)); do __sess_prompt; done\n"
    "echo $((${EPOCHREALTIME/./} - t))",
    "zsh": "zmodload zsh/datetime; t=$EPOCHREALTIME; repeat 1000 __sess_prompt\n"
    "echo $(( (EPOCHREALTIME - t) * 1000000 ))",
    "fish": "set t (date +%s%N); for i in (seq 1000); __sess_prompt; end; set u (date +%s%N)\n"
    'math "floor(($u - $t) / 1000)"',
}


@each_shell
def test_a_prompt_takes_less_than_a_third_of_a_millisecond(shells: Shells, tmp_path: Path, shell: str) -> None:
    """Over 1,000 prompts, the best of three runs: 0.05 ms were measured. The daemon is not there."""
    shells.snapshot(str(tmp_path), *[ONE] * 10)
    taken = [float(shells.run(shell, QUIET[shell] + CLOCK[shell], cwd=str(tmp_path)).split()[-1]) for _ in range(3)]
    assert min(taken) / 1000 < 300


@each_shell
def test_the_code_may_be_loaded_twice(shells: Shells, tmp_path: Path, shell: str) -> None:
    hooks = {
        "bash": 'echo "$PROMPT_COMMAND"',
        "zsh": "print $precmd_functions",
        "fish": "functions --handlers-type generic",
    }
    once, twice = (shells.run(shell, LOAD[shell] * times + hooks[shell]) for times in (0, 1))
    assert "__sess_prompt" in once
    assert once == twice


@each_shell
def test_loading_prints_nothing_and_reads_no_terminal(shells: Shells, shell: str) -> None:
    """powerlevel10k's instant prompt complains about both. Errors end the shell here, and so do unset variables."""
    strict = {"bash": "set -euo pipefail\n", "zsh": "setopt err_exit no_unset pipe_fail\n", "fish": ""}[shell]
    assert (
        shells.run(
            shell, f"{strict}{LOAD[shell]}{LOAD[shell]}cd /\n{PROMPT[shell]}\ncd /usr\n{PROMPT[shell]}", load=False
        )
        == ""
    )


@pytest.mark.needs("shellcheck")
@each_shell
def test_what_init_prints_passes_the_shells_own_check(shells: Shells, tmp_path: Path, shell: str) -> None:
    rendered = tmp_path / f"rendered.{shell}"
    rendered.write_text(shells.run(shell, f"sess init {shell}", load=False))
    checks = {"bash": ["shellcheck", "--shell=bash"], "zsh": ["zsh", "-n"], "fish": ["fish", "-n"]}
    done = subprocess.run([*checks[shell], str(rendered)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@each_shell
def test_every_file_of_a_shell_and_what_init_prints_can_be_parsed(shells: Shells, tmp_path: Path, shell: str) -> None:
    """Also where shellcheck is missing, and for bash by bash itself."""
    rendered = tmp_path / f"rendered.{shell}"
    rendered.write_text(shells.run(shell, f"sess init {shell}", load=False))
    files = sorted(FILES.glob(f"*.{shell}"))
    assert len(files) == 2
    for path in [*files, rendered]:
        done = subprocess.run([shell, "-n", path], env=shells.env, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), path.name


def test_the_command_for_prompts_starts_as_fast_as_a_bare_interpreter(shells: Shells, tmp_path: Path) -> None:
    """As the launcher starts it: nothing is imported that the relay does not need."""
    for package in ("sessiond", "cli/sess"):
        (tmp_path / os.path.basename(package)).symlink_to(REPOSITORY / package)
    shells.snapshot(str(tmp_path), ONE)
    command = [sys.executable, "-I", "-S", str(tmp_path / "sess" / "__main__.py"), "prompt"]

    def took(*words: str) -> float:
        begun = time.perf_counter()
        done = subprocess.run(words, env=shells.env, cwd=tmp_path, capture_output=True, check=True, timeout=60)
        assert words[0] != command[0] or words[-1] == "pass" or done.stdout == "1 · Fix double charge\n".encode()
        return time.perf_counter() - begun

    took(*command)  # compiles
    taken = [(took(*command), took(sys.executable, "-c", "pass")) for _ in range(21)]
    ours, bare = (sorted(each)[10] for each in zip(*taken, strict=True))
    # The limit is 1.3, held by the benchmark; the rest is for a machine that has other things to do.
    assert ours < 5 * bare
    timed = subprocess.run(
        [*command[:3], "-X", "importtime", *command[3:]], env=shells.env, cwd=tmp_path, capture_output=True, text=True
    )
    imported = {line.rpartition("|")[2].strip() for line in timed.stderr.splitlines()}
    assert not imported & {"socket", "json", "re", "argparse", "site", "subprocess", "typing", "logging"}


def test_bash_code_uses_nothing_that_bash_3_2_lacks_unguarded() -> None:
    """That is macOS' own. What is newer stands on a line, or below one, that asks for the version."""
    newer = re.compile(
        r"mapfile|readarray|EPOCH|declare -A|local -n|\$\{\w+[,^@]|&>>|\|&|printf '%\(|compopt|bind -x|;&"
    )
    for name in ("sess.bash", "complete.bash"):
        lines = (FILES / name).read_text().splitlines()
        for number, line in enumerate(lines):
            if newer.search(line) and not line.lstrip().startswith("#"):
                before = " ".join(lines[max(0, number - 4) : number + 1])
                assert "BASH_VERSINFO" in before or "EPOCHSECONDS-" in before, f"{name}:{number + 1}: {line}"


def test_a_folder_with_quotes_is_named_safely_in_the_code(shells: Shells, tmp_path: Path) -> None:
    for shell in SHELLS:
        runtime = tmp_path / "it's $(touch x)\\"
        script = 'printf "%s" "$__sess_snapshots"'
        assert shells.run(shell, script, env={"SESS_RUNTIME_DIR": str(runtime)}) == f"{runtime}/here"
        assert not os.path.exists("x")
