"""Brings the three sides of a merge to one schema: what both have changed, on all of them.

Where the sides contradict each other about a table or column, a policy may say whose change counts:
the other's is left out, with what follows from it, and values that only it would have are those of
the winning side, of the base, or the default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from livingdb.commit.merging.contested_rows import Bring, contested_after
from livingdb.errors import InvalidData, NotFound
from livingdb.evolution.changes.mask_column import MaskColumn
from livingdb.evolution.changes.reorder_columns import ReorderColumns
from livingdb.evolution.equal_changes import remade_columns
from livingdb.evolution.lift import Lifter
from livingdb.evolution.merge_schemas import (
    NEITHER,
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
from livingdb.evolution.schema_elements import MadeChange, table_key
from livingdb.evolution.schema_history import made_of
from livingdb.graph.graph import Graph
from livingdb.graph.merge import MergeBase
from livingdb.graph.names import is_hidden
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition
from livingdb.trees.keys import KeyArray

__all__ = ["AlignedSides", "Side", "align_schemas"]

Tables = Mapping[str, Version]


@dataclass(frozen=True)
class Side:
    """Tables, the schema changes since the fork that led to them, and rows in conflict for good."""

    tables: Tables
    made: Sequence[MadeChange] = ()
    contested_keys: Mapping[str, KeyArray] = field(default_factory=dict)


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
    made: Sequence[MadeChange] = ()
    """The changes since the fork that lead to the one schema."""
    contested_keys: Mapping[str, KeyArray] = field(default_factory=dict)
    """Rows of ours that are in conflict for good."""
    undecided: frozenset[str] = frozenset()
    """Tables that one side dropped and the other changed, where neither counts."""
    before: Sequence[Schemas] = ()
    """The schemas that the three sides had."""


def align_schemas(
    graph: Graph,
    lifter: Lifter,
    sides: tuple[Side, Side, Side],
    on_conflict: Any,
    staging: Staging,
) -> AlignedSides:
    """What two sides come from, and both, in the schema that has the changes of both."""
    work = _Alignment(graph, lifter, sides, on_conflict, staging)
    return replace(work.align(), before=work.schemas)


@dataclass
class _Alignment:
    graph: Graph
    lifter: Lifter
    sides: tuple[Side, Side, Side]
    on_conflict: Any
    staging: Staging
    versions: list[Version] = field(default_factory=list)
    rebuilt: set[str] = field(default_factory=set)

    @property
    def base(self) -> Tables:
        return self.sides[0].tables

    @property
    def ours(self) -> Tables:
        return self.sides[1].tables

    @property
    def theirs(self) -> Tables:
        return self.sides[2].tables

    @property
    def made(self) -> Histories:
        base, ours, theirs = self.sides
        return base.made, ours.made, theirs.made

    @cached_property
    def schemas(self) -> tuple[Schemas, Schemas, Schemas]:
        """Those that the sides have."""
        return self._schemas(self.base), self._schemas(self.ours), self._schemas(self.theirs)

    def align(self) -> AlignedSides:
        """The three sides in one schema, if no conflict that is left stands in the way."""
        schemas = self.schemas
        merged = merge_schemas(schemas, self.made)
        conflicts = list(merged.conflicts) or self._broken_rows(merged) or self._losses(merged)
        while True:
            left = [one for one in conflicts if one.winner(self.on_conflict) is None]
            if left:
                base = MergeBase(self.base, self.sides[0].contested_keys)
                return AlignedSides(base, self.ours, self.theirs, conflicts=left)
            losing = losing_changes(conflicts, self.on_conflict)
            lacking = self._lacking_sides(conflicts)
            if not any(losing) and not lacking:
                break
            kept = merge_kept(schemas, self.made, losing)
            known = {one.reason for one in conflicts}
            broken = self._broken_rows(self._onto_kept_sides(kept, lacking))
            if known.issuperset(one.reason for one in broken):
                undecided = self._undecided(conflicts)
                return replace(self._aligned_without(kept, lacking), undecided=undecided)
            conflicts += broken
        known = {one.identity for one in self.made[0]}
        missing = [change for change in merged.onto_ours if change.identity not in known]
        from_base = [*merged.base_to_ours, *missing]

        def bring_ours(tables: Tables) -> Tables:
            return self._after(tables, merged.onto_ours)

        def bring_base(tables: Tables) -> Tables:
            return self._in_order_of(ours, self._base_after(tables, from_base, merged))

        ours = bring_ours(self.ours)
        theirs = self._in_order_of(ours, self._after(self.theirs, merged.onto_theirs))
        found = self._result(ours, theirs, merged.onto_ours, bring_base, bring_ours)
        return replace(found, made=[*self.made[1], *made_of(merged.onto_ours, schemas[1])])

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
        self,
        ours: Tables,
        theirs: Tables,
        changes: Sequence[SchemaChange],
        bring_base: Bring,
        bring_ours: Bring,
    ) -> AlignedSides:
        base = bring_base(self.base)
        return AlignedSides(
            MergeBase(base, self._contested(self.sides[0], base, bring_base)),
            ours,
            theirs,
            changes,
            self.versions,
            evolved=changed_tables(self.ours, ours),
            contested_keys=self._contested(self.sides[1], ours, bring_ours),
        )

    def _contested(self, side: Side, after: Tables, bring: Bring) -> dict[str, KeyArray]:
        """The rows of a side in conflict for good, where they are after it was brought there."""
        count = len(self.versions)
        found = contested_after(
            self.graph, side.tables, side.contested_keys, after, bring, self.staging
        )
        del self.versions[count:]  # nothing is made of what was brought there to tell
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
        of_ours = self._base_after(self.base, merged.base_to_ours, own)
        of_theirs = self._base_after(self.base, merged.base_to_theirs, other)
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

    def _base_after(
        self, tables: Tables, changes: Sequence[SchemaChange], merged: SchemaMerge
    ) -> Tables:
        """The base after changes; rebuilt, where its rows are not those that a side made fit."""
        try:
            return self._after(tables, changes)
        except InvalidData:
            return self._rebuilt(0, tables, merged, {})

    def _lacking_sides(self, conflicts: Iterable[SchemaConflict]) -> set[int]:
        """The places of sides that are to have what an earlier merge left out, or rows forbid."""
        found: set[int] = set()
        for one in conflicts:
            winner = one.winner(self.on_conflict)
            lacking = {"ours": {2}, "theirs": {1}}.get(str(winner), {1, 2})
            losing = {"ours": one.theirs, "theirs": one.ours}.get(
                str(winner), one.ours + one.theirs
            )
            if not one.is_loss and not losing:
                found |= lacking
        return found

    def _undecided(self, conflicts: Iterable[SchemaConflict]) -> frozenset[str]:
        """Tables that one side dropped and the other changed, where neither counts."""
        return frozenset(
            one.table
            for one in conflicts
            if one.is_loss and one.winner(self.on_conflict) == NEITHER
            if one.table not in self.ours or one.table not in self.theirs
        )

    def _onto_kept_sides(self, kept: SchemaMerge, lacking: Collection[int]) -> SchemaMerge:
        """What is kept, with the changes of those sides alone that are not rebuilt."""
        return replace(
            kept,
            onto_ours=() if kept.taken_back or 1 in lacking else kept.onto_ours,
            onto_theirs=() if kept.left_out or 2 in lacking else kept.onto_theirs,
        )

    def _aligned_without(self, kept: SchemaMerge, lacking: Collection[int]) -> AlignedSides:
        """The three sides in the schema that has the changes of both but some."""

        def bring_base(tables: Tables) -> Tables:
            if kept.is_base_other:
                return self._rebuilt(0, tables, kept, {})
            return self._base_after(tables, kept.base_to_ours, kept)

        def bring_ours(tables: Tables) -> Tables:
            if kept.taken_back or 1 in lacking:
                return self._rebuilt(1, tables, kept, base)
            return self._after(tables, kept.onto_ours)

        base = bring_base(self.base)
        mine = bring_ours(self.ours)
        if kept.left_out or 2 in lacking:
            yours = self._rebuilt(2, self.theirs, kept, base)
        else:
            yours = self._in_order_of(mine, self._after(self.theirs, kept.onto_theirs))
        found = self._result(
            mine,
            yours,
            kept.onto_ours,
            lambda tables: self._in_order_of(mine, bring_base(tables)),
            bring_ours,
        )
        return replace(
            found,
            taken_back=kept.taken_back,
            rebuilt=frozenset(self.rebuilt),
            made=self._made_without(kept),
        )

    def _made_without(self, kept: SchemaMerge) -> list[MadeChange]:
        """The changes that lead to the schema of what is kept."""
        start, made = self._schemas(self.base), list(self.made[0])
        if kept.is_base_other:
            gone = kept.taken_back | kept.left_out
            first = made[0].before
            some = replay([one for one in made if one.identity not in gone], first, ())
            start, made = some.tables, made_of(some.changes, first)
        return [*made, *made_of(kept.base_to_ours, start)]

    def _rebuilt(self, side: int, tables: Tables, kept: SchemaMerge, base: Tables) -> Tables:
        """Tables of a side in the schema of what is kept, by its place among the histories.

        They are as they are, rebuilt, or as if the side had left them alone.  What the other side
        masks is masked, and what changes gave columns that do not count is none of their values.
        """
        others = [one.tables for at, one in enumerate(self.sides) if at not in (0, side)]
        gone = kept.taken_back | kept.left_out
        tables, remade = self._masked(tables, side, gone)
        remade |= remade_columns(self.made[side], gone)
        ids = kept.aliases
        remade = frozenset(ids.get(column, column) for column in remade)
        own = self._by_key(tables, ids)
        elsewhere = [self._by_key(other, ids) for other in (*others, base)]
        found = {name: version for name, version in tables.items() if is_hidden(name)}
        for name, definition in kept.tables.items():
            key = table_key(name, definition)
            version = own.get(key)
            is_key_remade = any(column.id in remade for column in definition.schema.key_columns)
            if (
                version is None
                or is_key_remade
                or not can_rebuild(self.graph, version, definition, ids)
            ):
                found[name] = base.get(name) or self._empty(definition)
                self.rebuilt.add(name)
                continue
            is_remade = any(column.id in remade for column in definition.schema.columns)
            if not is_remade and self.graph.versions.definition(version).is_alike(definition):
                found[name] = version
                continue
            self.rebuilt.add(name)
            more = [each[key] for each in elsewhere if key in each]
            found[name] = rebuild_table(
                self.graph, version, definition, more, ids, self.staging, remade
            )
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

    def _by_key(self, tables: Tables, ids: Mapping[str, str]) -> dict[str, Version]:
        """Tables by their identities, which `ids` has others for."""
        keys = {name: table_key(name, known) for name, known in self._schemas(tables).items()}
        return {ids.get(key, key): tables[name] for name, key in keys.items()}
