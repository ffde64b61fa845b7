"""The cost model: measured once, kept, and right about what costs more than what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.maintenance.tuning.lab import MACHINE, ROWS, column_ids, made, observe, table_id

import livingdb
from livingdb import Database, Layout
from livingdb.graph.graph import now
from livingdb.maintenance.tuning import calibrate
from livingdb.maintenance.tuning.calibrate import MODEL, cost_model
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.model import CostModel
from livingdb.maintenance.tuning.predict import Arrangement, fold_limit
from livingdb.maintenance.tuning.trial import try_layout


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with made(tmp_path / "db") as db:
        yield db


def arranged(db: Database, layout: Layout) -> Arrangement:
    table = Evidence(db._graph, now()).table(table_id(db))
    assert table is not None
    return Arrangement(MACHINE, table, layout)


def test_it_is_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "_ROWS", 4_096)
    with livingdb.create(tmp_path / "db", engine="embedded") as db:
        model = cost_model(db._graph)
        assert all(value >= 0 for value in vars(model).values())
        assert model.seek > 0
        assert model.read_leaf(4, 100_000) < model.write_leaf(4, 100_000)
        monkeypatch.setattr(calibrate, "calibrate", lambda graph: pytest.fail("once"))
        assert cost_model(db._graph) == model
        assert CostModel.from_text(model.to_text()) == model
        with db._graph.catalog.write() as connection:
            db._graph.catalog.set_meta(connection, MODEL, '{"of": "another version"}')
        with pytest.raises(pytest.fail.Exception):
            cost_model(db._graph)


def test_large_leaves_suit_scans_and_small_ones_ranges(db: Database) -> None:
    observe(db, {"read": {"whole": 100.0}, "rows": {"whole": 100.0 * ROWS}})
    costs = [arranged(db, Layout(target_rows=rows)).total for rows in (256, 4096, 16_384)]
    assert costs == sorted(costs, reverse=True)
    observe(db, {"read": {"range": 1e6}, "rows": {"range": 2e6}})
    costs = [arranged(db, Layout(target_rows=rows)).total for rows in (256, 4096, 16_384)]
    assert costs == sorted(costs)


def test_groups_spare_folds_what_they_do_not_touch(db: Database) -> None:
    written = {"commits": 100.0, "rows": 1e6}
    observe(db, {"write": written, "written columns": {column_ids(db, "state"): 100.0}})
    apart = arranged(db, Layout(groups=[["state"]]))
    assert apart.total < 0.7 * arranged(db, Layout()).total
    assert apart.total < arranged(db, Layout(groups=[["note"]])).total
    observe(db, {"write": {"commits": 10_000.0, "rows": 1e8}})  # of whole rows
    assert arranged(db, Layout(groups=[["state"]])).total > arranged(db, Layout()).total


def test_folds_and_tails_are_weighed(db: Database) -> None:
    observe(db, {"write": {"commits": 10.0, "rows": 1_000.0}, "tail": {"0": 8.0, "4": 8.0}})
    work = Evidence(db._graph, now()).tables[0].work
    limits = [fold_limit(Layout(fold=fold), ROWS, work) for fold in ("always", 0.1, "never")]
    assert limits == [pytest.approx(100), 0.1 * ROWS, float("inf")]
    assert fold_limit(Layout(), ROWS, work) == pytest.approx(24_576 / 1.16)
    assert work.tail_rows == pytest.approx(6), "none, or about twelve"
    sooner, later = arranged(db, Layout(fold=0.0001)), arranged(db, Layout(fold=0.5))
    assert (sooner.tail_rows, later.tail_rows) == (pytest.approx(6), pytest.approx(6))


def test_what_is_predicted_is_about_what_is_measured(db: Database) -> None:
    """On this machine: by far enough apart that nothing else that it does can hide it."""
    observe(db, {"read": {"whole": 100.0}, "rows": {"whole": 100.0 * ROWS}})
    table = Evidence(db._graph, now()).tables[0]
    gain = try_layout(MACHINE, replace(table), Layout(target_rows=128), 30.0)
    assert gain.share < -1, "far more leaves"
    assert arranged(db, Layout(target_rows=128)).total > 2 * arranged(db, Layout()).total


def test_gains_and_prices_are_told() -> None:
    gain = Gain(2.0, 0.5)
    assert (gain, gain.share, str(gain)) == (1.5, 0.75, "2 s to 500 ms (-75 %)")
    assert Gain.from_json(gain.to_json()) == gain
    assert Gain.from_json(None) is None
    assert str(Price(0.25, -1_000)) == "250 ms, -1,000 bytes"
    assert str(Price()) == "nothing"
