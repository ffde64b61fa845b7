"""Rejoins a stopped schema sync: three-way merge from the last pair in step, through its lenses.

It is a three-way merge from the last snapshots that belonged together.  What the one branch did
goes through the lenses to the other, is merged there with what that one did, and of a two-way
sync what comes of it goes back.  All of it is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import resolve_alerts
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carry_lens import BranchChange, LensCarrier
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.errors import IllegalSync, RuleViolation, TransactionConflict
from livingdb.graph.diff import differing_keys
from livingdb.graph.draft import Intent
from livingdb.graph.edge_ends import FROM, SYNC, SYNC_ID
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.merge import (
    MergeBase,
    MergedTables,
    merge_error,
    merge_tables,
    permanent_conflicts,
)
from livingdb.graph.merge_policy import Policies
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import authors_between, pending_schema_sync
from livingdb.guard.judge import Judgement, judge_change
from livingdb.guard.quarantine import quarantine_rows
from livingdb.guard.sync_state import last_pair, set_state
from livingdb.tables.index import Version

__all__ = ["WINNERS", "rejoin"]

Tables = Mapping[str, Version]
WINNERS = ("fail", "source", "target")
_ATTEMPTS = 8


def rejoin(
    graph: Graph,
    carrier: LensCarrier,
    stages: Sequence[SyncRow],
    by: str,
    on_conflict: str = "fail",
    guarded: bool = False,
) -> None:
    """Let a schema sync be active again, with both branches in step.

    `guarded`: only if its conditions let pass what has come up meanwhile.
    """
    direction = stages[0].direction
    if on_conflict not in WINNERS:
        raise IllegalSync(f"on_conflict={on_conflict!r}: choose one of {', '.join(WINNERS)}")
    if on_conflict == "target" and direction != "both":
        raise IllegalSync(
            "on_conflict='target': what a one-way sync writes is what its source says; 'source' "
            "gives up what was written to the target meanwhile"
        )
    for _ in range(_ATTEMPTS):
        with Staging(graph.store) as staging:
            work = _Rejoin(graph, carrier, stages, by, staging)
            work.carry_forward()
            work.merge_target(on_conflict)
            judgement = work.judge_conditions() if guarded else None
            if direction == "both":
                work.carry_back()
            if work.commit(judgement):
                return
    raise TransactionConflict(f"others keep moving what {stages[0].name!r} joins; try again")


@dataclass
class _BranchState:
    """A branch on the way: where it is, what it had when the sync stopped, has and will have."""

    row: BranchRow
    head: SnapshotRow
    base: Tables
    now: Tables
    after: Tables = field(default_factory=dict)


class _Rejoin:
    """One attempt."""

    def __init__(
        self,
        graph: Graph,
        carrier: LensCarrier,
        stages: Sequence[SyncRow],
        by: str,
        staging: Staging,
    ):
        self._graph, self._carrier, self._by, self._staging = graph, carrier, by, staging
        self._chain = stages
        numbers = [stages[0].sources[0], *(row.target for row in stages)]
        rows = graph.branches_by_ids(numbers)
        pair = last_pair(graph, stages[0])
        is_right = stages[0].direction != "reverse"
        places = [self._branch_state(rows[number], pair[number]) for number in numbers]
        self._branch_states = places if is_right else places[::-1]
        self._ordered_chain = list(stages) if is_right else list(stages)[::-1]
        self._is_right = is_right
        self._name = f"{places[0].row.name}/{places[-1].row.name}"
        self._new_versions: list[Version] = []

    def _branch_state(self, row: BranchRow, pair: Address) -> _BranchState:
        graph = self._graph
        head = graph.snapshots.at(row.head)
        base = graph.snapshots.find(pair)
        if base is None:
            raise TransactionConflict(f"where {row.name!r} was in step is not known any more")
        return _BranchState(
            row, head, whole_tables(tables_of(graph, base)), whole_tables(tables_of(graph, head))
        )

    def _push_change(
        self, step: BranchChange, sync: SyncRow, is_right: bool, tables: Tables
    ) -> dict[str, Version]:
        made = self._carrier.translate_tables(sync, is_right, step, tables, self._staging)
        self._new_versions += [version for version in made.values() if version is not None]
        return overlay_tables(tables, made)

    def _branch_change(self, place: _BranchState, before: Tables, after: Tables) -> BranchChange:
        return BranchChange(place.row.id, place.row.name, before, after, place.head.address, {}, {})

    def carry_forward(self) -> None:
        """What the first branch did, on all others."""
        first = self._branch_states[0]
        first.after = first.now
        before = first
        for sync, place in zip(self._ordered_chain, self._branch_states[1:], strict=True):
            step = self._branch_change(before, before.base, before.after)
            place.after = self._push_change(step, sync, self._is_right, place.base)
            before = place

    def merge_target(self, on_conflict: str) -> None:
        """What the last branch did, too."""
        last = self._branch_states[-1]
        self._carried_tables = last.after
        shown = {name: v for name, v in last.now.items() if not is_hidden(name)}
        if all(_is_same(last.base.get(name), v) for name, v in shown.items()):
            return
        if self._chain[0].direction != "both":
            self._check_discarded_rows(last, on_conflict)
            return
        policy = {"fail": "fail", "source": "ours", "target": "theirs"}[on_conflict]
        found = merge_tables(
            self._graph,
            MergeBase(last.base),
            last.after,
            last.now,
            Policies(policy),
            self._staging,
        )
        self._new_versions += found.new_versions
        if not found.is_clean:
            raise merge_error(self._graph, found, last.after)
        last.after = overlay_tables(last.after, found.tables)

    def _check_discarded_rows(self, last: _BranchState, on_conflict: str) -> None:
        """What was written to the target of a one-way sync goes, if somebody says so."""
        if on_conflict == "source":
            return
        graph, found = self._graph, MergedTables()
        for name, mine in last.after.items():
            yours, old = last.now.get(name), last.base.get(name)
            if yours is None or old is None or _is_same(old, yours):
                continue
            if yours.definition != mine.definition:
                found.clashes[name] = "the two sides have different schemas"
                continue
            parts = permanent_conflicts(
                graph, mine, yours, differing_keys(graph.versions, old, yours)
            )
            if parts:
                found.conflicts[name] = parts
        for name in last.now:
            if name not in last.after and not is_hidden(name):
                found.clashes[name] = "the target alone has the table"
        if not found.is_clean:
            raise merge_error(graph, found, last.after)

    def judge_conditions(self) -> Judgement | None:
        """What the conditions say; `RuleViolation` if they still stop it."""
        graph, first, last = self._graph, self._branch_states[0], self._branch_states[-1]
        sync = self._chain[-1 if self._is_right else 0]
        at = {first.row.id: first.head.address}
        before = {first.row.id: last_pair(graph, sync)[first.row.id]}
        pending = pending_schema_sync(
            graph,
            sync,
            (last.now, last.after),
            (first.base, first.now),
            at,
            before,
            last.head,
            authors_between(graph, before, at),
        )
        judgement = judge_change(pending)
        if judgement is not None and judgement.is_blocking:
            graph.index.forget(self._new_versions)
            raise RuleViolation(f"rule 7: it is still held: {judgement.reason}")
        return judgement

    def carry_back(self) -> None:
        """What the last branch did, on all before it."""
        last = self._branch_states[-1]
        step = self._branch_change(last, self._carried_tables, last.after)
        backwards = zip(self._ordered_chain[::-1], self._branch_states[-2::-1], strict=True)
        for sync, place in backwards:
            before = place.after
            place.after = self._push_change(step, sync, not self._is_right, before)
            step = self._branch_change(place, before, place.after)

    def commit(self, judgement: Judgement | None) -> bool:
        """Commit it; False if somebody moved a branch meanwhile."""
        graph = self._graph
        last = self._branch_states[-1]
        held = tables_of(graph, last.head)
        differing = _differing_tables(last.now, last.after)
        tables = quarantine_rows(graph.versions, held, differing, judgement, self._staging)
        intents = [
            self._intent(place, _differing_tables(place.now, place.after), judgement)
            for place in self._branch_states[:-1]
        ]
        intents.append(self._intent(last, tables, judgement))
        moving = [intent for intent in intents if intent.tables]
        if not moving:
            with graph.catalog.write() as connection:
                self._activate(connection)
            return True
        moving.sort(key=lambda intent: not is_hidden(intent.moves[0].name))
        moving[-1] = _with_action(moving[-1], self._activate)
        done = graph.commit(moving[-1], self._staging, before=moving[:-1])
        if done is None:
            graph.index.forget(self._new_versions)
        return done is not None

    def _activate(self, connection: Connection) -> None:
        graph = self._graph
        set_state(graph, connection, self._chain, ACTIVE, "", self._by, now())
        resolve_alerts(graph, connection, self._name, self._by, "active again")

    def _intent(
        self,
        place: _BranchState,
        changes: Mapping[str, Version | None],
        judgement: Judgement | None,
    ) -> Intent:
        others = [p for p in self._branch_states if p is not place and not is_hidden(p.row.name)]
        details = {
            SYNC: self._name,
            SYNC_ID: self._chain[0].id,
            FROM: {p.row.id: p.head.address.hex() for p in others},
            "direction": self._chain[0].direction,
        }
        return Intent(
            (place.head,),
            (place.row,),
            "propagate",
            "reattach",
            self._by,
            f"{self._name} goes on",
            changes,
            {p.row.name: p.head.address.hex() for p in others},
            {**details, **({} if judgement is None else judgement.details())},
            intermediates=tuple(self._new_versions),
        )


def _with_action(intent: Intent, act: Callable[[Connection], None]) -> Intent:
    return replace(intent, in_transaction=lambda connection, _: act(connection))


def _is_same(one: Version | None, other: Version | None) -> bool:
    return (one and one.address) == (other and other.address)


def _differing_tables(before: Tables, after: Tables) -> dict[str, Version | None]:
    """The tables that are not as before; None: gone."""
    return {
        name: after.get(name)
        for name in {**before, **after}
        if not _is_same(before.get(name), after.get(name)) and not is_hidden(name)
    }
