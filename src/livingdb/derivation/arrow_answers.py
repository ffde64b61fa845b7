"""Select-project-join queries over at most two small tables, answered in Arrow without an engine.

Plain columns of the rows of one table, or of two that are joined where columns are equal, for
which comparisons of columns with constants hold.  Only types whose comparison is the same
everywhere count: integers, texts and dates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from livingdb.derivation.compiler.query_trees import conjuncts
from livingdb.derivation.plan import Relation
from livingdb.sql.comparison import comparison_of

__all__ = ["ArrowQuery", "arrow_query"]

MOST_ROWS = 50_000
"""Of a table, beyond which an engine is quicker."""
_CLAUSES = {"expressions", "from_", "joins", "where"}
_COMPARE: dict[str, Any] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "<": pc.less,
    "<=": pc.less_equal,
}

ColumnRef = tuple[str, str]
"""A table, as the query calls it, and a column of it."""


class _NotSimpleError(Exception):
    """The query is not of the simple form."""


@dataclass(frozen=True)
class _Test:
    """What has to hold of a column: a comparison, or without one whether it is null."""

    place: ColumnRef
    operator: str | None
    value: Any

    def mask(self, column: pa.ChunkedArray) -> pa.ChunkedArray | None:
        """Where it holds; None if it is not told here."""
        if self.operator is None:
            return pc.is_null(column) if self.value else pc.is_valid(column)
        kind = column.type
        suits = pa.types.is_string(kind) if isinstance(self.value, str) else _is_int(kind)
        if not suits:
            return None
        try:
            value = pa.scalar(self.value, kind)
        except (pa.ArrowInvalid, OverflowError):
            return None
        return _COMPARE[self.operator](column, value)


@dataclass(frozen=True)
class ArrowQuery:
    """A query of the simple form: what its tables are, what it tests, joins and shows."""

    tables: Mapping[str, str]
    tests: Sequence[_Test]
    pairs: Sequence[tuple[str, str]]
    shown: Mapping[str, ColumnRef]

    def answer(self, relations: Mapping[str, Relation]) -> pa.Table | None:
        """The rows the query gives; None if an engine has to."""
        found: dict[str, pa.Table] = {}
        for alias, name in self.tables.items():
            rows = relations[name]
            if not isinstance(rows, pa.Table) or rows.num_rows > MOST_ROWS:
                return None
            for test in self.tests:
                if test.place[0] != alias:
                    continue
                mask = test.mask(rows.column(test.place[1]))
                if mask is None:
                    return None
                rows = rows.filter(mask)
            found[alias] = rows
        if len(found) == 1:
            (rows,) = found.values()
            columns = [rows.column(column) for _, column in self.shown.values()]
            return pa.Table.from_arrays(columns, names=list(self.shown))
        return self._join(*found.values())

    def _join(self, left: pa.Table, right: pa.Table) -> pa.Table | None:
        for one, other in self.pairs:
            kinds = left.schema.field(one).type, right.schema.field(other).type
            if kinds[0] != kinds[1] or not _is_exact(kinds[0]):
                return None
        first, _ = self.tables
        keys = {other: one for one, other in self.pairs}
        needed: dict[str, tuple[bool, str]] = {}
        for name, (alias, column) in self.shown.items():
            is_left = alias == first
            if not is_left and column in keys:
                is_left, column = True, keys[column]
            needed[name] = (is_left, column)
        joined = _join_side(left, "l", {one for one, _ in self.pairs}, needed, True).join(
            _join_side(right, "r", set(keys), needed, False),
            keys=[f"l{one}" for one, _ in self.pairs],
            right_keys=[f"r{other}" for _, other in self.pairs],
            join_type="inner",
            use_threads=False,
        )
        columns = [
            joined.column(("l" if is_left else "r") + column) for is_left, column in needed.values()
        ]
        return pa.Table.from_arrays(columns, names=list(needed))


def _join_side(
    rows: pa.Table,
    prefix: str,
    keys: set[str],
    needed: Mapping[str, tuple[bool, str]],
    left: bool,
) -> pa.Table:
    """The columns of one side of a join that are needed, under names no other side has."""
    names = sorted(keys | {column for is_left, column in needed.values() if is_left is left})
    return rows.select(names).rename_columns([prefix + name for name in names])


def arrow_query(query: exp.Query) -> ArrowQuery | None:
    """The query, if it is of the simple form."""
    try:
        return _parse_query(query)
    except _NotSimpleError:
        return None


def _parse_query(query: exp.Query) -> ArrowQuery:
    given = {name for name, value in query.args.items() if value}
    if not isinstance(query, exp.Select) or not given <= _CLAUSES:
        raise _NotSimpleError
    tables: dict[str, str] = {}
    tests: list[_Test] = []
    pairs: list[tuple[ColumnRef, ColumnRef]] = []
    _add_table(tables, query.args["from_"].this if "from_" in given else None)
    for join in query.args.get("joins") or ():
        if {name for name, value in join.args.items() if value} != {"this", "on"}:
            raise _NotSimpleError
        _add_table(tables, join.this)
        _add_conditions(join.args["on"], tests, pairs)
    where = query.args.get("where")
    if where is not None:
        _add_conditions(where.this, tests, pairs)
    shown = {item.alias_or_name: _place(item.unalias()) for item in query.expressions}
    joined = [place for pair in pairs for place in pair]
    places = [*shown.values(), *(test.place for test in tests), *joined]
    named = len(shown) == len(query.expressions) and all(alias in tables for alias, _ in places)
    if not named or len(tables) > 2 or (len(tables) == 2) != bool(pairs):
        raise _NotSimpleError
    return ArrowQuery(tables, tests, _equal_columns(list(tables), pairs), shown)


def _equal_columns(
    tables: Sequence[str], pairs: Sequence[tuple[ColumnRef, ColumnRef]]
) -> list[tuple[str, str]]:
    """The columns that are equal, those of the first table first, and none of them twice."""
    found = []
    for one, other in pairs:
        first, second = (one, other) if one[0] == tables[0] else (other, one)
        if (first[0], second[0]) != tuple(tables):
            raise _NotSimpleError
        found.append((first[1], second[1]))
    if any(len(set(side)) < len(found) for side in zip(*found, strict=True)):
        raise _NotSimpleError
    return found


def _add_table(tables: dict[str, str], table: exp.Expr | None) -> None:
    if not isinstance(table, exp.Table) or table.db or not isinstance(table.this, exp.Identifier):
        raise _NotSimpleError
    if {name for name, value in table.args.items() if value} - {"this", "alias"}:
        raise _NotSimpleError
    if table.alias_or_name in tables:
        raise _NotSimpleError
    tables[table.alias_or_name] = table.name


def _add_conditions(
    condition: exp.Expr, tests: list[_Test], pairs: list[tuple[ColumnRef, ColumnRef]]
) -> None:
    for part in (each.unnest() for each in conjuncts(condition)):
        found = comparison_of(part)
        if found is not None and found.operator == "=" and isinstance(found.operand, exp.Column):
            pairs.append((_place(found.column), _place(found.operand)))
        else:
            tests.append(_parse_test(part))


def _parse_test(condition: exp.Expr) -> _Test:
    inner, wanted = condition, True
    if isinstance(inner, exp.Not):
        inner, wanted = inner.this.unnest(), False
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return _Test(_place(inner.this), None, wanted)
    found = comparison_of(condition)
    if found is None or found.operator not in _COMPARE:
        raise _NotSimpleError
    return _Test(_place(found.column), found.operator, _constant(found.operand))


def _constant(node: exp.Expr) -> int | str:
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    if not isinstance(node, exp.Literal) or (sign < 0 and node.is_string):
        raise _NotSimpleError
    if node.is_string:
        return str(node.this)
    if not node.this.isdigit():
        raise _NotSimpleError
    return sign * int(node.this)


def _place(node: exp.Expr) -> ColumnRef:
    if not isinstance(node, exp.Column) or not node.table or node.args.get("db"):
        raise _NotSimpleError
    return node.table, node.name


def _is_int(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind))


def _is_exact(kind: pa.DataType) -> bool:
    return _is_int(kind) or bool(pa.types.is_string(kind) or pa.types.is_date32(kind))
