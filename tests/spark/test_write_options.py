"""The options of writes and reads: known ones do as in Delta, and unknown ones are refused.

The data source itself runs here; Spark is asked how its errors look.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import livingdb
from livingdb import evolution as ev
from livingdb.spark.source import LivingDBSource, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = {"id": [1, 2, 3, 4], "city": ["Oslo", "Bergen", "Oslo", "Bodø"], "n": [1, 2, 3, 4]}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """Four rows."""
    with livingdb.create(tmp_path / "shop.ldb", author="ann") as database:
        main = database.branch("main")
        main.create_table("t", {"id": "bigint", "city": "string", "n": "bigint"}, key="id")
        main.insert("t", ROWS)
        yield database


def source(db: livingdb.Database, **options: str) -> LivingDBSource:
    """The data source as Spark makes it."""
    from pyspark.sql.datasource import CaseInsensitiveDict

    given = {"path": db.name, "table": "t", **options}
    return LivingDBSource(CaseInsensitiveDict(given))


class Write:
    """One write in its two halves: its tasks, and its commit."""

    def __init__(self, db: livingdb.Database, data: dict[str, Any], mode: str, **options: str):
        rows = pa.table(data)
        writer: Any = source(db, **options).writer(spark_schema(rows.schema), mode == "overwrite")
        half = len(rows) // 2
        parts = [rows.slice(0, half), rows.slice(half)]
        self.writer = writer
        self.messages = [writer.write(iter(part.to_batches())) for part in parts]

    def commit(self) -> None:
        self.writer.commit(self.messages)


def write(
    db: livingdb.Database, data: dict[str, Any], mode: str = "append", **options: str
) -> None:
    Write(db, data, mode, **options).commit()


def held(db: livingdb.Database, ref: str = "main") -> list[dict[str, Any]]:
    return db.at(ref).table("t").to_arrow().to_pylist()


# --- options that are none ---------------------------------------------------------------------


@pytest.mark.parametrize("use", ["read", "readStream", "write", "writeStream"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("brnch", "no option 'brnch'; did you mean 'branch'?"),
        ("mergeshema", "did you mean 'mergeSchema'?"),
        ("xyzzy", "there are: author, branch, checkpointLocation, columns"),
    ],
)
def test_an_unknown_option_is_refused(
    db: livingdb.Database, use: str, name: str, says: str
) -> None:
    # All four are made from the options first.
    with pytest.raises(livingdb.InvalidData) as caught:
        source(db, **{name: "dev"})
    assert says in str(caught.value)


def test_an_option_of_something_else_is_refused(db: livingdb.Database) -> None:
    schema = spark_schema(pa.table(ROWS).schema)
    with pytest.raises(livingdb.InvalidData, match=r"'versionAsOf' is for reading \(read and"):
        source(db, versionAsOf="main~1").writer(schema, False)
    with pytest.raises(livingdb.InvalidData, match="'mergeSchema' is for writing"):
        source(db, mergeSchema="true").schema()
    with pytest.raises(livingdb.InvalidData, match="'operation' is for"):
        source(db, operation="upsert").reader(schema)
    with pytest.raises(livingdb.InvalidData, match=r"is for reading \(readStream\)"):
        source(db, maxBytesPerTrigger="1").reader(schema)
    with pytest.raises(livingdb.InvalidData, match="'author' is for"):
        source(db, readChangeFeed="true", author="bob").streamReader(schema)
    with pytest.raises(livingdb.InvalidData, match=r"'replaceWhere' is for writing \(write\)"):
        source(db, checkpointLocation="c", replaceWhere="n = 1").streamWriter(schema, False)


@pytest.mark.parametrize(
    ("mode", "options", "says"),
    [
        ("append", {"mergeSchema": "yes"}, "choose 'true' or 'false'"),
        ("append", {"overwriteSchema": "true"}, "overwriteSchema goes with mode overwrite"),
        ("append", {"replaceWhere": "n = 1"}, "replaceWhere goes with mode overwrite"),
        ("overwrite", {"mergeSchema": "true", "overwriteSchema": "true"}, "exclude each other"),
        ("append", {"mergeSchema": "true", "operation": "delete"}, "keys add no columns"),
        ("append", {"key": "city"}, "the key of table 't' is id, and not city"),
        ("append", {"table": "u"}, r'no table \'u\'.*\.option\("key", …\)'),
        ("append", {"table": "u", "key": "nope"}, "'nope' is not in the data"),
        ("append", {"table": "u", "key": "id", "operation": "delete"}, "there is no table 'u'"),
        ("append", {"branch": "de"}, "no branch"),
        ("overwrite", {"replaceWhere": "nope = 1"}, "no column 'nope'"),
        ("overwrite", {"replaceWhere": "n + 1"}, "true or false"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_the_job(
    db: livingdb.Database, mode: str, options: dict[str, str], says: str
) -> None:
    schema = spark_schema(pa.table(ROWS).schema)
    with pytest.raises(livingdb.LivingDBError, match=says):
        source(db, **options).writer(schema, mode == "overwrite")


def test_columns_and_types_are_checked_before_the_job(db: livingdb.Database) -> None:
    for data, says in [
        ({"id": [9], "town": ["x"]}, "'town' is not in the table.*mergeSchema"),
        ({"id": [9], "n": [b"x"]}, "'n'"),
        ({"city": ["x"]}, "the key column 'id' is missing"),
    ]:
        with pytest.raises(livingdb.InvalidData, match=says):
            source(db).writer(spark_schema(pa.table(data).schema), False)
    db.branch("main").clone("copy", sync="forward")
    with pytest.raises(livingdb.ReadOnlyBranch):
        source(db, branch="copy").writer(spark_schema(pa.table(ROWS).schema), False)


# --- a table that is not there -----------------------------------------------------------------


def test_a_table_that_is_not_there_is_made(db: livingdb.Database) -> None:
    data = {"shop": [1, 2], "id": [1, 1], "v": [None, 2.5]}
    write(db, data, table="made", key="shop, id", message="made")
    main = db.branch("main")
    assert main.table("made").key == ("shop", "id")
    assert main.table("made").get((2, 1)) == {"shop": 2, "id": 1, "v": 2.5}
    assert [(s.edge.kind, s.message) for s in main.log(limit=2)] == [
        ("transaction", "made"),
        ("schema_change", "made"),
    ]
    write(db, {"shop": [3], "id": [1], "v": [0.5]}, table="made", key="shop,id")
    assert len(main.table("made")) == 3
    assert db.check(deep=True).ok


def test_a_table_that_somebody_made_meanwhile(db: livingdb.Database) -> None:
    late = Write(db, {"id": [1]}, "append", table="made", key="id")
    db.branch("main").create_table("made", {"id": "bigint"}, key="id")
    head = db.branch("main").head
    with pytest.raises(livingdb.TransactionConflict, match="'made' was created meanwhile"):
        late.commit()
    assert db.branch("main").head == head


# --- mergeSchema -------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["insert", "upsert", "update"])
def test_new_columns_are_added_with_the_rows(db: livingdb.Database, operation: str) -> None:
    main = db.branch("main")
    before = len(main.log())
    number = 9 if operation == "insert" else 4
    data = {"id": [number], "vat": [0.25], "note": ["new"]}
    write(db, data, operation=operation, mergeSchema="true")
    assert [s.edge.kind for s in main.log(limit=2)] == ["transaction", "schema_change"]
    assert len(main.log()) == before + 2
    table = main.table("t")
    assert table.schema.names == ["id", "city", "n", "vat", "note"]
    kept = {"city": "Bodø", "n": 4} if operation == "update" else {"city": None, "n": None}
    assert table.get(number) == {"id": number, **kept, "vat": 0.25, "note": "new"}
    assert table.get(1) == {"id": 1, "city": "Oslo", "n": 1, "vat": None, "note": None}
    assert set(db.diff("main~2", "main").schema[0].text.split()) >= {"AddColumn", "vat"}
    assert db.check(deep=True).ok


def test_nothing_is_added_if_the_rows_are_refused(db: livingdb.Database) -> None:
    head = db.branch("main").head
    with pytest.raises(livingdb.DuplicateKey):
        write(db, {"id": [1], "vat": [0.25]}, mergeSchema="true")
    assert db.branch("main").head == head


def test_known_columns_need_no_change(db: livingdb.Database) -> None:
    before = len(db.branch("main").log())
    write(db, {"id": [9], "n": [1]}, mergeSchema="true")
    assert len(db.branch("main").log()) == before + 1


def test_a_schema_change_meanwhile(db: livingdb.Database) -> None:
    main = db.branch("main")
    late = Write(db, {"id": [9], "vat": [0.25]}, "append", mergeSchema="true")
    same = Write(db, {"id": [10], "vat": [0.5]}, "append", mergeSchema="true")
    same.commit()
    head = main.head
    with pytest.raises(livingdb.TransactionConflict, match=r"'t'.* write the data frame again"):
        late.commit()
    assert main.head == head
    others = Write(db, {"id": [11], "note": ["x"]}, "append", mergeSchema="true")
    main.insert("t", {"id": [12], "n": [1]})
    main.create_table("u", {"id": "bigint"}, key="id")
    others.commit()
    assert main.table("t").get(11)["note"] == "x"  # type: ignore[index]
    assert main.table("t").get(12)["n"] == 1  # type: ignore[index]


def test_on_a_branch_with_views_and_a_replica(db: livingdb.Database) -> None:
    main = db.branch("main")
    dev = main.clone("dev")
    dev.clone("copy", sync="forward")
    dev.derive("sums", sql="SELECT city, sum(n) AS n FROM t GROUP BY city", when="immediate")
    write(db, {"id": [9], "n": [5], "vat": [1.5]}, branch="dev", mergeSchema="true")
    assert main.table("t").schema.names == ["id", "city", "n"]
    assert held(db, "copy") == held(db, "dev")
    assert held(db, "copy")[-1] == {"id": 9, "city": None, "n": 5, "vat": 1.5}
    assert sorted(db.at("sums").table("sums").to_arrow()["n"].to_pylist()) == [2, 4, 4, 5]
    assert {sync.state for sync in db.syncs()} == {"active"}
    assert db.check(deep=True).ok


def test_the_side_of_a_two_way_sync_keeps_its_schema(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(ev.RenameColumn("t", "n", "count"), keep="old", sync="both")
    schema = spark_schema(pa.table({"id": [9], "vat": [0.25]}).schema)
    with pytest.raises(livingdb.RuleViolation, match="rule 4: 'main' is in the sync"):
        source(db, mergeSchema="true").writer(schema, False)
    write(db, {"id": [9], "count": [7]})
    assert db.at("old").table("t").get(9) == {"id": 9, "city": None, "n": 7}


def test_batches_of_a_stream_add_a_column_once(db: livingdb.Database) -> None:
    main = db.branch("main")
    rows = [pa.table({"id": [number], "vat": [0.5]}) for number in (9, 10)]
    options = {"checkpointLocation": "s", "mergeSchema": "true"}
    sink: Any = source(db, **options).streamWriter(spark_schema(rows[0].schema), False)
    for number, part in enumerate(rows):
        sink.commit([sink.write(iter(part.to_batches()))], number)
    kinds = [s.edge.kind for s in main.log(limit=3)]
    assert kinds == ["transaction", "transaction", "schema_change"]
    head = main.head
    sink.commit([sink.write(iter(rows[1].to_batches()))], 1)
    assert main.head == head
    assert [main.table("t").get(n)["vat"] for n in (9, 10)] == [0.5, 0.5]  # type: ignore[index]


def test_a_feed_over_schema_changes_has_the_columns_of_now(db: livingdb.Database) -> None:
    main = db.branch("main")
    start = main.head.id
    write(db, {"id": [9], "n": [5]})
    main.evolve(ev.RenameColumn("t", "n", "count"))
    write(db, {"id": [10], "count": [6], "vat": [0.5]}, mergeSchema="true")
    feed = source(db, readChangeFeed="true", startingVersion=f"id:{start}")
    reader = feed.reader(feed.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    told = [(row["id"], row["count"], row["vat"], row["_change_type"]) for row in rows]
    assert told[0] == (9, 5, None, "insert")
    assert told[-1] == (10, 6, 0.5, "insert")


# --- overwrite ---------------------------------------------------------------------------------


def test_replace_where_replaces_what_satisfies_it(db: livingdb.Database) -> None:
    data = {"id": [1, 7], "city": ["Oslo", "Oslo"], "n": [10, 70]}
    write(db, data, "overwrite", replaceWhere="CITY = 'Oslo'")
    assert [(row["id"], row["n"]) for row in held(db)] == [(1, 10), (2, 2), (4, 4), (7, 70)]
    assert db.branch("main").head.edge.operation == "overwrite"
    head = db.branch("main").head
    with pytest.raises(livingdb.InvalidData, match="the row with the key id=8 does not satisfy"):
        write(db, {"id": [8], "city": ["Bodø"]}, "overwrite", replaceWhere="city = 'Oslo'")
    with pytest.raises(livingdb.DuplicateKey, match="id=2 is that of a row that stays"):
        write(db, {"id": [2], "city": ["Oslo"]}, "overwrite", replaceWhere="city = 'Oslo'")
    assert db.branch("main").head == head
    none = pa.array([], pa.int64())
    write(db, {"id": none, "n": none}, "overwrite", replaceWhere="n >= 10")
    assert [row["id"] for row in held(db)] == [2, 4]


def test_replace_where_with_new_columns_on_a_branch(db: livingdb.Database) -> None:
    db.branch("main").clone("dev").clone("copy", sync="forward")
    data = {"id": [1], "city": ["Oslo"], "vat": [0.5]}
    options = {"branch": "dev", "mergeSchema": "true"}
    with pytest.raises(livingdb.InvalidData, match="does not satisfy"):
        write(db, data, "overwrite", replaceWhere="vat IS NULL", **options)
    write(db, data, "overwrite", replaceWhere="city = 'Oslo' OR vat > 0", **options)
    assert [(row["id"], row["vat"]) for row in held(db, "dev")] == [(1, 0.5), (2, None), (4, None)]
    assert held(db, "copy") == held(db, "dev")
    assert held(db) == pa.table(ROWS).to_pylist()


def test_overwrite_schema_keeps_what_stays(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.derive("sums", sql="SELECT id, n FROM t", when="immediate")
    data = {"n": [7, 8], "id": [1, 9], "city": [5, 6], "vat": [0.5, None]}
    write(db, data, "overwrite", overwriteSchema="true")
    assert held(db)[0] == {"n": 7, "id": 1, "city": 5, "vat": 0.5}
    assert main.table("t").schema.names == ["n", "id", "city", "vat"]
    assert db.at("sums").table("sums").to_arrow().to_pylist() == [
        {"id": 1, "n": 7},
        {"id": 9, "n": 8},
    ]
    assert db.sync("sums").state == "active"
    assert held(db, "main~2")[0] == {"id": 1, "city": "Oslo", "n": 1}
    with pytest.raises(livingdb.InvalidData, match="'other' is not in the table"):
        write(db, {"id": [1], "other": [1]}, "overwrite")
    assert db.check(deep=True).ok


def test_overwrite_schema_with_another_key_makes_the_table_anew(db: livingdb.Database) -> None:
    write(db, {"code": ["a"], "n": [1]}, "overwrite", overwriteSchema="true", key="code")
    main = db.branch("main")
    assert (main.table("t").key, held(db)) == (("code",), [{"code": "a", "n": 1}])
    with pytest.raises(livingdb.InvalidData, match="the key column 'code' is not in the data"):
        write(db, {"id": [1]}, "overwrite", overwriteSchema="true")
    late = Write(db, {"code": ["b"]}, "overwrite", overwriteSchema="true")
    main.evolve(ev.AddColumn("t", "note", "string"))
    with pytest.raises(livingdb.TransactionConflict):
        late.commit()
    assert db.check(deep=True).ok


# --- how mistakes look -------------------------------------------------------------------------


@pytest.mark.slow
def test_mistakes_end_in_one_line(spark: SparkSession, db: livingdb.Database) -> None:
    def message(do: Any) -> str:
        with pytest.raises(Exception, match="livingdb") as caught:
            do()
        text = str(caught.value)
        assert "Traceback" not in text
        assert "\tat " not in text
        lines = [line for line in text.splitlines() if "SQLSTATE" not in line]
        assert len(lines) <= 2, text
        return text

    read = spark.read.format("livingdb").option("table", "t")
    frame = spark.range(3).selectExpr("id + 10 AS id", "1L AS n")
    append = frame.write.format("livingdb").mode("append").option("table", "t")
    assert "did you mean 'branch'?" in message(lambda: read.option("brnach", "x").load(db.name))
    reader = spark.readStream.format("livingdb").option("readChangeFeed", "true")
    mistyped = reader.option("table", "t").option("brnch", "dev")
    assert "did you mean 'branch'?" in message(lambda: mistyped.load(db.name))
    assert "did you mean 'branch'?" in message(lambda: append.option("brnch", "x").save(db.name))
    present = frame.selectExpr("id - 9 AS id", "n").write.format("livingdb").mode("append")
    assert "has the key 1 already" in message(lambda: present.option("table", "t").save(db.name))
    empty = frame.selectExpr("nullif(id, 11) AS id", "n").write.format("livingdb").mode("append")
    assert "NOT NULL" in message(lambda: empty.option("table", "t").save(db.name))
    assert held(db)[-1]["id"] == 4


@pytest.mark.slow
def test_all_of_it_through_spark(
    spark: SparkSession, db: livingdb.Database, tmp_path: Path
) -> None:
    main = db.branch("main")
    frame = spark.range(10, 30).selectExpr("id", "id AS n", "'Vik' AS city", "id * 0.5D AS vat")
    writer = frame.write.format("livingdb").option("table", "t")
    writer.mode("append").option("mergeSchema", "true").save(db.name)
    assert main.table("t").get(29) == {"id": 29, "city": "Vik", "n": 29, "vat": 14.5}
    fewer = frame.where("id < 15").write.format("livingdb").option("table", "t")
    fewer.mode("overwrite").option("replaceWhere", "city = 'Vik'").save(db.name)
    assert [row["id"] for row in held(db)] == [1, 2, 3, 4, 10, 11, 12, 13, 14]
    stream = (
        spark.readStream.format("livingdb")
        .option("readChangeFeed", "true")
        .option("table", "t")
        .option("maxSnapshotsPerTrigger", "3")
        .load(db.name)
    )
    kept = stream.where("_change_type = 'insert'").select("id", "vat")
    query = (
        kept.writeStream.format("livingdb")
        .option("table", "made")
        .option("key", "id")
        .option("path", db.name)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None
    assert main.table("made").key == ("id",)
    assert len(main.table("made")) == 24
    assert db.check().ok
