"""Evolving branches: both schemas live, and the graph's operations on branches in step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.evolution import AddColumn, DropColumn, RenameColumn, RenameTable

VAT = AddColumn("orders", "vat", "double", default=0.25)
TOTAL = RenameColumn("orders", "amount", "total")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann") as database:
        main = database.branch("main")
        main.create_table(
            "orders", {"id": "bigint", "amount": "double", "note": "string"}, key="id"
        )
        main.create_table("cities", {"name": "string"}, key="name")
        main.insert(
            "orders", {"id": [1, 2, 3], "amount": [1.0, 2.0, 3.0], "note": ["a", None, "ø"]}
        )
        yield database
        report = database.check()
        assert report.problems == []


def rows(branch: livingdb.Branch, table: str = "orders") -> list[dict[str, object]]:
    return branch.table(table).to_arrow().to_pylist()


def ids(branch: livingdb.Branch) -> list[object]:
    return [row["id"] for row in rows(branch)]


# --- one change ------------------------------------------------------------------------------


def test_a_change_writes_no_rows(db: livingdb.Database) -> None:
    main = db.branch("main")
    before = db.storage().journal_bytes
    made = main.evolve([VAT, TOTAL, RenameTable("cities", "towns")])
    assert db.storage().journal_bytes - before < 5_000
    assert made == main.head
    assert made.edge.kind == "schema_change"
    assert made.edge.details["changes"][0]["change"] == "AddColumn"
    assert main.tables() == ["orders", "towns"]
    assert main.table("orders").get(2) == {"id": 2, "total": 2.0, "note": None, "vat": 0.25}
    assert db.at("main~1").table("orders").get(2) == {"id": 2, "amount": 2.0, "note": None}
    assert main.table("towns").version == db.at("main~1").table("cities").version
    assert db.branches() == ["main"]
    assert db.syncs() == []


def test_reading_the_new_schema_without_migrating(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve([VAT, TOTAL])
    table = main.table("orders")
    assert len(table) == 3
    assert table.get(9) is None
    assert table.to_arrow(columns=["vat"], where="total >= 2").to_pylist() == [{"vat": 0.25}] * 2
    main.upsert("orders", {"id": [0, 2, 9], "total": [0.0, 22.0, 9.0]})
    main.delete("orders", [3])
    expected = [
        {"id": 0, "total": 0.0, "note": None, "vat": 0.25},
        {"id": 1, "total": 1.0, "note": "a", "vat": 0.25},
        {"id": 2, "total": 22.0, "note": None, "vat": 0.25},
        {"id": 9, "total": 9.0, "note": None, "vat": 0.25},
    ]
    assert rows(main) == expected
    asked = main.sql("SELECT sum(total) AS t FROM orders WHERE id > 0")
    assert asked.to_arrow().to_pylist() == [{"t": 32.0}]
    root = main.table("orders").root()
    with livingdb.create(Path(db.name).parent / "twin.ldb") as twin:
        other = twin.branch("main")
        other.create_table("orders", table.schema, key="id")
        other.insert("orders", expected)
        assert other.table("orders").root() == root


def test_migrate_materializes_and_changes_nothing(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve([VAT, TOTAL])
    before = rows(main)
    said: list[tuple[object, ...]] = []
    assert main.migrate(progress=lambda *what: said.append(what)) == ["orders"]
    assert said == [(0, 1, "orders"), (1, 1, "")]
    assert rows(main) == before
    assert main.migrate() == []
    with livingdb.open(db.name) as again:
        assert rows(again.branch("main")) == before


def test_what_does_not_fit_together(db: livingdb.Database) -> None:
    main = db.branch("main")
    head = main.head
    with pytest.raises(livingdb.InvalidData, match="keep= names"):
        main.evolve(VAT, sync="both")
    with pytest.raises(livingdb.InvalidData, match="give one of them"):
        main.evolve(VAT, keep="a", to="b")
    with pytest.raises(livingdb.InvalidData, match="read-only"):
        main.evolve(VAT, keep="a", sync="forward")
    with pytest.raises(livingdb.InvalidData, match="choose one of"):
        main.evolve(VAT, keep="a", sync="sideways")
    with pytest.raises(livingdb.InvalidData, match="no schema change"):
        main.evolve("ALTER TABLE")
    with pytest.raises(livingdb.InvalidData, match="no change"):
        main.evolve([])
    with pytest.raises(livingdb.InvalidName):
        main.evolve(VAT, keep="a~b", sync="both")
    with pytest.raises(livingdb.AlreadyExists):
        main.evolve(VAT, to="main", sync="both")
    must = AddColumn("orders", "must", "int not null")
    with pytest.raises(livingdb.IllegalSync, match="legal: reverse, none"):
        main.evolve(must, keep="old", sync="both")
    with pytest.raises(livingdb.NotFound, match="ordrs"):
        main.evolve([VAT, DropColumn("ordrs", "note")])
    assert main.head == head
    assert db.branches() == ["main"]


def test_explanations(db: livingdb.Database) -> None:
    main = db.branch("main")
    found = main.explain_evolution(VAT)
    assert found.legal == ("forward", "reverse", "both", "none")
    assert "unseen" in str(found)
    must = main.explain_evolution([VAT, AddColumn("orders", "must", "int not null")])
    assert must.legal == ("reverse", "none")
    assert "NOT NULL" in must.illegal["both"]


# --- two schemas in step ---------------------------------------------------------------------

Pair = tuple[livingdb.Branch, livingdb.Branch]


@pytest.fixture
def pair(db: livingdb.Database) -> Pair:
    """The old schema and the new one."""
    main = db.branch("main")
    main.evolve([VAT, TOTAL], keep="main_v1", sync="both")
    return db.branch("main_v1"), main


def test_writes_reach_the_other_side(db: livingdb.Database, pair: Pair) -> None:
    old, new = pair
    made = old.upsert("orders", {"id": [3, 4], "amount": [30.0, 40.0], "note": ["x", "y"]})
    assert new.head.edge.kind == "propagate"
    assert new.table("orders").get(4) == {"id": 4, "total": 40.0, "note": "y", "vat": 0.25}
    new.update("orders", {"id": [4], "vat": [0.5]})
    assert made == old.head  # nothing of it is to be seen in the old schema
    old.update("orders", {"id": [4], "amount": [44.0]})
    assert new.table("orders").get(4) == {"id": 4, "total": 44.0, "note": "y", "vat": 0.5}
    new.insert("orders", {"id": [5], "total": [5.0], "note": ["n"], "vat": [0.1]})
    new.delete("orders", [1])
    assert ids(old) == [2, 3, 4, 5]
    assert old.head.edge.details["direction"] == "reverse"
    assert [sync.explain() for sync in db.syncs()] == [
        "main_v1 ↔ main: schema_change, immediate, active"
    ]
    assert db.branches() == ["main", "main_v1"]


def test_a_table_no_change_touches_is_shared(pair: Pair) -> None:
    old, new = pair
    new.insert("cities", {"name": ["Oslo"]})
    assert old.table("cities").version == new.table("cities").version
    with old.transaction() as tx:
        tx.insert("cities", {"name": ["Bodø"]})
        tx.update("orders", {"id": [1], "amount": [7.0]})
    assert new.table("cities").get("Bodø") == {"name": "Bodø"}
    assert new.table("orders").get(1)["total"] == 7.0


def test_chains(db: livingdb.Database, pair: Pair) -> None:
    old, new = pair
    heads = old.head, new.head
    with pytest.raises(RuntimeError), old.transaction() as tx:
        tx.delete("orders", [1])
        raise RuntimeError
    assert (old.head, new.head) == heads
    new.evolve(DropColumn("orders", "note", default="?"), keep="main_v2", sync="both")
    assert db.branches() == ["main", "main_v1", "main_v2"]
    assert [sync.name for sync in db.syncs()] == ["main_v1/main_v2", "main_v2/main"]
    new.insert("orders", {"id": [7], "total": [7.0], "vat": [0.7]})
    assert old.table("orders").get(7) == {"id": 7, "amount": 7.0, "note": "?"}
    old.update("orders", {"id": [7], "note": ["kept"]})
    new.update("orders", {"id": [7], "total": [8.0]})
    assert old.table("orders").get(7) == {"id": 7, "amount": 8.0, "note": "kept"}
    middle = db.branch("main_v2")
    middle.update("orders", {"id": [7], "vat": [0.1], "note": ["mid"]})
    assert new.table("orders").get(7) == {"id": 7, "total": 8.0, "vat": 0.1}
    assert old.table("orders").get(7)["note"] == "mid"


def test_merge_revert_and_cherry_pick(db: livingdb.Database, pair: Pair) -> None:
    old, new = pair
    dev = new.clone("dev")
    dev.update("orders", {"id": [1], "total": [100.0], "vat": [0.9]})
    merged = db.merge("dev", into="main")
    assert merged.edge.kind == "merge"  # never fast-forward: the other side has to follow
    assert old.table("orders").get(1)["amount"] == 100.0
    new.revert(merged)
    assert old.table("orders").get(1)["amount"] == 1.0
    old_dev = old.clone("old_dev")
    picked = old_dev.update("orders", {"id": [2], "note": ["picked"]})
    old.cherry_pick(picked)
    assert new.table("orders").get(2)["note"] == "picked"
    old_dev.delete("orders", [3])
    db.merge("old_dev", into="main_v1")
    assert new.table("orders").get(3) is None
    change = next(s for s in new.log() if s.edge.kind == "schema_change")
    with pytest.raises(livingdb.RuleViolation, match="evolve"):
        new.revert(change)


def test_merging_an_older_schema(db: livingdb.Database, pair: Pair) -> None:
    """A branch that was made before the change is brought to the new schema first."""
    old, new = pair
    dev = old.head.clone("dev")
    dev.update("orders", {"id": [2], "amount": [22.0]})
    dev.insert("orders", {"id": [8], "amount": [8.0], "note": [None]})
    new.update("orders", {"id": [1], "vat": [0.9]})
    preview = db.preview_merge("dev", into="main")
    assert preview.is_clean
    assert preview.changes["orders"] == {"inserted": 1, "updated": 1, "deleted": 0}
    db.merge("dev", into="main")
    assert new.table("orders").get(2) == {"id": 2, "total": 22.0, "note": None, "vat": 0.25}
    assert new.table("orders").get(8) == {"id": 8, "total": 8.0, "note": None, "vat": 0.25}
    assert new.table("orders").get(1)["vat"] == 0.9
    assert old.table("orders").get(8)["amount"] == 8.0


def test_the_same_column_added_on_both_sides(db: livingdb.Database) -> None:
    main = db.branch("main")
    dev = main.clone("dev")
    dev.evolve(VAT)
    dev.update("orders", {"id": [1], "vat": [0.9]})
    main.evolve(VAT)
    main.update("orders", {"id": [2], "vat": [0.8]})
    db.merge("dev", into="main")
    assert [row["vat"] for row in rows(main)] == [0.9, 0.8, 0.25]
    other = main.clone("other")
    other.evolve(AddColumn("orders", "x", "int"))
    main.evolve(AddColumn("orders", "x", "string"))
    main.update("orders", {"id": [1], "x": ["!"]})
    other.update("orders", {"id": [2], "x": [2]})
    with pytest.raises(livingdb.MergeConflict) as caught:
        db.merge("other", into="main")
    assert "orders" in caught.value.schema_conflicts


def test_reset_moves_the_group(db: livingdb.Database, pair: Pair) -> None:
    old, new = pair
    before = old.head
    old.insert("orders", {"id": [4], "amount": [4.0], "note": [None]})
    mark_old, mark_new = old.head, new.head
    new.update("orders", {"id": [4], "vat": [0.4]})
    new.delete("orders", [1, 2])
    old.reset(mark_old)
    assert new.head == mark_new
    assert ids(new) == [1, 2, 3, 4]
    new.update("orders", {"id": [4], "total": [5.0]})
    assert old.table("orders").get(4)["amount"] == 5.0
    old.reset(before)
    assert ids(new) == [1, 2, 3]
    with pytest.raises(livingdb.RuleViolation, match="detach"):
        new.reset(before)  # in the old schema
    assert ids(new) == [1, 2, 3]


def test_clone_and_time_travel(db: livingdb.Database, pair: Pair) -> None:
    old, new = pair
    copy = old.clone("copy")
    copy.delete("orders", [1])
    assert new.table("orders").get(1) is not None  # a clone is in step with nobody
    old.update("orders", {"id": [1], "amount": [9.0]})
    lifted = db.at("main_v1", schema="main")
    assert lifted.table("orders").get(1) == {"id": 1, "total": 9.0, "note": "a", "vat": 0.25}
    assert lifted.sql("SELECT sum(total) AS t FROM orders").to_arrow().to_pylist() == [{"t": 14.0}]
    assert lifted.tables() == ["cities", "orders"]
    with pytest.raises(livingdb.NotFound, match="orders"):
        lifted.table("ordrs")
    assert db.at("main_v1").table("orders").schema.names == ["id", "amount", "note"]
    with pytest.raises(livingdb.Unsupported, match="as it is"):
        db.at("main", schema="main_v1")


def test_dropping_and_detaching(db: livingdb.Database, pair: Pair) -> None:
    old, new = pair
    with pytest.raises(livingdb.RuleViolation, match="detach=True"):
        db.drop_branch("main_v1")
    sync = db.sync("main_v1")
    sync.detach(reason="the old app is gone")
    assert (sync.state, sync.reason) == ("detached", "the old app is gone")
    old.delete("orders", [1])
    assert new.table("orders").get(1) is not None
    db.drop_branch("main_v1")
    assert db.syncs() == []
    assert db._graph.branches.count() == 1


def test_dropping_with_detach(db: livingdb.Database, pair: Pair) -> None:
    db.drop_branch("main_v1", detach=True)
    assert db.syncs() == []
    db.branch("main").delete("orders", [1])


# --- one way ---------------------------------------------------------------------------------


def test_forward(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(DropColumn("orders", "note"), to="slim", sync="forward")
    slim = db.branch("slim")
    main.insert("orders", {"id": [4], "amount": [4.0], "note": ["z"]})
    assert slim.table("orders").get(4) == {"id": 4, "amount": 4.0}
    for write in (
        lambda: slim.insert("orders", {"id": [5], "amount": [5.0]}),
        lambda: slim.reset("main~1"),
        lambda: db.merge("main", into="slim"),
        lambda: slim.revert("slim"),
        lambda: slim.evolve(VAT),
    ):
        with pytest.raises(livingdb.ReadOnlyBranch, match=r"db.sync\('slim'\).detach\(\)"):
            write()
    main.clone("back").evolve(VAT, to="ahead", sync="reverse")
    with pytest.raises(livingdb.ReadOnlyBranch, match=r"db.sync\('back/ahead'\).detach\(\)"):
        db.branch("back").delete("orders", [4])
    slim.evolve(VAT, to="wide", sync="forward")  # one-way chains are fine
    main.delete("orders", [1])
    assert ids(db.branch("wide")) == [2, 3, 4]
    with pytest.raises(livingdb.RuleViolation, match="rule 3"):
        slim.evolve(TOTAL, to="both", sync="both")
    db.sync("main/slim").detach()
    slim.insert("orders", {"id": [5], "amount": [5.0]})
    assert db.branch("wide").table("orders").get(5)["vat"] == 0.25


def test_reverse(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(VAT, keep="old", sync="reverse")
    old = db.branch("old")
    main.insert("orders", {"id": [4], "amount": [4.0]})
    assert old.table("orders").get(4) == {"id": 4, "amount": 4.0, "note": None}
    with pytest.raises(livingdb.ReadOnlyBranch, match="old"):
        old.delete("orders", [1])


def test_rules_on_two_way_groups(db: livingdb.Database, pair: Pair) -> None:
    _, new = pair
    with pytest.raises(livingdb.RuleViolation, match="keep="):
        new.evolve(DropColumn("orders", "note"))
    with pytest.raises(livingdb.RuleViolation, match="rule 3"):
        new.evolve(DropColumn("orders", "note"), to="new2", sync="reverse")


# --- transactions in flight ------------------------------------------------------------------


def test_a_transaction_is_carried_through_a_schema_change(db: livingdb.Database) -> None:
    main = db.branch("main")
    with main.transaction() as tx:
        tx.update("orders", {"id": [1], "amount": [111.0]})
        tx.insert("orders", {"id": [7], "amount": [7.0]})
        main.evolve([VAT, TOTAL, DropColumn("orders", "note")])
        main.update("orders", {"id": [2], "total": [22.0]})
    assert rows(main) == [
        {"id": 1, "total": 111.0, "vat": 0.25},
        {"id": 2, "total": 22.0, "vat": 0.25},
        {"id": 3, "total": 3.0, "vat": 0.25},
        {"id": 7, "total": 7.0, "vat": 0.25},
    ]
    with pytest.raises(livingdb.TransactionConflict), main.transaction() as tx:
        tx.update("orders", {"id": [1], "total": [5.0]})
        main.update("orders", {"id": [1], "total": [6.0]})
        main.evolve(RenameColumn("orders", "total", "sum"))
    with pytest.raises(livingdb.TransactionConflict), main.transaction() as tx:
        tx.update("orders", {"id": [1], "sum": [5.0]})
        main.evolve(RenameColumn("orders", "sum", "total"))
        main.update("orders", {"id": [1], "total": [6.0]})


# --- SQL -------------------------------------------------------------------------------------


def test_sql_changes_schemas(db: livingdb.Database) -> None:
    main = db.branch("main")
    done = main.sql("ALTER TABLE orders ADD COLUMN vat DOUBLE DEFAULT 0.25 SYNC BOTH KEEP main_v1")
    assert done.snapshot.edge.kind == "schema_change"
    assert [sync.name for sync in db.syncs()] == ["main_v1/main"]
    main.sql("INSERT INTO orders (id, amount) VALUES (4, 4.0)")
    assert main.table("orders").get(4)["vat"] == 0.25
    assert db.branch("main_v1").table("orders").get(4)["amount"] == 4.0
    main.sql("ALTER TABLE orders RENAME COLUMN amount TO total SYNC BOTH KEEP `main_v2`")
    main.sql("ALTER TABLE orders DROP COLUMN note KEEP main_v3")
    assert main.table("orders").schema.names == ["id", "total", "vat"]
    assert main.sql("CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY)").snapshot is None
    main.sql("CREATE TABLE towns (name STRING, size INT DEFAULT 1, PRIMARY KEY (name))")
    main.sql("INSERT INTO towns (name) VALUES ('Oslo')")
    assert rows(main, "towns") == [{"name": "Oslo", "size": 1}]
    main.sql("ALTER TABLE towns RENAME TO places")
    main.sql("DROP TABLE places")
    assert main.sql("DROP TABLE IF EXISTS places").snapshot is None
    assert main.tables() == ["cities", "orders"]
    with pytest.raises(livingdb.RuleViolation, match="branch"), main.transaction() as tx:
        tx.sql("DROP TABLE cities")
    with pytest.raises(livingdb.InvalidData, match="PRIMARY KEY"):
        main.sql("CREATE TABLE x (a INT)")


def test_rows_that_come_as_trees_bring_no_computed_columns(db: livingdb.Database) -> None:
    from livingdb.engines.tree_parts import TreeParts

    main = db.branch("main")
    main.evolve(AddColumn("orders", "twice", "double", computed="amount * 2"))
    with pytest.raises(livingdb.Unsupported, match="'twice'"), main.transaction() as tx:
        tx.replace("orders", TreeParts((), 0, ()))


def test_the_schema_changes_between_two_snapshots(db: livingdb.Database) -> None:
    """Among many snapshots, on this line of history only, oldest first."""
    main = db.branch("main")
    start = main.head
    main.clone("side").evolve(DropColumn("orders", "note"))
    main.evolve(VAT)
    for number in range(20):
        main.upsert("orders", {"id": [number], "amount": [1.0]})
    main.evolve(TOTAL)
    main.delete("orders", [1])
    lifter = db._pipeline.lifter
    steps = lifter.schema_changes_between(start._row, main.head._row)
    names = [type(change).__name__ for step in steps for change in lifter.schema_changes_of(step)]
    assert names == ["AddColumn", "RenameColumn"]
    assert lifter.schema_changes_between(steps[1], main.head._row) == []
    assert [step.sequence for step in lifter.schema_changes_between(steps[0], main.head._row)] == [
        steps[1].sequence
    ]


def test_a_table_that_one_side_makes_is_its_own(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "int"}, key="id")
        main.evolve(AddColumn("t", "e", "int"), keep="v1", sync="both")
        main.create_table("n", {"id": "int"}, key="id")
        assert db.branch("v1").tables() == ["t"]
        assert db.check(deep=True).problems == []
