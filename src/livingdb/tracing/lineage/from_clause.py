"""The rows in FROM of a SELECT, as a query that can be asked for what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from livingdb.derivation.column_lineage.normalize_query import (
    Untraceable,
    has_aggregate,
    own_nodes,
    relations_of,
    without_alias,
)
from livingdb.derivation.compiler import query_trees as trees
from livingdb.tables.free_names import inner_name
from livingdb.tracing.lineage.subqueries import InnerQuery

__all__ = [
    "HERE",
    "FromRows",
    "add_condition",
    "can_be_missing",
    "from_rows",
    "group_keys",
    "mark_present",
    "merge_inner_query",
    "partitions_of",
    "table_alias",
]

HERE = inner_name("_here")
"""The column that says that a row of an outer join's other side is there."""


@dataclass(frozen=True)
class FromRows:
    """Rows in FROM: a SELECT of nothing yet, and the names of those relations to be traced."""

    select: exp.Select
    traced: tuple[str, ...]

    def where(self, condition: exp.Expr) -> FromRows:
        """Those for which a condition holds, too."""
        made = self.select.copy()
        add_condition(made, condition)
        return replace(self, select=made)


def table_alias(name: str) -> exp.TableAlias:
    """What a relation is called."""
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def from_rows(select: exp.Select) -> FromRows:
    """The rows in FROM for which WHERE holds; all relations are to be traced."""
    made = exp.Select()
    for clause in ("from_", "joins", "laterals", "where"):
        value = select.args.get(clause)
        if isinstance(value, list):
            made.set(clause, [item.copy() for item in value])
        elif value is not None:
            made.set(clause, value.copy())
    for _, join in relations_of(made):
        if join is not None and (join.method or join.args.get("using")):
            raise Untraceable("a join that does not say what it compares")
    return FromRows(made, tuple(node.alias for node, _ in relations_of(made)))


def merge_inner_query(flow: FromRows, inner: exp.Select, about: InnerQuery) -> FromRows:
    """Rows in FROM together with those of a query that is asked about each of them."""
    theirs = from_rows(inner)
    sides = [str(join.side).upper() for _, join in relations_of(theirs.select) if join is not None]
    if set(sides) & {"RIGHT", "FULL"}:
        raise Untraceable("an outer join in a query about a row")
    made = flow.select.copy()
    first = exp.Join(this=theirs.select.args["from_"].this.copy(), kind="CROSS")
    joins = [*(made.args.get("joins") or ()), first, *(theirs.select.args.get("joins") or ())]
    made.set("joins", joins)
    laterals = [*(made.args.get("laterals") or ()), *(theirs.select.args.get("laterals") or ())]
    made.set("laterals", laterals)
    where = theirs.select.args.get("where")
    if where is not None:
        add_condition(made, where.this)
    for left, item in zip(about.compared, inner.expressions, strict=False):
        right = without_alias(item)
        computed = [has_aggregate(e) or e.find(exp.Window) is not None for e in (left, right)]
        if not any(computed):
            add_condition(made, exp.EQ(this=_parenthesize(left), expression=_parenthesize(right)))
    return FromRows(made, theirs.traced)


def _parenthesize(expression: exp.Expr) -> exp.Expr:
    return exp.Paren(this=expression.copy())


def add_condition(select: exp.Select, condition: exp.Expr) -> None:
    """One more condition in WHERE."""
    where = select.args.get("where")
    parts = [condition] if where is None else [where.this, condition]
    select.set("where", exp.Where(this=trees.and_all(parts)))


def partitions_of(select: exp.Select) -> Iterator[exp.Expr]:
    """The partitions of a SELECT's windows, each once, as tuples."""
    named = {w.name.casefold(): w for w in select.args.get("windows") or ()}
    roots = [*select.expressions]
    if select.args.get("qualify") is not None:
        roots.append(select.args["qualify"])
    seen: list[exp.Expr] = []
    for root in roots:
        for window in own_nodes(root, exp.Window):
            alias = window.args.get("alias")
            if alias is not None and not window.args.get("partition_by"):
                window = named.get(alias.name.casefold(), window)
            parts = exp.Tuple(expressions=[p.copy() for p in window.args.get("partition_by") or ()])
            if parts not in seen:
                seen.append(parts)
                yield parts


def group_keys(group: exp.Group) -> list[exp.Expr] | None:
    """The expressions rows are grouped by; None if there are several sets of them."""
    others = [v for k, v in group.args.items() if v and k != "expressions"]
    sets = (exp.Rollup, exp.Cube, exp.GroupingSets)
    if others or any(e.find(*sets) for e in group.expressions):
        return None
    return list(group.expressions)


def can_be_missing(select: exp.Select, name: str) -> bool:
    """Whether a relation is on a side of an outer join that may have no row."""
    seen = False
    for node, join in relations_of(select):
        side = "" if join is None else str(join.side).upper()
        if node.alias == name:
            if side in ("LEFT", "FULL"):
                return True
            seen = True
        elif seen and side in ("RIGHT", "FULL"):
            return True
    return False


def mark_present(node: exp.Expr, columns: Sequence[str], name: str) -> None:
    """Give a relation a column that says that a row of it is there."""
    inner = node.copy()
    here = trees.with_alias(exp.true(), HERE)
    wanted = [trees.column(name, column) for column in _all_columns(node, columns)]
    query = exp.Select(expressions=[*(trees.with_alias(c, c.name) for c in wanted), here])
    query.set("from_", exp.From(this=inner))
    node.replace(exp.Subquery(this=query, alias=table_alias(name)))


def _all_columns(node: exp.Expr, columns: Sequence[str]) -> list[str]:
    """The columns of a relation that the query around it may use, and these."""
    select = node.find_ancestor(exp.Select)
    assert select is not None
    spoken = [c.name for c in select.find_all(exp.Column) if c.table == node.alias]
    names = {name.casefold(): name for name in [*columns, *spoken]}
    return list(names.values())
