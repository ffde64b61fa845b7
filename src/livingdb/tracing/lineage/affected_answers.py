"""Forward row lineage of a query: the answer rows that given source rows contribute to.

Of a table that stands in the query, once or several times, one occurrence at a time is held to
the rows in question; what the query then gives are rows that they have a part in.  Conditions on
groups and limits are left out, since they are about more rows than these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.column_lineage.normalize_query import (
    Untraceable,
    is_correlated,
    is_grouped,
    normalize_query,
)
from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.weighted_rows import distinct_rows
from livingdb.engines.request import Request, Source
from livingdb.errors import InvalidData, Unsupported
from livingdb.tracing.lineage.from_clause import partitions_of
from livingdb.tracing.lineage.trace_query import Answer

__all__ = ["affected_rows"]

_FEW = "few"


def affected_rows(
    query: exp.Query,
    tables: Mapping[str, Source],
    name: str,
    rows: pa.Table,
    positions: Sequence[int],
    answer: Answer,
) -> pa.Table | None:
    """The columns at these positions of the rows that rows of a table have a part in.

    They may hold values that no row of the whole answer has.  None if it may be any row.
    """
    try:
        tree = normalize_query(query, {table: source.schema for table, source in tables.items()})
        places = [t for t in tree.find_all(exp.Table) if t.name == name]
        asked = [
            made for place in range(len(places)) for made in _restricted_queries(tree, name, place)
        ]
        parts = []
        for made in asked:
            if made is None:
                return None
            parts.append(_answer_rows(made, tables, rows, positions, answer))
    except (Untraceable, InvalidData, Unsupported):
        return None
    names = [f"c{n}" for n in range(len(positions))]
    named = [part.rename_columns(names) for part in parts if part.num_rows]
    if not named:
        return pa.table({name: pa.nulls(0) for name in names})
    kinds = named[0].schema
    return distinct_rows(pa.concat_tables([part.cast(kinds) for part in named]))


def _answer_rows(
    query: exp.Query,
    tables: Mapping[str, Source],
    rows: pa.Table,
    positions: Sequence[int],
    answer: Answer,
) -> pa.Table:
    used = {table.name for table in query.find_all(exp.Table)}
    sources = {table: source for table, source in tables.items() if table in used}
    if _FEW in used:
        sources[_FEW] = Source(rows)
    found = answer(Request(query, sources))
    return found.select(list(positions))


def _restricted_queries(tree: exp.Query, name: str, place: int) -> Iterator[exp.Query | None]:
    """The query with one occurrence of a table held to few rows; None if all rows depend on it."""
    whole, made = tree.copy(), tree.copy()
    pristine = [t for t in whole.find_all(exp.Table) if t.name == name][place]
    table = [t for t in made.find_all(exp.Table) if t.name == name][place]
    if not _contributes(table):
        return
    value = _value_query(table)
    if value is not None:
        if not is_correlated(value):
            yield None
        return
    table.set("this", exp.to_identifier(_FEW, quoted=True))
    below: exp.Expr = table
    node: exp.Expr | None = table.parent
    model: exp.Expr | None = pristine.parent
    while node is not None and model is not None:
        above, above_model = node.parent, model.parent
        if isinstance(node, exp.Query):
            for clause in ("having", "limit", "offset", "qualify"):
                node.set(clause, None)
        if isinstance(node, exp.Select) and isinstance(model, exp.Select):
            _require_rows(node, below)
            partitions = list(partitions_of(model))
            if partitions and any(not part.expressions for part in partitions):
                yield None
                return
            if partitions:
                spread = _partition_query(node, model, partitions)
                if above is None:
                    yield spread
                    return
                node.replace(spread)
                node = spread
        below, node, model = node, above, above_model
    yield made


def _contributes(table: exp.Table) -> bool:
    """Whether an answer has rows because of the table's, and not in spite of them."""
    node: exp.Expr = table
    negations = 0
    while node.parent is not None:
        above = node.parent
        if isinstance(above, exp.Except) and above.expression is node:
            return False
        if isinstance(above, exp.Join) and str(above.kind).upper() == "ANTI":
            return False
        if isinstance(above, exp.Not):
            negations += 1
        if isinstance(above, exp.All):
            return False
        if isinstance(above, exp.Select):
            if negations % 2:
                return False
            negations = 0
        node = above
    return negations % 2 == 0


def _value_query(table: exp.Table) -> exp.Expr | None:
    """The query of one value that reads the table, if any does."""
    node: exp.Expr | None = table
    while node is not None:
        above = node.parent
        around = (exp.From, exp.Join, exp.In, exp.Exists, exp.SetOperation, exp.Subquery)
        if isinstance(node, exp.Subquery) and above is not None and not isinstance(above, around):
            return node
        node = above
    return None


def _require_rows(select: exp.Select, node: exp.Expr) -> None:
    """Leave out the rows that outer joins add where there is no row of what a node is in."""
    joins = select.args.get("joins") or []
    mine = next((n for n, join in enumerate(joins) if node is join or _is_inside(node, join)), None)
    clause = select.args.get("from_")
    if mine is None and (clause is None or not _is_inside(node, clause)):
        return
    for number, join in enumerate(joins):
        side = str(join.side).upper()
        if number == mine:
            kept = {"LEFT": None, "FULL": "RIGHT"}
        elif mine is None or number > mine:
            kept = {"RIGHT": None, "FULL": "LEFT"}
        else:
            continue
        if side in kept and str(join.kind).upper() not in ("SEMI", "ANTI"):
            join.set("side", kept[side])
            if kept[side] is None:
                join.set("kind", None)


def _is_inside(node: exp.Expr, other: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None:
        if above is other:
            return True
        above = above.parent
    return False


def _partition_query(
    few: exp.Select, whole: exp.Select, partitions: Sequence[exp.Expr]
) -> exp.Select:
    """A SELECT with windows, of the rows of the partitions that some rows are in."""
    if is_grouped(whole):
        raise Untraceable("windows over groups")
    made = whole.copy()
    conditions: list[exp.Expr] = []
    for number, part in enumerate(partitions):
        inner = exp.Select()
        for clause in ("from_", "joins", "laterals", "where"):
            value = few.args.get(clause)
            if isinstance(value, list):
                inner.set(clause, [item.copy() for item in value])
            elif value is not None:
                inner.set(clause, value.copy())
        items = [trees.with_alias(e.copy(), f"p{n}") for n, e in enumerate(part.expressions)]
        inner.set("expressions", items)
        alias = f"q{number}"
        same = [
            exp.NullSafeEQ(this=exp.Paren(this=e.copy()), expression=trees.column(alias, f"p{n}"))
            for n, e in enumerate(part.expressions)
        ]
        named = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
        query = exp.select(exp.Literal.number(1)).from_(exp.Subquery(this=inner, alias=named))
        conditions.append(exp.Exists(this=query.where(trees.and_all(same))))
    either = conditions[0]
    for condition in conditions[1:]:
        either = exp.Or(this=either, expression=condition)
    where = made.args.get("where")
    parts = [either] if where is None else [where.this, either]
    made.set("where", exp.Where(this=trees.and_all(parts)))
    for clause in ("limit", "offset", "qualify"):
        made.set(clause, None)
    return made
