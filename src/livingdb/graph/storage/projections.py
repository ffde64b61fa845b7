"""Projections: which files of Parquet hold the rows of a version.

The files are those of subtrees, so that versions share all that did not change between them.
A schema change that keeps every row and computes nothing shares the files of the version before
it; other lenses have trees of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from livingdb.graph.graph import Graph
from livingdb.graph.storage.projection_files import file_name
from livingdb.tables.column import Column
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tables.virtual_forest import MappedForest
from livingdb.trees.delta import Delta
from livingdb.trees.forest import Forest
from livingdb.trees.keys import KeyArray, union_keys
from livingdb.trees.subtrees import Subtree, cut_tree

__all__ = ["BaseRows", "base_rows", "files_of_heads", "subtree_files"]

_SUBTREE_ROWS = 2_000_000


@dataclass(frozen=True)
class BaseRows:
    """Where rows come from: a stored tree, and the rows of some keys that are other ones.

    `columns` are the columns of the version by name, as those of the tree or as constants.
    """

    version: Version
    tree: RowSet
    columns: dict[str, Column | pa.Scalar]
    changes: tuple[Delta, ...]

    @cached_property
    def changed(self) -> KeyArray:
        """The keys of all changes, sorted."""
        return union_keys([changes.keys for changes in self.changes])

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the tree's key."""
        return self.tree.schema.stored_columns[: self.tree.forest.shape.key_count]

    def key_values(self) -> pa.Table:
        """The key columns of all changes, under their identities."""
        names = [column.id for column in self.key_columns]
        parts = [pa.table(list(each.columns[: len(names)]), names=names) for each in self.changes]
        return pa.concat_tables(parts)


def base_rows(graph: Graph, version: Version, *, evaluate: bool) -> BaseRows | None:
    """The tree that a version's rows lie in, through lenses that only rename and drop columns.

    Other lenses get a tree of their own, if they may be evaluated; else None.
    """
    versions = graph.versions
    rows = versions.rows(version)
    found = _through_lenses(graph, version, rows)
    if found is not None:
        return found
    if not evaluate:
        return None
    tree = versions.tree_rows(version)
    graph.upkeep.save_answers()
    return _own_tree(version, tree)


def _own_tree(version: Version, tree: RowSet) -> BaseRows:
    columns = {column.name: column for column in tree.schema.stored_columns}
    return BaseRows(version, tree, {**columns}, _tail(tree))


def _tail(rows: RowSet) -> tuple[Delta, ...]:
    return () if rows.tail is None or not len(rows.tail) else (rows.tail,)


def _through_lenses(graph: Graph, version: Version, rows: RowSet) -> BaseRows | None:
    versions = graph.versions
    if isinstance(rows.forest, Forest):
        return _own_tree(version, rows)
    names = {column.name: column.name for column in rows.schema.stored_columns}
    constants: dict[str, pa.Scalar] = {}
    changes: tuple[Delta, ...] = ()
    while isinstance(rows.forest, MappedForest):
        mapping = rows.forest.projection
        if mapping.drops:
            return None
        changes += _tail(rows)
        for name, old in list(names.items()):
            source, constant = mapping.source_of(old), mapping.constant(old)
            if source is not None:
                names[name] = source
            elif constant is not None and _can_be_written(constant):
                constants[name] = constant
                del names[name]
            else:
                return None
        rows = rows.forest.source
    if not isinstance(rows.forest, Forest):
        return None
    below = version
    while versions.nearest_stored(below) is None:
        source_rows = versions.derived.row_source(versions.require(below.origin))
        if source_rows is None:
            return None
        below = source_rows.version
    if versions.tree_rows(below).root != rows.root:
        return None
    held = {column.name: column for column in rows.schema.stored_columns}
    columns: dict[str, Column | pa.Scalar] = {n: held[old] for n, old in names.items()}
    return BaseRows(below, rows, columns | constants, changes + _tail(rows))


def _can_be_written(value: pa.Scalar) -> bool:
    """Whether a constant can be told to Spark as it is."""
    kind = value.type
    return not value.is_valid or any(
        is_kind(kind)
        for is_kind in (pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_string)
    )


def subtree_files(base: BaseRows) -> list[tuple[str, Subtree]]:
    """The subtrees, each with the name of its file."""
    forest = base.tree.forest
    assert isinstance(forest, Forest)
    columns = base.tree.schema.stored_columns
    subtrees = cut_tree(forest, base.tree.root, _SUBTREE_ROWS)
    return [(file_name(each.name, columns), each) for each in subtrees if each.rows]


def files_of_heads(graph: Graph) -> dict[str, tuple[BaseRows, Subtree]]:
    """The files that the tables of all heads are read from, as far as they need no other tree.

    Also those of snapshots that somebody has a lease on: a data frame may be reading them.
    """
    found: dict[str, tuple[BaseRows, Subtree]] = {}
    for version in _read_versions(graph):
        base = base_rows(graph, version, evaluate=False)
        if base is not None:
            found.update((name, (base, subtree)) for name, subtree in subtree_files(base))
    return found


def _read_versions(graph: Graph) -> Iterator[Version]:
    read = {branch.head for branch in graph.branches.all()}
    read |= {lease.snapshot for lease in graph.leases.current()}
    addresses = {
        address
        for snapshot in read
        for address in graph.tables(graph.snapshots.at(snapshot)).values()
    }
    return (graph.versions.require(address) for address in addresses)
