"""What two snapshots come from, and both, in one schema: the three sides of a merge.

Several common ancestors are joined into a virtual one, oldest first, each by a merge from what it
has in common with those before; that may have to be joined itself.  Where two of them contradict
each other about the schema, neither's change is in the virtual one, so that the sides have to agree
about it; and a row that they contradict each other about is in conflict for good, unless the sides
agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from livingdb.catalog.snapshots import SnapshotRow, Snapshots
from livingdb.commit.merging.align_schemas import AlignedSides, Side, align_schemas
from livingdb.errors import RuleViolation
from livingdb.evolution.lift import Lifter
from livingdb.evolution.merge_schemas import NEITHER
from livingdb.evolution.plan import definitions_of
from livingdb.evolution.schema_history import schema_history, settled_fork
from livingdb.graph.ancestry import common_ancestors, common_ancestors_of
from livingdb.graph.diff import union_row_keys
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.merge import MergeBase, merge_tables
from livingdb.graph.merge_policy import Policies
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.trees.delta import upserts
from livingdb.trees.merge import Conflicts

__all__ = ["merge_sides"]

Ancestors = tuple[int, ...]
"""The numbers of snapshots none of which comes from another, newest first."""


def merge_sides(
    graph: Graph,
    lifter: Lifter,
    ours: SnapshotRow,
    theirs: SnapshotRow,
    on_conflict: Any,
    staging: Staging,
) -> AlignedSides:
    """What two snapshots come from, and both, in the schema that has the changes of both."""
    snapshots = graph.snapshots
    common = common_ancestors(snapshots, ours, theirs)
    if not common:
        raise RuleViolation(
            "a merge needs a snapshot both sides come from, and there is none: what is derived or "
            "masked shares no history with what it is made of, and is not merged; insert its rows"
        )
    joins = _joins(snapshots, tuple(row.sequence for row in common))
    rows = [snapshots.at(number) for number in sorted({n for some in joins for n in some})]
    fork = settled_fork(graph, lifter, *rows, ours, theirs)
    ends = [ours, theirs, *rows]
    if fork is not None and not any(lifter.schema_changes_between(fork, row) for row in ends):
        fork = None
    work = _Ancestry(graph, lifter, fork, joins, staging)
    base, mine, yours = work.joined(), work.side(ours), work.side(theirs)
    if fork is None:
        return AlignedSides(MergeBase(base.tables, base.contested_keys), mine.tables, yours.tables)
    if common == [ours]:  # which has done nothing since that could be in conflict
        on_conflict = "theirs"
    found = align_schemas(graph, lifter, (base, mine, yours), on_conflict, staging)
    if found.rebuilt:  # from what is in no snapshot
        return replace(found, intermediates=[*work.versions, *found.intermediates])
    return found


def _joins(snapshots: Snapshots, common: Ancestors) -> dict[Ancestors, list[Ancestors]]:
    """What is to be joined: ancestors, and what each of them has in common with those before it.

    What has to be joined for others comes before them.
    """
    found: dict[Ancestors, list[Ancestors]] = {}
    waiting = [common]
    while waiting:
        some = waiting.pop()
        if some in found:
            continue
        rows = [snapshots.at(number) for number in some[::-1]]
        found[some] = [
            tuple(
                row.sequence for row in common_ancestors_of(snapshots, rows[:place], [rows[place]])
            )
            for place in range(1, len(rows))
        ]
        waiting += found[some]
    return dict(sorted(found.items()))


@dataclass
class _Ancestry:
    """Joins common ancestors into virtual ones; without a fork, they all have one schema."""

    graph: Graph
    lifter: Lifter
    fork: SnapshotRow | None
    joins: dict[Ancestors, list[Ancestors]]
    staging: Staging
    versions: list[Version] = field(default_factory=list)

    def side(self, row: SnapshotRow) -> Side:
        """A snapshot, with what led to its schema since the fork."""
        tables = tables_of(self.graph, row)
        if self.fork is None:
            return Side(tables)
        return Side(tables, schema_history(self.graph, self.lifter, self.fork, row))

    def joined(self) -> Side:
        """The ancestors of both sides as one."""
        made: dict[Ancestors, Side] = {(): Side({})}
        for some, common in self.joins.items():
            if some:
                first, *others = (self.side(self.graph.snapshots.at(n)) for n in some[::-1])
                for other, below in zip(others, common, strict=True):
                    first = self._join(made[below], first, other)
                made[some] = first
        return first

    def _join(self, below: Side, first: Side, other: Side) -> Side:
        """Two ancestors as one, by a merge from what they have in common."""
        aligned = self._aligned(below, first, other)
        base, contested = aligned.base, aligned.contested_keys
        merged = merge_tables(
            self.graph, base, aligned.ours, aligned.theirs, Policies(), self.staging
        )
        self.versions += [*aligned.intermediates, *merged.new_versions]
        tables = overlay_tables(aligned.ours, merged.tables)
        # In the base, a table that one dropped and the other changed is as both found it.
        for name in {*merged.clashes, *aligned.undecided}:
            tables.pop(name, None)
            if name in base.tables:
                tables[name] = base.tables[name]
        contested = {name: keys for name, keys in contested.items() if name in tables}
        for name, parts in merged.conflicts.items():
            tables[name] = self._with_rows(tables[name], parts)
            known = [contested[name]] if name in contested else []
            rows = self.graph.versions.rows(tables[name])
            contested[name] = union_row_keys([*(part.keys for part in parts), *known], rows)
        return Side(tables, aligned.made, contested)

    def _aligned(self, below: Side, first: Side, other: Side) -> AlignedSides:
        """The two and what they have in common, in one schema."""
        sides = below, first, other
        schemas = [definitions_of(self.graph, side.tables) for side in (first, other)]
        made = [[one.identity for one in side.made] for side in sides]
        if self.fork is None or (made[0] == made[1] == made[2] and schemas[0] == schemas[1]):
            base = MergeBase(below.tables, below.contested_keys)
            return AlignedSides(
                base,
                first.tables,
                other.tables,
                made=first.made,
                contested_keys=first.contested_keys,
            )
        return align_schemas(self.graph, self.lifter, sides, NEITHER, self.staging)

    def _with_rows(self, version: Version, conflicts: Sequence[Conflicts]) -> Version:
        """A version with a row for each that is in conflict, whichever, so that it can be told."""
        versions = self.graph.versions
        shape = versions.forest(version).shape
        for part in conflicts:
            lacking = part.select(np.flatnonzero(part.ours_deleted & ~part.theirs_deleted))
            if len(lacking):
                rows = upserts(shape, lacking.theirs, lacking.keys)
                version = versions.change(version, rows, self.staging.sink)
                self.versions.append(version)
        return version
