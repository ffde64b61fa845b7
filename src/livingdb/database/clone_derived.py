"""clone(derived=True): a clone with the derived objects of where it comes from, or nothing at all.

The definition of an object is the one it has now, if that means the same columns in the tables of
the snapshot, or else what its author wrote, if that does.  All is made one after the other; what
was made is dropped in one transaction if something fails.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carry_view import topological_order
from livingdb.commit.drop_branch import drop_branches, plan_drop
from livingdb.database import derive as objects
from livingdb.derivation.plan_cache import columns_used
from livingdb.derivation.source_positions import source_positions
from livingdb.derivation.view import KIND, SourceTable, View
from livingdb.derivation.view_names import is_on_branch, version_not_after
from livingdb.errors import AlreadyExists, InvalidData, LivingDBError, NotFound, RuleViolation
from livingdb.graph.ancestry import first_parents
from livingdb.graph.graph import Graph, now
from livingdb.graph.schedule import parse_schedule
from livingdb.sql.parse import parse_statement
from livingdb.tables.schema import TableSchema

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["CloneRequest", "clone_derived", "origin_of"]

Tables = Mapping[str, SourceTable]
_TABLE_FIELDS = ("table", "left", "right")
"""What schema changes call the tables that they change."""


@dataclasses.dataclass(frozen=True)
class CloneRequest:
    """A clone to be made: of a snapshot on a branch, and what ends the names of its views."""

    name: str
    at: SnapshotRow
    origin: BranchRow
    suffix: str
    author: str
    message: str


def origin_of(graph: Graph, at: SnapshotRow, named: str | None) -> BranchRow:
    """The branch whose derived objects a snapshot has: the one named, or that it was made on.

    `InvalidData` if that may be several.
    """
    if named is not None:
        return graph.branch(named)
    found = [row for row in graph.branches.all() if is_on_branch(graph, row, at)]
    made_on = [row for row in found if _was_made_on(graph, row, at)]
    rows = made_on or found
    if len(rows) != 1:
        names = ", ".join(row.name for row in rows) or "none"
        raise InvalidData(
            f"derived=True takes the derived objects of a branch, and snapshot "
            f"{at.address.hex()[:12]} is on {names}: name one, as in db.at('main~3')"
        )
    return rows[0]


def _was_made_on(graph: Graph, branch: BranchRow, at: SnapshotRow) -> bool:
    move = graph.branches.last_move_to(branch, at.sequence)
    return move is not None and move.operation not in ("clone", "keep")


def clone_derived(database: Database, request: CloneRequest) -> None:
    """Make the clone and all its derived objects; nothing is there if one of them cannot be."""
    graph = database._graph
    wanted = list(_views_of(graph, request))
    for _, view in wanted:
        name = f"{view.name}{request.suffix}"
        if graph.branches.find(name) is not None:
            raise AlreadyExists(
                f"there is a branch {name!r} already, for a view of {request.name!r}"
            )
    database._clone(request.at, request.name, request.origin.name, request.author, request.message)
    made = [request.name]
    try:
        _derive_all(database, request, wanted, made)
    except BaseException:
        _drop_all(graph, made)
        raise


def _views_of(graph: Graph, request: CloneRequest) -> Iterator[tuple[SyncRow, View]]:
    """The derived objects that there were, each after what it reads."""
    syncs = [s for s in graph.catalog.syncs.all() if s.kind == KIND and s.is_active]
    known = {request.origin.id}
    for sync, view in topological_order([(s, View.from_json(s.spec)) for s in syncs]):
        if set(view.branches) & known and _was_there(graph, sync, request):
            known.add(sync.target)
            yield sync, view


def _was_there(graph: Graph, sync: SyncRow, request: CloneRequest) -> bool:
    """Whether a derived object has a version of that time."""
    if request.at.sequence == request.origin.head:
        return True
    try:
        version_not_after(graph, sync, request.origin, request.at)
    except NotFound:
        return False
    return True


def _derive_all(
    database: Database, request: CloneRequest, wanted: list[tuple[SyncRow, View]], made: list[str]
) -> None:
    graph = database._graph
    clone = database.branch(request.name)
    target = graph.branch(request.name)
    moved = {request.origin.id: target.id}
    renamed: dict[BranchId, dict[str, str]] = {}
    for sync, view in wanted:
        name = f"{view.name}{request.suffix}"
        try:
            then = _definition_then(database, sync, view, request)
            copy = dataclasses.replace(
                then,
                name=name,
                tables=_moved_tables(then.tables, moved, renamed),
                changes=_moved_changes(then, renamed),
                home=target.id,
                called=view.called or view.name,
            )
            when = parse_schedule(sync.frequency)
            wish = objects.DeriveRequest(name, author=request.author)
            objects.derive_view(clone, copy, when, wish, guard=sync.guard)
        except LivingDBError as error:
            error.args = (f"{view.name!r} cannot be derived on {request.name!r}: {error}",)
            raise
        moved[sync.target] = graph.branch(name).id
        is_clone = view.what == "clone"
        renamed[sync.target] = _renames(view, renamed) if is_clone else {view.name: name}
        made.append(name)


def _moved_tables(
    tables: Tables,
    moved: Mapping[BranchId, BranchId],
    renamed: Mapping[BranchId, Mapping[str, str]],
) -> dict[str, SourceTable]:
    """The tables of a view on the clone, and of the objects that were derived anew there.

    The table of a view has its name, so it has another one there; what it is stays the same.
    """
    return {
        plain: SourceTable(
            moved.get(t.branch, t.branch),
            renamed.get(t.branch, {}).get(t.table, t.table),
            t.snapshot,
            t.id,
        )
        for plain, t in tables.items()
    }


def _renames(view: View, renamed: Mapping[BranchId, Mapping[str, str]]) -> dict[str, str]:
    """The tables that have other names in what was derived anew, of all that a view reads."""
    return {old: new for branch in view.branches for old, new in renamed.get(branch, {}).items()}


def _moved_changes(
    view: View, renamed: Mapping[BranchId, Mapping[str, str]]
) -> Sequence[Mapping[str, Any]]:
    """The schema changes of a clone, over the table of a view that was derived anew."""
    names = _renames(view, renamed)
    return [
        {k: names.get(v, v) if k in _TABLE_FIELDS else v for k, v in change.items()}
        for change in view.changes
    ]


def _drop_all(graph: Graph, made: list[str]) -> None:
    """Drop branches and their syncs in one transaction, those that read others first."""
    rows = [row for row in map(graph.branches.find, reversed(made)) if row is not None]
    drop_branches(graph, [plan_drop(graph, row, detach=True, is_view=True) for row in rows], now())


# --- definitions of that time --------------------------------------------------------------------


def _definition_then(database: Database, sync: SyncRow, view: View, request: CloneRequest) -> View:
    """The definition of a derived object as of the snapshot; `RuleViolation` if nobody knows it."""
    graph, here = database._graph, request.origin.id
    if view.what == "clone" and view.branches == (here,):
        tables = {name: SourceTable(here, name) for name in graph.tables(request.at)}
        return dataclasses.replace(view, tables=tables)
    if request.at.sequence == request.origin.head or view.what == "clone":
        return view
    head = graph.snapshots.at(request.origin.head)
    if _means_the_same(graph, view, here, head, request.at):
        return view
    first = _first_source(graph, sync, here)
    if view.what == "sql" and first is not None:
        clone = graph.branch(request.name)
        written = _as_written(database, view, clone, first)
        if written is not None and _means_the_same(graph, written, clone.id, first, request.at):
            return written
    raise RuleViolation(
        f"its definition as of snapshot {request.at.address.hex()[:12]} is not known: columns that "
        "it reads have changed since; clone without derived=True, and derive it there"
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
    database: Database, view: View, clone: BranchRow, first: SnapshotRow
) -> View | None:
    """The view by its author's own text, on the clone; None if that is nothing there.

    What it uses are the columns that it used when it was defined, over the `first` snapshot.
    """
    graph = database._graph
    try:
        made = objects.query_view(graph, clone.name, view.name, view.text, database.trust)
        heads = graph.branches.by_ids({table.branch for table in made.tables.values()})
        schemas, is_same = {}, True
        for plain, source in made.tables.items():
            head = graph.snapshots.at(heads[source.branch].head)
            row = first if source.branch == clone.id else head
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
    return dataclasses.replace(
        view, query=made.query, bindings=made.bindings, tables=made.tables, uses=uses
    )


def _stars(text: str) -> Iterator[exp.Star]:
    return parse_statement(text).find_all(exp.Star)
