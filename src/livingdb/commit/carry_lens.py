"""Carries a change of one end of a schema sync to the other, through its lens.

The branches that two-way syncs join form a tree, along which a change goes from the branch it was
made on.  A one-way sync follows schema changes of its source: its lens is planned anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import BEHIND, SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carried import Carried
from livingdb.commit.fill_generated import fill_changes, fill_rows, has_generated
from livingdb.commit.proposal import BranchChange, BranchMove, Tables
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.errors import InvalidData, LivingDBError, MaskKeyMissing, RuleViolation
from livingdb.evolution.changes.reorder_columns import ReorderColumns
from livingdb.evolution.follow_names import follow_changes, follow_names
from livingdb.evolution.lenses.lens import Follower, Lens, RowImages
from livingdb.evolution.lenses.sides import (
    VersionSide,
    delta_counts,
    follower_delta,
    images_between,
    inserted_images,
    narrow_delta,
    narrow_images,
)
from livingdb.evolution.plan import definitions_of, new_tables, plan_changes
from livingdb.evolution.replay_schema import replay
from livingdb.evolution.schema_change import SchemaChange, Schemas, unlock_changes
from livingdb.evolution.schema_elements import aliased, planned_tables
from livingdb.graph.constraints import check_tables
from livingdb.graph.diff import delta_between
from livingdb.graph.draft import Intent
from livingdb.graph.edge_ends import carried_details
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.graph.unique_constraints import check_unique
from livingdb.sql.expressions import Expression
from livingdb.tables.identity import recorded_change_id
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import Delta

KeptChecks = Mapping[str, Callable[[], Collection[str]]]
"""For tables, the names of the checks that a change is known to keep."""

__all__ = ["LensCarrier", "lens_of", "lens_over"]

_KEPT_PAIRS = 4096


class LensCarrier:
    """Carries changes along the syncs of schema changes."""

    def __init__(self, graph: Graph, trust: Sequence[str] = ()):
        self._graph = graph
        self._trust = tuple(trust)
        self._lenses: dict[tuple[SyncId, str], Lens] = {}
        self._referred: dict[Address, set[str]] = {}
        self._known_followers: dict[tuple[int, str, bool], tuple[Lens, Follower | None]] = {}
        self._common: dict[tuple[int, int], tuple[TableSchema, TableSchema, frozenset[str]]] = {}

    def reached(self, move: BranchMove) -> list[tuple[SyncRow, BranchId]]:
        """The syncs that a move of a branch goes along, and the branches it leads to."""
        return self._graph.syncs(move.branch.epoch).schema_syncs_from(move.branch.id)

    def carry(
        self, sync: SyncRow, source: BranchMove, branch: BranchRow, staging: Staging
    ) -> Carried | None:
        """What a move of one end of a sync makes of the other; None if nothing."""
        graph = self._graph
        is_right = source.branch.id in sync.sources
        head = graph.snapshots.at(branch.head)
        lens = self.lens(sync)
        shared = self._shared_versions(lens, sync, source, graph.tables(head))
        if shared:
            details = {**_edge_details(sync, source, is_right), "rows": {}}
            return Carried(self._intent(sync, source, branch, head, shared, details))
        tables = whole_tables(tables_of(graph, head))
        try:
            if self._changes_schema(lens, sync, source, tables):
                return self._carry_schema_change(sync, source, branch, head, staging)
            step = self._change_since(sync, source, is_right)
            changes, images, kept = self._translate_deltas(lens, is_right, step, tables)
        except MaskKeyMissing:  # it stays where it is, until somebody has the key
            if not is_right:  # what a sync leads from cannot be behind what it leads to
                raise
            at = (sync.behind or source.head.address).hex()
            return Carried(None, tables, spec=None if sync.behind else {**sync.spec, BEHIND: at})
        spec = None if sync.behind is None else sync.spec_in_step
        made, rows = self._apply_deltas(tables, changes, staging)
        self._check_constraints(step, tables, made, changes, kept)
        if not changes:
            return None if spec is None else Carried(None, tables, spec=spec)
        narrow = {n: change for n, change in changes.items() if isinstance(change, Delta)}
        details = {**_edge_details(sync, source, is_right), "rows": rows}
        intent = self._intent(sync, source, branch, head, made, details)
        return Carried(intent, tables, deltas=narrow, row_images=images, spec=spec)

    def _shared_versions(
        self, lens: Lens, sync: SyncRow, source: BranchMove, there: Mapping[str, Address]
    ) -> dict[str, Version | None]:
        """What the target takes as it is, where that is all that a move brings.

        Nothing if the lens or a condition has a say in it, or a constraint on the target alone.
        """
        if not (source.changed.isdisjoint(lens.old) and source.changed.isdisjoint(lens.new)):
            return {}
        if sync.behind is not None or sync.guard.get("conditions") or source.other_schemas:
            return {}
        require, found = self._graph.versions.require, dict[str, Version | None]()
        for name in source.changed:
            address, old = source.addresses.get(name), source.before.get(name)
            is_same = old is not None and old == there.get(name)
            if address is None or not is_same:
                return {}
            version = require(address)
            schema = self._graph.versions.definition(version).schema
            has_own_checks = schema.has_conditions or schema.uniques
            if schema.foreign_keys or (has_own_checks and not source.is_checked):
                return {}
            found[name] = version
        for name, address in there.items():
            if is_hidden(name) or not found.keys().isdisjoint(self.referred_tables(address)):
                return {}
        return found

    def referred_tables(self, version: Address) -> Collection[str]:
        """The tables that foreign keys of one refer to."""
        definition = self._graph.versions.require(version).definition
        known = self._referred.get(definition)
        if known is None:
            schema = self._graph.versions.definition(self._graph.versions.require(version)).schema
            known = self._referred[definition] = {target for _, target in schema.foreign_keys}
        return known

    def _change_since(self, sync: SyncRow, source: BranchMove, is_right: bool) -> BranchChange:
        """What a sync has to carry of a branch that moves: also what waited for a key."""
        if sync.behind is None:
            return source.change
        if not is_right:
            near, far = sync.ends
            raise RuleViolation(
                f"{far!r} is behind {near!r}, which it is in step with: their sync waits for the "
                "key of a mask, and until then nothing is written here; db.propagate() where the "
                "key is known carries what waits"
            )
        row = self._graph.snapshots.find(sync.behind)
        assert row is not None
        before, after = tables_of(self._graph, row), source.change.after
        return BranchChange(source.branch.id, source.branch.name, before, after, source.address)

    def _intent(
        self,
        sync: SyncRow,
        source: BranchMove,
        branch: BranchRow,
        head: SnapshotRow,
        made: Mapping[str, Version | None],
        details: Mapping[str, Any],
        made_between: Sequence[Version] = (),
    ) -> Intent:
        """The snapshot of the target; behind a mask nothing is said but where it is from."""
        is_masked = source.branch.id in sync.sources and self.lens(sync).conceals
        message = f"follows {sync.ends[0]}" if is_masked else source.edge.message
        return Intent(
            (head,),
            (branch,),
            "propagate",
            "sync",
            source.edge.author,
            message,
            made,
            {source.branch.name: source.address.hex()},
            details,
            intermediates=made_between,
        )

    def _changes_schema(
        self, lens: Lens, sync: SyncRow, source: BranchMove, tables: Tables
    ) -> bool:
        """Whether a change of a branch is one of the schema that a sync has to do with.

        `RuleViolation` if the sync cannot follow it.
        """
        changed: list[str] = []
        if source.other_schemas:
            shared = {*lens.old, *lens.new, *tables}
            changed = sorted(name for name in source.other_schemas & shared if not is_hidden(name))
        is_one_way = sync.direction == "forward"
        if not is_one_way:
            again = source.changed & {*lens.old, *lens.new}
            changed += sorted(name for name in again if name not in source.before)
        else:
            # A table that is new, or that comes again, is one that the target has to have.
            before = source.before
            changed += sorted(n for n in source.changed if n not in before and not is_hidden(n))
        if not changed:
            return False
        if is_one_way:
            return True
        raise RuleViolation(
            f"rule 4: {source.branch.name!r} is in the sync {sync.name!r}, which stays with its "
            f"present schema, and this would change that of {changed[0]!r}: evolve the "
            "branch instead, or detach the sync first"
        )

    def _carry_schema_change(
        self,
        sync: SyncRow,
        source: BranchMove,
        branch: BranchRow,
        head: SnapshotRow,
        staging: Staging,
    ) -> Carried:
        """The target of a one-way sync over a source whose schema has changed: planned anew.

        What the target is made of are recipes over the source's tables, as when it was made.
        """
        graph = self._graph
        after = source.change.after
        held = whole_tables(tables_of(graph, head))
        before, definitions = (
            {name: graph.versions.definition(v) for name, v in tables.items()}
            for tables in (source.change.before, after)
        )
        before = {name: aliased(known, source.unified) for name, known in before.items()}
        change = SchemaChange.from_json(sync.spec["change"])
        followed = follow_changes([change], before, definitions, source.made_changes)
        changes = followed.changes
        plan = plan_changes(definitions, changes)
        made, between = new_tables(graph, plan, after, staging)
        whole = overlay_tables(after, made)
        (lens,) = plan.lenses
        is_touched = not source.changed.isdisjoint(lens.old)
        differing: dict[str, Version | None] = {}
        for name in {**held, **whole}:
            old, new = held.get(name), whole.get(name)
            is_same = old is not None and new is not None and old.definition == new.definition
            is_other = name in source.changed or (is_touched and name in lens.new)
            is_kept = is_same and not is_other
            if not is_hidden(name) and not is_kept:
                differing[name] = new
        spec = {
            **sync.spec_in_step,
            "change": changes[0].to_json(),
            "snapshot": source.address.hex(),
        }
        details = {**_edge_details(sync, source, True), "reason": "SCHEMA_CHANGED", "rows": {}}
        intent = self._intent(sync, source, branch, head, differing, details, between)
        own = self._changes_there(source, held, whole)
        if own:
            details["changes"] = [item.to_json() for item in own]
            intent = replace(intent, kind="schema_change", details=details)
        return Carried(
            intent,
            held,
            spec=spec,
            schema_changes=source.schema_changes,
            brings_rows=sync.behind is not None or not source.is_schema_alone,
            unified={**source.unified, **followed.unified},
        )

    def _changes_there(
        self, source: BranchMove, held: Tables, after: Tables
    ) -> Sequence[SchemaChange]:
        """The changes of a source as those of its target, which then has them in its history.

        Under their ids, by the names of the target; none, if they do not lead to its new schema.
        """
        there, then = (
            {
                name: self._graph.versions.definition(version)
                for name, version in tables.items()
                if not is_hidden(name)
            }
            for tables in (held, after)
        )
        try:
            done = replay(source.history, there, ())
            orders = list(_reorders(done.tables, then, source.address.hex()))
            for order in orders:
                done.tables = planned_tables(order, done.tables)
        except LivingDBError:
            return ()
        is_whole = not done.failed and done.tables == then
        return [*done.changes, *orders] if is_whole else ()

    def translate_tables(
        self, lens: Lens, is_right: bool, step: BranchChange, tables: Tables, staging: Staging
    ) -> dict[str, Version | None]:
        """The versions that a change on one side of a lens makes of tables on the other."""
        changes, _, _ = self._translate_deltas(lens, is_right, step, tables)
        made, _ = self._apply_deltas(tables, changes, staging)
        for name, change in changes.items():
            version = made[name]
            if isinstance(change, Delta) and version is not None:
                check_unique(self._graph.versions, name, version, change)
        return made

    def _translate_deltas(
        self, lens: Lens, is_right: bool, step: BranchChange, tables: Tables
    ) -> tuple[dict[str, Delta | Version], dict[str, RowImages], KeptChecks]:
        """The changes of the other side's tables; a version where both sides share one.

        With the rows that differ, where they are known, and the checks that both sides have of
        values that are the same.
        """
        versions = self._graph.versions
        here, there = (lens.old, lens.new) if is_right else (lens.new, lens.old)
        changed = [
            name
            for name, before in step.before.items()
            if name in step.after and step.after[name].address != before.address
        ]
        found: dict[str, Delta | Version] = {}
        known: dict[str, RowImages] = {}
        kept: dict[str, Callable[[], Collection[str]]] = {}
        rest: list[str] = []
        followers = self._followers(lens, is_right, step, [n for n in changed if n in here])
        for name in changed:
            follower = followers.get(name)
            if follower is not None:
                schemas = here[name].schema, there[follower.table].schema
                shape = versions.forest(tables[follower.table]).shape
                changes = follower_delta(self._table_delta(step, name), *schemas, shape, follower)
                if has_generated(schemas[1]):
                    rows = versions.rows(tables[follower.table])
                    changes = fill_changes(self._graph.generated, rows, changes)
                found[follower.table] = changes
                kept[follower.table] = partial(self._common_checks, *schemas)
            elif name in here:
                rest.append(name)
            elif name in there or name not in tables:
                continue
            elif tables[name].address == step.before[name].address:
                found[name] = step.after[name]
            elif versions.is_alike(tables[name], step.before[name]):
                found[name] = self._table_delta(step, name)
            else:
                raise InvalidData(f"table {name!r} has another schema there")
        deltas = {name: self._row_images(step, name) for name in rest}
        if deltas:
            if is_right:
                lens.unlock()
            mine, theirs = VersionSide(versions, step.before), VersionSide(versions, tables)
            put = lens.putr if is_right else lens.putl
            beside = {
                name: self._row_images(step, name) for name in changed if name in lens.consults
            }
            for name, delta in put({**deltas, **beside}, mine, theirs).items():
                shape = versions.forest(tables[name]).shape
                if has_generated(there[name].schema):
                    values, rows = self._graph.generated, versions.rows(tables[name])
                    delta = RowImages(delta.before, fill_rows(values, rows, delta.after))
                found[name], known[name] = narrow_images(there[name].schema, shape, delta)
        return {n: c for n, c in found.items() if isinstance(c, Version) or len(c)}, known, kept

    def _common_checks(self, here: TableSchema, there: TableSchema) -> frozenset[str]:
        """The checks that two tables of a lens have in common; found once, while both are held."""
        place = id(here), id(there)
        known = self._common.get(place)
        if known is None:
            if len(self._common) >= _KEPT_PAIRS:
                self._common.clear()
            known = self._common[place] = here, there, _common_checks(here, there)
        return known[2]

    def _followers(
        self, lens: Lens, is_right: bool, step: BranchChange, changed: Sequence[str]
    ) -> dict[str, Follower]:
        """The tables of the other side that follow all changes of a lens's tables as they are.

        None if one does not follow: what changes in one table may be seen in another's, too.
        """
        here = lens.old if is_right else lens.new
        found: dict[str, Follower] = {}
        for name in changed:
            follower = self._follower(lens, name, is_right)
            if follower is None:
                return {}
            if not follower.follows(here[name].schema, self._table_delta(step, name)):
                return {}
            found[name] = follower
        return found

    def _follower(self, lens: Lens, table: str, is_right: bool) -> Follower | None:
        """The table of the other side that follows one of a lens; found once."""
        place = id(lens), table, is_right
        known = self._known_followers.get(place)
        if known is None:
            if len(self._known_followers) >= _KEPT_PAIRS:
                self._known_followers.clear()
            known = self._known_followers[place] = lens, lens.follower(table, is_right)
        return known[1]

    def _table_delta(self, step: BranchChange, name: str) -> Delta:
        """What happens to the rows of a table, and no more."""
        found = step.deltas.get(name)
        if found is None:
            versions, before, after = self._graph.versions, step.before[name], step.after[name]
            is_next = after.base == before.address
            made = versions.delta(after) if is_next else delta_between(versions, before, after)
            found = step.deltas[name] = narrow_delta(versions.rows(before), made)
        return found

    def _row_images(self, step: BranchChange, name: str) -> RowImages:
        """What happens to the rows of a table, as whole rows before and after."""
        found = step.row_images.get(name)
        if found is None:
            before, after = step.before[name], step.after[name]
            known = step.deltas.get(name)
            if known is not None and known.inserts_whole_rows:
                found = inserted_images(self._graph.versions.definition(after).schema, known)
            else:
                found = images_between(self._graph.versions, before, after)
            step.row_images[name] = found
        return found

    def _apply_deltas(
        self, tables: Tables, changes: Mapping[str, Delta | Version], staging: Staging
    ) -> tuple[dict[str, Version | None], dict[str, int]]:
        """The versions that changes make, and how many rows they change in those not shared."""
        made: dict[str, Version | None] = {}
        rows: dict[str, int] = {}
        for name, change in changes.items():
            if isinstance(change, Version):
                made[name] = change
                continue
            made[name] = self._graph.versions.change(
                tables[name], change, staging.sink, delta_counts(change)
            )
            rows[name] = len(change)
        return made, rows

    def _check_constraints(
        self,
        step: BranchChange,
        tables: Tables,
        made: Mapping[str, Version | None],
        changes: Mapping[str, Delta | Version],
        kept: KeptChecks,
    ) -> None:
        """Conditions and foreign keys hold on the other side, too; some checks `kept` as here."""

        def happens(name: str) -> Delta:
            return delta_between(self._graph.versions, step.before[name], step.after[name])

        whole = overlay_tables(tables, made)
        known = {name: change for name, change in changes.items() if isinstance(change, Delta)}
        versions = self._graph.versions
        check_tables(versions, whole, changes, known, happens, kept, has_nulls=False)

    def lens(self, sync: SyncRow) -> Lens:
        """The lens of a sync."""
        place = sync.id, str(sync.spec["snapshot"])
        known = self._lenses.get(place)
        if known is None or known.conceals:
            unlock_changes([SchemaChange.from_json(sync.spec["change"])], self._trust)
        if known is None:
            known = self._lenses[place] = lens_of(self._graph, sync)
        return known


def _common_checks(here: TableSchema, there: TableSchema) -> frozenset[str]:
    """The names of the checks that two tables have, of columns that are the same in both."""
    if not here.checks or not there.checks:
        return frozenset()
    mine, theirs = (
        {column.name: (column.id, column.type) for column in schema.columns}
        for schema in (here, there)
    )
    same = {name for name, column in theirs.items() if mine.get(name) == column}
    known = dict(here.checks)
    return frozenset(
        name
        for name, text in there.checks
        if known.get(name) == text and Expression(text).columns <= same
    )


def _reorders(tables: Schemas, wanted: Schemas, why: str) -> Iterator[SchemaChange]:
    """The changes after which columns are in the order that is wanted; `why` names the occasion."""
    for name, known in tables.items():
        other = wanted.get(name)
        here = [column.name for column in known.schema.visible_columns]
        there = [] if other is None else [c.name for c in other.schema.visible_columns]
        if here != there and sorted(here) == sorted(there):
            identity = recorded_change_id(f"order of {name} after {why}")
            yield ReorderColumns(name, there).with_id(identity)


def lens_of(graph: Graph, sync: SyncRow) -> Lens:
    """The lens of a sync: its change, on the tables as they were when it was made."""
    return SchemaChange.from_json(sync.spec["change"]).plan(_planned_on(graph, sync))


def lens_over(graph: Graph, sync: SyncRow, tables: Tables) -> Lens:
    """The lens of a sync over tables of another time: its change, by the names they had."""
    then = definitions_of(graph, tables)
    change = SchemaChange.from_json(sync.spec["change"])
    (followed,) = follow_names([change], _planned_on(graph, sync), then)
    return followed.plan(then)


def _planned_on(graph: Graph, sync: SyncRow) -> dict[str, Definition]:
    """The tables that the change of a sync was planned on."""
    record = graph.record(Address(bytes.fromhex(sync.spec["snapshot"])))
    versions = graph.versions
    return {
        name: versions.definition(versions.require(address))
        for name, address in record.tables.items()
    }


def _edge_details(sync: SyncRow, source: BranchMove, is_right: bool) -> dict[str, Any]:
    return carried_details(sync.name, sync.id, source.branch.id, source.address, is_right)
