"""Fuses a projection or selection with the stage below it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from livingdb.derivation.operators.additive_groups import AdditiveGroups
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Leaf, Node
from livingdb.derivation.operators.partitioned_block import PartitionedBlock
from livingdb.derivation.operators.stored_node import StoredNode

__all__ = ["fuse"]


def fuse(after: LinearBlock, before: Node | StoredNode) -> Node | StoredNode | None:
    """A selection over the only rows it reads, as one block; None if they have to be apart."""
    if after.laterals or len(after.sources) != 1:
        return None
    if isinstance(before, AdditiveGroups):
        return _fuse_additive(after, before)
    if (
        isinstance(before, PartitionedBlock)
        and not before.is_by_row
        and (before.key is None or after.key is not None)
    ):
        return _fuse_partitioned(after, before)
    return None


def _fuse_additive(after: LinearBlock, before: AdditiveGroups) -> AdditiveGroups | None:
    """Groups whose every column is shown as it is."""
    if not after.is_rename or before.is_global:
        return None
    names = {item.name: name for name, item in after.projections}
    if set(names) != set(before.columns) or len(after.projections) != len(names):
        return None
    groups = [(names[name], column) for name, column in before.groups]
    slots = [
        replace(
            slot,
            name=names[slot.name],
            counted=None if slot.counted is None else names[slot.counted],
            summed=None if slot.summed is None else names[slot.summed],
        )
        for slot in before.slots
    ]
    return AdditiveGroups(before.node, groups, slots, after.columns)


def _fuse_partitioned(after: LinearBlock, before: PartitionedBlock) -> PartitionedBlock:
    (name,) = after.sources
    query = after.query_over(
        exp.Subquery(
            this=before.query.copy(),
            alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)),
        )
    )
    plain = {shown: item.name for shown, item in after.projections if isinstance(item, exp.Column)}
    constants: dict[str, Leaf] = {**before.constants, **after.constants}
    return PartitionedBlock(
        query,
        before.nodes,
        before.by,
        columns=after.columns,
        types=after.types,
        key=after.key,
        kept={shown: before.kept[place] for shown, place in plain.items() if place in before.kept},
        origin={
            shown: before.origin[place] for shown, place in plain.items() if place in before.origin
        },
        leading=before.leading,
        required=after.required,
        constants=constants,
    )
