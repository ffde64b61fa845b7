"""A deep check computes views whose meaning only Spark has on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.thinned import thinned
from tests.unit.maintenance.test_check_syncs import broken, mend, plant, state

import livingdb
from livingdb.engines.portable.portability import check_portability
from livingdb.sql.parse import parse_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "rows": ("SELECT id, soundex(s) AS x FROM t", {"x": "no"}),
    "groups": (
        "SELECT soundex(s) AS x, count(*) AS n FROM t GROUP BY soundex(s) HAVING count(*) > 1",
        {"n": 77},
    ),
}


@pytest.mark.parametrize("name", thinned(QUERIES))
def test_views_of_spark(db: livingdb.Database, spark: SparkSession, name: str) -> None:
    query, wrong = QUERIES[name]
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "s": "string"}, key="id")
    main.insert("t", {"id": range(9), "s": ["Robert", "Rupert", "Ruby"] * 3})
    schema = main.table("t").to_arrow().schema
    assert isinstance(check_portability(parse_statement(query), {"t": schema}), str)
    main.derive("view", query, when="deferred")
    main.upsert("t", {"id": [1, 20], "s": ["Ruby", "Rubin"]})
    db.propagate()
    assert broken(db) == []
    assert db.check(deep=True).not_checked == []
    before = state(db, "view")
    plant(db, "view", "view", wrong)
    (problem,) = broken(db)
    assert (problem.sync, problem.table, problem.rows) == ("main/view", "view", 1)
    mend(db, problem)
    assert broken(db) == []
    assert state(db, "view") == before
