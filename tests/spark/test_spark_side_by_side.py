"""Several views on Spark at one time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.property.trying import HAS_TIME

import livingdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_views_side_by_side(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
    main.insert("t", [{"id": i, "v": f"name {i % 3}"} for i in range(9)])
    for number in range(4):
        main.derive(f"v{number}", f"SELECT id, soundex(v) AS s FROM t WHERE id > {number}")
    for round_ in range(2 if HAS_TIME else 1):
        main.upsert("t", [{"id": 5 + round_, "v": "other"}])
        runs = db.propagate()
        assert [run.error for run in runs] == [None] * 4
    assert [len(db.branch(f"v{n}").table(f"v{n}")) for n in range(4)] == [8, 7, 6, 5]
