"""What one side of a stopped sync did since it was in step, seen from the schema it had then.

Its line is cut at its schema changes.  Each of them leaves behind the schema it was made on, as it
would have if the sync had been active: rows that are written later go back through the lenses, edge
by edge, so that the place in the schema of the pair has all of them that it has room for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.carrying.translate_change import ChangeTranslator
from livingdb.commit.proposal import BranchChange, Tables
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.errors import LivingDBError, RuleViolation
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lift import Lifter
from livingdb.evolution.plan import apply_changes, definitions_of, plan_changes
from livingdb.evolution.schema_change import SchemaChange
from livingdb.evolution.schema_elements import MadeChange
from livingdb.evolution.schema_history import made_between
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version

__all__ = ["FoldedPlace", "FoldedSide", "fold_side"]


@dataclass
class FoldedPlace:
    """A schema between that of the pair and that of the branch: its tables, as they are now."""

    tables: Tables
    start: SnapshotRow
    """The snapshot that it begins from."""
    made: Sequence[SchemaChange] = ()
    """The changes of the schema that lead from there to it."""
    change: SchemaChange | None = None
    """What leads to it from the one before it; None for the first."""
    lens: Lens | None = None


@dataclass(frozen=True)
class FoldedSide:
    """The places from the schema of the pair to that of the branch, and the versions made."""

    places: Sequence[FoldedPlace]
    base: Tables = field(default_factory=dict)
    """What the branch had when the sync stopped, in the schema of the first place."""
    new_versions: Sequence[Version] = ()
    undone: Sequence[SchemaChange] = ()
    """What takes back changes of the branch that do not count, newest first."""

    def changes(self, graph: Graph) -> list[tuple[MadeChange, Lens]]:
        """The changes of the schema that lead from place to place, and their lenses."""
        found = []
        for inner, outer in pairwise(self.places):
            assert outer.change is not None
            assert outer.lens is not None
            ends = (definitions_of(graph, place.tables) for place in (inner, outer))
            found.append((MadeChange(outer.change, *ends), outer.lens))
        return found


def fold_side(
    graph: Graph,
    translator: ChangeTranslator,
    lifter: Lifter,
    row: BranchRow,
    ends: tuple[SnapshotRow, SnapshotRow],
    staging: Staging,
    shared: Collection[str] = (),
) -> FoldedSide:
    """What a branch did from one snapshot to a later one.

    What it did first that the other side did, too, is `shared`, by ids: it is done to the schema of
    the pair itself.  `RuleViolation` if its schema differs and no schema changes lead there.
    """
    work = _Fold(graph, translator, row, ends[0], staging, shared)
    base, head = ends
    if is_ancestor(graph.snapshots, base, head):
        for step in lifter.schema_changes_between(base, head):
            assert step.first is not None
            work.follow_rows(graph.snapshots.at(step.first))
            work.follow_changes(step, lifter.schema_changes_of(step))
    work.follow_rows(head)
    return FoldedSide(work.places, work.base, work.new_versions)


def visible_tables(graph: Graph, row: SnapshotRow) -> dict[str, Version]:
    """The tables of a snapshot that users see, with what was set aside of them."""
    tables = whole_tables(tables_of(graph, row))
    return {name: version for name, version in tables.items() if not is_hidden(name)}


class _Fold:
    """A line of snapshots on its way."""

    def __init__(
        self,
        graph: Graph,
        translator: ChangeTranslator,
        row: BranchRow,
        base: SnapshotRow,
        staging: Staging,
        shared: Collection[str],
    ):
        self._graph, self._translator, self._row, self._staging = graph, translator, row, staging
        self._since = self._at = base
        self._shared = shared
        self.base: Tables = visible_tables(graph, base)
        self.places = [FoldedPlace(self.base, base)]
        self.new_versions: list[Version] = []

    def follow_rows(self, at: SnapshotRow) -> None:
        """Rows that were written up to a snapshot, and tables that came and went with them."""
        graph, after = self._graph, visible_tables(self._graph, at)
        schemas = (definitions_of(graph, t) for t in (self.places[-1].tables, after))
        made = [one.change for one in made_between(graph, self._since, at, *schemas)]
        if made:
            self._add_places(made)
        self._write(after, at)

    def follow_changes(self, step: SnapshotRow, changes: Sequence[SchemaChange]) -> None:
        """Changes of the schema that lead to a snapshot: each leaves what it was made on."""
        if changes:
            self._add_places(changes)
        self._write(visible_tables(self._graph, step), step)

    def _add_places(self, changes: Sequence[SchemaChange]) -> None:
        for number, change in enumerate(changes):
            last = self.places[-1]
            tables, lens = self._changed(last.tables, change)
            if len(self.places) == 1 and change.identity in self._shared:
                last.tables = tables
                self.base, _ = self._changed(self.base, change)
                continue
            last.start, last.made = self._at, changes[:number]
            self.places.append(FoldedPlace(tables, self._at, change=change, lens=lens))

    def _changed(self, tables: Tables, change: SchemaChange) -> tuple[Tables, Lens]:
        """Tables after a change, and its lens."""
        plan = plan_changes(definitions_of(self._graph, tables), [change])
        (stage,) = apply_changes(self._graph, plan, tables, self._staging, each_stage=True)
        self.new_versions += stage.made
        return stage.tables, plan.lenses[0]

    def _check_schemas(self, after: Tables) -> None:
        """`RuleViolation` if tables are not in the schema that all changes lead to."""
        graph, tables = self._graph, self.places[-1].tables
        for name in {**tables, **after}:
            old, new = tables.get(name), after.get(name)
            if old is None or new is None or not graph.versions.is_alike(old, new):
                raise RuleViolation(
                    f"rule 4: the schema of {name!r} in {self._row.name!r} was changed while the "
                    "sync was stopped, and no schema change of the branch says how; drop the "
                    "sync's branch and evolve anew"
                )

    def _write(self, after: Tables, at: SnapshotRow) -> None:
        """The last place gets other rows, and so does each before it."""
        self._check_schemas(after)
        last, self._at = self.places[-1], at
        before, last.tables = last.tables, after
        for inner, outer in zip(self.places[-2::-1], self.places[:0:-1], strict=True):
            assert outer.lens is not None
            step = BranchChange(self._row.id, self._row.name, before, after, at.address)
            made = self._translate(outer, step, inner.tables)
            self.new_versions += [version for version in made.values() if version is not None]
            before, after = inner.tables, overlay_tables(inner.tables, made)
            inner.tables = after

    def _translate(
        self, outer: FoldedPlace, step: BranchChange, tables: Tables
    ) -> Mapping[str, Version | None]:
        assert outer.lens is not None
        assert outer.change is not None
        try:
            return self._translator.translate_tables(outer.lens, False, step, tables, self._staging)
        except LivingDBError as error:
            raise type(error)(
                f"what was written to {self._row.name!r} since {outer.change.title} cannot be kept "
                f"in step with the schema of before: {error}"
            ) from None
