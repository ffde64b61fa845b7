"""Rebinds views to the new schema of a branch they read: goes on, follows names, or detaches.

A view goes on if the columns it reads are as they were; where they have other names its query
follows them; anything else detaches it, with an alert that names the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carry_views import Views
from livingdb.derivation.plan_cache import columns_used, view_plan
from livingdb.derivation.rebind_view import rebind_view
from livingdb.derivation.source_positions import (
    AT,
    positions_by_name,
    source_positions,
    source_versions,
)
from livingdb.derivation.view import SourceTable, View
from livingdb.errors import LivingDBError
from livingdb.graph.draft import Draft, Intent, Propagation
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.guard.build_pending_change import visible_tables
from livingdb.guard.conditions.pending_change import Cost, PendingChange, VersionPair
from livingdb.guard.judge import Judgement, judge_change
from livingdb.guard.sync_failure import detach_action
from livingdb.sql.render_query import BrokenQuery
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema

__all__ = ["rebind_views"]

Make = Callable[[Intent], Draft]

_KEEPS_ROWS = {
    *("AddColumn", "DropColumn", "RenameColumn", "RetypeColumn", "MaskColumn", "SplitColumn"),
    *("ConcatColumns", "RenameTable", "CreateTable", "DropTable", "Normalize", "DropConstraint"),
}
"""Changes after which a table that is still there has the same rows, but for columns named."""


@dataclass(frozen=True)
class _SchemaTransition:
    """A schema change of a branch: its tables before and after, and what the old ones became."""

    branch: BranchRow
    before: Mapping[str, Address]
    after: Mapping[str, Address]
    names: Mapping[str, str]
    masked: frozenset[tuple[str, str]]
    keeps_rows: bool


class _ViewBroken(Exception):
    """Why a view cannot follow."""


def rebind_views(graph: Graph, views: Views, draft: Draft, make: Make) -> Propagation:
    """The views of a branch after its schema changed."""
    drafts: list[Draft] = []
    actions: list[Callable[[Connection], None]] = []
    for branch in draft.intent.moves:
        head = graph.snapshots.at(branch.head)
        change = _describe_transition(graph, branch, head, draft)
        for sync, view in views.every:
            read = [t for t in view.tables.values() if t.branch == branch.id and not t.snapshot]
            if not any(change.before.get(t.table) != change.after.get(t.table) for t in read):
                continue
            if sync.guard.get("conditions"):
                judgement = _judge_schema_change(graph, sync, view, change, draft)
                judgement.refuse()
                if judgement.is_blocking:
                    actions.append(judgement.stop_action(draft.intent.author))
                    continue
                actions += judgement.warning_actions()
            try:
                moved = _rebind_view(graph, view, change)
            except _ViewBroken as reason:
                actions.append(detach_action(graph, sync, str(reason), now()))
                continue
            if moved != view:
                actions.append(_store_view_action(graph, sync, moved))
            same = _unchanged_view_intent(graph, sync, view, moved, change, head, draft)
            if same is not None:
                drafts.append(make(same))
    return Propagation(drafts, actions)


def _judge_schema_change(
    graph: Graph, sync: SyncRow, view: View, change: _SchemaTransition, draft: Draft
) -> Judgement:
    """What the conditions of a view say about a schema change of what it reads."""
    target = graph.branches.by_id(sync.target)
    assert target is not None
    head = graph.snapshots.at(target.head)
    held = tables_of(graph, head)
    sources: dict[str, VersionPair] = {}
    for plain, source in view.tables.items():
        if source.branch != change.branch.id or source.snapshot:
            continue
        old = change.before.get(source.table)
        new = change.after.get(change.names.get(source.table, source.table))
        versions = [None if at is None else graph.versions.require(at) for at in (old, new)]
        sources[plain] = VersionPair(*versions)
    before = source_positions(graph, head)
    pending = PendingChange(
        graph,
        sync,
        visible_tables(held, {}),
        sources,
        {**before, change.branch.id: draft.address},
        head,
        now(),
        [draft.intent.author],
        view.uses,
        before,
        Cost("none", "SCHEMA_CHANGED", "embedded"),
        trust=graph.trust,
    )
    judgement = judge_change(pending)
    assert judgement is not None
    return judgement


def _describe_transition(
    graph: Graph, branch: BranchRow, head: SnapshotRow, draft: Draft
) -> _SchemaTransition:
    names = {name: name for name in graph.tables(head)}
    masked: set[tuple[str, str]] = set()
    keeps = True
    for item in draft.intent.details.get("changes", ()):
        kind = item["change"]
        if kind == "RenameTable":
            names = {
                old: item["to"] if name == item["table"] else name for old, name in names.items()
            }
        elif kind == "MaskColumn":
            masked.add((item["table"], item["name"]))
        is_checked = kind == "AddConstraint" and item.get("on_violation") == "reject"
        keeps = keeps and (kind in _KEEPS_ROWS or is_checked)
    return _SchemaTransition(
        branch, graph.tables(head), draft.record.tables, names, frozenset(masked), keeps
    )


def _rebind_view(graph: Graph, view: View, change: _SchemaTransition) -> View:
    """The view over the tables as they are now."""
    if view.what == "clone":
        return view
    tables: dict[str, SourceTable] = {}
    uses = dict(view.uses)
    renamed: list[tuple[str, str]] = []
    schemas = {plain: _source_schema(graph, t, change) for plain, t in view.tables.items()}
    used = _used_columns(view, schemas)
    later = dict(schemas)
    for plain, source in view.tables.items():
        if source.branch != change.branch.id or source.snapshot:
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
        found = rebind_view(moved, schemas, later, used)
        if isinstance(found, BrokenQuery):
            raise _ViewBroken(found.reason)
        return found
    for plain, name in renamed:
        raise _ViewBroken(f"the column {name!r} of {plain!r} has another name, for a function")
    return moved


def _used_columns(view: View, schemas: Mapping[str, TableSchema]) -> dict[str, frozenset[str]]:
    """The columns of each table that the view reads."""
    if view.what != "sql":
        return {plain: frozenset(schema.arrow.names) for plain, schema in schemas.items()}
    found_columns = columns_used(view, schemas)
    return {plain: frozenset(found_columns[plain]) for plain in view.tables}


def _source_schema(graph: Graph, source: SourceTable, change: _SchemaTransition) -> TableSchema:
    if source.branch == change.branch.id and not source.snapshot:
        address = change.before.get(source.table)
        if address is None:
            raise _ViewBroken(f"the table {source.table!r}, which it reads, is gone")
        return graph.versions.definition(graph.versions.require(address)).schema
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
        elif {(table, name), (table, after.name)} & change.masked:
            wrong.append(f"{name} is masked")
        else:
            titles[name] = after.name
    if wrong:
        raise _ViewBroken(f"the schema of {table!r} changed in what it reads: {'; '.join(wrong)}")
    return titles


def _store_view_action(graph: Graph, sync: SyncRow, view: View) -> Callable[[Connection], None]:
    def act(connection: Connection) -> None:
        graph.catalog.syncs.set_spec(connection, sync.id, view.to_json())
        graph.catalog.raise_epoch(connection)

    return act


def _reusable_tables(
    graph: Graph,
    view: View,
    moved: View,
    versions: Mapping[str, Version],
    change: _SchemaTransition,
    held: Mapping[str, Address],
) -> dict[str, Address]:
    """The tables of a view that its new query would hold in the same form."""
    schemas = {name: graph.versions.definition(one).schema for name, one in versions.items()}
    later = dict(schemas)
    for plain, source in moved.tables.items():
        if source.branch == change.branch.id and not source.snapshot:
            version = graph.versions.require(change.after[source.table])
            later[plain] = graph.versions.definition(version).schema
    before, after = (
        {s.name or view.name: (s.key, s.ask.query.named_selects) for s in plan.stages}
        for plan in (view_plan(view, schemas), view_plan(moved, later))
    )
    return {name: at for name, at in held.items() if before.get(name) == after.get(name)}


def _unchanged_view_intent(
    graph: Graph,
    sync: SyncRow,
    view: View,
    moved: View,
    change: _SchemaTransition,
    head: SnapshotRow,
    draft: Draft,
) -> Intent | None:
    """The view as it is, made from the branch in its new schema; None if its rows may differ."""
    rows = graph.branches.by_ids([sync.target, *view.branches])
    target = rows.get(sync.target)
    if target is None or view.what == "clone" or not change.keeps_rows:
        return None
    last = graph.snapshots.at(target.head)
    then = source_positions(graph, last)
    if change.branch.id not in then:
        return None
    try:
        at = {**then, change.branch.id: head.address}
        one, other = source_versions(graph, view, then), source_versions(graph, view, at)
    except LivingDBError:
        return None
    # An immediate view is up to date, also where it has not seen changes of what it does not use.
    is_same = all(one[name].version.address == other[name].version.address for name in one)
    if not is_same and sync.frequency != "immediate":
        return None
    versions = {name: item.version for name, item in other.items()}
    kept = graph.tables(last)
    if view.what == "sql":
        kept = _reusable_tables(graph, view, moved, versions, change, kept)
    if view.name not in kept:
        return None
    at = {**then, change.branch.id: draft.address}
    names = {number: row.name for number, row in rows.items()}
    details = {
        "sync": sync.name,
        "strategy": "none",
        "reason": "SCHEMA_CHANGED",
        "rows": 0,
        AT: {str(branch): address.hex() for branch, address in at.items()},
    }
    return Intent(
        (last,),
        (target,),
        "propagate",
        "follow",
        draft.intent.author,
        draft.intent.message,
        dict.fromkeys(name for name in graph.tables(last) if name not in kept),
        positions_by_name(at, names),
        details,
    )
