"""Which of both ways to refresh a stage is cheaper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb.derivation.refresh_cost import RefreshCost


@pytest.mark.parametrize(
    ("cost", "is_full"),
    [
        (RefreshCost("touched", 1_000, 10, 10), False),
        (RefreshCost("touched", 5_000, 400_000, 20_000), False),
        (RefreshCost("touched", 40_000, 400_000, 20_000), True),
        (RefreshCost("touched", 40_000, 400_000, 360_000), False),
        (RefreshCost("linear", 40_000, 200_000, 200_000), False),
        (RefreshCost("linear", 80_000, 200_000, 200_000), True),
        (RefreshCost("touched", 40_000, 400_000, 20_000, is_spark=True), False),
    ],
)
def test_the_cheaper_way(cost: RefreshCost, is_full: bool) -> None:
    assert cost.is_full_cheaper is is_full


def test_an_intersection_is_made_anew_where_that_is_cheaper(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int64())])

    def rows(first: int, count: int) -> pa.Table:
        ids = np.arange(first, first + count)
        return pa.table({"id": ids, "a": ids * 7 % 40_000}, schema=schema)

    with livingdb.create(tmp_path / "a.ldb", engine="embedded") as db:
        main = db.branch("main")
        for name in ("t", "u"):
            main.create_table(name, schema, key="id")
            main.insert(name, rows(0 if name == "t" else 30_000, 20_000))
        query = "SELECT a FROM t INTERSECT SELECT a FROM u"
        main.derive("both", query)
        main.derive("always", query, refresh="incremental")
        made = []
        for first, count in ((20_000, 300), (30_000, 5_000)):
            main.insert("t", rows(first, count))
            runs = {run.name: (run.strategy, run.reason) for run in db.propagate()}
            made.append((runs["both"], runs["always"]))
            left, right = (db.branch(n).table(n).to_arrow() for n in ("both", "always"))
            assert left.sort_by("a").equals(right.sort_by("a"))
        kept = ("touched", None)
        assert made == [(kept, kept), (("full", "DELTA_TOO_LARGE"), kept)]
