"""Which table is which, also where no definition says it: tables of earlier formats."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.frozen.archive import frozen_names, unpack
from tests.frozen.describe import describe
from tests.frozen.make import TRUST
from tests.ids import unidentified

import livingdb
from livingdb.errors import NotFound
from livingdb.evolution import (
    AddColumn,
    Decompose,
    DropTable,
    JoinTables,
    Normalize,
    RenameColumn,
    RenameTable,
    SchemaChange,
    SplitTable,
)
from livingdb.graph import table_ids
from livingdb.graph.table_ids import matching_columns, matching_tables, table_id
from livingdb.tables.identity import recorded_table_id

COLUMNS = {"id": "bigint", "a": "string", "b": "string"}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """A database of an earlier format, with a table `t`."""
    table_ids._known.clear()
    with unidentified(), livingdb.create(tmp_path / "db", author="ann") as database:
        database.branch("main").create_table("t", COLUMNS, "id")
        yield database


def identity(db: livingdb.Database, table: str, ref: str = "main") -> str:
    return table_id(db._graph, db._graph.resolve(ref).snapshot, table)


def created(db: livingdb.Database, ref: str, table: str) -> str:
    return recorded_table_id(db._graph.resolve(ref).snapshot.address, table)


def test_the_snapshot_that_created_it(db: livingdb.Database) -> None:
    main = db.branch("main")
    first = identity(db, "t")
    assert first == created(db, "main", "t")
    main.insert("t", {"id": [1]})
    main.create_table("u", COLUMNS, "id")
    main.insert("t", {"id": [2]})
    assert identity(db, "t") == first
    assert identity(db, "u") == created(db, "main~1", "u")
    with pytest.raises(NotFound, match="'v'"):
        identity(db, "v")


def test_it_is_found_in_a_long_history(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_ids, "_FIRST_SNAPSHOTS", 2)
    monkeypatch.setattr(table_ids, "_KEPT", 4)
    main = db.branch("main")
    first = identity(db, "t")
    for key in range(12):
        main.insert("t", {"id": [key]})
        if key % 3 == 0:
            main.evolve(RenameTable("t", "u"))
            main.evolve(RenameTable("u", "t"))
        if key % 2:
            assert identity(db, "t") == first
    for back in range(12):
        name = "t" if "t" in db.at(f"main~{back}").tables() else "u"
        table_ids._known.clear()
        assert identity(db, name, f"main~{back}") == first


def test_names_change(db: livingdb.Database) -> None:
    main = db.branch("main")
    first = identity(db, "t")
    main.evolve([RenameTable("t", "u"), RenameColumn("u", "a", "c"), RenameTable("u", "v")])
    assert identity(db, "v") == first
    main.create_table("t", COLUMNS, "id")
    assert identity(db, "t") == created(db, "main", "t") != first
    main.evolve([RenameTable("v", "x"), RenameTable("t", "v"), RenameTable("x", "t")])
    assert identity(db, "t") == first
    graph = db._graph
    old, new = (graph.resolve(ref).snapshot for ref in ("main~3", "main"))
    assert matching_tables(graph, old, new) == {"t": "t"}
    schemas = [graph.versions.definition(graph.version(row, "t")).schema for row in (old, new)]
    assert matching_columns(*schemas) == {"id": "id", "a": "c", "b": "b"}


def test_another_of_the_same_name(db: livingdb.Database) -> None:
    main = db.branch("main")
    first = identity(db, "t")
    main.evolve(DropTable("t"))
    main.create_table("t", COLUMNS, "id")
    second = identity(db, "t")
    with main.transaction() as tx:
        tx.work.drop_table("t")
        tx.create_table("t", COLUMNS, "id")
        tx.insert("t", {"id": [7]})
    third = identity(db, "t")
    assert len({first, second, third}) == 3
    assert second == created(db, "main~1", "t")
    assert third == created(db, "main", "t")
    rows = [db._graph.resolve(ref).snapshot for ref in ("main~1", "main")]
    assert matching_tables(db._graph, *rows) == {}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (AddColumn("t", "x", "int"), True),
        (Normalize("t", ["a"], "u"), True),
        (SplitTable("t", {"t": "id > 0", "u": "id <= 0"}), False),
        (Decompose("t", {"t": ["a"], "u": ["b"]}), False),
    ],
    ids=lambda item: type(item).__name__,
)
def test_tables_of_which_others_are_made(
    db: livingdb.Database, change: SchemaChange, kept: bool
) -> None:
    main = db.branch("main")
    first = identity(db, "t")
    main.evolve(change)
    main.insert("t", {"id": [1]})
    assert identity(db, "t") == (first if kept else created(db, "main~1", "t"))
    if "u" in main.tables():
        assert identity(db, "u") == created(db, "main~1", "u")


def test_a_table_joined_to_another_is_a_new_one(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("u", {"id": "bigint", "c": "int"}, "id")
    main.evolve(JoinTables("t", "u", "t"))
    assert identity(db, "t") == created(db, "main", "t")


def test_branches_and_merges(db: livingdb.Database) -> None:
    main = db.branch("main")
    dev = main.clone("dev")
    dev.create_table("u", COLUMNS, "id")
    known = created(db, "dev", "u")
    main.insert("t", {"id": [1]})
    assert identity(db, "t", "dev") == identity(db, "t")
    db.merge("dev", into="main")
    assert identity(db, "u") == known
    main.insert("u", {"id": [1]})
    assert identity(db, "u") == known
    table_ids._known.clear()
    assert identity(db, "u") == known


def test_a_change_of_today_to_a_table_of_old(tmp_path: Path) -> None:
    """The table stays what it is; the column is one that no other change makes."""
    with unidentified(), livingdb.create(tmp_path / "db", author="ann") as db:
        db.branch("main").create_table("t", COLUMNS, "id")
        db.branch("main").insert("t", {"id": [1], "a": ["x"]})
        known = identity(db, "t")
    with livingdb.open(tmp_path / "db", author="ann") as db:
        main = db.branch("main")
        dev = main.clone("dev")
        for branch in (main, dev):
            branch.evolve(AddColumn("t", "x", "int"))
            branch.update("t", {"id": [1], "x": [5]})
            assert branch.table("t").get(1) == {"id": 1, "a": "x", "b": None, "x": 5}
        graph = db._graph
        rows = [graph.resolve(name).snapshot for name in ("main", "dev")]
        assert matching_tables(graph, *rows) == {"t": "t"}
        schemas = [graph.versions.definition(graph.version(row, "t")).schema for row in rows]
        assert matching_columns(*schemas) == {name: name for name in COLUMNS}
        assert identity(db, "t") == known
        main.create_table("u", COLUMNS, "id")
        made = identity(db, "u")
        main.evolve(RenameTable("t", "u2"))
        assert (identity(db, "u2"), identity(db, "u")) == (known, made)
        assert db.check().problems == []


@pytest.mark.parametrize("name", frozen_names())
def test_in_every_frozen_database(name: str, tmp_path: Path) -> None:
    """No two tables of a snapshot are one, and what did not change is what it was."""
    path = unpack(name, tmp_path)
    with livingdb.open(path, author="reader", engine="embedded", trust=TRUST) as db:
        graph = db._graph
        for branch in db.branches():
            row = graph.resolve(branch.name).snapshot
            shown = [table for table in graph.tables(row) if not table.startswith("~")]
            known = {table: table_id(graph, row, table) for table in shown}
            assert len(set(known.values())) == len(known)
            if row.first is not None:
                before = graph.snapshots.at(row.first)
                for table in shown:
                    if graph.tables(before).get(table) == graph.tables(row)[table]:
                        assert table_id(graph, before, table) == known[table]


def test_identities_by_the_rule_for_earlier_formats_stay(tmp_path: Path) -> None:
    """A frozen database from before there were any has these for good."""
    path = unpack("catalog-4", tmp_path)
    with livingdb.open(path, author="reader", engine="embedded", trust=TRUST) as db:
        told = json.dumps(describe(db, ["identities"])["identities"], sort_keys=True)
    wanted = "195cf1f7553fa77648ba59e2f8e03155700abccda19e79a2a27f6f8cec5a09f1"
    assert hashlib.sha256(told.encode()).hexdigest() == wanted
