"""The same statement on either engine, and who is chosen when nobody says."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.thinned import thinned

import livingdb
import livingdb.spark
from livingdb.engines import engine_choice as choosing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(db: livingdb.Database, spark: SparkSession) -> livingdb.Branch:
    main = db.branch("main")
    schema = {"shop": "string", "id": "bigint", "amount": "decimal(10,2)", "Odd, name": "int"}
    main.create_table("orders", schema, key=["shop", "id"])
    rows = pa.table(
        {
            "shop": ["Oslo", "Ærø", "Oslo", "Bodø"],
            "id": [1, 2, 3, 4],
            "amount": ["1.50", None, "3.25", "4.00"],
            "Odd, name": [1, None, 3, 4],
        }
    )
    main.insert("orders", rows.set_column(2, "amount", rows["amount"].cast(pa.decimal128(10, 2))))
    dev = main.clone("dev")
    dev.sql("UPDATE orders SET amount = 9 WHERE id = 1")
    return main


QUERIES = [
    "SELECT shop, sum(amount) AS total, count(*) AS n FROM orders GROUP BY shop ORDER BY shop",
    "SELECT * FROM orders ORDER BY id",
    "SELECT count(*) FROM orders",
    "SELECT d.id, d.amount - m.amount AS more FROM dev.orders d JOIN main.orders m "
    "ON d.shop = m.shop AND d.id = m.id WHERE d.amount <> m.amount",
    "SELECT amount FROM orders VERSION AS OF 'dev' WHERE id = 1",
    "SELECT max(`Odd, name`) AS odd FROM orders WHERE shop >= 'Oslo'",
    "WITH o AS (SELECT shop FROM orders) SELECT shop, count(*) FROM o GROUP BY shop ORDER BY 1",
    "SELECT author, count(*) AS n FROM livingdb.log GROUP BY author",
]


@pytest.mark.parametrize("text", thinned(QUERIES))
def test_both_give_the_same(shop: livingdb.Branch, text: str) -> None:
    answers = [shop.sql(text, engine=engine) for engine in ("embedded", "spark")]
    assert [answer.engine for answer in answers] == ["embedded", "spark"]
    one, other = (answer.to_arrow() for answer in answers)
    assert one.schema.types == other.schema.types
    assert one.to_pylist() == other.to_pylist()
    assert shop.sql(text).to_arrow().equals(one)


def test_a_data_frame_over_a_branch(shop: livingdb.Branch, spark: SparkSession) -> None:
    db = shop.database
    frame = livingdb.spark.sql(
        db, "dev", "SELECT id, amount FROM orders WHERE id <= :most", {"most": 2}
    )
    before = frame.orderBy("id").collect()
    assert [(row["id"], str(row["amount"])) for row in before] == [(1, "9.00"), (2, "None")]
    db.branch("dev").delete("orders", [("Oslo", 1)])
    assert frame.orderBy("id").collect() == before  # what it holds was settled when it was made
    assert livingdb.spark.sql(db, db.at("dev~1"), "SELECT * FROM orders", spark=spark).count() == 4
    filtered = livingdb.spark.sql(db, "main", "SELECT * FROM orders").where("id = 3")
    assert filtered.count() == 1
    with pytest.raises(livingdb.Unsupported, match=r"branch\.sql"):
        livingdb.spark.sql(db, "main", "DELETE FROM orders")
    with pytest.raises(livingdb.NotFound, match="ordrs"):
        livingdb.spark.sql(db, "main", "SELECT * FROM ordrs")
    views = [table.name for table in spark.catalog.listTables()]
    assert not [name for name in views if name.startswith("livingdb")]


def test_what_only_spark_can_goes_to_spark(
    shop: livingdb.Branch, caplog: pytest.LogCaptureFixture
) -> None:
    text = "SELECT percentile_approx(amount, 0.5) AS middle FROM orders"
    with caplog.at_level(logging.WARNING, "livingdb"):
        answer = shop.sql(text)
    assert answer.engine == "spark"
    assert "runs on Spark" in caplog.text
    assert "percentile_approx" in caplog.text
    assert str(answer.to_arrow()["middle"][0]) == "3.25"
    with shop.transaction() as tx:
        assert tx.sql("SELECT count(*) AS n FROM orders").engine == "embedded"
    assert shop.sql(text, engine="auto").engine == "spark"


def test_names_in_a_transaction_mean_what_they_meant(shop: livingdb.Branch) -> None:
    """Its own branch, by name too, with what it has written; another one where it was."""
    dev = shop.database.branch("dev")
    row = {"id": 900, "shop": "new"}
    tx = shop.transaction(isolation="serializable")
    tx.insert("orders", [row])
    text = "SELECT (SELECT count(*) FROM {0}.orders) - (SELECT count(*) FROM {1}.orders) AS n"
    asked = text.format(shop, dev)
    shop.insert("orders", [{**row, "id": 901}])
    assert tx.sql(asked, engine="spark").to_arrow()["n"].to_pylist() == [1]
    dev.insert("orders", [row])
    for engine in ("embedded", "spark"):
        assert tx.sql(asked, engine=engine).to_arrow()["n"].to_pylist() == [1]
    with pytest.raises(livingdb.TransactionConflict, match="serializable"):
        tx.commit()


def test_percentiles_are_those_of_spark(shop: livingdb.Branch) -> None:
    """The continuous and the discrete one are neither the approximate one nor each other."""
    shop.sql("CREATE TABLE numbers (id BIGINT PRIMARY KEY, g STRING)")
    shop.insert("numbers", [{"id": n, "g": "ab"[n > 3]} for n in (1, 2, 4, 9)])
    text = (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) AS c, "
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY id DESC) AS d, "
        "percentile_approx(id, 0.5) AS a, "
        "percentile_cont(0.25) WITHIN GROUP (ORDER BY id) FILTER (WHERE id > 1) AS f FROM numbers"
    )
    answer = shop.sql(text, engine="spark")
    assert answer.to_arrow().to_pylist() == [{"c": 3.0, "d": 4.0, "a": 2, "f": 3.0}]
    plain = shop.sql("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM numbers")
    name = "percentile_cont(0.5) WITHIN GROUP (ORDER BY id)"
    assert plain.to_arrow().to_pylist() == [{name: 3.0}]


def test_a_database_has_an_engine(shop: livingdb.Branch) -> None:
    with livingdb.open(shop.database.name, engine="spark") as db:
        assert db.branch("main").sql("SELECT 1 AS one").engine == "spark"
        assert db.at("main").sql("SELECT 1 AS one", engine="embedded").engine == "embedded"
    with pytest.raises(livingdb.InvalidData, match="engine 'duck'"):
        shop.sql("SELECT 1", engine="duck")


def test_the_pipeline_runs_on_spark_unless_the_input_is_small(shop: livingdb.Branch) -> None:
    from livingdb.database.sql_scope import BranchScope
    from livingdb.sql.parse import parse_statement
    from livingdb.sql.planner import Planner

    tree = parse_statement("SELECT sum(amount) AS total FROM orders")
    request = Planner(BranchScope(shop, "", None), {}).request(tree)
    assert choosing.choose_engine(request, None, pipeline=True)[0] == "spark"
    assert choosing.choose_engine(request, "auto", pipeline=True)[0] == "embedded"
    small = choosing.SMALL_ROWS
    try:
        choosing.SMALL_ROWS = 4
        assert choosing.choose_engine(request, "auto", pipeline=True) == (
            "spark",
            "it reads 4 rows",
        )
    finally:
        choosing.SMALL_ROWS = small


def test_errors_of_spark_are_ours(shop: livingdb.Branch) -> None:
    with pytest.raises(livingdb.InvalidData, match="nope"):
        shop.sql("SELECT nope FROM orders", engine="spark")
    with pytest.raises(livingdb.InvalidData, match=r"(?i)divi"):
        shop.sql("SELECT 1 / (id - id) FROM orders", engine="spark")


def test_both_make_the_same_version(shop: livingdb.Branch) -> None:
    """A query's rows as a tree: the same root, whoever built it."""
    from livingdb.database.sql_scope import BranchScope
    from livingdb.engines.engine_choice import load_engine
    from livingdb.sql.parse import parse_statement
    from livingdb.sql.planner import Planner

    tree = parse_statement("SELECT shop, count(*) AS n, max(id) AS id FROM orders GROUP BY shop")
    request = Planner(BranchScope(shop, "", None), {}).request(tree)
    shop.create_table("totals", {"shop": "string", "n": "bigint", "id": "bigint"}, key="shop")
    roots = []
    for name in ("embedded", "spark"):
        with shop.transaction() as tx:
            definition = tx.work.definition("totals")
            url = shop.database._graph.place.files.url
            tx.replace("totals", load_engine(name).tree(request, definition, url))
        roots.append(shop.table("totals").root())
        assert len(shop.table("totals")) == 3
    assert roots[0] == roots[1]
