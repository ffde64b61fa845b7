"""Derived objects on Spark: what no other engine answers, functions of data frames, streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import livingdb
from livingdb.errors import InvalidData

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HERE = "tests.unit.commit.derived.shop_functions"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[livingdb.Database]:
    """Nine orders in two cities and in none."""
    with livingdb.create(tmp_path / "shop.ldb", author="ann", trust=[HERE]) as database:
        main = database.branch("main")
        main.create_table(
            "orders", {"id": "bigint", "city": "string", "amount": "bigint"}, key="id"
        )
        cities = ["Oslo", "Rome", None]
        main.insert(
            "orders", [{"id": i, "city": cities[i % 3], "amount": i * 10} for i in range(9)]
        )
        yield database
        assert database.check().problems == []


def test_a_view_that_only_spark_answers(spark: SparkSession, shop: livingdb.Database) -> None:
    main = shop.branch("main")
    query = "SELECT soundex(city) AS sound, count(*) AS n FROM orders GROUP BY soundex(city)"
    made = main.derive("sounds", query)
    assert made.head.edge.details["engine"] == "spark"
    main.update("orders", [{"id": 0, "city": "Bern"}])
    (run,) = shop.propagate()
    assert run.engine == "spark"
    assert run.error is None
    found = {row["sound"]: row["n"] for row in made.table("sounds").to_arrow().to_pylist()}
    assert found == {None: 3, "O240": 2, "R500": 3, "B650": 1}


def test_views_by_name_at_refs(spark: SparkSession, shop: livingdb.Database) -> None:
    main = shop.branch("main")
    main.derive(
        "Totals", "SELECT city, sum(amount) AS n FROM orders GROUP BY city", when="immediate"
    )
    main.update("orders", [{"id": 0, "amount": 500}])
    for ref, wanted in (("main", 590), ("main~1", 90), (shop.at("main~1").id, 90)):
        query = "SELECT n FROM totals WHERE city = 'Oslo'"
        frame = livingdb.spark.sql(shop, ref, query, spark=spark)
        assert [row["n"] for row in frame.collect()] == [wanted]
        assert [row["n"] for row in shop.at(ref).sql(query, engine="spark")] == [wanted]


def test_views_are_the_same_on_both_engines(spark: SparkSession, shop: livingdb.Database) -> None:
    main = shop.branch("main")
    query = "SELECT city, sum(amount) AS total, avg(amount) AS mean FROM orders GROUP BY city"
    for engine in ("spark", "embedded", "auto"):
        main.derive(engine, query, engine=engine)
    for change in ([{"id": 0, "amount": 5}], [{"id": 20, "city": "Bern", "amount": 1}]):
        main.upsert("orders", change)
        assert {run.name for run in shop.propagate()} == {"spark", "embedded", "auto"}
        one = shop.branch("spark").table("spark")
        for other in ("embedded", "auto"):
            twin = shop.branch(other).table(other)
            assert twin.root() == one.root()
            assert twin.schema == one.schema


KEPT = {
    "rolled": "SELECT city, amount, grouping(city) AS c, grouping_id() AS g, count(*) AS n "
    "FROM orders GROUP BY ROLLUP (city, amount)",
    "sets": "SELECT city, amount, count(*) AS n FROM orders "
    "GROUP BY city, amount GROUPING SETS ((city), (city), ())",
    "top": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 3",
    "above": "SELECT id FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
    "mean": "SELECT avg(CAST(amount AS double)) AS m, count(DISTINCT city) AS c FROM orders",
    "parts": "SELECT city, avg(CAST(amount AS decimal(8, 2)) / 7) AS p FROM orders GROUP BY city",
}


@pytest.mark.slow
def test_what_is_kept_is_what_spark_gives(spark: SparkSession, shop: livingdb.Database) -> None:
    main = shop.branch("main")
    for name, query in KEPT.items():
        main.derive(name, query, engine="spark", refresh="incremental")
    everything = main.table("orders").to_arrow().column("id").to_pylist()
    changes = (
        lambda: main.upsert("orders", [{"id": 0, "amount": 5}, {"id": 20, "amount": 1}]),
        lambda: main.delete("orders", [*everything, 20]),
    )
    for change in changes:
        change()
        assert {run.strategy for run in shop.propagate()}.isdisjoint({"full"})
        for name, query in KEPT.items():
            held = shop.branch(name).table(name).to_arrow().to_pylist()
            wanted = main.sql(query, engine="spark").to_arrow().to_pylist()
            assert sorted(map(str, held)) == sorted(map(str, wanted)), name


def test_a_function_of_data_frames(spark: SparkSession, shop: livingdb.Database) -> None:
    main = shop.branch("main")
    made = main.derive("features", spark=f"{HERE}:by_city", params={"least": 30}, key="city")
    assert made.table("features").key == ("city",)
    assert made.table("features").get("Oslo") == {"city": "Oslo", "total": 90}
    bag = main.derive("bag", spark=f"{HERE}:by_city")
    assert bag.table("bag").key == ()
    main.update("orders", [{"id": 0, "amount": 1000}])
    runs = {name: shop.refresh(name) for name in ("features", "bag")}
    assert runs["features"].engine == "spark"
    assert made.table("features").get("Oslo") == {"city": "Oslo", "total": 1090}
    changed = shop.diff("features~1", "features")["features"].to_arrow()
    assert changed.column("city").to_pylist() == ["Oslo"]
    main.derive("model", model=f"{HERE}:of_frames")
    assert shop.at("model").artifact() == b"9"
    with pytest.raises(InvalidData, match="returned int, not a data frame"):
        main.derive("none", spark=f"{HERE}:no_frame")


@pytest.mark.slow
def test_a_continuous_query(spark: SparkSession, shop: livingdb.Database, tmp_path: Path) -> None:
    """A stream feeds a branch, views on it follow, and another stream reads what they become."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    main = shop.branch("main")
    query = "SELECT city, count(*) AS n, sum(amount) AS total FROM orders GROUP BY city"
    main.derive("now", query, when="immediate")
    main.derive("soon", query, when="deferred", engine="embedded")
    source = tmp_path / "source"
    source.mkdir()
    schema = "id bigint, city string, amount bigint"
    for number in range(2):
        ids = list(range(100 * number, 100 * number + 150))
        rows = {"id": ids, "city": ["Oslo", "Bern", None] * 50, "amount": [number] * 150}
        pq.write_table(pa.table(rows), source / f"{number}.parquet")
        frame = spark.readStream.schema(schema).parquet(str(source))
        filled = (
            frame.writeStream.format("livingdb")
            .option("table", "orders")
            .option("path", shop.name)
            .option("checkpointLocation", str(tmp_path / "in"))
            .trigger(availableNow=True)
            .start()
        )
        filled.awaitTermination()
        assert filled.exception() is None
        wanted = main.sql(query + " ORDER BY city").to_arrow().to_pylist()
        assert main.sql("SELECT * FROM now ORDER BY city").to_arrow().to_pylist() == wanted
        assert shop.at("now").sources == {"main": main.head.id}
        assert shop.sync("soon").lag == 1
        assert [run.name for run in shop.propagate()] == ["soon"]
        assert main.sql("SELECT * FROM soon ORDER BY city").to_arrow().to_pylist() == wanted
    feed = (
        spark.read.format("livingdb")
        .option("readChangeFeed", "true")
        .option("startingVersion", "now~2")
        .option("branch", "now")
        .option("table", "now")
        .load(shop.name)
    )
    assert {row["city"] for row in feed.collect()} == {"Oslo", "Bern", "Rome", None}
