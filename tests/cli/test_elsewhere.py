"""Where a repository is looked for whose folder is gone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sess import elsewhere
from sess.elsewhere import _address
from sessiond.protocol import Answer
from tests.cli.asking import Asked, row

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/acme/shop.git",
        "https://example.com/acme/shop",
        "https://example.com/acme/shop/",
        "https://Anna:secret@EXAMPLE.com/acme/shop.git",
        "ssh://git@example.com/acme/shop.git",
        "git@example.com:acme/shop.git",
        "git+ssh://git@example.com/acme/shop",
        "  https://example.com/acme/shop.git\n",
    ],
)
def test_one_repository_has_many_addresses(url: str) -> None:
    """By scheme, user and ending."""
    assert _address(url) == "example.com/acme/shop"


@pytest.mark.parametrize("url", ["https://example.com/acme/shop2", "https://example.com/Acme/shop", "/srv/acme/shop"])
def test_another_host_or_path_is_another_repository(url: str) -> None:
    """Case matters in a path."""
    assert _address(url) != "example.com/acme/shop"


@pytest.mark.parametrize("limit", [0.5, 60])
def test_the_search_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float) -> None:
    """However many folders there are on which git does not answer; what was found until then is offered."""
    monkeypatch.setattr(elsewhere, "LIMIT", limit)
    folders = [str(tmp_path / name) for name in ("here", *(f"slow{n}" for n in range(30)))]
    for folder in folders:
        os.mkdir(folder)
    (tmp_path / "git").write_text(
        '#!/bin/sh\ncase "$2$*" in\n*show-toplevel*) exit 128 ;;\n'
        + (f"{tmp_path}/slow*) exec sleep 600 ;;\n" if limit < 1 else "*slow*) exit 1 ;;\n")
        + "*) printf 'remote.origin.url\\nhost:shop\\0' ;;\nesac\n"
    )
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    plan = {"folder": str(tmp_path / "gone"), "commit": None, "repository": "host:shop"}
    asked = Asked(Answer([], {}), Answer([row(cwd=folder, launch_dir=folder) for folder in folders], {}))
    assert elsewhere.folders(plan, "/home/anna", asked) == ([folders[0]], limit > 1)
