"""Running the front with answers given in advance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sess import front
from sess.front import Context

if TYPE_CHECKING:
    from sessiond.protocol import Answer

CONTEXT = Context(cwd="/home/anna/src", home="/home/anna", columns=80, terminals="", color=False)
TERMINAL = CONTEXT._replace(terminals="012")


class Asked:
    """Answers requests with *answers*, one after the other and the last one for ever, and remembers them."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers = answers

    def __call__(self, request: dict[str, Any]) -> Answer:
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        self.requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(words: list[str], asked: Asked, context: Context = CONTEXT) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr of a command."""
    written = {1: "", 2: ""}

    def emit(fd: int, text: str) -> None:
        written[fd] += text

    code = front.run(words, context, asked, emit)
    return code, written[1], written[2]


def row(**values: Any) -> dict[str, Any]:
    """Return a row as the daemon gives it."""
    return {
        **dict.fromkeys(("branch", "created", "model", "effort", "approval", "sandbox", "live", "hidden", "successor")),
        "app": "claude",
        "id": "84cdfff0-1111-4222-8333-444455556666",
        "title": "Speed up the checkout query",
        "cwd": "/home/anna/src/shop",
        "launch_dir": "/home/anna/src/shop",
        "mtime": 1_700_000_000_000,
        "updated": 1_700_000_000_000,
        "bytes": 12_345,
        "path": "/home/anna/.claude/projects/shop/84cdfff0.jsonl",
        "root": "/home/anna/.claude",
        "archived": False,
        **values,
    }
