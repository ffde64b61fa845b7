"""Views of every shape hold what Spark makes of their queries."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.property.view_world import QUERIES, TABLES, Step, ViewWorld, some_edit, some_rows
from tests.unit.commit.derived.oracle import assert_same_rows

import livingdb
import livingdb.spark
from livingdb.derivation.view import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]

LEFT_OUT = (" > ALL ",)
"""What Spark does not read."""


def test_views_are_what_spark_makes_of_their_queries(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(2)
    queries = [query for query in QUERIES if not any(word in query for word in LEFT_OUT)]
    with livingdb.create(tmp_path / "a.ldb", engine="embedded") as db:
        world = ViewWorld(db)
        world.fill({name: some_rows(chance, name, 8) for name in TABLES})
        for number, query in enumerate(queries):
            world.derive(f"v{number}", query, immediate=number % 2 == 0, other="spark")
        for kind in ("write", "sql", "rename", "write"):
            edits = some_edit(chance), some_edit(chance)
            world.step(Step(kind, *edits, chance.randrange(20)))
        for sync in db._graph.catalog.syncs.all():
            if sync.spec["engine"] == "spark":
                assert db.refresh(sync.spec["name"]).error is None
        world.refresh()
        wrong = {}
        for sync in db._graph.catalog.syncs.all():
            view = View.from_json(sync.spec)
            held = db.branch(view.name).table(view.name).to_arrow()
            found = livingdb.spark.sql(db, "main", view.query, spark=spark).toArrow()
            try:
                assert held.schema.names == found.schema.names
                assert_same_rows(held, found)
            except AssertionError as error:
                wrong[world.queries[view.name]] = str(error)[:500]
        assert wrong == {}
