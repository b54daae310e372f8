"""A daemon follows what the agents do to their files."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from fixtures.transcripts import iso, write
from tests.daemon import Daemon, Home, until

if TYPE_CHECKING:
    from pathlib import Path

    from fixtures.transcripts import Claude


def append(session: Claude, path: Path, begin: int) -> None:
    """Append the lines that *session* got since it had *begin*, as the agent does: one write each."""
    for line in session.lines[begin:]:
        with path.open("ab") as file:
            file.write(line)


def test_a_new_session_is_found(home: Home, daemon: Daemon) -> None:
    """In a project folder that did not exist, in a store that did not exist."""
    assert daemon.find() == []
    home.claude_session("the first of all")
    until(lambda: daemon.titles("first") == ["the first of all"])
    home.codex_session("begin with codex")
    until(lambda: daemon.titles("begin") == ["begin with codex"])
    home.claude_session("another folder", cwd="/srv/other")
    until(lambda: daemon.titles("another") == ["another folder"])


def test_a_turn_moves_a_session_to_the_top(home: Home, daemon: Daemon) -> None:
    """With its new branch and folder."""
    older, path = home.claude_session("older")
    home.claude_session("newer")
    until(lambda: daemon.titles() == ["newer", "older"])
    begin = len(older.lines)
    older.now += 60_000
    older.branch, older.cwd = "fix/retry", "/srv/shop/api"
    older.turn("go on")
    append(older, path, begin)
    until(lambda: daemon.titles() == ["older", "newer"])
    (row,) = until(lambda: daemon.find("branch:fix/retry"))
    assert (row["cwd"], row["launch_dir"]) == ("/srv/shop/api", "/srv/shop")


def test_a_renamed_session_is_found_by_its_new_name_only(home: Home, daemon: Daemon) -> None:
    """The name is in the last line of the file."""
    session, path = home.claude_session("before")
    until(lambda: daemon.titles("before"))
    begin = len(session.lines)
    session.custom_title = "afterwards"
    session.metadata()
    append(session, path, begin)
    until(lambda: daemon.titles("afterwards") == ["afterwards"])
    assert daemon.titles("before") == []


def test_a_deleted_session_stays_as_a_hidden_row(home: Home, daemon: Daemon) -> None:
    """People look for those too: the agent deletes transcripts by itself after 30 days."""
    _, path = home.claude_session("to be deleted")
    home.claude_session("stays")
    until(lambda: len(daemon.find()) == 2)
    path.unlink()
    until(lambda: daemon.titles() == ["stays"])
    (row,) = daemon.find("deleted", all=True)
    assert row["hidden"] == "deleted"
    write(str(path), [b""], home.now)
    path.unlink()
    assert daemon.ask("find", q="to be deleted")["hidden"] == {"deleted": 1}


def test_a_deleted_project_folder_hides_its_sessions(home: Home, daemon: Daemon) -> None:
    """All at once, however many there are."""
    paths = [home.claude_session(f"doomed {number}", cwd="/srv/doomed")[1] for number in range(20)]
    home.claude_session("stays")
    until(lambda: len(daemon.find(limit=50)) == 21)
    shutil.rmtree(paths[0].parent)
    until(lambda: daemon.titles() == ["stays"])


def test_a_session_that_moves_to_another_folder_stays_one_row(home: Home, daemon: Daemon) -> None:
    """As ``/cd`` and worktrees move it."""
    _, path = home.claude_session("mover")
    until(lambda: daemon.titles("mover"))
    target = home.claude / "projects" / "-srv-elsewhere" / path.name
    target.parent.mkdir()
    path.rename(target)
    until(lambda: [row["path"] for row in daemon.find("mover")] == [str(target)])
    assert len(daemon.find("mover", all=True)) == 1
    whole = target.parent.rename(target.parent.parent / "-srv-third")
    until(lambda: [row["path"] for row in daemon.find("mover")] == [str(whole / path.name)])


def test_a_file_that_shrinks_is_read_anew(home: Home, daemon: Daemon) -> None:
    """What was cut off is forgotten: a redaction tool removed it."""
    session, path = home.claude_session("kept")
    kept = path.stat().st_size
    begin = len(session.lines)
    session.branch = "secret-branch"
    session.turn("more")
    append(session, path, begin)
    until(lambda: daemon.find("branch:secret-branch"))
    os.truncate(path, kept)
    until(lambda: daemon.find("branch:main"))
    assert daemon.find("branch:secret-branch") == []


def test_a_rewrite_in_place_is_seen_whatever_stays_the_same(home: Home, daemon: Daemon) -> None:
    """Same size, same mtime, same inode: the change time tells."""
    _, path = home.claude_session("aaaa")
    until(lambda: daemon.titles("aaaa"))
    before = path.stat()
    with path.open("r+b") as file:
        content = file.read().replace(b'"aaaa"', b'"bbbb"')
        file.seek(0)
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino)
    until(lambda: daemon.titles("bbbb"))
    assert daemon.titles("aaaa") == []


def test_an_atomic_replacement_is_seen(home: Home, daemon: Daemon) -> None:
    """A new inode with the same name."""
    _, path = home.claude_session("original")
    until(lambda: daemon.titles("original"))
    copy = path.with_name("tmp-file")
    copy.write_bytes(path.read_bytes().replace(b"original", b"replaced"))
    copy.rename(path)
    until(lambda: daemon.titles("replaced"))


def test_a_store_that_is_replaced_as_a_whole_is_followed(home: Home, daemon: Daemon) -> None:
    """Rows of the old one are hidden, those of the new one found; nothing is lost."""
    home.claude_session("in the old store")
    until(lambda: daemon.titles("old"))
    (home.claude / "projects").rename(home.path / "away")
    home.claude_session("in the new store")

    def replaced() -> bool:
        daemon.sync()
        return daemon.titles() == ["in the new store"]

    until(replaced)
    assert [row["hidden"] for row in daemon.find("in the old store", all=True)] == ["deleted"]


def test_a_store_that_is_away_for_a_moment_loses_no_row(home: Home, daemon: Daemon) -> None:
    """Moved away, or closed to us; when it is back everything is as before."""
    home.claude_session("patient")
    until(lambda: daemon.titles("patient"))
    projects = home.claude / "projects"
    projects.rename(home.path / "away")
    daemon.sync()
    daemon.sync()
    assert daemon.titles("patient") == ["patient"]
    (home.path / "away").rename(projects)
    daemon.sync()
    assert daemon.titles("patient") == ["patient"]


def test_an_empty_store_is_believed_at_the_second_look(home: Home, daemon: Daemon) -> None:
    """An unmounted disk looks like this, and so does a person who deleted everything."""
    home.claude_session("gone soon")
    until(lambda: daemon.titles("gone"))
    shutil.rmtree(home.claude / "projects")
    (home.claude / "projects").mkdir()
    daemon.sync()
    daemon.sync()
    until(lambda: daemon.titles("gone") == [])
    assert len(daemon.find("gone", all=True)) == 1


def test_two_codex_databases_overlay_the_same_rollout(home: Home, daemon: Daemon) -> None:
    """The readable one with the highest number is asked; what one said that broke since is kept."""
    import apsw

    session, path = home.codex_session("what the file says")
    for number, name in ((4, "from four"), (5, "from five")):
        db = apsw.Connection(str(home.codex / f"state_{number}.sqlite"))
        db.execute(
            "CREATE TABLE threads (id TEXT PRIMARY KEY, rollout_path TEXT, created_at INTEGER, updated_at INTEGER, "
            "source TEXT, model_provider TEXT, cwd TEXT, title TEXT, sandbox_policy TEXT, approval_mode TEXT, "
            "archived INTEGER, git_branch TEXT, first_user_message TEXT, name TEXT)"
        )
        db.execute(
            "INSERT INTO threads VALUES (?, ?, ?, ?, 'cli', 'other', ?, 'what the file says', '{}', 'on-request', 0, "
            "'main', 'what the file says', ?)",
            (session.id, str(path), home.now // 1000, home.now // 1000, "/srv/shop", name),
        )
        db.close()
    until(lambda: daemon.titles() == ["from five"])
    (home.codex / "state_5.sqlite").write_bytes(b"not a database" * 1000)
    until(lambda: daemon.ask("status")["problems"] == ["1 unreadable: it is not a database"])
    (home.codex / "state_5.sqlite").unlink()

    def only_four() -> bool:
        daemon.sync()
        return daemon.titles() == ["from four"]

    until(only_four)
    assert sorted(entry.name for entry in home.codex.iterdir()) == ["sessions", "state_4.sqlite"]


def test_events_that_are_lost_are_made_good_by_a_reconcile(home: Home, daemon: Daemon) -> None:
    """Changes below a folder that nobody watches are found by comparing everything."""
    session, path = home.claude_session("with a sidecar")
    until(lambda: daemon.titles("sidecar"))
    sidecar = path.with_suffix("") / "custom-title.json"
    begin = len(session.lines)
    session.custom_title = ""
    path.write_bytes(b"".join(line for line in session.lines[:begin] if b"custom-title" not in line))
    sidecar.parent.mkdir()
    until(lambda: not daemon.titles("sidecar"))
    sidecar.write_text('{"customTitle":"named by the picker"}')
    daemon.sync()
    assert daemon.titles("picker") == ["named by the picker"]


def test_a_session_continued_elsewhere_leads_to_its_successor(home: Home, daemon: Daemon) -> None:
    """The old one is hidden as soon as the new one exists, and comes back when that is gone."""
    old, path = home.claude_session("the old part")
    new, successor = home.claude_session("the new part")
    until(lambda: len(daemon.find()) == 2)
    begin = len(old.lines)
    old.note("continued-in", continuedInSessionId=new.id, timestamp=iso(home.now))
    append(old, path, begin)
    until(lambda: daemon.titles() == ["the new part"])
    (row,) = daemon.find("old part", all=True)
    assert (row["hidden"], row["successor"]) == ("superseded", new.id)
    successor.unlink()
    until(lambda: daemon.titles() == ["the old part"])


def test_sessions_that_name_each_other_as_successor_stay_listed(home: Home, daemon: Daemon) -> None:
    """Nor does one hide that names itself; files may say anything."""
    one, path_one = home.claude_session("one")
    two, path_two = home.claude_session("two")
    until(lambda: len(daemon.find()) == 2)
    for writer, path, other in ((one, path_one, two), (two, path_two, one), (one, path_one, one)):
        begin = len(writer.lines)
        writer.note("continued-in", continuedInSessionId=other.id, timestamp=iso(home.now))
        append(writer, path, begin)
        daemon.sync()
    assert len(daemon.find()) >= 1
    assert "one" in daemon.titles()


def test_an_empty_copy_in_another_folder_hides_nothing(home: Home, daemon: Daemon) -> None:
    """Neither an empty file nor one with a title alone is the session, however new."""
    session, path = home.claude_session("the real one")
    until(lambda: daemon.titles() == ["the real one"])
    copy = home.claude / "projects" / "-srv-wt" / path.name
    copy.parent.mkdir()
    copy.write_bytes(b"")
    daemon.sync()
    assert daemon.titles() == ["the real one"]
    copy.write_bytes(session.lines[0])
    daemon.sync()
    assert daemon.titles() == ["the real one"]


@pytest.mark.parametrize("kind", ["folder", "fifo", "link"])
def test_what_only_looks_like_a_transcript_is_none(home: Home, daemon: Daemon, kind: str) -> None:
    """An event for it and a comparison agree, and nothing counts as unreadable."""
    _, path = home.claude_session("real")
    until(lambda: daemon.titles() == ["real"])
    other = path.with_name("00000000-0000-4000-8000-000000000001.jsonl")
    {"folder": other.mkdir, "fifo": lambda: os.mkfifo(other), "link": lambda: other.symlink_to(path)}[kind]()
    daemon.sync()
    assert daemon.ask("status")["unreadable"] == 0
    assert daemon.titles(all=True) == ["real"]
