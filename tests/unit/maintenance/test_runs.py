"""Runs of deltas in a database: cold readers use them, `check` knows them, `compact` keeps them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import livingdb
from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.sqlite import writing_engine
from livingdb.errors import Corruption
from livingdb.graph.graph import Graph

COMMITS = 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a long line of small commits, by two processes' worth of writers."""
    path: Path = tmp_path_factory.mktemp("runs") / "db"
    with livingdb.create(path, author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        main.insert("t", {"id": range(500), "v": [0] * 500})
        with livingdb.open(path, author="bob", engine="embedded") as other:
            writers = [main, other.branch("main")]
            for number in range(COMMITS):
                writers[number % 2].upsert("t", {"id": [number], "v": [number]})
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "db"
    shutil.copytree(whole, copy)
    return copy


def expected(upto: int = COMMITS) -> list[int]:
    return [*range(upto), *[0] * (500 - upto)]


def parts_of(graph: Graph) -> list[bool]:
    """The parts of the line to the head of main; which of them are runs."""
    version = graph.version(graph.snapshots.at(graph.branch("main").head), "t")
    nearest = graph.versions.nearest(version)
    return [part.run is not None for part in graph.index.line(version, nearest.depth, 1000)]


def test_a_cold_reader_reads_runs(whole: Path) -> None:
    with livingdb.open(whole, read_only=True) as db:
        table = db.branch("main").table("t")
        assert table.to_arrow()["v"].to_pylist() == expected()
        parts = parts_of(db._graph)
        assert parts == [False] * (COMMITS % 32) + [True, True]
        past = db.at("main~45").table("t").to_arrow()["v"].to_pylist()
        assert past == expected(COMMITS - 45)


def test_a_whole_database_has_no_problems(whole: Path) -> None:
    with livingdb.open(whole, read_only=True) as db:
        assert db.check().problems == []


def test_compacting_keeps_runs(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        db.compact()
    with livingdb.open(path, engine="embedded") as db:
        assert True in parts_of(db._graph)
        assert db.branch("main").table("t").to_arrow()["v"].to_pylist() == expected()
        assert db.check().problems == []


def test_compacting_writes_the_runs_that_a_database_of_before_has_not(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        engine = writing_engine(db._graph.catalog.engine)
        with engine.begin() as connection:
            SealedRows(schema.delta_run).delete(connection)
    with livingdb.open(path, engine="embedded") as db:
        assert parts_of(db._graph) == [False] * COMMITS
        db.compact()
    with livingdb.open(path, engine="embedded") as db:
        assert parts_of(db._graph) == [False] * (COMMITS % 32) + [True, True]
        assert db.branch("main").table("t").to_arrow()["v"].to_pylist() == expected()
        assert db.check().problems == []


def test_a_run_that_is_another_is_found(path: Path) -> None:
    rows = SealedRows(schema.delta_run)
    with livingdb.open(path, engine="embedded") as db:
        engine = writing_engine(db._graph.catalog.engine)
        with engine.begin() as connection:
            first, second, *_ = [rows.named(row) for row in connection.execute(rows.every)]
            is_first = schema.delta_run.c.version == first["version"]
            rows.update(connection, [is_first], {"change": second["change"]})
        (problem,) = db.check().problems
        assert problem.where.startswith("run to version")
        assert "is not what the changes" in problem.what


def test_a_damaged_row_is_named(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        with writing_engine(db._graph.catalog.engine).begin() as connection:
            connection.execute(schema.delta_run.update().values(depth=7))
        with pytest.raises(Corruption, match="delta_run"):
            db.branch("main").table("t").to_arrow()
