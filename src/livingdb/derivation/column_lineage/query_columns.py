"""Column lineage of a query: what its columns are computed from, and what else it looks at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.column_lineage.normalize_query import (
    Untraceable,
    normalize_query,
    own_nodes,
    relations_of,
    without_alias,
    without_parentheses,
)

__all__ = ["Column", "QueryColumns", "columns_of_query"]

Column = tuple[str, str]
"""A table and one of its columns."""

_USES = ("filter", "join", "group", "window", "order", "set")


@dataclass(frozen=True)
class QueryColumns:
    """For each column of an answer, in order, those it is computed from.

    `used` are those that decide which rows there are, and in what groups or order: by "filter",
    "join", "group", "window", "order", and "set" for what EXCEPT takes away.
    """

    values: Sequence[frozenset[Column]]
    used: Mapping[str, frozenset[Column]]


def columns_of_query(query: exp.Query, schemas: Mapping[str, pa.Schema]) -> QueryColumns:
    """The columns behind those of a query; all of all tables if more cannot be said."""
    try:
        return _ColumnTracer(normalize_query(query, schemas), schemas).trace()
    except Untraceable:
        every = frozenset(
            (name, field) for name, schema in schemas.items() for field in schema.names
        )
        return QueryColumns([every] * len(query.selects), {})


class _ColumnTracer:
    def __init__(self, tree: exp.Query, schemas: Mapping[str, pa.Schema]):
        self._tree = tree
        self._schemas = schemas
        self._relations: dict[str, dict[str, frozenset[Column]]] = {}
        self._nodes: dict[str, exp.Expr] = {}
        self._used: dict[str, set[Column]] = {use: set() for use in _USES}
        for select in tree.find_all(exp.Select):
            for node in (*(n for n, _ in relations_of(select)), *_laterals(select)):
                self._nodes[node.alias] = node

    def trace(self) -> QueryColumns:
        values = self._outputs(self._tree)
        for select in self._tree.find_all(exp.Select):
            self._collect_uses(select)
        for operation in self._tree.find_all(exp.Except):
            for some in self._outputs(operation.expression):
                self._used["set"] |= some
        used = {use: frozenset(some) for use, some in self._used.items() if some}
        return QueryColumns(values, used)

    def _collect_uses(self, select: exp.Select) -> None:
        for clause in ("where", "having", "qualify"):
            self._add_use("filter", select.args.get(clause))
        for _, join in relations_of(select):
            self._add_use("join", None if join is None else join.args.get("on"))
        self._add_use("group", select.args.get("group"))
        if select.args.get("limit") is not None:
            order = select.args.get("order")
            for item in order.expressions if order is not None else ():
                self._used["order"] |= self._order_columns(select, item.this)
        for window in own_nodes(select, exp.Window):
            for part in window.args.get("partition_by") or ():
                self._add_use("window", part)
            self._add_use("window", window.args.get("order"))

    def _order_columns(self, select: exp.Select, item: exp.Expr) -> frozenset[Column]:
        """What an ORDER BY item is computed from; it may be the name of one of the items."""
        if isinstance(item, exp.Column) and not item.table:
            names = [e.alias_or_name.casefold() for e in select.expressions]
            if item.name.casefold() in names:
                return self._outputs(select)[names.index(item.name.casefold())]
        return self._source_columns(item)

    def _add_use(self, use: str, expression: exp.Expr | None) -> None:
        if expression is not None:
            self._used[use] |= self._source_columns(expression)

    # --- values ---------------------------------------------------------------------------------

    def _outputs(self, query: exp.Expr) -> list[frozenset[Column]]:
        query = without_parentheses(query)
        if isinstance(query, exp.SetOperation):
            left = self._outputs(query.this)
            if isinstance(query, exp.Except):
                return left
            right = self._outputs(query.expression)
            return [one | other for one, other in zip(left, right, strict=True)]
        if not isinstance(query, exp.Select):
            raise Untraceable(type(query).__name__)
        return [
            self._source_columns(without_alias(item), values=True) for item in query.expressions
        ]

    def _source_columns(self, expression: exp.Expr, values: bool = False) -> frozenset[Column]:
        """The columns of tables an expression is computed from."""
        found: set[Column] = set()
        for node in _parts(expression, values):
            if isinstance(node, exp.Column):
                found |= self._column_sources(node)
            else:
                found |= self._outputs(node)[0]
        return frozenset(found)

    def _column_sources(self, column: exp.Column) -> frozenset[Column]:
        if not column.table:
            return frozenset()
        relation = self._relation(column.table)
        return relation.get(column.name.casefold(), frozenset())

    def _relation(self, name: str) -> dict[str, frozenset[Column]]:
        if name not in self._relations:
            if name not in self._nodes:
                raise Untraceable(f"there is no relation {name}")
            self._relations[name] = self._relation_columns(self._nodes[name])
        return self._relations[name]

    def _relation_columns(self, node: exp.Expr) -> dict[str, frozenset[Column]]:
        alias = node.args.get("alias")
        given = [column.name.casefold() for column in (alias.columns if alias is not None else ())]
        if isinstance(node, exp.Lateral):
            return dict.fromkeys(given, self._source_columns(node.this))
        if isinstance(node, exp.Table):
            names = self._schemas[node.name].names
            made = [frozenset([(node.name, name)]) for name in names]
        elif isinstance(node, exp.Subquery):
            names = [item.alias_or_name for item in node.this.selects]
            made = self._outputs(node.this)
        else:
            raise Untraceable(type(node).__name__)
        shown = given or [name.casefold() for name in names]
        return dict(zip(shown, made, strict=True))


def _laterals(select: exp.Select) -> list[exp.Expr]:
    return list(select.args.get("laterals") or ())


def _parts(node: exp.Expr, values: bool) -> Iterator[exp.Expr]:
    """The columns and the queries of one value in an expression.

    `values`: without what only says which rows are counted, as a window's partition does.
    """
    if isinstance(node, (exp.Column, exp.Query)):
        yield node
        return
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")):
        if isinstance(node, exp.In):
            yield from _parts(node.this, values)
            yield node.args["query"]
        return
    if isinstance(node, exp.Window) and values:
        yield from _parts(node.this, values)
        return
    for child in node.iter_expressions():
        yield from _parts(child, values)
