"""The small files that a shell prompt reads, one for each folder with sessions at or below it.

A prompt can afford no process and no socket, so what it shows has to lie ready: docs/protocol.md has
the format. A thread of its own writes the files, from a connection of its own, and never more than a fifth of the time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import apsw

from sessiond.config import Config
from sessiond.paths import FOLDER, clear_place, ours, snapshot_name
from sessiond.reading import problem
from sessiond.schema import connect
from sessiond.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessiond.indexer import Indexer
    from sessiond.session import Changes

log = logging.getLogger(__name__)

FORMAT = b"sess 1"
"""The first record of a file. A shell ignores what begins otherwise."""
NEWEST = 10
"""Sessions of a folder that its file lists."""
MOST = 1000
"""Sessions of a folder that are counted: that many, or more."""
WALK = 3000
"""Newest rows looked at for those of a folder with very many sessions, before all of its own are sorted."""
DEEPEST = 100
"""Folders above one that have a file about its sessions."""
PAUSE = 0.1
"""Seconds from a change to its writing: those that come together are written once."""
SHARE = 0.2
"""Part of the time that may be spent on the files, when there are many to write."""
SLICE = 0.05
"""Seconds of writing after which the thread rests."""
LISTED_TITLE = 60
"""Columns of a title in the list."""

_BELOW = "(cwd = :folder OR cwd > :from AND cwd < :to)"
_ELSEWHERE = f"launch_dir IS NOT cwd AND hidden IS NULL AND {_BELOW} IS NOT 1"
_SELECTIONS = (
    "FROM session INDEXED BY session_cwd WHERE cwd = :folder AND hidden IS NULL",
    "FROM session INDEXED BY session_cwd WHERE cwd > :from AND cwd < :to AND hidden IS NULL",
    f"FROM session INDEXED BY session_launch_dir WHERE launch_dir = :folder AND {_ELSEWHERE}",
    f"FROM session INDEXED BY session_launch_dir WHERE launch_dir > :from AND launch_dir < :to AND {_ELSEWHERE}",
)
"""The rows in a folder and below it, each in one of them only. The indexes have all that is asked for."""
_EACH = " UNION ALL ".join("SELECT 1 " + selection for selection in _SELECTIONS)
_DATED = " UNION ALL ".join("SELECT id, updated " + selection for selection in _SELECTIONS)
_ANY = f"SELECT EXISTS ({_EACH})"
_COUNT = f"SELECT count(*) FROM (SELECT 1 FROM ({_EACH}) LIMIT {MOST})"
_SORTED = f"SELECT id FROM ({_DATED}) ORDER BY updated DESC LIMIT {NEWEST}"
_WALKED = (
    "SELECT id FROM (SELECT id, cwd, launch_dir FROM session INDEXED BY session_recent WHERE hidden IS NULL "
    f"ORDER BY updated DESC LIMIT {WALK}) "
    f"WHERE {_BELOW} OR launch_dir = :folder OR launch_dir > :from AND launch_dir < :to LIMIT {NEWEST}"
)
_WAITING = (
    "SELECT id FROM session INDEXED BY session_live WHERE live IS NOT NULL AND live = 'waiting' AND hidden IS NULL "
    f"AND ({_BELOW} OR launch_dir = :folder OR launch_dir > :from AND launch_dir < :to) ORDER BY updated DESC"
)
_ROWS = (
    "SELECT session.id, identity.name, app, updated, live, branch, cwd, title "
    "FROM session JOIN identity USING (id) JOIN root ON root.id = session.root WHERE session.id IN ({})"
)
_FOLDERS = (
    "SELECT DISTINCT cwd FROM session WHERE cwd > ? AND hidden IS NULL ORDER BY 1 LIMIT 200",
    "SELECT DISTINCT launch_dir FROM session WHERE launch_dir > ? AND launch_dir IS NOT cwd ORDER BY 1 LIMIT 200",
)

# A title in a prompt is expanded there, in some set-ups even run: PS1="… $SESS_PROMPT" with promptvars,
# PROMPT_SUBST, PROMPT_BANG. Characters that look alike make it harmless however it gets there.
_HARMLESS = str.maketrans({"$": "＄", "`": "ˋ", "\\": "＼", "%": "％", "!": "！"})  # noqa: RUF001 - that is the point


class Snapshots:
    """Keeps the files in step with the index."""

    def __init__(self, folder: str, index_path: str, indexer: Indexer, config: Config | None = None) -> None:
        """Keep files in *folder* about the rows of the index at *index_path*, which *indexer* writes."""
        self._config = config or Config()
        self._folder = folder
        self._index_path = index_path
        self._indexer = indexer
        self._generation = -1
        self._trouble: str | None = ""
        self._db: apsw.Connection | None = None
        self._condition = threading.Condition()
        self._changed: dict[str, None] = {}
        self._later: dict[str, None] = {}
        self._sweep: Iterator[str] | None = self._every()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        indexer.listen(self.note)

    def start(self) -> None:
        """Start the thread; its first act is to compare every file with the index."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread after the file at hand."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join(timeout)

    def note(self, changes: Changes) -> None:
        """Take word of what a commit changed. While the index is incomplete its files can wait."""
        with self._condition:
            if changes.everything:
                self._sweep = self._every()
            queue = self._changed if self._indexer.complete() else self._later
            for folder in changes.folders:
                queue.update(dict.fromkeys(_and_above(folder)))
            self._condition.notify()

    def _run(self) -> None:
        while not self._stopping:
            with self._condition:
                self._condition.wait_for(lambda: self._changed or self._later or self._sweep or self._stopping)
            self._rest(PAUSE)
            begun, pause = time.monotonic(), 0.0
            try:
                self._work(begun + SLICE)
                self._trouble = ""
            except OSError as error:
                if error.strerror != self._trouble:
                    log.error("the files for the prompt cannot be written: %s", error.strerror)
                self._trouble, pause = error.strerror, 5.0
            except apsw.Error as error:
                # The index is being replaced; word of it comes.
                log.warning("the files for the prompt wait for the index: %s", error)
                pause = 1.0
            except Exception as error:
                # No memory, say. Without this thread every prompt would stay as it is, and nobody be told.
                log.error("the files for the prompt have to wait: %s", problem(error))
                pause = 5.0
            self._rest(pause + (time.monotonic() - begun) * (1 / SHARE - 1))
        if self._db:
            self._db.close()

    def _rest(self, seconds: float) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._stopping, seconds)

    def _work(self, deadline: float) -> None:
        """Write until nothing is left, or *deadline*."""
        db = self._reader()
        while not self._stopping and time.monotonic() < deadline and (folder := self._next()) is not None:
            try:
                self._write(folder, _block(db, folder, self._config))
            except OSError:
                with self._condition:
                    self._later[folder] = None
                raise

    def _next(self) -> str | None:
        """Return a folder whose file may be out of date: first of what just changed."""
        with self._condition:
            for queue in (self._changed, self._later):
                if queue:
                    folder = next(iter(queue))
                    del queue[folder]
                    return folder
            sweep = self._sweep
        if sweep and (swept := next(sweep, None)) is not None:
            return swept
        with self._condition:
            if self._sweep is sweep:
                self._sweep = None
        return None

    def _reader(self) -> apsw.Connection:
        generation = self._indexer.generation
        if self._db is None or self._generation != generation:
            if self._db:
                self._db.close()
            self._db, self._generation = connect(self._index_path), generation
        return self._db

    def _every(self) -> Iterator[str]:
        """Yield every folder that has a file and no sessions, then every one that has sessions."""
        self._make_folder()
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            blocks = _blocks(path)
            if not blocks and not os.path.isdir(path):
                os.unlink(path)  # of another version, or left by a kill
            for key in blocks:
                folder = key.decode("utf-8", "replace")
                if not self._reader().execute(_ANY, _bounds(folder)).get:
                    yield folder
        for sql in _FOLDERS:
            last, known = "", set[str]()
            while rows := self._reader().execute(sql, (last,)).fetchall():
                for row in rows:
                    last = str(row[0])
                    line = _and_above(last)
                    yield from (other for other in line if other not in known)
                    known = set(line)

    def _make_folder(self) -> None:
        # What is in it and none of ours is deleted: behind a link it would be somebody else's.
        clear_place(self._folder, FOLDER)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def _write(self, folder: str, block: bytes) -> None:
        """Make *block* what the file says of *folder*. Without any block the file is removed."""
        key = folder.encode()
        path = os.path.join(self._folder, snapshot_name(key))
        blocks = _blocks(path)
        if blocks.get(key, b"") == block:
            return
        blocks[key] = block
        content = b"".join(said and name + b"\0" + said for name, said in blocks.items())
        if not content:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return
        self._make_folder()
        new = self._folder + "/.new"  # no folder's file has a dot
        for place in (path, new):
            clear_place(place)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        # O_EXCL: a link that was planted there is not followed.
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(FORMAT + b"\0" + content)
        os.replace(new, path)


def _and_above(folder: str) -> list[str]:
    """Return *folder* and those it lies in, the nearest first, of more than ``DEEPEST`` the outer and inner ones.

    None when it is not absolute. What a transcript calls its folder need not be one.
    """
    if not folder.startswith("/"):
        return []
    ends = [end for end, character in enumerate(folder) if character == "/" and end]
    if len(ends) > DEEPEST:
        del ends[DEEPEST // 2 : -DEEPEST // 2]
    found = [folder] if folder != "/" else []
    return [*found, *(folder[:end] for end in reversed(ends)), "/"]


def _blocks(path: str) -> dict[bytes, bytes]:
    """Return what the file at *path* says, by folder; nothing when it is none of this format."""
    try:
        with open(path, "rb", opener=ours) as file:
            first, *records = file.read().removesuffix(b"\0").split(b"\0")
    except OSError:
        return {}
    blocks: dict[bytes, bytes] = {}
    folder = None
    for record in records if first == FORMAT else []:
        if record.startswith(b"/"):
            folder = record
            blocks[folder] = b""
        elif folder is not None:
            blocks[folder] += record + b"\0"
    return blocks


class _Row(NamedTuple):
    number: int
    id: str
    app: str
    updated: int
    live: str | None
    branch: str | None
    cwd: str | None
    title: str


def _block(db: apsw.Connection, folder: str, config: Config) -> bytes:
    """Return the records about *folder*, or nothing when it has no sessions."""
    from sess.render import cut

    bounds = _bounds(folder)
    count = int(db.execute(_COUNT, bounds).get)
    if not count:
        return b""
    waiting = [number for (number,) in db.execute(_WAITING, bounds)]
    newest = [number for (number,) in db.execute(_WALKED if count == MOST else _SORTED, bounds)]
    if len(newest) < min(count, NEWEST):
        newest = [number for (number,) in db.execute(_SORTED, bounds)]
    rows = _rows(db, [*waiting, *(number for number in newest if number not in waiting)][:NEWEST])
    if not rows:
        return b""  # the last one vanished between two queries; word of it comes
    title = cut(clean(rows[0].title) or "(no title)", config.prompt_length).translate(_HARMLESS)
    many = f"{count - 1}+" if count == MOST else str(count)
    asks = "" if not waiting else "waiting: " if len(waiting) == 1 else f"{len(waiting)} waiting: "
    prompt = f"{many} · {asks}{title}"
    if config.prompt_style == "count":
        prompt = f"{many} · {len(waiting)} waiting" if waiting else many
    records = ["\x1f".join((many, str(len(waiting)), prompt))]
    for row in rows:
        moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.updated // 1000))
        texts = (row.branch or "", (row.cwd or "").removeprefix(bounds["from"]), row.title)
        branch, below, shown = (cut(clean(text), LISTED_TITLE) for text in texts)
        shown = shown or "(no title)"
        if row.cwd == folder:
            below = ""
        fields = (clean(row.id), row.app, str(row.updated // 1000), moment, row.live or "", branch, below, shown)
        records.append("\x1f".join(fields))
    return b"".join(record.encode("utf-8", "replace") + b"\0" for record in records)


def _bounds(folder: str) -> dict[str, str]:
    inside = folder.rstrip("/")
    return {"folder": folder, "from": inside + "/", "to": inside + "0"}  # "0" is the character after "/"


def _rows(db: apsw.Connection, numbers: Iterable[int]) -> list[_Row]:
    wanted = list(numbers)
    found = (_Row(*row) for row in db.execute(_ROWS.format(",".join("?" * len(wanted))), wanted))
    rows = {row.number: row for row in found}
    return [rows[number] for number in wanted if number in rows]
