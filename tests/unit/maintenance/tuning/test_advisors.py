"""Advisors: each proposes what the observed work calls for, and nothing where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.maintenance.tuning.lab import ROWS, advised, column_ids, made, observe, table_id

from livingdb import Database, Layout, Unsupported
from livingdb.evolution import AddColumn, RetypeColumn
from livingdb.graph.graph import now
from livingdb.maintenance.tuning.actions.redefine import Redefine
from livingdb.maintenance.tuning.actions.refresh_time import RefreshTime
from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.actions.store import Store
from livingdb.maintenance.tuning.advisors.attribute_groups import advise_groups
from livingdb.maintenance.tuning.advisors.every_advisor import ADVISORS
from livingdb.maintenance.tuning.advisors.folding import advise_folding
from livingdb.maintenance.tuning.advisors.leaf_size import advise_leaf_size
from livingdb.maintenance.tuning.advisors.projections import advise_projections
from livingdb.maintenance.tuning.advisors.refresh_times import advise_refresh_times
from livingdb.maintenance.tuning.advisors.splitter import advise_splitter
from livingdb.maintenance.tuning.advisors.stored_versions import advise_storing
from livingdb.maintenance.tuning.advisors.view_storage import advise_view_storage
from livingdb.maintenance.tuning.records import new_record, save_records


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with made(tmp_path / "db") as db:
        yield db


def layout_of(db: Database, action: object) -> Layout:
    assert isinstance(action, Relayout)
    assert action.after is not None
    return action.after.fit(db.branch("main").table("t").definition.schema)


def test_nothing_was_observed(db: Database) -> None:
    assert [found for advisor in ADVISORS for found in advised(db, advisor)] == []


def test_leaves_by_how_much_is_read_at_a_time(db: Database) -> None:
    observe(db, {"read": {"whole": 100.0}, "rows": {"whole": 100.0 * ROWS}})
    (found,) = advised(db, advise_leaf_size)
    assert layout_of(db, found.action).target_rows == 32_768
    assert "100 reads of all rows, 20,000 each" in found.reason
    assert "4,096" in found.reason
    assert found.predicted.share > 0.3
    assert found.price.bytes > 0
    observe(db, {"read": {"range": 1e3}, "rows": {"range": 2e3}})
    assert advised(db, advise_leaf_size) == [], "what suits the one does not suit the other"
    with db._graph.catalog.write() as connection:
        db._graph.catalog.observations.clear(connection)
    observe(db, {"read": {"range": 1e6}, "rows": {"range": 2e6}})
    (found,) = advised(db, advise_leaf_size)
    assert layout_of(db, found.action).target_rows < 4096


def test_columns_that_are_written_alone_lie_apart(db: Database) -> None:
    state, price = column_ids(db, "state"), column_ids(db, "price")
    observe(
        db,
        {
            "write": {"commits": 100.0, "rows": 1e6},
            "written columns": {state: 70.0, price: 30.0},
        },
    )
    (found,) = advised(db, advise_groups)
    groups = layout_of(db, found.action).groups
    assert groups is not None
    assert [list(group) for group in groups] == [["price", "state"]]
    assert "100 % of 100 commits" in found.reason
    db.branch("main").relayout("t", Layout(groups=groups))
    assert advised(db, advise_groups) == []


def test_groups_that_are_read_together_become_one(db: Database) -> None:
    db.branch("main").relayout("t", Layout(groups=[["note"], ["price"], ["state"]]))
    observe(db, {"read": {"whole": 100.0}, "rows": {"whole": 100.0 * ROWS}})
    (found,) = advised(db, advise_groups)
    assert layout_of(db, found.action).groups is None


def test_tails_are_folded_sooner_for_readers_and_later_for_writers(db: Database) -> None:
    small = Layout(target_rows=64)
    db.branch("main").relayout("t", small)
    observe(
        db,
        {
            "read": {"whole": 10_000.0},
            "rows": {"whole": 10_000.0 * ROWS},
            "tail": {"14": 10_000.0},
            "write": {"commits": 40.0, "rows": 40_000.0},
        },
    )
    (found,) = advised(db, advise_folding)
    assert layout_of(db, found.action).fold == 0.02
    assert "12,288 changed rows" in found.reason
    db.branch("main").relayout("t", replace(small, fold=0.02))
    observe(db, {"write": {"commits": 1e6, "rows": 1e9}})
    (found,) = advised(db, advise_folding)
    assert layout_of(db, found.action).fold == "auto"
    db.branch("main").relayout("t", replace(small, fold="always"))
    assert advised(db, advise_folding) == [], "who said always meant it"


def test_new_rows_among_others_are_cut_by_count(db: Database) -> None:
    observe(db, {"write": {"commits": 100.0, "rows": 1e6}})
    (found,) = advised(db, advise_splitter)
    assert layout_of(db, found.action).splitter == "capacity"
    assert "roots" in found.noticed_by
    observe(db, {"written columns": {column_ids(db, "state"): 100.0}})
    assert advised(db, advise_splitter) == [], "no keys are new"


def test_spark_gets_files_of_what_it_reads(db: Database) -> None:
    observe(db, {"projection": {"miss": 40.0}})
    (found,) = advised(db, advise_projections)
    assert layout_of(db, found.action).projection
    assert found.predicted > 1
    db.branch("main").relayout("t", Layout(projection=True))
    assert advised(db, advise_projections) == []


def test_what_is_read_through_lenses_and_queries_is_stored(db: Database) -> None:
    main = db.branch("main")
    main.derive("v", sql="SELECT state, count(*) AS n FROM t GROUP BY state", key="state",
                materialize="none")  # fmt: skip
    view = table_id(db, "v", "v")
    observe(db, {"evaluate": {"times": 10.0, "microseconds": 5e6}}, view)
    main.evolve([AddColumn("t", "vat", "double", default=0.5), RetypeColumn("t", "id", "bigint")])
    observe(db, {"read": {"get": 1e4, "lens": 8.0}, "tail": {"0": 8.0},
                 "microseconds": {"get": 9e6}})  # fmt: skip
    by_name = {found.action.name: found for found in advised(db, advise_storing)}  # type: ignore[attr-defined]
    assert set(by_name) == {"v", "t"}
    assert all(isinstance(found.action, Store) for found in by_name.values())
    assert "computed 10 times" in by_name["v"].reason
    assert "10,000 times through a lens" in by_name["t"].reason
    assert by_name["v"].predicted.share > 0.9
    by_name["v"].action.finish(db._graph, 10.0)
    main.migrate()
    assert advised(db, advise_storing) == []


def test_refreshes_wait_within_their_lag_and_unread_views_are_told_of(db: Database) -> None:
    main = db.branch("main")
    main.derive("late", sql="SELECT state, count(*) AS n FROM t GROUP BY state", key="state",
                when="lag 10 minutes", engine="embedded")  # fmt: skip
    (sync,) = db._graph.catalog.syncs.all()
    with db._graph.catalog.write() as connection:
        for number in range(6):
            db._graph.catalog.runs.add(
                connection, sync.id, None, now() - number, 1_000_000, "done", {}
            )
    (found,) = advised(db, advise_refresh_times)
    assert found.action == RefreshTime(sync.id, "late", 0.9, 0.5)
    assert "none longer than 1 s" in found.reason
    assert found.predicted.share == pytest.approx(1 - 0.5 / 0.9)
    (found,) = advised(db, advise_view_storage)
    assert found.action == Redefine(sync.id, "late", "none")
    (row,) = save_records(db._graph, [new_record(found, None, True, now())])
    advice = db.advice(row.number)
    assert advice.is_by_hand
    with pytest.raises(Unsupported, match="by hand, with"):
        advice.apply()
    assert db.advice(row.number).state == "advised"
    late = table_id(db, "late", "late")
    observe(db, {"read": {"whole": 1.0}}, late)
    (found,) = advised(db, advise_view_storage)
    assert found.action == Redefine(sync.id, "late", "lazy")
    assert found.predicted.share == pytest.approx(5 / 6)
    observe(db, {"read": {"whole": 3.0}}, late)
    assert advised(db, advise_view_storage) == []


def test_a_view_of_which_a_part_is_read_is_stored_in_part(db: Database) -> None:
    db.branch("main").derive("part", sql="SELECT id, price FROM t", key="id", when="immediate")
    (sync,) = db._graph.catalog.syncs.all()
    with db._graph.catalog.write() as connection:
        for number in range(6):
            db._graph.catalog.runs.add(connection, sync.id, None, now() - number, 10**6, "done", {})
    gets = 1e6
    observe(db, {"read": {"get": gets}, "place": {"15": gets}}, table_id(db, "part", "part"))
    (found,) = advised(db, advise_view_storage)
    assert found.action == Redefine(sync.id, "part", "where …")
    assert "6 % of its keys" in found.reason
