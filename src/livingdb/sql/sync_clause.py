"""The clause at the end of a statement that says how two schemas are kept in step.

SYNC BOTH | FORWARD | REVERSE | NONE, with KEEP name or TO name; then ON BREAK DETACH | MOVE, for
views that cannot follow.
"""

from __future__ import annotations

from typing import Any

from livingdb.errors import InvalidData
from livingdb.sql.token_reader import TokenReader

__all__ = ["take_sync"]


def take_sync(reader: TokenReader) -> dict[str, Any]:
    """What SYNC … KEEP name says, if that comes next; words that it does not take stay."""
    options: dict[str, Any] = {}
    if reader.is_next("SYNC"):
        direction = reader.word_at(1)
        if direction not in ("BOTH", "FORWARD", "REVERSE", "NONE"):
            return {}
        reader.take("SYNC", direction)
        options["sync"] = direction.lower()
    if reader.is_next("KEEP") or (options and reader.is_next("TO")):
        how = reader.take_one("KEEP", "TO")
        name = reader.take_value()
        if name is None:
            raise InvalidData(f"{how}: the name of a branch is missing: write {how} name")
        options[str(how).lower()] = name
    if reader.take("ON", "BREAK"):
        word = reader.take_value()
        if word is None:
            raise InvalidData("ON BREAK: write ON BREAK DETACH or ON BREAK MOVE")
        options["on_break"] = word.lower()
    return options
