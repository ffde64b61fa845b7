"""How large a step of a feed is, told without reading its rows.

A plain change is as large as the chunks of its delta.  Of other movements (merges, resets, whole
new tables) the index knows how many rows can differ, and their types how wide a row is.
"""

from __future__ import annotations

import pyarrow as pa

from livingdb.graph.change_feed import FeedEntry
from livingdb.graph.graph import Graph
from livingdb.graph.version_lineage import common_version
from livingdb.tables.index import Version
from livingdb.tables.recipe import Change

__all__ = ["step_bytes"]

_LOOSE_BYTES = 32  # of a value whose type does not tell its size


def step_bytes(graph: Graph, step: FeedEntry) -> int:
    """The size of a step's delta, or about what one would have."""
    before, after = step.before, step.after
    if before is not None and after is not None:
        if before.address == after.address:
            return 0
        if after.base == before.address:
            return _delta_bytes(graph, after)
        common = common_version(graph.index, before, after)
        if common is not None and before.definition == after.definition:
            rows = before.changed + after.changed - 2 * common.changed
            return rows * _row_bytes(graph, after)
    sides = [version for version in (before, after) if version is not None]
    return sum(graph.versions.count(side) * _row_bytes(graph, side) for side in sides)


def _delta_bytes(graph: Graph, version: Version) -> int:
    recipe = graph.versions.recipe(version)
    assert isinstance(recipe, Change)
    return sum(len(graph.store.get(address)) for address in recipe.chunks)


def _row_bytes(graph: Graph, version: Version) -> int:
    columns = graph.versions.definition(version).schema.columns
    return sum(_value_bytes(column.type) for column in columns)


def _value_bytes(kind: pa.DataType) -> int:
    try:
        return (int(kind.bit_width) + 7) // 8
    except ValueError:
        return _LOOSE_BYTES
