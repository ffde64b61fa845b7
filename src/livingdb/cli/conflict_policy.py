"""--on-conflict: who wins what both sides changed, in the words of every command that merges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

__all__ = ["OnConflict", "conflict_policy"]

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
    if len(words) == 1 and "=" not in words[0]:
        return words[0]
    pairs = [word.partition("=") for word in words]
    if any(not equals for _, equals, _ in pairs):
        raise typer.BadParameter("one word for everything, or name=word each", param_hint="")
    return {name: word for name, _, word in pairs}
