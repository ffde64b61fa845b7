"""What a trial says where some kinds of work take longer, and others less; that it ends in time."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.maintenance.tuning.lab import MACHINE, ROWS, made, observe

from livingdb import Layout
from livingdb.graph.graph import now
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import OutOfTime
from livingdb.maintenance.tuning.predict import Arrangement
from livingdb.maintenance.tuning.trial import Copy, Sample, measure_work, sample_rows
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


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ObservedTable]:
    with made(tmp_path / "db") as db:
        observe(db, {"read": {"whole": 100.0, "get": 1e4}, "rows": {"whole": 100.0 * ROWS}})
        (found,) = Evidence(db._graph, now()).tables
        yield found


def test_no_more_is_copied_than_there_is_time_for(table: ObservedTable) -> None:
    each = Arrangement(MACHINE, table, Layout()).build_seconds / ROWS
    assert sample_rows(MACHINE, table, [Layout()], 60.0).count == ROWS
    assert sample_rows(MACHINE, table, [Layout()], 3 * 10_000 * each).count == 10_000
    assert sample_rows(MACHINE, table, [Layout()] * 2, 6 * 10_000 * each).count == 10_000
    with pytest.raises(OutOfTime):
        sample_rows(MACHINE, table, [Layout()], 3 * 8_000 * each)


@pytest.mark.parametrize("kind", ["get", Scans("whole", 5.0, None, ROWS)])
def test_nothing_is_read_after_the_end(table: ObservedTable, kind: str | Scans) -> None:
    rows = sample_rows(MACHINE, table, [Layout()], 60.0)
    assert Copy(MACHINE, Sample(rows), Layout()).work(kind)() > 0
    with pytest.raises(OutOfTime):
        Copy(MACHINE, Sample(rows), Layout(), end=clock.perf_counter()).work(kind)()


def test_others_do_not_pay_for_a_gain() -> None:
    assert measured((1.0, 1.0), (0.5, 1.1)) == pytest.approx(0.4), "it may be noise"
    assert measured((1.0, 1.0), (0.1, 1.5)) == 0.0
    assert measured((1.0, 1.0), (1.5, 2.0)) == pytest.approx(-1.5)


def test_they_may_pay_a_share_of_it() -> None:
    assert measured((10.0, 1.0), (1.0, 1.5), most_paid=0.1) == pytest.approx(8.5)
    assert measured((10.0, 1.0), (1.0, 2.5), most_paid=0.1) == 0.0
