"""Upkeep changes what reads cost, and nothing that anybody reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import livingdb
from livingdb import Database, Layout, LivingDBError
from livingdb.evolution import AddColumn, DropColumn, RenameColumn

ACTS = ("write", "many", "delete", "clone", "evolve", "keep", "derive", "merge", "reset", "drop")
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTS), st.integers(0, 30), st.booleans()), min_size=3, max_size=12
)


@given(STEPS)
def test_no_ref_reads_otherwise(steps: list[tuple[str, int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.ldb"
        with livingdb.create(path, author="ann", engine="embedded") as db:
            start(db)
            for number, (act, value, keeps_up) in enumerate(steps):
                try:
                    do(db, act, value, number)
                except LivingDBError:
                    continue  # the graph has rules, and they are tested elsewhere
                if keeps_up:
                    check_upkeep(db)
            check_upkeep(db)
            held = read(db)
        with livingdb.open(path, engine="embedded") as db:
            assert read(db) == held
            assert db.check(deep=True).ok


def check_upkeep(db: Database) -> None:
    before = read(db)
    report = db.upkeep(seconds=60, propagate=False)
    assert not report.failed, report
    assert read(db) == before
    assert [alert for alert in db.alerts() if alert.event == "damage"] == []


def read(db: Database) -> dict[str, dict[str, pa.Table]]:
    """Every table of every branch and snapshot."""
    refs = [*(branch.name for branch in db.branches()), *(s.id for s in db.snapshots())]
    return {
        ref: {name: db.at(ref).table(name).to_arrow() for name in db.at(ref).tables()}
        for ref in refs
    }


def start(db: Database) -> None:
    main = db.branch("main")
    layout = Layout(fold=0.3, target_rows=8, projection=True)
    main.create_table("a", {"id": "bigint", "v": "bigint", "t": "string"}, "id", layout=layout)
    main.insert("a", rows(range(20), 0))


def rows(ids: Any, value: int) -> list[dict[str, Any]]:
    return [{"id": number, "v": value, "t": f"t{value}"} for number in ids]


def do(db: Database, act: str, value: int, number: int) -> None:
    names = [branch.name for branch in db.branches()]
    branch = db.branch(names[value % len(names)])
    if act == "write":
        branch.update("a", [{"id": value, "v": number}])
    elif act == "many":
        branch.upsert("a", {"id": range(value, value + 15), "v": [number] * 15})
    elif act == "delete":
        branch.delete("a", [value, value + 1])
    elif act == "clone":
        branch.clone(f"b{number}")
    elif act == "evolve":
        changes = [AddColumn("a", f"c{number}", "int", default=3), RenameColumn("a", "t", "u")]
        branch.evolve(changes[value % 2])
    elif act == "keep":
        change = AddColumn("a", f"c{number}", "int") if value % 2 else DropColumn("a", "t")
        branch.evolve(change, keep=f"kept{number}", sync="both")
    elif act == "derive":
        when = ["immediate", "deferred"][value % 2]
        query = "SELECT v, count(*) AS n FROM a GROUP BY v"
        branch.derive(f"d{number}", sql=query, when=when, engine="embedded")
    elif act == "merge":
        db.merge(names[(value + 1) % len(names)], into=branch.name, on_conflict="theirs")
    elif act == "reset":
        branch.reset(f"{branch.name}~1")
    else:
        db.drop_branch(branch.name, detach=True)
