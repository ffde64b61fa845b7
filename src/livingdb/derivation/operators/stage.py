"""Stages: how a node that is stored is maintained."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from livingdb.derivation.compiler.fuse_stages import fuse
from livingdb.derivation.keyed_change import KeyedChange
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Leaf, Node, Run
from livingdb.derivation.operators.partitioned_block import PartitionedBlock
from livingdb.derivation.operators.stored_node import StoredNode
from livingdb.derivation.operators.value_lookups import fit_types
from livingdb.derivation.plan import WEIGHT, Ask, Relations, Stage
from livingdb.derivation.weighted_rows import consolidate, difference, distinct_rows
from livingdb.graph.names import is_hidden

__all__ = ["build_stage", "renamed_stage"]

_RANK = ("linear", "join", "touched", "additive")


def build_stage(name: str, node: Node | StoredNode, key: tuple[str, ...] | None) -> Stage:
    """The stage that stores the rows of a node."""
    node = _fuse_keyed_selection(node, key)
    below = node.node if isinstance(node, StoredNode) else node
    parts = list(below.parts())
    leaves = [part for part in parts if isinstance(part, Leaf)]
    reads = tuple(dict.fromkeys(leaf.name for leaf in leaves))
    strategy = node.strategy if isinstance(node, StoredNode) else _dominant_strategy(parts)
    if key == () and not isinstance(node, StoredNode):
        key = _single_row_key(node)
    if key is not None and not _can_be_key(node, key):
        key = None
    return Stage(
        name,
        Ask(node.full_query(), reads),
        key,
        reads,
        strategy,
        None,
        _used_columns(parts),
        _maintenance_function(node, key),
    )


def renamed_stage(stage: Stage, name: str, key: tuple[str, ...] | None) -> Stage:
    """The same stage under another name."""
    return Stage(
        name,
        stage.ask,
        key,
        stage.reads,
        stage.strategy,
        stage.reason,
        stage.columns_used,
        stage.work,
    )


def _fuse_keyed_selection(
    node: Node | StoredNode, key: tuple[str, ...] | None
) -> Node | StoredNode:
    """A selection over rows that are told by its key, as one block, so that held rows are used."""
    if not isinstance(node, LinearBlock) or len(node.sources) != 1 or not key:
        return node
    (source,) = node.sources.values()
    if not isinstance(source, PartitionedBlock) or source.is_by_row:
        return node
    made = fuse(node, source)
    if not isinstance(made, PartitionedBlock):
        return node
    is_told = {made.kept.get(name) for name in key} == set(range(len(made.names)))
    return made if is_told and len(key) == len(made.names) else node


def _dominant_strategy(parts: list[Node]) -> str:
    inner = [part.strategy for part in parts if not isinstance(part, Leaf)]
    return max(inner, key=_RANK.index, default="linear")


def _single_row_key(node: Node) -> tuple[str, ...] | None:
    """Any column identifies the only row."""
    for name in node.columns:
        if _can_be_key(node, (name,)):
            return (name,)
    return None


def _can_be_key(node: Node | StoredNode, key: tuple[str, ...]) -> bool:
    kinds = [node.types.get(name) for name in key]
    return not any(kind is not None and pa.types.is_nested(kind) for kind in kinds)


def _used_columns(parts: list[Node]) -> dict[str, frozenset[str]]:
    """The columns that are used of each table."""
    found: dict[str, frozenset[str]] = {}
    for part in parts:
        for name, node in part.inputs().items():
            if isinstance(node, Leaf) and not is_hidden(node.name):
                columns = frozenset(part.used_columns(name))
                found[node.name] = found.get(node.name, frozenset()) | columns
    return found


def _maintenance_function(
    node: Node | StoredNode, key: tuple[str, ...] | None
) -> Callable[[Relations], pa.Table | KeyedChange]:
    if isinstance(node, StoredNode):
        return lambda relations: node.change(Run(relations))
    if isinstance(node, PartitionedBlock) and key is not None and not node.is_by_row:
        return lambda relations: _delta_from_held(node, key, Run(relations))
    top, renamed = node, _shown_columns(node, key)

    def work(relations: Relations) -> pa.Table | KeyedChange:
        if renamed is not None:
            change = relations.keyed_delta(renamed[0])
            if change is not None:
                return change.select(renamed[1])
        rows = Run(relations).delta(top).select([*top.columns, WEIGHT])
        found = relations.by_key(rows) if key is not None and rows.num_rows else None
        return consolidate(rows) if found is None else found

    return work


def _shown_columns(node: Node, key: tuple[str, ...] | None) -> tuple[str, dict[str, str]] | None:
    """The stage whose columns are shown under other names, those of its key as the key."""
    if not isinstance(node, LinearBlock) or not node.is_rename or not key:
        return None
    (source,) = node.sources.values()
    shown = {name: item.name for name, item in node.projections}
    if not isinstance(source, Leaf) or tuple(shown.get(name) for name in key) != source.key:
        return None
    return (source.name, shown) if len(set(shown.values())) == len(shown) else None


def _delta_from_held(node: PartitionedBlock, key: tuple[str, ...], run: Run) -> pa.Table:
    """What changes, where the old rows are those that are held.

    Sums of floats and orders with ties need not come out the same twice.
    """
    values = node.touched_values(run)
    if values is None:
        return node.empty_delta()
    new = node.answer_for(run, "new", values)
    shown = {number: name for name, number in node.kept.items() if name in key}
    if len(shown) == len(key) == len(node.names):
        names = [shown[number] for number in range(len(node.names))]
        keys = fit_types(values.rename_columns(names), node).select(list(key))
    else:
        keys = distinct_rows(node.answer_for(run, "old", values).select(list(key)))
    if not keys.num_rows:
        return difference(new.slice(0, 0), new)
    return difference(run.relations.held_rows(keys).select(list(node.columns)), new)
