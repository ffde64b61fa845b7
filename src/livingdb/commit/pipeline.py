"""The life of a change: rebase, settle, check, carry and judge along every sync, store.

Operations only propose.  What one proposes is made on the heads as they are, settled by what
follows from it on its own branch, and held against constraints.  Then it is carried along every
sync that it reaches, each after those that write what it reads, and judged by the conditions
there; what is carried moves a branch, which may reach more syncs.  All of it is stored in one
transaction of the catalog, or nothing; if a head moved meanwhile, it is proposed anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from livingdb.access.acting import acting, hiding_unseen
from livingdb.alerts.clock_alerts import commit_clock_alerts, move_clock_alerts
from livingdb.alerts.watch_commits import CommitWatches
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import DETACHED, HELD, SyncRow
from livingdb.commit.carrying.carried import Carried
from livingdb.commit.carrying.carry_lens import LensCarrier
from livingdb.commit.carrying.follow_later import Followers
from livingdb.commit.carrying.schema_line import forwarded_move, line_to_draft, unmasked_by_drafts
from livingdb.commit.carrying.settle import Settler
from livingdb.commit.carrying.sync_lens import SyncLenses
from livingdb.commit.carrying.sync_order import rank_syncs
from livingdb.commit.carrying.sync_owners import SyncOwners
from livingdb.commit.carrying.translate_change import ChangeTranslator
from livingdb.commit.check_proposal import check_proposal
from livingdb.commit.check_rights import Rights
from livingdb.commit.proposal import BranchMove, Proposal
from livingdb.commit.stopping.stop_sync import pair_in_step, without_hidden_drafts
from livingdb.commit.writing.prepared_rows import RowPreparation
from livingdb.commit.writing.writer_turns import WriterTurns
from livingdb.engines.embedded.memory_parts import in_common_memory
from livingdb.errors import DuplicateValue, LivingDBError, RuleViolation, TransactionConflict
from livingdb.evolution.lift import Lifter
from livingdb.graph.catalog_changes import CatalogChange, RespecifiedSync
from livingdb.graph.commit_point import CommitPoint, HeadMoved
from livingdb.graph.draft import Action, Draft, Propagation, distinct_versions
from livingdb.graph.edge_ends import UNIFIED
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import Edge, overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.interruption import check_interruption
from livingdb.tables.index import Version

if TYPE_CHECKING:
    from livingdb.commit.carrying.carry_view import ViewCarrier
    from livingdb.derivation.stage_inputs import DeltaCache

__all__ = ["Attempt", "Pipeline"]

_log = logging.getLogger("livingdb")
_ATTEMPTS = 16
_SOON_SECONDS = 0.5
"""Others are let wait for no longer than that."""


@dataclass(frozen=True)
class Attempt:
    """One try of an operation: how often it lost a race, and where what it makes goes.

    `may_be_late`: whether others may have written since it saw what it is about.
    """

    number: int
    staging: Staging
    may_be_late: bool = False


Propose = Callable[[Attempt], Proposal | SnapshotRow]
"""What an operation wants of the heads as they are; a snapshot, if it is there already."""


class Pipeline:
    """Takes what operations propose through to the commit point."""

    def __init__(self, graph: Graph, trust: Sequence[str] = ()):
        self.graph = graph
        self.trust = tuple(trust)
        self.commit_point = CommitPoint(graph)
        self.lifter = Lifter(graph, self.trust)
        self.lenses = SyncLenses(graph, self.trust)
        self.translator = ChangeTranslator(graph)
        self.lens_carrier = LensCarrier(graph, self.lenses, self.translator)
        self.turns = WriterTurns(graph)
        self.preparation = RowPreparation(graph.versions)
        self.followers = Followers(graph, self.lenses, self.lens_carrier)
        self._settler = Settler(graph, self.lenses)
        self._watches = CommitWatches(graph)
        self._views: ViewCarrier | None = None
        self._ranks: tuple[str, Mapping[SyncId, int]] | None = None
        self.rights = Rights(graph)
        self.owners = SyncOwners(graph)
        self._whole = self

    def for_who_acts(self) -> Pipeline:
        """The same, for operations of who acts here: what these name, they look for as seen."""
        whole = self._whole
        who = acting(whole.graph)
        if who is None:
            return whole
        found = copy(whole)
        found.graph = who.naming(whole.graph)
        return found

    def over(self, graph: Graph) -> Pipeline:
        """The same for what is made over another graph of the same database, and not stored."""
        found = copy(self)
        found.graph = graph
        found.commit_point = CommitPoint(graph)
        found.lens_carrier = self.lens_carrier.over(graph)
        return found

    def run(
        self, what: str, propose: Propose, alone: BranchRow | None = None, rows: int = 0
    ) -> SnapshotRow:
        """Store what an operation proposes, with all that follows from it.

        `TransactionConflict` if others are always faster; who names a branch to be `alone` with
        waits for its turn, if it writes few `rows`, and is alone with it before it gives up.
        Others wait for their turn once they lost, if what they do is done soon.
        """
        self.graph.check_writable()
        contested = alone
        for number in range(_ATTEMPTS):
            with ExitStack() as stack:
                held, may_be_late = None, number > 0
                if contested is not None:
                    turn = self.turns.before_writing(contested, rows)
                    may_be_late |= stack.enter_context(turn)
                began = monotonic()
                if alone is not None and number >= self.turns.patience:
                    group = self.turns.group(alone)
                    transaction = self.commit_point.exclusive_transaction(alone, group)
                    held = stack.enter_context(transaction)
                staging = stack.enter_context(self.graph.stage())
                try:
                    proposal = propose(Attempt(number, staging, may_be_late))
                except HeadMoved:  # while it was rehearsed
                    continue
                if isinstance(proposal, SnapshotRow):
                    return proposal
                stored = self._whole._store(proposal, staging, held)
                is_soon = monotonic() - began < _SOON_SECONDS
            if stored is not None:
                row, made = stored
                self.turns.leave_upkeep(made)
                return row
            contested = alone or (proposal.first_branch if is_soon else None)
        raise TransactionConflict(f"others keep moving {what!r}; try again")

    def _store(
        self, proposal: Proposal, staging: Staging, held: Connection | None
    ) -> tuple[SnapshotRow, list[Version]] | None:
        """Where a proposal leads, and the versions it brings that may have long tails.

        None if a head had moved meanwhile.
        """
        graph = self.graph
        try:
            settled, own, carried = self.follow(proposal, staging)
        except HeadMoved:
            return None
        except DuplicateValue as error:
            if not proposal.is_rebased:
                raise
            raise TransactionConflict(f"somebody else was faster: {error}; try again") from error
        check_interruption()  # what was stopped is not stored, whoever took that for a failure
        rows = self.commit_point.store(
            [*own, *carried.drafts],
            staging,
            settled.moves,
            settled.unmoved,
            [*settled.changes, *carried.changes],
            [*settled.actions, *carried.actions],
            held,
        )
        if rows is None:
            return None
        graph.upkeep.note(0, distinct_versions(carried.drafts))
        graph.upkeep.note_unindexed(distinct_versions(own))
        if not own:
            return settled.at or settled.moves[0].to, []
        # What a schema change brings are recipes, which wait for their readers.
        brought = [*settled.drafted, *([] if own[-1].intent.kind == "schema_change" else own[-1:])]
        tables = [version for draft in brought for version in draft.intent.tables.values()]
        return rows[len(own) - 1], [version for version in tables if version is not None]

    def follow(
        self, proposal: Proposal, staging: Staging
    ) -> tuple[Proposal, list[Draft], Propagation]:
        """A proposal with all that follows from it, here and along syncs."""
        if proposal.is_carried:
            return proposal, list(proposal.drafted), Propagation()
        proposal = self.rights.checked(proposal)
        settled = self._settle(proposal, staging)
        check_proposal(self.graph, proposal, settled)
        own: list[Draft] = list(settled.drafted)
        for intent in settled.snapshots:
            own.append(self.commit_point.draft(intent, staging, own[-1] if own else None))
        try:
            return settled, own, self._carry(settled, own, staging)
        except DuplicateValue:
            if proposal.is_rebased or not proposal.is_outdated(self.graph):
                raise
            raise HeadMoved from None  # and what it is in step with is further on, too

    def check(self, proposal: Proposal, staging: Staging) -> None:
        """`InvalidData` if the constraints of its branch do not allow a proposal."""
        check_proposal(self.graph, proposal, self._settle(proposal, staging))

    # --- settle -----------------------------------------------------------------------------

    def _settle(self, proposal: Proposal, staging: Staging) -> Proposal:
        """The proposal with what follows from its last snapshot on its own branch."""
        if not proposal.is_checked or not proposal.snapshots:
            return proposal
        *first, last = proposal.snapshots
        whole = last
        if last.on_previous:
            whole = replace(last, tables={**first[-1].tables, **last.tables})
        settled = self._settler.settle_intent(whole, staging)
        if settled is whole:
            return proposal
        return replace(proposal, snapshots=(*first, replace(last, tables=settled.tables)))

    # --- carry, judge ------------------------------------------------------------------------

    def _carry(self, proposal: Proposal, own: Sequence[Draft], staging: Staging) -> Propagation:
        """The snapshots of other branches that follow, and what else the transaction does."""
        graph = self.graph
        made = frozenset(i for draft in own for i in draft.record.edge.change_ids)
        moves = [
            replace(
                BranchMove.by_draft(
                    graph, branch, draft, made_changes=made, is_checked=proposal.is_checked
                ),
                unified=proposal.unified,
                line=proposal.line or line_to_draft(graph, branch, own[: number + 1]),
                remasked=proposal.remasked
                or unmasked_by_drafts(graph, self.lifter, branch, own[: number + 1]),
            )
            for number, draft in enumerate(own)
            for branch in draft.intent.moves
        ]
        moves += [forwarded_move(graph, self.lifter, move) for move in proposal.moves]
        moves += [BranchMove.in_place(graph, branch) for branch in proposal.overdue]
        if not moves:
            return Propagation()
        work = _Work(self, moves, staging, proposal)
        if graph.syncs(moves[0].branch.epoch):
            work.hold_disowned()
            work.carry_all()
        work.move_held_views()
        work.actions += commit_clock_alerts(graph, [*own, *work.drafts])
        work.actions += move_clock_alerts(graph, [(m.branch, m.to) for m in proposal.moves])
        if self._watches.watches_at(work.epoch):
            moved = (move for move in work.moved.values() if move.address != move.head.address)
            watched = [move.watched for move in moved]
            work.actions += self._watches.alert_actions(watched)
        return Propagation(work.drafts, work.changes, work.actions)

    def ranks(self, epoch: str) -> Mapping[SyncId, int]:
        """The order of the syncs, as of an epoch of the catalog."""
        known = self._ranks
        if known is None or known[0] != epoch:
            known = self._ranks = epoch, rank_syncs(self.graph.syncs(epoch))
        return known[1]

    def views(self, epoch: str) -> ViewCarrier | None:
        """Who carries to derived objects, if there are any; what that needs is imported then."""
        syncs = self.graph.syncs(epoch)
        if len(syncs) == len(syncs.schema_syncs):
            return None
        if self._views is None:
            from livingdb.commit.carrying.carry_view import ViewCarrier

            self._views = ViewCarrier(self.graph, self.trust)
        self._views.views(epoch)
        return self._views


@dataclass
class _Work:
    """One change on its way along the syncs: the branches that move, and what is made of them."""

    pipeline: Pipeline
    first: Sequence[BranchMove]
    staging: Staging
    proposal: Proposal
    drafts: list[Draft] = field(default_factory=list)
    changes: list[CatalogChange] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = self.pipeline.graph
        self.epoch = self.first[0].branch.epoch
        self.moved = {move.branch.id: move for move in self.first}
        self._views = self.pipeline.views(self.epoch)
        self._due: dict[SyncId, tuple[SyncRow, BranchId]] = {}
        self._deltas: DeltaCache | None = None
        self._rows: dict[BranchId, BranchRow] = {}
        self._held: set[SyncId] = set()

    def hold_disowned(self) -> None:
        """Let syncs wait whose owners lost the rights that they run with."""
        from livingdb.guard.sync_state import NOBODY, stop_sync_action

        for sync, reason in self.pipeline.owners.lost(self.epoch).values():
            is_two_way = sync.direction == "both"
            state, pair = DETACHED if is_two_way else HELD, pair_in_step(self.graph, sync)
            stop = stop_sync_action(self.graph, sync, state, reason, NOBODY, now(), pair=pair)
            self.actions.append(stop)
            self._held.add(sync.id)

    def carry_all(self) -> None:
        """Carry it as far as it goes; branches that can follow later do so."""
        if not self._leave_step():
            for move in self.first:
                self._reach(move)
        while self._due:
            sync, target = self._due.pop(self._first_due())
            if target not in self.moved:
                with hiding_unseen(self.graph, sync), in_common_memory():
                    self._carry_along(sync, target)

    def _first_due(self) -> SyncId:
        """The sync that nothing that is due comes before."""
        if len(self._due) == 1:
            return next(iter(self._due))
        ranks = self.pipeline.ranks(self.epoch)
        return min(self._due, key=lambda sync: ranks.get(sync, len(ranks)))

    def _leave_step(self) -> bool:
        """Let the branches that a single move reaches follow it later; whether they can."""
        if len(self.first) != 1 or self.proposal.own_syncs or self.proposal.overdue or self._held:
            return False
        (move,) = self.first
        step = self.pipeline.followers.follow_later(move)
        if step is None:
            return False
        self.changes.append(step)
        self._reach_views(move)
        return True

    def _reach(self, move: BranchMove) -> None:
        """The syncs that a move reaches are due."""
        for sync, target in self.pipeline.lens_carrier.reached(move):
            is_apart = sync.id in self.proposal.own_syncs or sync.id in self._held
            if not is_apart and target not in self.moved:
                self._due.setdefault(sync.id, (sync, target))
        self._reach_views(move)

    def _reach_views(self, move: BranchMove) -> None:
        if self._views is None:
            return
        reached = [sync for sync in self._views.reached(move) if sync.id not in self._held]
        unseen = {sync.target for sync in reached} - set(self._rows)
        self._rows |= self.graph.branches.by_ids(sorted(unseen))
        for sync in reached:
            self._due.setdefault(sync.id, (sync, sync.target))

    def _carry_along(self, sync: SyncRow, target: BranchId) -> None:
        """Carry the change along one sync, unless its conditions stop it."""
        from livingdb.guard.sync_failure import TRANSIENT_ERRORS

        branch = self._branch(target)
        try:
            carried = self._ask_carrier(sync, branch)
        except (*TRANSIENT_ERRORS, RuleViolation):
            raise
        except LivingDBError as error:
            self._cannot_carry(sync, branch, error)
            return
        except Exception as error:
            if sync.direction == "both":
                raise
            # Whoever writes to the source is not to suffer from a mistake of ours.
            _log.exception("the sync %r could not be maintained", sync.name)
            reason = f"an error of LivingDB: {type(error).__name__}: {error}"
            self._cannot_carry(sync, branch, LivingDBError(reason))
            return
        if carried is not None:
            self._take(sync, branch, carried)

    def _branch(self, branch: BranchId) -> BranchRow:
        """A branch as it was seen; those that syncs of schema changes lead to are asked for once.

        One that is not there any more left with its syncs, after these were read.
        """
        if branch not in self._rows:
            near = self.graph.syncs(self.epoch).schema_group(branch)
            self._rows |= self.graph.branches.by_ids(sorted(near))
        if branch not in self._rows:
            raise HeadMoved
        return self._rows[branch]

    def _ask_carrier(self, sync: SyncRow, branch: BranchRow) -> Carried | None:
        """The one protocol: what the moves of its sources make of the target of a sync."""
        if sync.kind == "schema_change":
            source = self._source(sync, branch)
            return self.pipeline.lens_carrier.carry(sync, source, branch, self.staging)
        assert self._views is not None
        if self._deltas is None:
            from livingdb.derivation.stage_inputs import DeltaCache

            self._deltas = DeltaCache(columns=self._views.views(self.epoch).columns)
        return self._views.carry(sync, branch, self.moved, self._deltas, self.staging)

    def _source(self, sync: SyncRow, branch: BranchRow) -> BranchMove:
        ends = [end for end in (*sync.sources, sync.target) if end != branch.id]
        return self.moved[ends[0]]

    @property
    def _cause(self) -> Edge:
        return self.first[0].edge

    def _take(self, sync: SyncRow, branch: BranchRow, carried: Carried) -> None:
        """Judge what is carried, and let it move the branch."""
        why_not = "" if carried.broken is None else self._move_view(sync, carried.broken)
        if why_not is None:  # nothing is carried to it: it reads what it read
            return
        held, intent = carried.held, carried.intent
        details: Mapping[str, object] = {}
        tables = {} if intent is None else intent.tables
        is_judged = intent is not None or carried.pending is not None
        if is_judged and sync.guard.get("conditions") and not is_hidden(branch.name):
            from livingdb.commit.carrying.judge_carried import judge_carried, pending_carried

            held = tables_of(self.graph, self.graph.snapshots.at(branch.head))
            pending = carried.pending or pending_carried(
                sync, self._source(sync, branch), carried, self._cause.author, self.pipeline.trust
            )
            judged = judge_carried(pending, held, tables, self.staging)
            if judged.judgement is not None:
                judged.judgement.refuse()
                if judged.is_stopped:
                    pair = pair_in_step(self.graph, sync)
                    self.actions.append(judged.judgement.stop_action(self._cause.author, pair))
                    self.drafts = without_hidden_drafts(self.graph, sync, self.drafts)
                    return
            self.actions += judged.warnings
            tables, details = judged.tables, judged.details
        if carried.unified:
            details = {**details, UNIFIED: dict(carried.unified)}
        if carried.broken is not None:
            reason = f"{carried.broken}; {why_not}" if why_not else str(carried.broken)
            self._cannot_carry(sync, branch, LivingDBError(reason))
            return
        if carried.spec is not None:
            self.changes.append(RespecifiedSync(sync.id, carried.spec))
        if intent is None:
            return
        is_as_made = tables is intent.tables or dict(tables) == dict(intent.tables)
        if details or not is_as_made:
            intent = replace(intent, tables=tables, details={**intent.details, **details})
        draft = self.pipeline.commit_point.draft(intent, self.staging)
        self.drafts.append(draft)
        if sync.kind == "schema_change":
            self.pipeline.followers.forget(branch.id)
        known = None
        if sync.kind == "schema_change" and held:
            images = (carried.deltas, carried.row_images) if is_as_made else ({}, {})
            known = held, overlay_tables(held, tables), *images
        ends = {*sync.sources, sync.target} - {branch.id}
        sources = [self.moved[end] for end in ends if end in self.moved]
        is_evolved = bool(carried.schema_changes) or carried.brings_rows
        move = BranchMove.by_draft(
            self.graph,
            branch,
            draft,
            carried.schema_changes,
            known,
            frozenset().union(*(source.made_changes for source in sources)),
            is_checked=sync.kind == "schema_change" and not is_evolved,
            brings_rows=carried.brings_rows,
        )
        remasked = frozenset().union(*(source.remasked for source in sources))
        if remasked or carried.unified:
            move = replace(move, remasked=remasked, unified=carried.unified)
        self.moved[branch.id] = move
        self._reach(move)

    # --- what cannot be carried --------------------------------------------------------------

    def _move_view(self, sync: SyncRow, error: LivingDBError) -> str | None:
        """Let a view that cannot follow read the branch that keeps its schema.

        None if it does; else why not, as its alert says it.
        """
        from livingdb.commit.carrying.move_view import move_view, why_not_moved
        from livingdb.derivation.view import View

        kept, on_break = self.proposal.kept, self.proposal.on_break
        view = View.from_json(sync.spec)
        why_not = why_not_moved(self.graph, view, kept, on_break, self.moved)
        if kept is None or why_not is not None:
            return why_not or ""
        said = self._cause.author, self._cause.message
        moved = move_view(self.graph, sync, kept, said, str(error))
        self.changes.append(moved.sync)
        self.actions.append(moved.action)
        self.drafts.append(self.pipeline.commit_point.draft(moved.intent, self.staging))
        return None

    def move_held_views(self) -> None:
        """Those that would be broken when they go on read the branch that keeps their schema."""
        kept = self.proposal.kept
        inactive = self.graph.syncs(self.epoch).inactive
        if kept is None or kept.of not in self.moved or not inactive:
            return
        from livingdb.commit.carrying.move_view import broken_held_views

        move, on_break = self.moved[kept.of], self.proposal.on_break
        for sync, error in broken_held_views(self.graph, inactive, kept, move, on_break):
            self._move_view(sync, error)

    def _cannot_carry(self, sync: SyncRow, branch: BranchRow, error: LivingDBError) -> None:
        """Detach a one-way sync that cannot follow; of a two-way sync, the change is refused."""
        from livingdb.guard.sync_failure import detach_action, reason_of_rows

        if sync.direction == "both":
            source = self._source(sync, branch)
            near, far = sync.ends if source.branch.id in sync.sources else sync.ends[::-1]
            reason = f"branch {far!r}, in step with {near!r}, cannot take the change: {error}"
            raise type(error)(reason) from None
        pair, reason = pair_in_step(self.graph, sync), str(error)
        if sync.kind == "schema_change" and not self._source(sync, branch).other_schemas:
            reason = reason_of_rows(self.graph, sync, error)
        self.actions.append(detach_action(self.graph, sync, reason, now(), pair=pair))
        self.drafts = without_hidden_drafts(self.graph, sync, self.drafts)
