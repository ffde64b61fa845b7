"""Brings the branches of an active schema sync into step again, if they are not.

A carried change never needs it: it mends what came about otherwise.  One end is believed; what the
lenses make of it beside what the other branches alone hold is what those get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.judge_carried import JudgedChange, judge_carried
from livingdb.commit.carrying.sync_lens import lens_of
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal, Tables
from livingdb.derivation.hidden_tables import ASIDE, whole_tables
from livingdb.errors import RuleViolation, Unsupported
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lenses.lens_agreement import Disagreement, side_disagreements, whole_delta
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.graph.commit_point import HeadMoved
from livingdb.graph.draft import Intent
from livingdb.graph.graph import tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import pending_schema_sync
from livingdb.tables.index import Version

__all__ = ["realign"]


def realign(
    pipeline: Pipeline, chain: Sequence[SyncRow], by: str, to_new: bool
) -> tuple[SnapshotRow | None, int]:
    """Make the branches of a sync what one end says: the old one if `to_new`, else the new one.

    The new snapshot of the other end, None if there was nothing to mend, and how many rows
    differed.
    """
    if any(sync.behind is not None for sync in chain):
        raise RuleViolation(
            f"the sync {chain[0].name!r} waits for the key of a mask: db.propagate() where the key "
            "is known brings both into step"
        )
    made: list[_Realignment] = []

    def propose(attempt: Attempt) -> Proposal:
        work = _Realignment(pipeline, chain, by, to_new, attempt.staging)
        work.compare()
        made.append(work)
        return work.proposal()

    row = pipeline.run(chain[0].name, propose)
    work = made[-1]
    return row if work.is_moving else None, work.rows


@dataclass
class _Place:
    """A branch: where it is, what it has, and what it is to have."""

    row: BranchRow
    head: SnapshotRow
    held: Tables
    changes: dict[str, Version | None] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, Version]:
        """All tables as they will be, without anything set aside."""
        return overlay_tables(whole_tables(self.held), self.changes)


class _Realignment:
    """One attempt."""

    def __init__(
        self, pipeline: Pipeline, chain: Sequence[SyncRow], by: str, to_new: bool, staging: Staging
    ):
        graph = pipeline.graph
        self._pipeline = pipeline
        self._graph, self._by, self._to_new, self._staging = graph, by, to_new, staging
        self._chain = list(chain) if to_new else list(chain)[::-1]
        numbers = [chain[0].sources[0], *(row.target for row in chain)]
        rows = graph.branches_by_ids(numbers)
        places = [self._place(rows[number]) for number in numbers]
        self._places = places if to_new else places[::-1]
        self._name = f"{places[0].row.name}/{places[-1].row.name}"
        self._new_versions: list[Version] = []
        self.rows = 0
        self.is_moving = False

    def _place(self, row: BranchRow) -> _Place:
        head = self._graph.snapshots.at(row.head)
        return _Place(row, head, tables_of(self._graph, head))

    def compare(self) -> None:
        """What each branch lacks to be what the one before it says."""
        for sync, (near, far) in zip(self._chain, pairwise(self._places), strict=True):
            believed = {n: v for n, v in near.tables.items() if not is_hidden(n)}
            if near is self._places[0]:
                believed = {n: v for n, v in near.held.items() if not is_hidden(n)}
            pair = (believed, far.tables) if self._to_new else (far.tables, believed)
            lens = lens_of(self._graph, sync)
            for one in side_disagreements(
                self._graph.versions, lens, *pair, sync.direction, self._to_new
            ):
                far.changes[one.table] = self._mended_version(one, lens, far, believed)

    def _mended_version(
        self, wrong: Disagreement, lens: Lens, far: _Place, believed: Tables
    ) -> Version:
        """What a table is to be."""
        versions, found = self._graph.versions, wrong.difference
        if wrong.is_lost:
            raise Unsupported(
                f"the table {wrong.table!r} of {far.row.name!r} {wrong.problem}: that cannot be "
                "mended; drop the branch, and evolve anew"
            )
        if found is not None:
            self.rows += len(found)
            made = versions.change(far.tables[wrong.table], found.delta, self._staging.sink)
        elif wrong.table in lens.new:
            made = self._created_version(lens, wrong.table, believed)
        else:
            return believed[wrong.table]
        self._new_versions.append(made)
        return made

    def _created_version(self, lens: Lens, table: str, believed: Tables) -> Version:
        """A new table as the change makes it."""
        versions, definition = self._graph.versions, lens.new[table]
        created = lens.create(VersionSide(versions, believed))[table]
        rows = pa.Table.from_batches(created, definition.schema.whole)
        delta = whole_delta(versions.empty(definition), rows)
        self.rows += len(delta)
        columns = [column for column in delta.columns if column is not None]
        return versions.create(definition, [columns] if len(delta) else [], self._staging.sink)

    def proposal(self) -> Proposal:
        """The snapshots of the branches that are not what they should be."""
        intents = [self._intent(place) for place in self._places[1:]]
        moving = [intent for intent in intents if intent.tables]
        moving.sort(key=lambda intent: not is_hidden(intent.moves[0].name))
        self.is_moving = bool(moving)
        own = frozenset(row.id for row in self._chain)
        return Proposal(
            moving, actions=[self._check_places], own_syncs=own, at=self._places[-1].head
        )

    def _check_places(self, connection: Connection) -> None:
        """Those that do not move are where they were seen."""
        moved = {place.row.id for place in self._places[1:] if place.changes}
        for place in self._places:
            if place.row.id not in moved and not self._graph.branches.is_at(connection, place.row):
                raise HeadMoved

    def _intent(self, place: _Place) -> Intent:
        changes = dict(place.changes)
        judged: Mapping[str, Any] = {}
        if place is self._places[-1]:
            whole = whole_tables(place.held)
            apart = {name: v for name, v in whole.items() if ASIDE + name in place.held}
            changes = {**apart, **changes}
            if changes:
                passed = self._judge(place, changes)
                judged = passed.details
                kept = passed.tables.items()
                changes = {n: v for n, v in kept if v != place.held.get(n)}
            place.changes = changes
        first = self._places[0]
        details = {"sync": self._name, "direction": self._chain[0].direction, "rows": self.rows}
        return Intent(
            (place.head,),
            (place.row,),
            "propagate",
            "refresh",
            self._by,
            f"{self._name} is in step again",
            changes,
            {first.row.name: first.head.address.hex()},
            {**details, **judged},
            intermediates=tuple(self._new_versions) if place is self._places[-1] else (),
        )

    def _judge(self, last: _Place, changes: Mapping[str, Version | None]) -> JudgedChange:
        """What the conditions make of it: rows are set aside, and nothing is stopped."""
        first = self._places[0]
        at = {first.row.id: first.head.address}
        both = (first.held, first.held)
        pending = pending_schema_sync(
            self._graph,
            self._chain[-1],
            (whole_tables(last.held), changes),
            both,
            at,
            at,
            last.head,
            [self._by],
            self._pipeline.trust,
        )
        return judge_carried(pending, last.held, changes, self._staging, stops=False)
