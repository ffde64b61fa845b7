"""Functions that give the keys of masks."""

from __future__ import annotations


def shop_key() -> str:
    """A key."""
    return "the key of a function"


def no_key() -> str:
    """Says too much when it fails."""
    raise ValueError("the key of a function")
