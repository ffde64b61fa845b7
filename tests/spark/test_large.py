"""Large work on Spark: the result is the one this process finds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.property.trying import HAS_TIME

import livingdb
from livingdb.database.import_tables import import_tables
from livingdb.graph.diff import diff_versions
from livingdb.tables.index import Tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ROWS = 20_000


def rows(keys: np.ndarray, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "shop": pa.array(["Oslo", "Ærø", "z🐟"]).take(pa.array(keys % 3)),
            "id": pa.array(keys, pa.int64()),
            "v": pa.array(chance.random(len(keys)), mask=chance.random(len(keys)) < 0.1),
            "s": pa.array([f"text {n}" for n in chance.integers(0, 99, len(keys))]),
        }
    )


def fill(db: livingdb.Database, layout: livingdb.Layout) -> livingdb.Branch:
    main = db.branch("main")
    data = rows(np.arange(ROWS), 1)
    main.create_table("t", data.schema, ["shop", "id"], layout=layout)
    main.insert("t", data)
    main.upsert("t", rows(np.arange(0, ROWS, 7), 2))
    main.delete("t", rows(np.arange(5, ROWS, 11), 3).select(["shop", "id"]))
    main.upsert("t", rows(np.arange(ROWS - 100, ROWS + 500), 4))
    return main


GROUPS = [pytest.param(None, marks=pytest.mark.slow), [["v"], ["s"]]]


@pytest.mark.parametrize("groups", GROUPS)
def test_fold(spark: SparkSession, tmp_path: Path, groups: list[list[str]] | None) -> None:
    layout = livingdb.Layout(target_rows=300, fold="never", groups=groups)
    roots, answers = [], []
    for engine in ("embedded", "spark"):
        with livingdb.create(tmp_path / engine, engine=engine) as db:
            main = fill(db, layout)
            graph = db._graph
            version = graph.version(main._head(), "t")
            before = main.table("t").to_arrow()
            packs = len(graph.catalog.packs.names())
            roots.append(graph.fold(version))
            assert graph.index.tree(version.address) == Tree(roots[-1])
            assert engine == "embedded" or len(graph.catalog.packs.names()) > packs
            assert main.table("t").to_arrow().equals(before)
            assert db.check().problems == []
        with livingdb.open(tmp_path / engine) as db:
            answers.append(db.branch("main").table("t").to_arrow())
            assert db.check().problems == []
    assert roots[0] == roots[1]
    assert answers[0].equals(answers[1])


@pytest.mark.slow
@pytest.mark.parametrize("groups", GROUPS)
def test_diff(spark: SparkSession, tmp_path: Path, groups: list[list[str]] | None) -> None:
    layout = livingdb.Layout(target_rows=300, fold=0.05, groups=groups)
    with livingdb.create(tmp_path / "db", engine="spark") as db:
        main = fill(db, layout)
        fill_again = main.clone("dev")
        fill_again.upsert("t", rows(np.arange(ROWS, ROWS + 3000), 9))
        log = main.log()
        pairs = [(log[0].id, log[3].id), ("dev", "main"), (log[4].id, "dev")]
        for before, after in pairs if HAS_TIME else pairs[1:]:
            found = db.diff(before, after)["t"]
            old = db._graph.version(db._resolve(before).snapshot, "t")
            new = db._graph.version(db._resolve(after).snapshot, "t")
            expected = list(diff_versions(db._graph.versions, old, new))
            assert sum(len(batch.keys) for batch in expected) == len(found) > 0
            with livingdb.open(tmp_path / "db", engine="embedded") as other:
                assert other.diff(before, after)["t"].to_arrow().equals(found.to_arrow())


@pytest.mark.slow
def test_compact(spark: SparkSession, tmp_path: Path) -> None:
    layout = livingdb.Layout(target_rows=300, fold="always")
    sizes = {}
    for engine in ("embedded", "spark"):
        with livingdb.create(tmp_path / engine, engine=engine) as db:
            main = fill(db, layout)
            before = {s.id: s.table("t").to_arrow() for s in main.log() if "t" in s.tables()}
            db.compact()
            sizes[engine] = sum(
                path.stat().st_size for path in (tmp_path / engine / "packs").rglob("*.pack")
            )
            for name, data in before.items():
                assert db.at(name).table("t").to_arrow().equals(data)
            assert db.check().problems == []
    assert sizes["spark"] < 1.3 * sizes["embedded"]


@pytest.mark.parametrize("written", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
def test_export(spark: SparkSession, tmp_path: Path, written: str) -> None:
    out = tmp_path / "out"
    with livingdb.create(tmp_path / "db", engine="spark") as db:
        main = fill(db, livingdb.Layout(target_rows=300))
        made = main.export(out, format=written).tables["t"]
        assert made.rows == len(main.table("t"))
        assert len(made.files) > 1
        assert list(made.files) == sorted(path.name for path in out.glob(f"t+*.{written}"))
        assert made.bytes == sum((out / file).stat().st_size for file in made.files)
        with pytest.raises(livingdb.AlreadyExists, match="is there already"):
            main.export(out, format=written)
        (out / "tables.json").rename(tmp_path / "tables.json")
        with pytest.raises(livingdb.AlreadyExists, match=r"t\+00000"):
            main.export(out, format=written)
        (tmp_path / "tables.json").rename(out / "tables.json")
        root, rows = main.table("t").root(), main.table("t").to_arrow()
    if written == "parquet":
        read = [pq.read_table(out / file) for file in made.files]
        assert pa.concat_tables(read).equals(rows)
    with livingdb.create(tmp_path / "again", engine="embedded") as db:
        import_tables(db.branch("main"), out)
        assert db.branch("main").table("t").root() == root


def test_only_large_work_is_handed_over(spark: SparkSession, tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "db") as db:
        large = db._graph.large
        assert large is not None
        assert not large.takes(lambda: 3_999_999)
        assert large.takes(lambda: 4_000_000)  # a session is running here
    with livingdb.open(tmp_path / "db", engine="embedded") as db:
        assert not db._graph.large.takes(lambda: 1 << 40)
    with livingdb.open(tmp_path / "db", engine="spark") as db:
        assert db._graph.large.takes(lambda: 1)


@pytest.mark.slow
def test_migrate(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of several schema changes at once, carried by tasks; then with changes over them."""
    from livingdb.evolution import AddColumn, DropColumn, RenameColumn

    changes = [
        AddColumn("t", "w", "double", default=0.5),
        RenameColumn("t", "s", "text"),
        AddColumn("t", "twice", "double", computed="v * 2"),
        DropColumn("t", "w"),
    ]
    roots = []
    for engine in ("embedded", "spark"):
        with livingdb.create(tmp_path / engine, engine=engine) as db:
            main = fill(db, livingdb.Layout(target_rows=300, fold="never"))
            main.evolve(changes, to="new")
            new = db.branch("new")
            before = new.table("t").to_arrow()
            assert new.migrate() == ["t"]
            roots.append(new.table("t").root())
            assert new.table("t").to_arrow().equals(before)
            main.evolve(changes[:2], to="later")  # the same ones would be the same version
            later = db.branch("later")
            later.delete("t", [("Oslo", 0)])
            assert later.migrate() == ["t"]
            roots.append(later.table("t").root())
            assert len(later.table("t")) == len(before) - 1
            assert db.check().problems == []
    assert roots[:2] == roots[2:]


@pytest.mark.slow
def test_trees_in_another_layout(spark: SparkSession, tmp_path: Path) -> None:
    """They are made, read, projected and compared by tasks as they lie."""
    narrow = livingdb.Layout(target_rows=500, groups=[["s"]], fold="never", projection=True)
    roots = []
    for engine in ("embedded", "spark"):
        with livingdb.create(tmp_path / engine, engine=engine) as db:
            main = fill(db, livingdb.Layout(target_rows=300, fold="never"))
            before, first = main.table("t").to_arrow(), main.log()[2].id
            main.relayout("t", narrow)
            assert main.migrate() == ["t"]
            roots.append(main.table("t").root())
            assert len(db.diff(first, "main")["t"]) > 0
            main.upsert("t", rows(np.arange(3), 5))
            if engine == "spark":
                frame = spark.read.format("livingdb").options(table="t").load(db.name)
                assert frame.count() == len(main.table("t"))
                answer = main.sql("SELECT count(*) AS n, sum(length(s)) AS s FROM t").to_arrow()
                lengths = [len(text) for text in main.table("t").to_arrow()["s"].to_pylist()]
                assert answer.to_pylist() == [{"n": len(lengths), "s": sum(lengths)}]
                assert db.storage().projection_bytes > 0
            assert db.at(main.log()[1].id).table("t").to_arrow().equals(before)
            assert db.check().problems == []
    assert roots[0] == roots[1]
