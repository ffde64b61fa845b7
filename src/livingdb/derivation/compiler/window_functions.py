"""Window functions: partitions that are touched are answered again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.correlation import block_expression
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Node
from livingdb.derivation.operators.partitioned_block import PartitionedBlock
from livingdb.derivation.plan import Unplannable
from livingdb.derivation.weighted_rows import is_groupable

if TYPE_CHECKING:
    from livingdb.derivation.compiler.select_clauses import SelectCompiler

__all__ = ["apply_windows"]

_STABLE = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Count, exp.Min, exp.Max)


def apply_windows(selecting: SelectCompiler) -> None:
    """Go on from rows that have the values of window functions as columns."""
    flow, compiler = selecting.flow, selecting.compiler
    later = selecting.later_expressions()
    windows: list[exp.Expr] = []
    for expression in later:
        for window in flow.substitute(expression).find_all(exp.Window):
            if window not in windows:
                windows.append(window.copy())
    common = _common_partition(windows)
    keys = [(f"p_{at}", part) for at, part in enumerate(common)]
    rows = flow.close(later, keys, with_keys=True)
    shown = [column for column in rows.columns if column[:2] != "p_"] or list(rows.columns)
    names = [f"w_{at}" for at in range(len(windows))]
    query = exp.Select(
        expressions=[
            *(trees.with_alias(trees.column("r", column), column) for column in shown),
            *(
                trees.with_alias(block_expression(window, flow, "r"), name)
                for name, window in zip(names, windows, strict=True)
            ),
        ]
    )
    columns = [*shown, *names]
    key = rows.key if rows.key is not None and set(rows.key) <= set(shown) else None
    types = trees.column_types(_with_from(query, "r"), {"r": rows.types})
    node: Node
    kinds = [rows.types.get(name) for name, _ in keys]
    if not keys or not all(kind is not None and is_groupable(kind) for kind in kinds):
        source, reads = compiler.full_source(rows, "r")
        reason = "WINDOW_WITHOUT_PARTITION_BY"
        compiler.note("window", "full", reason)
        whole = query.copy()
        whole.set("from_", exp.From(this=source))
        node = compiler.add_full_stage(whole, reads, columns, key, reason)
    else:
        if key is None and not all(
            _is_stable(w, types.get(n)) for n, w in zip(names, windows, strict=True)
        ):
            raise Unplannable("ORDER_WITHOUT_KEY")
        touched = PartitionedBlock(
            _with_from(query, "r"),
            {"r": rows},
            {"r": [name for name, _ in keys]},
            columns=columns,
            types=types,
            key=key,
            kept=_kept_columns(rows, shown, common),
            origin={column: ("r", column) for column in shown},
            leading="r",
            required=rows.required & frozenset(shown),
            constants=flow.constants,
        )
        compiler.note("window", "touched")
        node = compiler.add_stage(touched)
    located = {id(e): flow.substitute(e) for e in later}
    relation = flow.reopen(node, shown)

    def moved(expression: exp.Expr) -> exp.Expr:
        root = exp.Paren(this=located[id(expression)])
        for found in list(root.find_all(exp.Window)):
            if found in windows:
                found.replace(trees.column(relation, names[windows.index(found)]))
        return trees.unwrap(root)

    selecting.items = [(name, moved(item)) for name, item in selecting.items]
    selecting.qualify = [moved(condition) for condition in selecting.qualify]
    for item in selecting.order:
        item.set("this", moved(item.this))


def _with_from(query: exp.Select, name: str) -> exp.Select:
    made = query.copy()
    made.set("from_", exp.From(this=trees.table(name, "r")))
    return made


def _common_partition(windows: list[exp.Expr]) -> list[exp.Expr]:
    """The expressions all windows have their partitions by."""
    parts = [list(window.args.get("partition_by") or ()) for window in windows]
    found: list[exp.Expr] = []
    for part in parts[0]:
        if part not in found and all(part in others for others in parts[1:]):
            found.append(part)
    return found


def _kept_columns(rows: LinearBlock, shown: list[str], common: list[exp.Expr]) -> dict[str, int]:
    items = dict(rows.projections)
    return {
        column: at
        for at, part in enumerate(common)
        for column in shown
        if items[column] == items[f"p_{at}"]
    }


def _is_stable(window: exp.Expr, kind: pa.DataType | None) -> bool:
    """Whether a window gives the same values however rows that are alike in its order lie."""
    spec = window.args.get("spec")
    is_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
    if isinstance(window.this, exp.Sum):
        exact = kind is not None and not pa.types.is_floating(kind)
        return exact and not is_rows
    return isinstance(window.this, _STABLE) and not is_rows
