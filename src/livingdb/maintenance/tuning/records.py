"""Records of tuning: what is written down of an advice, applying it, and undoing it.

Whatever is applied or undone is one transaction of the catalog with its record, so that a process
that is killed leaves it done or not done.  What follows from it, trees that are made anew, goes on
by itself, and readers never see a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from livingdb.catalog.tuning import ADVISED, APPLIED, DROPPED, UNDONE, TuningRow
from livingdb.errors import NotFound, RuleViolation
from livingdb.graph.graph import Graph
from livingdb.maintenance.tuning.actions.action import Action
from livingdb.maintenance.tuning.actions.kinds import read_action
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.gain import Gain

__all__ = [
    "action_of",
    "apply_record",
    "new_record",
    "require_record",
    "save_records",
    "undo_record",
]

_NUMBERS = 1 << 63


def new_record(candidate: Candidate, measured: Gain | None, is_kept: bool, now: int) -> TuningRow:
    """What is written down of a candidate that was tried; one that does not pay is dropped."""
    action, price = candidate.action, candidate.price
    details = {
        "action": action.to_json(),
        "words": str(action),
        "reason": candidate.reason,
        "predicted": candidate.predicted.to_json(),
        "measured": None if measured is None else measured.to_json(),
        "price": {"seconds": price.seconds, "bytes": price.bytes},
        "noticed_by": candidate.noticed_by,
    }
    state = ADVISED if is_kept else DROPPED
    return TuningRow(action.kind, action.subject, state, now, details)


def save_records(graph: Graph, rows: Sequence[TuningRow]) -> list[TuningRow]:
    """Write records down, in the place of those that were advised before; with their numbers.

    In a database that is only read they have none.
    """
    if graph.is_read_only:
        return list(rows)
    with graph.catalog.write() as connection:
        graph.catalog.tuning.forget_advised(connection)
        numbers = graph.catalog.tuning.add(connection, rows)
    return [
        TuningRow(row.action, row.subject, row.state, row.time, row.details, number)
        for row, number in zip(rows, numbers, strict=True)
    ]


def action_of(row: TuningRow) -> Action:
    """The action that a record is about."""
    return read_action(row.action, row.details["action"])


def require_record(graph: Graph, number: int) -> TuningRow:
    """The record of a number; `NotFound` if there is none."""
    is_number = isinstance(number, int) and not isinstance(number, bool)
    found = graph.catalog.tuning.find(number) if is_number and 0 < number < _NUMBERS else None
    if found is None:
        raise NotFound(
            f"there is no advice {number!r}: advice that nobody took is forgotten by the next "
            "db.tune(), and SELECT * FROM livingdb.tuning shows what there is"
        )
    return found


def apply_record(
    graph: Graph, row: TuningRow, now: int, baseline: Mapping[str, Any], seconds: float
) -> TuningRow:
    """Do what a record advises; the record as it is then.

    `baseline` is what was observed of its subject until now, by which later work is judged.
    """
    if row.state != ADVISED:
        raise RuleViolation(f"advice {row.number} is {row.state}, and cannot be applied")
    action = action_of(row)
    details = {**row.details, "applied": now, "baseline": dict(baseline)}
    _change(graph, row, APPLIED, details, action)
    action.finish(graph, seconds)
    return require_record(graph, row.number)


def undo_record(graph: Graph, row: TuningRow, now: int, why: str, seconds: float) -> TuningRow:
    """Undo what was applied, for a reason; the record as it is then."""
    if row.state != APPLIED:
        raise RuleViolation(f"advice {row.number} is {row.state}, so there is nothing to undo")
    inverse = action_of(row).inverse()
    _change(graph, row, UNDONE, {**row.details, "undone": now, "why": why}, inverse)
    inverse.finish(graph, seconds)
    return require_record(graph, row.number)


def _change(
    graph: Graph, row: TuningRow, state: str, details: Mapping[str, Any], action: Action
) -> None:
    """Do something, and write it down with it."""
    graph.check_writable()
    with graph.catalog.write() as connection:
        if not graph.catalog.tuning.change(connection, row, state, details):
            raise RuleViolation(f"advice {row.number} was applied or undone by somebody else")
        action.apply(graph, connection)
    graph.observe_now()
