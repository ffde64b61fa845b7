"""Reading rows: keys and columns that do not fit say so."""

from __future__ import annotations

import datetime
import math

import pyarrow as pa
import pytest
from tests.unit.tables.lab import Lab

from livingdb.errors import InvalidData, NotFound


def test_columns_come_as_asked_for() -> None:
    lab = Lab({"b": "int", "id": "int", "a": "string"}, "id")
    version = lab.upsert(lab.create({"id": [1, 2], "a": ["x", "y"], "b": [3, 4]}), {"id": [3]})
    rows = lab.versions.rows(version)
    assert rows.to_arrow().schema == lab.schema.arrow
    assert rows.to_arrow(["a", "id"]).to_pydict() == {"a": ["x", "y", None], "id": [1, 2, 3]}
    assert rows.to_arrow([]).num_rows == 3
    assert rows.get(2) == {"b": 4, "id": 2, "a": "y"}
    assert list(rows.get(3) or {}) == ["b", "id", "a"]
    with pytest.raises(NotFound, match="'town'"):
        rows.to_arrow(["town"])


def test_an_empty_table() -> None:
    lab = Lab({"id": "int", "a": "string"}, "id")
    rows = lab.versions.rows(lab.create([]))
    assert rows.to_arrow() == pa.table({"id": [], "a": []}, schema=lab.schema.arrow)
    assert rows.get(1) is None
    assert rows.count() == 0
    assert rows.contains(lab.shape.codec.encode([pa.array([1], pa.int32())])).tolist() == [False]


@pytest.mark.parametrize("with_tail", [False, True])
def test_a_key_that_does_not_fit_is_no_other_key(with_tail: bool) -> None:
    lab = Lab({"id": "bigint"}, "id")
    version = lab.create({"id": [1]})
    if with_tail:
        version = lab.upsert(version, {"id": [2]})
    rows = lab.versions.rows(version)
    assert rows.get(1) == rows.get(1.0) == {"id": 1}
    for key in ((1.5,), (True,), ("1",), (None,), (2**63,), (), (1, 1), (math.nan,)):
        with pytest.raises(InvalidData, match=r"key|column 'id'"):
            rows.get(*key)


def test_a_moment_is_no_other_moment() -> None:
    noon = datetime.datetime(2026, 11, 15, 12)
    lab = Lab({"at": "timestamp_ntz"}, "at")
    rows = lab.versions.rows(lab.create({"at": [noon]}))
    assert rows.get(noon) == {"at": noon}
    with pytest.raises(InvalidData):
        rows.get(noon.replace(tzinfo=datetime.UTC))
    days = Lab({"day": "date"}, "day")
    rows = days.versions.rows(days.create({"day": [noon.date()]}))
    assert rows.get(noon.date()) == {"day": noon.date()}
    with pytest.raises(InvalidData):
        rows.get(noon)


def test_a_read_of_one_row_reads_one_leaf() -> None:
    lab = Lab({"id": "int", "a": "string"}, "id")
    version = lab.create({"id": list(range(100_000)), "a": ["x"] * 100_000})
    versions = lab.reopen()
    assert versions.rows(version).get(77_777) == {"id": 77_777, "a": "x"}
    assert len(lab.store.read) <= 4
