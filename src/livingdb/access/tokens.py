"""Tokens: secrets that stand for a user.  The database has only their hashes.

A token is `ldb_<id>_<secret>`; the id says which one it is, and its secret has 256 random bits, so
that a plain hash of it tells nothing.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from blake3 import blake3

__all__ = ["NewToken", "are_equal", "hash_secret", "make_token", "token_id"]

_PREFIX = "ldb"
_ID_BYTES, _SECRET_BYTES = 8, 32
_LONGEST = 200
_NO_HASH = bytes(32)


@dataclass(frozen=True)
class NewToken:
    """A token that was just made: its id, what its user is shown once, and what is kept."""

    id: str
    text: str
    hash: bytes


def make_token() -> NewToken:
    """A new token."""
    made, secret = secrets.token_hex(_ID_BYTES), secrets.token_hex(_SECRET_BYTES)
    text = f"{_PREFIX}_{made}_{secret}"
    return NewToken(made, text, hash_secret(text))


def hash_secret(text: str) -> bytes:
    """What is kept of a token."""
    return blake3(text.encode(), derive_key_context="livingdb token").digest()


def token_id(text: object) -> str | None:
    """The id of what may be a token; None if it is none."""
    if not isinstance(text, str) or len(text) > _LONGEST or not text.isascii():
        return None
    parts = text.split("_")
    return parts[1] if len(parts) == 3 and parts[0] == _PREFIX else None


def are_equal(text: str, known: bytes | None) -> bool:
    """Whether a token is the one that a hash was kept of; it takes as long if there is none."""
    is_same = hmac.compare_digest(hash_secret(text), known or _NO_HASH)
    return is_same and known is not None
