"""What SQL may call on Spark, compared with what Spark has, and with what it would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.thinned import thinned

import livingdb
import livingdb.spark
from livingdb.derivation import plan_cache as compiling
from livingdb.engines import trust
from livingdb.engines.spark_functions import ALLOWED, REFUSED
from livingdb.errors import LivingDBError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTY = "livingdb.stranger"
CALL = f"reflect('java.lang.System', 'setProperty', '{PROPERTY}', 'was here')"
"""Leaves a trace in the process if it is ever called."""
LITERALS = ("${env:HOME}", "${spark.app.name}", "${hiveconf:x}")
SHOWN = ", ".join(f"'{text}' AS c{at}" for at, text in enumerate(LITERALS))
EXPECTED = [{f"c{at}": text for at, text in enumerate(LITERALS)}]


@pytest.fixture
def orders(db: livingdb.Database, spark: SparkSession) -> Iterator[livingdb.Database]:
    """A database with a table of one row; no stranger was here before or after."""
    main = db.branch("main")
    main.create_table("orders", {"id": "bigint", "city": "string", "user": "string"}, key="id")
    main.insert("orders", [{"id": 1, "city": "Oslo", "user": "ann"}])
    system = spark._jvm.java.lang.System
    system.clearProperty(PROPERTY)
    yield db
    assert system.getProperty(PROPERTY) is None


@contextmanager
def unchecked(spark: SparkSession) -> Iterator[None]:
    """As in a version that lets every function pass; what it did is forgotten."""

    def passing(name: str, trust: Sequence[str]) -> None:
        """Nothing is refused."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trust, "_check_name", passing)
        yield
    assert spark._jvm.java.lang.System.clearProperty(PROPERTY) == "was here"
    compiling._cached_plan.cache_clear()
    compiling._cached_columns.cache_clear()


# --- the lists ----------------------------------------------------------------------------------


def _names(registry: Any) -> set[str]:
    found = registry.listFunction().iterator()
    names = set()
    while found.hasNext():
        names.add(found.next().funcName())
    return names


def test_every_function_of_spark_is_allowed_or_refused(spark: SparkSession) -> None:
    analysis = spark._jvm.org.apache.spark.sql.catalyst.analysis
    builtin = _names(analysis.FunctionRegistry.builtin())
    builtin |= _names(analysis.TableFunctionRegistry.builtin())
    shown = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert len(builtin) > 500
    assert (builtin | shown) - ALLOWED - set(REFUSED) == set(), "decide about these"
    assert ALLOWED | set(REFUSED) <= builtin | shown, "Spark has no more of these"


@pytest.mark.parametrize("name", thinned(sorted(REFUSED), every=6))
def test_a_refused_function_is_not_reached_without_parentheses(
    orders: livingdb.Database, spark: SparkSession, name: str
) -> None:
    for text in (f"SELECT `{name}`", f"SELECT {name} FROM (SELECT city FROM orders)"):
        with pytest.raises(LivingDBError):
            livingdb.spark.sql(orders, "main", text, spark=spark).collect()


# --- calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {CALL} AS x FROM orders",
        f"SELECT id FROM orders WHERE {CALL} IS NULL",
        f"SELECT x FROM (SELECT {CALL} AS x FROM orders) LIMIT 1",
        "SELECT TRANSFORM(id) USING 'cat' AS (x) FROM orders",
        "SELECT xpath_string('<!DOCTYPE a SYSTEM \"http://127.0.0.1:1/x\"><a/>', 'a') FROM orders",
        "SELECT my_own(id) FROM orders",
    ],
)
def test_nothing_foreign_runs_on_spark(
    orders: livingdb.Database, spark: SparkSession, text: str
) -> None:
    spark.udf.register("my_own", lambda value: f"mine {value}")
    main = orders.branch("main")
    with pytest.raises(livingdb.Untrusted):
        main.sql(text, engine="spark")
    with pytest.raises(livingdb.Untrusted):
        orders.at("main").sql(text, engine="spark")
    with pytest.raises(livingdb.Untrusted):
        livingdb.spark.sql(orders, "main", text, spark=spark)
    with pytest.raises(livingdb.Untrusted):
        main.derive("v", sql=text, engine="spark")


def test_a_file_is_no_table(orders: livingdb.Database, spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "secret.txt"
    place.write_text("hush")
    spark.createDataFrame([(1,)], "hush int").createOrReplaceTempView("of_the_session")
    for table in (f"text.`{place}`", f"csv.`{place}`", "of_the_session", f"`{place}`"):
        with pytest.raises(LivingDBError) as caught:
            orders.branch("main").sql(f"SELECT * FROM {table}", engine="spark")
        assert "hush" not in str(caught.value)
    spark.catalog.dropTempView("of_the_session")


def test_a_function_of_the_session_runs_where_it_is_trusted(
    orders: livingdb.Database, spark: SparkSession
) -> None:
    spark.udf.register("my_own", lambda value: f"mine {value}")
    place = orders._graph.place.url
    orders.branch("main").insert("orders", [{"id": 2, "city": "Rome", "user": "bob"}])
    with livingdb.open(place, trust=["spark:my_own"]) as db:
        main = db.branch("main")
        expected = [{"id": 1, "x": "mine 1"}, {"id": 2, "x": "mine 2"}]
        text = "SELECT id, my_own(id) AS x FROM orders ORDER BY id"
        assert list(main.sql(text, engine="spark")) == expected
        main.derive("v", sql="SELECT id, my_own(id) AS x FROM orders", when="deferred", key="id")
        assert db.at("v").table("v").to_arrow().to_pylist() == expected
        main.insert("orders", [{"id": 3, "city": "Bonn", "user": "cid"}])
    with livingdb.open(place) as db:
        with pytest.raises(livingdb.Untrusted, match="my_own"):
            db.refresh("v")
        (outcome,) = db.propagate()
        assert "my_own" in str(outcome.error)
        assert db.sync("v").state == "active"
    with livingdb.open(place, trust=["spark:my_*"]) as db:
        db.propagate()
        assert db.at("v").table("v").get(3) == {"id": 3, "x": "mine 3"}


def test_a_variable_of_the_session_is_not_read(
    orders: livingdb.Database, spark: SparkSession
) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE hush STRING DEFAULT 'secret'")
    try:
        for name in ("hush", "session.hush", "system.session.HUSH"):
            with pytest.raises(LivingDBError, match=r"(?i)hush") as caught:
                orders.branch("main").sql(f"SELECT {name} FROM orders", engine="spark")
            assert "secret" not in str(caught.value)
        found = orders.branch("main").sql("SELECT city AS town, user FROM orders", engine="spark")
        assert list(found) == [{"town": "Oslo", "user": "ann"}]
    finally:
        spark.sql("DROP TEMPORARY VARIABLE hush")


# --- a stranger's database ----------------------------------------------------------------------


def test_a_view_of_a_stranger_is_not_run(orders: livingdb.Database, spark: SparkSession) -> None:
    main = orders.branch("main")
    with unchecked(spark):
        main.derive("v", sql=f"SELECT id, {CALL} AS x FROM orders", when="deferred", key="id")
    main.insert("orders", [{"id": 2, "city": "Rome", "user": "bob"}])
    with livingdb.open(orders._graph.place.url, trust=[]) as db:
        for full in (False, True):
            with pytest.raises(livingdb.Untrusted, match="'reflect'"):
                db.refresh("v", full=full)
        (outcome,) = db.propagate()
        assert outcome.snapshot is None
        assert "'reflect'" in str(outcome.error)
        with pytest.raises(livingdb.Untrusted, match="'reflect'"):
            db.derived_at("v", source="main")
        assert db.at("v").table("v").to_arrow().num_rows == 1
        assert db.sync("v").lag


# --- ${…} ---------------------------------------------------------------------------------------


@pytest.fixture
def substituting(spark: SparkSession) -> Iterator[SparkSession]:
    """The session as its user set it: `${…}` is replaced."""
    spark.conf.set("spark.sql.variable.substitute", "true")
    assert spark.sql("SELECT '${spark.app.name}'").first()[0] == "livingdb"  # type: ignore[index]
    yield spark
    spark.conf.set("spark.sql.variable.substitute", "false")


def test_variables_are_plain_text(orders: livingdb.Database, substituting: SparkSession) -> None:
    main = orders.branch("main")
    text = f"SELECT {SHOWN} FROM orders"
    assert list(main.sql(text)) == EXPECTED
    assert list(main.sql(text, engine="spark")) == EXPECTED
    main.sql("UPDATE orders SET city = '${env:HOME}'")
    assert list(main.sql("SELECT city FROM orders")) == [{"city": "${env:HOME}"}]


def test_variables_are_plain_text_in_frames(
    orders: livingdb.Database, substituting: SparkSession
) -> None:
    text = f"SELECT {SHOWN} FROM orders"
    frame = livingdb.spark.sql(orders, "main", text, spark=substituting)
    substituting.conf.set("spark.sql.variable.substitute", "true")
    assert [row.asDict() for row in frame.collect()] == EXPECTED
    found = livingdb.spark.sql(orders, "main", "SELECT '${env:HOME}' FROM orders")
    assert found.columns == ["${env:HOME}"]


def test_variables_are_plain_text_in_views(
    orders: livingdb.Database, substituting: SparkSession
) -> None:
    main = orders.branch("main")
    main.derive("v", sql=f"SELECT id, {SHOWN} FROM orders", when="deferred", engine="spark")
    main.insert("orders", [{"id": 2, "city": "Rome", "user": "bob"}])
    substituting.conf.set("spark.sql.variable.substitute", "true")
    orders.refresh("v")
    found = orders.at("v").table("v").to_arrow().to_pylist()
    assert found == [{"id": key, **EXPECTED[0]} for key in (1, 2)]
    orders.refresh("v", full=True)
    assert orders.at("v").table("v").to_arrow().to_pylist() == found


def test_a_column_may_be_called_like_a_variable(
    orders: livingdb.Database, substituting: SparkSession
) -> None:
    text = "SELECT x.`${env:HOME}` AS c FROM (SELECT id AS `${env:HOME}` FROM orders) AS x"
    assert list(orders.branch("main").sql(text, engine="spark")) == [{"c": 1}]


def test_variables_stay_off_in_a_batch_of_a_stream(
    orders: livingdb.Database, substituting: SparkSession, tmp_path: Path
) -> None:
    url = orders._graph.place.url
    seen: list[dict[str, Any]] = []

    def ask(batch: Any, number: int) -> None:
        """Queries on the session of the stream."""
        with livingdb.open(url) as db:
            text = f"SELECT {SHOWN} FROM orders"
            frame = livingdb.spark.sql(db, "main", text, spark=batch.sparkSession)
            seen.extend(row.asDict() for row in frame.collect())

    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "one.txt").write_text("a line")
    feed = substituting.readStream.text(str(tmp_path / "lines"))
    stream = feed.writeStream.foreachBatch(ask).option("checkpointLocation", str(tmp_path / "c"))
    stream.trigger(availableNow=True).start().awaitTermination()
    assert seen == EXPECTED
