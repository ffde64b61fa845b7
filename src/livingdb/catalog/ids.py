"""Identities: what databases, branches and syncs are called by records, whatever their names are.

An id is 128 bits, written as 32 hex digits: random for what is new, so that it is unique across
databases; made by a fixed rule for what was there before there were ids.
"""

from __future__ import annotations

import json
import secrets
from typing import TypeAlias

from livingdb.chunks.address import digest

__all__ = ["ID_DIGITS", "BranchId", "SyncId", "derived_id", "new_id"]

BranchId: TypeAlias = str
SyncId: TypeAlias = str

ID_DIGITS = 32


def new_id() -> str:
    """An id that nothing else has."""
    return secrets.token_hex(ID_DIGITS // 2)


def derived_id(*facts: str | int) -> str:
    """The id that follows from these facts: the same wherever they are known."""
    return digest(json.dumps(["livingdb id", *facts]).encode()).hex()[:ID_DIGITS]
