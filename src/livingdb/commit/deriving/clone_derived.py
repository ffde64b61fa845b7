"""clone(derived=True): a clone with the derived objects of where it comes from, or nothing at all.

The branch, and the branch, sync and first version of every object, are one proposal.  An object
may read others that the proposal makes: those are drafted before it, and read where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.carry_view import topological_order
from livingdb.commit.deriving.derive import NewDerivation, SourcePlaces, first_version
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.derivation.past_definition import definition_at
from livingdb.derivation.source_positions import source_heads
from livingdb.derivation.view import KIND, SourceTable, View
from livingdb.derivation.view_names import is_on_branch, version_not_after
from livingdb.errors import AlreadyExists, InvalidData, LivingDBError, NotFound
from livingdb.graph.catalog_changes import CatalogChange, NewBranch
from livingdb.graph.draft import Action, Draft
from livingdb.graph.graph import Graph
from livingdb.graph.names import check_branch
from livingdb.graph.schedule import parse_schedule

__all__ = ["CloneRequest", "clone_derived", "origin_of"]

_TABLE_FIELDS = ("table", "left", "right")
"""What schema changes call the tables that they change."""


@dataclass(frozen=True)
class CloneRequest:
    """A clone to be made: of a snapshot on a branch, and what ends the names of its views."""

    name: str
    at: SnapshotRow
    origin: BranchRow
    suffix: str
    author: str
    message: str


def origin_of(graph: Graph, at: SnapshotRow, named: str | None) -> BranchRow:
    """The branch whose derived objects a snapshot has: the one named, or that it was made on.

    `InvalidData` if that may be several.
    """
    if named is not None:
        return graph.branch(named)
    found = [row for row in graph.branches.all() if is_on_branch(graph, row, at)]
    made_on = [row for row in found if _was_made_on(graph, row, at)]
    rows = made_on or found
    if len(rows) != 1:
        names = ", ".join(row.name for row in rows) or "none"
        raise InvalidData(
            f"derived=True takes the derived objects of a branch, and snapshot "
            f"{at.address.hex()[:12]} is on {names}: name one, as in db.at('main~3')"
        )
    return rows[0]


def _was_made_on(graph: Graph, branch: BranchRow, at: SnapshotRow) -> bool:
    move = graph.movements.last_to(branch, at.sequence)
    return move is not None and move.operation not in ("clone", "keep")


def clone_derived(pipeline: Pipeline, request: CloneRequest, engine: str | None) -> None:
    """Make the clone and all its derived objects; nothing is there if one of them cannot be."""
    graph = pipeline.graph
    check_branch(request.name)
    if graph.branches.find(request.name) is not None:
        raise AlreadyExists(f"there is a branch {request.name!r} already")

    def propose(attempt: Attempt) -> Proposal:
        wanted = list(_views_of(graph, request))
        for _, view in wanted:
            name = f"{view.name}{request.suffix}"
            check_branch(name)
            if graph.branches.find(name) is not None:
                raise AlreadyExists(
                    f"there is a branch {name!r} already, for a view of {request.name!r}"
                )
        work = _DerivedClone(pipeline, request, attempt, engine)
        for sync, view in wanted:
            try:
                work.derive(sync, view)
            except LivingDBError as error:
                error.args = (f"{view.name!r} cannot be derived on {request.name!r}: {error}",)
                raise
        return work.proposal()

    pipeline.run(request.name, propose)


def _views_of(graph: Graph, request: CloneRequest) -> Iterator[tuple[SyncRow, View]]:
    """The derived objects that there were, each after what it reads."""
    syncs = [s for s in graph.catalog.syncs.all() if s.kind == KIND and s.is_active]
    known = {request.origin.id}
    for sync, view in topological_order([(s, View.from_json(s.spec)) for s in syncs]):
        if set(view.branches) & known and _was_there(graph, sync, request):
            known.add(sync.target)
            yield sync, view


def _was_there(graph: Graph, sync: SyncRow, request: CloneRequest) -> bool:
    """Whether a derived object has a version of that time."""
    if request.at.sequence == request.origin.head:
        return True
    try:
        version_not_after(graph, sync, request.origin, request.at)
    except NotFound:
        return False
    return True


@dataclass
class _DerivedClone:
    """A clone and its derived objects, one after the other, until all are proposed."""

    pipeline: Pipeline
    request: CloneRequest
    attempt: Attempt
    engine: str | None
    drafts: list[Draft] = field(default_factory=list)
    changes: list[CatalogChange] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    unmoved: dict[BranchId, BranchRow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        request = self.request
        self._clone = NewBranch(
            request.name,
            request.at,
            request.origin.name,
            "clone",
            author=request.author,
            message=request.message,
        )
        self.changes.append(self._clone)
        self._moved = {request.origin.id: self._clone}
        """The branches to be, by those that they are made after."""
        self._heads = {self._clone.id: request.at.address}
        self._renamed: dict[BranchId, Mapping[str, str]] = {}
        """The tables that have other names in what was derived anew."""

    def derive(self, sync: SyncRow, view: View) -> None:
        """Derive an object on the clone; what it reads of the clone has been."""
        graph, request = self.pipeline.graph, self.request
        trust = self.pipeline.trust
        then = definition_at(graph, sync, view, request.origin, request.at, self._moved, trust)
        copy = replace(
            then,
            name=f"{view.name}{request.suffix}",
            tables=self._moved_tables(then),
            changes=self._moved_changes(then),
            home=self._clone.id,
            called=view.called or view.name,
        )
        when = parse_schedule(sync.frequency)
        message = f"derive {copy.name}"
        wanted = NewDerivation(copy, when, request.author, message, guard=sync.guard)
        places = self._places(copy, is_immediate=when.kind == "immediate")
        staging = self.attempt.staging
        first = first_version(self.pipeline, wanted, places, self.engine, staging)
        branch, changes = first.changes(len(self.drafts))
        intent = first.intent(places, request.author, message)
        draft = self.pipeline.commit_point.draft(intent, staging)
        self.drafts.append(draft)
        self.changes += changes
        self.actions += first.warnings
        self._moved[sync.target] = branch
        self._heads[branch.id] = draft.address
        is_clone = view.what == "clone"
        self._renamed[sync.target] = self._renames(view) if is_clone else {view.name: copy.name}

    def proposal(self) -> Proposal:
        """All of it."""
        return Proposal(
            drafted=self.drafts,
            unmoved=list(self.unmoved.values()),
            changes=self.changes,
            actions=self.actions,
            at=self.request.at,
        )

    def _places(self, view: View, is_immediate: bool) -> SourcePlaces:
        """Where what an object reads is: the proposal's own branches, and others as they are."""
        made = {branch.id: branch.name for branch in self._moved.values()}
        there = tuple(number for number in view.branches if number not in made)
        at, rows = source_heads(self.pipeline.graph, view, there)
        if is_immediate:
            self.unmoved |= rows
        known = {**{number: row.name for number, row in rows.items()}, **made}
        return SourcePlaces(
            {number: at.get(number) or self._heads[number] for number in view.branches},
            {number: known[number] for number in view.branches},
            frozenset(self._heads) - {self._clone.id},
        )

    def _moved_tables(self, view: View) -> dict[str, SourceTable]:
        """The tables of a view on the clone, and of the objects that were derived anew there.

        The table of a view has its name, so it has another one there; what it is stays the same.
        """
        return {
            plain: SourceTable(
                self._moved[t.branch].id if t.branch in self._moved else t.branch,
                self._renamed.get(t.branch, {}).get(t.table, t.table),
                t.snapshot,
                t.id,
            )
            for plain, t in view.tables.items()
        }

    def _renames(self, view: View) -> dict[str, str]:
        """The tables that have other names in what was derived anew, of all that a view reads."""
        return {
            old: new
            for branch in view.branches
            for old, new in self._renamed.get(branch, {}).items()
        }

    def _moved_changes(self, view: View) -> Sequence[Mapping[str, Any]]:
        """The schema changes of a clone, over the table of a view that was derived anew."""
        names = self._renames(view)
        return [
            {k: names.get(v, v) if k in _TABLE_FIELDS else v for k, v in change.items()}
            for change in view.changes
        ]
