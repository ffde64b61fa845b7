"""Brings the three sides of a merge to one schema: what both have changed, on all of them.

Where the sides contradict each other about a table or column, a policy may say whose change counts:
the other's is left out, with what follows from it, and values that only it would have are those of
the winning side, of the base, or the default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import InvalidData, NotFound, RuleViolation
from livingdb.evolution.changes.mask_column import MaskColumn
from livingdb.evolution.changes.reorder_columns import ReorderColumns
from livingdb.evolution.equal_changes import remade_columns
from livingdb.evolution.lift import Lifter
from livingdb.evolution.merge_schemas import (
    Histories,
    SchemaConflict,
    SchemaMerge,
    losing_changes,
    merge_kept,
    merge_schemas,
)
from livingdb.evolution.plan import changed_tables, definitions_of
from livingdb.evolution.rebuild_table import can_rebuild, rebuild_table
from livingdb.evolution.replay_schema import replay
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.evolution.schema_elements import table_key
from livingdb.evolution.schema_history import schema_history, settled_fork, visible_schemas
from livingdb.graph.ancestry import common_ancestors
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.merge import MergeBase, merge_base
from livingdb.graph.names import is_hidden
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition

__all__ = ["AlignedSides", "align_schemas"]

Tables = Mapping[str, Version]


@dataclass(frozen=True)
class AlignedSides:
    """Base, ours and theirs in one schema; what ours had to change for it, and what was made.

    With `conflicts`, there is no such schema, and the sides are as they were.
    """

    base: MergeBase
    ours: Tables
    theirs: Tables
    changes: Sequence[SchemaChange] = ()
    intermediates: Sequence[Version] = ()
    conflicts: Sequence[SchemaConflict] = ()
    evolved: Mapping[str, Version | None] = field(default_factory=dict)
    """The tables of ours that the changes made others of; None: gone."""
    taken_back: frozenset[str] = frozenset()
    """The ids of changes of ours that do not count: then no changes lead to its tables."""
    rebuilt: frozenset[str] = frozenset()
    """Tables of a side to whose rows no changes lead: nobody has held them against the schema."""


def align_schemas(
    graph: Graph,
    lifter: Lifter,
    ours: SnapshotRow,
    theirs: SnapshotRow,
    on_conflict: Any,
    staging: Staging,
) -> AlignedSides:
    """What two snapshots come from, and both, in the schema that has the changes of both."""
    common = common_ancestors(graph.snapshots, ours, theirs)
    if not common:
        raise RuleViolation(
            "a merge needs a snapshot both sides come from, and there is none: what is derived or "
            "masked shares no history with what it is made of, and is not merged; insert its rows"
        )
    mine, yours = tables_of(graph, ours), tables_of(graph, theirs)
    fork = settled_fork(graph, lifter, common[0], ours, theirs)
    if fork is None or not any(lifter.schema_changes_between(fork, row) for row in (ours, theirs)):
        return AlignedSides(merge_base(graph, ours, theirs, staging), mine, yours)
    schemas = [visible_schemas(graph, row) for row in common]
    if all(known == schemas[0] for known in schemas):
        base = merge_base(graph, ours, theirs, staging)
    else:
        base = MergeBase(tables_of(graph, common[0]))
    in_base, in_ours, in_theirs = (
        schema_history(graph, lifter, fork, row) for row in (common[0], ours, theirs)
    )
    if common == [ours]:  # which has done nothing since that could be in conflict
        on_conflict = "theirs"
    work = _Alignment(
        graph, lifter, base, mine, yours, (in_base, in_ours, in_theirs), on_conflict, staging
    )
    return work.align()


@dataclass
class _Alignment:
    graph: Graph
    lifter: Lifter
    base: MergeBase
    ours: Tables
    theirs: Tables
    made: Histories
    on_conflict: Any
    staging: Staging
    versions: list[Version] = field(default_factory=list)
    rebuilt: set[str] = field(default_factory=set)

    def align(self) -> AlignedSides:
        """The three sides in one schema, if no conflict that is left stands in the way."""
        schemas = (
            self._schemas(self.base.tables), self._schemas(self.ours), self._schemas(self.theirs)
        )  # fmt: skip
        merged = merge_schemas(schemas, self.made)
        conflicts = list(merged.conflicts) or self._broken_rows(merged) or self._losses(merged)
        while True:
            left = [one for one in conflicts if one.winner(self.on_conflict) is None]
            if left:
                return AlignedSides(self.base, self.ours, self.theirs, conflicts=left)
            losing = losing_changes(conflicts, self.on_conflict)
            lacking = self._lacking_sides(conflicts)
            if not any(losing) and not lacking:
                break
            kept = merge_kept(schemas, self.made, losing)
            known = {one.reason for one in conflicts}
            broken = self._broken_rows(self._onto_kept_sides(kept, lacking))
            if known.issuperset(one.reason for one in broken):
                return self._aligned_without(kept, lacking)
            conflicts += broken
        ours = self._after(self.ours, merged.onto_ours)
        known = {one.identity for one in self.made[0]}
        missing = [change for change in merged.onto_ours if change.identity not in known]
        base = self._base_after([*merged.base_to_ours, *missing], merged)
        theirs = self._in_order_of(ours, self._after(self.theirs, merged.onto_theirs))
        return self._result(ours, theirs, self._in_order_of(ours, base), merged.onto_ours)

    def _with_ids_of(self, ours: Tables, tables: Tables) -> Tables:
        """Tables under the identities that ours has for what both sides made."""
        versions, found = self.graph.versions, dict(tables)
        for name, version in ours.items():
            other = tables.get(name)
            if other is None or is_hidden(name) or other.definition == version.definition:
                continue
            if versions.is_alike(version, other):
                definition = versions.definition(version)
                found[name] = versions.relabel(other, definition, self.staging.sink)
                self.versions.append(found[name])
        return found

    def _result(
        self, ours: Tables, theirs: Tables, base: Tables, changes: Sequence[SchemaChange]
    ) -> AlignedSides:
        fought = self._renamed(self.base.contested_keys, base)
        return AlignedSides(
            MergeBase(base, fought),
            ours,
            theirs,
            changes,
            self.versions,
            evolved=changed_tables(self.ours, ours),
        )

    def _renamed(self, by_name: Mapping[str, Any], after: Tables) -> dict[str, Any]:
        """What is known of tables of the base, by the names they have now."""
        keys = {table_key(n, d): n for n, d in self._schemas(after).items()}
        before = self._schemas(self.base.tables)
        found = {}
        for name, value in by_name.items():
            later = keys.get(table_key(name, before[name])) if name in before else name
            if later is not None:
                found[later] = value
        return found

    def _schemas(self, tables: Tables) -> Schemas:
        known = definitions_of(self.graph, tables)
        return {name: definition for name, definition in known.items() if not is_hidden(name)}

    def _after(self, tables: Tables, changes: Sequence[SchemaChange]) -> Tables:
        after, made = self.lifter.tables_after(tables, changes, self.staging)
        self.versions += made
        return after

    def _in_order_of(self, ours: Tables, tables: Tables) -> Tables:
        """Tables whose columns are in the order in which ours has them."""
        definitions = self._schemas(tables)
        orders = []
        for name, known in self._schemas(ours).items():
            other = definitions.get(name)
            if other is None or other.is_alike(known):
                continue
            columns = [column.name for column in known.schema.visible_columns]
            there = [column.name for column in other.schema.visible_columns]
            if columns != there and sorted(columns) == sorted(there):
                orders.append(ReorderColumns(name, columns))
        return self._with_ids_of(ours, self._after(tables, orders))

    # --- what stands in the way ------------------------------------------------------------------

    def _broken_rows(self, merged: SchemaMerge) -> list[SchemaConflict]:
        """Changes that the rows of a side do not allow, though its schema does."""
        found = []
        sides = (
            (self.ours, merged.onto_ours, self.made[2]),
            (self.theirs, merged.onto_theirs, self.made[1]),
        )
        for number, (tables, changes, made) in enumerate(sides):
            for change in changes:
                try:
                    tables, _ = self.lifter.tables_after(tables, [change], self.staging)
                except InvalidData as error:
                    one = tuple(item for item in made if item.identity == change.identity)
                    table = str(getattr(change, "table", ""))
                    whose = (one, ()) if number else ((), one)
                    reason = f"{type(change).__name__} does not fit the rows of "
                    reason += f"{'theirs' if number else 'ours'}: {error}"
                    found.append(SchemaConflict(table, None, reason, *whose))
                    break
        return found

    def _losses(self, merged: SchemaMerge) -> list[SchemaConflict]:
        """What one side did to rows that the changes of the other leave no place for."""
        own, other = (replace(merged, tables=self._schemas(t)) for t in (self.ours, self.theirs))
        of_ours = self._base_after(merged.base_to_ours, own)
        of_theirs = self._base_after(merged.base_to_theirs, other)
        found = []
        for base, side, changes, is_theirs in (
            (of_theirs, self.theirs, merged.onto_theirs, True),
            (of_ours, self.ours, merged.onto_ours, False),
        ):
            try:
                lost = self.lifter.lost_changes(base, side, changes, self.staging)
            except (InvalidData, NotFound):
                lost = self._left_out_before(changes)
            wanted = {change.identity for change in changes}
            made = self.made[1] if is_theirs else self.made[2]
            causes = tuple(item for item in made if item.identity in wanted)
            for table, why in lost.items():
                whose = (causes, ()) if is_theirs else ((), causes)
                found.append(SchemaConflict(table, None, why, whose[0], whose[1], is_loss=True))
        return found

    def _left_out_before(self, changes: Sequence[SchemaChange]) -> dict[str, str]:
        """Tables of changes that the base has and a side has not, as a merge left them out."""
        known = {one.identity for one in self.made[0]}
        return {
            str(getattr(change, "table", "")): f"{change.title} was left out by an earlier merge"
            for change in changes
            if change.identity in known
        }

    # --- where a change does not count -----------------------------------------------------------

    def _base_after(self, changes: Sequence[SchemaChange], merged: SchemaMerge) -> Tables:
        """The base after changes; rebuilt, where its rows are not those that a side made fit."""
        try:
            return self._after(self.base.tables, changes)
        except InvalidData:
            return self._rebuilt(0, merged, {})

    def _lacking_sides(self, conflicts: Iterable[SchemaConflict]) -> set[int]:
        """The places of sides that are to have what an earlier merge left out, or rows forbid."""
        found = set()
        for one in conflicts:
            is_ours = one.winner(self.on_conflict) == "ours"
            if not one.is_loss and not (one.theirs if is_ours else one.ours):
                found.add(2 if is_ours else 1)
        return found

    def _onto_kept_sides(self, kept: SchemaMerge, lacking: Collection[int]) -> SchemaMerge:
        """What is kept, with the changes of those sides alone that are not rebuilt."""
        return replace(
            kept,
            onto_ours=() if kept.taken_back or 1 in lacking else kept.onto_ours,
            onto_theirs=() if kept.left_out or 2 in lacking else kept.onto_theirs,
        )

    def _aligned_without(self, kept: SchemaMerge, lacking: Collection[int]) -> AlignedSides:
        """The three sides in the schema that has the changes of both but some."""
        if kept.is_base_other:
            base = self._rebuilt(0, kept, {})
        else:
            base = self._base_after(kept.base_to_ours, kept)
        if kept.taken_back or 1 in lacking:
            mine = self._rebuilt(1, kept, base)
        else:
            mine = self._after(self.ours, kept.onto_ours)
        if kept.left_out or 2 in lacking:
            yours = self._rebuilt(2, kept, base)
        else:
            yours = self._in_order_of(mine, self._after(self.theirs, kept.onto_theirs))
        found = self._result(mine, yours, self._in_order_of(mine, base), kept.onto_ours)
        return replace(found, taken_back=kept.taken_back, rebuilt=frozenset(self.rebuilt))

    def _rebuilt(self, side: int, kept: SchemaMerge, base: Tables) -> Tables:
        """Tables of a side in the schema of what is kept, by its place among the histories.

        They are as they are, rebuilt, or as if the side had left them alone.  What the other side
        masks is masked, and what changes gave columns that do not count is none of their values.
        """
        sides = [self.base.tables, self.ours, self.theirs]
        others = [tables for place, tables in enumerate(sides) if place not in (0, side)]
        gone = kept.taken_back | kept.left_out
        tables, remade = self._masked(sides[side], side, gone)
        remade |= remade_columns(self.made[side], gone)
        own = self._by_key(tables)
        elsewhere = [self._by_key(other) for other in (*others, base)]
        found = {name: version for name, version in tables.items() if is_hidden(name)}
        for name, definition in kept.tables.items():
            key = table_key(name, definition)
            version = own.get(key)
            is_key_remade = any(column.id in remade for column in definition.schema.key_columns)
            if version is None or is_key_remade or not can_rebuild(self.graph, version, definition):
                found[name] = base.get(name) or self._empty(definition)
                self.rebuilt.add(name)
                continue
            is_remade = any(column.id in remade for column in definition.schema.columns)
            if not is_remade and self.graph.versions.definition(version).is_alike(definition):
                found[name] = version
                continue
            self.rebuilt.add(name)
            more = [each[key] for each in elsewhere if key in each]
            found[name] = rebuild_table(self.graph, version, definition, more, self.staging, remade)
            self.versions.append(found[name])
        return found

    def _empty(self, definition: Definition) -> Version:
        """A table without rows."""
        made = self.graph.versions.create(definition, [], self.staging.sink)
        self.versions.append(made)
        return made

    def _masked(
        self, tables: Tables, side: int, gone: Collection[str]
    ) -> tuple[Tables, frozenset[str]]:
        """Tables of a side under the masks of the other, and columns that those cannot be made of.

        `gone` are changes that do not count.
        """
        known = {one.identity for made in (self.made[0], self.made[side]) for one in made}
        there = [one for place in {1, 2} - {side} for one in self.made[place]]
        there = list({one.identity: one for one in there}.values())
        masks = [one for one in there if isinstance(one.change, MaskColumn)]
        done = replay(masks, self._schemas(tables), known | set(gone))
        failed = remade_columns(there, {one.identity for one, _ in done.failed})
        return self._after(tables, done.changes), failed

    def _by_key(self, tables: Tables) -> dict[str, Version]:
        return {table_key(n, d): tables[n] for n, d in self._schemas(tables).items()}
