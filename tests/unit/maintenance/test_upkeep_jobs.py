"""The jobs of the runner: each does what it is for, and changes nothing that anybody reads."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import livingdb
from livingdb import Database, Forbidden, InvalidData, Layout
from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.evolution import AddColumn, RetypeColumn
from livingdb.graph.storage.projection_files import ProjectionFiles
from livingdb.maintenance.layouts import lay_out_due
from livingdb.maintenance.upkeep import health, storage_jobs
from livingdb.maintenance.upkeep.job import Step

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"
ORDERS = {"id": "bigint", "city": "string", "amount": "bigint"}


def orders(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": n, "city": "Oslo", "amount": n} for n in range(first, first + count)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop that much can be done for: tails, lenses, a journal, a view that is behind."""
    path: Path = tmp_path_factory.mktemp("upkeep") / "shop.ldb"
    with livingdb.create(path, author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("orders", ORDERS, "id")
        main.create_table("paid", {"id": "bigint", "sum": "int"}, "id", layout=Layout(fold="never"))
        main.insert("orders", orders(0, 600))
        main.insert("paid", {"id": range(600), "sum": range(600)})
        main.derive("totals", sql=TOTALS, engine="embedded")
        main.evolve(RetypeColumn("paid", "sum", "bigint"))
        main.evolve(AddColumn("orders", "vat", "double", default=0.0), keep="v1", sync="both")
        for number in range(20):
            main.upsert("orders", [{"id": number, "amount": 0, "vat": float(number)}])
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "shop.ldb"
    shutil.copytree(made, copy)
    return copy


def contents(db: Database) -> dict[str, dict[str, pa.Table]]:
    """Every table of every snapshot."""
    return {
        snapshot.id: {name: snapshot.table(name).to_arrow() for name in snapshot.tables()}
        for snapshot in db.snapshots()
    }


def did(report: Any) -> dict[str, int]:
    return {run.name: run.did for run in report.runs}


def test_tables_are_laid_out_as_was_asked_for(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        db.upkeep(seconds=60)
        main, before = db.branch("main"), contents(db)
        main.relayout("orders", Layout(target_rows=16, groups=[["amount"], ["city"]]))
        assert did(db.upkeep(seconds=60))["layout"] >= 1
        assert lay_out_due(db._graph) == []
        assert "layout" not in did(db.upkeep(seconds=60))
        assert contents(db) == before
        assert db.check().ok


def test_what_no_policy_keeps_is_collected(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        assert "collect" not in did(db.upkeep(seconds=60))
        db.retention = livingdb.Retention(snapshots=1, grace_seconds=0)
        main = db.branch("main")
        before = main.table("orders").to_arrow()
        assert did(db.upkeep(seconds=60))["collect"] >= 10
        assert "collect" not in did(db.upkeep(seconds=60))
        assert main.table("orders").to_arrow() == before
        assert db.check().ok


def test_everything_due_is_done_and_nothing_reads_otherwise(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        before = contents(db)
        told: list[tuple[str, str]] = []
        report = db.upkeep(seconds=60, progress=lambda *step: told.append(step))
        assert report
        assert not report.failed
        done = did(report)
        assert done["propagate"] == 1
        assert done["migrate"] == 2
        assert done["check"] > 100
        assert {name for name, _ in told} == set(done)
        after = contents(db)
        assert {address: after[address] for address in before} == before
        assert len(after) == len(before) + 1, "the view is up to date"
        assert db.sync("totals").lag == 0
        again = db.upkeep(seconds=60)
        assert not again.runs, again
        assert str(again) == "nothing is due"
        assert db.check().ok
    with livingdb.open(path, engine="embedded") as db:
        assert contents(db) == after


def test_without_propagation_no_head_moves(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        heads = {branch.name: branch.head.id for branch in db.branches()}
        done = did(db.upkeep(seconds=60, propagate=False))
        assert "propagate" not in done
        assert {branch.name: branch.head.id for branch in db.branches()} == heads
        assert db.sync("totals").lag == 20


def test_what_jobs_did_is_seen_in_sql(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        main = db.branch("main")
        db.upkeep(seconds=60)
        rows = main.sql("SELECT * FROM livingdb.jobs ORDER BY name").to_arrow().to_pylist()
        assert {row["state"] for row in rows} == {"idle"}
        assert {"check", "fold", "migrate", "propagate"} <= {row["name"] for row in rows}
        assert all(row["began"] <= row["ended"] and row["error"] is None for row in rows)
        seen = main.sql("SELECT job, outcome, reason FROM livingdb.runs WHERE sync IS NULL")
        assert ("migrate", "done", "2 done") in [
            tuple(row.values()) for row in seen.to_arrow().to_pylist()
        ]
        carried = main.sql("SELECT job FROM livingdb.runs WHERE sync = 'main/totals'").to_arrow()
        assert set(carried["job"].to_pylist()) == {None}


@pytest.mark.parametrize("limit", [{"seconds": 0}, {"bytes_per_second": -1}])
def test_limits_say_something(path: Path, limit: dict[str, float]) -> None:
    with livingdb.open(path) as db, pytest.raises(InvalidData):
        db.upkeep(**limit)


def test_a_database_that_is_only_read_is_left_alone(path: Path) -> None:
    with livingdb.open(path, read_only=True) as db:
        with pytest.raises(Forbidden):
            db.upkeep(seconds=1)
        assert [behind.name for behind in db.status().behind] == ["main/totals"]


# --- the jobs ------------------------------------------------------------------------------------


def test_long_tails_are_folded_and_runs_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was killed after a commit left them; the runner finds them, once."""
    with livingdb.create(tmp_path / "a.ldb", engine="embedded") as db:
        monkeypatch.setattr(db._graph.upkeep, "fold_and_drain", lambda made: None)
        main = db.branch("main")
        main.create_table("a", {"id": "bigint"}, "id", layout=Layout(fold=0.1))
        main.create_table("b", {"id": "bigint"}, "id")
        main.insert("a", {"id": range(100)})
        main.insert("a", {"id": range(100, 150)})
        main.insert("b", {"id": range(10)})
        graph = db._graph
        head = graph.snapshots.at(graph.branch("main").head)
        assert graph.index.tree(graph.version(head, "a").address) is None
        assert did(db.upkeep(seconds=60))["fold"] == 1
        assert graph.index.tree(graph.version(head, "a").address) is not None
        main.insert("b", {"id": [11]})
        assert did(db.upkeep(seconds=60)) == {"fold": 0, "migrate": 0, "project": 0}
        assert len(main.table("a")) == 150


def test_the_journal_is_drained_and_small_packs_joined(tmp_path: Path) -> None:
    random = Random(1)
    with livingdb.create(tmp_path / "a.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("a", {"id": "bigint", "data": "binary"}, "id")
        store = db._graph.store
        for number in range(9):
            main.insert("a", {"id": [number], "data": [random.randbytes(100_000)]})
            assert did(db.upkeep(seconds=60, propagate=False))["drain"] > 0
        assert store.journal.size_bytes() == 0
        assert db.status().packs < 9
        assert db.check().ok


def test_projections_follow_the_trees(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb", engine="embedded") as db:
        main = db.branch("main")
        layout = Layout(projection=True, fold="always", target_rows=16)
        main.create_table("a", {"id": "bigint", "name": "string"}, "id", layout=layout)
        main.create_table("b", {"id": "bigint"}, "id")
        main.insert("a", {"id": range(100), "name": [f"n{n}" for n in range(100)]})
        main.insert("b", {"id": range(100)})
        files = ProjectionFiles(db._graph.place.files)
        assert did(db.upkeep(seconds=60))["project"] == 1
        first = files.held()
        main.delete("a", range(50))
        assert did(db.upkeep(seconds=60))["project"] == 1
        assert files.held() > first
        (new,) = files.held() - first
        assert files.read(new).num_rows == 50
        assert db.check().ok


def test_packs_are_written_anew_when_that_pays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with livingdb.open(path, engine="embedded") as db:
        work = db._upkeep_work()
        assert storage_jobs.estimate_compaction(work, {}) is None
        monkeypatch.setattr(storage_jobs, "_megabytes", lambda work: 40)
        monkeypatch.setattr(storage_jobs, "_MORE_TREES", 1)
        found = storage_jobs.estimate_compaction(work, {})
        assert found is not None
        assert (found.units, found.is_whole) == (40, True)
        assert storage_jobs.estimate_compaction(work, {"megabytes": 20}) is None
        assert storage_jobs.estimate_compaction(work, {"trees": 1_000}) is None
        before = contents(db)
        assert "compact" in did(db.upkeep(seconds=60, propagate=False))
        assert contents(db) == before
        assert "compact" not in did(db.upkeep(seconds=60))


def test_retired_packs_are_swept_once_nobody_reads_them(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        db.compact()
        with livingdb.open(path) as other:
            other.branch("main").table("orders").get(1)
            db.branch("main").upsert("orders", orders(0, 3))
            db.compact()
            assert did(db.upkeep(seconds=60)).get("sweep") == 0
            assert db._graph.catalog.packs.retired_packs()
            assert "sweep" not in did(db.upkeep(seconds=60)), "once a day, and when it can be done"
        assert did(db.upkeep(seconds=60))["sweep"] >= 1
        assert not db._graph.catalog.packs.retired_packs()


# --- health --------------------------------------------------------------------------------------


def all_steps(db: Database, memory: Any) -> list[Step]:
    return list(health.check_health(db._upkeep_work(), memory))


def test_a_look_at_everything_can_be_left_anywhere(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_ROWS", 7)
    monkeypatch.setattr(health, "_CHUNKS", 5)
    with livingdb.open(path, engine="embedded") as db:
        db.compact()
        whole = all_steps(db, {})
        looked = sum(step.did for step in whole)
        assert whole[-1].memory["found"] == 0
        for at in range(0, len(whole) - 1, 9):
            rest = all_steps(db, dict(whole[at].memory))
            assert sum(step.did for step in [*whole[: at + 1], *rest]) == looked


def test_damage_becomes_an_alert_once(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        db.compact()
        (pack,) = (path / "packs").glob("*.pack")
    data = bytearray(pack.read_bytes())
    data[len(data) // 3] ^= 1
    pack.chmod(0o644)
    pack.write_bytes(data)
    with livingdb.open(path, engine="embedded") as db:
        assert all_steps(db, {})[-1].memory["found"] > 0
        found = db.alerts(state="open")
        assert {alert.event for alert in found} == {"damage"}
        assert {alert.severity for alert in found} == {"critical"}
        assert pack.stem in found[0].message
        all_steps(db, {})
        assert len(db.alerts(state="open")) == len(found), "it is known"
        status = db.status()
        assert not status.ok
        assert {item.kind for item in status.failed} == {"alert"}


def test_a_damaged_row_of_the_catalog_is_found(path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        with db._graph.catalog.write() as connection:
            connection.exec_driver_sql("UPDATE label SET label = 'x'")
            rows = SealedRows(schema.label)
            rows.insert(connection, [{"table": "orders", "column": "city", "label": "pii"}])
            connection.exec_driver_sql("UPDATE label SET label = 'public'")
        assert all_steps(db, {})[-1].memory["found"] == 1
        assert "table 'label'" in db.alerts(state="open")[0].message


def test_what_others_take_away_meanwhile_is_no_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction in the middle of a look retires packs and thins trees."""
    monkeypatch.setattr(health, "_CHUNKS", 3)
    with livingdb.open(path, engine="embedded") as db:
        db.compact()
        for number, _ in enumerate(health.check_health(db._upkeep_work(), {})):
            if number % 40 == 20:
                db.branch("main").upsert("orders", orders(number, 2))
                db.compact()
        assert db.alerts(state="open") == []
