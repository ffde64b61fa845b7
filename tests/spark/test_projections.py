"""Tables that Spark reads natively: the same rows as the trees hold, whatever became of them."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.maintenance.canary import places_of

import livingdb
import livingdb.spark
from livingdb.evolution import AddColumn, DropColumn, MaskColumn, RenameColumn, RetypeColumn
from livingdb.graph.storage import projections
from livingdb.spark import project_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC = datetime.UTC


def rows_of(table: pa.Table) -> list[str]:
    """Rows as text, in an order of their own: NaN is NaN, and -0.0 is not 0.0."""
    return sorted(repr(row) for row in table.to_pylist())


def check_frame(frame: DataFrame, table: Any) -> None:
    """A data frame has the rows and columns that the table has."""
    expected = table.to_arrow()
    assert frame.columns == expected.column_names
    assert rows_of(frame.toArrow().cast(expected.schema)) == rows_of(expected)


def files_of(db: livingdb.Database) -> set[str]:
    """The files of projections that are there."""
    folder = Path(db.name) / "projections"
    return {path.stem for path in folder.glob("*.parquet")} if folder.exists() else set()


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Subtrees of a few hundred rows."""
    monkeypatch.setattr(projections, "_SUBTREE_ROWS", 600)
    return


def test_every_type(spark: SparkSession, db: livingdb.Database) -> None:
    schema = {
        "id": "bigint",
        "flag": "boolean",
        "tiny": "tinyint",
        "small": "smallint",
        "whole": "int",
        "single": "float",
        "real": "double",
        "money": "decimal(10,2)",
        "wide": "decimal(30,5)",
        "text": "string",
        "raw": "binary",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "list": "array<string>",
        "pair": "struct<a:int,`b c`:array<double>>",
        "map": "map<string,bigint>",
    }
    main = db.branch("main")
    main.create_table("t", schema, key="id")
    first: dict[str, Any] = {
        "id": 1,
        "flag": True,
        "tiny": -128,
        "small": -32768,
        "whole": -(2**31),
        "single": float("nan"),
        "real": -0.0,
        "money": Decimal("12345678.90"),
        "wide": Decimal("-1.00001"),
        "text": "Bodø's \\ \u00e9\U0001f600 ${x}",
        "raw": b"\x00\xff",
        "day": datetime.date(1582, 10, 4),
        "at": datetime.datetime(1883, 11, 18, 12, 3, 58, 1, tzinfo=UTC),
        "local": datetime.datetime(2024, 3, 31, 2, 30),
        "list": ["a", None, ""],
        "pair": {"a": None, "b c": [1.5, None]},
        "map": {"x": 1, "y": None},
    }
    empty = {**dict.fromkeys(schema), "id": -(2**63)}
    main.insert("t", [first, empty])
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    assert len(files_of(db)) == 1
    main.upsert("t", [{**first, "id": 2}, {**first, "text": None}])
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    assert len(files_of(db)) == 1, "what changed is laid over the files"


def test_erased_rows_leave_the_files(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("people", {"id": "bigint", "name": "string"}, key="id")
    names = ["zebra-canary" if n == 7 else f"name {n}" for n in range(50)]
    first = main.insert("people", {"id": range(50), "name": names}).id
    check_frame(livingdb.spark.table(db, "main", "people"), main.table("people"))
    main.upsert("people", [{"id": 7, "name": "zebra-canary again"}])
    check_frame(livingdb.spark.table(db, "main", "people"), main.table("people"))
    assert any("projections" in place for place in places_of(db._graph, "zebra-canary"))
    db.erase("people", [7], reason="asked")
    assert places_of(db._graph, "zebra-canary") == []
    for ref in ("main", first):
        frame = livingdb.spark.table(db, ref, "people")
        check_frame(frame, db.at(ref).table("people"))
        assert frame.count() == 49
    assert places_of(db._graph, "zebra-canary") == []


def test_spark_reads_what_the_runner_wrote(
    spark: SparkSession, db: livingdb.Database, small_files: None
) -> None:
    main = db.branch("main")
    layout = livingdb.Layout(projection=True, fold="always", target_rows=64)
    main.create_table("t", {"id": "bigint", "name": "string"}, key="id", layout=layout)
    main.insert("t", {"id": range(3_000), "name": [f"n{n}" for n in range(3_000)]})
    db.upkeep(seconds=60)
    made = files_of(db)
    assert len(made) > 1
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    assert files_of(db) == made, "none was missing"
    main.delete("t", range(10))
    db.upkeep(seconds=60)
    made = files_of(db)
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    assert files_of(db) == made


KEYS: dict[str, list[Any]] = {
    "bigint": [1, -(2**63), 2**63 - 1, 7],
    "int": [1, -(2**31), 2**31 - 1, 7],
    "smallint": [1, -(2**15), 2**15 - 1, 7],
    "tinyint": [1, -128, 127, 7],
    "string": ["a", "it's", 'quo"te\\', "\U0001f600 ${x}"],
    "binary": [b"a", b"", b"\x00'", b"\xff"],
    "date": [datetime.date(y, 1, 1) for y in (1, 1582, 1970, 9999)],
    "timestamp": [
        datetime.datetime(y, 1, 1, 0, 0, 0, 1, tzinfo=UTC) for y in (1, 1900, 2024, 9999)
    ],
    "timestamp_ntz": [datetime.datetime(y, 1, 1, 0, 0, 0, 1) for y in (1, 1900, 2024, 9999)],
    "decimal(10,2)": [Decimal("1.10"), Decimal("-0.01"), Decimal("0.00"), Decimal("99999999.99")],
    "double": [1.5, -0.5, float("inf"), 0.0],
}


OFTEN = ("bigint", "string", "timestamp_ntz")


@pytest.mark.parametrize(
    "kind", [k if k in OFTEN else pytest.param(k, marks=pytest.mark.slow) for k in KEYS]
)
def test_every_key(spark: SparkSession, db: livingdb.Database, kind: str) -> None:
    """An update, a delete and an insert are laid over files, or folded into them."""
    main = db.branch("main")
    keys = KEYS[kind]
    main.create_table("t", {"k": kind, "n": "int", "v": "string"}, key=["k", "n"])
    main.insert("t", [{"k": k, "n": n, "v": "old"} for k in keys[:3] for n in (1, 2)])
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    with main.transaction() as tx:
        tx.update("t", [{"k": keys[0], "n": 1, "v": "new"}])
        tx.delete("t", [{"k": keys[1], "n": 2}])
        tx.insert("t", [{"k": keys[3], "n": 1, "v": "more"}])
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    check_frame(livingdb.spark.table(db, "main~1", "t"), db.at("main~1").table("t"))


def test_null_keys_and_no_key(spark: SparkSession, db: livingdb.Database) -> None:
    """Views: rows that are there twice, and groups whose key is null."""
    main = db.branch("main")
    main.create_table("t", {"id": "int", "v": "string"}, key="id")
    main.insert("t", {"id": [1, 2, 3], "v": ["x", "x", None]})
    main.derive("bag", sql="SELECT v FROM t", when="immediate")
    main.derive("counts", sql="SELECT v, count(*) AS n FROM t GROUP BY v", when="immediate")
    for number in (10, 20):
        for name in ("bag", "counts"):
            check_frame(livingdb.spark.table(db, name, name), db.at(name).table(name))
        main.sql("DELETE FROM t WHERE id = 1")
        main.insert("t", {"id": [number, number + 1], "v": ["x", None]})


def test_schema_changes_share_files(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "int", "city": "string", "net": "double"}, key="id")
    main.insert("t", {"id": list(range(50)), "city": ["Oslo"] * 50, "net": [1.5] * 50})
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    made = files_of(db)
    main.evolve(RenameColumn("t", "city", "town"), keep="v1")
    main.upsert("t", {"id": [3, 77], "town": ["Bodø", "Røst"], "net": [2.0, 3.0]})
    main.evolve([AddColumn("t", "note", "string", default="it's"), AddColumn("t", "n", "date")])
    main.update("t", {"id": [5], "note": ["mine"]})
    main.evolve(DropColumn("t", "net"))
    for ref in ("main", "v1", "main~1", "main~3"):
        check_frame(livingdb.spark.table(db, ref, "t"), db.at(ref).table("t"))
    assert files_of(db) == made, "lenses that compute nothing need no files of their own"
    main.evolve(RetypeColumn("t", "n", "timestamp"))
    main.evolve(AddColumn("t", "long", "int", up="length(town)"))
    main.update("t", {"id": [6], "note": ["more"]})
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    assert len(files_of(db)) == len(made) + 1


def test_masks_and_branches_in_step(spark: SparkSession, db: livingdb.Database) -> None:
    """Files of a masked branch hold masked rows alone; a branch that follows later follows."""
    main = db.branch("main")
    main.create_table("t", {"id": "int", "name": "string"}, key="id")
    main.create_table("other", {"id": "int"}, key="id")
    main.insert("t", {"id": [1, 2], "name": ["canary Ann", "canary Bob"]})
    main.clone("masked", transform=[MaskColumn("t", "name")], sync="forward")
    main.insert("t", {"id": [3], "name": ["canary Eva"]})
    check_frame(livingdb.spark.table(db, "masked", "t"), db.at("masked").table("t"))
    made = [pq.read_table(p) for p in (Path(db.name) / "projections").glob("*.parquet")]
    assert made
    assert all("canary" not in str(table.to_pylist()) for table in made)
    assert db.storage().projection_bytes > 0
    main.evolve(RenameColumn("t", "name", "called"), keep="v1", sync="both")
    main.insert("other", {"id": [1]})
    main.update("t", {"id": [1], "called": ["new"]})
    for ref in ("main", "v1", "masked"):
        for name in ("t", "other"):
            check_frame(livingdb.spark.table(db, ref, name), db.at(ref).table(name))


@pytest.mark.slow
def test_versions_share_files(
    spark: SparkSession, db: livingdb.Database, small_files: None
) -> None:
    """A change makes the files anew of which it touches rows, once it is folded."""
    main = db.branch("main")
    layout = livingdb.Layout(target_rows=16, fold="always")
    main.create_table("t", {"id": "int", "v": "string"}, key="id", layout=layout)
    main.insert("t", {"id": list(range(20_000)), "v": [f"v{n}" for n in range(20_000)]})
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    before = files_of(db)
    assert len(before) > 20
    main.update("t", {"id": [10_000, 10_001], "v": ["new", "newer"]})
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    added = files_of(db) - before
    assert 1 <= len(added) <= 2
    assert db.check().ok


def test_many_changes_are_folded(
    spark: SparkSession, db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_version, "_MOST_KEYS", 5)
    main = db.branch("main")
    main.create_table("t", {"id": "int", "v": "int"}, key="id")
    main.insert("t", {"id": list(range(100)), "v": [0] * 100})
    livingdb.spark.table(db, "main", "t")
    main.update("t", {"id": list(range(5)), "v": [1] * 5})
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    assert len(files_of(db)) == 1
    main.delete("t", {"id": [50]})
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    assert len(files_of(db)) == 2


def test_who_gets_files(
    spark: SparkSession, db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQL on Spark reads files of large tables, and of those whose layout says so."""
    main = db.branch("main")
    rows = {"id": list(range(100)), "v": [n % 3 for n in range(100)]}
    asked = livingdb.Layout(projection=True)
    main.create_table("small", {"id": "int", "v": "int"}, key="id")
    main.create_table("asked", {"id": "int", "v": "int"}, key="id", layout=asked)
    main.create_table("empty", {"id": "int", "v": "int"}, key="id", layout=asked)
    for name in ("small", "asked"):
        main.insert(name, rows)
    count = "SELECT v, count(*) AS n FROM {} GROUP BY v"

    def is_native(text: str) -> bool:
        frame = livingdb.spark.sql(db, "main", text)
        plan = frame._jdf.queryExecution().toString()
        assert sorted(map(tuple, frame.collect())) == sorted(
            tuple(row.values()) for row in main.sql(text).to_arrow().to_pylist()
        )
        return "parquet" in plan.lower()

    assert not is_native(count.format("small"))
    assert not is_native(count.format("asked").replace("GROUP", "WHERE id < 7 GROUP"))
    assert not files_of(db), "a part of a table is no reason to write all of it"
    assert is_native(count.format("asked"))
    assert is_native(count.format("asked").replace("GROUP", "WHERE id < 7 GROUP"))
    assert not is_native(count.format("empty"))
    monkeypatch.setattr(project_version, "PROJECTED_ROWS", 100)
    assert is_native(count.format("small"))
    assert "projection" not in repr(main.table("small").to_arrow().schema)


def test_a_refresh_on_spark_reads_files(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    asked = livingdb.Layout(projection=True)
    main.create_table("t", {"id": "int", "v": "int"}, key="id", layout=asked)
    main.insert("t", {"id": list(range(100)), "v": [n % 3 for n in range(100)]})
    main.derive("sums", sql="SELECT v, sum(id) AS s FROM t GROUP BY v", when="deferred")
    assert len(files_of(db)) == 1
    main.insert("t", {"id": [500], "v": [9]})
    db.propagate()
    assert {row["v"]: row["s"] for row in db.at("sums").table("sums").to_arrow().to_pylist()}[
        9
    ] == 500


def test_who_only_reads(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "int"}, key="id")
    main.insert("t", {"id": [1, 2]})
    with livingdb.open(db.name, read_only=True) as reader:
        check_frame(livingdb.spark.table(reader, "main", "t"), main.table("t"))
        assert not files_of(db)
        livingdb.spark.table(db, "main", "t")
        check_frame(livingdb.spark.table(reader, "main", "t"), main.table("t"))


def test_damage_is_found(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "int", "v": "double"}, key="id")
    main.insert("t", {"id": list(range(5_000)), "v": [float("nan")] * 5_000})
    livingdb.spark.table(db, "main", "t")
    assert db.check().ok
    (name,) = files_of(db)
    path = Path(db.name) / "projections" / f"{name}.parquet"
    whole = path.read_bytes()
    for place in (4, len(whole) // 3, len(whole) - 30):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        assert any(f"projection {name}" in str(problem) for problem in db.check().problems)
        check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
        assert path.read_bytes() == whole, "what is damaged is made anew"
    note = path.with_suffix(".json")
    kept = note.read_bytes()
    note.write_bytes(b"{")
    assert not db.check().ok
    note.unlink()
    assert db.check().ok, "without its note a file counts for nobody"
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    assert note.read_bytes() == kept


def test_other_rows_are_found(spark: SparkSession, db: livingdb.Database) -> None:
    """A file whose bytes are as they were written, and hold what the table does not."""
    main = db.branch("main")
    for name, value in (("a", 1), ("b", 2)):
        main.create_table(name, {"id": "int", "v": "int"}, key="id")
        main.insert(name, {"id": [1], "v": [value]})
    livingdb.spark.table(db, "main", "a")
    (first,) = files_of(db)
    livingdb.spark.table(db, "main", "b")
    (second,) = files_of(db) - {first}
    folder = Path(db.name) / "projections"
    for ending in ("json", "parquet"):
        os.replace(folder / f"{first}.{ending}", folder / f"{second}.{ending}")
    assert [p.where for p in db.check().problems] == [f"projection {second}"]


def test_compact_drops_what_no_head_reads(spark: SparkSession, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "int"}, key="id", layout=livingdb.Layout(fold="always"))
    main.insert("t", {"id": [1, 2]})
    livingdb.spark.table(db, "main", "t")
    old = files_of(db)
    main.insert("t", {"id": [3]})
    livingdb.spark.table(db, "main", "t")
    db.compact()
    assert old < files_of(db), "somebody may still read it"
    for path in (Path(db.name) / "projections").iterdir():
        os.utime(path, (0, 0))
    db.compact()
    assert old < files_of(db), "there are leases on the snapshots of both data frames"
    db._graph.leases.drop([lease.id for lease in db._graph.leases.current()])
    db.compact()
    assert len(files_of(db)) == 1
    assert not files_of(db) & old
    check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    check_frame(livingdb.spark.table(db, "main~1", "t"), db.at("main~1").table("t"))


def random_history(spark: SparkSession, db: livingdb.Database, seed: int, steps: int) -> None:
    """Random changes of rows, schema and trees; after each, files and trees give the same."""
    rng = Random(seed)
    main = db.branch("main")
    layout = livingdb.Layout(target_rows=rng.choice([4, 16, 4096]))
    main.create_table(
        "t", {"a": "int", "b": "string", "v": "double"}, key=["a", "b"], layout=layout
    )
    words = ["", "it's", "Bodø", "x\\y", "\U0001f600"]
    names = {"v"}
    for step in range(steps):
        kind = rng.choice(["upsert", "upsert", "delete", "rename", "add", "drop", "fold", "merge"])
        chosen = [
            {"a": rng.randrange(40), "b": rng.choice(words)} for _ in range(rng.randrange(1, 30))
        ]
        keys = list({(k["a"], k["b"]): k for k in chosen}.values())
        if kind == "upsert":
            main.upsert(
                "t", [{**k, "v": rng.choice([1.5, None, float("nan"), -0.0])} for k in keys]
            )
        elif kind == "delete":
            main.sql(f"DELETE FROM t WHERE a = {keys[0]['a']}")
        elif kind == "rename":
            name = rng.choice(sorted(names - {"v"} or {"v"}))
            if name != "v":
                main.evolve(RenameColumn("t", name, f"c{step}"))
                names = (names - {name}) | {f"c{step}"}
        elif kind == "add":
            up = rng.choice([None, "a + 1"])
            given: dict[str, Any] = {"default": 7} if up is None else {"up": up}
            main.evolve(AddColumn("t", f"c{step}", "int", **given))
            names.add(f"c{step}")
        elif kind == "drop" and len(names) > 1:
            name = rng.choice(sorted(names - {"v"}))
            main.evolve(DropColumn("t", name))
            names.discard(name)
        elif kind == "fold":
            main.table("t").root()
        elif kind == "merge":
            side = main.clone(f"side{step}")
            side.upsert("t", [{**keys[0], "v": 99.0}])
            db.merge(f"side{step}", into="main")
        if rng.random() < 0.6:
            check_frame(livingdb.spark.table(db, "main", "t"), main.table("t"))
    ref = f"main~{rng.randrange(3)}"
    check_frame(livingdb.spark.table(db, ref, "t"), db.at(ref).table("t"))
    assert db.check().ok


@pytest.mark.parametrize("seed", [2])
def test_files_are_the_trees(
    spark: SparkSession, db: livingdb.Database, small_files: None, seed: int
) -> None:
    random_history(spark, db, seed, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_files_are_the_trees_for_long(
    spark: SparkSession, db: livingdb.Database, small_files: None, seed: int
) -> None:
    random_history(spark, db, seed, 25)
