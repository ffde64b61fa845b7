"""Small writes that wait for each other are stored in one transaction of the catalog.

Whoever comes first to a branch takes its turn; those who come meanwhile leave what they write to
it: threads, and other processes.  It makes a snapshot of each, one on the other, and stores them
all at once.  One that cannot be made fails alone.  What more depends on than its own rows
(constraints between rows and tables, syncs) is committed by itself.

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
from livingdb.commit.small_write import SmallWrite, hand_over, is_independent, receive
from livingdb.commit.transaction import BranchTransaction
from livingdb.commit.write_set import WriteSet
from livingdb.commit.writer_turns import LARGEST_TURN_ROWS
from livingdb.errors import LivingDBError
from livingdb.files.offers import Outcome, TakenOffer
from livingdb.files.turns import Turn
from livingdb.graph.commit_point import HeadMoved
from livingdb.graph.constraints import check_tables
from livingdb.graph.draft import Action, Intent
from livingdb.graph.graph import Graph
from livingdb.graph.storage.staging import Staging
from livingdb.interruption import interruptible
from livingdb.tables.index import Version

__all__ = ["GroupCommits"]

_log = logging.getLogger("livingdb")
_MOST_MEMBERS = 64
_LONGEST_GATHERING_SECONDS = 0.01
_KEPT_TO_ITSELF = 100
"""So many writes are not offered to other processes after one that was in vain."""


class _Apart(Exception):
    """A write that has to be committed by itself."""


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
    """Tells other processes where to look for their writes, before these are stored."""

    members: Sequence[_Member]
    changed_syncs: Collection[SyncId] = ()

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        """Announce the snapshots of the members, which are the first of the proposal's."""
        for member, row in zip(self.members, made, strict=False):
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
        self._queues: dict[str, _Queue] = {}
        self._kept_to_itself = 0

    def commit(self, branch: str, write: SmallWrite) -> SnapshotRow:
        """The snapshot that a write makes."""
        turns = self._pipeline.turns
        if not turns.are_taken or write.rows.rows > LARGEST_TURN_ROWS:
            return self._commit_alone(branch, write)
        queue, member = self._queues.setdefault(branch, _Queue()), _Member(write, self._graph)
        queue.join(member)
        if not member.is_leader:
            member.is_called.wait()
        if member.is_leader and not member.is_done:
            self._lead(branch, queue, member)
        return member.outcome()

    def _lead(self, branch: str, queue: _Queue, leader: _Member) -> None:
        """Take the turn, and store what waits by then; or let another process store the write."""
        taken: list[_Member] = []
        try:
            queue.gather()
            rows, offer = leader.write.rows.rows, partial(self._offer, branch, leader)
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

    def _offer(self, branch: str, leader: _Member) -> bytes | None:
        """The write of a process that has to wait, for others to make."""
        if leader.acting is not None or self._kept_to_itself:
            self._kept_to_itself = max(0, self._kept_to_itself - 1)
            return None
        return hand_over(self._graph.versions, branch, leader.write)

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
        is_plain = False
        with suppress(LivingDBError):  # who writes there itself is told what is wrong with it
            is_plain = self._is_plain(graph.branch(branch))
        for offer in offers:
            write = None
            if is_plain:
                try:
                    write = receive(graph.versions, branch, offer.work)
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
        if len(members) > 1 and self._is_plain(self._graph.branch(branch)):
            left = self._store_together(branch, members)
            rest = [member for member in left if not isinstance(member, _HandedMember)]
        for other in handed:
            other.answer()
        for member in rest:
            try:
                with is_checked(member.acting):
                    member.row = self._commit_alone(branch, member.write)
            except Exception as error:
                member.error = error

    def _commit_alone(self, branch: str, write: SmallWrite) -> SnapshotRow:
        pipeline = self._pipeline.for_who_acts()
        work = BranchTransaction(pipeline, pipeline.graph.branch(branch))
        write.fill(work)
        return work.commit(write.operation, write.author, write.message)

    def _is_plain(self, branch: BranchRow) -> bool:
        """Whether no sync has to do with a branch."""
        syncs = self._graph.syncs(branch.epoch)
        return branch.id not in end_ids((*syncs, *syncs.inactive))

    def _store_together(self, branch: str, members: Sequence[_Member]) -> list[_Member]:
        """Store writes at once; those that are to be committed by themselves are left."""
        graph, made, apart = self._graph, list[_Member](), list[_Member]()
        rights = self._pipeline.rights

        def propose(attempt: Attempt) -> Proposal | SnapshotRow:
            made.clear()
            apart.clear()
            row = graph.branch(branch)
            if not self._is_plain(row):
                apart.extend(members)
                return graph.snapshots.at(row.head)
            tables: dict[str, Version | None] = {}
            intents: list[Intent] = []
            notes: list[Action] = []
            for member in members:
                member.error = None
                if not member.is_wanted:
                    continue
                try:
                    if member.acting is not None:
                        notes.append(rights.check_rows(member.acting, row, member.write.author))
                    intents.append(self._intent(member.write, row, tables, attempt.staging))
                except _Apart:
                    apart.append(member)
                except Exception as error:
                    member.error = error
                else:
                    made.append(member)
                    tables |= intents[-1].tables
            if not intents:
                return graph.snapshots.at(row.head)
            head = graph.snapshots.at(row.head)
            first = replace(intents[0], parents=(head,), on_previous=False)
            changes = [_Announcement(tuple(made))]
            return Proposal([first, *intents[1:]], changes=changes, actions=notes)

        try:
            with unchecked():  # each was looked at for itself
                row = self._pipeline.run(branch, propose, graph.branch(branch))
        except Exception as error:
            for member in members:
                member.error = member.error or error
            return []
        for member in reversed(made):
            member.row = row
            assert row.first is not None
            row = graph.snapshots.at(row.first)
        return apart

    def _intent(
        self,
        write: SmallWrite,
        branch: BranchRow,
        tables: dict[str, Version | None],
        staging: Staging,
    ) -> Intent:
        """The snapshot of a write, on one before it that leaves tables so."""
        work = WriteSet(self._graph, self._pipeline.preparation, branch, tables)
        if not is_independent(work.schema(write.table)):
            raise _Apart
        write.fill(work)
        if work.is_empty:
            raise _Apart
        made, deltas = work.make_tables(work.base, staging), work.deltas()
        brought = {name: version for name, version in made.items() if version is not None}
        check_tables(self._graph.versions, brought, brought, deltas, deltas.__getitem__)
        said = "transaction", write.operation, write.author, write.message
        return Intent((), (branch,), *said, made, on_previous=True)
