"""Binds a view to the new schema of a branch it reads: it goes on, follows names, or is broken.

A view goes on if the columns it reads are as they were; where they have other names its query
follows them; anything else breaks it, and the reason names the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.proposal import BranchMove
from livingdb.derivation.plan_cache import columns_used, view_plan
from livingdb.derivation.rebind_view import rebind_view as rebind_query
from livingdb.derivation.source_positions import (
    At,
    source_heads,
    source_positions,
    source_versions,
    view_over_heads,
)
from livingdb.derivation.view import SourceTable, View
from livingdb.errors import InvalidData, LivingDBError, NotFound
from livingdb.evolution.changes.mask_column import MaskColumn
from livingdb.evolution.follow_names import follow_names
from livingdb.evolution.schema_change import SchemaChange
from livingdb.evolution.schema_elements import aliased
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.names import is_hidden
from livingdb.guard.build_pending_change import visible_tables
from livingdb.guard.conditions.kinds.model import METRICS
from livingdb.guard.conditions.pending_change import Cost, PendingChange, VersionPair
from livingdb.sql.render_query import BrokenQuery
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema

__all__ = ["pending_schema_change", "rebind_to_heads", "rebind_view", "unchanged_tables"]

_KEEPS_ROWS = {
    *("AddColumn", "DropColumn", "RenameColumn", "RetypeColumn", "MaskColumn", "SplitColumn"),
    *("ConcatColumns", "RenameTable", "CreateTable", "DropTable", "Normalize", "DropConstraint"),
    *("ReorderColumns", "SetDefault", "DropDefault", "DropUnique"),
}
"""Changes after which a table that is still there has the same rows, but for columns named."""


@dataclass(frozen=True)
class _SchemaTransition:
    """A schema change of a branch: its tables before and after, and what the old ones became."""

    move: BranchMove
    names: Mapping[str, str]
    masked: frozenset[tuple[str, str]]
    keeps_rows: bool

    @property
    def before(self) -> Mapping[str, Address]:
        """The tables before."""
        return self.move.before

    @property
    def after(self) -> Mapping[str, Address]:
        """The tables after."""
        return self.move.addresses

    def reads(self, source: SourceTable) -> bool:
        """Whether a view reads a table of the branch, where the branch goes."""
        return source.branch == self.move.branch.id and not source.snapshot


class _ViewBroken(LivingDBError):
    """Why a view cannot follow."""


def _describe_transition(move: BranchMove) -> _SchemaTransition:
    names = {name: name for name in move.before}
    masked: set[tuple[str, str]] = set()
    keeps = move.is_schema_alone
    for item in move.schema_changes:
        kind = item["change"]
        if kind == "RenameTable":
            old, new = item["table"], item["to"]
            names = {was: new if name == old else name for was, name in names.items()}
            masked = {(new if table == old else table, name) for table, name in masked}
        elif kind == "RenameColumn":
            old, new = (item["table"], item["name"]), (item["table"], item["to"])
            masked = {new if column == old else column for column in masked}
        elif kind == "MaskColumn":
            masked.add((item["table"], item["name"]))
        is_checked = kind == "AddConstraint" and item.get("on_violation") == "reject"
        is_filled = kind == "Normalize" and item["into"] in move.before
        hides = is_filled or item.get("policy") == "quarantine"
        keeps = keeps and not hides and (kind in _KEEPS_ROWS or is_checked)
    names |= _names_after(move)
    masked |= set(_masked_columns(move))
    return _SchemaTransition(move, names, frozenset(masked), keeps)


def _masked_columns(move: BranchMove) -> Iterator[tuple[str, str]]:
    """The columns, by the names after a move, that are masked on a way of several steps."""
    masked = {
        one.before[one.change.table].schema.column(one.change.name).id
        for one in move.line
        if isinstance(one.change, MaskColumn)
    }
    definition, require = move.graph.versions.definition, move.graph.versions.require
    for name in move.addresses if masked else ():
        for column in definition(require(move.addresses[name])).schema.columns:
            if column.id in masked:
                yield name, column.name


def _names_after(move: BranchMove) -> dict[str, str]:
    """What the tables are called where a branch moves, by what they are, if that is known."""
    definition, require = move.graph.versions.definition, move.graph.versions.require
    after = {
        definition(require(at)).id: name
        for name, at in move.addresses.items()
        if not is_hidden(name)
    }
    found = {}
    for name, at in move.before.items():
        known = definition(require(at)).id if move.addresses.get(name) != at else None
        known = None if known is None else move.unified.get(known, known)
        if known is not None and known in after and not is_hidden(name):
            found[name] = after[known]
    return found


def pending_schema_change(
    graph: Graph,
    sync: SyncRow,
    view: View,
    moves: Sequence[BranchMove],
    head: SnapshotRow,
    authors: Sequence[str],
    trust: Sequence[str],
) -> PendingChange:
    """What conditions of a view are asked about when what it reads has another schema."""
    sources: dict[str, VersionPair] = {}
    before = source_positions(graph, head)
    at = dict(before)
    for move in moves:
        at[move.branch.id] = move.address
        change = _describe_transition(move)
        for plain, source in view.tables.items():
            if change.reads(source):
                old = change.before.get(source.table)
                new = change.after.get(change.names.get(source.table, source.table))
                pair = [None if one is None else graph.versions.require(one) for one in (old, new)]
                sources[plain] = VersionPair(*pair)
    return PendingChange(
        graph,
        sync,
        visible_tables(graph.versions, tables_of(graph, head), {}),
        sources,
        at,
        head,
        now(),
        authors,
        view.uses,
        before,
        Cost("none", "SCHEMA_CHANGED", "embedded"),
        graph.record(head.address).edge.details.get(METRICS, {}),
        trust=trust,
        is_schema_change=True,
    )


def rebind_view(graph: Graph, view: View, move: BranchMove) -> View:
    """The view over the tables as they are where a branch moves."""
    if move.unified:
        view = _with_unified_ids(view, move)
    return _rebind_view(graph, view, _describe_transition(move))


def _with_unified_ids(view: View, move: BranchMove) -> View:
    """A view bound to what a merge took for one with what it was bound to."""
    ids, bound = move.unified, view.bound
    tables = {
        plain: replace(source, id=ids.get(source.id, source.id))
        if source.branch == move.branch.id and not source.snapshot
        else source
        for plain, source in view.tables.items()
    }
    bindings = view.bindings if bound is None else bound.with_ids(ids).to_json()
    return replace(view, tables=tables, bindings=bindings)


def rebind_to_heads(graph: Graph, view: View, then: At) -> View:
    """A view that has stopped, over its tables as they are now; `then` it was last made.

    A column that is gone is the one that has its name now.  `InvalidData` if there is none, or if
    one that it reads has another type than it had: the view would not be what was defined.
    """
    at, _ = source_heads(graph, view)
    followed = view_over_heads(graph, view)
    if view.what != "sql":
        return followed
    try:
        old, new = source_versions(graph, view, then), source_versions(graph, view, at)
    except (NotFound, KeyError):
        return followed
    before, after = (
        {plain: graph.versions.definition(item.version).schema for plain, item in side.items()}
        for side in (old, new)
    )
    used = _used_columns(view, before)
    for plain, columns in used.items():
        _check_columns(view, followed.tables[plain].table, before[plain], after[plain], columns)
    found = rebind_query(followed, before, after, used)
    if isinstance(found, BrokenQuery):
        return followed
    return replace(
        found, uses={plain: sorted(c) for plain, c in _used_columns(found, after).items()}
    )


def _check_columns(
    view: View, table: str, before: TableSchema, after: TableSchema, columns: frozenset[str]
) -> None:
    """`InvalidData` if a column that a view reads is gone or has another type."""
    by_id = {column.id: column for column in after.columns}
    by_name = {column.name: column for column in after.columns}
    for name in sorted(columns):
        old = before.column(name)
        new = by_id.get(old.id) or by_name.get(name)
        if new is None:
            raise InvalidData(
                f"{view.name!r} cannot go on: the column {name!r} of {table!r}, which it reads, is "
                "gone; bring it back, define the view anew with replace=True, or drop it"
            )
        if new.type != old.type:
            raise InvalidData(
                f"{view.name!r} cannot go on: the column {new.name!r}, which it reads, has another "
                "type; change it back, or define the view anew with replace=True"
            )


def _rebind_view(graph: Graph, view: View, change: _SchemaTransition) -> View:
    """The view over the tables as they are now."""
    if view.what == "clone":
        return _follow_changes(graph, view, change)
    tables: dict[str, SourceTable] = {}
    uses = dict(view.uses)
    renamed: list[tuple[str, str]] = []
    schemas = {plain: _source_schema(graph, t, change) for plain, t in view.tables.items()}
    used = _used_columns(view, schemas)
    later = dict(schemas)
    for plain, source in view.tables.items():
        if not change.reads(source):
            tables[plain] = source
            continue
        name = change.names.get(source.table)
        if name is None or name not in change.after:
            raise _ViewBroken(f"the table {source.table!r}, which it reads, is gone")
        tables[plain] = replace(source, table=name)
        version = graph.versions.require(change.after[name])
        later[plain] = graph.versions.definition(version).schema
        titles = _current_names(schemas[plain], later[plain], used[plain], name, change)
        uses[plain] = sorted(titles.values())
        renamed += [(plain, one) for one, other in titles.items() if one != other]
    moved = replace(view, tables=tables, uses=uses if view.uses or renamed else {})
    if view.what == "sql":
        found = rebind_query(moved, schemas, later, used)
        if isinstance(found, BrokenQuery):
            raise _ViewBroken(found.reason)
        return found
    for plain, name in renamed:
        raise _ViewBroken(f"the column {name!r} of {plain!r} has another name, for a function")
    return moved


def _follow_changes(graph: Graph, view: View, change: _SchemaTransition) -> View:
    """A clone whose changes go by the names that its source has now."""
    before, after = (
        {
            name: aliased(
                graph.versions.definition(graph.versions.require(at)), change.move.unified
            )
            for name, at in tables.items()
            if not is_hidden(name)
        }
        for tables in (change.before, change.after)
    )
    changes = [SchemaChange.from_json(item) for item in view.changes]
    made = follow_names(changes, before, after, change.move.made_changes)
    followed = [item.to_json() for item in made]
    return view if followed == list(view.changes) else replace(view, changes=tuple(followed))


def _used_columns(view: View, schemas: Mapping[str, TableSchema]) -> dict[str, frozenset[str]]:
    """The columns of each table that the view reads."""
    if view.what != "sql":
        return {plain: frozenset(schema.arrow.names) for plain, schema in schemas.items()}
    found_columns = columns_used(view, schemas)
    return {plain: frozenset(found_columns[plain]) for plain in view.tables}


def _source_schema(graph: Graph, source: SourceTable, change: _SchemaTransition) -> TableSchema:
    if change.reads(source):
        address = change.before.get(source.table)
        if address is None:
            raise _ViewBroken(f"the table {source.table!r}, which it reads, is gone")
        definition = graph.versions.definition(graph.versions.require(address))
        return aliased(definition, change.move.unified).schema
    if source.snapshot:
        row = graph.resolve(f"id:{source.snapshot}").snapshot
    else:
        branch = graph.branches.by_id(source.branch)
        assert branch is not None
        row = graph.snapshots.at(branch.head)
    return graph.versions.definition(graph.version(row, source.table)).schema


def _current_names(
    old: TableSchema,
    new: TableSchema,
    columns: frozenset[str],
    table: str,
    change: _SchemaTransition,
) -> dict[str, str]:
    """What the columns are called now; `_ViewBroken` if one is not what it was."""
    now_called = {column.id: column for column in new.columns}
    titles = {}
    wrong = []
    for name in sorted(columns):
        before = old.column(name)
        after = now_called.get(before.id)
        if after is None:
            wrong.append(f"{name} is gone")
        elif after.type != before.type:
            wrong.append(f"{name} has another type")
        elif (table, after.name) in change.masked:
            wrong.append(f"{name} is masked")
        elif after.id in change.move.remasked:
            wrong.append(f"{name} is not masked as it was")
        else:
            titles[name] = after.name
    if wrong:
        raise _ViewBroken(f"the schema of {table!r} changed in what it reads: {'; '.join(wrong)}")
    return titles


def unchanged_tables(
    graph: Graph,
    sync: SyncRow,
    view: View,
    rebound: View,
    moves: Sequence[BranchMove],
    head: SnapshotRow,
) -> dict[str, Version | None] | None:
    """What goes of a view that is as it was over branches in their new schemas.

    None if its rows may differ.
    """
    changes = [_describe_transition(move) for move in moves]
    if view.what == "clone" or not all(change.keeps_rows for change in changes):
        return None
    then = source_positions(graph, head)
    if not {move.branch.id for move in moves} <= set(then):
        return None
    try:
        at = {**then, **{move.branch.id: move.head.address for move in moves}}
        one, other = source_versions(graph, view, then), source_versions(graph, view, at)
    except LivingDBError:
        return None
    # An immediate view is up to date, also where it has not seen changes of what it does not use.
    is_same = all(one[name].version.address == other[name].version.address for name in one)
    if not is_same and sync.frequency != "immediate":
        return None
    kept = graph.tables(head)
    if view.what == "sql":
        versions = {name: item.version for name, item in other.items()}
        kept = _reusable_tables(graph, view, rebound, versions, changes, kept)
    if view.name not in kept:
        return None
    return dict.fromkeys(name for name in graph.tables(head) if name not in kept)


def _reusable_tables(
    graph: Graph,
    view: View,
    rebound: View,
    versions: Mapping[str, Version],
    changes: Sequence[_SchemaTransition],
    held: Mapping[str, Address],
) -> dict[str, Address]:
    """The tables of a view that its new query would hold in the same form."""
    schemas = {name: graph.versions.definition(one).schema for name, one in versions.items()}
    later = dict(schemas)
    for change in changes:
        for plain, source in rebound.tables.items():
            if change.reads(source):
                version = graph.versions.require(change.after[source.table])
                later[plain] = graph.versions.definition(version).schema
    before, after = (
        {s.name or view.name: (s.key, s.ask.query.named_selects) for s in plan.stages}
        for plan in (view_plan(view, schemas), view_plan(rebound, later))
    )
    return {name: at for name, at in held.items() if before.get(name) == after.get(name)}
