"""Branches that share all that a commit touches follow it later: when somebody reads one of them.

A commit that changes only tables that a whole group of branches has in the same version, and that
no lens, condition or constraint on the way has a say in, is written down as one step, however
many branches there are.  `graph/branches_in_step.py` makes their snapshots of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.commit.carrying.carry_lens import LensCarrier
from livingdb.commit.carrying.sync_lens import SyncLenses
from livingdb.commit.proposal import BranchMove
from livingdb.graph.commit_point import HeadMoved
from livingdb.graph.course import Course
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden

__all__ = ["Followers", "NewStep"]

LEAST_FOLLOWERS = 4
"""So many branches follow later; fewer are moved at once."""


@dataclass
class _Group:
    """The branches that follow one, as they were when they were last read.

    `shared` are the tables that all of them have as that one has them, and that nothing on the way
    has a say in; a step of its own keeps it so.
    """

    course: Course
    numbers: Sequence[int]
    movements: int
    step: int
    newest: int
    shared: dict[str, Address]


@dataclass(frozen=True)
class NewStep:
    """A commit that the branches of a group follow later, if all are where they were seen."""

    changed_syncs: ClassVar[Collection[SyncId]] = ()
    graph: Graph
    group: _Group
    tables: Mapping[str, Address]

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        """Write it down; `made` begins with the snapshot that is followed."""
        group, course = self.group, self.group.course
        if not self._is_as_seen(catalog, connection):
            group.shared.clear()
            raise HeadMoved
        catalog.steps.add(connection, course.id, course.text, made[0].sequence, moment)
        # If the transaction fails after all, the next commit finds that it is not so.
        group.shared.update(self.tables)
        group.newest = max(group.newest, moment)

    def _is_as_seen(self, catalog: Catalog, connection: Connection) -> bool:
        """Whether no branch of the group has moved, or has a step of others to follow."""
        group, branches = self.group, self.graph.branches
        if branches.count_movements(connection, group.numbers) != group.movements:
            return False
        for step in catalog.steps.since(group.step, connection):
            is_reached = self.graph.in_step.reaches(step, group.course.branches)
            if step.course != group.course.id and is_reached:
                return False
            group.step = step.id
        return True


@dataclass(frozen=True)
class _Reach:
    """The branches that a change of one reaches, and the tables that lenses there have to do with.

    None of them, if something else has a say in whatever is carried there.
    """

    branches: frozenset[BranchId]
    touched: frozenset[str]


class Followers:
    """Knows the groups whose branches can follow a commit later."""

    def __init__(self, graph: Graph, lenses: SyncLenses, carrier: LensCarrier):
        self._graph = graph
        self._lenses = lenses
        self._carrier = carrier
        self._epoch = ""
        self._reaches: dict[BranchId, _Reach] = {}
        self._groups: dict[BranchId, _Group] = {}

    def forget(self, branch: BranchId) -> None:
        """A branch moves by itself, with its group."""
        self._groups = {
            start: group
            for start, group in self._groups.items()
            if start != branch and branch not in group.course.branches
        }

    def follow_later(self, move: BranchMove) -> NewStep | None:
        """A step that the branches follow which a move reaches; None if they must not wait."""
        start, epoch = move.branch.id, move.branch.epoch
        if epoch != self._epoch:
            self._epoch, self._reaches, self._groups = epoch, {}, {}
        if not self._graph.syncs(epoch).schema_syncs_from(start):
            return None
        reach = self._reaches.get(start)
        if reach is None:
            reach = self._reaches[start] = self._read_reach(move.branch)
        if len(reach.branches) < LEAST_FOLLOWERS or not reach.touched.isdisjoint(move.changed):
            return None
        if not self._is_plain(move):
            return None
        group = self._groups.get(start)
        if group is None or not _covers(group, move):
            group = self._read_group(move, reach)
            if group is None or not _covers(group, move):
                return None
            self._groups[start] = group
        return NewStep(self._graph, group, {name: move.addresses[name] for name in move.changed})

    def _is_plain(self, move: BranchMove) -> bool:
        """Whether a move only brings rows of tables, which nothing but their schemas restrains."""
        versions = self._graph.versions
        if move.operation or move.other_schemas or not move.changed:
            return False
        for name in move.changed:
            address = move.addresses.get(name)
            if address is None or name not in move.before or is_hidden(name):
                return False
            schema = versions.definition(versions.require(address)).schema
            has_own_checks = schema.has_conditions or schema.uniques
            if schema.foreign_keys or (has_own_checks and not move.is_checked):
                return False
        return True

    def _read_reach(self, branch: BranchRow) -> _Reach:
        """What a change of a branch reaches, as syncs are."""
        syncs = self._graph.syncs(branch.epoch)
        ids = syncs.schema_group(branch.id) - {branch.id}
        nobody = _Reach(frozenset(), frozenset())
        touched: set[str] = set()
        for sync in (*syncs, *syncs.inactive):
            ends = {*sync.sources, sync.target}
            if sync.kind != "schema_change":
                if not ids.isdisjoint(ends):
                    return nobody
            elif sync.is_active and not ids.isdisjoint(ends):
                lens = self._lenses.of(sync)
                if sync.behind is not None or sync.guard.get("conditions") or lens.conceals:
                    return nobody
                touched.update(lens.old, lens.new)
        return _Reach(frozenset(ids), frozenset(touched))

    def _read_group(self, move: BranchMove, reach: _Reach) -> _Group | None:
        """The group of a branch that moves, as its branches are; None if they follow at once."""
        graph, branch = self._graph, move.branch
        rows = graph.branches.by_ids(sorted(reach.branches))
        if any(row.epoch != branch.epoch for row in rows.values()):
            return None
        shared = {name: at for name, at in move.before.items() if name not in reach.touched}
        heads = graph.snapshots.get_many(row.head for row in rows.values())
        for head in heads.values():
            there = graph.tables(head)
            shared = {name: at for name, at in shared.items() if there.get(name) == at}
            for name, address in there.items():
                if is_hidden(name):
                    return None
                for referred in self._carrier.referred_tables(address):
                    shared.pop(referred, None)
        return _Group(
            Course.plan(graph.syncs(branch.epoch), branch.id, {**rows, branch.id: branch}),
            [row.number for row in rows.values()],
            sum(row.position for row in rows.values()),
            min(row.step for row in rows.values()),
            max(head.time for head in heads.values()),
            shared,
        )


def _covers(group: _Group, move: BranchMove) -> bool:
    """Whether all branches of a group have the tables that a move changes as it had them."""
    return group.newest < move.edge.time and all(
        group.shared.get(name) == move.before[name] for name in move.changed
    )
