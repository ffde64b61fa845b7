"""A deep check finds rows that break what their table says of them, whoever let them in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.commit.masks.shop import forget_keys
from tests.unit.maintenance.test_check_syncs import move_to, plant

import livingdb
from livingdb.evolution import AddColumn, AddConstraint, AddUnique, MaskColumn
from livingdb.graph.graph import tables_of
from livingdb.tables import ingest


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as made:
        main = made.branch("main")
        main.create_table("cities", {"id": "bigint", "name": "string not null"}, key="id")
        columns = {"id": "bigint", "city": "bigint", "n": "int", "code": "varchar(3)"}
        main.create_table("people", columns, key="id", foreign_keys={"city": "cities"})
        main.evolve(AddConstraint("people", "small", "n < 10"))
        main.insert("cities", [{"id": i, "name": f"city {i}"} for i in range(3)])
        main.insert("people", [{"id": i, "city": i, "n": i, "code": "abc"} for i in range(3)])
        main.insert("people", [{"id": 3}])
        yield made


@pytest.mark.parametrize(
    ("table", "wrong", "what"),
    [
        ("people", {"n": 10}, "the row with the key 0 breaks the check 'small': n < 10"),
        ("people", {"code": "abcd"}, "key 0 does not fit varchar"),
        ("people", {"city": 7}, "column 'city': 'cities' has no row with the key 7"),
    ],
)
def test_a_row_that_breaks_a_rule(
    db: livingdb.Database, table: str, wrong: dict[str, object], what: str
) -> None:
    assert db.check(deep=True).ok
    plant(db, "main", table, wrong)
    db.branch("main").clone("dev")
    assert db.check().ok
    (problem,) = db.check(deep=True).problems
    assert problem.where.endswith(f", table {table}")
    with pytest.raises(livingdb.InvalidData, match=what):
        raise livingdb.InvalidData(problem.what)


def test_a_null_where_there_may_be_none(db: livingdb.Database) -> None:
    graph = db._graph
    row = graph.branch("main")
    version = tables_of(graph, graph.snapshots.at(row.head))["cities"]
    held = graph.versions.rows(version)
    first = held.to_arrow().slice(1, 1)
    with graph.stage() as staging:
        delta = ingest.carried_upserts(held.schema, held.forest.shape, first)
        nulls = replace(delta, columns=(delta.columns[0], pa.nulls(1, pa.string())))
        made = graph.versions.change(version, nulls, staging.sink)
        move_to(graph, row, {"cities": made}, staging)
    assert db.check().ok
    (problem,) = db.check(deep=True).problems
    assert problem.where == "branch main, table cities"
    assert "column 'name': null in the row with the key 1" in problem.what


def test_rows_that_nobody_can_read_here(
    db: livingdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a mask has yet to make of rows is for who has its key: it is no damage."""
    main = db.branch("main")
    main.evolve([AddColumn("cities", "code", "int"), AddUnique("cities", "code")])
    mask = MaskColumn("cities", "name", key="secret")
    main.clone("masked", transform=[mask], sync="forward", materialize="lazy")
    db.close()
    forget_keys(monkeypatch)
    with livingdb.open(tmp_path / "db", engine="embedded") as other:
        with pytest.raises(livingdb.LivingDBError, match="key"):
            other.branch("masked").table("cities").to_arrow()
        assert other.check().problems == []
        assert other.check(deep=True).problems == []
