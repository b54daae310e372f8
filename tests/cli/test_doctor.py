"""The doctor: every fault is provoked once, and a report can be shown to anybody."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from sess import checkup
from sessiond.paths import Paths, locate
from sessiond.protocol import Answer
from tests.daemon import PATIENCE, Daemon, Home, until
from tests.test_disk import Disk, troubled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytest_plugins = ["tests.test_disk"]


class Report(NamedTuple):
    """What the doctor said."""

    code: int
    text: str

    def line(self, name: str) -> str:
        """Return the state, what was found and what to type of each line called *name*."""
        found = re.findall(rf"(?m)^(\w+) +{name} +(.*(?:\n {{20}}.*)?)$", self.text)
        return "\n".join(re.sub(r"\s+", " ", f"{state} {rest}") for state, rest in found)


@pytest.fixture
def doctor(home: Home) -> Iterator[Callable[..., Report]]:
    """Run the doctor in `home`; the daemon that it starts ends with the test."""

    def run(*words: str, **env: str) -> Report:
        done = subprocess.run(
            [sys.executable, "-m", "sess", "doctor", *words],
            env=home.env | env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        return Report(done.returncode, done.stdout + done.stderr)

    yield run
    subprocess.run([sys.executable, "-m", "sess", "stop"], env=home.env, capture_output=True, check=False)


Doctor = Callable[..., Report]


def paths_of(home: Home) -> Paths:
    return locate(home.env, os.getuid(), sys.platform, lambda folder: False)


def test_a_healthy_daemon_has_no_fault(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """Every line of what there is to see is ok; exit 0."""
    home.claude_session("Fix the checkout")
    home.codex_session("and this")
    daemon.sync()
    report = doctor()
    assert report.code == 0
    for name in ("sess", "folders", "config", "socket", "lock", "daemon", "root", "watches", "events", "reconcile"):
        assert report.line(name).startswith("ok "), name
    for name in ("queue", "index", "sessions", "files", "reads"):
        assert report.line(name).startswith("ok "), name
    assert f"pid {daemon.process.pid}" in report.line("lock")
    assert "SQLite 3." in report.line("daemon")
    assert "2 sessions (claude 1, codex 1), 0 hidden" in report.line("sessions")
    assert "the slowest took" in report.line("reads")
    assert "is watched" in report.line("root")


def test_a_daemon_that_does_not_run_is_started(home: Home, doctor: Doctor) -> None:
    """That it can be is the first thing to know."""
    assert doctor().line("daemon").startswith("ok sessiond")


def test_that_none_may_be_started_is_a_fault(doctor: Doctor) -> None:
    """Whoever set the variable has forgotten it."""
    report = doctor(SESS_NO_SPAWN="1")
    assert report.code == 1
    assert report.line("daemon").startswith("fault the daemon is not running, and SESS_NO_SPAWN is set Unset it")


def test_a_daemon_that_cannot_start_is_a_fault(home: Home, doctor: Doctor) -> None:
    """With the reason, which here is a mistake in the configuration and a fault of its own."""
    (home.path / "config.toml").write_text("exlude = []\n")
    report = doctor(SESS_CONFIG=str(home.path / "config.toml"))
    assert report.code == 1
    assert "exlude is not known Did you mean exclude?" in report.line("config")
    assert report.line("config").startswith("fault ")
    assert report.line("daemon").startswith("fault the daemon could not be started")
    assert "exlude is not known" in report.line("daemon")


def test_a_hung_daemon_is_a_fault(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """The doctor itself does not hang; what ends it is said."""
    daemon.process.send_signal(signal.SIGSTOP)
    report = doctor()
    daemon.process.send_signal(signal.SIGCONT)
    assert report.code == 1
    assert report.line("daemon").startswith("fault the daemon does not answer")
    assert "`sess service logs` may say why" in report.line("daemon")  # which is no file beside systemd
    assert report.line("lock").startswith(f"fault held by pid {daemon.process.pid}, which does not answer kill -9 ")


BUSY = """
import os, sys, time
import sessiond.health, sessiond.service
def busy(*args, ask=sessiond.service.Service._status):
    while os.path.exists({flag!r}):
        pass
    return ask(*args)
def slow(*args, examine=sessiond.service.examine):
    time.sleep(2)
    return examine(*args)
sessiond.service.Service._status, sessiond.service.examine = busy, slow
from sessiond.__main__ import main
main()
"""
"""A daemon that does not answer, though it works, while there is a flag; and that takes its time to look at itself."""
IMPATIENT = """
import os, sess.client, sess.relay
tries = 0
def connect(paths):
    global tries
    tries += 1
    if tries == 3:
        os.unlink({flag!r})
    return sess.relay.connect(paths, 1)
sess.client.connect = connect
sess.relay.main()
"""
"""A client that tries for 1 s each time, before the third of which the flag is taken away."""


def test_a_daemon_at_work_is_waited_for(home: Home) -> None:
    """It is asked again as long as it computes, and its look at a large index may take long."""
    flag = home.path / "flag"
    daemon = Daemon(home, command=(sys.executable, "-c", BUSY.format(flag=str(flag))))
    try:
        flag.touch()
        done = subprocess.run(
            [sys.executable, "-c", IMPATIENT.format(flag=str(flag)), "doctor"],
            env=home.env, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert Report(0, done.stdout).line("daemon").startswith("ok sessiond")
    finally:
        daemon.kill()


def test_a_full_disk_is_a_fault(disk: Disk, doctor: Doctor) -> None:
    """Until there is room again; the daemon itself may not have noticed, when nothing changed."""
    assert doctor().line("disk").startswith("ok ")
    disk.fill()
    report = doctor()
    assert report.code == 1
    assert report.line("disk").startswith(f"fault {disk.path} is on a full disk (0 B free): ")
    assert report.line("disk").endswith(f" df {disk.path}")
    disk.empty()
    assert doctor().line("disk").startswith("ok ")


def test_a_read_only_disk_is_a_fault(disk: Disk, doctor: Doctor) -> None:
    """Whoever asks: not even root can write there."""
    disk.protect()
    report = doctor()
    assert report.code == 1
    assert report.line("disk").startswith(f"fault {disk.path} cannot be written to: ")


def test_what_keeps_the_daemon_from_writing_is_a_fault(home: Home, disk: Disk, doctor: Doctor) -> None:
    """In the words of the daemon that tried."""
    daemon = Daemon(home)
    try:
        disk.fill()
        home.claude_session("no room")
        until(lambda: troubled(daemon))
        assert "fault the index cannot be written: " in doctor().line("index")
    finally:
        daemon.kill()


SIGN = "a b\"c$d;e'f"
"""What a shell would take apart."""


def _replaced(path: Path) -> None:
    path.with_name("other").touch()
    path.with_name("other").replace(path)


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (lambda run: run.chmod(0o755), "folders"),
        (lambda run: (run / "sessiond.sock").chmod(0o666), "socket"),
        (lambda run: _replaced(run / "sessiond.sock"), "socket"),
    ],
)
def test_what_to_type_can_be_pasted(
    home: Home, monkeypatch: pytest.MonkeyPatch, doctor: Doctor, spoil: Callable[[Path], None], name: str
) -> None:
    """Into a shell, whatever signs the paths have; it mends the fault."""
    own = {"SESS_STATE_DIR": str(home.path / SIGN)}
    doctor(**own)
    spoil(home.path / SIGN / "run")
    report = doctor(SESS_NO_SPAWN="1", **own)
    (command,) = re.findall(rf"(?m)^fault +{name} .*\n {{20}}(.*)$", report.text)
    subprocess.run(["sh", "-c", command], check=True)
    assert not doctor(**own).line(name).startswith("fault")
    subprocess.run([sys.executable, "-m", "sess", "stop"], env=home.env | own, capture_output=True, check=False)


def test_a_daemon_that_died_is_not_to_be_killed(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """The number that it noted may be another's by now."""
    daemon.kill()
    report = doctor(SESS_NO_SPAWN="1")
    assert "kill" not in report.text
    assert report.line("lock") == "ok free"


def test_a_folder_open_to_others_is_a_fault(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """They could connect, or put a socket of theirs there."""
    (home.path / "state/run").chmod(0o755)
    report = doctor()
    assert report.code == 1
    assert report.line("folders").startswith("fault ")
    assert report.line("folders").endswith(f" chmod 700 {home.path}/state/run")


def test_a_folder_that_is_none_is_a_fault(home: Home, doctor: Doctor) -> None:
    """It is in the way of the daemon's."""
    (home.path / "state").write_text("")
    assert doctor().line("folders").startswith(f"fault {home.path}/state is not a folder")


def test_a_socket_open_to_others_is_a_fault(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """The folder keeps them out; once it does not, nothing would."""
    daemon.socket.chmod(0o666)
    report = doctor()
    assert report.code == 1
    assert report.line("socket").startswith("fault ")
    assert report.line("socket").endswith(f"mode 0666, user {os.getuid()}: open to others chmod 600 {daemon.socket}")


def test_a_file_in_place_of_the_socket_is_a_fault(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """Clients refuse it."""
    daemon.stop()
    daemon.socket.write_text("")
    report = doctor()
    assert report.code == 1
    assert "no socket of yours" in report.line("socket")
    assert report.line("socket").endswith(f"rm {daemon.socket}")


def test_a_missing_socket_is_a_fault(home: Home, doctor: Doctor) -> None:
    """When no daemon could be started to make it."""
    report = doctor(SESS_NO_SPAWN="1")
    assert report.line("socket") == "fault ~/state/run/sessiond.sock: No such file or directory sess service restart"


def test_a_socket_path_that_is_too_long_is_a_fault(home: Home, doctor: Doctor) -> None:
    """With the variable that helps."""
    report = doctor(SESS_RUNTIME_DIR=str(home.path / ("x" * 120)))
    assert report.code == 1
    assert report.line("socket").startswith("fault ")
    assert "export SESS_RUNTIME_DIR=" in report.line("socket")


def test_a_lock_that_nobody_holds_is_a_fault(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """Somebody removed its file: a second daemon could start."""
    (home.path / "state/run/sessiond.lock").unlink()
    report = doctor()
    assert report.code == 1
    assert report.line("lock") == (
        "fault free, although a daemon answers: a second one could start sess service restart"
    )


def test_a_damaged_index_is_a_fault(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """Its rows and its full text do not agree; what is typed next mends it."""
    import apsw

    home.claude_session("Fix the checkout")
    daemon.sync()
    db = apsw.Connection(str(daemon.index))
    db.execute("INSERT INTO search (search) VALUES ('delete-all')")
    db.close()
    report = doctor()
    assert report.code == 1
    assert re.match(r"fault .*, damaged: .* sess reindex$", report.line("index"))
    daemon.ask("reindex")
    daemon.sync()
    assert doctor().line("index").startswith("ok ")


def test_an_index_that_was_set_aside_is_a_warning(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """It is whole again; why it was not is worth knowing."""
    daemon.stop()
    daemon.index.write_bytes(os.urandom(50_000))
    daemon.start()
    report = doctor()
    assert report.code == 0
    assert "warning it was set aside and built again: " in report.line("index")


def test_a_configuration_that_is_not_in_force_is_a_warning(home: Home, doctor: Doctor) -> None:
    """The daemon has not read it yet."""
    config = home.path / "config.toml"
    doctor(SESS_CONFIG=str(config))
    config.write_text('exclude = ["/srv/**"]\n')
    report = doctor(SESS_CONFIG=str(config))
    assert "ok ~/config.toml: exclude" in report.line("config")
    assert "warning it changed since the daemon read it sess service restart" in report.line("config")


def test_a_store_of_this_shells_that_the_daemon_does_not_know_is_a_warning(home: Home, doctor: Doctor) -> None:
    """It was started with other variables; as soon as it has these, there is nothing to say."""
    elsewhere = home.path / "elsewhere"
    elsewhere.mkdir()
    env = {"CLAUDE_CONFIG_DIR": str(elsewhere), "XDG_RUNTIME_DIR": str(home.path)}
    doctor()
    assert (
        "warning claude: ~/elsewhere is not looked into: the daemon was started with other variables "
        "sess service restart" in doctor(**env).line("root")
    )
    restart = [sys.executable, "-m", "sess", "service", "restart"]
    subprocess.run(restart, env=home.env | env, capture_output=True, timeout=PATIENCE, check=True)
    assert "other variables" not in doctor(**env).line("root")


def test_files_that_cannot_be_read_are_a_warning(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """With how many there are for each reason."""
    home.codex_session("well")
    (home.codex / "state_5.sqlite").write_bytes(os.urandom(50_000))
    daemon.sync()
    line = doctor().line("files")
    assert line.startswith("warning 1 file unreadable (it is not a database 1): ~/.codex/state_5.sqlite ls -l ")
    assert line.endswith(f"{home.codex}/state_5.sqlite")


def test_events_that_were_lost_with_their_folder_call_for_nothing(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """Everything was compared since, and no limit of the kernel's has to do with it."""
    home.claude_session("well")
    daemon.sync()
    (home.claude / "projects").rename(home.claude / "projects.old")
    (home.claude / "projects").mkdir()
    until(lambda: daemon.ask("status")["lost"])
    report = doctor()
    assert re.fullmatch(r"ok lost \d+ times?; everything was compared with the disk each time", report.line("events"))


@pytest.mark.needs("unshare")
def test_the_limit_of_watches_is_a_warning_with_the_exact_command(home: Home, doctor: Doctor) -> None:
    """What is over it is polled."""
    if subprocess.run(["unshare", "-Ur", "true"], check=False).returncode:
        pytest.skip("user namespaces are forbidden here")
    for number in range(40):
        home.claude_session(f"session {number}", cwd=f"/srv/project{number}")
    script = 'echo 20 > /proc/sys/user/max_inotify_watches || exit 77; exec "$0" -m sessiond'
    daemon = Daemon(home, command=("unshare", "-Ur", "sh", "-c", script, sys.executable))
    try:
        daemon.sync()
        report = doctor()
        limit = daemon.ask("doctor")["limits"]["fs.inotify.max_user_watches"]
        assert report.line("watches").startswith("warning ")
        wanted = max(524_288, 2 * limit)
        assert report.line("watches").endswith(
            f"the limit of inotify watches is reached sudo sysctl fs.inotify.max_user_watches={wanted}"
        )
        assert "warning claude: ~/.claude is polled" in report.line("root")
    finally:
        daemon.kill()


LIMITS = {"fs.inotify.max_user_watches": 8192, "fs.inotify.max_user_instances": 128}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"reconciled": 1}, r"fault reconcile +last compared with the disk \d+ ?y.* ago: .* 'sess service restart'"),
        ({"reconciled": None, "progress": {"done": 3, "of": 9}}, r"ok reconcile still reading: 3 of 9 files ''"),
        ({"queue": 5000}, r"warning queue +5,000 waiting 'sess service logs'"),
        ({"queue": 5000, "progress": {"done": 3, "of": 9}}, r"ok queue +5,000 waiting ''"),
        ({"sessions": {}, "progress": None}, r"warning sessions +0 sessions.* 'sess config'"),
        (
            {"roots": [{"app": "codex", "path": "/srv/codex", "state": "unreadable"}]},
            r"fault root +codex: /srv/codex is unreadable 'chmod -R u\+rX /srv/codex'",
        ),
        (
            {"roots": [{"app": "codex", "path": "/srv/codex", "state": "silent"}]},
            r"fault root +codex: /srv/codex is silent: its file system does not answer .findmnt .*",
        ),
        (
            {"watch_problem": "no inotify instance: Too many open files", "folders_polled": 9, "limits": LIMITS},
            r"warning watches .*, 9 polled: no inotify .* 'sudo sysctl fs.inotify.max_user_instances=1024'",
        ),
        (
            {"lost": 3, "overflows": 1, "limits": {"fs.inotify.max_queued_events": 16_384}},
            r"warning events lost 3 times; .* 'sudo sysctl fs.inotify.max_queued_events=131072'",
        ),
        (
            {"watch_problem": "", "folders_polled": 1, "limits": {}},
            r"warning watches +\d+ folders? watched, 1 polled: no events from there ''",
        ),
    ],
)
def test_what_no_test_can_bring_about_is_told_as_well(
    home: Home, daemon: Daemon, changes: dict[str, Any], line: str
) -> None:
    """A real answer with one thing that is not as it should be."""
    daemon.sync()
    answer = {**daemon.ask("doctor"), **changes}
    findings = checkup.look(paths_of(home), home.env, str(home.path), lambda request: Answer([], answer))
    lines = [f"{each.state} {each.name} {each.text} {each.command!r}" for each in findings]
    assert [found for found in lines if re.fullmatch(line, found)], lines


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, "ok no start file of a shell uses `sess init` sess init --help"),
        ({".bashrc": 'eval "$(sess init bash)"\n'}, "ok set up for bash"),
        ({".zshrc": '# eval "$(sess init zsh)"\n'}, "ok no start file"),
        ({".zshrc": 'x=1\n  eval "$(sess init zsh)"\n', ".config/fish/config.fish": "sess init fish | source\n"},
         "ok set up for zsh, fish"),
        ({".config/fish/conf.d/sess.fish": "sess init fish | source\n"}, "ok set up for fish"),
    ],
)  # fmt: skip
def test_the_hooks_of_shells_are_found(home: Home, doctor: Doctor, files: dict[str, str], found: str) -> None:
    """In the files that each shell starts with, unless they are commented out."""
    for name, text in files.items():
        (home.path / name).parent.mkdir(parents=True, exist_ok=True)
        (home.path / name).write_text(text)
    assert doctor().line("shell").startswith(found)


def test_a_report_can_be_shown_to_anybody(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """It has no title, folder, branch, file name or user, also when everything is wrong."""
    home.claude_session("Zanzibar", cwd="/srv/Yucatan", branch="Xanadu")
    home.codex_session("Wyoming", cwd="/srv/Yucatan", branch="Xanadu")
    (home.path / "config.toml").write_text("Quixote = 1\n")
    daemon.sync()
    daemon.socket.chmod(0o666)
    (home.path / "state").chmod(0o755)
    for env in ({}, {"SESS_CONFIG": str(home.path / "config.toml")}, {"SESS_NO_SPAWN": "1"}):
        report = doctor("--json", **env)
        content = json.loads(report.text)
        assert content["ok"] is (report.code == 0)
        words = ["Zanzibar", "Yucatan", "Xanadu", "Wyoming", "Quixote", home.path.name]
        assert [word for word in words if word in report.text] == []
    (home.path / "state").chmod(0o700)
    report = doctor("--json")
    checks = {check["name"]: check for check in json.loads(report.text)["checks"]}
    assert checks["sessions"]["sessions"] == {"claude": 1, "codex": 1}
    assert checks["reads"]["slowest"][0].keys() == {"app", "ms", "bytes"}
    assert checks["socket"]["state"] == "fault"
    assert "/" not in report.text


def test_a_report_takes_no_longer_than_a_person_waits(home: Home, daemon: Daemon, doctor: Doctor) -> None:
    """Every session of a usual home is in it."""
    for number in range(200):
        home.claude_session(f"session {number}")
    daemon.sync()
    before = time.monotonic()
    assert "200 sessions" in doctor().line("sessions")
    assert time.monotonic() - before < PATIENCE / 3
