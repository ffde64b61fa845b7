"""Which columns of a view are columns of the tables it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from livingdb.tables.schema import TableSchema

__all__ = ["ColumnRef", "Correspondence", "correspondences"]

ColumnRef = tuple[str, str]
"""A table by its name in the query, and one of its columns."""


@dataclass(frozen=True)
class Correspondence:
    """A table as a query reads it once.

    `columns` are those of its columns that the view has as they are, and under which name;
    `used` are the columns that the view's columns are computed from, `reads` all that the query
    names, and `equal` the columns of other tables that its own are equal to.
    """

    alias: str
    table: str
    columns: Mapping[str, str]
    used: Mapping[str, frozenset[str]] = field(default_factory=dict)
    equal: Mapping[str, frozenset[ColumnRef]] = field(default_factory=dict)
    reads: frozenset[str] = frozenset()


def correspondences(query: exp.Query, schemas: Mapping[str, TableSchema]) -> list[Correspondence]:
    """How the columns of a query's answer relate to those of its tables; none if that is not plain.

    Plain is a SELECT of tables, joined or not; in a join, columns that are equal are as good as one
    another.
    """
    if not isinstance(query, exp.Select) or query.args.get("with_") or query.args.get("with"):
        return []
    tables = _tables(query, schemas)
    if tables is None:
        return []
    same = _EqualColumns()
    for left, right in _equalities(query, tables):
        same.join(left, right)
    reads: dict[str, set[str]] = {alias: set() for alias in tables}
    for alias, column in _places(query, tables):
        reads[alias].add(column)
    columns: dict[str, dict[str, str]] = {alias: {} for alias in tables}
    used: dict[str, dict[str, set[str]]] = {alias: {} for alias in tables}
    for name, item in _outputs(query, tables):
        for place in _places(item, tables):
            used[place[0]].setdefault(name, set()).add(place[1])
            reads[place[0]].add(place[1])
        if isinstance(item, exp.Column):
            for place in _places(item, tables):
                for alias, column in same.equal_to(place):
                    columns[alias].setdefault(column, name)
    return [
        Correspondence(
            alias,
            table,
            columns[alias],
            {name: frozenset(names) for name, names in used[alias].items()},
            {c.name: frozenset(same.equal_to((alias, c.name))) for c in schema.columns},
            frozenset(reads[alias]),
        )
        for alias, (table, schema) in tables.items()
    ]


Tables = Mapping[str, tuple[str, TableSchema]]


def _tables(query: exp.Select, schemas: Mapping[str, TableSchema]) -> Tables | None:
    """The tables of FROM and JOIN by alias; None if something else is read there."""
    start = query.args.get("from_") or query.args.get("from")
    joins = query.args.get("joins") or []
    found: dict[str, tuple[str, TableSchema]] = {}
    for item in [start, *joins]:
        source = None if item is None else item.this
        if not isinstance(source, exp.Table) or source.name not in schemas:
            return None
        found[source.alias_or_name] = (source.name, schemas[source.name])
    return found


def _places(item: exp.Expr, tables: Tables) -> Iterator[ColumnRef]:
    """The columns an expression names."""
    for column in item.find_all(exp.Column):
        for alias, (_, schema) in tables.items():
            if column.table and column.table.lower() != alias.lower():
                continue
            for known in schema.columns:
                if known.name.lower() == column.name.lower():
                    yield alias, known.name


def _outputs(query: exp.Select, tables: Tables) -> Iterator[tuple[str, exp.Expr]]:
    """The columns of the answer, by name, and what they are."""
    for item in query.expressions:
        if item.is_star:
            wanted = item.table if isinstance(item, exp.Column) else ""
            for alias, (_, schema) in tables.items():
                if not wanted or wanted.lower() == alias.lower():
                    for column in schema.visible_columns:
                        yield column.name, exp.column(column.name, alias)
        else:
            yield item.alias_or_name, item.unalias()


def _equalities(query: exp.Select, tables: Tables) -> Iterator[tuple[ColumnRef, ColumnRef]]:
    """The columns that joins make equal."""
    conditions = [query.args.get("where")]
    aliases = list(tables)
    for number, join in enumerate(query.args.get("joins") or [], start=1):
        conditions.append(join.args.get("on"))
        for name in join.args.get("using") or []:
            yield (aliases[0], name.name), (aliases[number], name.name)
    for condition in conditions:
        inner = condition.this if isinstance(condition, exp.Where) else condition
        for part in inner.flatten() if isinstance(inner, exp.And) else [inner]:
            if isinstance(part, exp.EQ):
                sides = [list(_places(side, tables)) for side in (part.left, part.right)]
                plain = isinstance(part.left, exp.Column) and isinstance(part.right, exp.Column)
                if plain and all(len(side) == 1 for side in sides):
                    yield sides[0][0], sides[1][0]


class _EqualColumns:
    """Columns that are equal in every row."""

    def __init__(self) -> None:
        self._groups: dict[ColumnRef, set[ColumnRef]] = {}

    def join(self, one: ColumnRef, other: ColumnRef) -> None:
        """Two columns are equal."""
        whole = self.equal_to(one) | self.equal_to(other)
        for place in whole:
            self._groups[place] = whole

    def equal_to(self, place: ColumnRef) -> set[ColumnRef]:
        """The columns that are equal to one, and that one."""
        return self._groups.get(place, {place})
