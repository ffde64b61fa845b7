"""Rows on which common ancestors contradict each other: where they are in another schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from livingdb.graph.diff import diff_versions, union_row_keys
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.trees.delta import DELETE, Delta
from livingdb.trees.keys import KeyArray

__all__ = ["Bring", "contested_after"]

Tables = Mapping[str, Version]
Bring = Callable[[Tables], Tables]
"""Brings tables to another schema."""


def contested_after(
    graph: Graph,
    before: Tables,
    contested: Mapping[str, KeyArray],
    after: Tables,
    bring: Bring,
    staging: Staging,
) -> dict[str, KeyArray]:
    """The keys of rows of tables that come of contested ones, after the tables were brought there.

    Those are the rows that are others, or none, if the contested ones are not there: whatever
    became of tables, columns and keys on the way.
    """
    if not contested:
        return {}
    less = dict(before)
    for name, keys in contested.items():
        less[name] = _without_rows(graph, before[name], keys, staging)
    without = bring(less)
    found = {}
    for name, version in after.items():
        if is_hidden(name) or name not in without:
            continue
        parts = [batch.keys for batch in diff_versions(graph.versions, version, without[name])]
        if parts:
            found[name] = union_row_keys(parts, graph.versions.rows(version))
    return found


def _without_rows(graph: Graph, version: Version, keys: KeyArray, staging: Staging) -> Version:
    """A version without the rows of these sorted keys."""
    versions = graph.versions
    rows, shape = versions.rows(version), versions.forest(version).shape
    names = [column.name for column in rows.schema.stored_columns]
    there, columns = rows.lookup(keys, names[: shape.key_count])
    if not there.any():
        return version
    ops = np.full(np.count_nonzero(there), DELETE, np.int8)
    none = (None,) * (len(names) - shape.key_count)
    gone = Delta(shape, keys[there], ops, (*columns, *none), (None,) * len(names))
    return versions.change(version, gone, staging.sink)
