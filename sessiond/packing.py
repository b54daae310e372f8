"""The facts of a unit as the index keeps them: JSON, packed."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

from sessiond.text import storable

if TYPE_CHECKING:
    from sessiond.session import Facts

_DICTIONARY = (
    b'"worktree":"repository":"name":"archived":true,"parent":"title":"agent":true,"old":true,"approval":"never"'
    b'"read-only""danger-full-access""bypassPermissions""acceptEdits","successor":"/Users/'
    b'{"created":17,"cwd":"/home/","branch":"main","settings":{"cwd":"/home/","model":""effort":"medium",'
    b'"approval":"on-request","sandbox":"workspace-write","at":17},"bare":true,"asked":true,"prompt":"","updated":17,'
    b'{"mode":"default","created":17,"sidechain":false,"entrypoint":"cli","start":"/home/","slug":"","custom":"",'
    b'"further":"","summary":"","command":"","last":"","first":"","cwd":"/home/","branch":"","ai":"",'
    b'"approval":"default","model":""effort":"high","updated":17,"places":["/home/'
    b'"],"launch_dir":"/home/","end":1,"guard":['
)
"""What facts are full of: with it they take 165 bytes instead of 256. An index made with another one is built again."""

MADE_WITH = zlib.crc32(_DICTIONARY) >> 1
"""Tells whether an index was made with this dictionary."""


def pack(facts: Facts) -> bytes:
    """Return *facts* in a third of the size, for 25 µs: paths stand in them several times, keys in every one."""
    text = storable(json.dumps(facts, separators=(",", ":"), ensure_ascii=False))
    packer = zlib.compressobj(6, wbits=-12, zdict=_DICTIONARY)
    return packer.compress(text.encode()) + packer.flush()


def unpack(value: bytes) -> Facts:
    """Return what `pack` was given."""
    facts: Facts = json.loads(zlib.decompressobj(wbits=-12, zdict=_DICTIONARY).decompress(value))
    return facts
