"""What the conditions of a sync make of a change: passed, in part set aside, or stopped.

Every change that reaches a target comes by here, whichever way it was carried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.carried import Carried
from livingdb.commit.proposal import BranchMove
from livingdb.graph.draft import Action
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import pending_schema_sync
from livingdb.guard.conditions.pending_change import PendingChange
from livingdb.guard.judge import Judgement, judge_change
from livingdb.guard.quarantine import quarantine_rows
from livingdb.tables.index import Version

__all__ = ["JudgedChange", "judge_carried", "pending_carried"]


@dataclass(frozen=True)
class JudgedChange:
    """What is to be stored, and what the conditions say; None if there are none."""

    tables: Mapping[str, Version | None]
    judgement: Judgement | None

    @property
    def is_stopped(self) -> bool:
        """Whether nothing reaches the target."""
        return self.judgement is not None and self.judgement.is_blocking

    @property
    def reason(self) -> str:
        """What stops it, in words."""
        return "" if self.judgement is None else self.judgement.reason

    @property
    def details(self) -> dict[str, Any]:
        """What the edge of the change remembers."""
        return {} if self.judgement is None else self.judgement.details()

    @property
    def warnings(self) -> list[Action]:
        """What the transaction tells of a change that goes through nevertheless."""
        return [] if self.judgement is None else self.judgement.warning_actions()


def judge_carried(
    pending: PendingChange,
    held: Mapping[str, Version],
    made: Mapping[str, Version | None],
    staging: Staging,
    stops: bool = True,
) -> JudgedChange:
    """Judge a change; `held` is all that the target has, `made` the tables that are to differ.

    Rows that break a condition are set aside.  Unless it `stops`, no condition stops it.
    """
    judgement = judge_change(pending)
    if judgement is not None and not stops:
        judgement = judgement.without_stops()
    if judgement is not None and judgement.is_blocking:
        return JudgedChange(made, judgement)
    tables = quarantine_rows(pending.versions, held, made, judgement, staging)
    return JudgedChange(tables, judgement)


def pending_carried(
    sync: SyncRow, source: BranchMove, carried: Carried, author: str, trust: Sequence[str]
) -> PendingChange:
    """What the conditions of a schema sync are asked about, of what a move of its source makes."""
    assert carried.intent is not None
    step = source.change
    (head,) = carried.intent.parents
    return pending_schema_sync(
        source.graph,
        sync,
        (carried.held, carried.intent.tables),
        (step.before, step.after),
        {step.branch: step.snapshot},
        {step.branch: source.head.address},
        head,
        [author],
        trust,
    )
