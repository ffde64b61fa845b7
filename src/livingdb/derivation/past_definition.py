"""The definition that a derived object had as of a past snapshot of what it reads.

It is the one it has now, if that means the same columns in the tables of the snapshot, or else
what its author wrote, if that does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.plan_cache import columns_used
from livingdb.derivation.source_positions import source_positions
from livingdb.derivation.source_tables import query_view
from livingdb.derivation.view import KIND, SourceTable, View
from livingdb.errors import LivingDBError, RuleViolation
from livingdb.graph.ancestry import first_parents
from livingdb.graph.graph import Graph
from livingdb.sql.parse import parse_statement
from livingdb.tables.schema import TableSchema

__all__ = ["definition_at"]


def definition_at(
    graph: Graph,
    sync: SyncRow,
    view: View,
    branch: BranchRow,
    at: SnapshotRow,
    there: Collection[BranchId],
    trust: Sequence[str] = (),
) -> View:
    """The definition of a derived object as of a snapshot of a branch.

    `there` are the branch and those of the objects on it that there were, too.  `RuleViolation`
    if nobody knows it.
    """
    if view.what == "clone" and view.branches == (branch.id,):
        tables = {name: SourceTable(branch.id, name) for name in graph.tables(at)}
        return replace(view, tables=tables)
    if at.sequence == branch.head or view.what == "clone":
        return view
    head = graph.snapshots.at(branch.head)
    if _means_the_same(graph, view, branch.id, head, at):
        return view
    first = _first_source(graph, sync, branch.id)
    if view.what == "sql" and first is not None:
        home = replace(branch, head=at.sequence)
        written = _as_written(graph, view, home, first, there, trust)
        if written is not None and _means_the_same(graph, written, branch.id, first, at):
            return written
    raise RuleViolation(
        f"its definition as of snapshot {at.address.hex()[:12]} is not known: columns that it "
        "reads have changed since; clone without derived=True, and derive it there"
    )


def _means_the_same(
    graph: Graph, view: View, branch: BranchId, known: SnapshotRow, at: SnapshotRow
) -> bool:
    """Whether the columns that a view reads of a branch are the same ones in two snapshots."""
    for plain, source in view.tables.items():
        if source.branch != branch or source.snapshot:
            continue
        one, other = (_schema(graph, row, source.table) for row in (known, at))
        if one is None or other is None:
            return False
        used = set(view.uses.get(plain, other.arrow.names))
        if not used <= set(one.arrow.names) or not used <= set(other.arrow.names):
            return False
        pairs = [(one.column(name), other.column(name)) for name in used]
        if any((a.id, a.type) != (b.id, b.type) for a, b in pairs):
            return False
    return True


def _schema(graph: Graph, row: SnapshotRow, table: str) -> TableSchema | None:
    version = graph.find_version(row, table)
    return None if version is None else graph.versions.definition(version).schema


def _first_source(graph: Graph, sync: SyncRow, branch: BranchId) -> SnapshotRow | None:
    """The snapshot of a branch that the first version of a derived object was made from."""
    target = graph.branches.by_id(sync.target)
    assert target is not None
    *_, first = first_parents(graph.snapshots, graph.snapshots.at(target.head))
    address = source_positions(graph, first).get(branch)
    return None if address is None else graph.snapshots.find(address)


def _as_written(
    graph: Graph,
    view: View,
    home: BranchRow,
    first: SnapshotRow,
    there: Collection[BranchId],
    trust: Sequence[str],
) -> View | None:
    """The view by its author's own text, where its branch was; None if that is nothing there.

    What it uses are the columns that it used when it was defined, over the `first` snapshot.
    """
    derived = {sync.target for sync in graph.catalog.syncs.all() if sync.kind == KIND}
    try:
        made = query_view(graph, home, view.name, view.text, trust)
        read = {table.branch for table in made.tables.values()}
        if (read & derived) - set(there):
            return None  # it was made of something else than what has the name now
        heads = {**graph.branches.by_ids(read), home.id: home}
        schemas, is_same = {}, True
        for plain, source in made.tables.items():
            head = graph.snapshots.at(heads[source.branch].head)
            row = first if source.branch == home.id else head
            then, now = (graph.version(at, source.table) for at in (row, head))
            schemas[plain] = graph.versions.definition(then).schema
            names = graph.versions.definition(now).schema.arrow.names
            is_same = is_same and names == schemas[plain].arrow.names
        uses = columns_used(made, schemas)
    except LivingDBError:
        return None
    # A star stands for the columns that there were.
    if not is_same and any(not isinstance(s.parent, exp.Count) for s in _stars(view.text)):
        return None
    return replace(view, query=made.query, bindings=made.bindings, tables=made.tables, uses=uses)


def _stars(text: str) -> Iterator[exp.Star]:
    return parse_statement(text).find_all(exp.Star)
