"""Tuning: review what was done, advise, try what is advised, and apply one change at a time."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from livingdb.catalog.tuning import APPLIED, DROPPED, UNDONE, TuningRow
from livingdb.errors import LivingDBError, RuleViolation
from livingdb.graph.graph import Graph
from livingdb.maintenance.compact import compact
from livingdb.maintenance.tuning.actions.evict import Evict
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.advisors.every_advisor import ADVISORS
from livingdb.maintenance.tuning.advisors.eviction import advise_eviction
from livingdb.maintenance.tuning.budget import read_budget
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, OutOfTime
from livingdb.maintenance.tuning.records import action_of, apply_record, new_record, save_records
from livingdb.maintenance.tuning.review import baseline, review

__all__ = ["Tuned", "tune"]

LEAST_SHARE, LEAST_SECONDS = 0.1, 0.02
"""What a candidate has to gain by the model to be tried, of the work and in seconds."""
LEAST_MEASURED = 0.05
"""What it has to gain where it was tried."""
_DAY = 86_400_000_000
_REMEMBERED = 14 * _DAY
"""For how long what did not pay is not tried again."""
_GROWN = 4.0
"""Unless there is so much more work."""
_SETTLING = _DAY
"""For how long nothing else is done to what was changed and not judged yet."""


@dataclass(frozen=True)
class Tuned:
    """What tuning found and did: all that is advised now, or in force; and what it changed."""

    rows: tuple[TuningRow, ...]
    applied: tuple[TuningRow, ...] = ()
    undone: tuple[TuningRow, ...] = ()


def tune(graph: Graph, apply: bool, seconds: float, now: int) -> Tuned:
    """Advise, within so many seconds; with `apply`, do the best of what pays, and no more."""
    end = clock.perf_counter() + seconds
    if apply:
        graph.check_writable()
    graph.observe_now()
    graph.observer.save(now)
    undone: list[TuningRow] = []
    if not graph.is_read_only:
        undone = review(graph, graph.catalog.tuning.applied(), now, seconds)
    evidence = _compacted(graph, now) if apply else Evidence(graph, now)
    rows, ready = _tried(evidence, end)
    saved = save_records(graph, rows)
    applied = []
    if apply:
        able = [row for row, is_ready in zip(saved, ready, strict=True) if is_ready]
        able = [row for row in able if not action_of(row).is_by_hand]
        for row in sorted(able, key=_worth, reverse=True)[:1]:
            with suppress(RuleViolation):  # somebody else has changed it meanwhile
                applied.append(_apply(evidence, row, max(1.0, end - clock.perf_counter())))
    done = {row.number: row for row in applied}
    shown = [done.get(row.number, row) for row in saved if row.state != DROPPED]
    known = {row.number for row in shown} if saved and saved[0].number else set()
    in_force = [row for row in _in_force(graph) if row.number not in known]
    return Tuned((*shown, *in_force), tuple(applied), tuple(undone))


def _compacted(graph: Graph, now: int) -> Evidence:
    """The evidence; where something would be evicted, what nobody needs any more goes before."""
    evidence = Evidence(graph, now)
    if next(_proposed(advise_eviction(evidence)), None) is None:
        return evidence
    compact(graph)
    return Evidence(graph, now)


def _in_force(graph: Graph) -> list[TuningRow]:
    """What was applied; of evictions the newest one, since they come again and again."""
    rows = graph.catalog.tuning.applied()
    evictions = [row.number for row in rows if row.action == Evict.kind]
    older = set(evictions[:-1])
    return [row for row in rows if row.number not in older]


def _worth(row: TuningRow) -> float:
    """What a change gains beyond its price, as it was measured, or else predicted.

    What a budget asks for comes first.
    """
    told, price = row.details["measured"] or row.details["predicted"], row.details["price"]
    if row.action == Evict.kind:
        return float("inf")
    return float(told["before"] - told["after"] - price["seconds"])


def _apply(evidence: Evidence, row: TuningRow, seconds: float) -> TuningRow:
    counts = evidence.graph.observer.known(evidence.now).get(row.subject, {})
    return apply_record(evidence.graph, row, evidence.now, baseline(counts), seconds)


def _tried(evidence: Evidence, end: float) -> tuple[list[TuningRow], list[bool]]:
    """What is advised, the best first, tried as far as there is time; and what may be applied."""
    rows: list[TuningRow] = []
    ready: list[bool] = []
    found = _candidates(evidence)
    for place, candidate in enumerate(found):
        left = (end - clock.perf_counter()) / (len(found) - place)
        measured: Gain | None = None
        is_ready = True
        try:
            if left <= 0:
                raise OutOfTime
            measured = candidate.action.measure(evidence, left)
        except (OutOfTime, LivingDBError):
            is_ready = candidate.is_owed
        is_kept = measured is None or measured.share >= LEAST_MEASURED
        rows.append(new_record(candidate, measured, is_kept, evidence.now))
        ready.append(is_ready and is_kept)
    return rows, ready


def _candidates(evidence: Evidence) -> list[Candidate]:
    """What is worth to be tried: what is owed, then what gains most beyond its price."""
    room = _room(evidence.graph)
    found = [
        candidate
        for advisor in ADVISORS
        for candidate in _proposed(advisor(evidence))
        if candidate.is_owed or (_pays(candidate, room) and not _is_remembered(evidence, candidate))
    ]
    return sorted(found, key=lambda each: (not each.is_owed, each.price.seconds - each.predicted))


def _proposed(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """What an advisor proposes; one that meets what is damaged says no more."""
    try:
        yield from candidates
    except LivingDBError:
        return


def _room(graph: Graph) -> float:
    """How many bytes more may be stored."""
    budget = read_budget(graph)
    return float("inf") if budget.bytes is None else float(budget.bytes - budget.used_bytes)


def _pays(candidate: Candidate, room: float) -> bool:
    gain = candidate.predicted
    is_worth = gain >= LEAST_SECONDS and gain.share >= LEAST_SHARE
    return is_worth and gain > candidate.price.seconds and candidate.price.bytes <= max(0.0, room)


def _is_remembered(evidence: Evidence, candidate: Candidate) -> bool:
    """Whether it did not pay before, is in force, or comes too soon after another change."""
    action, gain = candidate.action, candidate.predicted
    for row in evidence.records:
        if row.subject != action.subject or row.action != action.kind:
            continue
        age = evidence.now - row.time
        if row.state == APPLIED:
            if "verdict" not in row.details and evidence.now - row.details["applied"] < _SETTLING:
                return True
            if gain.share < 2 * LEAST_SHARE and age < _REMEMBERED:
                return True
        elif row.state in (DROPPED, UNDONE) and row.details["words"] == str(action):
            before = float(row.details["predicted"]["before"])
            if age < _REMEMBERED and gain.before < _GROWN * before:
                return True
    return False
