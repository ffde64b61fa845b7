"""Carries a branch to a transformed clone of it: rows through lenses, schema changes by new plans.

What lies between two snapshots of the source is cut at its schema changes and carried piece by
piece, so that a clone that follows later is what one that follows at once would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.commit.carrying.translate_change import ChangeTranslator
from livingdb.commit.proposal import BranchChange, BranchMove, Tables, have_same_schemas
from livingdb.errors import LivingDBError, MaskKeyMissing
from livingdb.evolution.follow_names import follow_changes, follow_names
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lift import Lifter
from livingdb.evolution.masked_history import naming_no_values
from livingdb.evolution.plan import (
    ChangeResult,
    EvolutionPlan,
    apply_changes,
    definitions_of,
    new_versions,
    plan_changes,
)
from livingdb.evolution.schema_change import SchemaChange, unlock_changes
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.constraints import check_foreign_keys
from livingdb.graph.diff import delta_between
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.versions import Versions

__all__ = ["CloneCarrier"]


@dataclass
class CloneCarrier:
    """Carries what happened to a source to its clone; `made` are the versions on the way.

    `trust` are the functions that may be asked for the keys of masks.  What masks hide is stored
    as rows, unless there are to be `recipes` (see `apply_changes`).
    """

    graph: Graph
    branch: BranchId
    changes: Sequence[SchemaChange]
    staging: Staging
    trust: Sequence[str] = ()
    recipes: str = ""
    made: list[Version] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._named_for: Tables = {}
        """The tables whose names the changes go by."""
        unlock_changes(self.changes, self.trust)

    def first(self, tables: Tables) -> Tables:
        """The clone of what users see of a branch: recipes, no rows but those that masks hide."""
        self._named_for = tables
        return self._planned(self._plan(tables), tables)

    def carry(self, held: Tables, then: SnapshotRow, source: SnapshotRow | BranchMove) -> Tables:
        """What a clone that has some tables is to have, its source having gone on.

        A branch that moves in the same transaction has gone on, too.  What came and went in
        between and cannot be carried, a schema or rows, is passed over.
        """
        before = self._tables(then)
        self._named_for = self._tables(source)
        for stop in self._stops(then, source):
            after, made = self._tables(stop), len(self.made)
            try:
                if have_same_schemas(before, after):
                    held = self._through_lenses(held, before, after, stop.address)
                else:
                    held = self._anew(held, before, after)
                before = after
            except LivingDBError as error:
                if stop is source or isinstance(error, MaskKeyMissing):
                    raise
                del self.made[made:]
        return held

    def unified_since(self, then: SnapshotRow) -> Mapping[str, str]:
        """The ids that what its changes make has now, by those it had, where these are others."""
        try:
            before = self._tables(then)
            if have_same_schemas(before, self._named_for):
                return {}
            old, new = (definitions_of(self.graph, t) for t in (before, self._named_for))
            return follow_changes(follow_names(self.changes, new, old), old, new).unified
        except LivingDBError:  # the changes could not be made on what there was
            return {}

    def _stops(
        self, then: SnapshotRow, source: SnapshotRow | BranchMove
    ) -> Iterator[SnapshotRow | BranchMove]:
        """The snapshots at which the way from one to another is cut."""
        snapshots = self.graph.snapshots
        last = source.head if isinstance(source, BranchMove) else source
        if is_ancestor(snapshots, then, last):
            for step in Lifter(self.graph).schema_changes_between(then, last):
                assert step.first is not None
                yield snapshots.at(step.first)
                yield step
            if last is not source and last.sequence != then.sequence:
                yield last
        yield source

    def _tables(self, place: SnapshotRow | BranchMove) -> dict[str, Version]:
        """The tables of a snapshot, or of a branch where it moves, that users see."""
        moved = place.change.after if isinstance(place, BranchMove) else None
        found = tables_of(self.graph, place) if isinstance(place, SnapshotRow) else moved or {}
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
        """Tables seen through the changes: as recipes, and as rows that masks hide."""
        stages = apply_changes(self.graph, plan, tables, self.staging, self.recipes)
        self.made += new_versions(stages)
        return stages[-1].tables

    def _through_lenses(
        self, held: Tables, before: Tables, after: Tables, address: Address
    ) -> Tables:
        """What the clone has after rows of its source changed."""
        plan = self._plan(after if self.recipes else before)
        with naming_no_values(plan.conceals):
            if self.recipes:
                return self._planned(plan, after)
            return self._carried_rows(plan, held, before, after, address)

    def _carried_rows(
        self, plan: EvolutionPlan, held: Tables, before: Tables, after: Tables, address: Address
    ) -> Tables:
        """What the clone has after rows changed, by the changes as they were planned."""
        stages = apply_changes(self.graph, plan, before, self.staging, recipes="transient")
        translator = ChangeTranslator(self.graph)
        hidden: set[str] = set()
        """Tables with rows that a mask hides: what leads to them is forgotten again."""
        for lens, stage in zip(plan.lenses, stages, strict=True):
            is_last = stage is stages[-1]
            hidden = _hidden_after(lens, hidden)
            old = held if is_last else stage.tables
            step = BranchChange(self.branch, "", before, after, address)
            new = translator.translate_tables(lens, True, step, old, self.staging)
            before, after = old, overlay_tables(old, new)
            self.made += [
                version
                for name, version in new.items()
                if version is not None and (is_last or name not in hidden)
            ]
        self.made += _unhidden_versions(plan.lenses[:-1], stages)
        self._check_links(plan.lenses, before, after)
        return after

    def _check_links(self, lenses: Sequence[Lens], before: Tables, after: Tables) -> None:
        """`BrokenConstraint` if a foreign key of the clone would name a row that it does not show.

        The source has that row; nothing else that foreign keys name goes on the way.
        """
        targets: set[str] = set()
        for lens in lenses:
            shows_less = lens.hides(is_right=True) or not targets.isdisjoint(lens.old)
            targets = (targets - set(lens.old)) | (set(lens.new) if shows_less else set())
        if not targets:
            return
        versions = self.graph.versions
        schemas = {name: versions.definition(version).schema for name, version in after.items()}
        concerned = targets | {
            name
            for name, schema in schemas.items()
            if any(target in targets for _, target in schema.foreign_keys)
        }
        changes = {
            name: delta_between(versions, _alike(versions, before.get(name), version), version)
            for name, version in after.items()
            if name in concerned and _address(before, name) != version.address
        }
        check_foreign_keys(changes, schemas, lambda name: versions.rows(after[name]), targets)

    def _anew(self, held: Tables, before: Tables, after: Tables) -> Tables:
        """What the clone has after its source's schema changed; what is not touched stays."""
        plan = self._plan(after)
        touched = {
            name for name in {**before, **after} if _address(before, name) != _address(after, name)
        }
        for lens in plan.lenses:
            if touched & set(lens.old):
                touched |= set(lens.new)
        definitions = {name: known.to_chunk().address for name, known in plan.tables.items()}
        kept = {
            name: version
            for name, version in held.items()
            if name not in touched and version.definition == definitions.get(name)
        }
        if kept.keys() == plan.tables.keys():
            return kept
        hidden: set[str] = set()
        for lens in plan.lenses:
            hidden = _hidden_after(lens, hidden)
        # Masks that hide only what stays as it is are not made again.
        is_needed = not hidden <= kept.keys()
        recipes = self.recipes or ("" if is_needed else "transient")
        with naming_no_values(plan.conceals):
            stages = apply_changes(self.graph, plan, after, self.staging, recipes)
        is_stored = is_needed or not plan.conceals
        self.made += new_versions(stages) if is_stored else _unhidden_versions(plan.lenses, stages)
        return {**stages[-1].tables, **kept}


def _hidden_after(lens: Lens, hidden: set[str]) -> set[str]:
    """The tables that hold something that was hidden, after a change."""
    is_hiding = lens.conceals or hidden & {*lens.old, *lens.consults}
    return (hidden - set(lens.old)) | (set(lens.new) if is_hiding else set())


def _unhidden_versions(lenses: Sequence[Lens], stages: Sequence[ChangeResult]) -> Iterator[Version]:
    """The versions that changes made of tables in which nothing is hidden."""
    hidden: set[str] = set()
    for lens, stage in zip(lenses, stages, strict=False):
        hidden = _hidden_after(lens, hidden)
        made = {version.address for version in stage.made}
        for name, version in stage.tables.items():
            if name not in hidden and version.address in made:
                yield version


def _alike(versions: Versions, old: Version | None, new: Version) -> Version | None:
    """The old version of a table, if its rows can be compared with those of the new one."""
    return old if old is not None and versions.is_alike(old, new) else None


def _address(tables: Tables, name: str) -> object:
    found = tables.get(name)
    return None if found is None else found.address
