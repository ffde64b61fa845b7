"""--on-conflict: who wins what both sides changed, in the words of every command that merges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from livingdb.errors import InvalidData

__all__ = ["OnConflict", "conflict_policy"]

_WORDS = ("fail", "ours", "theirs")

OnConflict = Annotated[
    list[str] | None,
    typer.Option(
        "--on-conflict",
        help="fail, ours or theirs; or for a table or column: orders.amount=theirs. "
        "May be given again.",
    ),
]


def conflict_policy(words: Sequence[str]) -> str | dict[str, str]:
    """What wins: one word for everything, or one for each table or column."""
    if not words:
        return "fail"
    pairs = [word.rpartition("=") for word in words]
    if len(words) > 1 and any(not equals for _, equals, _ in pairs):
        said = "one word for everything, or name=word each"
        raise typer.BadParameter(said, param_hint="--on-conflict")
    for _, _, word in pairs:
        if word not in _WORDS:
            raise InvalidData(f"--on-conflict {word}: choose one of {', '.join(_WORDS)}")
    _, equals, word = pairs[0]
    return {name: word for name, _, word in pairs} if equals else word
