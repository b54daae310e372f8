"""The hook of the prompt, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from sessiond.paths import snapshot_name
from tests.bench.figure import at_most
from tests.daemon import until

if TYPE_CHECKING:
    from tests.bench.corpora import Corpus
    from tests.bench.run import Run
    from tests.daemon import Daemon

SHELLS = {
    "bash": (["bash", "--noprofile", "--norc"], "for ((i = 0; i < {}; i++)); do {}; done", "__sess_prompt"),
    "zsh": (["zsh", "-f"], "for ((i = 0; i < {}; i++)); do {}; done", "__sess_prompt"),
    "fish": (["fish", "--no-config"], "for i in (seq {}); {}; end", "emit fish_prompt"),
}
"""Of each shell: how it starts, its loop, and what calls the hook as a prompt does."""
STEPS = {"the next prompt": "{hook}; {hook}", "the prompt after `cd`": "cd {there}; {hook}; cd {here}; {hook}"}
LOOPS = 200
HOW = f"a shell that runs the hook {2 * LOOPS} times, less what it takes without the hook; the mean of those is one run"


def run(run: Run) -> None:
    """Measure, in a folder with sessions, the next prompt, and the first one after entering another such folder."""
    part = run.part("Prompt")
    home = run.corpora.short(300)
    daemon = home.serve()
    here, there = folders(daemon)
    for shell in filter(shutil.which, SHELLS):
        code = load(home, shell)
        for what, steps in STEPS.items():
            _, _, hook = SHELLS[shell]
            with_hook, without = (steps.format(here=here, there=there, hook=each) for each in (hook, "true"))
            times = [
                (looped(home, here, shell, code, with_hook) - looped(home, here, shell, "", without)) / (2 * LOOPS)
                for _ in run.times(15)
            ]
            part.median(f"{shell}, {what}", times, "ms", HOW, at_most(0.3))
    daemon.stop()


def looped(home: Corpus, cwd: str, shell: str, code: str, steps: str) -> float:
    """Return the ms that a shell with *code* in *cwd* takes for *steps*, over and over, less its start."""
    command, loop, _ = SHELLS[shell]
    many, none = (script(home, cwd, [*command, "-c", code + loop.format(count, steps)]) for count in (LOOPS, 0))
    return many - none


def folders(daemon: Daemon) -> list[str]:
    """Return two folders with sessions, made, of which the daemon has written what shells read."""
    snapshots = daemon.home.path / "state" / "run" / "here"
    found = sorted({row["cwd"] for row in daemon.find(limit=50)})[:2]
    for folder in found:
        os.makedirs(folder, exist_ok=True)
        until((snapshots / snapshot_name(os.fsencode(folder))).exists)
    return found


def script(home: Corpus, cwd: str, command: list[str]) -> float:
    """Return the ms that a shell takes."""
    env = {**home.env, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    begin = time.perf_counter()
    subprocess.run(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return (time.perf_counter() - begin) * 1000


def load(home: Corpus, shell: str) -> str:
    """Return the code that `sess init` prints for *shell*."""
    done = subprocess.run(
        [sys.executable, "-m", "sess", "init", shell], env=home.env, capture_output=True, text=True, check=True
    )
    return done.stdout + "\n"
