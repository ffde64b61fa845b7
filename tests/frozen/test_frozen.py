"""Databases of every format there has been: they open, read the same, and go on being written.

See docs/design/frozen.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.frozen.archive import expected, first_difference, frozen_names, stored, unpack
from tests.frozen.describe import describe
from tests.frozen.make import TRUST
from tests.property.trying import HAS_TIME
from tests.unit.commit.derived.oracle import assert_same_rows, recomputed

import livingdb
from livingdb import Branch, Database, evolution
from livingdb.catalog import schema
from livingdb.catalog.alerts import STATES
from livingdb.derivation.view import View
from livingdb.evolution import AddColumn

NEW_VALUE = "written long after"
INNER = {"NoChange", "RevertChange"}
"""The kinds of changes that nobody makes by their names."""
_DEFAULTS = {"DropDefault", "SetDefault", "AddUnique", "DropUnique"}
LATER = {
    "catalog-4": {"ReorderColumns", *_DEFAULTS, *INNER},
    "catalog-5": {"ReorderColumns", *_DEFAULTS, *INNER},
    "catalog-5-packs-2": _DEFAULTS,
}
"""The kinds of changes that came after a database was frozen."""
HEADS = ("branches", "tags", "syncs", "derived", "alerts", "watching")
"""The sections that tell where a database stands now; the others are about its history."""
QUESTIONS = ("diffs", "blame", "history", "lineage", "provenance")
"""The sections that are worked out; the others are read.  They take most of the time."""


NAMES = frozen_names()


def _spread(names: list[str]) -> list[object]:
    """The oldest and the newest in all tests; those between where there is time."""
    middle = names[1:-1]
    return [pytest.param(n, marks=pytest.mark.slow) if n in middle else n for n in names]


@pytest.fixture(params=_spread(NAMES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(path: Path) -> Database:
    """A frozen database as somebody has it who is trusted and has no Spark."""
    return livingdb.open(path, author="later", engine="embedded", trust=TRUST)


def test_the_format_of_today_is_frozen() -> None:
    assert f"catalog-{schema.SCHEMA_VERSION}" in frozen_names()


def test_it_reads_as_it_did(name: str, tmp_path: Path) -> None:
    """The first who opens it may migrate it, and answers that were stored are read by the next."""
    path, wanted = unpack(name, tmp_path), expected(name)
    if name == NAMES[-1] and not HAS_TIME:  # other tests ask them of databases of this format
        wanted = {section: told for section, told in wanted.items() if section not in QUESTIONS}
    for sections, is_first in ((wanted, True), (HEADS, False)):
        with opened(path) as db:
            found = json.loads(json.dumps(describe(db, sections)))
            assert db.check(deep=is_first).problems == []
        for section in sections:
            difference = first_difference(wanted[section], found.get(section), [section])
            if difference is not None:
                pytest.fail(f"{name} reads differently: {difference}", False)


def test_everything_is_in_it(name: str) -> None:
    told = stored(name)
    syncs, edges = told["syncs"].values(), [s["edge"] for s in told["snapshots"].values()]
    assert {sync["state"] for sync in syncs} == {"active", "held", "detached", "error"}
    assert {sync["direction"] for sync in syncs} == {"forward", "reverse", "both"}
    assert {alert["state"] for alert in told["alerts"].values()} == set(STATES)
    changes = [c for edge in edges for c in edge.get("details", {}).get("changes", [])]
    known = {*evolution.__all__, *INNER} - {"SchemaChange"} - LATER.get(name, set())
    assert {change["change"] for change in changes} == known
    kinds = {"derive", "merge", "propagate", "schema_change", "transaction"}
    assert {edge["kind"] for edge in edges} == kinds
    assert any(sync["quarantined"].get("clean_orders") for sync in syncs)


def test_a_difference_is_told_kindly() -> None:
    old = {"a": [1, {"b": 2.0}], "c": "x" * 1000}
    assert first_difference(old, json.loads(json.dumps(old))) is None
    assert first_difference(old, {**old, "a": [1, {"b": 2}]}) == "a › 1 › b\n  was 2.0\n  is  2"
    assert first_difference(old, {**old, "a": [1]}) == "a had 2 items and has 1"
    assert len(str(first_difference(old, {"a": old["a"]}))) < 500
    assert str(first_difference({}, {"d": 1})) == "d is new: 1"


# --- writing ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """A value that was put into a cell of a branch."""

    branch: str
    table: str
    key: tuple[Any, ...]
    column: str


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in NAMES[1:] else []) for n in NAMES]
)
def test_it_goes_on(name: str, tmp_path: Path) -> None:
    """The oldest; what the newest goes on with is what all other tests write."""
    path = unpack(name, tmp_path)
    with opened(path) as db:
        before = {sync.name: sync.state for sync in db.syncs()}
        written = list(write_everywhere(db))
        assert len(written) >= len(db.branches()) // 2
        assert_two_ways(db, written)
        assert {sync.name: sync.state for sync in db.syncs()} == before
        assert_views(db)
        go_on(db)
        masked(db)
        schemas_follow(db)
        merge_and_derive(db)
        db.propagate()
        assert_views(db)
        state = {branch.name: held(branch) for branch in db.branches()}
        db.compact()
        assert db.check(deep=True).problems == []
    with opened(path) as db:
        assert {branch.name: held(branch) for branch in db.branches()} == state
        assert db.check(deep=True).problems == []


def test_its_branches_can_have_other_names(name: str, tmp_path: Path) -> None:
    """Records of every format are read by the names of now, and whatever stopped goes on."""
    others = {"main": "trunk", "main_v1": "oldest", "what_if": "what_then"}
    with opened(unpack(name, tmp_path)) as db:
        before, blamed = sources(db), db.blame("totals", "totals")
        states = {sync.target: sync.state for sync in db.syncs()}
        for old, new in others.items():
            db.rename_branch(old, new)
        assert sources(db) == {
            made: {others.get(branch, branch): at for branch, at in read.items()}
            for made, read in before.items()
        }
        assert db.blame("totals", "totals") == blamed
        assert {others.get(s, s) for s in states} == {sync.target for sync in db.syncs()}
        assert all(sync.state == states.get(sync.target, sync.state) for sync in db.syncs())
        at = db.at("totals~1").sources["trunk"]
        assert db.derived_at("totals", source=f"id:{at}") == db.at("totals~1")
        db.branch("oldest").sql("UPDATE orders SET city = 'Moss' WHERE id = 11")
        assert db.branch("trunk").table("orders").get(11)["city"] == "Moss"
        db.propagate()
        db.sync("left").reattach(on_conflict="ours")
        assert db.sync("left").state == "active"
        assert_views(db)
        assert db.check().problems == []


def sources(db: Database) -> dict[str, dict[str, str]]:
    """What syncs made, and of what."""
    kinds = ("derive", "propagate")
    return {s.id: s.sources for s in db.snapshots() if s.edge.kind in kinds}


def held(branch: Branch) -> tuple[str, dict[str, Any]]:
    """The head of a branch and the rows of its tables, of large ones their number."""
    tables = {name: branch.table(name) for name in branch.tables()}
    small = {name: repr(t.to_arrow().to_pylist()) for name, t in tables.items() if len(t) < 200}
    return branch.head.id, {name: small.get(name, len(t)) for name, t in tables.items()}


def write_everywhere(db: Database) -> Iterator[Written]:
    """A new value in one cell of every branch that can be written."""
    for branch in db.branches():
        cell = some_cell(branch)
        if cell is None:
            continue
        head = branch.head
        row = dict(zip(branch.table(cell.table).key, cell.key, strict=True))
        try:
            branch.update(cell.table, [{**row, cell.column: NEW_VALUE}], message="long after")
        except livingdb.ReadOnlyBranch:
            assert branch.head == head
            continue
        assert branch.head.parents == (head.id,)
        assert value_of(branch, cell) == NEW_VALUE
        yield cell


def some_cell(branch: Branch) -> Written | None:
    """A cell with a text that may be any other, in a small table."""
    for name in branch.tables():
        table = branch.table(name)
        columns = table.rows.schema.columns
        free = [
            column.name
            for column in columns
            if column.type == pa.string() and not column.is_fixed and column.name not in table.key
        ]
        keys = table.to_arrow(list(table.key)).slice(0, 1).to_pylist() if table.key else []
        if free and keys and len(table) < 100:
            return Written(branch.name, name, tuple(keys[0].values()), free[0])
    return None


def value_of(branch: Branch, cell: Written) -> object:
    row = branch.table(cell.table).get(cell.key)
    return None if row is None else row[cell.column]


def assert_two_ways(db: Database, written: list[Written]) -> None:
    """What was written to one side of a sync is in the other, where that has the cell, too."""
    crossed = 0
    ends = {(s.sources[0], s.target) for s in db.syncs() if s.state == "active"}
    both = {(s.sources[0], s.target) for s in db.syncs() if s.direction == "both"} & ends
    last = {cell.branch: number for number, cell in enumerate(written)}
    for one, other in [*both, *((target, source) for source, target in both)]:
        cell = next((cell for cell in written if cell.branch == one), None)
        if cell is None or last.get(other, -1) > last[one]:
            continue  # somebody has written to the other side since
        branch = db.branch(other)
        table = branch.table(cell.table) if cell.table in branch.tables() else None
        if table is None or table.key != db.branch(one).table(cell.table).key:
            continue
        open_columns = {c.name for c in table.rows.schema.columns if not c.is_fixed}
        if cell.column in open_columns and table.get(cell.key) is not None:
            assert value_of(branch, cell) == NEW_VALUE, (cell, other)
            crossed += 1
    assert crossed > 5


def assert_views(db: Database) -> None:
    """Every view that is not behind holds what its query says, or has it set aside."""
    syncs = {sync.target: sync for sync in db.syncs()}
    for row in db._graph.catalog.syncs.all():
        if row.kind != "derive" or not row.is_active or row.spec["what"] != "sql":
            continue
        view = View.from_json(row.spec)
        sync, head = syncs[view.name], db.branch(view.name).head
        assert row.frequency != "immediate" or sync.lag == 0, view.name
        if sync.lag == 0:
            rows = head.table(view.name).to_arrow()
            aside = sync.quarantined().select(rows.column_names).cast(rows.schema)
            everything = pa.concat_tables([rows, aside])
            assert_same_rows(everything, recomputed(db, view, head._row), view.name)


def go_on(db: Database) -> None:
    """Whatever stopped goes on: held, in error, detached and behind."""
    main = db.branch("main")
    main.insert("customers", [{"id": 500, "name": "Ida", "email": "c1@example.org"}])
    db.sync("guarded").approve(by="ann")
    main.update("lines", {"order": [2], "line": [1], "quantity": [1]})
    db.sync("fragile").resume()
    db.propagate()
    db.sync("approved").approve(by="bob")
    db.sync("left").reattach(on_conflict="ours")
    db.propagate()
    db.refresh("recent")
    names = ("guarded", "fragile", "approved", "left", "recent", "by_customer", "model")
    assert {n: (db.sync(n).state, int(db.sync(n).lag)) for n in names} == dict.fromkeys(
        names, ("active", 0)
    )
    assert db.at("fragile").artifact() == b"trained"
    assert db.branch("approved").table("approved").get(500) == {"id": 500, "name": "Ida"}
    assert db.branch("left").table("left").get(500) == {"id": 500, "city": "Oslo"}


def masked(db: Database) -> None:
    """Both masked clones have what is new, under the mask that they had for it before."""
    for branch in (db.branch("masked_now"), db.branch("masked_later")):
        customers = branch.table("customers")
        assert customers.get(500)["email"] == customers.get(1)["email"] != "c1@example.org"


def schemas_follow(db: Database) -> None:
    """A new schema at one end of the chain, a row written at the other, and back."""
    main, oldest = db.branch("main"), db.branch("main_v1")
    main.evolve(AddColumn("orders", "grade", "int", default=3), keep="main_v4", sync="both")
    oldest.sql("INSERT INTO orders (id, customer, city, amount) VALUES (700, 1, 'Oslo', 12.5)")
    row = main.table("orders").get(700)
    assert (str(row["net"]), str(row["vat"]), row["grade"]) == ("12.50", "0.00", 3)
    before = {
        r["city"]: r["total"] for r in main.sql("SELECT * FROM totals").to_arrow().to_pylist()
    }
    main.sql("UPDATE orders SET net = 13, grade = 4 WHERE id = 700")
    assert str(oldest.table("orders").get(700)["amount"]) == "13.00"
    after = {r["city"]: r["total"] for r in main.sql("SELECT * FROM totals").to_arrow().to_pylist()}
    assert str(after["Oslo"] - before["Oslo"]) == "0.50"
    main.migrate()
    assert main.table("orders").get(700)["grade"] == 4


def merge_and_derive(db: Database) -> None:
    """A clone of the old, a merge, a revert, and a view of what there is."""
    main = db.branch("main")
    side = main.clone("aside")
    side.sql("UPDATE events SET kind = 'aside' WHERE id < 300")
    main.sql("DELETE FROM events WHERE id > 59000")
    db.merge("aside", into="main")
    assert main.table("events").get(3)["kind"] == "aside"
    assert main.table("events").get(59_997) is None
    main.derive("late", "SELECT kind, count(*) AS n FROM events GROUP BY kind", when="immediate")
    main.revert("main~1", message="not so")
    kinds = {r["kind"]: r["n"] for r in main.sql("SELECT * FROM late").to_arrow().to_pylist()}
    assert ("aside" in kinds) == bool(len(main.sql("SELECT 1 FROM events WHERE kind = 'aside'")))
    assert sum(kinds.values()) == len(main.table("events"))
