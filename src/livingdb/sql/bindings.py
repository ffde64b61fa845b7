"""Stored queries: the user's own text, and what the names in it are bound to.

A `BoundQuery` is made once, when a query is defined (`bind_query`, `bind_expression`), and read for
the tables as they are called at any later time (`render_query`).  Bindings are spans of the text:
they are ordered, do not overlap, and name tables and columns by ids that renames do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

__all__ = [
    "Binding",
    "BoundColumn",
    "BoundQuery",
    "BoundTable",
    "ColumnBinding",
    "OutputBinding",
    "StarBinding",
    "StarPart",
    "TableBinding",
    "UsingBinding",
    "VariableBinding",
    "in_order",
    "quote",
]


def quote(name: str) -> str:
    """A name in backticks, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class BoundColumn:
    """A column: its id, which stays, and its name and type at some time."""

    id: str
    name: str
    type: str = ""


@dataclass(frozen=True)
class BoundTable:
    """A table: its id, which stays, and its name and columns, in order, at some time."""

    id: str
    name: str
    columns: tuple[BoundColumn, ...]

    @cached_property
    def by_id(self) -> Mapping[str, BoundColumn]:
        """Its columns by their ids."""
        return {column.id: column for column in self.columns}

    @cached_property
    def titles(self) -> tuple[tuple[str, str], ...]:
        """What decides how names are resolved: ids and names, in order."""
        return tuple((column.id, column.name) for column in self.columns)


@dataclass(frozen=True)
class TableBinding:
    """A table in FROM.  Other bindings name it by its number among those of the query.

    `called` is what columns of the query call it, and `is_aliased` whether the text says so.
    One that `is_path` is not written by its plain name, but with a branch or a version.
    `uses` are the columns the query needs.  Of one that is `held`, the text may depend on names in
    ways that are not bound to spans (NATURAL JOIN, PIVOT, `* EXCEPT`): it keeps all its names.
    `shadows` are the names that WITH clauses take where it stands.
    """

    start: int
    end: int
    table: str
    called: str
    is_aliased: bool = False
    is_path: bool = False
    is_held: bool = False
    uses: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnBinding:
    """The name of a column of a table.

    `of` is the number of the table.  `is_qualified` says that a table's name stands before the
    span, and `is_path` that it stands within, with a branch.  `output` is the name that a column
    of the result or a field has from this one, where the text gives it no other.
    """

    start: int
    end: int
    of: int
    column: str
    is_qualified: bool = False
    is_path: bool = False
    output: str | None = None


@dataclass(frozen=True)
class UsingBinding:
    """A name in USING: a column of a table on one side or on both."""

    start: int
    end: int
    sides: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class StarPart:
    """What a star stands for, of one relation: columns of table number `of` by id, or names."""

    called: str
    columns: tuple[str, ...]
    of: int | None = None


@dataclass(frozen=True)
class StarBinding:
    """A star among the items of SELECT, and the columns there were.

    `is_path`: before it stands a table's name with a branch.
    """

    start: int
    end: int
    parts: tuple[StarPart, ...]
    is_path: bool = False


@dataclass(frozen=True)
class OutputBinding:
    """The end of an item of SELECT that begins at `begin` and has a name by what it says."""

    start: int
    end: int
    begin: int
    name: str


@dataclass(frozen=True)
class VariableBinding:
    """A variable of a lambda function; `group` tells it from others.

    `output` is the name that a field has from it.
    """

    start: int
    end: int
    group: int
    output: str | None = None


Binding: TypeAlias = (
    TableBinding | ColumnBinding | UsingBinding | StarBinding | OutputBinding | VariableBinding
)
_KINDS: Mapping[str, type[Binding]] = {
    "table": TableBinding,
    "column": ColumnBinding,
    "using": UsingBinding,
    "star": StarBinding,
    "output": OutputBinding,
    "variable": VariableBinding,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True)
class BoundQuery:
    """A query or an expression as the user wrote it, and what its names stand for.

    `tables` are those it reads as they were when it was defined; an expression reads one, which it
    does not name.
    """

    text: str
    tables: tuple[BoundTable, ...]
    bindings: tuple[Binding, ...] = ()

    @cached_property
    def occurrences(self) -> tuple[TableBinding, ...]:
        """The tables in FROM, by their numbers."""
        return tuple(item for item in self.bindings if isinstance(item, TableBinding))

    @cached_property
    def by_id(self) -> Mapping[str, BoundTable]:
        """The tables it reads by their ids."""
        return {table.id: table for table in self.tables}

    @property
    def is_expression(self) -> bool:
        """Whether it is an expression over the columns of one table."""
        return not self.occurrences

    def uses(self) -> dict[str, frozenset[str]]:
        """The ids of the columns it needs of each table, by the table's id."""
        found: dict[str, set[str]] = {table.id: set() for table in self.tables}
        for item in self.occurrences:
            found[item.table].update(item.uses)
        if self.is_expression:
            columns = (item for item in self.bindings if isinstance(item, ColumnBinding))
            found[self.tables[0].id].update(item.column for item in columns)
        return {table: frozenset(columns) for table, columns in found.items()}

    def with_ids(self, ids: Mapping[str, str]) -> BoundQuery:
        """The query bound to columns that have other ids now, by those that they had."""
        tables = tuple(
            replace(
                table,
                columns=tuple(replace(c, id=ids.get(c.id, c.id)) for c in table.columns),
            )
            for table in self.tables
        )
        return replace(
            self, tables=tables, bindings=tuple(_with_ids(item, ids) for item in self.bindings)
        )

    def to_json(self) -> dict[str, Any]:
        """The query as plain values."""
        return {
            "text": self.text,
            "tables": [
                {
                    "id": table.id,
                    "name": table.name,
                    "columns": [[column.id, column.name, column.type] for column in table.columns],
                }
                for table in self.tables
            ],
            "bindings": [_binding_to_json(item) for item in self.bindings],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BoundQuery:
        """The inverse of `to_json`."""
        tables = tuple(
            BoundTable(
                item["id"], item["name"], tuple(BoundColumn(*column) for column in item["columns"])
            )
            for item in data["tables"]
        )
        return cls(
            data["text"], tables, tuple(_binding_from_json(item) for item in data["bindings"])
        )


def _with_ids(item: Binding, ids: Mapping[str, str]) -> Binding:
    """A binding to columns that have other ids."""
    if isinstance(item, TableBinding):
        return replace(item, uses=tuple(ids.get(one, one) for one in item.uses))
    if isinstance(item, ColumnBinding):
        return replace(item, column=ids.get(item.column, item.column))
    if isinstance(item, UsingBinding):
        return replace(item, sides=tuple((of, ids.get(one, one)) for of, one in item.sides))
    if isinstance(item, StarBinding):
        parts = [
            part
            if part.of is None
            else replace(part, columns=tuple(ids.get(one, one) for one in part.columns))
            for part in item.parts
        ]
        return replace(item, parts=tuple(parts))
    return item


def _binding_to_json(item: Binding) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": _NAMES[type(item)]}
    for part in fields(item):
        value = getattr(item, part.name)
        if isinstance(item, StarBinding) and part.name == "parts":
            value = [[one.called, list(one.columns), one.of] for one in item.parts]
        elif isinstance(item, UsingBinding) and part.name == "sides":
            value = [list(side) for side in item.sides]
        elif isinstance(value, tuple):
            value = list(value)
        if value not in (part.default, []):
            found[part.name] = value
    return found


def _binding_from_json(data: Mapping[str, Any]) -> Binding:
    given = {name: value for name, value in data.items() if name != "kind"}
    kind = _KINDS[data["kind"]]
    if kind is StarBinding:
        parts = [StarPart(called, tuple(columns), of) for called, columns, of in given["parts"]]
        is_path = given.get("is_path", False)
        return StarBinding(given["start"], given["end"], tuple(parts), is_path)
    if kind is UsingBinding:
        sides = tuple((of, column) for of, column in given.get("sides", ()))
        return UsingBinding(given["start"], given["end"], sides)
    made = kind(**given)
    if isinstance(made, TableBinding):
        return replace(made, uses=tuple(made.uses), shadows=tuple(made.shadows))
    return made


def in_order(bindings: Sequence[Binding]) -> tuple[Binding, ...]:
    """Bindings in the order of the text; those that begin where another ends come after it."""
    return tuple(sorted(bindings, key=lambda item: (item.start, item.end)))
