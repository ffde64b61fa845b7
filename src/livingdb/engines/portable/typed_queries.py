"""The columns of queries: FROM, joins, WITH, set operations, grouping and order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.grouping_sets import Sets, expressions_of, sets_of
from livingdb.engines.portable.recursive_queries import (
    find_recursion,
    own_tables,
    recursion_of,
)
from livingdb.engines.portable.signature_matching import NotPortable, sql_excerpt
from livingdb.engines.portable.type_annotations import annotate_type
from livingdb.engines.portable.typed_expressions import ExpressionTyper, require_common
from livingdb.engines.portable.visible_columns import (
    FOREIGN,
    Column,
    FromItem,
    VisibleColumns,
)
from livingdb.engines.spark_types import kind_of, spark_type

__all__ = ["columns_of"]

_SELECT = (
    "with_", "expressions", "from_", "joins", "where", "group", "having", "order", "limit",
    "offset", "distinct",
)  # fmt: skip
_GROUP = ("expressions", "rollup", "cube", "grouping_sets")
_JOINS = {
    ("", ""), ("", "INNER"), ("", "CROSS"), ("LEFT", ""), ("LEFT", "OUTER"), ("RIGHT", ""),
    ("RIGHT", "OUTER"), ("FULL", ""), ("FULL", "OUTER"), ("LEFT", "SEMI"), ("LEFT", "ANTI"),
    ("", "SEMI"), ("", "ANTI"),
}  # fmt: skip


def columns_of(
    query: exp.Expr, schemas: Mapping[str, pa.Schema], parameters: Mapping[str, object]
) -> list[Column]:
    """The columns a query gives; raises `NotPortable`."""
    tables = {name.casefold(): _stored_columns(schema) for name, schema in schemas.items()}
    return _QueryTyper(tables, parameters).columns(query)


def _stored_columns(schema: pa.Schema) -> list[Column]:
    return [(field.name, spark_type(field.type) or FOREIGN) for field in schema]


class _QueryTyper:
    """Types queries that see the same tables and names of WITH clauses."""

    def __init__(self, tables: Mapping[str, list[Column]], parameters: Mapping[str, object]):
        self._tables = dict(tables)
        self._parameters = parameters

    def columns(self, query: exp.Expr, outer: VisibleColumns | None = None) -> list[Column]:
        """The columns a query gives; `outer` is what a query in an expression sees as well."""
        inner = self._with_ctes(query)
        if isinstance(query, exp.Subquery):
            _check_parts(query, ("this", "with_"), "this way to nest queries")
            return inner.columns(query.this, outer)
        if isinstance(query, exp.SetOperation):
            return inner._set_operation_columns(query)
        if isinstance(query, exp.Select):
            return inner._select_columns(query, outer)
        raise NotPortable("only SELECT and what joins several of them is portable")

    def _with_ctes(self, query: exp.Expr) -> _QueryTyper:
        clause = query.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive") and query.parent is not None:
            raise NotPortable("WITH RECURSIVE inside a query may differ between engines")
        recursive = list(find_recursion(clause)) if clause.args.get("recursive") else []
        inner = _QueryTyper(self._tables, self._parameters)
        for part in clause.expressions:
            is_recursive = any(part is each for each in recursive)
            first = recursion_of(part).anchor if is_recursive else part.this
            named = _aliased_columns(inner.columns(first), part.args.get("alias"))
            inner._tables[part.alias.casefold()] = named
            if is_recursive:
                annotate_type(part, pa.struct(named))
                inner._check_step(part, named)
        return inner

    def _check_step(self, part: exp.CTE, first: Sequence[Column]) -> None:
        """`NotPortable` if what a recursive query makes of its rows is not plainly alike."""
        step = recursion_of(part).step
        for key in ("group", "having", "order", "limit", "offset", "with_"):
            if step.args.get(key) is not None:
                raise NotPortable(f"{key.strip('_').upper()} in a recursive query may differ")
        if step.find(exp.AggFunc, exp.Window) is not None:
            raise NotPortable("aggregates and windows in a recursive query are not Spark's")
        joins = step.args.get("joins") or ()
        plain = [join for join in joins if not join.side and join.kind not in ("SEMI", "ANTI")]
        places = {id(place) for place in (step.args.get("from_"), *plain)}
        is_turned = any(join.side.upper() in ("RIGHT", "FULL") for join in joins)
        if is_turned or any(id(table.parent) not in places for table in own_tables(part, step)):
            raise NotPortable("a recursive query reads itself in a place that may differ")
        if [kind for _, kind in self.columns(step)] != [kind for _, kind in first]:
            raise NotPortable("the parts of a recursive query are of different types")

    def _set_operation_columns(self, query: exp.SetOperation) -> list[Column]:
        parts = ("with_", "this", "expression", "distinct", "order", "limit", "offset")
        _check_parts(query, parts, "this way to combine queries")
        left, right = self.columns(query.this), self.columns(query.expression)
        if len(left) != len(right):
            raise NotPortable(f"{query.key.upper()} combines queries with different columns")
        found = [
            (name, require_common([one, other], query.key.upper()))
            for (name, one), (_, other) in zip(left, right, strict=True)
        ]
        is_plain = isinstance(query, exp.Union) and not query.args.get("distinct")
        if not is_plain and any(kind_of(kind) in ("array", "struct", "map") for _, kind in found):
            raise NotPortable(f"{query.key.upper()} of nested values may differ between engines")
        visible = VisibleColumns(self._parameters, [FromItem("", found)], None, self._inner)
        self._check_order_by(query, visible, found)
        return found

    def _inner(self, query: exp.Expr, outer: VisibleColumns) -> list[Column]:
        return self.columns(query, outer)

    def _select_columns(self, query: exp.Select, outer: VisibleColumns | None) -> list[Column]:
        _check_parts(query, _SELECT, "this clause")
        visible = VisibleColumns(self._parameters, [], outer, self._inner)
        expressions = ExpressionTyper(visible)
        self._from(query, visible, expressions)
        where = query.args.get("where")
        if where is not None:
            visible.clause = "WHERE"
            expressions.check_condition(where.this, "WHERE")
        visible.sets = sets_of(query)
        visible.clause = "SELECT"
        found: list[Column] = []
        for item in query.expressions:
            if item.is_star:
                found += visible.star(item)
            else:
                found.append((_name(item), expressions.type_of(item)))
                visible.give_alias(item, found[-1][1])
        self._check_group_by(query, visible, expressions, len(found))
        distinct = query.args.get("distinct")
        if distinct is not None:
            if distinct.args.get("on") is not None:
                raise NotPortable("DISTINCT ON is not Spark's")
            if any(kind_of(kind) in ("array", "struct", "map") for _, kind in found):
                raise NotPortable("DISTINCT of nested values may differ between engines")
        self._check_order_by(query, visible, found)
        return found

    def _from(
        self, query: exp.Select, visible: VisibleColumns, expressions: ExpressionTyper
    ) -> None:
        clause = query.args.get("from_")
        if clause is None:
            return
        visible.sources.append(self._source(clause.this))
        visible.clause = "ON"
        for join in query.args.get("joins") or ():
            self._join(join, visible, expressions)

    def _join(self, join: exp.Join, visible: VisibleColumns, expressions: ExpressionTyper) -> None:
        _check_parts(join, ("this", "side", "kind", "on", "using"), "this kind of join")
        side, kind = join.side.upper(), join.kind.upper()
        if (side, kind) not in _JOINS:
            raise NotPortable(f"a {side} {kind} JOIN may differ between engines")
        source = self._source(join.this)
        using = [name.name for name in join.args.get("using") or ()]
        if using:
            visible.join_using(source, using, side, kind)
            return
        visible.sources.append(source)
        condition = join.args.get("on")
        if condition is None and (side or kind in ("SEMI", "ANTI")):
            raise NotPortable(f"a {side or kind} JOIN without ON may differ between engines")
        if condition is not None:
            expressions.check_condition(condition, "ON")
        if kind in ("SEMI", "ANTI"):
            visible.sources.pop()

    def _source(self, node: exp.Expr) -> FromItem:
        alias = node.args.get("alias")
        if isinstance(node, exp.Table):
            _check_parts(node, ("this", "alias"), "this table")
            if not isinstance(node.this, exp.Identifier):
                raise NotPortable("a function in FROM may differ between engines")
            columns = self._tables.get(node.name.casefold())
            if columns is None:
                raise NotPortable(f"there is no table {node.name!r}")
        elif isinstance(node, exp.Subquery):
            _check_parts(node, ("this", "alias", "with_"), "this way to nest queries")
            columns = self._with_ctes(node).columns(node.this)
        elif isinstance(node, exp.Values):
            columns = self._values(node)
        else:
            raise NotPortable(f"{node.key.upper()} in FROM may differ between engines")
        return FromItem(node.alias_or_name.casefold(), _aliased_columns(columns, alias))

    def _values(self, node: exp.Values) -> list[Column]:
        expressions = ExpressionTyper(VisibleColumns(self._parameters, [], None, self._inner))
        rows = [
            [expressions.type_of(item) for item in row.expressions]
            if isinstance(row, exp.Tuple)
            else [expressions.type_of(row)]
            for row in node.expressions
        ]
        if not rows or len({len(row) for row in rows}) != 1:
            raise NotPortable("the rows of VALUES differ in length")
        types = [require_common(column, "VALUES") for column in zip(*rows, strict=True)]
        found = [(f"col{at}", data_type) for at, data_type in enumerate(types, 1)]
        annotate_type(node, pa.struct(found))
        return found

    def _check_group_by(
        self, query: exp.Select, visible: VisibleColumns, expressions: ExpressionTyper, width: int
    ) -> None:
        group, having = query.args.get("group"), query.args.get("having")
        visible.clause = "GROUP BY"
        if group is not None:
            _check_parts(group, _GROUP, "this way to group")
            if visible.sets is not None:
                _check_sets(query, visible.sets)
            for part in expressions_of(group):
                if not _is_place(part, width):
                    expressions.key_type(part, "GROUP BY")
        visible.clause = "HAVING"
        if having is not None:
            expressions.check_condition(having.this, "HAVING")

    def _check_order_by(
        self, query: exp.Expr, visible: VisibleColumns, found: Sequence[Column]
    ) -> None:
        order = query.args.get("order")
        visible.clause = "ORDER BY"
        expressions = ExpressionTyper(visible)
        for item in order.expressions if order is not None else ():
            if not isinstance(item, exp.Ordered) or item.args.get("with_fill") is not None:
                raise NotPortable("this order may differ between engines")
            if not _is_place(item.this, len(found)):
                visible.is_bare = isinstance(item.this, exp.Column)
                expressions.key_type(item.this, "ORDER BY")
        for part in ("limit", "offset"):
            clause = query.args.get(part)
            if clause is None:
                continue
            count = clause.expression
            is_number = isinstance(count, exp.Literal) and count.name.isdecimal()
            if not isinstance(clause, (exp.Limit, exp.Offset)) or not is_number:
                raise NotPortable(f"{part.upper()} takes a number here")
            if order is None and query.parent is not None:
                raise NotPortable(f"{part.upper()} without ORDER BY inside a query takes any rows")


def _check_sets(query: exp.Select, sets: Sets) -> None:
    """`NotPortable` for sets whose columns are not as many as they are written."""
    written = sets_of(query, by_alias=False)
    if not sets.columns or written is None or len(written.columns) != len(sets.columns):
        raise NotPortable("sets of these columns may differ between engines")


def _name(item: exp.Expr) -> str:
    """What a column of the result can be called by; nothing, if engines call it differently."""
    return str(item.alias_or_name) if isinstance(item, (exp.Alias, exp.Column, exp.Dot)) else ""


def _is_place(node: exp.Expr, width: int) -> bool:
    """Whether the node stands for a column of the result by its number."""
    is_number = isinstance(node, exp.Literal) and not node.is_string
    if is_number and not (node.name.isdecimal() and 1 <= int(node.name) <= width):
        raise NotPortable(f"{sql_excerpt(node)} is not the number of a column")
    return is_number


def _aliased_columns(columns: Sequence[Column], alias: exp.Expr | None) -> list[Column]:
    names = [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return list(columns)
    if len(names) != len(columns):
        raise NotPortable("an alias names more or fewer columns than there are")
    return [(name, kind) for name, (_, kind) in zip(names, columns, strict=True)]


def _check_parts(node: exp.Expr, allowed: Sequence[str], what: str) -> None:
    """`NotPortable` if the node has parts beyond those."""
    for key, value in node.args.items():
        if value not in (None, False, []) and key not in allowed:
            raise NotPortable(f"{what} ({key.strip('_')}) may differ between engines")
