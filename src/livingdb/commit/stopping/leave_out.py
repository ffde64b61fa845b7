"""Leaves out a schema change of one side of a stopped sync, where the other side's counts.

The side is what it would be without the change: rows that were written since are those that went
back through its lens, and what was changed later stays.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from livingdb.commit.proposal import Tables
from livingdb.commit.stopping.fold_changes import FoldedPlace, FoldedSide
from livingdb.errors import LivingDBError, RuleViolation
from livingdb.evolution.changes.rename_column import RenameColumn
from livingdb.evolution.changes.revert_change import revert_of
from livingdb.evolution.changes.tables import RenameTable
from livingdb.evolution.follow_names import follow_change
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.plan import apply_changes, definitions_of, plan_changes
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.evolution.schema_elements import MadeChange, planned_tables, table_key
from livingdb.graph.graph import Graph
from livingdb.graph.storage.staging import Staging
from livingdb.tables.identity import new_id
from livingdb.tables.index import Version

__all__ = ["leave_out"]


def leave_out(
    graph: Graph, side: FoldedSide, losing: Collection[str], staging: Staging
) -> FoldedSide:
    """A side without some of its changes, by ids, newest first.

    `RuleViolation` if one that stays needs one that does not.
    """
    for number in reversed(range(1, len(side.places))):
        change = side.places[number].change
        if change is not None and change.identity in losing:
            side = _Without(graph, side, number, staging).side()
    return side


class _Without:
    """A side without the change that leads to one of its places."""

    def __init__(self, graph: Graph, side: FoldedSide, number: int, staging: Staging):
        self._graph, self._side, self._staging = graph, side, staging
        self._number = number
        (self._made, self._lens) = side.changes(graph)[number - 1]
        self._new_versions: list[Version] = []

    def side(self) -> FoldedSide:
        """The places before it, and those after it as they are without it."""
        places = list(self._side.places)
        found = places[: self._number]
        made = self._side.changes(self._graph)
        for (one, _), place in zip(made[self._number :], places[self._number + 1 :], strict=True):
            found.append(self._later_place(one, place, found[-1].tables))
        _, undo = self._undone(places[-1].tables)
        return replace(
            self._side,
            places=found,
            new_versions=[*self._side.new_versions, *self._new_versions],
            undone=[*self._side.undone, undo],
        )

    def _later_place(self, one: MadeChange, place: FoldedPlace, before: Tables) -> FoldedPlace:
        """A place after the change, whose own change is made on tables without it."""
        tables, undo = self._undone(place.tables)
        here = definitions_of(self._graph, before)
        try:
            change = follow_change(one.change, one.before, here)
            lens = change.plan(here)
            is_same = planned_tables(change, here) == definitions_of(self._graph, tables)
        except LivingDBError as error:
            raise self._refusal(one.change, str(error)) from None
        if not is_same:
            raise self._refusal(one.change, "it was made on what that one left")
        return replace(place, tables=tables, change=change, lens=lens, made=[*place.made, undo])

    def _undone(self, tables: Tables) -> tuple[Tables, SchemaChange]:
        """The tables of a later place without the change, and what takes it back there."""
        now = definitions_of(self._graph, tables)
        if _are_alike(now, self._lens.new):
            before = self._side.places[self._number - 1].tables
            rest = {n: version for n, version in tables.items() if n not in self._lens.new}
            undo = revert_of(self._made.change, self._made.before).with_id(new_id())
            return {**rest, **{name: before[name] for name in self._lens.old}}, undo
        back = _renaming_back(self._made, self._lens, now)
        if back is None:
            later = [one.change for one, _ in self._side.changes(self._graph)[self._number :]]
            last = later[0] if later else self._made.change
            raise self._refusal(last, "its table has another schema since")
        plan = plan_changes(now, [back])
        (stage,) = apply_changes(self._graph, plan, tables, self._staging, each_stage=True)
        self._new_versions += stage.made
        return stage.tables, back

    def _refusal(self, later: SchemaChange, why: str) -> RuleViolation:
        return RuleViolation(
            f"rule 7: {self._made.change.title}, which the other side contradicts, is not left out "
            f"before {later.title}: {why}; revert that first, or the change on the other side"
        )


def _are_alike(now: Schemas, left: Schemas) -> bool:
    """Whether the tables that a change left are as it left them, though of other identity."""
    return all(name in now and now[name].is_alike(known) for name, known in left.items())


def _renaming_back(made: MadeChange, lens: Lens, now: Schemas) -> SchemaChange | None:
    """The inverse of a rename, on tables that are others since; None for other changes."""
    change = made.change
    if not isinstance(change, RenameColumn | RenameTable):
        return None
    (known,) = [d for n, d in made.before.items() if n == change.table]
    key = table_key(change.table, known)
    names = [name for name, definition in now.items() if table_key(name, definition) == key]
    if not names:
        return None
    if isinstance(change, RenameTable):
        return RenameTable(names[0], change.table).with_id(new_id())
    column = known.schema.column(change.name).id
    called = [c.name for c in now[names[0]].schema.columns if c.id == column]
    back = RenameColumn(names[0], called[0], change.name) if called else None
    return None if back is None else back.with_id(new_id())
