"""Applying diffs: what differs between two snapshots, made on a branch."""

from __future__ import annotations

from collections.abc import Mapping

from livingdb.database.diff import Diff
from livingdb.database.transaction import Transaction
from livingdb.errors import InvalidData, NotFound
from livingdb.graph.graph import Graph
from livingdb.tables.recipe import Definition
from livingdb.trees.diff import to_delta

__all__ = ["apply_diffs"]


def apply_diffs(graph: Graph, tx: Transaction, parts: Mapping[str, Diff]) -> None:
    """Make the changes of all diffs; tables that others refer to come first and go last."""
    for name in _topological_order(parts):
        _apply(graph, tx, name, parts[name])


def _topological_order(parts: Mapping[str, Diff]) -> list[str]:
    """Tables to drop before those they refer to, then tables to make after those."""
    order: list[str] = []

    def visit(name: str) -> None:
        part = parts[name]
        for _, target in part._schema(part.after).foreign_keys:
            if target in parts and target != name and target not in order:
                visit(target)
        if name not in order:
            order.append(name)

    for name in parts:
        visit(name)
    dropped = [name for name in order if parts[name].after is None]
    return dropped[::-1] + [name for name in order if parts[name].after is not None]


def _apply(graph: Graph, tx: Transaction, name: str, part: Diff) -> None:
    before, after = part.before, part.after
    if after is None:
        if name in tx.tables():
            tx.work.drop_table(name)
        return
    if name not in tx.tables():
        if before is not None:
            raise NotFound(f"there is no table {name!r} to change")
        tx.work.create_table(name, graph.versions.definition(after))
    shape = tx.work.rows(name).forest.shape
    if before is not None and not graph.versions.is_alike(before, after):
        raise InvalidData(f"table {name!r}: a diff across schemas cannot be applied")
    if not _has_columns_of(graph.versions.definition(after), tx.work.definition(name)):
        raise InvalidData(
            f"table {name!r}: the diff is of a table with other columns than it has here"
        )
    for batch in part.row_batches:
        tx.work.apply(name, to_delta(shape, batch))


def _has_columns_of(theirs: Definition, mine: Definition) -> bool:
    """Whether a table has the columns of another: by identity if they are versions of one table."""
    is_one = theirs.id == mine.id
    one, other = (
        [(c.id if is_one else "", c.name, c.type) for c in side.schema.stored_columns]
        for side in (theirs, mine)
    )
    return one == other
