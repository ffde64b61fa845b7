"""A candidate: an action that an advisor proposes, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from livingdb.maintenance.tuning.actions.action import Action
from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import MOST_WORSE, Gain, Price, worst_ratio
from livingdb.maintenance.tuning.predict import Arrangement
from livingdb.maintenance.tuning.workload import ObservedTable
from livingdb.tables.layout import Layout

__all__ = ["COMPRESSED", "Advisor", "Candidate", "least_layout", "relayout_candidate"]

COMPRESSED = 0.4
"""The share of their bytes that values take in packs, roughly."""


@dataclass(frozen=True)
class Candidate:
    """An action, the reason in words, what it would gain and cost, and who would notice.

    What `is_owed` is advised whatever it gains: a budget asks for it.
    """

    action: Action
    reason: str
    predicted: Gain
    price: Price
    noticed_by: str
    is_owed: bool = False


Advisor = Callable[[Evidence], Iterator[Candidate]]


def least_layout(
    evidence: Evidence, table: ObservedTable, layouts: Iterator[Layout]
) -> tuple[Arrangement, Arrangement] | None:
    """The layout in force, and the one of some in which the work costs least, if that is less.

    One in which some kind of work costs more is none of them, whatever the others gain.
    """
    now = Arrangement(evidence.model, table, table.layout)
    others = [Arrangement(evidence.model, table, layout) for layout in layouts]
    best = min(
        (other for other in others if worst_ratio(now.seconds, other.seconds) <= MOST_WORSE),
        key=lambda other: other.total,
        default=now,
    )
    return (now, best) if best.total < now.total else None


def relayout_candidate(
    now: Arrangement, best: Arrangement, words: str, reason: str, noticed_by: str = "nobody"
) -> Candidate:
    """Another layout for a table, which takes one tree more to be made, and stored."""
    price = Price(best.build_seconds, round(COMPRESSED * best.size_bytes))
    action = Relayout.of(now.table, best.layout, words)
    return Candidate(action, reason, Gain(now.total, best.total), price, noticed_by)
