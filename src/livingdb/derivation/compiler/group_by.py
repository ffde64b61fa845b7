"""GROUP BY: groups are kept by adding where that is exact, else redone where they are touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.aggregates import (
    additive_part,
    aggregates_in,
    is_aggregate,
    is_exact,
    is_summable,
)
from livingdb.derivation.compiler.correlation import block_expression
from livingdb.derivation.compiler.grouping_sets import SET, GroupingSets
from livingdb.derivation.operators.additive_groups import AdditiveGroups, Slot
from livingdb.derivation.operators.node import Leaf, Node
from livingdb.derivation.operators.partitioned_block import PartitionedBlock
from livingdb.derivation.operators.whole_group import WholeGroup
from livingdb.derivation.plan import Unplannable
from livingdb.derivation.weighted_rows import is_groupable
from livingdb.engines.portable.grouping_sets import is_grouping_call

if TYPE_CHECKING:
    from livingdb.derivation.compiler.select_clauses import SelectCompiler

__all__ = ["apply_group_by"]


def apply_group_by(selecting: SelectCompiler) -> None:
    """Go on from the groups: the items speak of them from here on."""
    flow, compiler = selecting.flow, selecting.compiler
    later = selecting.later_expressions()
    within = [call for e in later for call in aggregates_in(e)]
    for name, tied in list(
        selecting.subqueries.scalar_queries_in([*within, *(selecting.groups or ())])
    ):
        selecting.subqueries.add_column(name, tied)
    if any(selecting.subqueries.placeholders_in(e) for e in later):
        raise Unplannable("CORRELATED_IN_GROUPS")
    if flow.laterals:
        flow.reopen(flow.close(later))
    sets = None if selecting.sets is None else selecting.sets.located(flow)
    selecting.sets = sets
    groups: list[exp.Expr] = [] if sets is None else list(sets.columns)
    for group in selecting.groups or ():
        located = flow.substitute(group)
        if located not in groups:
            groups.append(located)
    calls: list[exp.Expr] = []
    for expression in later:
        for call in aggregates_in(flow.substitute(expression)):
            if call not in calls and not (sets is not None and is_grouping_call(call)):
                calls.append(call)
    made = _plan_groups(selecting, groups, calls)

    def moved(expression: exp.Expr) -> exp.Expr:
        return _over_groups(flow.substitute(expression), groups, calls, made, sets)

    selecting.items = [(name, moved(item)) for name, item in selecting.items]
    having = [moved(condition) for condition in selecting.having]
    selecting.qualify = [moved(condition) for condition in selecting.qualify]
    for item in selecting.order:
        item.set("this", moved(item.this))
    selecting.groups, selecting.having = None, []
    flow.sources = dict(made.sources)
    flow.conditions, flow.laterals = [], []
    if having:
        compiler.note("having", "linear")
    for condition in having:
        flow.where(condition)


@dataclass(frozen=True)
class _Groups:
    """The stages that hold groups, by the names of their relations, the group columns' first.

    `values` say how each aggregate is read from them.
    """

    sources: Mapping[str, Leaf]
    values: Sequence[exp.Expr]


def _plan_groups(
    selecting: SelectCompiler, groups: list[exp.Expr], calls: list[exp.Expr]
) -> _Groups:
    """The stages of the groups; without group columns, what is DISTINCT has stages of its own."""
    is_global = not groups and selecting.sets is None
    distinct = _distinct_values(selecting, calls) if is_global else {}
    others = [call for call in calls if not any(call is known for known, _ in distinct.values())]
    sources: dict[str, Leaf] = {}
    values: dict[int, exp.Expr] = {}
    if others or not distinct:
        leaf, found = _plan_additive(selecting, groups, others) or (
            _plan_whole(selecting, others)
            if is_global
            else _plan_partitioned(selecting, groups, others)
        )
        relation = selecting.compiler.fresh_name()
        sources[relation] = leaf
        values |= {
            id(call): _in_relation(value, relation)
            for call, value in zip(others, found, strict=True)
        }
    for call, value in distinct.values():
        relation = selecting.compiler.fresh_name()
        sources[relation], column = _plan_distinct(selecting, call, value)
        values[id(call)] = trees.column(relation, column)
    return _Groups(sources, [values[id(call)] for call in calls])


def _in_relation(value: exp.Expr, relation: str) -> exp.Expr:
    made = value.copy()
    for column in made.find_all(exp.Column):
        column.set("table", exp.to_identifier(relation, quoted=True))
    return made


def _distinct_values(
    selecting: SelectCompiler, calls: list[exp.Expr]
) -> dict[int, tuple[exp.Expr, exp.Expr]]:
    """The aggregates of one DISTINCT value that can be kept by adding, with these values."""
    found = {}
    for at, call in enumerate(calls):
        value = call.this if isinstance(call, (exp.Count, exp.Sum)) else None
        if not isinstance(value, exp.Distinct) or len(value.expressions) != 1:
            continue
        rows = selecting.flow.project([("g0", value.expressions[0])])
        kind = rows.types.get("g0")
        is_sum = isinstance(call, exp.Sum)
        if (
            kind is not None
            and is_groupable(kind)
            and is_summable("sum" if is_sum else "count", kind)
        ):
            found[at] = (call, value.expressions[0])
    return found


def _plan_distinct(selecting: SelectCompiler, call: exp.Expr, value: exp.Expr) -> tuple[Leaf, str]:
    """One aggregate of DISTINCT values: over a stage that has each of them once."""
    compiler = selecting.compiler
    rows = selecting.flow.project([("g0", value)])
    leaf = compiler.add_stage(AdditiveGroups(rows, [("g0", "g0")], [Slot("n", "rows")]))
    slots = [Slot("n", "rows"), Slot("c", "count", "g0")]
    if isinstance(call, exp.Sum):
        slots.append(Slot("s", "sum", "g0", "c"))
    compiler.note("distinct aggregate", "additive")
    return compiler.add_stage(AdditiveGroups(leaf, [], slots)), slots[-1].name


def _plan_whole(selecting: SelectCompiler, calls: list[exp.Expr]) -> tuple[Leaf, list[exp.Expr]]:
    """The only group, answered again if a row of it changed."""
    flow = selecting.flow
    rows = flow.close(calls)
    names = [f"f{at}" for at in range(len(calls))]
    items = [(n, block_expression(call, flow, "r")) for n, call in zip(names, calls, strict=True)]
    selecting.compiler.note("aggregate", "touched")
    leaf = selecting.compiler.add_stage(WholeGroup(rows, items))
    return leaf, [trees.column("", name) for name in names]


def _plan_additive(
    selecting: SelectCompiler, groups: list[exp.Expr], calls: list[exp.Expr]
) -> tuple[Leaf, list[exp.Expr]] | None:
    """The groups kept by adding, and how each aggregate is read; None if that is not exact."""
    flow = selecting.flow
    parts = [additive_part(call) for call in calls]
    values: list[exp.Expr] = []
    for part in parts:
        if part is None:
            return None
        if part[1] is not None and part[1] not in values:
            values.append(part[1])
    items = [(f"g{at}", group) for at, group in enumerate(groups)]
    items += [(f"a{at}", value) for at, value in enumerate(values)]
    rows = flow.project(items) if items else flow.close([])
    _check_groups([rows.types.get(f"g{at}") for at in range(len(groups))])
    slots: dict[tuple[str, str | None], Slot] = {("rows", None): Slot("n", "rows")}
    found: list[exp.Expr] = []

    def slot(kind: str, column: str | None) -> Slot:
        if kind == "count" and column is not None and column in rows.required:
            return slots["rows", None]
        counted = None
        if kind == "sum":
            counted = slot("count", column).name
        if (kind, column) not in slots:
            name = f"{kind}_{column}"
            slots[kind, column] = Slot(name, kind, column, counted)  # type: ignore[arg-type]
        return slots[kind, column]

    types = {
        (name, column): kind
        for name, node in rows.sources.items()
        for column, kind in node.types.items()
    }
    for part in parts:
        assert part is not None
        kind, value = part
        column = None if value is None else f"a{values.index(value)}"
        known = rows.types.get(column or "")
        can_add = value is None or is_summable(kind, known)
        if not can_add and (known is not None or kind not in ("sum", "avg")):
            return None
        if value is not None and not can_add and not is_exact(value, types):
            return None
        if column is None:
            found.append(trees.column("", "n"))
        elif kind == "avg" and (known is None or pa.types.is_decimal(known)):
            total, count = slot("sum", column), slot("count", column)
            made = Slot(f"avg_{column}", "avg", column, count.name, total.name)
            found.append(trees.column("", slots.setdefault(("avg", column), made).name))
        elif kind == "avg":
            total, count = slot("sum", column), slot("count", column)
            quotient = exp.Div(
                this=trees.column("", total.name), expression=trees.column("", count.name)
            )
            found.append(exp.Paren(this=quotient))
        else:
            found.append(trees.column("", slot(kind, column).name))
    names = [f"g{at}" for at in range(len(groups))]
    if selecting.sets is None:
        node = AdditiveGroups(rows, [(name, name) for name in names], list(slots.values()))
    else:
        expanded = selecting.sets.expand(flow, rows)
        names = [SET, *names]
        node = AdditiveGroups(expanded, [(name, name) for name in names], list(slots.values()))
        selecting.compiler.note("grouping sets", "linear")
    selecting.compiler.note("group by" if names else "aggregate", "additive")
    return selecting.compiler.add_stage(node), found


def _plan_partitioned(
    selecting: SelectCompiler, groups: list[exp.Expr], calls: list[exp.Expr]
) -> tuple[Leaf, list[exp.Expr]]:
    """The groups answered again where they are touched."""
    flow = selecting.flow
    keys = [(f"g{at}", group) for at, group in enumerate(groups)]
    rows = flow.close(calls, keys)
    _check_groups([rows.types.get(name) for name, _ in keys])
    key = [name for name, _ in keys]
    source: Node = rows
    if selecting.sets is not None:
        source = selecting.sets.expand(flow, rows)
        key = [SET, *key]
        selecting.compiler.note("grouping sets", "linear")
    items = [trees.with_alias(trees.column("r", name), name) for name in key]
    names = [f"f{at}" for at in range(len(calls))]
    items += [
        trees.with_alias(block_expression(call, flow, "r"), name)
        for name, call in zip(names, calls, strict=True)
    ]
    query = exp.Select(
        expressions=items,
        group=exp.Group(expressions=[trees.column("r", name) for name in key]),
    )
    query.set("from_", exp.From(this=trees.table("r", "r")))
    columns = [*key, *names]
    node = PartitionedBlock(
        query,
        {"r": source},
        {"r": key},
        columns=columns,
        types=trees.column_types(query, {"r": source.types}),
        key=tuple(key),
        kept={name: at for at, name in enumerate(key)},
        leading="r",
        constants=flow.constants,
    )
    selecting.compiler.note("group by", "touched")
    return selecting.compiler.add_stage(node), [trees.column("", name) for name in names]


def _check_groups(kinds: list[object]) -> None:
    if not all(kind is not None and is_groupable(kind) for kind in kinds):
        raise Unplannable("NESTED_COLUMN")


def _over_groups(
    expression: exp.Expr,
    groups: list[exp.Expr],
    calls: list[exp.Expr],
    made: _Groups,
    sets: GroupingSets | None,
) -> exp.Expr:
    """An expression over the columns of groups instead of rows."""
    root = exp.Paren(this=expression)

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.Subquery):
            return
        if sets is not None and is_grouping_call(node):
            node.replace(sets.value(node, next(iter(made.sources))))
            return
        if node in groups:
            node.replace(trees.column(next(iter(made.sources)), f"g{groups.index(node)}"))
            return
        is_call = is_aggregate(node) and not _is_windowed(node)
        if is_call and node in calls:
            node.replace(made.values[calls.index(node)].copy())
            return
        if isinstance(node, exp.Column):
            raise Unplannable("NOT_GROUPED")
        for child in list(node.iter_expressions()):
            visit(child)

    visit(root.this)
    return trees.unwrap(root)


def _is_windowed(node: exp.Expr) -> bool:
    """Whether a call is the function of a window."""
    above = node.parent
    while isinstance(above, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        above = above.parent
    return isinstance(above, exp.Window) and node.arg_key == "this"
