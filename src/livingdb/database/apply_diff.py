"""Applying diffs: what differs between two snapshots, made on a branch."""

from __future__ import annotations

from collections.abc import Mapping

from livingdb.commit.merging.replay import check_masks
from livingdb.commit.pipeline import Pipeline
from livingdb.database.diff import Diff
from livingdb.database.transaction import Transaction
from livingdb.errors import InvalidData, NotFound
from livingdb.graph.graph import Graph
from livingdb.tables.recipe import Definition
from livingdb.trees.diff import DiffBatch, to_delta

__all__ = ["apply_diffs"]


def apply_diffs(pipeline: Pipeline, tx: Transaction, parts: Mapping[str, Diff]) -> None:
    """Make the changes of all diffs, in the tables as the branch calls them.

    Tables that others refer to come first and go last.
    """
    for name in _topological_order(parts):
        part = parts[name]
        if part.end is not None:
            old, new = ({} if side is None else {name: side} for side in (part.before, part.after))
            check_masks(pipeline, tx.work.base, part.end, old, new)
        _apply(pipeline.graph, tx, name, part)


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
    known = after or before
    assert known is not None
    definition = graph.versions.definition(known)
    here = _name_here(tx, name, definition)
    if after is None:
        if here is not None and _is_table(tx.work.definition(here), definition):
            tx.work.drop_table(here)
        return
    if before is not None and not graph.versions.is_alike(before, after):
        raise InvalidData(f"table {name!r}: a diff across schemas cannot be applied")
    if here is None:
        if before is not None:
            if not len(part):
                return
            raise NotFound(f"there is no table {name!r} to change")
        tx.work.create_table(name, definition)
        here = name
    places = _column_places(definition, tx.work.definition(here))
    if places is None:
        if not len(part):
            return
        raise InvalidData(
            f"table {name!r}: the diff is of a table with other columns, or another key, than it "
            "has here"
        )
    shape = tx.work.rows(here).forest.shape
    for batch in part.row_batches:
        sides = ([side[at] for at in places] for side in (batch.before, batch.after))
        tx.work.apply(here, to_delta(shape, DiffBatch(batch.keys, batch.kinds, *sides)))


def _name_here(tx: Transaction, name: str, theirs: Definition) -> str | None:
    """What a table is called on the branch: by its identity, or another one of its name."""
    names = tx.tables()
    if theirs.id is not None:
        known = {tx.work.definition(one).id: one for one in names}
        if theirs.id in known:
            return known[theirs.id]
    return name if name in names else None


def _is_table(mine: Definition, theirs: Definition) -> bool:
    """Whether two tables are one, or were made alike."""
    return mine.id == theirs.id or mine.is_alike(theirs)


def _column_places(theirs: Definition, mine: Definition) -> list[int] | None:
    """Where the columns of a table lie in another, which has the same; None if it has others.

    They go by their identities if both are versions of one table, and else by their names.
    """
    is_one = theirs.id is not None and theirs.id == mine.id
    one, other = (
        [(c.id if is_one else c.name, c.type) for c in side.schema.stored_columns]
        for side in (theirs, mine)
    )
    keys = len(theirs.schema.key), len(mine.schema.key)
    is_same = sorted(one, key=str) == sorted(other, key=str)
    if not is_same or one[: keys[0]] != other[: keys[1]]:
        return None
    return [one.index(column) for column in other]
