"""Tuning changes what work costs, and nothing that anybody reads; undone, all lies as it did."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.maintenance.tuning.lab import MACHINE

import livingdb
from livingdb import Database, LivingDBError
from livingdb.evolution import AddColumn, RenameColumn, RetypeColumn
from livingdb.graph.graph import now
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.advisors.every_advisor import ADVISORS
from livingdb.maintenance.tuning.calibrate import MODEL
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.records import new_record, save_records

ACTS = ("write", "patch", "delete", "clone", "add", "retype", "rename", "derive", "budget")
WORK: tuple[dict[str, dict[str, float]], ...] = (
    {"read": {"whole": 1e6}, "rows": {"whole": 1e7}},
    {"read": {"range": 1e6, "get": 1e6}, "rows": {"range": 2e6}},
    {"write": {"commits": 1e5, "rows": 1e7}, "tail": {"3": 1e5}, "read": {"whole": 1e5}},
    {"evaluate": {"times": 1e4, "microseconds": 1e9}, "projection": {"miss": 1e4}},
    {"read": {"get": 1e6}, "microseconds": {"get": 1e9}},
)
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTS), st.integers(0, 20), st.integers(0, 12), st.booleans()),
    min_size=2,
    max_size=6,
)


@given(STEPS)
def test_nobody_reads_otherwise(steps: list[tuple[str, int, int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.ldb"
        with livingdb.create(path, author="ann", engine="embedded") as db:
            start(db)
            for number, (act, value, place, is_undone) in enumerate(steps):
                try:
                    do(db, act, value, number)
                except LivingDBError:
                    continue  # the graph has rules, and they are tested elsewhere
                check_tuning(db, value, place, is_undone)
            held = read(db)
        with livingdb.open(path, engine="embedded") as db:
            assert read(db) == held
            assert db.check(deep=True).ok


def check_tuning(db: Database, value: int, place: int, is_undone: bool) -> None:
    """Apply one of all candidates, whatever it gains, and undo it or not."""
    before = read(db)
    observe(db, value)
    evidence = Evidence(db._graph, now())
    found: list[Candidate] = [one for advisor in ADVISORS for one in advisor(evidence)]
    chosen = [one for one in found if not one.action.is_by_hand]
    if not chosen:
        return
    one = chosen[place % len(chosen)]
    (row,) = save_records(db._graph, [new_record(one, None, True, now())])
    layouts = db._graph.catalog.table_layouts.all()
    advice = db.advice(row.number).apply()
    assert read(db) == before, one.action
    if is_undone:
        advice.undo()
        assert db._graph.catalog.table_layouts.all() == layouts
        assert read(db) == before, one.action


def observe(db: Database, value: int) -> None:
    """As if all tables had been used in one way."""
    catalog = db._graph.catalog
    definitions = [
        branch.table(name).definition for branch in db.branches() for name in branch.tables()
    ]
    found = {one.id: WORK[value % len(WORK)] for one in definitions if one.id is not None}
    with catalog.write() as connection:
        catalog.set_meta(connection, MODEL, MACHINE.to_text())
        catalog.observations.clear(connection)
        catalog.observations.add(connection, now(), found)


def read(db: Database) -> dict[str, dict[str, pa.Table]]:
    """Every table of every branch and snapshot, and where each branch is."""
    refs = [*(branch.name for branch in db.branches()), *(s.id for s in db.snapshots())]
    return {
        ref: {name: db.at(ref).table(name).to_arrow() for name in db.at(ref).tables()}
        for ref in refs
    }


def start(db: Database) -> None:
    main = db.branch("main")
    main.create_table("a", {"id": "int", "v": "bigint", "t": "string"}, "id")
    main.insert("a", rows(range(40), 0))


def rows(ids: Any, value: int) -> list[dict[str, Any]]:
    return [{"id": number, "v": value, "t": f"t{value}"} for number in ids]


def do(db: Database, act: str, value: int, number: int) -> None:
    names = [branch.name for branch in db.branches() if "a" in branch.tables()]
    branch = db.branch(names[value % len(names)])
    if act == "write":
        branch.upsert("a", {"id": range(value, value + 15), "v": [number] * 15})
    elif act == "patch":
        branch.update("a", [{"id": value, "v": number}])
    elif act == "delete":
        branch.delete("a", [value, value + 1])
    elif act == "clone":
        branch.clone(f"c{number}")
    elif act == "add":
        branch.evolve(AddColumn("a", f"n{number}", "int", default=1), keep=f"k{number}")
    elif act == "retype":
        branch.evolve(RetypeColumn("a", "id", "bigint"))
    elif act == "rename":
        branch.evolve(RenameColumn("a", "t", f"t{number}"))
    elif act == "derive":
        query = "SELECT v, count(*) AS n FROM a GROUP BY v"
        branch.derive(f"d{number}", sql=query, key="v", materialize="none", when="immediate")
    else:
        db.budget(bytes=1 if value % 2 else None)
