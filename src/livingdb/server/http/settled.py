"""Conflicts settled one by one: of each row, whose values count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field

from livingdb.errors import InvalidData
from livingdb.server.http.json_values import plain_value
from livingdb.server.http.models import Asked, OnConflict

__all__ = ["Resolution", "SettledRow"]

_Row = Mapping[str, Any]


class SettledRow(Asked):
    """A row in conflict, by its key, and whose values it takes."""

    key: dict[str, Any] = Field(min_length=1, examples=[{"id": 42}])
    take: Literal["ours", "theirs"]


class Resolution(Asked):
    """Who wins where both sides changed the same row: by rules, or row by row."""

    on_conflict: OnConflict = "fail"
    settled: dict[str, list[SettledRow]] = Field(
        default_factory=dict,
        description="By table; rows of it that are not named go by `on_conflict`.",
    )

    def policies(self) -> Any:
        """As `Database.merge` takes them."""
        if not self.settled:
            return self.on_conflict
        rules = self.on_conflict
        said: dict[str, Any] = dict(rules) if isinstance(rules, dict) else {"*": rules}
        for table, rows in self.settled.items():
            said[table] = _by_row(table, rows, said.get(table, said.get("*", "fail")))
        return said


def _by_row(table: str, rows: list[SettledRow], otherwise: str) -> Callable[..., str]:
    """The policy of a table: what was settled, and for other rows what is said of the table."""
    taken = {_mark(row.key): row.take for row in rows}
    names = {tuple(sorted(row.key)) for row in rows}

    def choose(base: _Row | None, ours: _Row | None, theirs: _Row | None) -> str:
        row = ours or theirs or base or {}
        for columns in names:
            for name in columns:
                if name not in row:
                    raise InvalidData(f"settled[{table!r}]: the table has no column {name!r}")
            found = taken.get(_mark({name: plain_value(row.get(name)) for name in columns}))
            if found is not None:
                return found
        if otherwise == "fail":
            key = {name: plain_value(row.get(name)) for name in next(iter(names))}
            raise InvalidData(
                f"a row of {table!r} is in conflict and was not settled: {key}; preview the merge "
                "again, since a side may have moved"
            )
        return otherwise

    return choose


def _mark(key: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """A key as something that can be looked up; numbers are equal to their texts."""
    return tuple(sorted((name, str(value)) for name, value in key.items()))
