"""What a trial says where some kinds of work take longer, and others less."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from livingdb.maintenance.tuning.trial import measure_work
from livingdb.maintenance.tuning.workload import ObservedTable, Scans

TABLE = SimpleNamespace(
    work=SimpleNamespace(gets=10.0, scans=(Scans("whole", 5.0, None, 100.0),), rows_written=0.0)
)


@dataclass
class Place:
    """Where each kind of work takes a time that is known."""

    seconds: Mapping[str, float]

    def work(self, kind: str | Scans) -> Callable[[], float]:
        name = kind.kind if isinstance(kind, Scans) else kind
        return lambda: self.seconds[name]


def measured(now: tuple[float, float], then: tuple[float, float], **how: Any) -> float:
    places = [Place({"get": gets, "whole": scans}) for gets, scans in (now, then)]
    return float(measure_work(cast(ObservedTable, TABLE), places, 60.0, **how))


def test_others_do_not_pay_for_a_gain() -> None:
    assert measured((1.0, 1.0), (0.5, 1.1)) == pytest.approx(0.4), "it may be noise"
    assert measured((1.0, 1.0), (0.1, 1.5)) == 0.0
    assert measured((1.0, 1.0), (1.5, 2.0)) == pytest.approx(-1.5)


def test_they_may_pay_a_share_of_it() -> None:
    assert measured((10.0, 1.0), (1.0, 1.5), most_paid=0.1) == pytest.approx(8.5)
    assert measured((10.0, 1.0), (1.0, 2.5), most_paid=0.1) == 0.0
