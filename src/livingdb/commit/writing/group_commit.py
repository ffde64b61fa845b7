"""Small writes that wait for each other are stored in one transaction of the catalog.

Whoever comes first to a branch takes its turn; those who come meanwhile leave what they write to
it: threads, and other processes.  It makes a snapshot of each, one on the other, and stores them
all at once.  One that cannot be made fails alone.  What more depends on than its own rows
(constraints between rows and tables, views) is committed by itself.  Branches that are in step with
each other by nothing but lenses are written together, too.

Another process learns under which address its snapshot will be before that is stored.  If it hears
no more, it looks whether the snapshot is there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Condition, Event
from time import monotonic

from sqlalchemy import Connection

from livingdb.access.acting import acting, is_checked, unchecked
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import end_ids
from livingdb.chunks.address import Address
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.commit.writing.plain_groups import PlainGroups
from livingdb.commit.writing.small_write import SmallWrite, hand_over, receive
from livingdb.commit.writing.transaction import BranchTransaction
from livingdb.commit.writing.writer_turns import LARGEST_TURN_ROWS
from livingdb.commit.writing.writes_in_step import WritesInStep
from livingdb.commit.writing.writes_to_branch import WritesToBranch
from livingdb.errors import LivingDBError, TransactionConflict
from livingdb.files.offers import Outcome, TakenOffer
from livingdb.files.turns import Turn
from livingdb.graph.commit_point import HeadMoved
from livingdb.graph.graph import Graph
from livingdb.graph.storage.staging import Staging
from livingdb.interruption import interruptible

__all__ = ["GroupCommits"]

_log = logging.getLogger("livingdb")
_MOST_MEMBERS = 64
_LONGEST_GATHERING_SECONDS = 0.01
_MOST_LOST_RACES = 20
"""So often a write comes after others with the same rows before it is said that it is in vain."""
_KEPT_TO_ITSELF = 100
"""So many writes are not offered to other processes after one that was in vain."""


class _Member:
    """A write on its way: its thread waits until it is stored, or is the one to store others'."""

    def __init__(self, write: SmallWrite, graph: Graph):
        self.write = write
        self.acting = acting(graph)
        self.row: SnapshotRow | None = None
        self.error: BaseException | None = None
        self.is_leader = False
        self.is_called = Event()

    @property
    def is_done(self) -> bool:
        """Whether it came to something."""
        return self.row is not None or self.error is not None

    @property
    def is_wanted(self) -> bool:
        """Whether who waits for it has not given it up."""
        return True

    def outcome(self) -> SnapshotRow:
        """The snapshot that it made, or what was wrong with it."""
        if self.error is not None:
            raise self.error
        assert self.row is not None
        return self.row


class _HandedMember(_Member):
    """A write of another process."""

    def __init__(self, write: SmallWrite, graph: Graph, offer: TakenOffer):
        super().__init__(write, graph)
        self.acting = None  # whoever offers something there can write the catalog
        self.offer = offer

    @property
    def is_wanted(self) -> bool:
        """Whether the process that waits for it has not begun to make it itself."""
        return not self.offer.is_withdrawn

    def answer(self) -> None:
        """Tell the other process what became of it: if it was not made, that one tries."""
        if self.row is None:
            self.offer.decline()
        else:
            self.offer.finish(self.row.address)


@dataclass(frozen=True)
class _Announcement:
    """Tells other processes where to look for their writes, before these are stored.

    `places` are those of the members' snapshots among the proposal's, `made` is to have these.
    """

    members: Sequence[_Member]
    places: Sequence[int]
    made: list[tuple[_Member, SnapshotRow]]
    changed_syncs: Collection[SyncId] = ()

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        """Announce the snapshots of the members."""
        for member, place in zip(self.members, self.places, strict=True):
            row = made[place]
            self.made.append((member, row))
            if isinstance(member, _HandedMember) and not member.offer.announce(row.address):
                raise HeadMoved  # by who would not wait any longer


class _Queue:
    """The writes of one branch in the order they came; the first thread is the leader."""

    def __init__(self) -> None:
        self._waiting: deque[_Member] = deque()
        self._is_led = False
        self._lock = Condition()
        self._last_members, self._last_seconds = 1, 0.0
        """How many were stored together last, and how long that took."""

    def join(self, member: _Member) -> None:
        """Wait behind others; who finds none is the leader."""
        with self._lock:
            self._waiting.append(member)
            if not self._is_led:
                self._is_led = member.is_leader = True
            elif len(self._waiting) >= self._last_members:
                self._lock.notify()

    def gather(self) -> None:
        """Let those come who were stored together last: most have more to write.

        Who leads would else store its own write alone, and they theirs after it, in turn.  It waits
        no longer than storing took, and for nobody if nobody came along last time.
        """
        with self._lock:
            seconds = min(self._last_seconds, _LONGEST_GATHERING_SECONDS)
            self._lock.wait_for(lambda: len(self._waiting) >= self._last_members, seconds)

    def note(self, members: int, seconds: float) -> None:
        """So many were stored together, in that time."""
        with self._lock:
            self._last_members, self._last_seconds = members, seconds

    def take(self) -> list[_Member]:
        """Those that are stored together, the leader first."""
        with self._lock:
            found, rows = [self._waiting.popleft()], 0
            while self._waiting and len(found) < _MOST_MEMBERS:
                rows += self._waiting[0].write.rows.rows
                if rows > LARGEST_TURN_ROWS:
                    break
                found.append(self._waiting.popleft())
            return found

    def pass_on(self, leader: _Member, taken: Sequence[_Member]) -> None:
        """Let another lead; what was taken and came to nothing yet is first in the queue."""
        with self._lock:
            left = [member for member in taken if not member.is_done and member is not leader]
            self._waiting.extendleft(reversed(left))
            if leader in self._waiting:
                self._waiting.remove(leader)
            self._is_led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].is_leader = True
                self._waiting[0].is_called.set()
        for member in taken:
            if member.is_done:
                member.is_called.set()


class GroupCommits:
    """Stores small writes to the branches of one database."""

    def __init__(self, pipeline: Pipeline):
        self._pipeline = pipeline
        self._graph = pipeline.graph
        self._groups = PlainGroups(pipeline.graph, pipeline.lenses)
        self._queues: dict[str, _Queue] = {}
        self._kept_to_itself = 0

    def commit(self, write: SmallWrite) -> SnapshotRow:
        """The snapshot that a write makes."""
        turns = self._pipeline.turns
        if not turns.are_taken or write.rows.rows > LARGEST_TURN_ROWS:
            return self._commit_alone(write)
        queue = self._queues.setdefault(write.branch, _Queue())
        member = _Member(write, self._graph)
        queue.join(member)
        if not member.is_leader:
            member.is_called.wait()
        if member.is_leader and not member.is_done:
            self._lead(queue, member)
        return member.outcome()

    def _lead(self, queue: _Queue, leader: _Member) -> None:
        """Take the turn, and store what waits by then; or let another process store the write."""
        taken: list[_Member] = []
        branch = leader.write.branch
        try:
            queue.gather()
            rows, offer = leader.write.rows.rows, partial(self._offer, leader)
            with self._pipeline.turns.before_reading(branch, rows, offer) as turn:
                if turn.outcome is not None:
                    leader.row = self._find_stored(turn.outcome)
                    if leader.row is not None:
                        return
                taken = queue.take()
                handed = self._receive(branch, turn, len(taken))
                begun = monotonic()
                # What stops one of them is not to stop the others, whose writes are as small.
                several = len(taken) + len(handed) > 1
                with interruptible() if several else nullcontext():
                    self._store(branch, taken, handed)
                queue.note(len(taken), monotonic() - begun)
        finally:
            queue.pass_on(leader, taken)

    # --- other processes ---------------------------------------------------------------------

    def _offer(self, leader: _Member) -> bytes | None:
        """The write of a process that has to wait, for others to make."""
        if leader.acting is not None or self._kept_to_itself:
            self._kept_to_itself = max(0, self._kept_to_itself - 1)
            return None
        return hand_over(self._graph.versions, leader.write)

    def _find_stored(self, outcome: Outcome) -> SnapshotRow | None:
        """The snapshot that another process made of a write; None if it came to nothing."""
        if not outcome.is_announced:
            self._kept_to_itself = _KEPT_TO_ITSELF if outcome.is_declined else 0
            return None
        name = Address(outcome.name)
        found = self._graph.snapshots.find(name)
        if found is None:
            # Whoever announced it did so in a transaction that writes, of which there is one.
            with self._graph.catalog.write():
                pass
            found = self._graph.snapshots.find(name)
        return found

    def _receive(self, branch: str, turn: Turn, members: int) -> list[_HandedMember]:
        """The writes of processes that wait, as many as can be stored along with others."""
        graph, found = self._graph, list[_HandedMember]()
        offers = turn.take_offers(_MOST_MEMBERS - members)
        if not offers:
            return found
        is_possible = False
        with suppress(LivingDBError):  # who writes there itself is told what is wrong with it
            row = graph.branch(branch)
            is_possible = self._is_plain(row) or self._groups.of(row) is not None
        for offer in offers:
            write = None
            if is_possible:
                try:
                    write = receive(graph.versions, offer.work)
                except Exception as error:
                    _log.warning("a write that another process offered is left to it: %r", error)
            if write is None:
                offer.decline()
            else:
                found.append(_HandedMember(write, graph, offer))
        return found

    def _store(
        self, branch: str, own: Sequence[_Member], handed: Sequence[_HandedMember] = ()
    ) -> None:
        """Store writes at once, as far as that is possible, and each of our own that is left."""
        rest, members = list(own), [*own, *handed]
        if len(members) > 1:
            left = self._store_together(branch, members)
            rest = [member for member in left if not isinstance(member, _HandedMember)]
        for other in handed:
            other.answer()
        for member in rest:
            try:
                with is_checked(member.acting):
                    member.row = self._commit_alone(member.write)
            except Exception as error:
                member.error = error

    def _commit_alone(self, write: SmallWrite) -> SnapshotRow:
        """Store a write by itself; if somebody else is faster with the same rows, then after them.

        It has read nothing, so that it is as if it came later.  Of rows that were erased nobody
        knows which they were: then it is not for us to say that it came after that.
        """
        pipeline = self._pipeline.for_who_acts()
        erasure, lost_races = pipeline.graph.store.newest_erasure, 0
        while True:
            work = BranchTransaction(pipeline, pipeline.graph.branch(write.branch))
            write.fill(work)
            try:
                return work.commit(write.operation, write.author, write.message)
            except TransactionConflict as error:
                lost_races += 1
                is_other = not error.of_rows or pipeline.graph.store.newest_erasure != erasure
                if is_other or lost_races > _MOST_LOST_RACES:
                    raise

    # --- together ----------------------------------------------------------------------------

    def _is_plain(self, branch: BranchRow) -> bool:
        """Whether no sync has to do with a branch."""
        syncs = self._graph.syncs(branch.epoch)
        return branch.id not in end_ids((*syncs, *syncs.inactive))

    def _store_together(self, branch: str, members: Sequence[_Member]) -> list[_Member]:
        """Store writes at once; those that are to be committed by themselves are left."""
        graph, apart = self._graph, list[_Member]()
        made: list[tuple[_Member, SnapshotRow]] = []

        def propose(attempt: Attempt) -> Proposal | SnapshotRow:
            made.clear()
            apart.clear()
            row, places = graph.branch(branch), dict[_Member, int]()
            writes = self._begin(row, attempt.staging)
            for member in members:
                member.error = None
                if not member.is_wanted:
                    continue
                try:
                    place = None if writes is None else writes.add(member.write, member.acting)
                except Exception as error:
                    member.error = error
                else:
                    if place is None:
                        apart.append(member)
                    else:
                        places[member] = place
            if writes is None or not places:
                return graph.snapshots.at(row.head)
            announced = _Announcement(tuple(places), tuple(places.values()), made)
            return replace(writes.proposal, changes=[announced])

        try:
            with unchecked():  # each was looked at for itself
                self._pipeline.run(branch, propose, graph.branch(branch))
        except Exception as error:
            for member in members:
                member.error = member.error or error
            return []
        for member, row in made:
            member.row = row
        return apart

    def _begin(self, row: BranchRow, staging: Staging) -> WritesToBranch | WritesInStep | None:
        """What makes writes to a branch together; None if each has to be committed by itself."""
        if self._is_plain(row):
            return WritesToBranch(self._pipeline, row, staging)
        group = self._groups.of(row)
        if group is None:
            return None
        branches = self._graph.branches_by_ids(sorted(group.branches))
        if any(one.epoch != row.epoch for one in branches.values()):
            raise HeadMoved
        return WritesInStep(self._pipeline, group, branches.values(), staging)
