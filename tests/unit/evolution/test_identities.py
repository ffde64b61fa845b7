"""Identities of changes, tables and columns: who gives them, and what keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.ids import counted

import livingdb
from livingdb import Branch, Layout, evolution
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    AddUnique,
    ChangeKey,
    ConcatColumns,
    CreateTable,
    Decompose,
    DropColumn,
    DropTable,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    ReorderColumns,
    RetypeColumn,
    SchemaChange,
    SetDefault,
    SplitColumn,
    SplitTable,
    UnionTables,
)
from livingdb.evolution.plan import plan_changes
from livingdb.graph.table_ids import matching_columns, matching_tables, table_id
from livingdb.tables import identity
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

CHANGE = "0123456789abcdef0123456789abcdef"
VAT = AddColumn("orders", "vat", "double", default=0.25)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as database:
        main = database.branch("main")
        main.create_table("orders", {"id": "bigint", "amount": "double", "note": "string"}, "id")
        main.insert("orders", {"id": [1, 2], "amount": [1.0, 2.0], "note": ["a", None]})
        yield database


def definition(branch: Branch, table: str = "orders", ref: str | None = None) -> Definition:
    graph = branch.database._graph
    row = graph.resolve(ref or branch.name).snapshot
    return graph.versions.definition(graph.version(row, table))


def ids(branch: Branch, table: str = "orders", ref: str | None = None) -> dict[str, str]:
    return {c.name: c.id for c in definition(branch, table, ref).schema.columns}


def edge_changes(branch: Branch, ref: str | None = None) -> list[dict[str, Any]]:
    graph = branch.database._graph
    details = graph.record(graph.resolve(ref or branch.name).snapshot.address).edge.details
    return list(details.get("changes", ()))


# --- changes ---------------------------------------------------------------------------------


def test_an_id_is_no_part_of_what_is_to_be_changed() -> None:
    one, other = VAT.with_id("1" * 32), VAT.with_id("2" * 32)
    assert VAT.id is None
    assert one == other == VAT
    assert hash(one) == hash(other) == hash(VAT)
    assert repr(one) == repr(VAT)
    assert "id" not in VAT.to_json()
    assert one.to_json() == {**VAT.to_json(), "id": "1" * 32}
    again = SchemaChange.from_json(json.loads(json.dumps(one.to_json())))
    assert (again, again.id) == (VAT, "1" * 32)
    assert SchemaChange.from_json(VAT.to_json()).id is None


def test_a_change_made_twice_is_two_changes(db: livingdb.Database) -> None:
    main = db.branch("main")
    dev = main.clone("dev")
    main.evolve(VAT)
    dev.evolve(VAT)
    ours, theirs = edge_changes(main), edge_changes(dev)
    assert ours[0]["id"] != theirs[0]["id"]
    assert VAT.id is None
    assert ids(main)["vat"] == identity.column_id(ours[0]["id"], 0)
    assert ids(dev)["vat"] == identity.column_id(theirs[0]["id"], 0)
    message = db._graph.resolve("main").snapshot.message
    assert message == "AddColumn orders vat"


def test_statements_make_changes_with_ids(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.sql("ALTER TABLE orders ADD COLUMN vat double")
    (change,) = edge_changes(main)
    assert ids(main)["vat"] == identity.column_id(change["id"], 0)
    main.sql("CREATE TABLE more (id bigint NOT NULL, text string DEFAULT 'x', PRIMARY KEY (id))")
    (change,) = edge_changes(main)
    assert definition(main, "more").id == identity.table_id(change["id"], 0)
    before = change["id"]
    main.sql("DROP TABLE more")
    (change,) = edge_changes(main)
    assert change["change"] == "DropTable"
    assert len(bytes.fromhex(change["id"])) == 16
    assert change["id"] != before


def test_tables_of_a_transaction(db: livingdb.Database) -> None:
    main = db.branch("main")
    with main.transaction() as tx:
        tx.create_table("shops", {"id": "int"}, "id")
        tx.work.drop_table("orders")
        tx.create_table(
            "orders",
            {"id": "bigint", "shop": "int", "city": "string not null"},
            "id",
            defaults={"city": "Oslo"},
            foreign_keys={"shop": "shops"},
            layout=Layout(target_rows=64),
        )
        tx.create_table("gone", {"id": "int"}, "id")
        tx.work.drop_table("gone")
    changes = {(item["change"], item["table"]): item for item in edge_changes(main)}
    wanted = [("CreateTable", "shops"), ("DropTable", "orders"), ("CreateTable", "orders")]
    assert list(changes) == wanted
    again = [SchemaChange.from_json(changes[name]) for name in (wanted[0], wanted[2])]
    planned = plan_changes({}, again).tables
    assert planned == {name: definition(main, name) for name in ("shops", "orders")}
    main.insert("orders", {"id": [1]})
    assert edge_changes(main) == []


def test_ids_can_be_counted(tmp_path: Path) -> None:
    found = []
    for name in "ab":
        with counted(), livingdb.create(tmp_path / name, author="ann") as database:
            main = database.branch("main")
            main.create_table("t", {"id": "bigint"}, "id")
            main.evolve(AddColumn("t", "x", "int"))
            found.append((definition(main, "t"), edge_changes(main)))
    assert found[0] == found[1]
    assert found[0][0].id in {identity.table_id(f"{number:032x}", 0) for number in range(1, 9)}


# --- what each change promises ---------------------------------------------------------------

KEY = {"id": "bigint"}
TABLES = {
    "t": {**KEY, "a": "string", "b": "string", "n": "int"},
    "u": {**KEY, "c": "string"},
    "v": {**KEY, "c": "string"},
    "z": {**KEY, "c": "string"},
    "w": {**KEY, "t_id": "bigint"},
}


def tables() -> dict[str, Definition]:
    made = {}
    for number, (name, columns) in enumerate(TABLES.items()):
        links = {"t_id": "u"} if name == "w" else None
        schema = TableSchema.of(columns, "id", foreign_keys=links)
        made[name] = Definition(schema, Layout()).identified(f"{number + 1:032x}")
    return made


def new_column_id(ordinal: int) -> str:
    return identity.column_id(CHANGE, ordinal)


def same(of: str, *columns: str) -> list[str]:
    return [tables()[of].schema.column(column).id for column in columns]


T, FIRST, SECOND = "t", identity.table_id(CHANGE, 0), identity.table_id(CHANGE, 1)
OLD = {name: str(definition.id) for name, definition in tables().items()}

PROMISES: list[tuple[SchemaChange, dict[str, tuple[str, Sequence[str]]]]] = [
    (
        CreateTable("x", {"id": "int", "y": "int"}, "id"),
        {"x": (FIRST, [new_column_id(0), new_column_id(1)])},
    ),
    (DropTable("v"), {}),
    (RenameTable("t", "x"), {"x": (OLD["t"], same("t", "id", "a", "b", "n"))}),
    (
        AddColumn("t", "x", "int"),
        {"t": (OLD["t"], [*same("t", "id", "a", "b", "n"), new_column_id(0)])},
    ),
    (DropColumn("t", "a"), {"t": (OLD["t"], same("t", "id", "b", "n"))}),
    (RenameColumn("t", "a", "x"), {"t": (OLD["t"], same("t", "id", "a", "b", "n"))}),
    (AddUnique("t", "a"), {"t": (OLD["t"], same("t", "id", "a", "b", "n"))}),
    (SetDefault("t", "a", "?"), {"t": (OLD["t"], same("t", "id", "a", "b", "n"))}),
    (
        ReorderColumns("t", ["n", "b", "a", "id"]),
        {"t": (OLD["t"], same("t", "n", "b", "a", "id"))},
    ),
    (RetypeColumn("t", "n", "bigint"), {"t": (OLD["t"], same("t", "id", "a", "b", "n"))}),
    (MaskColumn("t", "a", "null"), {"t": (OLD["t"], same("t", "id", "a", "b", "n"))}),
    (ChangeKey("t", ["n"]), {"t": (OLD["t"], same("t", "id", "a", "b", "n"))}),
    (
        AddConstraint("t", check="n > 0", on_violation="reject"),
        {"t": (OLD["t"], same("t", "id", "a", "b", "n"))},
    ),
    (
        SplitColumn("t", "a", ["x", "y"], separator=" "),
        {
            "t": (
                OLD["t"],
                [*same("t", "id"), new_column_id(0), new_column_id(1), *same("t", "b", "n")],
            )
        },
    ),
    (
        ConcatColumns("t", ["a", "b"], "x", separator=" "),
        {"t": (OLD["t"], [*same("t", "id"), new_column_id(0), *same("t", "n")])},
    ),
    (
        SplitTable("t", {"x": "n > 0", "y": "n <= 0"}),
        {
            "x": (FIRST, same("t", "id", "a", "b", "n")),
            "y": (SECOND, same("t", "id", "a", "b", "n")),
        },
    ),
    (
        Decompose("t", {"x": ["a"], "y": ["b", "n"]}),
        {
            "x": (FIRST, same("t", "id", "a")),
            "y": (SECOND, same("t", "id", "b", "n")),
        },
    ),
    (
        JoinTables("t", "v", "t"),
        {"t": (FIRST, [*same("t", "id", "a", "b", "n"), *same("v", "c")])},
    ),
    (
        JoinTables("v", "t", "t"),
        {"t": (FIRST, [*same("t", "id"), *same("v", "c"), *same("t", "a", "b", "n")])},
    ),
    (
        JoinTables("w", "u", "x", on="t_id"),
        {"x": (FIRST, [*same("w", "id"), *same("u", "c")])},
    ),
    (
        UnionTables(["v", "z"], "x", origin="o"),
        {"x": (FIRST, [*same("v", "id", "c"), new_column_id(0)])},
    ),
    (UnionTables(["v", "z"], "z"), {"z": (FIRST, same("z", "id", "c"))}),
    (
        Normalize("t", ["a", "b"], "x"),
        {
            "t": (OLD["t"], [*same("t", "id", "n"), new_column_id(0)]),
            "x": (FIRST, [new_column_id(1), *same("t", "a", "b")]),
        },
    ),
]


@pytest.mark.parametrize(("change", "promised"), PROMISES, ids=lambda item: type(item).__name__)
def test_what_a_change_makes_and_keeps(
    change: SchemaChange, promised: dict[str, tuple[str, Sequence[str]]]
) -> None:
    new = change.with_id(CHANGE).plan(tables()).new
    made = {name: known for name, known in new.items() if known.id != OLD.get(name) or name == T}
    assert {name: known.id for name, known in made.items()} == {
        name: known for name, (known, _) in promised.items()
    }
    for name, (_, columns) in promised.items():
        assert [column.id for column in new[name].schema.columns] == list(columns)
    for name, known in new.items():
        if name not in made:
            assert known.schema.columns == tables()[name].schema.columns
        assert_distinct(known)


def test_no_table_has_a_column_twice() -> None:
    """Both halves of a table have the columns of the whole; joined, one of two is another."""
    halves = SplitTable("t", {"x": "n > 0", "y": "n <= 0"}).with_id("a" * 32)
    renames = [RenameColumn("y", old, new) for old, new in (("a", "c"), ("b", "d"), ("n", "m"))]
    join = JoinTables("x", "y", "t").with_id(CHANGE)
    schema = plan_changes({"t": tables()["t"]}, [halves, *renames, join]).tables["t"].schema
    kept = same("t", "id", "a", "b", "n")
    twins = [identity.copied_column_id(CHANGE, 0, 1, column) for column in kept[1:]]
    assert [column.id for column in schema.columns] == [*kept, *twins]


VIEWED = {"id": "bigint", "a": "string", "b": "string"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Decompose("t", {"t": ["a"], "x": ["b"]}), ""),
        (Decompose("t", {"x": ["a"], "t": ["b"]}), "a is gone"),
        (JoinTables("t", "u", "t"), ""),
        (JoinTables("u", "t", "t"), ""),
        (SplitTable("t", {"x": "id > 1", "t": "id <= 1"}), ""),
        (UnionTables(["v", "t"], "t", default="t"), ""),
        (Normalize("t", ["b"], "x"), ""),
        (Normalize("t", ["a"], "x"), "a is gone"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_a_view_of_a_table_that_is_made_of_itself(
    tmp_path: Path, change: SchemaChange, reason: str
) -> None:
    """It goes on if the columns that it reads are still in the table of that name."""
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as db:
        main = db.branch("main")
        for name, columns in (("t", VIEWED), ("u", {"id": "bigint", "c": "string"}), ("v", VIEWED)):
            main.create_table(name, columns, "id")
        main.insert("t", {"id": [1, 2], "a": ["a1", "a2"], "b": ["b1", "b2"]})
        main.derive("shown", "SELECT id, a FROM t", when="immediate")
        main.evolve(change)
        (sync,) = [sync for sync in db.syncs() if sync.name == "main/shown"]
        assert reason in sync.reason
        assert sync.state == ("detached" if reason else "active")
        if not reason:
            main.update("t", {"id": [1], "a": ["new"]})
            shown = db.branch("shown").table("shown").to_arrow().to_pydict()
            assert shown == main.sql("SELECT id, a FROM t ORDER BY id").to_arrow().to_pydict()
            assert shown["a"][0] == "new"


def test_every_change_makes_a_promise() -> None:
    known = {type(change).__name__ for change, _ in PROMISES}
    assert known == set(evolution.__all__) - {
        "SchemaChange",
        "DropConstraint",
        "DropDefault",
        "DropUnique",
    }


@pytest.mark.parametrize(("change", "promised"), PROMISES, ids=lambda item: type(item).__name__)
def test_on_tables_of_earlier_formats(
    change: SchemaChange, promised: dict[str, tuple[str, Sequence[str]]]
) -> None:
    """A change from before goes on numbering; one of today gives its own, and keeps the rest."""
    numbered = {
        name: Definition(
            TableSchema.of(TABLES[name], "id", None, dict(old.schema.foreign_keys)), old.layout
        )
        for name, old in tables().items()
    }
    for known in change.plan(numbered).new.values():
        assert known.id is None
        numbers = [identity.column_number(column.id) for column in known.schema.columns]
        assert known.schema.next_id is not None
        assert max(numbers) < known.schema.next_id <= 6
    new = change.with_id(CHANGE).plan(numbered).new
    made = {name for name, (known, _) in promised.items() if known in (FIRST, SECOND)}
    assert {name for name, known in new.items() if known.id is not None} == made
    for known in new.values():
        assert_distinct(known)


@pytest.mark.parametrize("change", [change for change, _ in PROMISES], ids=repr)
def test_a_change_of_earlier_formats_on_tables_of_today(change: SchemaChange) -> None:
    new = change.plan(tables()).new
    assert new == change.plan(tables()).new
    for known in new.values():
        assert (known.id is None) == isinstance(change, CreateTable)
        assert_distinct(known)
    for name, known in change.with_id(CHANGE).plan(tables()).new.items():
        assert new[name].is_alike(known)


def assert_distinct(known: Definition) -> None:
    some = [column.id for column in known.schema.columns]
    assert len(set(some)) == len(some)


# --- what keeps them -------------------------------------------------------------------------


def test_both_sides_of_a_sync(db: livingdb.Database) -> None:
    main = db.branch("main")
    first = ids(main)
    apart = Decompose("orders", {"o": ["amount"], "p": ["remark", "vat"]})
    main.evolve([VAT, RenameColumn("orders", "note", "remark"), apart], to="parts", sync="both")
    parts = db.branch("parts")
    made = edge_changes(parts)
    assert ids(main) == first
    assert definition(parts, "o").id == identity.table_id(made[2]["id"], 0)
    syncs = [s for s in db._graph.catalog.syncs.all() if s.kind == "schema_change"]
    given = {sync.spec["change"]["change"]: sync.spec["change"] for sync in syncs}
    held = [*json.loads(given["SeveralChanges"]["changes"]), given["Decompose"]]
    assert {one["change"]: one["id"] for one in held} == {one["change"]: one["id"] for one in made}
    before = ids(parts, "o"), ids(parts, "p")
    parts.update("o", {"id": [1], "amount": [9.0]})
    main.insert("orders", {"id": [7], "amount": [7.0]})
    db.compact()
    assert (ids(parts, "o"), ids(parts, "p")) == before
    assert parts.table("o").get(7)["amount"] == 7.0


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_a_clone_that_is_seen_through_changes(db: livingdb.Database, when: str) -> None:
    main = db.branch("main")
    main.clone("seen", transform=[VAT, DropColumn("orders", "note")], when=when, sync="forward")
    seen = db.branch("seen")
    first = ids(seen)
    assert {name: first[name] for name in ("id", "amount")} == {
        name: ids(main)[name] for name in ("id", "amount")
    }
    main.insert("orders", {"id": [7], "amount": [7.0]})
    db.propagate()
    assert ids(seen) == first
    if when == "deferred":
        main.evolve(AddColumn("orders", "x", "int"))
        db.propagate()
        assert ids(seen) == {**first, "x": ids(main)["x"]}
        assert definition(seen).id == definition(main).id


def test_a_merge_takes_the_same_change_once(db: livingdb.Database) -> None:
    main = db.branch("main")
    dev = main.clone("dev")
    main.evolve(VAT)
    dev.insert("orders", {"id": [7], "amount": [7.0]})
    db.merge("dev", into="main")
    db.merge("main", into="dev")
    assert ids(dev) == ids(main)
    dev.update("orders", {"id": [7], "vat": [0.5]})
    main.update("orders", {"id": [1], "vat": [0.1]})
    db.merge("dev", into="main")
    assert ids(dev) == ids(main)
    assert main.table("orders").get(7)["vat"] == 0.5


def test_equal_tables_of_two_branches_merge(db: livingdb.Database) -> None:
    main = db.branch("main")
    dev = main.clone("dev")
    for branch, key in ((main, 1), (dev, 2)):
        branch.create_table("more", {"id": "bigint", "x": "int"}, "id")
        branch.insert("more", {"id": [key], "x": [key]})
    assert definition(main, "more").id != definition(dev, "more").id
    before = ids(main, "more")
    db.merge("dev", into="main")
    assert main.table("more").to_arrow().to_pydict() == {"id": [1, 2], "x": [1, 2]}
    assert ids(main, "more") == before
    assert len(db.diff("main", "dev")["more"]) == 1


@pytest.mark.parametrize("crossing", [False, True])
def test_a_column_that_both_sides_added_is_one_by_either_id(
    db: livingdb.Database, crossing: bool
) -> None:
    """A merge keeps the id of ours; merges that cross leave two, and the next one gives one."""
    main, dev = db.branch("main"), db.branch("main").clone("dev")
    for branch in (main, dev):
        branch.evolve(VAT)
        branch.clone(f"{branch}_before")
    mine, theirs = ids(main)["vat"], ids(dev)["vat"]
    db.merge("dev_before", into="main")
    db.merge("main_before" if crossing else "main", into="dev")
    assert (ids(main)["vat"], ids(dev)["vat"]) == (mine, theirs if crossing else mine)
    dev.evolve(RenameColumn("orders", "vat", "tax"))
    dev.insert("orders", {"id": [7], "tax": [0.5]})
    db.merge("dev", into="main")
    db.merge("main", into="dev")
    db.merge("dev_before", into="main")
    assert ids(main) == ids(dev)
    assert ids(main)["tax"] == mine
    assert main.table("orders").get(7)["tax"] == 0.5
    main.evolve(DropColumn("orders", "tax"))
    db.merge("main", into="dev")
    assert ids(main) == ids(dev)
    assert not {mine, theirs} & {*ids(dev).values()}


def test_views_keep_ids_by_name(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.derive("sums", "SELECT id, amount, note FROM orders")
    sums = db.branch("sums")
    first, table = ids(sums, "sums"), definition(sums, "sums").id
    main.insert("orders", {"id": [7], "amount": [7.0]})
    db.refresh("sums", full=True)
    assert ids(sums, "sums") == first
    main.evolve(RenameColumn("orders", "note", "remark"))
    main.insert("orders", {"id": [8], "amount": [7.0]})
    db.propagate()
    assert ids(sums, "sums") == first
    main.derive("sums", "SELECT remark AS note, 1 AS one, id FROM orders", replace=True)
    again = ids(db.branch("sums"), "sums")
    assert (again["note"], again["id"]) == (first["note"], first["id"])
    assert again["one"] not in first.values()
    assert definition(db.branch("sums"), "sums").id == table


def test_a_view_that_begins_with_the_answer_of_another(db: livingdb.Database) -> None:
    main = db.branch("main")
    query = "SELECT id, amount FROM orders"
    main.derive("one", query)
    main.insert("orders", {"id": [7], "amount": [7.0]})
    main.derive("other", query)
    dev = main.clone("dev")
    dev.insert("orders", {"id": [8], "amount": [8.0]})
    dev.derive("third", query)
    found = [ids(db.branch(name), name) for name in ("one", "other", "third")]
    assert len({column for each in found for column in each.values()}) == 6
    assert db.branch("other").table("other").to_arrow().num_rows == 3
    assert db.branch("third").table("third").to_arrow().num_rows == 4
    main.clone("twin", derived=True)
    twins = [b for b in db.branches() if b.name.startswith("one") and b.name != "one"]
    assert [ids(twin, twin.name) for twin in twins] == [found[0]]
    assert db.check().problems == []


def test_names_through_history(db: livingdb.Database) -> None:
    main = db.branch("main")
    graph = db._graph
    before = graph.resolve("main").snapshot
    main.evolve([RenameTable("orders", "sales"), RenameColumn("sales", "note", "remark")])
    main.create_table("orders", {"id": "bigint"}, "id")
    after = graph.resolve("main").snapshot
    assert matching_tables(graph, before, after) == {"orders": "sales"}
    assert matching_tables(graph, after, before) == {"sales": "orders"}
    assert table_id(graph, after, "orders") != table_id(graph, before, "orders")
    old, new = (graph.version(*at) for at in ((before, "orders"), (after, "sales")))
    schemas = [graph.versions.definition(version).schema for version in (old, new)]
    assert matching_columns(*schemas) == {"id": "id", "amount": "amount", "note": "remark"}
