"""What counts as the same repository."""

from __future__ import annotations

import pytest

from sess.preflight import _address


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
