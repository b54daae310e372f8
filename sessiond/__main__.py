"""``sessiond``: run the daemon in the foreground. ``sess`` starts it by itself when it is needed."""

from __future__ import annotations

import os
import sys

from sessiond import __version__

USAGE = """usage: sessiond [--version | --help]

Keeps the index of coding-agent sessions fresh and answers `sess`, until SIGTERM.
"""


def main() -> int:
    """Run the command; return its exit code."""
    words = sys.argv[1:]
    if words in (["--help"], ["-h"]):
        sys.stdout.write(USAGE)
        return 0
    if words == ["--version"]:
        sys.stdout.write(f"sessiond {__version__}\n")
        return 0
    if words:
        sys.stderr.write(f"sessiond: {words[0]}: no such option\n{USAGE}")
        return 2
    from sessiond import daemon
    from sessiond.protocol import Problem

    try:
        daemon.run(os.environ)
    except Problem as problem:
        # On one line: a client that started us shows the last one of the log.
        sys.stderr.write(f"sessiond: {problem.message}; {problem.hint}\n")
        return problem.exit
    return 0


if __name__ == "__main__":
    sys.exit(main())
