"""The branches that a schema sync joins and the lenses between them, as they are to be.

Where a side has another schema than when the sync stopped, hidden branches keep the schemas between
the old one and the new one, as they would have been kept if it had been active.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carrying.chain_places import ChainLink, ChainPlace
from livingdb.commit.carrying.replan_chain import replan_chain
from livingdb.commit.merging.merge import schema_error
from livingdb.commit.pipeline import Pipeline
from livingdb.commit.stopping.fold_changes import FoldedPlace, FoldedSide, fold_side
from livingdb.commit.stopping.leave_out import leave_out
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.errors import TransactionConflict
from livingdb.evolution.changes.revert_change import InverseLens, revert_of
from livingdb.evolution.merge_schemas import losing_changes
from livingdb.evolution.pair_schemas import direction_conflicts, equal_beginnings, pair_conflicts
from livingdb.evolution.plan import definitions_of
from livingdb.evolution.schema_elements import MadeChange
from livingdb.evolution.schema_history import schema_history
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.catalog_changes import (
    At,
    CatalogChange,
    MovedSync,
    NewBranch,
    NewSync,
    PlannedSync,
)
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.storage.staging import Staging
from livingdb.guard.sync_state import last_pair
from livingdb.tables.index import Version

__all__ = ["PairChain", "pair_chain"]


@dataclass(frozen=True)
class PairChain:
    """All places from the one end to the other, and the links between them.

    `inner` are those in the schemas in which the two ends parted, first and last.
    """

    places: Sequence[ChainPlace]
    links: Sequence[ChainLink]
    inner: tuple[int, int]
    stages: Sequence[SyncRow]
    new_versions: Sequence[Version] = ()
    decided: frozenset[str] = frozenset()
    """Elements of the schema about which a policy had to say whose change counts."""

    @property
    def rows(self) -> list[SyncRow]:
        """The syncs as they will be."""
        return [link.row for link in self.links]

    def catalog_changes(self, made: Mapping[BranchId, At]) -> list[CatalogChange]:
        """The branches and syncs that are new or moved, where snapshots are `made` of places."""
        changes: list[CatalogChange] = []
        origin = {False: self.places[0].name, True: self.places[-1].name}
        for number, place in enumerate(self.places):
            if place.row is None:
                at = made.get(place.id, place.head)
                is_right = number >= self.inner[1]
                changes.append(NewBranch(place.name, at, origin[is_right], "reattach", id=place.id))
        known = {row.id: row for row in self.stages}
        for link in self.links:
            row, old = link.row, known.get(link.row.id)
            if old is not None and (old.sources, old.target) != (row.sources, row.target):
                changes.append(MovedSync(row.id, row.sources, row.target, row.name))
        for link, place in zip(self.links, self.places, strict=False):
            on = made.get(place.id, place.head)
            if link.is_new:
                changes.append(NewSync(link.row, on))
            elif link.lens is not None:
                changes.append(PlannedSync(link.row, on))
        return changes


def pair_chain(
    pipeline: Pipeline, stages: Sequence[SyncRow], staging: Staging, on_conflict: Any = "fail"
) -> PairChain:
    """The chain of a sync that stopped; one that writes one side only follows its source anew.

    Where both sides say something else of an element of the schema, `on_conflict` says whose
    change counts; the other's is left out.
    """
    graph, direction = pipeline.graph, stages[0].direction
    numbers = [stages[0].sources[0], *(row.target for row in stages)]
    rows = graph.branches_by_ids(numbers)
    pair = last_pair(graph, stages[0])
    bases = [_base(graph, rows[number], pair[number]) for number in numbers]
    places = [_place(graph, rows[n], base) for n, base in zip(numbers, bases, strict=True)]
    shared = _shared_changes(pipeline, bases, places) if direction == "both" else []
    folded = [FoldedSide([]), FoldedSide([])]
    for at, is_followed in ((0, direction == "both"), (-1, direction != "forward")):
        if is_followed:
            ends = bases[at], places[at].head
            known = {pair[at].identity for pair in shared}
            folded[at] = fold_side(
                graph, pipeline.translator, pipeline.lifter, rows[numbers[at]], ends, staging, known
            )
    folded, decided = _decide_schemas(graph, folded, direction, on_conflict, staging)
    made = [version for side in folded for version in side.new_versions]
    between, chain = list(places[1:-1]), [ChainLink(row) for row in stages]
    if shared:
        mine = [one for one, _ in shared]
        with_shared = folded[0].base, folded[1].base
        again = replan_chain(graph, stages, places, with_shared, mine, bases[-1], staging)
        between, chain = again.places, again.links
        made += again.new_versions
    left = _Side(graph, places[0], folded[0], stages[0])
    right = _Side(graph, places[-1], folded[-1], stages[-1])
    whole = [*left.places[::-1], *between, *right.places]
    links = [*left.links(reverts=True)[::-1], *chain, *right.links(reverts=False)]
    joined = [_joined(link, *ends) for link, ends in zip(links, pairwise(whole), strict=True)]
    inner = len(left.places) - 1, len(whole) - len(right.places)
    return PairChain(whole, joined, inner, stages, made, decided)


def _shared_changes(
    pipeline: Pipeline, bases: Sequence[SnapshotRow], places: Sequence[ChainPlace]
) -> list[tuple[MadeChange, MadeChange]]:
    """What both ends did first to their schemas, each as it did it."""
    graph, histories = pipeline.graph, []
    for at in (0, -1):
        base, head = bases[at], places[at].head
        if not is_ancestor(graph.snapshots, base, head):
            return []
        histories.append(schema_history(graph, pipeline.lifter, base, head))
    return equal_beginnings(*histories)


def _decide_schemas(
    graph: Graph,
    folded: list[FoldedSide],
    direction: str,
    on_conflict: Any,
    staging: Staging,
) -> tuple[list[FoldedSide], frozenset[str]]:
    """Both sides with the changes that count, and the elements that were contradicted.

    `MergeConflict` of the kind "schema" if what they did cannot be kept in step, and no policy says
    whose change counts.
    """
    ours, theirs = (side.changes(graph) for side in folded)
    stuck = [
        *direction_conflicts(ours, direction, is_theirs=False),
        *direction_conflicts(theirs, direction, is_theirs=True),
    ]
    decided = pair_conflicts([one for one, _ in ours], [one for one, _ in theirs])
    left = [*stuck, *(one for one in decided if one.winner(on_conflict) is None)]
    if left:
        said = "the schemas were changed while the sync was stopped, and it cannot go on with that"
        hint = "take back or alter one of the changes first"
        raise schema_error(left, said, hint if stuck else f"choose on_conflict, or {hint}")
    pairs = zip(folded, losing_changes(decided, on_conflict), strict=True)
    kept = [leave_out(graph, side, ids, staging) for side, ids in pairs]
    return kept, frozenset(one.element for one in decided)


def _base(graph: Graph, row: BranchRow, pair: Address) -> SnapshotRow:
    base = graph.snapshots.find(pair)
    if base is None:
        raise TransactionConflict(f"where {row.name!r} was in step is not known any more")
    return base


def _place(graph: Graph, row: BranchRow, base: SnapshotRow) -> ChainPlace:
    head = graph.snapshots.at(row.head)
    before, tables = (whole_tables(tables_of(graph, snapshot)) for snapshot in (base, head))
    return ChainPlace(row.id, row.name, row, head, before, tables)


def _joined(link: ChainLink, source: ChainPlace, target: ChainPlace) -> ChainLink:
    """A link that joins two places."""
    row = link.row
    if (row.sources, row.target) == ((source.id,), target.id):
        return link
    name = f"{source.name}/{target.name}"
    return replace(link, row=replace(row, sources=(source.id,), target=target.id, name=name))


class _Side:
    """A side of the pair, from the schema in which they parted to that of the branch."""

    def __init__(self, graph: Graph, end: ChainPlace, side: FoldedSide, like: SyncRow):
        folded = side.places
        self._graph, self._folded, self._like = graph, folded, like
        hidden = [self._hidden(place) for place in folded[:-1]]
        self.places = [*hidden, end]
        if side.undone:
            end.held, end.made = end.now, side.undone
        if folded:
            self.places[0].base = side.base
            self.places[0].now = folded[0].tables
        for place, known in zip(self.places[1:], folded[1:], strict=False):
            place.base = place.now = known.tables

    def _hidden(self, folded: FoldedPlace) -> ChainPlace:
        return ChainPlace(
            new_id(),
            f"~{uuid.uuid4().hex[:12]}",
            None,
            folded.start,
            folded.tables,
            folded.tables,
            made=folded.made,
        )

    def links(self, reverts: bool) -> list[ChainLink]:
        """What leads from each place to the next outer one, or back."""
        found = []
        for number, folded in enumerate(self._folded[1:], 1):
            assert folded.change is not None
            assert folded.lens is not None
            change, lens = folded.change, folded.lens
            if reverts:
                before = definitions_of(self._graph, self._folded[number - 1].tables)
                change, lens = revert_of(change, before).with_id(new_id()), InverseLens(lens)
            row = replace(
                self._like,
                id=new_id(),
                state=ACTIVE,
                reason="",
                spec={"change": change.to_json()},
            )
            found.append(ChainLink(row, lens, is_new=True))
        return found
