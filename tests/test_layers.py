"""The data goes one way: what a module may import stands in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SHARED = {"session", "text", "protocol", "paths", "query", "config", "apps"}
LATE = {"relay", "agent", "units", "reading", "watch", "manager", "dialects", "daemon", "snapshot"}
"""Modules of which the page says that they import in the middle of a function; commands may, too."""


@cache
def layers() -> dict[str, list[str]]:
    """Return the modules of each package, as the page has them."""
    block = re.search(r"(?s)## Layers.*?```text\n(.*?)```", PAGE)
    assert block
    sections = re.findall(r"(?m)^(\S+)((?:\s+[\w.]+)+?)$(?=\n\S|\n?\Z)", block[1])
    return {package: names.split() for package, names in sections}


def sources() -> Iterator[tuple[str, str, Path]]:
    """Yield each module with its package and its name in the layers."""
    for package, folder in (("sessiond", ROOT / "sessiond"), ("sess", ROOT / "cli" / "sess")):
        for path in folder.rglob("*.py"):
            name = ".".join(path.relative_to(folder).with_suffix("").parts)
            if not name.startswith("__"):
                yield package, layer(package, name), path


def layer(package: str, name: str) -> str:
    """Return the name under which a module stands in the layers: some alone, others with their folder."""
    return name if name in layers()[package] else name.partition(".")[0]


def imports(path: Path, *, late: bool) -> Iterator[tuple[str, str]]:
    """Yield the package and the layer of each import of ours, at the head or in a function."""

    def visit(node: ast.AST, depth: int) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and child.module and bool(depth) == late:
                for alias in child.names:
                    package, _, name = f"{child.module}.{alias.name}".partition(".")
                    if package in ("sess", "sessiond") and not name.startswith("__"):
                        known = layers()[package]
                        parts = name.split(".")
                        whole = ".".join(parts[:2])
                        yield package, whole if whole in known else parts[0]
            yield from visit(child, depth + isinstance(child, ast.FunctionDef))

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), 0)


@pytest.mark.parametrize("package", ["sessiond", "sess"])
def test_every_module_has_its_layer(package: str) -> None:
    assert {name for of, name, _ in sources() if of == package} == set(layers()[package])


def test_a_module_imports_only_what_stands_before_it() -> None:
    order = layers()
    for package, name, path in sources():
        for other, imported in imports(path, late=False):
            if other == package:
                # A folder has one place; within it, and among the commands, Python itself forbids a circle.
                before = order[package].index(imported) < order[package].index(name)
                assert before or imported == name in ("apps", "commands"), f"{path.name} imports {imported}"
            else:
                assert (package, imported in SHARED) == ("sess", True), f"{path.name} imports {other}.{imported}"


def test_what_imports_late_is_named() -> None:
    """So that a way around the layers is one that somebody thought about."""
    found = {name for _, name, path in sources() if any(imports(path, late=True))}
    assert found - {"commands"} == LATE
    assert all(f"`{name}`" in PAGE.partition("What is imported late")[2].partition("##")[0] for name in LATE)
