"""The hidden index of a unique constraint: found again, brought up to date, and cheap to ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb import Branch, Database, Layout
from livingdb.errors import DuplicateValue
from livingdb.evolution import AddColumn, AddUnique
from livingdb.tables.index import Tree
from livingdb.tables.rows import RowSet
from livingdb.tables.secondary_tree import UNIQUE_INDEX as KIND
from livingdb.tables.secondary_tree import SecondaryTrees
from livingdb.tables.unique_index import UniqueIndexes

ROWS = 20_000


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return livingdb.create(tmp_path / "shop.ldb", author="ada")


def numbers(first: int, count: int) -> pa.Table:
    """Keys, and values in another order."""
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "code": [f"c{(n * 7919) % 1_000_003}" for n in ids]})


def filled(db: Database, layout: Layout | None = None) -> Branch:
    main = db.branch("main")
    columns = {"id": "bigint", "code": "string"}
    main.create_table("t", columns, "id", unique=["code"], layout=layout)
    main.insert("t", numbers(0, ROWS))
    return main


def refuse_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(*_: object, **__: object) -> None:
        raise AssertionError("all rows were read")

    monkeypatch.setattr(RowSet, "batches", batches)


def index_versions(db: Database) -> list[str]:
    graph = db._graph
    found = []
    for version, *_ in graph.catalog.versions.materializations():
        recipe = graph.versions.recipe(graph.versions.require(version))
        if getattr(recipe, "kind", "") == KIND:
            found.append(recipe.data["inputs"][""])  # type: ignore[union-attr]
    return found


def test_a_write_reads_no_other_rows(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    main = filled(db)
    refuse_scans(monkeypatch)
    main.insert("t", {"id": [ROWS], "code": ["new"]})
    main.update("t", {"id": [3], "code": ["newer"]})
    for code in ("new", "newer", "c7919"):
        with pytest.raises(DuplicateValue):
            main.insert("t", {"id": [ROWS + 1], "code": [code]})
    main.insert("t", {"id": [ROWS + 1], "code": [f"c{3 * 7919}"]})


def test_the_next_process_finds_it(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(db)
    db.close()
    refuse_scans(monkeypatch)
    with livingdb.open(tmp_path / "shop.ldb") as again, pytest.raises(DuplicateValue):
        again.branch("main").insert("t", {"id": [ROWS + 1], "code": ["c7919"]})


def test_added_it_is_made_before_the_next_write(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "code": "string"}, "id")
    main.insert("t", numbers(0, ROWS))
    main.evolve([AddUnique("t", "code"), AddColumn("t", "n", "int", default=1)])
    refuse_scans(monkeypatch)
    with pytest.raises(DuplicateValue):
        main.insert("t", {"id": [ROWS + 1], "code": ["c7919"]})


def test_a_new_tree_gets_its_index_from_the_last_one(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = filled(db, Layout(fold="always"))
    whole = len(index_versions(db))
    monkeypatch.setattr(SecondaryTrees, "_whole_entries", None)
    main.update("t", {"id": [1, 2], "code": ["c15838", "c7919"]})
    main.delete("t", [3])
    main.update("t", {"id": [4], "code": [None]})
    assert len(index_versions(db)) == whole + 3
    main.insert("t", {"id": [ROWS, ROWS + 1], "code": [f"c{n * 7919}" for n in (3, 4)]})
    for code in ("c7919", "c15838", "c23757", "c31676"):
        with pytest.raises(DuplicateValue):
            main.insert("t", {"id": [ROWS + 5], "code": [code]})
    monkeypatch.undo()
    assert db.check(deep=True).ok


def test_an_index_that_was_forgotten_is_made_again(db: Database) -> None:
    main = filled(db)
    graph = db._graph
    for version, *_ in graph.catalog.versions.materializations():
        if getattr(graph.versions.recipe(graph.versions.require(version)), "kind", "") == KIND:
            graph.index.evict(version)
    assert index_versions(db) == []
    with pytest.raises(DuplicateValue):
        main.insert("t", {"id": [ROWS + 1], "code": ["c7919"]})
    main.insert("t", {"id": [ROWS + 1], "code": ["new"]})
    assert len(index_versions(db)) == 1


def test_check_finds_a_wrong_index_and_a_value_that_is_there_twice(db: Database) -> None:
    main = filled(db)
    graph = db._graph
    versions = graph.versions
    near = versions.nearest_stored(graph.version(main.head._row, "t"))
    assert near is not None
    good = {
        version: Tree(root, layout)
        for version, root, layout in graph.catalog.versions.materializations()
        if versions.recipe(versions.require(version)) == versions.uniques._recipe(near, ["code"])
    }
    (index,) = good
    main.create_table("other", {"code": "string", "id": "bigint"}, "code")
    main.insert("other", {"code": ["x"], "id": [1]})
    wrong = graph.index.tree(graph.version(main.head._row, "other").address)
    assert wrong is not None
    graph.index.materialize(index, wrong)
    assert ["index of (code)" in str(problem) for problem in db.check().problems] == [True]
    graph.index.materialize(index, good[index])
    assert db.check().ok


def test_compacting_keeps_it(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    main = filled(db)
    for number in range(3):
        main.update("t", {"id": [number], "code": [f"n{number}"]})
    db.compact()
    assert db.check(deep=True).ok
    refuse_scans(monkeypatch)
    with pytest.raises(DuplicateValue):
        main.insert("t", {"id": [ROWS + 1], "code": ["n1"]})


def test_compacting_drops_those_that_nobody_is_checked_by(db: Database) -> None:
    main = filled(db, Layout(fold="always"))
    for number in range(3):
        main.update("t", {"id": [number], "code": [f"n{number}"]})
    assert len(index_versions(db)) > 3
    db.compact()
    assert len(index_versions(db)) == 1
    assert db.check(deep=True).ok


_WRITER = """
import sys, livingdb
from livingdb.errors import DuplicateValue, TransactionConflict
first = int(sys.argv[2])
with livingdb.open(sys.argv[1]) as db:
    for number in range(15):
        try:
            db.branch("main").insert("t", {"id": [first + number], "code": [f"both {number}"]})
        except (DuplicateValue, TransactionConflict):
            pass
"""


def test_processes_that_give_the_same_values_give_each_once(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "code": "string"}, "id", unique=["code"])
        program = [sys.executable, "-c", _WRITER, str(tmp_path / "shop.ldb")]
        running = [subprocess.Popen([*program, first]) for first in ("100", "200")]
        assert [process.wait() for process in running] == [0, 0]
        codes = main.table("t").to_arrow().column("code").to_pylist()
        assert sorted(codes) == sorted(f"both {number}" for number in range(15))
        assert db.check(deep=True).ok


def test_a_branch_and_a_merge_go_by_the_index_of_what_they_come_from(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = filled(db)
    dev = main.clone("dev")
    refuse_scans(monkeypatch)
    dev.insert("t", {"id": [ROWS], "code": ["dev"]})
    main.insert("t", {"id": [ROWS + 1], "code": ["main"]})
    db.merge("dev", "main")
    with pytest.raises(DuplicateValue):
        main.insert("t", {"id": [ROWS + 2], "code": ["dev"]})


def test_all_rows_of_a_table_are_asked_for_at_once(db: Database) -> None:
    main = filled(db)
    graph = db._graph
    version = graph.version(main.head._row, "t")
    holders = UniqueIndexes(graph.versions).holders(
        version, ["code"], [numbers(0, ROWS).column("code").combine_chunks().cast(pa.string())]
    )
    assert len(holders) == ROWS
