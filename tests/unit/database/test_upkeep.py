"""Check, storage, compact, drain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.clock import stopped
from tests.ids import counted

import livingdb
from livingdb import Database
from livingdb.graph.storage.drain_journal import drain_journal


def fill(db: Database, commits: int = 40, rows: int = 3_000) -> dict[str, pa.Table]:
    """A history with folds, and what every snapshot holds."""
    main = db.branch("main")
    layout = livingdb.Layout(target_rows=256, fold=0.2)
    main.create_table("t", {"id": "bigint", "v": "double", "s": "string"}, "id", layout=layout)
    chance = np.random.default_rng(9)
    main.insert("t", {"id": np.arange(rows), "v": chance.random(rows)})
    held: dict[str, pa.Table] = {}
    for step in range(commits):
        ids = chance.choice(rows, 100, replace=False)
        data = {"id": ids, "v": chance.random(100), "s": [f"step {step}"] * 100}
        made = main.upsert("t", data)
        held[made.id] = main.table("t").to_arrow()
    return held


def test_every_snapshot_reads_the_same_after_upkeep(db: Database) -> None:
    held = fill(db)
    old = db.at("main~20").table("t")
    before_rows = old.rows
    assert db.check().ok
    steps: list[str] = []
    done = db.compact(steps.append)
    assert steps
    assert done.after_bytes < done.before_bytes + 500_000
    assert before_rows.to_arrow().equals(held[db.at("main~20").id])
    for name, table in held.items():
        assert db.at(name).table("t").to_arrow().equals(table)
    report = db.check()
    assert report.ok, report
    assert report.snapshots == 43
    with livingdb.open(db.name) as again:
        for name in list(held)[::7]:
            assert again.at(name).table("t").to_arrow().equals(held[name])


def test_compact_under_a_reader_in_another_handle(db: Database) -> None:
    held = fill(db)
    with livingdb.open(db.name) as other:
        waiting = other.at("main~30").table("t")
        waiting.get(1)
        db.compact()
        db.compact()
        assert waiting.to_arrow().equals(held[other.at("main~30").id])
        other.branch("main").upsert("t", {"id": [1], "v": [5.0]})
        assert other.check().ok
    assert db.branch("main").table("t").get(1)["v"] == 5.0


def test_a_transaction_survives_a_compaction(db: Database) -> None:
    fill(db)
    main = db.branch("main")
    with main.transaction() as tx:
        tx.upsert("t", {"id": [1], "v": [7.0]})
        with livingdb.open(db.name) as other:
            other.compact()
    assert main.table("t").get(1)["v"] == 7.0
    assert db.check().ok


def test_the_journal_is_drained_and_pages_given_back(db: Database) -> None:
    fill(db, commits=20)
    catalog = Path(db.name) / "catalog.db"
    assert drain_journal(db._graph.store) > 0
    assert len(db._graph.store.journal) == 0
    small = catalog.stat().st_size
    main = db.branch("main")
    blob = np.random.default_rng(1).bytes(200_000)
    main.create_table("blobs", {"id": "int", "b": "binary"}, key="id")
    for number in range(12):
        main.upsert("blobs", {"id": [number], "b": [blob[number:]]})
    assert db._graph.store.journal.size_bytes() < 1 << 20
    drain_journal(db._graph.store)
    assert catalog.stat().st_size < small + 300_000
    assert db.check().ok
    assert drain_journal(db._graph.store) == 0


def test_storage_weighs_and_finds_sharing(db: Database) -> None:
    fill(db, commits=5)
    alone = db.storage()
    assert alone.sharing == 1.0
    assert alone.bytes > 0
    assert alone.tables["t"].chunks > 5
    for number in range(4):
        db.branch("main").clone(f"b{number}")
    found = db.storage()
    assert found.sharing == pytest.approx(5.0, rel=0.05)
    assert set(found.branches) == {"main", "b0", "b1", "b2", "b3"}
    assert found.snapshots == 8
    assert "packs" in str(found)


def test_check_finds_what_is_wrong(tmp_path: Path) -> None:
    with stopped(), counted(), livingdb.create(db_path(tmp_path), author="ann") as db:
        fill(db, commits=3)
        drain_journal(db._graph.store)
    pack = next((Path(db_path(tmp_path)) / "packs").glob("*.pack"))
    data = bytearray(pack.read_bytes())
    data[len(data) // 3] ^= 0x10
    pack.write_bytes(bytes(data))
    with livingdb.open(db_path(tmp_path)) as again:
        report = again.check()
    assert not report.ok
    assert report.problems
    assert "pack" in str(report)


def db_path(tmp_path: Path) -> Path:
    return tmp_path / "shop.ldb"


def test_small_packs_are_joined(db: Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "int", "v": "int"}, key="id")
    for number in range(30):
        main.upsert("t", {"id": [number], "v": [number]})
        drain_journal(db._graph.store)
    names = db._graph.catalog.packs.names()
    assert len(names) < 10
    assert sorted(path.name for path in (Path(db.name) / "packs").iterdir()) == sorted(names)
    assert db.check().ok
    with livingdb.open(db.name) as again:
        assert len(again.branch("main").table("t")) == 30
        assert len(again.at("main~10").table("t")) == 20


def test_what_was_dropped_is_written_again(db: Database) -> None:
    """A tree that was thinned out comes back, in a handle that knew the old packs."""
    held = fill(db)
    with livingdb.open(db.name) as other:
        roots = {name: other.at(name).table("t").root() for name in list(held)[::4]}
        db.compact()
        for name, root in roots.items():
            assert other.at(name).table("t").root() == root
            assert db.at(name).table("t").root() == root
        drain_journal(other._graph.store)
        assert other.check().ok
    report = db.check()
    assert report.ok, report
