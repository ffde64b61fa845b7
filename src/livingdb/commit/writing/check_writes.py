"""Whether what a transaction writes was changed by somebody else since the snapshot it reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.writing.table_writes import TableWrites, render_key
from livingdb.errors import TransactionConflict
from livingdb.graph.diff import changed_keys
from livingdb.graph.dropped import dropped_since
from livingdb.graph.graph import Graph
from livingdb.tables.index import Version
from livingdb.tables.letter_case import find_alike
from livingdb.trees.delta import PATCH, UPSERT, Delta
from livingdb.trees.keys import member

__all__ = ["check_writes", "has_lost_rows"]


def check_writes(
    graph: Graph,
    tables: Mapping[str, TableWrites],
    base: SnapshotRow,
    head: SnapshotRow,
    may_be_erased: bool = False,
) -> None:
    """`TransactionConflict` names what somebody changed from one snapshot to a later one.

    `may_be_erased`: rows of whatever table were erased since the transaction began.
    """
    for table in tables.values():
        if not table.is_written:
            continue
        now = graph.find_version(head, table.name)
        if table.is_new:
            _check_name(graph, table, tables, head)
            _check_place(graph, table, base, now)
            continue
        assert table.version is not None
        gone = dropped_since(graph, table.name, base, head)
        if gone is not None:
            raise TransactionConflict(f"{gone}; try again")
        is_whole = table.is_dropped or table.built is not None
        if is_whole and now is not None and now != table.version:
            raise TransactionConflict(f"table {table.name!r} was changed meanwhile")
        _check_overlap(graph, table, now)
        if may_be_erased and now is not None:
            _check_erased(graph, table, now)


def has_lost_rows(graph: Graph, version: Version) -> bool:
    """Whether a version may have fewer rows by now than it had when it was looked at.

    Nothing says which rows were erased, but how many are left.
    """
    return version.rows is None or graph.versions.require(version.address).rows != version.rows


def _check_name(
    graph: Graph, table: TableWrites, tables: Mapping[str, TableWrites], head: SnapshotRow
) -> None:
    """Nobody made a table that SQL does not tell from a new one."""
    for other in find_alike(table.name, graph.tables(head)):
        if other != table.name and other not in tables:
            raise TransactionConflict(
                f"table {other!r} was created meanwhile, and SQL does not tell {table.name!r} "
                "from it"
            )


def _check_place(graph: Graph, table: TableWrites, base: SnapshotRow, now: Version | None) -> None:
    """Nobody made a table of its name, or changed the one that it takes the place of."""
    before = graph.find_version(base, table.name) if table.is_replacement else None
    if now == before:
        return
    what = "created" if before is None else "changed"
    raise TransactionConflict(f"table {table.name!r} was {what} meanwhile")


def _check_overlap(graph: Graph, table: TableWrites, now: Version | None) -> None:
    """Nobody changed a row that it changes."""
    assert table.version is not None
    assert now is not None
    if now.address == table.version.address or table.delta is None:
        return
    if now.definition != table.version.definition:
        raise TransactionConflict(f"table {table.name!r} was changed in its schema meanwhile")
    theirs = changed_keys(graph.versions, table.version, now)
    both = member(table.delta.keys, theirs)
    if both.any():
        raise TransactionConflict(
            f"table {table.name!r}: somebody else changed the row with the key "
            f"{render_key(table, table.delta, int(both.argmax()))} meanwhile; try again",
            of_rows=True,
        )
    _check_patched(graph, table, table.delta, now)


def _check_patched(graph: Graph, table: TableWrites, changes: Delta, now: Version) -> None:
    """Rows that it patches are still there: those that were erased never were, by history."""
    patched = np.flatnonzero(changes.ops == PATCH)
    if not len(patched):
        return
    there = graph.versions.rows(now).contains(changes.keys[patched])
    if not there.all():
        key = render_key(table, changes, int(patched[int(there.argmin())]))
        raise TransactionConflict(
            f"table {table.name!r}: the row with the key {key} was erased meanwhile; try again"
        )


def _check_erased(graph: Graph, table: TableWrites, now: Version) -> None:
    """It brings no row back that was erased: one that it puts and that is not there may be one."""
    assert table.version is not None
    if table.delta is None or table.inserts_only or not has_lost_rows(graph, table.version):
        return
    put = np.flatnonzero(table.delta.ops == UPSERT)
    there = graph.versions.rows(now).contains(table.delta.keys[put])
    if not there.all():
        key = render_key(table, table.delta, int(put[int(there.argmin())]))
        raise TransactionConflict(
            f"table {table.name!r}: rows were erased meanwhile, and the one with the key {key} may "
            "be among them; try again"
        )
