"""The commit point: where snapshots that were made become part of the database.

Chunks that are too large for the journal become durable packs; then one transaction of the catalog
stores the small chunks, numbers the snapshots and moves the heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import NewSnapshot, SnapshotRow
from livingdb.catalog.sql.postgres import LostRace
from livingdb.errors import LivingDBError
from livingdb.graph.catalog_changes import CatalogChange
from livingdb.graph.draft import Action, Draft, HeadMove, Intent, distinct_versions
from livingdb.graph.graph import Graph, now
from livingdb.graph.snapshot import Edge, SnapshotRecord, TableMap
from livingdb.graph.snapshot_time import snapshot_time
from livingdb.graph.storage.staging import Staging

__all__ = ["BatchAlreadyStored", "CommitPoint", "HeadMoved"]


class BatchAlreadyStored(Exception):
    """A batch of a stream that is in the database already."""


class HeadMoved(Exception):
    """A head was not where it had been seen."""


class CommitPoint:
    """Makes and stores the snapshots of one database."""

    def __init__(self, graph: Graph):
        self._graph = graph

    def draft(self, intent: Intent, staging: Staging, previous: Draft | None = None) -> Draft:
        """The record of a snapshot to be, and perhaps of one on another that is to be."""
        parents = [(parent.address, parent.time) for parent in intent.parents]
        before = TableMap.empty()
        if intent.on_previous:
            assert previous is not None
            parents.insert(0, (previous.address, previous.record.edge.time))
            before = previous.record.map
        elif parents:
            before = self._graph.record(parents[0][0]).map
        edge = Edge(
            intent.kind,
            intent.operation,
            intent.author,
            snapshot_time(now(), [time for _, time in parents]),
            intent.message,
            intent.sources,
            intent.details,
        )
        addresses = {n: None if v is None else v.address for n, v in intent.tables.items()}
        tables = before.with_changes(addresses, staging.sink)
        record = SnapshotRecord(tuple(address for address, _ in parents), edge, tables)
        stored = record.to_chunk()
        staging.sink(stored)
        return Draft(intent, stored.address, record, addresses)

    def store(
        self,
        drafts: Sequence[Draft],
        staging: Staging,
        moves: Sequence[HeadMove] = (),
        unmoved: Sequence[BranchRow] = (),
        changes: Sequence[CatalogChange] = (),
        actions: Sequence[Action] = (),
        held: Connection | None = None,
    ) -> list[SnapshotRow] | None:
        """Store snapshots, move heads and do what else is asked for, all at one time.

        None if a head had moved meanwhile, or one of the branches that are to be `unmoved`, or the
        catalog took it back for somebody else's sake: then nothing is done.  `held` is the
        connection of somebody who is alone with a branch.
        """
        graph, catalog = self._graph, self._graph.catalog
        self._check_kept(drafts, moves)
        moment = self._moment(drafts, moves, unmoved)
        made = distinct_versions(drafts)
        staging.finish_packs()
        try:
            with catalog.write() if held is None else catalog.commit_exclusive(held) as connection:
                if unmoved:
                    own = [branch for draft in drafts for branch in draft.intent.moves]
                    seen = [*own, *(move.branch for move in moves), *unmoved]
                    graph.branches.lock(connection, seen)
                staging.write(connection)
                graph.index.save(connection, made)
                rows = self._number_drafts(connection, drafts)
                self._move_heads(connection, drafts, rows, moves, unmoved, moment)
                # What changes the epoch comes after the moves, which compare it.
                for change in changes:
                    change.store(catalog, connection, rows, moment)
                syncs = [sync for change in changes for sync in change.changed_syncs]
                epoch = catalog.raise_epoch(connection) if syncs else None
                for act in actions:
                    act(connection)
                # Whatever becomes of the answer, what a commit may have named has to stay.
                staging.keep()
        except (HeadMoved, LostRace):
            return None
        except LivingDBError:
            found = [graph.snapshots.find(draft.address) for draft in drafts]
            kept = [row for row in found if row is not None]
            if not drafts or len(kept) < len(drafts):
                raise
            rows, epoch = kept, None
        if epoch is not None:
            graph.note_changed_syncs(syncs, epoch)
        graph.publish(zip(rows, (draft.record for draft in drafts), strict=True), staging)
        graph.index.mark_saved(made)
        graph.observer.note_commit(made)
        return rows

    @contextmanager
    def exclusive_transaction(self, branch: BranchRow, group: str) -> Iterator[Connection]:
        """A transaction that nobody else commits to the branch beside; rolled back at its end.

        Those who want to be alone with branches of one group wait for each other in order.  Nobody
        has a step to follow in it, since following is a transaction of its own.
        """
        branches = self._graph.branches
        while True:
            branches.follow()
            with self._graph.catalog.exclusive_transaction(branch, group) as connection:
                if not branches.has_steps(connection):
                    yield connection
                    return

    def _check_kept(self, drafts: Sequence[Draft], moves: Sequence[HeadMove]) -> None:
        """`Forgotten` if a head is to stand on what retention took the rows of."""
        graph = self._graph
        for move in moves:
            graph.forgotten.check(move.to)
        if graph.index.has_hollow():
            for draft in drafts:
                for address in draft.addresses.values():
                    if address is not None and not graph.index.is_open(address):
                        graph.versions.check_kept(graph.versions.require(address))

    def _moment(
        self, drafts: Sequence[Draft], moves: Sequence[HeadMove], unmoved: Sequence[BranchRow]
    ) -> int:
        """The time at which heads are moved: not before what they stood on and are to stand on."""
        times = [draft.moment or draft.record.edge.time for draft in drafts]
        if moves or not drafts:
            seen = [*(move.branch for move in moves), *unmoved]
            heads = [self._graph.snapshots.at(branch.head).time for branch in seen]
            times.append(snapshot_time(now(), heads))
        return max(times)

    def _number_drafts(self, connection: Connection, drafts: Sequence[Draft]) -> list[SnapshotRow]:
        """Number snapshots, and note the tables they change, all at once."""
        catalog = self._graph.catalog
        new = [
            NewSnapshot(
                draft.address,
                draft.intent.parents,
                draft.record.edge.time,
                draft.record.edge.kind,
                draft.record.edge.author,
                draft.record.edge.message,
                draft.intent.on_previous,
                draft.intent.upon,
            )
            for draft in drafts
        ]
        rows = self._graph.snapshots.add_all(connection, new)
        numbers = [row.sequence for row in rows]
        changed = zip(numbers, (draft.addresses for draft in drafts), strict=True)
        catalog.touches.add_all(connection, changed)
        for draft, number in zip(drafts, numbers, strict=True):
            batch = draft.intent.batch
            if batch is not None and not catalog.streams.put(connection, *batch, number):
                raise BatchAlreadyStored(f"batch {batch[1]} of the stream is in already")
        return rows

    def _move_heads(
        self,
        connection: Connection,
        drafts: Sequence[Draft],
        rows: Sequence[SnapshotRow],
        moves: Sequence[HeadMove],
        unmoved: Sequence[BranchRow],
        moment: int,
    ) -> None:
        """Let the heads stand on the snapshots that are to be theirs.

        `HeadMoved` if one of them, or of those that are to be `unmoved`, was not as seen.
        """
        branches = self._graph.branches
        if not all(branches.is_current(connection, branch) for branch in unmoved):
            raise HeadMoved
        wanted = [
            (branch, row.sequence, draft.moment or moment, draft.intent.operation)
            for draft, row in zip(drafts, rows, strict=True)
            for branch in draft.intent.moves
        ]
        wanted += [(move.branch, move.to.sequence, moment, move.operation) for move in moves]
        if not branches.move_all(connection, wanted):
            raise HeadMoved
