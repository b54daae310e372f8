"""What `try` does: sess on the person's own sessions, or on the sample home in a temporary folder."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from typing import NoReturn

from fixtures import home
from tools import environment

KEPT = ("COLORTERM", "COLUMNS", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TERM", "TZ")
"""Variables that decide how things look. Nothing else of the person's reaches the demo."""
TOUR = ["find", "find checkout", "find --here app:codex", "find --all since:1d", "status"]


def main(words: list[str]) -> int:
    """Do what *words* ask for and return the exit code."""
    programs = environment.ensure()
    if words[:1] == ["--demo"]:
        return demo(programs, words[1:])
    sess = f"{programs}/sess"
    env = os.environ | {"PATH": _path(programs)}
    if words:
        os.execve(sess, [sess, *words], env)
    # Waits for the first index, so that "nothing found" is true.
    first = subprocess.run([sess, "find", "--sync", "--limit", "1"], env=env, stdout=subprocess.DEVNULL, check=False)
    if first.returncode == 1:
        print("No sessions of yours were found. This is the sample home instead.", file=sys.stderr)
        _run(sess, "stop", env)
        return demo(programs, [])
    if first.returncode:
        return first.returncode
    code = subprocess.run([sess, "find"], env=env, check=False).returncode
    print(
        "\nThese are your own sessions. Search them with: ./try find WORDS\n"
        "sessiond goes on in the background and keeps the list current. Stop it with: ./try stop",
        file=sys.stderr,
    )
    return code


def demo(programs: str, words: list[str]) -> int:
    """Run the command *words*, or a tour, on the sample home and return the exit code.

    The home and all files of the daemon are in one temporary folder. It is removed and the
    daemon stopped at the end, also after Ctrl-C, SIGTERM and a closed terminal.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    # A socket's path may have 103 bytes on macOS, and TMPDIR can be long.
    parent = tempfile.gettempdir() if len(tempfile.gettempdir()) < 60 else "/tmp"  # noqa: S108 - made private below
    sess = f"{programs}/sess"
    with tempfile.TemporaryDirectory(prefix="sess-demo-", dir=parent, ignore_cleanup_errors=True) as folder:
        env = {key: os.environ[key] for key in KEPT if key in os.environ}
        env |= {"HOME": f"{folder}/home", "PATH": _path(programs), "TMPDIR": folder}
        env |= {"SESS_STATE_DIR": f"{folder}/state", "SESS_RUNTIME_DIR": f"{folder}/run"}
        env["SESS_NO_SPAWN"] = "1"
        place = f"{folder}/home/src/shop-api"
        newest = home.make(f"{folder}/home")[0]
        # A child of its own, which can be waited for: one that a client starts may begin to write at any moment.
        daemon = subprocess.Popen(
            [f"{programs}/sessiond"], env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while daemon.poll() is None and _run(sess, "status", env):
                time.sleep(0.02)
            subprocess.run([sess, "find", "--sync"], env=env, cwd=place, stdout=subprocess.DEVNULL, check=True)
            if words:
                return subprocess.run([sess, *words], env=env, cwd=place, check=False).returncode
            for command in [*TOUR, f"show {newest.id[:8]}"]:
                print(f"\n\033[1m$ sess {command}\033[m" if sys.stdout.isatty() else f"\n$ sess {command}", flush=True)
                subprocess.run([sess, *shlex.split(command)], env=env, cwd=place, check=True)
        except subprocess.CalledProcessError as error:
            return error.returncode
        except KeyboardInterrupt:
            return 130
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _end(daemon)
    return 0


def _run(sess: str, command: str, env: dict[str, str]) -> int:
    return subprocess.run([sess, command], env=env, capture_output=True, check=False).returncode


def _end(daemon: subprocess.Popen[bytes]) -> None:
    """Have *daemon* end, so that it writes nothing while its folder is removed; kill one that hangs."""
    daemon.terminate()
    try:
        daemon.wait(5)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _path(programs: str) -> str:
    return f"{programs}:{os.environ.get('PATH', os.defpath)}"


def _leave(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
