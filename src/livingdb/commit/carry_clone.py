"""Carries a branch to a transformed clone of it: rows through lenses, schema changes by new plans.

What lies between two snapshots of the source is cut at its schema changes and carried piece by
piece, so that a clone that follows later is what one that follows at once would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.carry_lens import LensCarrier
from livingdb.commit.proposal import BranchChange, Tables, have_same_schemas
from livingdb.errors import LivingDBError
from livingdb.evolution.follow_names import follow_names
from livingdb.evolution.lift import Lifter
from livingdb.evolution.plan import (
    EvolutionPlan,
    apply_changes,
    definitions_of,
    plan_changes,
)
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version

__all__ = ["CloneCarrier"]


@dataclass
class CloneCarrier:
    """Carries what happened to a source to its clone; `made` are the versions on the way."""

    graph: Graph
    branch: BranchId
    changes: Sequence[SchemaChange]
    staging: Staging
    made: list[Version] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._named_for: Tables = {}
        """The tables whose names the changes go by."""

    def first(self, source: SnapshotRow) -> Tables:
        """The clone of a snapshot: recipes, and no rows."""
        tables = self._named_for = self._visible(source)
        return self._planned(self._plan(tables), tables)

    def carry(self, held: Tables, then: SnapshotRow, source: SnapshotRow) -> Tables:
        """What a clone that has some tables is to have, its source having gone on."""
        before = self._visible(then)
        self._named_for = self._visible(source)
        for row in self._stops(then, source):
            after = self._visible(row)
            if have_same_schemas(before, after):
                held = self._through_lenses(held, before, after, row)
            else:
                held = self._anew(held, before, after)
            before = after
        return held

    def _stops(self, then: SnapshotRow, source: SnapshotRow) -> Iterator[SnapshotRow]:
        """The snapshots at which the way from one to another is cut."""
        snapshots = self.graph.snapshots
        if is_ancestor(snapshots, then, source):
            for step in Lifter(self.graph).schema_changes_between(then, source):
                assert step.first is not None
                yield snapshots.at(step.first)
                yield step
        yield source

    def _visible(self, row: SnapshotRow) -> dict[str, Version]:
        found = tables_of(self.graph, row)
        return {name: version for name, version in found.items() if not is_hidden(name)}

    def _plan(self, tables: Tables) -> EvolutionPlan:
        """The changes on tables of some time, by the names they had then."""
        then = definitions_of(self.graph, tables)
        now = definitions_of(self.graph, self._named_for)
        try:
            return plan_changes(then, follow_names(self.changes, now, then))
        except LivingDBError:
            return plan_changes(then, self.changes)

    def _planned(self, plan: EvolutionPlan, tables: Tables) -> Tables:
        """Tables seen through the changes, as recipes."""
        stages = apply_changes(self.graph, plan, tables, self.staging)
        self.made += [version for stage in stages for version in stage.made]
        return stages[-1].tables

    def _through_lenses(
        self, held: Tables, before: Tables, after: Tables, row: SnapshotRow
    ) -> Tables:
        """What the clone has after rows of its source changed."""
        plan = self._plan(before)
        stages = apply_changes(self.graph, plan, before, self.staging)
        self.made += [version for stage in stages[:-1] for version in stage.made]
        carrier = LensCarrier(self.graph)
        for lens, stage in zip(plan.lenses, stages, strict=True):
            is_last = stage is stages[-1]
            old = held if is_last else stage.tables
            step = BranchChange(self.branch, "", before, after, row.address)
            new = carrier.translate_tables(lens, True, step, old, self.staging)
            self.made += [version for version in new.values() if version is not None]
            before, after = old, overlay_tables(old, new)
        return after

    def _anew(self, held: Tables, before: Tables, after: Tables) -> Tables:
        """What the clone has after its source's schema changed; what is not touched stays."""
        plan = self._plan(after)
        whole = self._planned(plan, after)
        touched = {
            name for name in {**before, **after} if _address(before, name) != _address(after, name)
        }
        for lens in plan.lenses:
            if touched & set(lens.old):
                touched |= set(lens.new)
        found: dict[str, Version] = {}
        for name, version in whole.items():
            old = held.get(name)
            is_same = old is not None and old.definition == version.definition
            found[name] = old if old is not None and is_same and name not in touched else version
        return found


def _address(tables: Tables, name: str) -> object:
    found = tables.get(name)
    return None if found is None else found.address
