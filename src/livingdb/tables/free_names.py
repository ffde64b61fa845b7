"""Names for columns of our own beside those of users, whose columns keep their names.

What is told about rows (the snapshot, the author, the kind of a change) stands beside their
columns, which may be called the same.  The user's column keeps its name, and ours gets underscores
in front until nobody takes the two for one: `snapshot`, `_snapshot`, `__snapshot`.  What never
leaves the process has a name that no column can have.
"""

from __future__ import annotations

from collections.abc import Iterable

from livingdb.tables.letter_case import foldings

__all__ = ["free_name", "free_names", "inner_name"]

_UNSEEN = "\u2063"


def free_names(wanted: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The wanted names, each with underscores in front as long as it is taken."""
    known = {form for name in taken for form in enumerate(foldings(name))}
    found = []
    for name in wanted:
        while not known.isdisjoint(enumerate(foldings(name))):
            name = f"_{name}"
        known.update(enumerate(foldings(name)))
        found.append(name)
    return found


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """The wanted name, with underscores in front as long as it is taken."""
    return free_names([wanted], taken)[0]


def inner_name(name: str) -> str:
    """A name that no column and no table of a user has: names hold no unseen characters."""
    return name + _UNSEEN
