"""At which of the moments of an operation it is killed when there is time."""

from __future__ import annotations

from collections.abc import Sequence

from tests.property.trying import some_of

__all__ = ["killing_moments", "states"]

_CALLS = (" by SQLite", " of a temporary file", " of a pack", " of a folder")


def states(moments: Sequence[str]) -> list[int]:
    """One moment, counted from 1, for every state of the disk that a kill can leave.

    Only calls change files, and only between the moments of one call: whoever is killed before a
    statement, after it, or before the next call leaves what the call before it left.  The last
    such moment is taken, by which as much as can be was acknowledged.
    """
    return [
        number
        for number, name in enumerate(moments, 1)
        if number == len(moments) or _goes_on(name, moments[number])
    ]


def _goes_on(name: str, following: str) -> bool:
    """Whether a call does something between two moments."""
    moment, _, call = name.partition(" ")
    after, _, same = following.partition(" ")
    return call == same and call.endswith(_CALLS) and moment != "after" and after != "before"


def killing_moments(moments: Sequence[str], most: int, what: str) -> list[int]:
    """So many states, and one of each kind: the first of every name, and the last of all.

    The others are those that the seed of the run says, and with more effort more.
    """
    every = states(moments)
    first = {moments[number - 1]: number for number in reversed(every)}
    named = {*first.values(), *every[-1:]}
    others = [number for number in every if number not in named]
    if most > len(named) and others:
        named |= set(some_of(others, most - len(named), what))
    return sorted(named)
