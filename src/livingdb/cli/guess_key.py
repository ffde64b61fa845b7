"""Which columns of a file can be its key: the likeliest that are unique and never null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

__all__ = ["Column", "Guess", "guess_key", "likely_keys"]

_PAIRED_COLUMNS = 12


@dataclass(frozen=True)
class Column:
    """A column and how many values, and different values, it has."""

    name: str
    values: int
    different: int


@dataclass(frozen=True)
class Guess:
    """A key that would do, and whether nothing else is as likely."""

    key: tuple[str, ...]
    is_sure: bool


def guess_key(
    table: str,
    rows: int,
    columns: Sequence[Column],
    is_unique: Callable[[tuple[str, str]], bool],
) -> Guess | None:
    """`id`, then `<table>_id`, then the first unique column, then the first unique pair.

    None if there is none.  Only a name that says so, or being the only one, makes sure.
    """
    full = [column for column in columns if column.values == rows]
    unique = [column.name for column in full if column.different == rows]
    likely = likely_keys(table)
    for wanted in likely:
        for name in unique:
            if name.casefold() == wanted:
                return Guess((name,), True)
    if unique:
        return Guess((unique[0],), len(unique) == 1 and rows > 1)
    for pair in combinations([column.name for column in full[:_PAIRED_COLUMNS]], 2):
        if is_unique(pair):
            return Guess(pair, False)
    return None


def likely_keys(table: str) -> tuple[str, ...]:
    """What the key of a table is likely to be called, the likeliest first."""
    name = table.casefold()
    single = name[:-3] + "y" if name.endswith("ies") else name.removesuffix("s")
    return ("id", f"{name}_id", f"{single}_id", f"{name}id", f"{single}id")
