"""Judges a pending change by the conditions of its sync: what passes, what is quarantined, what
stops it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection

from livingdb.alerts.raise_alert import raise_alert
from livingdb.alerts.sinks import sinks_to_json
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import DETACHED, HELD, SyncRow
from livingdb.chunks.address import Address
from livingdb.derivation.hidden_tables import condition_column
from livingdb.errors import IllegalSync, InvalidData, LivingDBError, RuleViolation
from livingdb.guard.conditions.condition import (
    STRENGTH,
    Condition,
    UnknownCondition,
    Verdict,
    from_json,
    to_json,
)
from livingdb.guard.conditions.follow_names import FollowedNames
from livingdb.guard.conditions.pending_change import CONDITIONS, HISTORY, PendingChange
from livingdb.guard.conditions.statistics import STATISTICS
from livingdb.guard.sync_failure import TRANSIENT_ERRORS
from livingdb.guard.sync_state import approvers, stop_sync_action

__all__ = [
    "ConditionBroken",
    "Judgement",
    "check_guard",
    "conditions_of",
    "guard_of",
    "judge_change",
]

_log = logging.getLogger("livingdb")
_SEVERITY = {"warn": "warning", "quarantine": "warning"}

_known: dict[int, tuple[Mapping[str, Any], tuple[Condition, ...]]] = {}
_MOST_KNOWN = 10_000


def guard_of(conditions: object, alerts: object) -> dict[str, Any]:
    """What guards a sync, as plain values; `InvalidData` for what is no condition or sink.

    `Untrusted` for a condition whose query calls what it may not.
    """
    found: dict[str, Any] = {}
    some = [one for given in _as_list(conditions) for one in _to_conditions(given)]
    if some:
        found["conditions"] = [{**to_json(one), "text": one.text} for one in some]
        from livingdb.guard.conditions.kinds.custom import check_queries

        check_queries(found["conditions"])
    sinks = _as_list(alerts)
    if sinks:
        found["alerts"] = sinks_to_json(sinks)
    return found


def _as_list(given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        return list(given)
    return [given]


def _to_conditions(given: object) -> list[Condition]:
    """A condition, or those that a text says."""
    if isinstance(given, Condition):
        return [given]
    if isinstance(given, str):
        from livingdb.guard.conditions.text import parse

        return parse(given)
    raise InvalidData(
        f"conditions= takes conditions, as livingdb.condition makes them, or their text: "
        f"'changed_share <= 0.2'; not {given!r}"
    )


def conditions_of(sync: SyncRow) -> tuple[Condition, ...]:
    """The conditions of a sync; for those that nothing here knows, others stand in."""
    given = sync.guard.get("conditions")
    if not given:
        return ()
    known = _known.get(id(sync.guard))
    if known is None or known[0] is not sync.guard:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        made = tuple(_known_condition(data) for data in given)
        known = _known[id(sync.guard)] = sync.guard, made
    return known[1]


def _known_condition(data: Mapping[str, Any]) -> Condition:
    """A condition that was written down; one that stands in for it, if nothing here knows it."""
    try:
        one = from_json({name: value for name, value in data.items() if name != "text"})
    except LivingDBError as error:
        return UnknownCondition.of(data, str(error))
    if isinstance(one, Condition):
        return one
    return UnknownCondition.of(data, f"{data.get('name')!r} is no condition")


def check_guard(guard: Mapping[str, Any], direction: str, when: str, what: str) -> None:
    """`IllegalSync` for actions that such a sync cannot take."""
    for at, data in enumerate(guard.get("conditions", ())):
        action = data.get("action", "detach")
        text = data["text"]
        if action == "fail" and when != "immediate":
            raise IllegalSync(
                f"{text}: action='fail' aborts the transaction of the source, which an immediate "
                f"sync can, and when={when!r} is over by then; 'hold' stops the change",
                at,
            )
        if direction == "both" and action in ("hold", "quarantine"):
            raise IllegalSync(
                f"{text}: action={action!r} keeps a change from one of two branches that are both "
                "written; a two-way sync can detach, warn or fail",
                at,
            )
        if action == "quarantine" and what == "model":
            raise IllegalSync(f"{text}: a model has no rows that could be set aside", at)


class ConditionBroken(RuleViolation):
    """A condition that fails the source's transaction does not hold."""


@dataclass(frozen=True)
class Judgement:
    """What the conditions of a sync say about a pending change."""

    pending: PendingChange
    broken: Sequence[tuple[Condition, Verdict]]
    measured: Mapping[str, float | int | bool] = field(default_factory=dict)
    approved_by: Sequence[str] = ()
    history: Mapping[str, float | int] = field(default_factory=dict)

    @property
    def action(self) -> str | None:
        """What is to happen: the strongest of what the conditions that do not hold say."""
        actions = [_action(one, verdict) for one, verdict in self.broken]
        if self.approved_by:
            actions = [action for action in actions if action != "hold"]
        return max(actions, key=STRENGTH.index, default=None)

    @property
    def is_blocking(self) -> bool:
        """Whether nothing reaches the target."""
        return self.action in ("hold", "detach", "fail")

    @property
    def reason(self) -> str:
        """What is wrong, in words; of conditions that stop the change, if any does."""
        strongest = self.action
        chosen = [(one, v) for one, v in self.broken if _action(one, v) == strongest] or self.broken
        return "; ".join(f"{one.text}: {verdict.problem}" for one, verdict in chosen)

    def without_stops(self) -> Judgement:
        """The same with what stops a change left out; rows that nobody could judge are told of."""
        mild = [
            (one if verdict.is_judged else replace(one, action="warn"), verdict)
            for one, verdict in self.broken
            if one.action in _SEVERITY
        ]
        return replace(self, broken=mild)

    def rows_to_quarantine(self) -> dict[str, pa.Table]:
        """The rows that are to be set aside, by table, with the condition that they break."""
        found: dict[str, list[pa.Table]] = {}
        for one, verdict in self.broken:
            if one.action == "quarantine":
                for table, rows in verdict.rows.items():
                    texts = pa.array([one.text] * rows.num_rows)
                    found.setdefault(table, []).append(
                        rows.append_column(condition_column(rows.column_names), texts)
                    )
        return {table: pa.concat_tables(parts) for table, parts in found.items()}

    def still_quarantined_rows(self, table: str, rows: pa.Table) -> pa.Table:
        """Of rows that were set aside and stay as they are, those that still break a condition.

        Their last column says which, with "; " between them.
        """
        ends = "; "
        texts = pc.binary_join_element_wise("", rows.column(rows.num_columns - 1), "", ends)
        names = FollowedNames(self.pending)
        for given in conditions_of(self.pending.sync):
            one = names.follow(given)
            mended = _release_mask(one, rows, self.pending, table) if rows.num_rows else None
            if mended is not None:
                less = pc.replace_substring(texts, f"{ends}{given.text}{ends}", ends)
                texts = pc.if_else(mended, less, texts)
        inner = pc.utf8_slice_codeunits(texts, len(ends), -len(ends))
        at, name = rows.num_columns - 1, rows.column_names[-1]
        return rows.set_column(at, name, inner).filter(pc.not_equal(texts, ends))

    def details(self) -> dict[str, Any]:
        """What the edge of the change remembers."""
        found: dict[str, Any] = {}
        if self.measured:
            found[CONDITIONS] = dict(self.measured)
        if self.history:
            found[HISTORY] = dict(self.history)
        kept = self.pending.kept_statistics()
        if kept:
            found[STATISTICS] = kept
        if self.approved_by:
            found["approved_by"] = list(self.approved_by)
        return found

    def refuse(self) -> None:
        """`RuleViolation` if the source's transaction is to be aborted."""
        if self.action == "fail":
            raise ConditionBroken(
                f"rule 7: the sync {self.pending.sync.name!r} does not let this change pass, and "
                f"nothing was changed: {self.reason}"
            )

    def stop_action(
        self, by: str, pair: Mapping[BranchId, Address] | None = None
    ) -> Callable[[Connection], None]:
        """What a transaction does to hold or detach the sync."""
        pending = self.pending
        state = HELD if self.action == "hold" else DETACHED
        details = {**self._alert_details(), "at": _to_hex(pending.at)}
        severity = self._severity(*self.broken[0])
        return stop_sync_action(
            pending.graph,
            pending.sync,
            state,
            self.reason,
            by,
            pending.time,
            severity,
            details,
            pair,
        )

    def warning_actions(self) -> list[Callable[[Connection], None]]:
        """What a transaction does to tell of a change that goes through nevertheless."""
        return [
            self._warning_action(one, verdict)
            for one, verdict in self.broken
            if _action(one, verdict) in ("warn", "quarantine")
        ]

    def _warning_action(self, one: Condition, verdict: Verdict) -> Callable[[Connection], None]:
        pending = self.pending
        event = "quarantined" if one.action == "quarantine" else "warning"
        details = {"condition": one.text, "measured": verdict.measured}

        def act(connection: Connection) -> None:
            raise_alert(
                pending.graph,
                connection,
                pending.sync,
                event,
                self._severity(one, verdict),
                f"{one.text}: {verdict.problem}",
                pending.time,
                details,
            )

        return act

    def _severity(self, one: Condition, verdict: Verdict) -> str:
        return one.severity or _SEVERITY.get(_action(one, verdict), "error")

    def _alert_details(self) -> dict[str, Any]:
        strongest = self.action
        texts = [one.text for one, v in self.broken if _action(one, v) == strongest]
        measured = {
            one.text: verdict.measured
            for one, verdict in self.broken
            if verdict.measured is not None
        }
        return {"condition": " AND ".join(texts), "measured": measured, "action": strongest}


def _action(one: Condition, verdict: Verdict) -> str:
    """What happens since a condition does not hold.

    Rows are set aside that break it; where nobody can tell which, the change waits.
    """
    return "hold" if one.action == "quarantine" and not verdict.is_judged else one.action


def _release_mask(one: Condition, rows: pa.Table, pending: PendingChange, table: str) -> Any:
    """See `Condition.release_mask`; what cannot be judged is not released."""
    if one.action != "quarantine":
        return None
    try:
        return one.release_mask(rows, pending, table)
    except TRANSIENT_ERRORS:
        raise
    except LivingDBError:
        return None


def _to_hex(at: Mapping[BranchId, Address]) -> dict[str, str]:
    return {branch: address.hex() for branch, address in at.items()}


def judge_change(pending: PendingChange) -> Judgement | None:
    """What the conditions of the sync say; None if it has none.

    A condition that cannot be judged does not hold: what it says is to happen then, happens; one
    that would set rows aside holds the change, since nobody can tell which rows.
    """
    conditions = conditions_of(pending.sync)
    if not conditions:
        return None
    if any(one.needs_approval for one in conditions):
        pending.approved_by = approvers(pending.graph, pending.sync, pending.at)
    broken: list[tuple[Condition, Verdict]] = []
    measured: dict[str, float | int | bool] = {}
    history: dict[str, float | int] = {}
    names = FollowedNames(pending)
    for one in conditions:
        if pending.head is None and one.is_of_change:
            continue
        if pending.is_schema_change and one.is_of_model:
            continue
        verdict = _judge_condition(one, pending, names)
        measured |= verdict.parts
        history |= verdict.history
        measured[one.text] = verdict.holds if verdict.measured is None else verdict.measured
        if not verdict.holds:
            broken.append((one, verdict))
    found = Judgement(pending, broken, measured, history=history)
    if found.action == "hold" and not any(one.needs_approval for one, _ in broken):
        by = approvers(pending.graph, pending.sync, pending.at)
        found = replace(found, approved_by=by)
    return found


def _judge_condition(one: Condition, pending: PendingChange, names: FollowedNames) -> Verdict:
    try:
        return names.follow(one).judge(pending)
    except TRANSIENT_ERRORS:
        raise
    except LivingDBError as error:
        return Verdict(f"it cannot be judged: {error}", is_judged=False)
    except Exception as error:
        _log.exception("the condition %s of %r could not be judged", one.text, pending.sync.name)
        problem = f"it cannot be judged: {type(error).__name__}: {error}"
        return Verdict(problem, is_judged=False)
