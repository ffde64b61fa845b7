"""Tasks read what no pack holds: trees of recipes that nobody has stored, or ever will."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import livingdb
from livingdb.database.database import Database
from livingdb.engines.pruning import scan_bounds
from livingdb.evolution import SplitColumn
from livingdb.spark.scan_tasks import plan_scan

ROWS = 20_000


def scanned(place: Path, ref: str, table: str, columns: list[str]) -> pa.Table:
    """What tasks read by themselves, after who planned them is gone."""
    with livingdb.open(place) as db:
        graph = db._graph
        version = graph.version(graph.resolve(ref).snapshot, table)
        part = scan_bounds(graph.versions.definition(version).schema, {})
        tasks = [pickle.dumps(task) for task in plan_scan(graph, version, columns, part, 4)]
    batches = [batch for task in tasks for batch in pickle.loads(task).batches()]
    return pa.Table.from_batches(batches).sort_by("id")


@pytest.fixture(params=[300, ROWS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A database with people, few or many."""
    path, count = tmp_path / "shop.ldb", request.param
    names = [None if i % 7 == 0 else f"Åse{i} Moe{i}" for i in range(count)]
    with livingdb.create(path) as db:
        main = db.branch("main")
        main.create_table("people", {"id": "bigint", "name": "string"}, "id")
        main.insert("people", pa.table({"id": range(count), "name": names}))
    return path


def wanted(db: Database, ref: str, table: str, columns: list[str]) -> pa.Table:
    return db.at(ref).table(table).to_arrow(columns).sort_by("id")


@pytest.mark.parametrize("writes", [False, True])
def test_after_a_schema_change(place: Path, writes: bool) -> None:
    with livingdb.open(place) as db:
        main = db.branch("main")
        change = SplitColumn("people", "name", ["given", "family"], separator=" ")
        main.evolve(change, keep="v1", sync="both")
        if writes:
            db.branch("v1").insert("people", [{"id": 10**9, "name": "Kari Vik"}])
            main.update("people", [{"id": 10**9, "family": "Lie"}])
    found = scanned(place, "main", "people", ["id", "given", "family"])
    with livingdb.open(place) as db:
        assert found.equals(wanted(db, "main", "people", ["id", "given", "family"]))
        assert db.check().problems == []


@pytest.mark.parametrize("materialize", ["none", "lazy", "where id >= 200"])
def test_a_view_that_is_not_stored(place: Path, materialize: str) -> None:
    with livingdb.open(place) as db:
        query = "SELECT id, upper(name) AS loud FROM people"
        db.branch("main").derive("loud", query, materialize=materialize, engine="embedded")
    found = scanned(place, "loud", "loud", ["id", "loud"])
    with livingdb.open(place) as db:
        assert found.equals(wanted(db, "loud", "loud", ["id", "loud"]))
