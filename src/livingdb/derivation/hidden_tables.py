"""Names of the hidden tables beside a view's: the whole answer, quarantined rows, hot rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from livingdb.tables.free_names import free_name
from livingdb.tables.index import Version

__all__ = [
    "ASIDE",
    "WHOLE",
    "condition_column",
    "hot_table",
    "quarantine_table",
    "whole_name",
    "whole_tables",
]

WHOLE, ASIDE, HOT = "~whole/", "~aside/", "~hot/"


def quarantine_table(table: str) -> str:
    """The table that holds what was set aside of a table."""
    return ASIDE + table


def condition_column(columns: Iterable[str]) -> str:
    """The last column of what was set aside, after these: the conditions that a row breaks."""
    return free_name("_condition", columns)


def hot_table(table: str) -> str:
    """The table that holds the hot rows of one of which only those are stored."""
    return HOT + table


def whole_name(name: str) -> str:
    """The table that a hidden one belongs to; the name itself where it is of another kind."""
    for prefix in (WHOLE, ASIDE, HOT):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def whole_tables(held: Mapping[str, Version]) -> dict[str, Version]:
    """The tables as the derivation gives them, without anything set aside."""
    if not [name for name in held if name.startswith((WHOLE, ASIDE))]:
        return dict(held)
    found = {n: version for n, version in held.items() if not n.startswith((WHOLE, ASIDE))}
    whole = {n.removeprefix(WHOLE): v for n, v in held.items() if n.startswith(WHOLE)}
    return found | whole
