"""The two dialects of the socket: JSON lines, and a command relayed by the client."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

from sessiond import __version__
from sessiond.protocol import (
    HANDED_BACK,
    MAX_REQUEST,
    PROTOCOL,
    USAGE,
    Problem,
    exit_frame,
    output_frame,
    parse_relay,
)
from sessiond.service import Blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessiond.follow import Follower
    from sessiond.protocol import Answer
    from sessiond.service import Service

log = logging.getLogger(__name__)

_HINT = "See docs/protocol.md."


def request_length(received: bytearray) -> int | None:
    """Return how many of the bytes *received* are the first request; None when its end is not known yet.

    Raises ValueError for what cannot become a request.
    """
    newline = received.find(b"\n", 0, MAX_REQUEST)
    if newline < 0:
        if len(received) >= MAX_REQUEST:
            raise ValueError(f"a request may have {MAX_REQUEST} bytes")
        return None
    if not received.startswith(b"R"):
        return newline + 1
    try:
        _, _, _, length = received[:newline].split(b" ")
        end = newline + 1 + int(length)
    except ValueError:
        raise ValueError("a relayed command begins with: R <protocol> <version> <length>") from None
    if not newline < end <= MAX_REQUEST:
        raise ValueError(f"a request may have {MAX_REQUEST} bytes")
    return end


def respond(
    request: bytes,
    service: Service,
    send: Callable[[bytes], object],
    *,
    may_wait: bool,
    follow: Callable[[Follower], None],
) -> None:
    """Answer a whole *request* through *send*. Nothing is sent before Blocks is raised; no other exception leaves.

    *follow* is given who wants to be told of changes from now on.
    """

    def ask(asked: dict[str, Any]) -> Answer:
        if asked.get("op") == "subscribe" and not relayed:
            follower, answer = service.follow(asked)
            follow(follower)
            return answer
        return service.answer(asked, may_wait=may_wait)

    relayed = request.startswith(b"R")
    try:
        if relayed:
            _run(request, ask, send)
        else:
            _answer(request, ask, send)
    except Blocks:
        raise
    except Exception:
        log.exception("a request failed")
        problem = Problem(
            "internal", "the daemon stumbled over this request", "Its log says where; `sess status` names the file."
        )
        if relayed:
            send(output_frame(2, f"sess: {problem.message}\n{problem.hint}\n".encode()))
            send(exit_frame(problem.exit, __version__))
        else:
            send(_error(problem))


def refusal(reason: str) -> bytes:
    """Return the answer to bytes that are no request."""
    return _error(Problem("usage", reason, _HINT))


def _answer(request: bytes, ask: Callable[[dict[str, Any]], Answer], send: Callable[[bytes], object]) -> None:
    if not request.strip():
        return
    try:
        asked = json.loads(request)
    except (ValueError, RecursionError):
        asked = None
    try:
        if not isinstance(asked, dict):
            raise Problem("usage", "a request is one JSON object on a line", _HINT)
        answer = ask(asked)
    except Problem as problem:
        send(_error(problem))
    else:
        send(b"".join(_line({"row": row}) for row in answer.rows) + _line({"ok": answer.ok | {"version": __version__}}))


def _run(request: bytes, ask: Callable[[dict[str, Any]], Answer], send: Callable[[bytes], object]) -> None:
    from sess.front import Context, run

    header, _, body = request.partition(b"\n")
    if header.split(b" ")[1:3] != [str(PROTOCOL).encode(), __version__.encode()]:
        # The client sees our version in the frame and settles which of us is to be replaced.
        send(exit_frame(HANDED_BACK, __version__))
        return
    try:
        items, words = parse_relay(body)
        context = Context.from_items(items)
    except ValueError as error:
        send(output_frame(2, f"sess: {error}\n{_HINT}\n".encode()) + exit_frame(USAGE, __version__))
        return

    def emit(fd: int, text: str) -> None:
        send(output_frame(fd, text.encode("utf-8", "surrogateescape")))

    code = run([os.fsdecode(word) for word in words], context, ask, emit)
    send(exit_frame(code, __version__))


def event_lines(events: list[dict[str, Any]]) -> bytes:
    """Return what a follower is sent of *events*."""
    return b"".join(map(_line, events))


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _error(problem: Problem) -> bytes:
    return _line({"error": {"code": problem.code, "message": problem.message, "hint": problem.hint}})
