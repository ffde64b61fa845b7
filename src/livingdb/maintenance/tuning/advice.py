"""Advice: what would make the work on a database cost less, as users hold it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

from livingdb.catalog.tuning import TuningRow
from livingdb.graph.graph import Graph, now
from livingdb.graph.snapshot_columns import to_datetime
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.records import (
    action_of,
    apply_record,
    require_record,
    undo_record,
)
from livingdb.maintenance.tuning.review import baseline

__all__ = ["Advice", "Permit"]

_FINISH_SECONDS = 60.0

Permit = Callable[[str, int], AbstractContextManager[None]]
"""Asks whether who acts may do something with the advice of a number, and notes it once done."""


class Advice:
    """One advice, or what became of it.

    action      what to do, in words; `kind` is its kind, in one
    reason      why, with the numbers behind it
    predicted   the seconds that the observed work would take less, by the cost model
    measured    the same where it was tried; None if it was not, or cannot be
    price       what it costs once: seconds of work, bytes that are stored
    noticed_by  who would notice, and what
    state       "advised", "applied", "undone", or "dropped" if it did not pay
    """

    def __init__(self, graph: Graph, row: TuningRow, permit: Permit = lambda *_: nullcontext()):
        self._graph = graph
        self._row = row
        self._permit = permit

    @property
    def number(self) -> int:
        """By which it is known in `livingdb.tuning`; 0 in a database that is only read."""
        return self._row.number

    @property
    def kind(self) -> str:
        """Its kind: "relayout", "store", "index", "refresh", "redefine" or "evict"."""
        return self._row.action

    @property
    def action(self) -> str:
        """What to do, in words."""
        return str(self._row.details["words"])

    @property
    def reason(self) -> str:
        """Why, with the numbers behind it."""
        return str(self._row.details["reason"])

    @property
    def predicted(self) -> Gain:
        """The seconds that the observed work would take less, by the cost model."""
        found = Gain.from_json(self._row.details["predicted"])
        assert found is not None
        return found

    @property
    def measured(self) -> Gain | None:
        """The same where it was tried; None if it was not, or cannot be."""
        return Gain.from_json(self._row.details["measured"])

    @property
    def price(self) -> Price:
        """What it costs once."""
        return Price(**self._row.details["price"])

    @property
    def noticed_by(self) -> str:
        """Who would notice, and what."""
        return str(self._row.details["noticed_by"])

    @property
    def state(self) -> str:
        """What became of it."""
        return self._row.state

    @property
    def outcome(self) -> str:
        """What was found of it since it was applied, or why it was undone; may be empty."""
        details = self._row.details
        return str(details.get("why") or details.get("verdict") or "")

    @property
    def time(self) -> datetime:
        """When it was given, in UTC."""
        return to_datetime(self._row.time)

    def apply(self) -> Advice:
        """Do it now; it can be undone at any time.  `RuleViolation` if it is not to be had."""
        with self._permit("apply advice", self.number):
            row = require_record(self._graph, self.number)
            counts = self._graph.observer.known(now()).get(row.subject, {})
            self._row = apply_record(self._graph, row, now(), baseline(counts), _FINISH_SECONDS)
        return self

    def undo(self) -> Advice:
        """Let everything be as it was before it was applied; readers see nothing of it."""
        with self._permit("undo advice", self.number):
            row = require_record(self._graph, self.number)
            self._row = undo_record(self._graph, row, now(), "by hand", _FINISH_SECONDS)
        return self

    @property
    def is_by_hand(self) -> bool:
        """Whether it is for users to do."""
        return action_of(self._row).is_by_hand

    def __repr__(self) -> str:
        return f"<Advice {self.number}: {self.action} ({self.state})>"

    def __str__(self) -> str:
        tried = "not tried" if self.measured is None else str(self.measured)
        return f"{self.action}: {self.reason}; predicted {self.predicted}, measured {tried}"
