"""Writes the page of every message, from the source: ``python -m tools.messages``.

What is read is the syntax tree: where something is said to a person, and what each argument may be there. What only
the moment knows (a path, a number, what another program said) stands as ``…``.
"""

from __future__ import annotations

import ast
import re
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sessiond.protocol import EXITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "messages.md"
HIDDEN = "…"
"""In place of what only the moment knows."""
_MOST = 32
"""Wordings of one message, of which the source has fewer; more would be a mistake here."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


ARGPARSE = (
    "…: …: expected one argument",
    "…: …: ignored explicit argument …",
    "…: …: invalid choice: … (choose from …)",
    "…: …: not allowed with argument …",
)
"""What Python's argparse says of options such as ours, and we hand on."""
ITS_HINT = "`sess COMMAND --help` lists what there is."


class Message(NamedTuple):
    """What a person may read, and what is said beside it."""

    kind: str
    """``Problem``, ``Check``, ``Finding`` or ``remark``."""
    text: str
    about: str
    """The code of an error, the name of a check or a finding."""
    hint: str
    """What to do; ``""`` for nothing."""


class Unread(NamedTuple):
    """A place where something is said that has no words of its own."""

    module: str
    function: str


class Module:
    """One module, and what its expressions may be."""

    def __init__(self, path: Path, constants: Mapping[str, ast.expr]) -> None:
        """Read it; *constants* are the names in capitals of all modules."""
        self.name = path.stem
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self._constants = {**constants, **_assigned(self.tree)}

    def functions(self) -> Iterator[Function]:
        """Yield its functions and methods."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def wordings(self, node: ast.expr | None, scope: Scope, seen: frozenset[str] = frozenset()) -> list[str]:
        """Return each text that *node* may be in *scope*; *seen* are the names on the way to it."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [node.value]
        parts: list[ast.expr] = []
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [node.left, node.right]
        if parts:
            each = [self.wordings(part, scope, seen) for part in parts]
            # A part that may be anything is that, whatever else it may be.
            each = [[HIDDEN] if HIDDEN in words else words for words in each]
            return ["".join(words) for words in product(*each)][:_MOST]
        return [text for one in self._alternatives(node, scope, seen) for text in one] or [HIDDEN]

    def _alternatives(self, node: ast.expr | None, scope: Scope, seen: frozenset[str]) -> Iterator[list[str]]:
        if isinstance(node, ast.IfExp):
            if isinstance(node.test, ast.Name) and scope.get(node.test.id) == [""]:
                yield self.wordings(node.orelse, scope, seen)
                return
            yield self.wordings(node.body, scope, seen)
            yield self.wordings(node.orelse, scope, seen)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                yield self.wordings(value, scope, seen)
        elif isinstance(node, ast.Name) and node.id in scope and node.id not in seen:
            yield from self._local(scope[node.id], scope, seen | {node.id})
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name.isupper() and name in self._constants:
                yield self.wordings(self._constants[name], {}, seen)
        elif isinstance(node, ast.Subscript):
            yield from self._entries(node.value, scope, seen)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "get":
                yield from self._entries(node.func.value, scope, seen)
                yield from (self.wordings(default, scope, seen) for default in node.args[1:])
            elif node.func.attr in ("rstrip", "strip"):
                yield self.wordings(node.func.value, scope, seen)

    def _local(self, found: list[ast.expr | str], scope: Scope, seen: frozenset[str]) -> Iterator[list[str]]:
        for value in found:
            yield [value] if isinstance(value, str) else self.wordings(value, scope, seen)

    def _entries(self, node: ast.expr, scope: Scope, seen: frozenset[str]) -> Iterator[list[str]]:
        found = self._constants.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(found, ast.Dict):
            yield from (self.wordings(value, scope, seen) for value in found.values)


Scope = dict[str, "list[ast.expr | str]"]
"""What each local name may be: an expression, or a text that the caller gave."""


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _scope(function: Function, at: ast.AST) -> Scope:
    """Return what the local names of *function* may be where *at* stands in it."""
    scope: Scope = {}
    _reach(function.body, scope, at)
    return scope


def _reach(body: Iterable[ast.stmt], scope: Scope, at: ast.AST) -> bool:
    """Go through *body*, noting in *scope* what is assigned; return whether its end is not reached."""
    for statement in body:
        branches = [block for block in _blocks(statement) if block]
        holds = any(node is at for node in ast.walk(statement))
        if not branches:
            _note(statement, scope)
            if holds or isinstance(statement, ast.Raise | ast.Return | ast.Continue | ast.Break):
                return True
            continue
        for node in ast.iter_child_nodes(statement):
            if isinstance(node, ast.expr):
                _note(node, scope)
        ends = []
        for block in branches:
            inner = {name: list(values) for name, values in scope.items()}
            if not _reach(block, inner, at):
                ends.append(inner)
            elif any(node is at for inside in block for node in ast.walk(inside)):
                scope.clear()
                scope.update(inner)
                return True
        if holds:
            return True  # in the statement's own expressions
        if ends and not (isinstance(statement, ast.If) and statement.orelse):
            ends.append(dict(scope))
        if ends:
            names = {name for inner in ends for name in inner}
            scope.update({name: _union(inner.get(name, []) for inner in ends) for name in names})
    return False


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def _union(lists: Iterable[list[ast.expr | str]]) -> list[ast.expr | str]:
    return list(dict.fromkeys(value for values in lists for value in values))


def _note(node: ast.AST, scope: Scope) -> None:
    """Put what *node* assigns into *scope*."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            scope[each.targets[0].id] = [each.value]
        elif isinstance(each, ast.NamedExpr):
            scope[each.target.id] = [each.value]
        elif isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name):
            before = [value for value in scope.get(each.target.id, []) if isinstance(value, ast.expr)]
            scope[each.target.id] = [ast.BinOp(value, ast.Add(), each.value) for value in before]


def _named(call: ast.Call) -> str:
    function = call.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _named(node) in names)


def _argument(call: ast.Call, number: int, name: str) -> ast.expr | None:
    if number < len(call.args):
        return call.args[number]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


class Source:
    """All modules in which something is said."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Read them."""
        constants: dict[str, ast.expr] = {}
        paths = list(paths)
        for path in paths:
            constants |= {
                name: value
                for name, value in _assigned(ast.parse(path.read_text(encoding="utf-8"))).items()
                if name.isupper() and not name.startswith("_")
            }
        self._modules = [Module(path, constants) for path in paths]
        self.unread: list[Unread] = []

    def messages(self) -> Iterator[Message]:
        """Yield every message, in no order; afterwards `unread` has the places without words of their own."""
        yield from (Message("Problem", text, "usage", ITS_HINT) for text in ARGPARSE)
        for module in self._modules:
            for function in module.functions():
                for given in self._given(module, function):
                    yield from self._said(module, function, given)

    def _given(self, module: Module, function: Function) -> Iterator[Scope]:
        """Yield what the parameters of *function* may be: once for each call, where it makes errors for its callers."""
        callers = self._modules if function.name == "unavailable" else [module] if function.name == "_problem" else []
        found = [
            self._parameters(function, call, caller, _scope(each, call))
            for caller in callers
            for each in caller.functions()
            for call in _calls(each, function.name)
        ]
        yield from found or [{}]

    @staticmethod
    def _parameters(function: Function, call: ast.Call, caller: Module, scope: Scope) -> Scope:
        names = [argument.arg for argument in function.args.args if argument.arg != "self"]
        values = {name: _argument(call, number, name) for number, name in enumerate(names)}
        return {name: list(caller.wordings(value, scope)) if value else [""] for name, value in values.items()}

    def _said(self, module: Module, function: Function, given: Scope) -> Iterator[Message]:
        def texts(call: ast.Call, number: int, name: str) -> list[str]:
            value = _argument(call, number, name)
            return module.wordings(value, {**_scope(function, call), **given}) if value else [""]

        def message(kind: str, about: str, wordings: Iterable[str], hints: Iterable[str]) -> Iterator[Message]:
            hint = next((" ".join(hint.split("\n")) for hint in hints if hint.strip(HIDDEN)), "")
            worded = {text for text in wordings if any(letter.isalpha() for letter in text)}
            if not worded:
                self.unread.append(Unread(module.name, function.name))
            yield from (Message(kind, _collapsed(text), about, _collapsed(hint)) for text in worded)

        errors = _calls(function, "Problem", *(["__init__"] if module.name == "front" else []))
        for call in errors:
            if len(call.args) < 2:
                continue
            code = texts(call, 0, "code")[0]
            yield from message("Problem", code, texts(call, 1, "message"), texts(call, 2, "hint"))
        for call in _calls(function, "ArgumentTypeError"):
            worded = [f"…: …: {text}" for text in texts(call, 0, "")]
            yield from message("Problem", "usage", worded, [ITS_HINT])
        for call in _calls(function, "Check"):
            if call.args:
                yield from message("Check", texts(call, 0, "name")[0], texts(call, 2, "text"), texts(call, 3, "hint"))
        for call in _calls(function, "_Obstacle"):
            yield from message("Check", "folder", (f"… {text}" for text in texts(call, 0, "text")), ())
        for call in _calls(function, "_Reason"):
            withheld = (f"… is withheld, {text}" for text in texts(call, 0, "why"))
            yield from message("Check", "…", withheld, texts(call, 1, "remedy"))
        for call in _calls(function, "Finding"):
            if not (isinstance(call.args[1], ast.Name) and call.args[1].id == "OK"):
                yield from message(
                    "Finding", texts(call, 0, "name")[0], texts(call, 2, "text"), texts(call, 3, "command")
                )
        for call in _calls(function, "emit"):
            if (
                isinstance(call.args[0], ast.Constant)
                and call.args[0].value == 2
                and not isinstance(call.args[1], ast.Call)
            ):
                yield from message("remark", "", (text.removeprefix("sess: ") for text in texts(call, 1, "")), ())
        if module.name == "find":
            for node in ast.walk(function):
                if isinstance(node, ast.Yield):
                    found = module.wordings(node.value, _scope(function, node))
                    yield from message("remark", "", (text.removeprefix("sess: ") for text in found), ())
        if module.name == "config":
            for call in _calls(function, "ValueError"):
                worded = [f"…: {text}" for text in texts(call, 0, "")]
                yield from message("Problem", "usage", worded, ["docs/configuration.md says what may stand there."])
        if module.name == "dialects":
            for call in _calls(function, "ValueError"):
                yield from message("Problem", "usage", texts(call, 0, ""), ["See docs/protocol.md."])
        for call in _calls(function, "Failed", "NoRepository"):
            if call.args:
                yield from message("reason", "", texts(call, 0, ""), ())
        if function.name in ("exposure", "socket_path_problem"):
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant):
                    yield from message("reason", "", module.wordings(node.value, _scope(function, node)), ())
        for call in _calls(function, "line"):
            if len(call.args) == 2:
                yield from message("remark", "", texts(call, 1, "question"), ())


def read() -> Source:
    """Return the source of `sess` and `sessiond`, without what is known of each agent."""
    return Source(sorted([*ROOT.glob("sessiond/*.py"), *ROOT.glob("cli/sess/**/*.py")]))


_SECTIONS = {
    "Problem": (
        "Errors",
        "A line that begins with `sess:` on stderr, then what to do. The number is the exit code.",
        ("message", "exit", "what to do"),
    ),
    "Check": (
        "What a resume finds",
        "What is noted, asked about or refused before a session is resumed. [Resuming](resume.md) says why.",
        ("text", "line", "what to do"),
    ),
    "Finding": (
        "What sess doctor finds",
        "Warnings and faults; what to do is the command that it shows.",
        ("text", "line", "what to do"),
    ),
    "reason": ("Why", "What stands after the colon of another message.", ("text",)),
    "remark": ("Said besides", "Lines on stderr that are no errors, and questions.", ("text",)),
}


_HEAD = """\
# Messages

<!-- made by `python -m tools.messages` from the source -->

Everything that `sess` and `sessiond` may say, in the order of the alphabet. `…` is what only the moment knows: a path,
a number, what another program said. What people ask about most is answered in the [FAQ](faq.md).
"""


def page() -> str:
    """Return ``docs/messages.md``."""
    found = set(read().messages())
    parts = [_HEAD]
    for kind, (title, about, columns) in _SECTIONS.items():
        rows = sorted((each for each in found if each.kind == kind), key=lambda each: (_key(each.text), each))
        lines = [" | ".join(_cells(each)[: len(columns)]) for each in rows]
        head = " | ".join(columns)
        rule = "|".join("---" for _ in columns)
        parts.append(
            f"## {title}\n\n{about}\n\n| {head} |\n|{rule}|\n"
            + "".join(f"| {line} |\n" for line in dict.fromkeys(lines))
        )
    return "\n".join(parts)


def _collapsed(text: str) -> str:
    return re.sub(rf"(?:{HIDDEN})+", HIDDEN, text.strip())


def _key(text: str) -> str:
    return text.lower().lstrip("… :;,`-")


def _cells(message: Message) -> list[str]:
    about = str(EXITS.get(message.about, "")) if message.kind == "Problem" else message.about
    return [cell(text) for text in (message.text, about, message.hint)]


def cell(text: str) -> str:
    """Return *text* as it stands in a cell of a table of Markdown."""
    for sign in "\\|<*":
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", " ")


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
