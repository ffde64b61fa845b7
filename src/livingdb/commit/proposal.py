"""A proposal: all that one operation asks for, as one value; and a branch that moves by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from livingdb.alerts.watch_commits import WatchedMove
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.evolution.lenses.lens import Lens, RowImages
from livingdb.evolution.schema_change import SchemaChange
from livingdb.evolution.schema_elements import MadeChange
from livingdb.evolution.schema_history import made_of, visible_schemas
from livingdb.graph.catalog_changes import CatalogChange, NewBranch
from livingdb.graph.draft import Action, Draft, HeadMove, Intent
from livingdb.graph.graph import Graph, now
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import Edge
from livingdb.tables.index import Version
from livingdb.trees.delta import Delta

__all__ = ["BranchChange", "BranchMove", "KeptSchema", "Proposal", "Tables", "have_same_schemas"]

Tables = Mapping[str, Version]


@dataclass(frozen=True)
class KeptSchema:
    """The branch that goes on with the schema that another one leaves.

    `direction` is that of the sync that keeps the two in step, and `lenses` what it carries by.
    """

    of: BranchId
    branch: NewBranch
    head: SnapshotRow
    direction: str
    lenses: Sequence[Lens]


@dataclass(frozen=True)
class Proposal:
    """What an operation proposes, made on the heads as they were last seen.

    `snapshots` are stored in this order; what is asked for is the last.  `moves` are branches
    that go to snapshots that are there, `unmoved` ones that have to be where they were seen, and
    `changes` what becomes of branches, syncs and runs.  `deltas` are what the last snapshot does
    to rows, where that is known; it is held against constraints if `is_checked`, and `excuse` says
    why what was right when it was written may be wrong now.
    """

    snapshots: Sequence[Intent] = ()
    moves: Sequence[HeadMove] = ()
    unmoved: Sequence[BranchRow] = ()
    changes: Sequence[CatalogChange] = ()
    actions: Sequence[Action] = ()
    deltas: Mapping[str, Delta] = field(default_factory=dict)
    is_checked: bool = False
    rebuilt: frozenset[str] = frozenset()
    """Tables whose rows are held against constraints as a whole, whatever happens to them."""
    excuse: str = ""
    is_rebased: bool = False
    """Whether it was found sound on an earlier head, so that it is others who made it wrong."""
    own_syncs: frozenset[SyncId] = frozenset()
    """Syncs that the proposal itself sees to: they carry nothing of it."""
    overdue: Sequence[BranchRow] = ()
    """Branches that stay where they are, and that a sync has not seen yet."""
    at: SnapshotRow | None = None
    """Where an operation leads that makes no snapshot and moves no head."""
    drafted: Sequence[Draft] = ()
    """What comes before `snapshots` and is made already, since others of them name it."""
    is_carried: bool = False
    """Whether all that follows from `drafted` is among it, and everything was looked at."""
    kept: KeptSchema | None = None
    """What views may read instead that cannot follow its schema change."""
    on_break: str | None = None
    """What becomes of those, if it is not for them to say."""
    line: Sequence[MadeChange] = ()
    """What happened to the schema of what its snapshot follows, since the one before it."""
    unified: Mapping[str, str] = field(default_factory=dict)
    """The ids that columns and tables have in its snapshot, by others in the one before."""
    remasked: frozenset[str] = frozenset()
    """The columns of that which were masked then and are not now, or are now, by their ids."""

    @property
    def first_branch(self) -> BranchRow | None:
        """A branch that has to be where it was seen."""
        moved = [branch for intent in self.snapshots for branch in intent.moves]
        return next(iter([*moved, *(move.branch for move in self.moves), *self.unmoved]), None)

    def is_outdated(self, graph: Graph) -> bool:
        """Whether a branch that it moves is not where it was seen."""
        seen = {branch.id: branch for intent in self.snapshots for branch in intent.moves}
        now = graph.branches_by_ids(list(seen))
        return any(
            number not in now or now[number].position != branch.position
            for number, branch in seen.items()
        )


@dataclass(frozen=True)
class BranchChange:
    """The tables of a branch before and after a change, and the snapshot that says so."""

    branch: BranchId
    name: str
    before: Tables
    after: Tables
    snapshot: Address
    deltas: dict[str, Delta] = field(default_factory=dict)
    """The effective delta of each table, where it is known."""
    row_images: dict[str, RowImages] = field(default_factory=dict)
    """The same, as whole rows before and after."""


@dataclass(frozen=True)
class BranchMove:
    """A branch that a proposal moves, and what is known of why."""

    graph: Graph
    branch: BranchRow
    head: SnapshotRow
    """Where it was."""
    address: Address
    """Where it is to be."""
    addresses: Mapping[str, Address]
    """The tables there."""
    changed: frozenset[str]
    """Those that differ."""
    edge: Edge
    operation: str = ""
    """What moves it to a snapshot that was there; none, if the proposal makes the snapshot."""
    schema_changes: Sequence[Mapping[str, Any]] = ()
    """The schema changes that the proposal makes, in the words of their edges."""
    known: tuple[Tables, Tables, dict[str, Delta], dict[str, RowImages]] | None = None
    """The tables before and after, and what differs, if who made it knows."""
    made_changes: frozenset[str] = frozenset()
    """The ids of the schema changes that are made on the way, where it is one of several steps."""
    is_checked: bool = False
    """Whether the rows that it brings were held against the constraints there."""
    unified: Mapping[str, str] = field(default_factory=dict)
    """The ids that columns and tables have there, which a merge took for one with others."""
    line: Sequence[MadeChange] = ()
    """What happened to its schema on the way there, where that is more than one step."""
    brings_rows: bool = False
    """Whether other rows come with the schema changes: it follows several steps at once."""
    remasked: frozenset[str] = frozenset()
    """The columns, by their ids, that are masked where it was and not where it is to be, or so."""

    @classmethod
    def by_draft(
        cls,
        graph: Graph,
        branch: BranchRow,
        draft: Draft,
        schema_changes: Sequence[Mapping[str, Any]] = (),
        known: tuple[Tables, Tables, dict[str, Delta], dict[str, RowImages]] | None = None,
        made_changes: frozenset[str] = frozenset(),
        is_checked: bool = False,
        brings_rows: bool = False,
    ) -> BranchMove:
        """A branch that goes to a snapshot to be."""
        edge = draft.record.edge
        if edge.kind == "schema_change":
            schema_changes = edge.details.get("changes", ())
        head = graph.snapshots.at(branch.head)
        changed: Iterable[str] = draft.addresses
        if draft.record.parents[:1] != (head.address,):
            changed = _differing_names(graph.tables(head), draft.record.tables)
        return cls(
            graph,
            branch,
            head,
            draft.address,
            draft.record.tables,
            frozenset(changed),
            edge,
            schema_changes=schema_changes,
            known=known,
            made_changes=made_changes,
            is_checked=is_checked,
            brings_rows=brings_rows,
        )

    @classmethod
    def to_snapshot(cls, graph: Graph, move: HeadMove) -> BranchMove:
        """A branch that goes to a snapshot that is there."""
        head = graph.snapshots.at(move.branch.head)
        before, after = graph.tables(head), graph.tables(move.to)
        changed = _differing_names(before, after)
        edge = graph.record(move.to.address).edge
        return cls(
            graph,
            move.branch,
            head,
            move.to.address,
            after,
            frozenset(changed),
            edge,
            move.operation,
        )

    @classmethod
    def in_place(cls, graph: Graph, branch: BranchRow) -> BranchMove:
        """A branch that stays, for a sync that has something of it to carry yet."""
        return cls.to_snapshot(
            graph, HeadMove(branch, graph.snapshots.at(branch.head), "propagate")
        )

    @property
    def is_evolved(self) -> bool:
        """Whether schema changes lead there, also ones that leave the definitions as they are."""
        return bool(self.schema_changes or self.line or self.remasked)

    @property
    def is_schema_alone(self) -> bool:
        """Whether nothing but schema changes lead there: its rows are what those make of them."""
        return bool(self.schema_changes) and not self.brings_rows

    @cached_property
    def history(self) -> Sequence[MadeChange]:
        """What happens to its schema; nothing, if only tables come or go."""
        if self.line or not self.schema_changes:
            return self.line
        changes = [SchemaChange.from_json(item) for item in self.schema_changes]
        return made_of(changes, visible_schemas(self.graph, self.head))

    @property
    def watched(self) -> WatchedMove:
        """What those are told who watch the branch."""
        edge, is_draft = self.edge, not self.operation
        return WatchedMove(
            self.branch,
            self.address,
            self.addresses,
            edge.author,
            edge.message if is_draft else f"now at {edge.message!r}",
            edge.time if is_draft else now(),
            "merge" in ((edge.kind, edge.operation) if is_draft else (self.operation,)),
        )

    @cached_property
    def before(self) -> Mapping[str, Address]:
        """The tables where it was."""
        return self.graph.tables(self.head)

    @cached_property
    def change(self) -> BranchChange:
        """The change of its tables."""
        known = self.known
        if known is None:
            require = self.graph.versions.require
            before, after = (
                {name: require(address) for name, address in tables.items()}
                for tables in (self.before, self.addresses)
            )
            known = before, after, {}, {}
        return BranchChange(
            self.branch.id, self.branch.name, known[0], known[1], self.address, *known[2:]
        )

    @cached_property
    def other_schemas(self) -> frozenset[str]:
        """The tables it had that are gone or have another definition."""
        require = self.graph.versions.require
        found = set()
        for name in self.changed:
            old, new = self.before.get(name), self.addresses.get(name)
            if old is not None and (
                new is None or require(old).definition != require(new).definition
            ):
                found.add(name)
        return frozenset(found)


def _differing_names(before: Mapping[str, Address], after: Mapping[str, Address]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def have_same_schemas(before: Tables, after: Tables) -> bool:
    """Whether the tables that users see are the same ones, in the same schemas."""
    old, new = (
        {name: version.definition for name, version in tables.items() if not is_hidden(name)}
        for tables in (before, after)
    )
    return old == new
