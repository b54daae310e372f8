"""``sess doctor``: is everything well, and what to do if not."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import TYPE_CHECKING

from sess import checkup, relay
from sess.options import Parser
from sessiond.protocol import DONE, NOTHING
from sessiond.text import clean

if TYPE_CHECKING:
    from sess.front import Call

_DESCRIPTION = """\
Look at everything that the daemon needs, and say what to type next. Starts the
daemon, to see whether that can be done. Exit code 1: there is a fault.
"""


@lru_cache
def parser() -> Parser:
    """Return the parser of the words after ``doctor``."""
    parser = Parser("doctor", "", _DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="for bug reports: no title, no name, no path")
    return parser


def run(call: Call) -> int:
    """Show what is found, as it is found."""
    findings = []
    for finding in checkup.look(relay.paths(), os.environ, call.context.home, call.ask):
        findings.append(finding)
        if not call.options.json:
            call.emit(1, f"{finding.state:8} {finding.name:10} {clean(finding.text)}\n")
            if finding.command:
                call.emit(1, f"{'':20}{clean(finding.command)}\n")
    code = NOTHING if any(finding.state == checkup.FAULT for finding in findings) else DONE
    if call.options.json:
        checks = [{"name": each.name, "state": each.state, **each.facts} for each in findings]
        call.emit(1, json.dumps({"ok": code == DONE, "checks": checks}) + "\n")
    return code
