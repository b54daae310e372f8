"""The picker: fzf, or a numbered list, drawn on the terminal whatever stdout is.

A person waits for its first rows, so it runs without argparse and asks through the relay; while somebody
types, fzf asks through the relay again. Only ids and numbers get into the commands that fzf runs.
"""

import posix
import sys
from binascii import b2a_base64

from sess.relay import relayed, write
from sessiond.protocol import DONE, HANDED_BACK, INTERRUPTED, NOTHING, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sessiond.paths import Paths

    Then = Callable[[list[bytes]], int]

SIGTERM = 15  # to import signal takes 1 ms
_ASSIGNED = {"alt-a": "everything", "alt-h": "here"}
_CLIPBOARDS = (("", "pbcopy"), ("WAYLAND_DISPLAY", "wl-copy"), ("DISPLAY", "xclip -selection clipboard"))


class Picker:
    """What is looked for, and what is done with the session that is chosen."""

    def __init__(self, where: "Paths", context: dict[str, bytes], then: "Then", words: list[str]) -> None:
        """Take the *words* after ``pick``; *then* runs another command. Raises ValueError for an unknown option."""
        self._where = where
        self._context = context
        self._then = then
        given, self.query = {"--here": False, "--all": False, "--print-id": False}, ""
        ended = False
        for word in words:
            if word == "--" and not ended:
                ended = True
            elif word in given and not ended:
                given[word] = True
            elif (word.startswith("--") or word == "-h") and not ended:
                raise ValueError(word)
            else:
                self.query += f' "{word}"' if " " in word and ":" not in word and '"' not in word else f" {word}"
        self.query = self.query.lstrip()
        self.here, self.everything, self.print_id = given.values()
        self._terminal = -1

    def run(self) -> int:
        """Let a person choose, and do what the key says; returns the exit code. Raises Problem without a terminal."""
        try:
            self._terminal = posix.open("/dev/tty", posix.O_RDWR | posix.O_CLOEXEC)
        except OSError:
            raise Problem(
                "usage", "pick: there is no terminal to choose on", "`sess find` lists them where there is none."
            ) from None
        fzf = _fzf()
        while True:
            try:
                key, chosen = (self._with_fzf(fzf) if fzf else None) or self._with_numbers()
            except KeyboardInterrupt:
                return INTERRUPTED
            if key in _ASSIGNED:
                setattr(self, _ASSIGNED[key], not getattr(self, _ASSIGNED[key]))
                continue
            if not chosen:
                return INTERRUPTED if key == "esc" else NOTHING
            if self.print_id:
                write(1, chosen + b"\n")
                return DONE
            if key == "ctrl-y":
                self._copy(chosen)
                return DONE
            return self._then([b"resume", b"--print", chosen] if key == "ctrl-o" else [b"resume", chosen])

    def _rows(self, put: "Callable[[bytes], None]", *options: bytes) -> None:
        """Put the rows that fit as they come. Raises Problem as the daemon says it."""
        said = b""

        def take(fd: int, data: bytes) -> None:
            nonlocal said
            if fd == 1:
                put(data)
            else:
                said += data

        columns = posix.get_terminal_size(self._terminal).columns or 80
        words = [b"_rows", b"--columns", b"%d" % max(columns - 4, 20), *options, *self._filters(), b"--"]
        code = relayed(self._where, self._context, [*words, self.query.encode("utf-8", "surrogateescape")], take)
        if code == HANDED_BACK:
            raise ConnectionError  # of another version, as if there were none
        if code not in (DONE, NOTHING):
            message, _, hint = said.decode("utf-8", "replace").partition("\n")
            message = message.removeprefix("sess: ") or "the daemon did not answer"
            raise Problem("internal", message, hint.strip() or "`sess status` says how it is.")

    def _filters(self) -> list[bytes]:
        return [*([b"--here"] if self.here else []), *([b"--all"] if self.everything else [])]

    def _with_fzf(self, fzf: str) -> "tuple[str, bytes] | None":
        """Return the key and the id, ``esc`` for none; None when this fzf cannot do it."""
        columns = posix.get_terminal_size(self._terminal).columns or 80
        ours = " ".join(_quoted(word) for word in ourselves())
        filters = b" ".join(self._filters()).decode()
        keys = "alt-a,alt-h" + ("" if self.print_id else ",ctrl-o,ctrl-y")
        does = "enter prints the id" if self.print_id else "enter resumes  ctrl-o prints the command  ctrl-y copies id"
        state = ("here " if self.here else "") + ("all " if self.everything else "")
        header = (
            f"{does}  alt-h {'everywhere' if self.here else 'this folder'}"
            f"  alt-a {'fewer' if self.everything else 'hidden too'}"
        )
        again = f"{ours} _rows --columns {max(columns - 4, 20)} {filters} -- {{q}} 2>/dev/null || true"
        argv = [
            *(fzf, "--disabled", "--ansi", "--no-multi", "--no-sort", "--delimiter=\t", "--with-nth=2.."),
            *("--info=inline", "--layout=reverse"),
            *("--print-query", f"--query={self.query}", f"--prompt={state}> ", f"--expect={keys}"),
            *(f"--header={header}", f"--preview={ours} show -- {{1}} 2>&1", "--preview-window=down:40%:wrap"),
            f"--bind=change:reload:{again}",
        ]
        rows, feed = posix.pipe()
        chosen, result = posix.pipe()
        streams = [(posix.POSIX_SPAWN_DUP2, fd, to) for fd, to in ((rows, 0), (result, 1), (self._terminal, 2))]
        try:
            pid = posix.posix_spawn(fzf, argv, fzf_environment(posix.environ), file_actions=streams)
        finally:
            posix.close(rows)
            posix.close(result)
        try:
            # Asked only now: fzf takes longer to start than the daemon to answer.
            self._rows(lambda data: _feed(feed, data))
        except BaseException:
            posix.kill(pid, SIGTERM)
            posix.waitpid(pid, 0)
            posix.close(chosen)
            raise
        finally:
            posix.close(feed)
        output = _read_all(chosen)
        _, status = posix.waitpid(pid, 0)
        code = posix.waitstatus_to_exitcode(status)
        if code == INTERRUPTED:
            return "esc", b""
        if code not in (0, 1):
            return None
        query, key, line, *_ = [*output.split(b"\n"), b"", b"", b""]
        self.query = query.decode("utf-8", "surrogateescape")
        return key.decode(), line.partition(b"\t")[0]

    def _with_numbers(self) -> tuple[str, bytes]:
        """Show the newest that fit with a number before each, until one is chosen or nothing typed."""
        while True:
            output = b""

            def put(data: bytes) -> None:
                nonlocal output
                output += data

            self._rows(put, b"--plain")
            most = max(posix.get_terminal_size(self._terminal).lines - 3, 5)
            rows = output.split(b"\n")[:-1][:most]
            shown = [b"%3d %s\n" % (number, row.partition(b"\t")[2]) for number, row in enumerate(rows, 1)]
            typed = self._line(
                b"".join(shown) + (b"A number, or words to search for: " if rows else b"Nothing found. Other words: ")
            )
            if not typed:
                return "esc", b""
            if typed.isdigit() and 0 < int(typed) <= len(rows):
                return "", rows[int(typed) - 1].partition(b"\t")[0]
            self.query = typed.decode("utf-8", "surrogateescape")

    def _line(self, prompt: bytes) -> bytes:
        """Return what is typed after *prompt*, in a terminal that edits and shows the line, as it was before."""
        import termios

        before, ours = termios.tcgetattr(self._terminal), termios.tcgetattr(self._terminal)
        # A shell that starts us from a key has the terminal raw: no echo, Enter sends \r, Ctrl-C is a character.
        ours[0] |= termios.ICRNL
        ours[1] |= termios.OPOST | termios.ONLCR
        ours[3] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ISIG | termios.IEXTEN
        # Ctrl-C would interrupt that shell too, and take the line that was being typed in it.
        ours[6][termios.VINTR], ours[6][termios.VEOF] = b"\x00", b"\x04"
        ours[6][termios.VEOL], ours[6][termios.VEOL2] = b"\x03", b"\x1b"
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, ours)
        typed = b""
        try:
            self._say(prompt if before[3] & termios.ICANON else b"\n" + prompt)
            while not typed.endswith((b"\n", b"\x03", b"\x1b")) and (data := posix.read(self._terminal, 1)):
                typed += data
            if not typed.endswith(b"\n"):
                self._say(b"\n")
        finally:
            # What follows an Esc at once belongs to it, as with an arrow.
            when = termios.TCSAFLUSH if typed.endswith(b"\x1b") else termios.TCSADRAIN
            termios.tcsetattr(self._terminal, when, before)
        return typed.strip() if typed.endswith(b"\n") else b""

    def _say(self, text: bytes) -> None:
        _write_all(self._terminal, text)

    def _copy(self, id: bytes) -> None:
        """Put *id* on the clipboard: by the desktop's program, else by what many terminals know (OSC 52)."""
        for variable, program in _CLIPBOARDS:
            if (not variable or posix.environ.get(variable.encode())) and _on_path(program.split()[0]):
                rest, feed = posix.pipe()
                streams = [(posix.POSIX_SPAWN_DUP2, rest, 0)]
                argv = ["/bin/sh", "-c", f"{program} >/dev/null 2>&1"]
                pid = posix.posix_spawn("/bin/sh", argv, posix.environ, file_actions=streams)
                posix.close(rest)
                _write_all(feed, id)
                posix.close(feed)
                posix.waitpid(pid, 0)
                return
        self._say(b"\x1b]52;c;" + b2a_base64(id, newline=False) + b"\x07")


def fzf_environment(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return *environment* as fzf gets it: with nothing of what a person set for it but the colors.

    ``--multi``, ``--print0``, ``--filter``, a key that does another thing: each would change what we read from it.
    """
    given = environment.get(b"FZF_DEFAULT_OPTS", b"").translate(None, b"'\"").replace(b"--color ", b"--color=")
    colors = [word for word in given.split() if word.startswith(b"--color=")]
    ours = {key: value for key, value in environment.items() if not key.startswith(b"FZF_")}
    return {**ours, b"FZF_DEFAULT_OPTS": b" ".join(colors), b"SHELL": b"/bin/sh"}


def _fzf() -> str:
    """Return the path of fzf: the one on PATH, else that of the package iterfzf beside us; or ``""``."""
    if found := _on_path("fzf"):
        return found
    for folder in sys.path:
        if _executable(bundled := f"{folder}/iterfzf/fzf"):
            return bundled
    return ""


def _on_path(name: str) -> str:
    folders = posix.environ.get(b"PATH", b"/usr/bin:/bin").decode("utf-8", "surrogateescape").split(":")
    return next((path for folder in folders if folder and _executable(path := f"{folder}/{name}")), "")


def _executable(path: str) -> bool:
    try:
        return posix.stat(path).st_mode & 0o170111 > 0o100000 and posix.access(path, posix.X_OK)
    except OSError:
        return False


def ourselves() -> list[str]:
    """Return the words that start this program again."""
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]]


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _feed(fd: int, data: bytes) -> None:
    """Write to fzf, which may have been left by now."""
    try:  # noqa: SIM105 - contextlib is one more file to read
        _write_all(fd, data)
    except BrokenPipeError:
        pass


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[posix.write(fd, data) :]


def _read_all(fd: int) -> bytes:
    data = b""
    while more := posix.read(fd, 1 << 16):
        data += more
    posix.close(fd)
    return data
