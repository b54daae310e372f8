"""The row that rollouts, names and databases make together: every situation that was reported."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from tests.apps.codex_home import CREATED, CWD, ID, OTHER, SEGMENT, Home, applied, item, legacy, line, meta, turn

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def codex(tmp_path: Path) -> Home:
    """An empty home of Codex."""
    return Home(tmp_path / ".codex")


THREAD = {
    "updated_at": 1795248908,
    "first_user_message": "Fix the cart",
    "title": "Fix the cart",
    "preview": "Fix the cart",
}


@pytest.mark.parametrize(
    ("index", "thread", "event", "title"),
    [
        ("from the index", {"name": "from the row"}, "from the event", "from the index"),
        ("", {"name": "from the row"}, "from the event", "from the row"),
        ("", {}, "from the event", "from the event"),
        ("", {"title": "from the title"}, "", "from the title"),
        ("", {"preview": "from the preview"}, "", "from the preview"),
        ("", {}, "", "Fix the cart"),
        ("", {"title": "", "preview": "", "first_user_message": ""}, "", "asked in the rollout"),
        (
            "",
            {"preview": "# Context from my IDE setup:\n" + "x" * 5000 + "\n## My request for Codex:\nfix it\nnow"},
            "",
            "fix it",
        ),
    ],
)
def test_where_a_title_comes_from(codex: Home, index: str, thread: dict[str, Any], event: str, title: str) -> None:
    """The last renaming wherever a release put it (0.98 to 0.171), else what the person asked for; one line of it."""
    renamed = {"type": "thread_name_updated", "thread_name": event}
    event_line = [line({"type": "event_msg", "payload": renamed})] if event else []
    codex.put(meta(), turn(), item("asked in the rollout"), *event_line)
    codex.database(THREAD | thread)
    if index:
        codex.name("an older name")
        codex.name(index)
    assert codex.row().title == title


def test_a_rename_is_seen_at_once_and_read_alone(codex: Home) -> None:
    """The file of names only grows: after 5,000 names one more costs a few kilobytes."""
    codex.put(meta(), turn(), item("Fix the cart"))
    for number in range(5000):
        codex.name(f"name {number}", id=f"{number:08x}-798a-76f0-9430-e29822ad4fc7")
    assert codex.row().title == "Fix the cart"
    codex.name("Cart rounding")
    before = codex.read
    assert codex.row().title == "Cart rounding"
    assert codex.read - before < 10_000


def test_a_file_of_names_that_was_rewritten_is_read_anew(codex: Home) -> None:
    """In place and longer than before, as an editor would; a name that is no longer there is gone."""
    codex.put(meta(), turn(), item("Fix the cart"))
    codex.name("first").write_bytes(line({"id": OTHER, "thread_name": "x"}) + codex.name("second").read_bytes()[:0])
    path = codex.name("kept")
    assert codex.row().title == "kept"
    with path.open("r+b") as file:
        file.write(line({"id": ID, "thread_name": "rewritten " + "x" * 300}))
        file.truncate()
    assert codex.row().title.startswith("rewritten")
    with path.open("r+b") as file:
        file.write(line({"id": OTHER, "thread_name": "y" * 400}))
        file.truncate()
    assert codex.row().title == "Fix the cart"


@pytest.mark.parametrize(
    "torn", [b'{"id":"', b"\0" * 500 + b"\n", b"[]\n", b'{"id":5,"thread_name":"x"}\n', b"\xff\xfe\n"]
)
def test_a_damaged_file_of_names_costs_only_its_damage(codex: Home, torn: bytes) -> None:
    """Torn ends, NUL runs and foreign lines are passed over, and what follows them is read."""
    codex.put(meta(), turn(), item("Fix the cart"))
    path = codex.name("before")
    with path.open("ab") as file:
        file.write(torn)
    assert codex.row().title == "before"
    with path.open("ab") as file:
        file.write(b"\n")
    codex.name("after")
    assert codex.row().title == "after"


@pytest.mark.parametrize(
    ("seconds", "cwd"), [(-1, "/moved/by/the/turn"), (0, "/moved/by/a/resume"), (60, "/moved/by/a/resume")]
)
def test_the_folder_is_the_last_one_used(codex: Home, seconds: int, cwd: str) -> None:
    """A resume elsewhere may be in the database alone; a database left behind does not move a session back."""
    codex.put(meta(), turn("08:15:08.999", cwd="/moved/by/the/turn"), item("Fix the cart"))
    codex.database(THREAD | {"updated_at_ms": (1795248908 + seconds) * 1000, "cwd": "/moved/by/a/resume"})
    assert (codex.row().cwd, codex.row().launch_dir) == (cwd, cwd)


def test_a_database_that_knows_less_takes_nothing_away(codex: Home) -> None:
    """It has no model for a thread that it found on disk, and no such column at all until 2026-03."""
    codex.put(meta(), turn(effort="xhigh"), item("Fix the cart"))
    codex.database(THREAD | {"model": None, "sandbox_policy": "read-only"})
    row = codex.row()
    assert (row.model, row.effort, row.approval, row.sandbox) == ("gpt-6-sol", "xhigh", "on-request", "read-only")
    assert (row.branch, row.cwd, row.created) == ("feat/cart", CWD, CREATED)


# The columns of 0.93, and what later releases added (formats: migrations 5 to 41).
COLUMNS = [
    ["rollout_path", "created_at", "updated_at", "source", "model_provider", "cwd", "title", "sandbox_policy"],
    ["approval_mode", "tokens_used", "archived", "git_branch"],
    ["cli_version", "first_user_message"],
    ["model", "reasoning_effort"],
    ["created_at_ms", "updated_at_ms"],
    ["thread_source", "preview", "history_mode", "name"],
]


@pytest.mark.parametrize("layout", range(1, len(COLUMNS) + 1))
def test_a_database_of_any_layout_is_read(codex: Home, layout: int) -> None:
    """Columns that are not there yet are not asked for."""
    full: dict[str, Any] = dict.fromkeys((column for group in COLUMNS[:layout] for column in group), "")
    full |= {"cwd": "/moved", "title": "Renamed", "updated_at": 1795248999, "created_at": 1795248894}
    full |= {key: None for key in ("created_at_ms", "updated_at_ms", "name") if key in full}
    codex.put(meta(), turn(), item("Fix the cart"))
    codex.database(full)
    row = codex.row()
    assert (row.title, row.cwd, row.updated) == ("Renamed", "/moved", 1795248999000)


def test_the_database_of_the_highest_number_counts(codex: Home) -> None:
    """Older ones stay behind; a newer one that is broken or has no threads is passed over."""
    codex.put(meta(), turn(), item("Fix the cart"))
    codex.database(THREAD | {"name": "nine"}, name="state_9.sqlite")
    assert codex.row().title == "nine"
    codex.database(THREAD | {"name": "ten"}, name="state_10.sqlite")
    assert codex.row().title == "ten"
    (codex.root / "state_11.sqlite").write_bytes(b"garbage" * 1000)
    sqlite3.connect(codex.root / "state_12.sqlite").execute("CREATE TABLE other (id)").connection.close()
    fresh = Home(codex.root)
    assert fresh.row().title == "ten"
    assert [scan.facts for unit, (_, scan) in fresh.scans.items() if unit.path.endswith("state_9.sqlite")] == [{}]
    assert fresh.problems == {"state_11.sqlite": "it is not a database"}


def test_the_freshest_of_several_places_counts(codex: Home, tmp_path: Path) -> None:
    """The desktop app was seen with a database below ``sqlite``, and CODEX_SQLITE_HOME moves it anywhere."""
    codex = Home(codex.root, {"CODEX_SQLITE_HOME": str(tmp_path / "db")})
    codex.put(meta(), turn(), item("Fix the cart"))
    for number, name in enumerate(["state_5.sqlite", "../db/state_5.sqlite", "sqlite/state_5.sqlite"]):
        codex.database(THREAD | {"updated_at": 1795248908 + number, "name": name}, name=name)
        assert codex.row().title == name
    codex.database(THREAD | {"updated_at": 1795248999, "name": "again"})
    assert codex.row().title == "again"


@pytest.mark.parametrize(
    ("source", "thread_source", "hidden"),
    [
        *((source, "user", None) for source in ("cli", "vscode", "exec", "mcp", "unknown", "", {"custom": "atlas"})),
        ("vscode", None, None),
        *(({"subagent": kind}, None, "subagent") for kind in ("review", "compact", {"other": "guardian"})),
        ({"subagent": {"thread_spawn": {"parent_thread_id": OTHER, "depth": 1}}}, "subagent", "subagent"),
        ({"internal": "guardian"}, None, "subagent"),
        ("internal:memory_consolidation", None, "subagent"),
        ("vscode", "subagent", "subagent"),
    ],
)
@pytest.mark.parametrize("place", ["rollout", "database"])
def test_only_what_a_person_began_is_listed(
    codex: Home, place: str, source: object, thread_source: str | None, hidden: str | None
) -> None:
    """Runs of ``codex exec`` are; sub-agents, reviews and Codex's own housekeeping are not."""
    first = meta(source=source, thread_source=thread_source) if place == "rollout" else meta()
    codex.put(first, turn(), item("Fix the cart"))
    stored = line({"s": source}).decode()[5:-2] if isinstance(source, dict) else source
    if place == "database":
        codex.database(THREAD | {"source": stored, "thread_source": thread_source})
    assert codex.row().hidden == hidden


@pytest.mark.parametrize("provider", ["openai", "ollama", "a provider that is no longer configured"])
def test_sessions_of_every_provider_are_listed(codex: Home, provider: str) -> None:
    """Codex hid those of others even with ``--all`` (openai/codex#19318, #20165)."""
    codex.put(meta(model_provider=provider), turn(), item("Fix the cart"))
    codex.database(THREAD | {"model_provider": provider})
    assert codex.row().hidden is None


@pytest.mark.parametrize("preview", ["", "ship the cart", None])
def test_a_session_that_began_with_a_goal_is_listed(codex: Home, preview: str | None) -> None:
    """Codex missed those whose preview is empty (openai/codex#22517), and after a continuation (#22997)."""
    goal = {"type": "thread_goal_updated", "goal": {"objective": "ship the cart", "status": "active"}}
    codex.put(meta(), turn(), line({"type": "event_msg", "payload": goal}))
    if preview is not None:
        codex.database({"title": "", "first_user_message": "", "preview": preview, "updated_at": 1795248908})
    assert (codex.row().title, codex.row().hidden) == ("ship the cart", None)


def test_a_rollout_without_a_row_is_listed_and_a_row_without_a_rollout_is_not(codex: Home) -> None:
    """57 of 178 rollouts had no row (openai/codex#31433, #40426)."""
    codex.put(meta(), turn(), item("restored from a backup"))
    codex.database(THREAD | {"id": OTHER, "title": "deleted"})
    codex.name("deleted long ago", id=SEGMENT)
    assert {row.id: row.title for row in codex.rows().values()} == {ID: "restored from a backup"}


def test_a_broken_database_keeps_what_it_said(codex: Home) -> None:
    """Malformed databases stop Codex itself (openai/codex#21750, #24006, #40652)."""
    codex.put(meta(), turn(), item("Fix the cart"))
    path = codex.database(THREAD | {"name": "Cart rounding"})
    assert codex.row().title == "Cart rounding"
    for content in (b"not a database" * 999, b"", path.read_bytes()[:4096] + b"\xff" * 4096):
        path.write_bytes(content)
        assert codex.row().title == "Cart rounding"
        assert codex.problems.pop("state_5.sqlite")
    codex.database(THREAD | {"name": "rebuilt"})
    assert codex.row().title == "rebuilt"


def test_hostile_values_in_a_database_are_passed_over(codex: Home) -> None:
    """A cell of SQLite holds any type; none of them costs a row."""
    codex.put(meta(), turn(), item("Fix the cart"))
    values: list[Any] = [None, 5, 2.5, b"\xff\x00", "", "{", "x" * 100_000, -(2**63)]
    keys = (
        "updated_at_ms",
        "created_at_ms",
        "cwd",
        "git_branch",
        "model",
        "approval_mode",
        "sandbox_policy",
        "source",
        "name",
    )
    for value in values:
        codex.database(dict.fromkeys(keys, value), {"id": value})
        row = codex.row()
        assert (row.hidden, row.updated) == (None, CREATED + 13777)


def test_segments_are_one_session(codex: Home) -> None:
    """As after a revert; Codex's doctor calls them duplicates (openai/codex#43689)."""
    first = codex.put(meta(), turn(), item("alpha"), item("dead end"))
    base = {"thread_id": ID, "end_ordinal_exclusive": 4}
    second = codex.put(meta(history_base=base), applied("09:00:00.000", cwd="/late"), id=f"{ID}_{SEGMENT}")
    rows = codex.rows()
    assert list(rows) == [ID]
    row = rows[ID]
    assert (row.title, row.cwd, row.path, row.model) == ("alpha", "/late", str(second), "gpt-5.5")
    assert row.bytes == first.stat().st_size + second.stat().st_size
    assert codex.app.prompts(row) == ("alpha", "dead end")
    with second.open("ab") as file:
        file.write(line(item("beta")))
    assert codex.app.prompts(codex.row()) == ("alpha", "beta")


def test_an_archived_session_is_where_its_file_is(codex: Home) -> None:
    """The flag in the database drifts (openai/codex#23851). Moving the file there and back loses nothing."""
    path = codex.put(meta(), turn(), item("Fix the cart"))
    codex.database(THREAD | {"archived": 1})
    assert codex.row().archived is False
    archive = codex.root / "archived_sessions"
    archive.mkdir()
    moved = path.rename(archive / path.name)
    assert (codex.row().archived, codex.row().hidden, codex.row().path) == (True, None, str(moved))
    moved.rename(path)
    assert (codex.row().archived, codex.row().hidden, codex.row().path) == (False, None, str(path))


def test_a_deleted_session_stays_as_such(codex: Home) -> None:
    """With its title, for whoever looks for it with ``--all``."""
    path = codex.put(meta(), turn(), item("Fix the cart"))
    codex.database(THREAD | {"name": "Cart rounding"})
    assert codex.row().hidden is None
    path.unlink()
    assert (codex.row().hidden, codex.row().title) == ("deleted", "Cart rounding")


@pytest.mark.parametrize("known", ["row", "name", "fork", "nothing"])
def test_a_session_without_a_prompt_is_empty_unless_something_shows_its_use(codex: Home, known: str) -> None:
    """A paginated fork has no prompt of its own, and its parent's is not in its file."""
    codex.put(meta(**{"forked_from_id": OTHER} if known == "fork" else {}), turn())
    if known == "row":
        codex.database({"updated_at": 1795248908})
    if known == "name":
        codex.name("Cart rounding")
    assert codex.row().hidden == ("empty" if known == "nothing" else None)


def test_prompts_of_a_session(codex: Home) -> None:
    """In full, with their lines, and nothing that an IDE put before them; a session that is gone is an error."""
    path = codex.put(meta(), turn(), legacy("# Context\n## My request for Codex:\nfix\nthis"), legacy("y" * 5000))
    row = codex.row()
    assert codex.app.prompts(row) == ("fix\nthis", "y" * 4096)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        codex.app.prompts(row)
