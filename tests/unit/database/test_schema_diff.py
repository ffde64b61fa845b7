"""A diff tells schema changes apart from rows, and makes them where it is applied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.errors import InvalidData, MergeConflict, NotFound
from livingdb.evolution import (
    AddColumn,
    ChangeKey,
    DropColumn,
    DropTable,
    MaskColumn,
    RenameColumn,
    RenameTable,
    ReorderColumns,
    RetypeColumn,
    SplitTable,
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as database:
        main = database.branch("main")
        schema = {"id": "bigint", "city": "string", "amount": "int"}
        main.create_table("orders", schema, key="id")
        rows = {"id": [1, 2, 3], "city": ["Oslo", "Bodø", None], "amount": [1, 2, 3]}
        main.insert("orders", rows)
        database.tag("start", "main")
        yield database


def changes(diff: livingdb.SnapshotDiff) -> list[str]:
    return [change.text for change in diff.schema]


def rows(diff: livingdb.SnapshotDiff, table: str) -> list[tuple[object, ...]]:
    found = diff[table].to_arrow().to_pylist()
    return [(row["_change_type"], row["_before"], row["_after"]) for row in found]


def test_a_renamed_column_is_no_row(db: livingdb.Database) -> None:
    db.branch("main").evolve(RenameColumn("orders", "city", "town"))
    found = db.diff("start", "main")
    assert changes(found) == ["RenameColumn orders city town"]
    assert sum(len(part) for part in found.values()) == 0
    back = db.diff("main", "start")
    assert changes(back) == ["RenameColumn orders town city"]
    assert sum(len(part) for part in back.values()) == 0
    assert db.diff("main", "main") == {}
    assert db.diff("main", "main").schema == ()


def test_what_is_taken_back_is_shown_as_what_it_takes_back(db: livingdb.Database) -> None:
    added = AddColumn("orders", "vat", "int", default=25)
    db.branch("main").evolve(added)
    (back,) = db.diff("main", "start").schema
    assert repr(back) == f"RevertChange({added!r})"


def test_rows_are_keyed_and_named_as_in_the_second(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.update("orders", {"id": [1], "city": ["Hamar"]})
    main.evolve([RenameColumn("orders", "city", "town"), RenameTable("orders", "sales")])
    main.evolve([RenameColumn("sales", "id", "nr"), AddColumn("sales", "vat", "int", default=25)])
    main.update("sales", {"nr": [2], "vat": [12]})
    found = db.diff("start", "main")
    assert [*found] == ["sales"]
    assert found["sales"].schema_state == "changed"
    assert found["sales"].key == ("nr",)
    assert rows(found, "sales") == [
        (
            "update",
            {"nr": 1, "town": "Oslo", "amount": 1, "vat": 25},
            {"nr": 1, "town": "Hamar", "amount": 1, "vat": 25},
        ),
        (
            "update",
            {"nr": 2, "town": "Bodø", "amount": 2, "vat": 25},
            {"nr": 2, "town": "Bodø", "amount": 2, "vat": 12},
        ),
    ]
    assert [*db.diff("start", "main", tables=["orders"])] == ["sales"]
    shown = main.sql("SELECT nr, _change_type FROM livingdb.diff('start', 'main', 'sales')")
    assert shown.to_arrow().column("nr").to_pylist() == [1, 2]


def test_tables_that_come_apart(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(SplitTable("orders", {"small": "amount < 3", "large": "amount >= 3"}))
    main.insert("large", {"id": [9], "city": ["Moss"], "amount": [90]})
    found = db.diff("start", "main")
    assert len(found.schema) == 1
    assert {name: len(part) for name, part in found.items()} == {"large": 1}
    db.apply(found, db.at("start").clone("other").name)
    for name in ("large", "small"):
        assert db.branch("other").table(name).to_arrow() == main.table(name).to_arrow()


def test_another_key(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.update("orders", {"id": [3], "city": ["Moss"]})
    main.evolve(ChangeKey("orders", ["amount"]))
    main.insert("orders", {"id": [4], "city": ["x"], "amount": [40]})
    found = db.diff("start", "main")["orders"]
    assert found.key == ("amount",)
    assert found.summary() == {"inserted": 1, "updated": 1, "deleted": 0}


def test_where_no_way_leads_rows_are_compared_by_name(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(RetypeColumn("orders", "amount", "date", up="DATE'2026-01-01'"))
    main.evolve(RenameTable("orders", "sales"))
    main.update("sales", {"id": [1], "city": ["Moss"]})
    found = db.diff("main", "start")
    assert found.schema == ()
    assert len(found.notes) == 1
    assert "cannot be taken back" in found.notes[0]
    assert found["orders"].summary().deleted == 0
    assert not db.diff("start", "main").notes


def test_a_diff_is_applied_where_the_branch_is_another(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("main").clone("dev")
    main.evolve([RenameColumn("orders", "city", "town"), AddColumn("orders", "vat", "int")])
    main.update("orders", {"id": [1], "vat": [12]})
    dev.insert("orders", {"id": [7], "city": ["Voss"], "amount": [7]})
    dev.evolve(RenameTable("orders", "sales"))
    found = db.diff("start", "main")
    made = db.apply(found, "dev", message="as main did")
    assert made.message == "as main did"
    assert db.at("dev~1").edge.kind == "schema_change"
    assert dev.table("sales").to_arrow().to_pylist() == [
        {"id": 1, "town": "Oslo", "amount": 1, "vat": 12},
        {"id": 2, "town": "Bodø", "amount": 2, "vat": None},
        {"id": 3, "town": None, "amount": 3, "vat": None},
        {"id": 7, "town": "Voss", "amount": 7, "vat": None},
    ]
    assert db.apply(found, "dev").id == made.id
    merged = db.merge("main", into="dev")
    assert db.at(merged.id).table("sales").schema.names == ["id", "town", "amount", "vat"]
    assert db.check().ok


def test_a_diff_backwards_is_applied(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve([RenameColumn("orders", "city", "town"), DropColumn("orders", "amount")])
    main.insert("orders", {"id": [4], "town": ["Voss"]})
    wanted = db.at("start").table("orders").to_arrow()
    db.apply(db.diff("main", "start"), "main")
    assert main.table("orders").to_arrow() == wanted


@pytest.mark.parametrize(
    ("mine", "place"),
    [
        (RenameColumn("orders", "city", "place"), "orders.city"),
        (DropColumn("orders", "amount"), "orders.amount"),
    ],
    ids=["renamed", "dropped"],
)
def test_what_contradicts_the_branch_is_refused(
    db: livingdb.Database, mine: object, place: str
) -> None:
    main, dev = db.branch("main"), db.branch("main").clone("dev")
    main.evolve(
        [RenameColumn("orders", "city", "town"), RetypeColumn("orders", "amount", "bigint")]
    )
    main.insert("orders", {"id": [4], "town": ["Voss"], "amount": [4]})
    dev.evolve(mine)
    head = dev.head.id
    with pytest.raises(MergeConflict, match=place):
        db.apply(db.diff("start", "main"), "dev")
    assert dev.head.id == head


def test_a_table_that_neither_has(db: livingdb.Database) -> None:
    with pytest.raises(NotFound, match="nope"):
        db.diff("start", "main", tables=["nope"])


def test_a_branch_in_step_with_another_stays_in_step(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("main").clone("dev")
    dev.evolve(AddColumn("orders", "vat", "int", default=25))
    dev.update("orders", {"id": [1], "vat": [12]})
    main.evolve(RenameColumn("orders", "city", "town"), keep="old", sync="both")
    main.derive("towns", "SELECT id, town FROM orders", when="immediate")
    db.apply(db.diff("start", "dev"), "main")
    assert main.table("orders").get(1) == {"id": 1, "town": "Oslo", "amount": 1, "vat": 12}
    main.update("orders", {"id": [2], "town": ["Moss"]})
    assert db.branch("old").table("orders").get(2) == {"id": 2, "city": "Moss", "amount": 2}
    assert db.branch("towns").table("towns").get(2) == {"id": 2, "town": "Moss"}
    assert {sync.state for sync in db.syncs()} == {"active"}
    assert db.check(deep=True).ok


def test_a_target_of_a_sync_takes_no_diff(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.clone("narrow", transform=[DropColumn("orders", "amount")], sync="forward")
    main.evolve(RenameColumn("orders", "city", "town"))
    with pytest.raises(livingdb.ReadOnlyBranch, match="narrow"):
        db.apply(db.diff("start", "main"), "narrow")


def test_what_shares_no_history_is_compared_by_name(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.clone("masked", transform=[MaskColumn("orders", "city", "null")], sync="forward")
    found = db.diff("main", "masked")
    assert found.schema == ()
    assert "share no history" in found.notes[0]
    assert found["orders"].summary().updated == 2


def test_tables_that_came_and_went_and_came_again(db: livingdb.Database) -> None:
    """Whatever made or dropped a table on the way, each pair of snapshots tells its rows."""
    main = db.branch("main")
    main.create_table("items", {"id": "bigint", "label": "string"}, key="id")
    made = main.head.id
    main.insert("items", {"id": [8], "label": ["a"]})
    moments = [made, main.head.id]
    main.revert(main.head.id)
    moments.append(main.head.id)
    main.revert(made)
    moments.append(main.head.id)
    dev = main.clone("dev")
    main.cherry_pick(made)
    main.insert("items", {"id": [9], "label": ["b"]})
    dev.create_table("items", {"id": "bigint", "label": "string"}, key="id")
    dev.insert("items", {"id": [9], "label": ["b"]})
    moments += [main.head.id, dev.head.id]

    def items(snapshot: str) -> dict[int, object] | None:
        at = db.at(snapshot)
        if "items" not in at.tables():
            return None
        return {row["id"]: row for row in at.table("items").to_arrow().to_pylist()}

    for one in moments:
        for other in moments:
            before, after, found = items(one), items(other), db.diff(one, other)
            old, new = before or {}, after or {}
            expected = {
                key: (old.get(key), new.get(key))
                for key in {*old, *new}
                if old.get(key) != new.get(key)
            }
            told = rows(found, "items") if "items" in found else []
            assert {(b or a)["id"]: (b, a) for _, b, a in told} == expected  # type: ignore[index]
            assert "items" in found or (before is None) == (after is None)


def test_rows_are_applied_by_the_names_of_the_branch(db: livingdb.Database) -> None:
    """A diff without schema changes goes by identities: what was renamed there is the same."""
    main, dev = db.branch("main"), db.branch("main").clone("dev")
    main.create_table("items", {"id": "int"}, key="id")
    main.update("orders", {"id": [1], "city": ["Moss"]})
    main.delete("orders", [2])
    dev.evolve([RenameTable("orders", "sales"), RenameColumn("sales", "city", "town")])
    dev.evolve(ReorderColumns("sales", ["amount", "town", "id"]))
    db.apply(db.diff("start", "main"), "dev")
    assert dev.tables() == ["items", "sales"]
    assert dev.table("sales").to_arrow().to_pylist() == [
        {"amount": 1, "town": "Moss", "id": 1},
        {"amount": 3, "town": None, "id": 3},
    ]
    db.apply(db.diff("main", "start"), "dev")
    assert dev.tables() == ["sales"]
    assert dev.table("sales").get(2)["town"] == "Bodø"


def test_a_table_without_rows_that_differ_may_be_missing(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("main").clone("dev")
    dev.evolve(DropTable("orders"))
    main.update("orders", {"id": [1], "city": ["Oslo"]})
    db.apply(db.diff("start", "main"), "dev")
    assert dev.tables() == []
    main.update("orders", {"id": [1], "city": ["Moss"]})
    with pytest.raises(NotFound, match="'orders'"):
        db.apply(db.diff("start", "main"), "dev")


def test_a_diff_without_rows_asks_nothing_of_a_table(tmp_path: Path) -> None:
    """Versions that differ, and rows that do not, fit a table with another key, too."""
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "n": "bigint"}, key="id")
        main.insert("t", {"id": [1], "n": [7]})
        start = main.head.id
        main.update("t", {"id": [1], "n": [8]})
        main.update("t", {"id": [1], "n": [7]})
        same = db.diff(start, main.head.id)
        main.update("t", {"id": [1], "n": [9]})
        more = db.diff(start, main.head.id)
        main.evolve(ChangeKey("t", ["n"]))
        db.apply(same, "main")
        assert main.table("t").to_arrow().to_pylist() == [{"id": 1, "n": 9}]
        with pytest.raises(InvalidData, match="another key"):
            db.apply(more, "main")
