"""Trying an index: what it spares those who look for few rows, and that nothing of it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.maintenance.tuning.lab import MACHINE, column_ids, made, observe

from livingdb import Database
from livingdb.graph.graph import now
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, OutOfTime
from livingdb.maintenance.tuning.try_index import try_index

ROWS = 100_000
"""So many that they are far from being read as soon as a few are looked up."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with made(tmp_path / "db", rows=ROWS) as db:
        yield db


def tried(db: Database, column: str, folds: float = 0.0) -> Gain:
    """What a trial finds where all rows were read to look for some by a column."""
    work = {
        "read": {"filter": 100.0},
        "rows": {"filter": 100.0 * ROWS},
        "filtered": {column_ids(db, column): 100.0},
        "write": {"commits": folds, "rows": folds * ROWS},
    }
    observe(db, work)
    (table,) = Evidence(db._graph, now()).tables
    return try_index(MACHINE, table, table.schema.column(column), 30.0)


def test_few_rows_are_sooner_found_by_an_index(db: Database) -> None:
    catalog = db._graph.catalog
    stored = list(catalog.packs.names()), catalog.versions.materializations()
    assert tried(db, "price").share > 0.3
    assert (list(catalog.packs.names()), catalog.versions.materializations()) == stored


def test_many_rows_are_sooner_found_by_reading_all(db: Database) -> None:
    assert tried(db, "state").share < 0.3, "but for noise"


def test_folds_take_more(db: Database) -> None:
    """By the model: so that a table that is written far more than read gets none."""
    assert tried(db, "price", folds=10_000.0) < 0


def test_a_tail_is_looked_at_too(db: Database) -> None:
    numbers = range(0, ROWS, 40)
    db.branch("main").update("t", {"id": numbers, "price": [0.5] * len(numbers)})
    observe(db, {"tail": {"9": 100.0}})
    assert tried(db, "price").share > 0


def test_where_nothing_is_held_nothing_can_be_tried(db: Database) -> None:
    db.branch("main").update("t", {"id": range(ROWS), "note": [None] * ROWS})
    with pytest.raises(OutOfTime):
        tried(db, "note")
