"""Retires a schema version: its neighbours in the chain stay in step with each other.

What lies between two versions is a chain of lenses with a hidden branch between every two of them,
as where several changes are made at once.  So a version that is retired goes on as such a hidden
branch: the lenses of its two syncs compose, and what it remembers for its neighbours stays.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import DETACHED, SyncRow, sync_chains
from livingdb.chunks.address import Address
from livingdb.commit.drop_branch import DroppedBranch, check_not_default
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.derivation.view import KIND
from livingdb.errors import InvalidData, LivingDBError, RuleViolation
from livingdb.evolution.changes.revert_change import inverse_change
from livingdb.evolution.own_values import OwnValues, own_values
from livingdb.evolution.plan import definitions_of
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.catalog_changes import CatalogChange, MovedSync, NewBranch, RespecifiedSync
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden

__all__ = ["POLICIES", "RetiredVersion", "retire"]

REJECT, TRUNCATE = "reject", "truncate"
POLICIES = (REJECT, TRUNCATE)

Chain = tuple[SyncRow, ...]


@dataclass(frozen=True)
class RetiredVersion:
    """What became of a schema version.

    `neighbours` were in step with it: two of them are so with each other now.  `own_values` are
    the values that it alone held, as the number of rows by table and column; its last `snapshot`
    still has them.
    """

    name: str
    snapshot: str
    neighbours: tuple[str, ...]
    own_values: OwnValues = field(default_factory=dict)

    def __str__(self) -> str:
        text = f"retired {self.name}, which stood on {self.snapshot[:12]}"
        if len(self.neighbours) == 2:
            text += f"; {' and '.join(self.neighbours)} are in step with each other"
        if self.own_values:
            text += f"; only it held {describe_own_values(self.own_values)}"
        return text


def describe_own_values(found: OwnValues) -> str:
    """The columns with values that only one version holds, as a message names them."""
    return ", ".join(
        f"{table}.{column} ({count} {'row' if count == 1 else 'rows'})"
        for table, columns in sorted(found.items())
        for column, count in columns.items()
    )


def retire(pipeline: Pipeline, name: str, policy: str = REJECT) -> RetiredVersion:
    """End a schema version.

    `RuleViolation` says what follows it or reads it, and why its neighbours cannot be joined.
    Values that only it holds are refused by `InvalidData`, unless the policy is "truncate".
    """
    if policy not in POLICIES:
        raise InvalidData(f"policy {policy!r}: choose one of {', '.join(map(repr, POLICIES))}")
    made: list[RetiredVersion] = []

    def propose(attempt: Attempt) -> Proposal:
        version = _Version(pipeline, name)
        found = version.own_values()
        if found and policy != TRUNCATE:
            raise InvalidData(
                f"only {name!r} holds these values: {describe_own_values(found)}; "
                "policy='truncate' retires it nevertheless"
            )
        made.append(
            RetiredVersion(name, version.head.address.hex(), version.neighbour_names, found)
        )
        return version.proposal()

    pipeline.run(name, propose)
    return made[-1]


class _Version:
    """A version that is to be retired: its branch, and the syncs that it is in."""

    def __init__(self, pipeline: Pipeline, name: str):
        graph = self._graph = pipeline.graph
        self._pipeline = pipeline
        self.branch = graph.branch(name)
        if is_hidden(self.branch.name):
            raise InvalidData(f"{name!r} is no schema version")
        check_not_default(graph, self.branch)
        self.head = graph.snapshots.at(self.branch.head)
        self._branches = {row.id: row for row in graph.branches.all()}
        hidden = {number for number, row in self._branches.items() if is_hidden(row.name)}
        mine = [
            chain
            for chain in sync_chains(graph.catalog.syncs.all(), hidden)
            if self.branch.id in (*chain[0].sources, chain[-1].target)
        ]
        self._ended = [chain for chain in mine if chain[0].state == DETACHED]
        self._chains = [chain for chain in mine if chain[0].state != DETACHED]
        self._chains.sort(key=lambda chain: (chain[-1].target != self.branch.id, chain[0].number))
        self._check_syncs()

    def _name(self, branch: BranchId) -> str:
        row = self._branches.get(branch)
        return "?" if row is None else row.name

    def _neighbour(self, chain: Chain) -> BranchId:
        """The other end of a sync of schema changes."""
        first, last = chain[0].sources[0], chain[-1].target
        return last if first == self.branch.id else first

    @property
    def neighbour_names(self) -> tuple[str, ...]:
        """The versions that are in step with it."""
        return tuple(self._name(self._neighbour(chain)) for chain in self._chains)

    def _check_syncs(self) -> None:
        """`RuleViolation` if something needs the version, or nothing takes its place."""
        me, name = self.branch.id, self.branch.name
        readers = [c for c in self._chains if c[0].kind != "schema_change"]
        readers += [c for c in self._chains if c not in readers and me in _origins(c)]
        readers = [c for c in readers if c[0].direction != "both"]
        if readers:
            names = ", ".join(sorted(repr(self._follower(chain)) for chain in readers))
            raise RuleViolation(
                f"{name!r} cannot be retired, since it is read or followed by {names}: derive that "
                "elsewhere, detach it or drop it first"
            )
        if not self._chains:
            raise RuleViolation(
                f"{name!r} is in step with no other version, so there is nothing to retire it to: "
                f"db.drop_branch({name!r}) forgets it"
            )
        for chain in self._chains:
            self._check_sync(chain)
        if len(self._chains) == 1:
            return
        names = " and ".join(repr(name) for name in self.neighbour_names)
        if len(self._chains) > 2:
            raise RuleViolation(
                f"{name!r} cannot be retired: {names} are in step through it, and what one of them "
                "writes reaches the others only by what it holds; retire the others first, until "
                "two are left"
            )
        first, second = (dict(chain[-1].guard) for chain in self._chains)
        if first != second:
            raise RuleViolation(
                f"{name!r} cannot be retired: its syncs with {names} have different conditions or "
                "alerts, and the sync of these two would have both; alter one of them first"
            )

    def _check_sync(self, chain: Chain) -> None:
        if not chain[0].is_active:
            raise RuleViolation(
                f"{self.branch.name!r} cannot be retired: its sync with "
                f"{self._name(self._neighbour(chain))!r} is {chain[0].state}; resume or detach it "
                "first"
            )
        if any(row.behind is not None for row in chain):
            raise RuleViolation(
                f"{self.branch.name!r} cannot be retired: its sync with "
                f"{self._name(self._neighbour(chain))!r} waits for the key of a mask; "
                "db.propagate() where the key is known carries what waits"
            )

    def _is_reader(self, chain: Chain) -> bool:
        return chain[0].kind == KIND and self.branch.id in chain[0].sources

    def _follower(self, chain: Chain) -> str:
        ends = (chain[0].sources[0], chain[-1].target)
        return self._name(ends[0] if ends[1] == self.branch.id else ends[1])

    # --- what only it holds ---------------------------------------------------------------------

    def own_values(self) -> OwnValues:
        """The values that no neighbour gives."""
        graph = self._graph
        given = []
        for chain in self._chains:
            row = self._branches[self._neighbour(chain)]
            changes = self._changes_from(chain)
            tables = tables_of(graph, graph.snapshots.at(row.head))
            try:
                made, _ = self._pipeline.lifter.tables_after(tables, changes, graph.scratch())
            except LivingDBError as error:
                raise RuleViolation(
                    f"{self.branch.name!r} cannot be retired: what {row.name!r} holds of it cannot "
                    f"be told: {error}"
                ) from error
            given.append(made)
        return own_values(graph.versions, tables_of(graph, self.head), given)

    def _changes_from(self, chain: Chain) -> list[SchemaChange]:
        """The changes that lead from a neighbour to the version."""
        if chain[-1].target == self.branch.id:
            return [SchemaChange.from_json(row.spec["change"]) for row in chain]
        return [_inverse(self._graph, row) for row in reversed(chain)]

    # --- what becomes of it ---------------------------------------------------------------------

    def proposal(self) -> Proposal:
        """The branch goes; between two neighbours a hidden one has its place."""
        ended = [*self._ended, *(self._chains if len(self._chains) == 1 else ())]
        between = [self._branches[row.sources[0]] for chain in ended for row in chain[1:]]
        readers = [chain[0] for chain in ended if self._is_reader(chain)]
        gone = [row for chain in ended for row in chain if row not in readers]
        dropped = DroppedBranch(self._graph, self.branch, readers, gone, between)
        changes: list[CatalogChange] = []
        if len(self._chains) == 2:
            changes = self._joined_syncs()
        ends = [self._branches[self._neighbour(chain)] for chain in self._chains]
        return Proposal(unmoved=(self.branch, *ends), changes=[*changes, dropped], at=self.head)

    def _joined_syncs(self) -> list[CatalogChange]:
        """One sync of the two neighbours, over a hidden branch with the version's log."""
        name = f"~{uuid.uuid4().hex[:12]}"
        place = NewBranch(name, self.head, self.branch.name, "retire", (self.branch, 0))
        first, second = self._chains
        changes: list[CatalogChange] = [place]
        if first[-1].target != self.branch.id:  # both lead away from it
            changes += self._turned_rows(first, place)
        else:
            changes.append(self._moved_row(first[-1], place))
        if second[-1].target == self.branch.id:  # both lead to it
            changes += self._turned_rows(second, place)
        else:
            changes.append(self._moved_row(second[0], place))
        return changes

    def _moved_row(self, row: SyncRow, place: NewBranch) -> MovedSync:
        """A part of a sync, with the hidden branch in the version's place."""
        me = self.branch.id
        sources = tuple(place.id if source == me else source for source in row.sources)
        target = place.id if row.target == me else row.target
        return MovedSync(row.id, sources, target, self._sync_name(sources[0], target, place))

    def _turned_rows(self, chain: Chain, place: NewBranch) -> list[CatalogChange]:
        """A sync that leads the other way, by the inverse lenses."""
        me = self.branch.id
        found: list[CatalogChange] = []
        for row in chain:
            target, source = (
                place.id if end == me else end for end in (row.sources[0], row.target)
            )
            planned = self.head if row.target == me else self._head(row.target)
            change = _inverse(self._graph, row).to_json()
            name = self._sync_name(source, target, place)
            spec = {**row.spec, "change": change, "snapshot": planned.address.hex()}
            found.append(MovedSync(row.id, (source,), target, name))
            found.append(RespecifiedSync(row.id, spec))
        return found

    def _head(self, branch: BranchId) -> SnapshotRow:
        return self._graph.snapshots.at(self._branches[branch].head)

    def _sync_name(self, source: BranchId, target: BranchId, place: NewBranch) -> str:
        names = {place.id: place.name}
        return "/".join(names.get(end) or self._name(end) for end in (source, target))


def _origins(chain: Chain) -> tuple[BranchId, ...]:
    """The branches whose changes a one-way sync carries."""
    return (chain[-1].target,) if chain[0].direction == "reverse" else chain[0].sources


def _inverse(graph: Graph, row: SyncRow) -> SchemaChange:
    """What takes back the change of a sync."""
    planned = graph.snapshots.find(Address(bytes.fromhex(row.spec["snapshot"])))
    assert planned is not None
    before = definitions_of(graph, tables_of(graph, planned))
    return inverse_change(SchemaChange.from_json(row.spec["change"]), before)
