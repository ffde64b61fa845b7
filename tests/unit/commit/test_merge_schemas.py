"""A merge brings schema changes of either side, or says what contradicts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.errors import InvalidData, MergeConflict, RuleViolation
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    AddUnique,
    ChangeKey,
    CreateTable,
    DropColumn,
    DropTable,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SchemaChange,
    SplitTable,
)

Rows = list[dict[str, object]]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as database:
        main = database.branch("main")
        schema = {"id": "bigint", "city": "string", "amount": "int"}
        main.create_table("orders", schema, key="id")
        main.insert(
            "orders", {"id": [1, 2, 3], "city": ["Oslo", "Bodø", None], "amount": [1, 2, 3]}
        )
        main.clone("dev")
        yield database


def rows(branch: livingdb.Branch, table: str = "orders") -> Rows:
    found: Rows = branch.table(table).to_arrow().to_pylist()
    return found


def test_a_change_of_the_merged_branch_comes_with_its_rows(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    dev.evolve(AddColumn("orders", "vat", "int", default=25))
    dev.update("orders", {"id": [1], "vat": [12]})
    main.update("orders", {"id": [2], "amount": [20]})
    merged = db.merge("dev", into="main")
    assert rows(main) == [
        {"id": 1, "city": "Oslo", "amount": 1, "vat": 12},
        {"id": 2, "city": "Bodø", "amount": 20, "vat": 25},
        {"id": 3, "city": None, "amount": 3, "vat": 25},
    ]
    kinds = [main.head.edge.kind, db.at("main~1").edge.kind]
    assert kinds == ["merge", "schema_change"]
    assert merged.id == main.head.id
    assert db.merge("dev", into="main").id == merged.id
    db.merge("main", into="dev")
    assert rows(dev) == rows(main)
    assert db.check().ok


@pytest.mark.parametrize("fast_forward", [True, False])
def test_where_only_theirs_changed(db: livingdb.Database, fast_forward: bool) -> None:
    dev = db.branch("dev")
    dev.evolve([RenameColumn("orders", "city", "town"), RenameTable("orders", "sales")])
    dev.update("sales", {"id": [3], "town": ["Hamar"]})
    db.merge("dev", into="main", fast_forward=fast_forward)
    assert db.branch("main").tables() == ["sales"]
    assert rows(db.branch("main"), "sales") == rows(dev, "sales")


def test_both_sides_changed_other_things(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(RenameColumn("orders", "city", "town"))
    main.evolve(AddColumn("orders", "m", "int", default=7))
    main.insert("orders", {"id": [4], "town": ["Ørsta"], "amount": [4]})
    dev.evolve([AddColumn("orders", "d", "string"), RetypeColumn("orders", "amount", "bigint")])
    dev.evolve(RenameTable("orders", "sales"))
    dev.upsert("sales", {"id": [5], "city": ["Moss"], "amount": [5_000_000_000], "d": ["x"]})
    db.merge("dev", into="main")
    assert main.tables() == ["sales"]
    assert rows(main, "sales") == [
        {"id": 1, "town": "Oslo", "amount": 1, "m": 7, "d": None},
        {"id": 2, "town": "Bodø", "amount": 2, "m": 7, "d": None},
        {"id": 3, "town": None, "amount": 3, "m": 7, "d": None},
        {"id": 4, "town": "Ørsta", "amount": 4, "m": 7, "d": None},
        {"id": 5, "town": "Moss", "amount": 5_000_000_000, "m": 7, "d": "x"},
    ]
    db.merge("main", into="dev")
    assert rows(dev, "sales") == rows(main, "sales")


@pytest.mark.parametrize(
    "change",
    [
        RenameColumn("orders", "city", "town"),
        AddColumn("orders", "vat", "int", default=25),
        DropColumn("orders", "city"),
        RetypeColumn("orders", "amount", "bigint"),
        RenameTable("orders", "sales"),
        AddConstraint("orders", check="amount > 0"),
        AddUnique("orders", ["city", "amount"]),
        CreateTable("extra", {"id": "int", "v": "int"}, key="id"),
    ],
    ids=lambda change: type(change).__name__,
)
def test_both_sides_did_the_same(db: livingdb.Database, change: object) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(change)
    dev.evolve(change)
    (table,) = [name for name in dev.tables() if name != "extra"]
    dev.update(table, {"id": [1], "amount": [11]})
    before = dev.table(table).to_arrow()
    db.merge("dev", into="main")
    assert main.tables() == dev.tables()
    assert main.table(table).to_arrow() == before


@pytest.mark.parametrize(
    ("ours", "theirs", "place"),
    [
        (RenameColumn("orders", "city", "a"), RenameColumn("orders", "city", "b"), "orders.city"),
        (
            RetypeColumn("orders", "amount", "bigint"),
            RetypeColumn("orders", "amount", "string"),
            "orders.amount",
        ),
        (AddColumn("orders", "x", "int"), AddColumn("orders", "x", "string"), "orders.x"),
        (AddColumn("orders", "x", "int"), AddColumn("orders", "X", "int"), "orders.X"),
        (
            RetypeColumn("orders", "amount", "bigint"),
            DropColumn("orders", "amount"),
            "orders.amount",
        ),
        (RenameTable("orders", "a"), RenameTable("orders", "b"), "orders"),
        (ChangeKey("orders", ["id", "amount"]), ChangeKey("orders", ["amount", "id"]), "orders"),
        (AddColumn("orders", "x", "int"), DropTable("orders"), "orders"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.parametrize("swapped", [False, True])
def test_what_contradicts_is_a_conflict(
    db: livingdb.Database, ours: object, theirs: object, place: str, swapped: bool
) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(theirs if swapped else ours)
    dev.evolve(ours if swapped else theirs)
    before = main.head.id
    with pytest.raises(MergeConflict) as caught:
        db.merge("dev", into="main")
    assert main.head.id == before
    table = place.split(".", maxsplit=1)[0]
    (found,) = caught.value.conflicts.values()
    assert set(found.column("kind").to_pylist()) == {"schema"}
    assert list(caught.value.conflicts) == [table]
    seen = db.preview_merge("dev", into="main")
    assert not seen.is_clean
    for policy in ("ours", "theirs"):
        wanted = main if policy == "ours" else dev
        expected = {name: wanted.table(name).to_arrow() for name in wanted.tables()}
        trial = main.clone(f"try_{policy}")
        db.merge("dev", into=trial.name, on_conflict=policy)
        found_tables = {name: trial.table(name).to_arrow() for name in trial.tables()}
        assert found_tables == expected


def test_a_lookup_in_a_table_that_the_other_side_joined(db: livingdb.Database) -> None:
    """The two contradict each other, though they change different tables."""
    main = db.branch("main")
    main.create_table("lands", {"id": "bigint", "name": "string"}, key="id")
    main.create_table("towns", {"id": "bigint", "land": "bigint"}, key="id")
    dev = main.clone("joined")
    up = "(SELECT name FROM lands WHERE lands.id = orders.id)"
    main.evolve(AddColumn("orders", "land", "string", up=up))
    dev.evolve(JoinTables("lands", "towns", "both"))
    with pytest.raises(MergeConflict, match="AddColumn orders land does not go with JoinTables"):
        db.merge("main", into="joined")
    db.merge("main", into="joined", on_conflict="theirs")
    assert dev.tables() == ["lands", "orders", "towns"]
    assert "land" in dev.table("orders").to_arrow().column_names


@pytest.mark.parametrize("policy", ["ours", "theirs"])
def test_a_column_that_one_side_dropped_and_the_other_moved(
    db: livingdb.Database, policy: str
) -> None:
    """A policy decides about it, though it is in another table on one side."""
    main = db.branch("main")
    main.create_table("more", {"id": "bigint", "note": "string"}, key="id")
    dev = main.clone("joined")
    main.evolve(DropColumn("orders", "city"))
    dev.evolve([AddColumn("orders", "n", "int"), JoinTables("orders", "more", "both")])
    with pytest.raises(MergeConflict, match="city"):
        db.merge("main", into="joined")
    db.merge("main", into="joined", on_conflict=policy)
    tables = {"ours": ["both"], "theirs": ["more", "orders"]}
    assert dev.tables() == tables[policy]
    assert ("city" in dev.table(tables[policy][-1]).to_arrow().column_names) == (policy == "ours")


def test_renamed_here_and_dropped_there_is_dropped(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(RenameColumn("orders", "city", "town"))
    dev.evolve(DropColumn("orders", "city"))
    db.merge("dev", into="main")
    assert rows(main) == rows(dev)
    main.evolve(RenameTable("orders", "sales"))
    dev.evolve(DropTable("orders"))
    db.merge("dev", into="main")
    assert main.tables() == []


def test_rows_that_have_no_place_any_more(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.update("orders", {"id": [1], "amount": [9]})
    dev.evolve(DropTable("orders"))
    with pytest.raises(MergeConflict, match="no place"):
        db.merge("dev", into="main")
    with pytest.raises(MergeConflict, match="no place"):
        db.merge("main", into="dev")
    kept = main.clone("kept")
    db.merge("dev", into="kept", on_conflict="ours")
    assert rows(kept) == rows(main)
    db.merge("dev", into="main", on_conflict="theirs")
    assert main.tables() == []


def test_rows_that_a_change_of_the_other_side_does_not_allow(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    dev.evolve(AddConstraint("orders", check="amount < 100", on_violation="reject"))
    main.insert("orders", {"id": [4], "city": ["x"], "amount": [1000]})
    with pytest.raises(MergeConflict, match="does not fit the rows of ours"):
        db.merge("dev", into="main")


@pytest.mark.parametrize(
    "change",
    [
        AddUnique("orders", "city"),
        AddConstraint("orders", check="amount < 100"),
        AddConstraint("orders", not_null="amount"),
        AddConstraint("orders", foreign_key=("amount", "kinds")),
    ],
    ids=["unique", "check", "not null", "foreign key"],
)
def test_a_constraint_that_counts_is_kept_by_the_rows_of_both(
    db: livingdb.Database, change: SchemaChange
) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.create_table("kinds", {"id": "int"}, key="id")
    main.insert("kinds", {"id": [1, 2, 3]})
    db.merge("main", into="dev")
    dev.evolve(change)
    main.insert("orders", {"id": [4, 5, 6], "city": ["Oslo", "a", "b"], "amount": [1, None, 1000]})
    heads = [main.head.id, dev.head.id]
    with pytest.raises(InvalidData):
        db.merge("dev", into="main", on_conflict="theirs")
    with pytest.raises(InvalidData):
        db.merge("main", into="dev", on_conflict="ours")
    assert [main.head.id, dev.head.id] == heads
    main.delete("orders", [4, 5, 6])
    db.merge("dev", into="main", on_conflict="theirs")
    assert main.table("orders").definition == dev.table("orders").definition


def test_tables_split_joined_and_looked_up(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.update("orders", {"id": [1], "city": ["Hamar"]})
    dev.evolve(SplitTable("orders", {"small": "amount < 3", "large": "amount >= 3"}))
    dev.insert("large", {"id": [9], "city": ["Moss"], "amount": [90]})
    db.merge("dev", into="main")
    assert main.tables() == ["large", "small"]
    assert rows(main, "small")[0]["city"] == "Hamar"
    assert [row["id"] for row in rows(main, "large")] == [3, 9]
    db.merge("main", into="dev")
    main.evolve(AddColumn("large", "n", "int", default=1))
    dev.create_table("notes", {"id": "bigint", "text": "string"}, key="id")
    dev.insert("notes", {"id": [1], "text": ["hello"]})
    dev.evolve(JoinTables("small", "notes", "noted"))
    db.merge("dev", into="main")
    assert main.tables() == ["large", "noted"]
    assert rows(main, "noted") == rows(dev, "noted")
    assert rows(main, "noted")[0]["text"] == "hello"
    assert [row["n"] for row in rows(main, "large")] == [1, 1]


def test_a_lookup_of_one_side_and_rows_of_the_other(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    dev.evolve(Normalize("orders", ["city"], "cities"))
    main.insert("orders", {"id": [7], "city": ["Vadsø"], "amount": [7]})
    db.merge("dev", into="main")
    cities = {row["city"] for row in rows(main, "cities")}
    assert "Vadsø" in cities
    assert [row["id"] for row in rows(main)] == [1, 2, 3, 7]


def test_views_and_syncs_follow_a_merged_change(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.derive("n", "SELECT city, sum(amount) AS s FROM orders GROUP BY city", when="immediate")
    main.clone("copy", transform=[AddColumn("orders", "c", "int", default=1)], sync="forward")
    dev.evolve([RenameColumn("orders", "city", "town"), RenameTable("orders", "sales")])
    dev.insert("sales", {"id": [4], "town": ["Oslo"], "amount": [40]})
    main.update("orders", {"id": [1], "amount": [5]})
    db.merge("dev", into="main")
    assert db.branch("n").table("n").get("Oslo") == {"city": "Oslo", "s": 45}
    assert db.branch("copy").table("sales").get(4) == {
        "id": 4, "town": "Oslo", "amount": 40, "c": 1,
    }  # fmt: skip
    assert [sync.state for sync in db.syncs()] == ["active", "active"]
    assert db.check(deep=True).ok


def test_a_preview_says_which_changes_come(db: livingdb.Database) -> None:
    dev = db.branch("dev")
    db.branch("main").update("orders", {"id": [1], "amount": [5]})
    dev.evolve(RenameColumn("orders", "city", "town"))
    dev.update("orders", {"id": [2], "town": ["x"]})
    seen = db.preview_merge("dev", into="main")
    assert seen.is_clean
    assert list(seen.schema) == [RenameColumn("orders", "city", "town")]
    assert seen.changes["orders"].updated == 1
    assert db.branch("main").table("orders").schema.names == ["id", "city", "amount"]


# --- cherry-pick and revert -----------------------------------------------------------------------


def test_a_schema_change_is_picked_once(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    change = dev.evolve([RenameColumn("orders", "city", "town"), AddColumn("orders", "n", "int")])
    main.evolve(RenameTable("orders", "sales"))
    picked = main.cherry_pick(change)
    assert main.table("sales").schema.names == ["id", "town", "amount", "n"]
    assert picked.edge.kind == "schema_change"
    assert main.cherry_pick(change).id == picked.id
    dev.update("orders", {"id": [1], "n": [5]})
    db.merge("dev", into="main")
    assert main.table("sales").get(1) == {"id": 1, "town": "Oslo", "amount": 1, "n": 5}


def test_a_schema_change_that_cannot_be_picked(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    change = dev.evolve(AddColumn("orders", "x", "int"))
    main.evolve(AddColumn("orders", "x", "string"))
    before = main.head.id
    with pytest.raises(MergeConflict, match="AddColumn orders x"):
        main.cherry_pick(change)
    assert main.head.id == before


@pytest.mark.parametrize(
    "change",
    [
        RenameColumn("orders", "city", "town"),
        AddColumn("orders", "vat", "int", default=25),
        DropColumn("orders", "city"),
        RetypeColumn("orders", "amount", "bigint", policy="null"),
        RenameTable("orders", "sales"),
        AddConstraint("orders", check="amount > 0"),
        AddUnique("orders", ["city", "amount"]),
        CreateTable("extra", {"id": "int", "v": "int"}, key="id"),
        SplitTable("orders", {"small": "amount < 3", "large": "amount >= 3"}),
        Normalize("orders", ["city"], "cities"),
        [RenameColumn("orders", "city", "town"), DropColumn("orders", "amount")],
        DropTable("orders"),
    ],
    ids=lambda change: type(change).__name__,
)
def test_a_schema_change_is_reverted(db: livingdb.Database, change: object) -> None:
    main = db.branch("main")
    before = main.table("orders").to_arrow()
    made = main.evolve(change)
    reverted = main.revert(made)
    assert reverted.edge.kind == "schema_change"
    assert main.tables() == ["orders"]
    assert main.table("orders").to_arrow() == before
    main.update("orders", {"id": [1], "amount": [10]})
    assert main.table("orders").get(1) == {"id": 1, "city": "Oslo", "amount": 10}
    assert db.check().ok


def test_what_was_written_since_stays(db: livingdb.Database) -> None:
    main = db.branch("main")
    made = main.evolve([RenameColumn("orders", "amount", "sum"), DropColumn("orders", "city")])
    main.upsert("orders", {"id": [1, 4], "sum": [10, 40]})
    main.delete("orders", [2])
    main.revert(made)
    assert rows(main) == [
        {"id": 1, "city": "Oslo", "amount": 10},
        {"id": 3, "city": None, "amount": 3},
        {"id": 4, "city": None, "amount": 40},
    ]


def test_what_has_changed_since_is_reverted_first(db: livingdb.Database) -> None:
    main = db.branch("main")
    first = main.evolve(RenameColumn("orders", "city", "town"))
    second = main.evolve(AddColumn("orders", "n", "int"))
    with pytest.raises(RuleViolation, match="revert first what changed its schema since"):
        main.revert(first)
    main.revert(second)
    main.create_table("other", {"id": "int"}, key="id")
    main.revert(first)
    assert main.table("orders").schema.names == ["id", "city", "amount"]
    assert main.tables() == ["orders", "other"]


@pytest.mark.parametrize(
    "change",
    [
        RenameColumn("orders", "city", "town"),
        RenameTable("orders", "sales"),
        AddColumn("orders", "n", "int", default=3),
        DropColumn("orders", "city"),
    ],
    ids=lambda change: type(change).__name__,
)
def test_rows_from_before_a_schema_change_are_reverted_and_picked(
    db: livingdb.Database, change: object
) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    written = main.upsert("orders", {"id": [1, 7], "city": ["x", "y"], "amount": [11, 77]})
    main.evolve(change)
    (table,) = main.tables()
    if "n" in main.table(table).schema.names:
        main.update(table, {"id": [1], "n": [9]})
    dev.cherry_pick(written)
    assert dev.table("orders").get(7) == {"id": 7, "city": "y", "amount": 77}
    main.revert(written)
    first = main.table(table).get(1)
    assert first["amount"] == 1
    assert first.get("city", first.get("town", "Oslo")) == "Oslo"
    assert first.get("n", 9) == 9
    assert main.table(table).get(7) is None
    again = dev.upsert("orders", {"id": [8], "city": ["z"], "amount": [8]})
    main.cherry_pick(again)
    assert main.table(table).get(8)["amount"] == 8


def test_rows_of_a_column_that_has_another_type_are_not_picked(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    written = dev.update("orders", {"id": [1], "amount": [11]})
    main.evolve(RetypeColumn("orders", "amount", "string"))
    with pytest.raises(MergeConflict, match="'amount' has another type"):
        main.cherry_pick(written)


def test_values_of_a_column_that_the_branch_never_had_are_not_left_out(
    db: livingdb.Database,
) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    dev.evolve(AddColumn("orders", "n", "int64", default=3))
    alike = dev.insert("orders", {"id": [8, 9], "city": ["z", "y"], "amount": [8, 9]})
    updated = dev.update("orders", {"id": [8, 1], "n": [4, 3]})
    inserted = dev.insert("orders", {"id": [10], "n": [None]})
    untouched = dev.update("orders", {"id": [9], "amount": [80]})
    main.cherry_pick(alike)
    main.cherry_pick(untouched)
    assert main.table("orders").get(9) == {"id": 9, "city": "y", "amount": 80}
    before = main.head
    for snapshot in (updated, inserted):
        with pytest.raises(MergeConflict, match="never had the column 'n'"):
            main.cherry_pick(snapshot)
    assert main.head == before
    main.cherry_pick("dev~4")
    main.cherry_pick(updated)
    assert main.table("orders").get(8)["n"] == 4
    main.evolve(DropColumn("orders", "n"))
    main.cherry_pick(inserted)  # what was dropped is not wanted
    assert main.table("orders").get(10) == {"id": 10, "city": None, "amount": None}


def test_a_revert_is_known_to_who_opens_the_database_anew(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.revert(main.evolve(DropColumn("orders", "city")))
    program = (
        "import sys, livingdb\n"
        "db = livingdb.open(sys.argv[1], engine='embedded')\n"
        "main = db.branch('main')\n"
        "main.update('orders', {'id': [1], 'amount': [5]})\n"
        "db.merge('dev', into='main')\n"
        "print(main.table('orders').get(1), db.at('main~2', schema='main').table('orders').get(1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, db.name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("'city': 'Oslo'") == 1
    assert done.stdout.count("'city': None") == 1


def test_a_change_that_was_taken_back_is_no_change(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.revert(main.evolve(DropColumn("orders", "city")))
    dev.update("orders", {"id": [1], "city": ["Hamar"]})
    main.update("orders", {"id": [2], "city": ["Moss"]})
    db.merge("dev", into="main")
    assert [row["city"] for row in rows(main)] == ["Hamar", "Moss", None]


def test_a_change_that_the_other_side_has_is_taken_back_there(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    made = main.evolve(RenameColumn("orders", "city", "town"))
    db.merge("main", into="dev")
    main.revert(made)
    dev.update("orders", {"id": [1], "town": ["Hamar"]})
    db.merge("main", into="dev")
    assert dev.table("orders").get(1) == {"id": 1, "city": "Hamar", "amount": 1}


# --- two-way syncs --------------------------------------------------------------------------------


def test_a_branch_in_step_with_another_gets_changes_and_stays_in_step(
    db: livingdb.Database,
) -> None:
    main = db.branch("main")
    main.evolve(RenameColumn("orders", "amount", "net"), keep="old", sync="both")
    dev = main.clone("feature")
    dev.evolve([AddColumn("orders", "vat", "int", default=25), RenameTable("orders", "sales")])
    dev.update("sales", {"id": [1], "net": [100], "vat": [12]})
    main.update("orders", {"id": [2], "net": [20]})
    db.merge("feature", into="main")
    old = db.branch("old")
    assert main.tables() == ["sales"]
    assert main.table("sales").get(1) == {"id": 1, "city": "Oslo", "net": 100, "vat": 12}
    assert old.table("orders").get(1) == {"id": 1, "city": "Oslo", "amount": 100}
    assert old.table("orders").get(2)["amount"] == 20
    old.insert("orders", {"id": [9], "city": ["Moss"], "amount": [90]})
    assert main.table("sales").get(9) == {"id": 9, "city": "Moss", "net": 90, "vat": 25}
    main.delete("sales", [1])
    assert old.table("orders").get(1) is None
    (sync,) = db.syncs()
    assert (sync.sources, sync.target, sync.state) == (["old"], "main", "active")
    assert db.branches() == ["dev", "feature", "main", "old"]
    assert db.check(deep=True).ok


def test_the_old_side_gets_changes_and_stays_in_step(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(RenameColumn("orders", "amount", "net"), to="new", sync="both")
    dev = db.branch("dev")
    dev.evolve([AddColumn("orders", "vat", "int", default=25), DropColumn("orders", "city")])
    dev.update("orders", {"id": [1], "vat": [12]})
    db.merge("dev", into="main")
    new = db.branch("new")
    assert rows(main)[0] == {"id": 1, "amount": 1, "vat": 12}
    assert new.table("orders").get(1) == {"id": 1, "city": "Oslo", "net": 1}
    main.update("orders", {"id": [1], "amount": [50], "vat": [13]})
    assert new.table("orders").get(1) == {"id": 1, "city": "Oslo", "net": 50}
    new.upsert("orders", {"id": [1, 8], "city": ["Moss", "Bergen"], "net": [60, 80]})
    assert main.table("orders").get(1) == {"id": 1, "amount": 60, "vat": 13}
    assert main.table("orders").get(8) == {"id": 8, "amount": 80, "vat": 25}
    (sync,) = db.syncs()
    assert (sync.sources, sync.target, sync.state) == (["main"], "new", "active")
    assert db.check(deep=True).ok


def test_in_conflict_nothing_of_the_schema_comes(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(RenameColumn("orders", "amount", "net"), keep="old", sync="both")
    dev = main.clone("feature")
    dev.evolve(AddColumn("orders", "vat", "int"))
    dev.update("orders", {"id": [1], "net": [100]})
    main.update("orders", {"id": [1], "net": [101]})
    before = main.head.id
    with pytest.raises(MergeConflict):
        db.merge("feature", into="main")
    assert main.head.id == before
    assert len(db.syncs()) == 1


def test_rows_that_the_other_side_cannot_take_leave_nothing_of_the_schema(
    db: livingdb.Database,
) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    before = dev.head.id
    dev.evolve(RetypeColumn("orders", "amount", "bigint"))
    dev.update("orders", {"id": [1], "amount": [10**12]})
    main.evolve(AddColumn("orders", "vat", "int"), to="new", sync="both")
    new = db.branch("new")
    heads = [main.head.id, new.head.id]
    with pytest.raises(InvalidData, match=r"'new' is in step with .* does not fit int"):
        db.merge("dev", into="new")
    with pytest.raises(InvalidData, match=r"'new' is in step with .* does not fit int"):
        db.apply(db.diff(f"id:{before}", "dev"), "new")
    assert [main.head.id, new.head.id] == heads
    assert new.table("orders").schema.field("amount").type == "int32"
    assert len(db._graph.catalog.syncs.all()) == 1


# --- what both sides did --------------------------------------------------------------------------


def test_checks_of_one_name_and_other_conditions(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(AddConstraint("orders", "least", check="amount > 0"))
    dev.evolve(AddConstraint("orders", "least", check="id > 0"))
    with pytest.raises(MergeConflict, match="orders"):
        db.merge("dev", into="main")


def test_one_check_of_a_column_that_one_side_renamed(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    for branch in (main, dev):
        branch.evolve(AddConstraint("orders", "least", check="amount > 0"))
    main.evolve(RenameColumn("orders", "amount", "total"))
    db.merge("dev", into="main")
    assert "total" in main.table("orders").schema.names


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            AddColumn("orders", "x", "int", up="amount * 2"),
            AddColumn("orders", "x", "int", up="amount * 3"),
        ),
        (AddColumn("orders", "x", "int"), AddColumn("orders", "x", "int", up="amount * 3")),
        (
            MaskColumn("orders", "city", "expression", "concat(city, '!')"),
            MaskColumn("orders", "city", "expression", "concat(city, '?')"),
        ),
        (
            RetypeColumn("orders", "amount", "string", up="concat(amount, 'a')"),
            RetypeColumn("orders", "amount", "string", up="concat(amount, 'b')"),
        ),
        (
            MaskColumn("orders", "city", "null"),
            AddColumn("orders", "x", "string", up="concat(city, 'x')"),
        ),
    ],
    ids=["two ups", "an up", "two masks", "two casts", "a mask and who reads it"],
)
def test_rows_of_other_values_are_a_conflict(
    db: livingdb.Database, ours: object, theirs: object
) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(ours)
    dev.evolve(theirs)
    for source, into in (("dev", "main"), ("main", "dev")):
        with pytest.raises(MergeConflict, match="orders"):
            db.merge(source, into=into)


def test_one_mask_masks_once(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    for branch in (main, dev):
        branch.evolve(MaskColumn("orders", "city", "expression", "concat(city, '!')"))
    db.merge("dev", into="main")
    assert [row["city"] for row in rows(main)] == ["Oslo!", "Bodø!", None]


def test_what_both_made_keeps_the_identity_of_ours(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    for branch in (main, dev):
        branch.evolve(AddColumn("orders", "vat", "int"))
    main.derive("vats", "SELECT id, vat FROM orders", when="immediate")
    db.merge("dev", into="main")
    dev.update("orders", {"id": [1], "vat": [7]})
    main.evolve(RenameColumn("orders", "vat", "tax"))
    db.merge("dev", into="main")
    assert [row["tax"] for row in rows(main)] == [7, None, None]
    assert rows(db.branch("vats"), "vats")[0] == {"id": 1, "vat": 7}
    assert db.sync("vats").state == "active"


def test_what_a_merge_settled_stays_settled(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    for branch in (main, dev):
        branch.evolve(RenameColumn("orders", "city", "town"))
    db.merge("dev", into="main")
    main.evolve(RenameColumn("orders", "town", "place"))
    dev.update("orders", {"id": [1], "town": ["Moss"]})
    db.merge("dev", into="main")
    assert rows(main)[0]["place"] == "Moss"


def test_a_policy_is_asked_once(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(RenameColumn("orders", "city", "town"))
    dev.evolve(RenameColumn("orders", "city", "place"))
    db.merge("dev", into="main", on_conflict="ours")
    dev.update("orders", {"id": [1], "place": ["Moss"]})
    db.merge("dev", into="main")
    assert rows(main)[0]["town"] == "Moss"


@pytest.mark.parametrize("into", ["main", "dev"])
def test_a_rename_follows_a_column_to_other_tables(db: livingdb.Database, into: str) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(SplitTable("orders", {"small": "amount < 3", "large": "amount >= 3"}))
    dev.evolve(RenameColumn("orders", "city", "town"))
    dev.update("orders", {"id": [1], "town": ["Moss"]})
    db.merge("dev" if into == "main" else "main", into=into)
    target = db.branch(into)
    assert rows(target, "small")[0] == {"id": 1, "town": "Moss", "amount": 1}
    assert target.table("large").schema.names == ["id", "town", "amount"]
    other = "dev" if into == "main" else "main"
    db.merge(into, into=other)
    assert rows(db.branch(other), "small") == rows(target, "small")
    target.evolve(RenameColumn("small", "town", "place"))
    db.branch(other).insert("large", {"id": [9], "town": ["x"], "amount": [9]})
    db.merge(other, into=into)
    assert target.table("small").schema.names == ["id", "place", "amount"]


@pytest.mark.parametrize("winner", ["ours", "theirs"])
@pytest.mark.parametrize("into", ["main", "dev"])
def test_what_was_left_out_is_decided_again(db: livingdb.Database, into: str, winner: str) -> None:
    """From either side: who has the change keeps it or loses it, who has it not gets it or not."""
    main, dev = db.branch("main"), db.branch("dev")
    main.update("orders", [{"id": 2, "city": "1000"}, {"id": 1, "city": "no number"}])
    dev.update("orders", {"id": [1, 2], "city": [None, None]})
    dev.evolve(RetypeColumn("orders", "city", "int"))
    with pytest.raises(MergeConflict):
        db.merge("dev", into="main")
    db.merge("dev", into="main", on_conflict="ours")
    assert [row["city"] for row in rows(main)] == ["no number", "1000", None]
    dev.update("orders", {"id": [3], "city": [7]})
    source = "dev" if into == "main" else "main"
    with pytest.raises(MergeConflict, match="was left out by an earlier merge"):
        db.merge(source, into=into)
    db.merge(source, into=into, on_conflict=winner)
    is_number = into == "dev" if winner == "ours" else source == "dev"
    found = [row["city"] for row in rows(db.branch(into))]
    assert {type(city) for city in found} <= {type(None), int if is_number else str}
    assert str(found[2]) in ("7", "None")
    assert db.check(deep=True).ok


@pytest.mark.parametrize("winner", ["ours", "theirs"])
def test_rows_that_do_not_fit_a_change_are_decided_about(
    db: livingdb.Database, winner: str
) -> None:
    """The change is left out, or the rows have what the other side says; also among others."""
    main, dev = db.branch("main"), db.branch("dev")
    main.update("orders", [{"id": 1, "city": "no number"}, {"id": 2, "city": None}])
    dev.update("orders", {"id": [1, 2], "city": ["5", None]})
    dev.evolve([RetypeColumn("orders", "city", "int"), RenameColumn("orders", "amount", "sum")])
    main.evolve(RenameColumn("orders", "amount", "total"))
    db.merge("dev", into="main", on_conflict=winner)
    found = {row["id"]: row for row in rows(main)}
    if winner == "ours":
        assert found[1] == {"id": 1, "city": "no number", "total": 1}
    else:
        assert found[1] == {"id": 1, "city": 5, "sum": 1}
    assert db.check(deep=True).ok


@pytest.mark.parametrize("winner", ["ours", "theirs"])
def test_rows_that_both_sides_make_fit(db: livingdb.Database, winner: str) -> None:
    """That those of what both come from do not is for a policy to decide, too."""
    main, dev = db.branch("main"), db.branch("dev")
    main.update("orders", {"id": [1, 2], "city": ["1", None]})
    dev.update("orders", {"id": [1, 2], "city": ["1", None]})
    dev.evolve(RetypeColumn("orders", "city", "int"))
    main.update("orders", {"id": [3], "amount": [30]})
    with pytest.raises(MergeConflict, match="does not fit"):
        db.merge("dev", into="main")
    db.merge("dev", into="main", on_conflict=winner)
    number = "1" if winner == "ours" else 1
    assert [(r["city"], r["amount"]) for r in rows(main)] == [(number, 1), (None, 2), (None, 30)]


@pytest.mark.parametrize("into", ["main", "copy"])
def test_what_was_taken_back_from_before_a_clone(db: livingdb.Database, into: str) -> None:
    """A clone has a change that its origin lost to a merge since."""
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(RenameTable("orders", "sales"))
    dev.evolve(RenameTable("orders", "deals"))
    copy = main.clone("copy")
    db.merge("dev", into="main", on_conflict="theirs")
    copy.evolve(AddColumn("sales", "vat", "int"))
    assert db.diff("main", "copy").notes == ()
    for end in (into, "copy" if into == "main" else "main"):
        db.merge("copy" if end == "main" else "main", into=end)
        assert db.branch(end).tables() == ["deals"]
        assert "vat" in rows(db.branch(end), "deals")[0]


@pytest.mark.parametrize("winner", ["ours", "theirs"])
def test_a_clone_goes_on_with_what_was_taken_back(db: livingdb.Database, winner: str) -> None:
    main, dev = db.branch("main"), db.branch("dev")
    main.evolve(AddColumn("orders", "vat", "int", default=1))
    dev.evolve(AddColumn("orders", "vat", "string", default="none"))
    copy = main.clone("copy")
    db.merge("dev", into="main", on_conflict="theirs")
    copy.evolve(RenameColumn("orders", "vat", "tax"))
    with pytest.raises(MergeConflict):
        db.merge("copy", into="main")
    db.merge("copy", into="main", on_conflict=winner)
    db.merge("main", into="copy", on_conflict=winner)
    assert rows(main) == rows(copy)
    assert db.check(deep=True).ok
