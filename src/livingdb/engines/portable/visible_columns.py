"""Name resolution: the columns an expression can refer to, in its query and in the outer ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.grouping_sets import Sets
from livingdb.engines.portable.signature_matching import NoColumn, NotPortable, sql_excerpt
from livingdb.engines.portable.typed_expressions import field_type
from livingdb.engines.portable.unknown_names import is_unknown_name
from livingdb.engines.spark_types import NULL

__all__ = ["FOREIGN", "Column", "FromItem", "VisibleColumns"]

Column: TypeAlias = tuple[str, pa.DataType]
FOREIGN = pa.month_day_nano_interval()
"""Stands for every type that Spark does not have."""
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_BY_ALIAS = ("GROUP BY", "HAVING", "ORDER BY")


@dataclass
class FromItem:
    """Something in FROM: what it is called, and its columns."""

    name: str
    columns: Sequence[Column]


class VisibleColumns:
    """What the clauses of one query can see."""

    def __init__(
        self,
        parameters: Mapping[str, object],
        sources: list[FromItem],
        outer: VisibleColumns | None,
        inner: Callable[[exp.Expr, VisibleColumns], list[Column]],
    ):
        self.parameters = parameters
        self.sources = sources
        self.clause = "FROM"
        self.is_bare = False
        self.sets: Sets | None = None
        self._outer = outer
        self._inner = inner
        self._aliases: dict[str, tuple[exp.Expr, pa.DataType]] = {}
        self._using: dict[str, pa.DataType] = {}

    def give_alias(self, item: exp.Expr, data_type: pa.DataType) -> None:
        """Let the clauses after SELECT see a column of the result."""
        if isinstance(item, exp.Alias):
            self._aliases[item.alias.casefold()] = (item.this, data_type)

    def column(self, node: exp.Column) -> pa.DataType:
        """The type of a column; a note of one that is the outer query's."""
        found = self._lookup(node)
        if found is None:
            found = self._outer_column_type(node)
        if found is None:
            is_wrong = is_unknown_name(node) or self._is_of_source(node)
            kind = NoColumn if is_wrong else NotPortable
            raise kind(f"there is no column {sql_excerpt(node)}")
        if found == FOREIGN:
            raise NotPortable(f"the column {sql_excerpt(node)} is of a type Spark does not have")
        if found == NULL:
            raise NotPortable(f"the column {sql_excerpt(node)} is of no type")
        return found

    def _is_of_source(self, node: exp.Column) -> bool:
        """Whether a column is said to be one of a table that is there."""
        parts = [part.name.casefold() for part in node.parts]
        return len(parts) == 2 and parts[0] in {source.name for source in self.sources}

    def _lookup(self, node: exp.Column) -> pa.DataType | None:
        parts = [part.name.casefold() for part in node.parts]
        name = parts[0]
        if len(parts) == 1:
            return self._unqualified(node, name)
        of_source = [source for source in self.sources if source.name == name]
        if len(of_source) > 1:
            raise NotPortable(f"{name!r} stands for several tables")
        if of_source:
            found = _unique_column_type(of_source[0].columns, parts[1], node)
            rest = parts[2:]
        else:
            found, rest = self._column_type(name, node), parts[1:]
        for part in rest if found is not None else ():
            found = field_type(found, part)
        return found

    def _unqualified(self, node: exp.Column, name: str) -> pa.DataType | None:
        found = self._column_type(name, node)
        if self.clause not in _BY_ALIAS or name not in self._aliases:
            return found
        expression, data_type = self._aliases[name]
        is_itself = isinstance(expression, exp.Column) and expression.name.casefold() == name
        is_clear = found is None or is_itself or (self.clause == "ORDER BY" and self.is_bare)
        if not is_clear:
            raise NotPortable(f"{sql_excerpt(node)} is both a column and an alias")
        return data_type

    def _column_type(self, name: str, written: exp.Expr | str) -> pa.DataType | None:
        if name in self._using:
            return self._using[name]
        every = [column for source in self.sources for column in source.columns]
        return _unique_column_type(every, name, written)

    def _outer_column_type(self, node: exp.Column) -> pa.DataType | None:
        found = None if self._outer is None else self._outer._lookup(node)
        if found is not None and self.clause != "WHERE":
            raise NotPortable("a column of the outer query is portable in WHERE only")
        return found

    def star(self, item: exp.Expr) -> list[Column]:
        """The columns a star stands for."""
        star = item if isinstance(item, exp.Star) else item.this
        if any(star.args.get(key) for key in ("except_", "replace", "rename", "ilike")):
            raise NotPortable("a star with EXCEPT may differ between engines")
        name = item.table.casefold() if isinstance(item, exp.Column) else ""
        found = [
            column
            for source in self.sources
            if not name or source.name == name
            for column in source.columns
        ]
        if not found:
            raise NotPortable(f"there is nothing for {sql_excerpt(item)} to stand for")
        if self._using:
            if name:
                raise NotPortable("a star of one table after USING may differ between engines")
            found = self._without_using_twins(found)
        if not all(column for column, _ in found):
            raise NotPortable("a star stands for a column without a name")
        if any(kind == FOREIGN for _, kind in found):
            raise NotPortable("a star stands for a column of a type Spark does not have")
        return found

    def _without_using_twins(self, columns: Sequence[Column]) -> list[Column]:
        """The columns with those of USING once; Spark has them first, DuckDB where they are."""
        seen: set[str] = set()
        found = []
        for at, (name, kind) in enumerate(columns):
            folded = name.casefold()
            if folded not in self._using:
                found.append((name, kind))
            elif folded not in seen:
                if at != list(self._using).index(folded):
                    raise NotPortable("a star after USING gives columns in different orders")
                seen.add(folded)
                found.append((name, self._using[folded]))
        return found

    def join_using(self, source: FromItem, names: Sequence[str], side: str, kind: str) -> None:
        """Join on columns of the same name."""
        if self._using or kind in ("SEMI", "ANTI"):
            raise NotPortable("USING in this place may differ between engines")
        found = {}
        for name in names:
            said = exp.to_identifier(name)
            left = self._column_type(name.casefold(), said)
            right = _unique_column_type(source.columns, name.casefold(), said)
            if left is None or left != right:
                raise NotPortable(f"USING ({name}) takes columns of one type")
            found[name.casefold()] = left
        self.sources.append(source)
        self._using = found

    def subquery(self, query: exp.Expr, *, single: bool) -> pa.DataType:
        """The type of the only column of a query in an expression."""
        if not single and self.clause not in ("WHERE", "HAVING"):
            raise NotPortable("EXISTS and IN with a query are portable in WHERE only")
        found, borrowed = self._subquery_columns(query)
        compared = (exp.EQ,) if single else _COMPARED
        for node in borrowed:
            if not _is_compared(node, compared):
                raise NotPortable(f"{sql_excerpt(node)} of the outer query is not plainly compared")
        if borrowed and single and not _is_total_aggregate(query):
            raise NotPortable("a query for one value that depends on the row has to aggregate")
        if borrowed and not _is_simple(query):
            raise NotPortable("a query that depends on the row may differ between engines")
        if len(found) != 1 and not isinstance(query.parent, exp.Exists):
            raise NotPortable("a query in an expression gives one column")
        return found[0][1]

    def _subquery_columns(self, query: exp.Expr) -> tuple[list[Column], list[exp.Column]]:
        """The columns of an inner query, and the columns of this one that it uses."""
        mark = _OuterColumns(self)
        return self._inner(query, mark), mark.used


class _OuterColumns(VisibleColumns):
    """A query as those inside it see it; remembers what they use."""

    def __init__(self, around: VisibleColumns):
        super().__init__(around.parameters, around.sources, None, around._inner)
        self._around = around
        self.used: list[exp.Column] = []

    def _lookup(self, node: exp.Column) -> pa.DataType | None:
        found = self._around._lookup(node)
        if found is not None:
            self.used.append(node)
        return found


def _unique_column_type(
    columns: Sequence[Column], name: str, written: exp.Expr | str
) -> pa.DataType | None:
    alike = [kind for column, kind in columns if column.casefold() == name]
    if len(alike) > 1:
        text = written if isinstance(written, str) else sql_excerpt(written)
        raise NotPortable(f"the column {text} is in several tables")
    return alike[0] if alike else None


def _is_compared(node: exp.Expr, kinds: tuple[type[exp.Expr], ...]) -> bool:
    """Whether the column stands on one side of a comparison that all rows have to meet."""
    above = node.parent
    if not isinstance(above, kinds):
        return False
    while isinstance(above.parent, (exp.And, exp.Paren)):
        above = above.parent
    return isinstance(above.parent, exp.Where)


def _is_total_aggregate(query: exp.Expr) -> bool:
    """Whether the query gives one row whatever it reads: aggregates without GROUP BY."""
    if not isinstance(query, exp.Select) or query.args.get("group") is not None:
        return False
    return all(item.find(exp.AggFunc) is not None for item in query.expressions)


def _is_simple(query: exp.Expr) -> bool:
    plain = ("from_", "expressions", "where", "joins")
    return isinstance(query, exp.Select) and not any(
        value and key not in plain for key, value in query.args.items()
    )
