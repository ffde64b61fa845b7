"""Merge, preview, diff and apply."""

from __future__ import annotations

import pyarrow as pa
import pytest

import livingdb
from livingdb import Branch, Database, MergeConflict
from livingdb.evolution import AddColumn


@pytest.fixture
def dev(main: Branch) -> Branch:
    """A clone of main."""
    return main.clone("dev")


def row(branch: Branch, key: int) -> dict[str, object] | None:
    return branch.table("orders").get(key)


def test_fast_forward_when_possible(db: Database, main: Branch, dev: Branch) -> None:
    made = dev.delete("orders", [1])
    assert db.merge("dev", "main") == made == main.head
    assert db.merge("dev", "main") == made
    dev.delete("orders", [2])
    merged = db.merge("dev", "main", fast_forward=False)
    assert merged.edge.kind == "merge"
    assert merged.parents == (made.id, dev.head.id)
    assert main.table("orders").to_arrow().equals(dev.table("orders").to_arrow())


def test_changes_of_both_sides_come_together(db: Database, main: Branch, dev: Branch) -> None:
    dev.update("orders", {"id": [1], "city": ["dev"]})
    dev.insert("orders", {"id": [100]})
    dev.delete("orders", [2])
    main.update("orders", {"id": [3], "city": ["main"]})
    preview = db.preview_merge("dev", "main")
    assert preview.is_clean
    assert not preview.fast_forward
    assert preview.changes["orders"] == {"inserted": 1, "updated": 1, "deleted": 1}
    head = main.head
    merged = db.merge("dev", "main", author="eva")
    assert merged.parents == (head.id, dev.head.id)
    assert merged.author == "eva"
    assert merged.edge.sources == {"dev": dev.head.id}
    assert row(main, 1)["city"] == "dev"
    assert row(main, 2) is None
    assert row(main, 3)["city"] == "main"
    assert row(main, 100) is not None
    assert row(dev, 3)["city"] == "Oslo"


def test_symmetric_merges_belong_to_both(db: Database, main: Branch, dev: Branch) -> None:
    dev.delete("orders", [1])
    main.delete("orders", [2])
    merged = db.merge("dev", "main", symmetric=True)
    assert main.head == dev.head == merged
    db.tag("v1", "main~1")
    main.delete("orders", [3])
    with pytest.raises(livingdb.RuleViolation, match="symmetric"):
        db.merge("v1", "main", symmetric=True)
    assert db.merge("dev", "main", symmetric=True) == main.head == dev.head


def test_conflicts_are_structured_and_change_nothing(
    db: Database, main: Branch, dev: Branch
) -> None:
    dev.update("orders", {"id": [1, 2], "city": ["dev", "dev"]})
    dev.delete("orders", [3])
    main.update("orders", {"id": [1, 3], "city": ["main", "main"]})
    main.delete("orders", [2])
    head = main.head
    preview = db.preview_merge("dev", "main")
    with pytest.raises(livingdb.MergeConflict, match="3 rows") as caught:
        db.merge("dev", "main")
    assert main.head == head
    found = caught.value.conflicts["orders"]
    assert isinstance(found, pa.Table)
    assert found.equals(preview.conflicts["orders"])
    rows = {r["id"]: r for r in found.to_pylist()}
    assert rows[1]["_base"]["city"] == "Oslo"
    assert rows[1]["_ours"]["city"] == "main"
    assert rows[1]["_theirs"]["city"] == "dev"
    assert rows[2]["_ours"] is None
    assert rows[3]["_theirs"] is None


@pytest.mark.parametrize("policy", ["ours", "theirs"])
def test_policies(db: Database, main: Branch, dev: Branch, policy: str) -> None:
    dev.update("orders", {"id": [1, 2], "city": ["dev", "dev"]})
    dev.delete("orders", [3])
    dev.update("orders", {"id": [5], "city": ["only dev"]})
    main.update("orders", {"id": [1, 3], "city": ["main", "main"]})
    main.delete("orders", [2])
    db.merge("dev", "main", on_conflict=policy)
    if policy == "ours":
        assert row(main, 1)["city"] == "main"
        assert row(main, 2) is None
        assert row(main, 3)["city"] == "main"
    else:
        assert row(main, 1)["city"] == "dev"
        assert row(main, 2)["city"] == "dev"
        assert row(main, 3) is None
    assert row(main, 5)["city"] == "only dev"


def test_policies_by_table_and_column(db: Database, main: Branch, dev: Branch) -> None:
    dev.update("orders", {"id": [1], "city": ["dev"], "amount": [5.0], "quantity": [7]})
    main.update("orders", {"id": [1], "city": ["main"], "amount": [9.0], "quantity": [8]})
    with pytest.raises(livingdb.MergeConflict):
        db.merge("dev", "main", on_conflict={"orders.amount": max})
    policy = {
        "orders": "theirs",
        "orders.amount": lambda base, ours, theirs: ours + theirs - base,
        "orders.quantity": "ours",
    }
    db.merge("dev", "main", on_conflict=policy)
    assert row(main, 1) == {"id": 1, "city": "dev", "amount": 13.0, "quantity": 8}
    for bad in ("chaos", {"nope": "ours"}, {"orders.nope": "ours"}, {"orders": 7}):
        with pytest.raises((livingdb.InvalidData, livingdb.NotFound)):
            db.preview_merge("dev", "main", on_conflict=bad)


def test_a_function_decides_about_rows(db: Database, main: Branch, dev: Branch) -> None:
    dev.update("orders", {"id": [1, 2], "city": ["dev", "dev"]})
    dev.delete("orders", [3])
    main.update("orders", {"id": [1, 2, 3], "city": ["main", "main", "main"]})
    seen = []

    def decide(base: dict | None, ours: dict | None, theirs: dict | None) -> dict | None:
        seen.append((base, ours, theirs))
        if theirs is None or ours is None:
            return ours
        return None if ours["id"] == 2 else {**ours, "city": f"{ours['city']}+{theirs['city']}"}

    db.merge("dev", "main", on_conflict={"orders": decide})
    assert len(seen) == 3
    assert row(main, 1)["city"] == "main+dev"
    assert row(main, 2) is None
    assert row(main, 3)["city"] == "main"


def test_cells_merge_when_asked(db: Database, main: Branch, dev: Branch) -> None:
    dev.update("orders", {"id": [1, 2], "city": ["dev", "dev"]})
    main.update("orders", [{"id": 1, "quantity": 50}, {"id": 2, "city": "main"}])
    with pytest.raises(livingdb.MergeConflict) as caught:
        db.merge("dev", "main", granularity="cell")
    assert caught.value.conflicts["orders"]["id"].to_pylist() == [2]
    db.merge("dev", "main", granularity="cell", on_conflict="theirs")
    assert row(main, 1) == {"id": 1, "city": "dev", "amount": 1.0, "quantity": 50}
    assert row(main, 2)["city"] == "dev"
    with pytest.raises(livingdb.InvalidData, match="granularity"):
        db.merge("dev", "main", granularity="bit")


def test_the_same_change_on_both_sides_is_no_conflict(
    db: Database, main: Branch, dev: Branch
) -> None:
    for branch in (main, dev):
        branch.update("orders", {"id": [1], "city": ["same"]})
        branch.delete("orders", [2])
        branch.insert("orders", {"id": [99], "city": ["same"]})
    dev.delete("orders", [4])
    db.merge("dev", "main")
    assert row(main, 1)["city"] == "same"
    assert row(main, 4) is None


def test_tables_made_or_dropped_on_one_side(db: Database, main: Branch, dev: Branch) -> None:
    dev.create_table("extra", {"id": "int"}, key="id")
    dev.insert("extra", {"id": [1]})
    main.create_table("own", {"id": "int"}, key="id")
    db.merge("dev", "main")
    assert main.tables() == ["extra", "orders", "own"]
    for branch in (main, dev):
        branch.create_table("both", {"id": "int", "v": "int"}, key="id")
        branch.insert("both", {"id": [1, len(branch.name)], "v": [0, 1]})
    db.merge("dev", "main")
    assert len(main.table("both")) == 3
    main.create_table("odd", {"id": "int"}, key="id")
    dev.create_table("odd", {"id": "string"}, key="id")
    with pytest.raises(livingdb.MergeConflict, match="schemas") as caught:
        db.merge("dev", "main")
    assert "odd" in caught.value.schema_conflicts


def test_foreign_keys_hold_after_a_merge(db: Database, main: Branch) -> None:
    main.create_table(
        "items", {"id": "int", "order_id": "bigint"}, key="id", foreign_keys={"order_id": "orders"}
    )
    dev = main.clone("dev")
    dev.insert("items", {"id": [1], "order_id": [4]})
    main.delete("orders", [4])
    head = main.head
    with pytest.raises(livingdb.InvalidData, match="has no row"):
        db.merge("dev", "main")
    with pytest.raises(livingdb.InvalidData, match="refers"):
        db.merge("main", "dev")
    assert main.head == head


def test_criss_cross(db: Database, main: Branch, dev: Branch) -> None:
    main.update("orders", {"id": [1], "city": ["main"]})
    dev.update("orders", {"id": [2], "city": ["dev"]})
    old_main, old_dev = main.head, dev.head
    db.merge(old_dev, "main")
    db.merge(old_main, "dev")
    main.update("orders", {"id": [3], "city": ["main"]})
    dev.update("orders", {"id": [4], "city": ["dev"]})
    db.merge("dev", "main")
    found = [row(main, key)["city"] for key in (1, 2, 3, 4)]
    assert found == ["main", "dev", "main", "dev"]


def test_a_row_in_conflict_between_ancestors_stays_in_conflict(
    db: Database, main: Branch, dev: Branch
) -> None:
    main.update("orders", {"id": [1], "city": ["main"]})
    dev.update("orders", {"id": [1], "city": ["dev"]})
    old_main, old_dev = main.head, dev.head
    db.merge(old_dev, "main", on_conflict="ours")
    db.merge(old_main, "dev", on_conflict="ours")
    with pytest.raises(livingdb.MergeConflict):
        db.merge("dev", "main")
    db.merge("dev", "main", on_conflict="theirs")
    assert row(main, 1)["city"] == "dev"


def test_diff_and_apply(db: Database, main: Branch, dev: Branch) -> None:
    dev.update("orders", {"id": [1], "city": ["dev"]})
    dev.delete("orders", [2])
    dev.insert("orders", {"id": [50], "city": ["new"]})
    dev.create_table("extra", {"id": "int"}, key="id")
    dev.insert("extra", {"id": [1, 2]})
    diff = db.diff("main", "dev")
    assert sorted(diff) == ["extra", "orders"]
    found = diff["orders"].to_arrow()
    assert found.column_names == ["id", "_change_type", "_before", "_after"]
    rows = {r["id"]: r for r in found.to_pylist()}
    assert rows[1]["_change_type"] == "update"
    assert rows[1]["_before"]["city"] == "Oslo"
    assert rows[1]["_after"]["city"] == "dev"
    assert rows[2]["_change_type"] == "delete"
    assert rows[2]["_after"] is None
    assert rows[50]["_change_type"] == "insert"
    assert rows[50]["_before"] is None
    assert diff["orders"].summary() == {"inserted": 1, "updated": 1, "deleted": 1}
    assert diff["extra"].summary().inserted == 2
    assert db.diff("dev", "main")["extra"].summary().deleted == 2
    assert db.diff("main", "main") == {}
    db.apply(diff, "main")
    assert db.diff("main", "dev") == {} or all(
        len(part) == 0 for part in db.diff("main", "dev").values()
    )
    db.apply(db.diff("dev", "dev~2"), "main")
    assert main.tables() == ["orders"]
    with pytest.raises(livingdb.NotFound):
        db.diff("main", "dev", tables=["nope"])


def test_diff_across_schemas(db: Database, main: Branch, dev: Branch) -> None:
    for branch, kind in ((main, "int"), (dev, "string")):
        branch.create_table("t", {"id": "int", "v": kind, "same": "int"}, key="id")
    main.insert("t", {"id": [1, 2], "v": [5, None], "same": [1, 1]})
    dev.insert("t", {"id": [1, 2, 3], "v": ["5", None, "x"], "same": [1, 1, 1]})
    found = {r["id"]: r["_change_type"] for r in db.diff("main", "dev")["t"].to_arrow().to_pylist()}
    assert found == {1: "update", 3: "insert"}


# --- the same words everywhere ---------------------------------------------------------------


@pytest.mark.parametrize("bad", ["mine", "source", "target", "OURS", None, 3, {"orders": "mine"}])
def test_other_words_are_refused_by_name(db: Database, main: Branch, bad: object) -> None:
    main.clone("dev").delete("orders", [1])
    head = main.head
    query = "SELECT city, count(*) AS n FROM orders GROUP BY city"
    main.derive("totals", query, when="immediate")
    db.sync("totals").detach()
    calls = (
        lambda: db.merge("dev", into="main", on_conflict=bad),
        lambda: db.preview_merge("dev", into="main", on_conflict=bad),
        lambda: main.revert("main", on_conflict=bad),
        lambda: main.cherry_pick("dev", on_conflict=bad),
        lambda: db.sync("totals").reattach(on_conflict=bad),
    )
    for call in calls:
        with pytest.raises(livingdb.InvalidData, match="choose one of fail, ours, theirs"):
            call()
    assert main.head == head
    assert db.sync("totals").state == "detached"


def test_revert_and_cherry_pick_take_policies(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    picked = dev.update("orders", [{"id": 1, "amount": 70, "city": "Bern"}])
    main.update("orders", [{"id": 1, "amount": 60}])
    with pytest.raises(MergeConflict):
        main.cherry_pick(picked)
    main.cherry_pick(picked, on_conflict={"orders.amount": max, "orders": "ours"})
    assert _amount(main, 1) == 70
    dev.update("orders", [{"id": 1, "amount": 80}])
    with pytest.raises(MergeConflict):
        dev.revert("dev~1")
    dev.revert("dev~1", on_conflict="ours")
    assert _amount(dev, 1) == 80
    dev.revert(picked, on_conflict="theirs")
    assert _amount(dev, 1) == 1


def _amount(branch: Branch, key: int) -> object:
    found = row(branch, key)
    return None if found is None else found["amount"]


def test_policies_of_a_reattach(db: Database, main: Branch) -> None:
    main.evolve(AddColumn("orders", "vat", "int", default=0), to="new", sync="both")
    new, sync = db.branch("new"), db.sync("new")

    def part(number: int) -> None:
        sync.detach()
        main.update("orders", [{"id": 1, "amount": number}])
        new.update("orders", [{"id": 1, "amount": number + 1}])
        with pytest.raises(MergeConflict) as caught:
            sync.reattach()
        (found,) = caught.value.conflicts["orders"].to_pylist()
        assert (found["_ours"]["amount"], found["_theirs"]["amount"]) == (number, number + 1)

    for number, policy, wanted in (
        (100, "ours", 100),
        (200, "theirs", 201),
        (300, {"orders": "theirs"}, 301),
        (400, {"orders.amount": lambda base, ours, theirs: ours + theirs}, 801),
        (500, {"*": "ours"}, 500),
    ):
        part(number)
        sync.reattach(on_conflict=policy)
        assert (_amount(main, 1), _amount(new, 1)) == (wanted, wanted)
    with pytest.raises(livingdb.InvalidData, match="'mine' is no policy"):
        sync.reattach(on_conflict="mine")  # also of one that is active


def test_policies_of_a_one_way_reattach(db: Database, main: Branch) -> None:
    main.clone("copy", transform=[AddColumn("orders", "vat", "int", default=0)], sync="forward")
    main.derive("cities", "SELECT DISTINCT city FROM orders", when="immediate")
    for name, table, written in (
        ("copy", "orders", {"id": 1, "amount": 5}),
        ("cities", "cities", {"city": "Atlantis"}),
    ):
        sync = db.sync(name)
        sync.detach()
        db.branch(name).upsert(table, [written])
        with pytest.raises(MergeConflict):
            sync.reattach()
        for bad in ("theirs", max, {table: "theirs"}):
            with pytest.raises(livingdb.IllegalSync, match="what its source says"):
                sync.reattach(on_conflict=bad)
        with pytest.raises(MergeConflict):
            sync.reattach(on_conflict={"other": "ours"})
        sync.reattach(on_conflict={table: "ours"})
        assert sync.state == "active"
    assert "Atlantis" not in db.branch("cities").table("cities").to_arrow()["city"].to_pylist()
