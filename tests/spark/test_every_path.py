"""What is not portable is refused where it is stored, and runs on Spark everywhere else."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import livingdb
from livingdb import Branch
from livingdb.evolution import AddColumn, AddConstraint, SplitTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "id": "int", "s": "string", "d": "double", "f": "float", "m": "decimal(10,2)", "at": "timestamp"
}  # fmt: skip
ROWS = [
    {"id": 1, "s": "ab cd", "d": 2.5, "m": decimal.Decimal("1.10")},
    {"id": 2, "s": "x-y z", "d": 1e20, "m": decimal.Decimal("2.50")},
]
NOT_PORTABLE = "initcap(s) = 'Ab Cd'"
EXPRESSIONS = [
    "substring(s, 0, 2)", "round(d)", "concat(NULL, s)", "initcap(s)", "soundex(s)", "d",
    "format_number(d, 1)", "date_format(DATE'2026-11-16', 'EEEE')", "levenshtein(s, 'ab')",
    "m / 3", "split(s, ' ')[0]", "d || '!'", "round(2.5d)", "try_divide(1, 0)",
]  # fmt: skip
"""Where the engines differ, or only Spark has the function."""
VALUE = f"to_json(array({', '.join(f'CAST({one} AS string)' for one in EXPRESSIONS)}))"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    path = tmp_path_factory.mktemp("paths")
    with livingdb.create(path / "shop.ldb", author="ann") as database:
        main = database.branch("main")
        main.create_table("t", COLUMNS, key="id")
        main.insert("t", ROWS)
        yield database


@pytest.fixture
def main(db: livingdb.Database, spark: SparkSession, request: pytest.FixtureRequest) -> Branch:
    """A branch of its own for each test."""
    return db.branch("main").clone(request.node.name)


def test_the_same_value_on_every_path(main: Branch, spark: SparkSession) -> None:
    """In queries, transactions, WHERE, INSERT, UPDATE, DELETE and MERGE."""
    spark.createDataFrame(main.table("t").to_arrow()).createOrReplaceTempView("t")
    query = f"SELECT {VALUE} AS v FROM t"
    wanted = spark.sql(query).toArrow().column("v").to_pylist()
    assert main.sql(query).to_arrow().column("v").to_pylist() == wanted
    main.create_table("u", {"id": "int", "v": "string"}, key="id")
    with main.transaction() as tx:
        tx.delete("t", [2])
        tx.upsert("t", [{**ROWS[1], "id": 3}])
        assert tx.sql(query).to_arrow().column("v").to_pylist() == wanted
        tx.sql(f"INSERT INTO u SELECT id, {VALUE} FROM t")
        assert tx.table("u").to_arrow().column("v").to_pylist() == wanted
        assert tx.sql(f"DELETE FROM t WHERE id = 3 AND {VALUE} = :v", {"v": wanted[0]}).changed == 0
    quoted = wanted[1].replace("\\", "\\\\").replace("'", "''")
    found = main.table("t").to_arrow(columns=["id"], where=f"{VALUE} = '{quoted}'")
    assert found.column("id").to_pylist() == [3]
    main.sql("UPDATE u SET v = 'none'")
    main.sql(f"MERGE INTO u USING t ON u.id = t.id WHEN MATCHED THEN UPDATE SET v = {VALUE}")
    assert main.table("u").to_arrow().column("v").to_pylist() == wanted
    assert main.sql(f"UPDATE t SET s = {VALUE}").engine == "spark"
    assert main.table("t").to_arrow().column("s").to_pylist() == wanted


def test_a_condition_that_fails_names_the_value(main: Branch) -> None:
    with pytest.raises(livingdb.InvalidData, match="ab cd"):
        main.table("t").to_arrow(where="s = 5 AND CAST(s AS INT) = 5")


def test_deletes(main: Branch) -> None:
    assert main.sql(f"DELETE FROM t WHERE id = 1 AND id = 2 AND {NOT_PORTABLE}").changed == 0
    assert main.sql(f"DELETE FROM t WHERE {NOT_PORTABLE}").changed == 1
    assert [row["id"] for row in main.sql("SELECT id FROM t")] == [2]


def test_what_cannot_be_computed_is_an_error(main: Branch) -> None:
    for text in (
        "SELECT 1 / 0",
        "SELECT soundex(s), 1 / 0 FROM t",
        "UPDATE t SET d = 1 / 0",
        "UPDATE t SET s = soundex(1 / 0)",
        "DELETE FROM t WHERE soundex(s) = 1 / 0",
    ):
        with pytest.raises(livingdb.LivingDBError, match=r"(?i)zero|cast|mismatch"):
            main.sql(text)


def test_assignments_are_sparks(main: Branch) -> None:
    """A double as text, moments that are written loosely, numbers as floats."""
    main.sql("INSERT INTO t (id, s, at, f) VALUES (7, 1e20d, '2026-11-16 10:30', 1.1)")
    main.sql("UPDATE t SET at = :at, m = :m WHERE id = 2", {"at": "2026-01-01T00:00:00Z", "m": 3})
    found = main.sql("SELECT s, CAST(at AS string) AS at, f FROM t WHERE id = 7", engine="spark")
    row = next(iter(found))
    assert (row["s"], row["at"]) == ("1.0E20", "2026-11-16 10:30:00")
    assert main.sql("INSERT INTO t (id, s) VALUES (8, 'x'), (9, NULL)").engine == "embedded"
    assert main.sql("UPDATE t SET at = '2026-01-01 00:00:00'").engine == "embedded"
    assert main.sql("UPDATE t SET s = soundex(s)").engine == "spark"


def test_what_is_stored_is_refused_when_it_is_defined(main: Branch, db: livingdb.Database) -> None:
    value, view = "initcap(s)", "v_stored"
    query = f"SELECT id, s FROM {view} WHERE {NOT_PORTABLE}"
    wrong = livingdb.condition.sql(query)
    for define in (
        lambda: main.evolve(AddConstraint("t", check=NOT_PORTABLE)),
        lambda: main.evolve(AddColumn("t", "c", "string", computed=value)),
        lambda: main.evolve(AddColumn("t", "c", "string", up=value)),
        lambda: main.evolve(SplitTable("t", {"a": NOT_PORTABLE, "b": f"NOT ({NOT_PORTABLE})"})),
        lambda: main.sql(f"CREATE TABLE u (id INT PRIMARY KEY, s STRING, CHECK ({NOT_PORTABLE}))"),
        lambda: main.sql("ALTER TABLE t ADD COLUMN c STRING DEFAULT initcap('x')"),
        lambda: main.derive(view, f"SELECT id, {value} AS c FROM t", when="immediate", key="id"),
        lambda: main.derive(view, "SELECT id, s FROM t", when="immediate", conditions=[wrong]),
    ):
        with pytest.raises(livingdb.LivingDBError, match="initcap"):
            define()
    main.derive(view, "SELECT id, s FROM t WHERE id = 2", when="on demand", conditions=[wrong])
    with pytest.raises(livingdb.Unsupported, match=r"initcap.*immediate"):
        db.sync(view).alter(when="immediate")
    main.upsert("t", [{**ROWS[0], "id": 2}])
    db.refresh(view)
    assert "initcap" in db.sync(view).reason


def test_the_option_where_is_portable(db: livingdb.Database, spark: SparkSession) -> None:
    read = spark.read.format("livingdb").option("table", "t").option("where", NOT_PORTABLE)
    with pytest.raises(Exception, match="initcap"):
        read.load(str(db.name)).count()
