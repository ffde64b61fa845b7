"""Writing: one call is one transaction, and bad input changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb import Branch, Database


def test_every_call_makes_one_snapshot(main: Branch) -> None:
    before = main.head
    made = main.upsert("orders", {"id": [1], "city": ["Rome"], "amount": [1.5], "quantity": [2]})
    assert main.head == made
    assert made.parents == (before.id,)
    assert made.edge.kind == "transaction"
    assert made.edge.operation == "upsert"
    assert main.table("orders").get(1) == {"id": 1, "city": "Rome", "amount": 1.5, "quantity": 2}


def test_insert_refuses_keys_that_are_there(main: Branch) -> None:
    head = main.head
    with pytest.raises(livingdb.DuplicateKey, match="7"):
        main.insert("orders", {"id": [99, 7]})
    with pytest.raises(livingdb.DuplicateKey, match="same key"):
        main.insert("orders", {"id": [50, 50]})
    assert main.head == head


def test_update_sets_some_columns_of_rows_that_are_there(main: Branch) -> None:
    main.update("orders", [{"id": 1, "city": "Rome"}, {"id": 2, "amount": None}])
    assert main.table("orders").get(1) == {"id": 1, "city": "Rome", "amount": 1.0, "quantity": 1}
    assert main.table("orders").get(2) == {"id": 2, "city": "Oslo", "amount": None, "quantity": 2}
    head = main.head
    with pytest.raises(livingdb.MissingKey, match="77"):
        main.update("orders", {"id": [1, 77], "city": ["X", "Y"]})
    assert main.head == head


def test_delete_ignores_absent_keys_unless_strict(main: Branch) -> None:
    main.delete("orders", [1, 77])
    assert main.table("orders").get(1) is None
    assert len(main.table("orders")) == 9
    head = main.head
    with pytest.raises(livingdb.MissingKey, match="77"):
        main.delete("orders", [2, 77], strict=True)
    assert main.head == head
    for keys in (pa.array([2]), {"id": [3]}, [{"id": 4}], 5, [(6,)], pa.table({"id": [7]})):
        main.delete("orders", keys, strict=True)
    assert main.table("orders").to_arrow()["id"].to_pylist() == [0, 8, 9]


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ({"id": ["x"]}, livingdb.InvalidData, "id"),
        ({"id": [None]}, livingdb.InvalidData, "id"),
        ({"city": ["x"]}, livingdb.InvalidData, "id"),
        ({"id": [1], "nope": [1]}, livingdb.InvalidData, "nope"),
        ({"id": [1], "amount": ["much"]}, livingdb.InvalidData, "amount"),
        ({"id": [1], "quantity": [2**40]}, livingdb.InvalidData, "quantity"),
        (17, livingdb.InvalidData, "int"),
    ],
)
def test_bad_rows_change_nothing(
    main: Branch, data: object, error: type[Exception], says: str
) -> None:
    head = main.head
    for write in (main.insert, main.upsert, main.update):
        with pytest.raises(error, match=says):
            write("orders", data)
    assert main.head == head


def test_nothing_to_write_makes_no_snapshot(main: Branch) -> None:
    head = main.head
    assert main.upsert("orders", []) == head
    assert main.delete("orders", []) == head
    with main.transaction() as tx:
        pass
    assert tx.snapshot == head


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"author": "bo\ud800"}, "half a character"),
        ({"message": "why\udfff"}, "half a character"),
        ({"author": 5}, "author is a text, not int"),
        ({"message": 5}, "message is a text, not int"),
    ],
)
def test_who_did_it_and_why_can_be_written_down(
    main: Branch, said: dict[str, Any], why: str
) -> None:
    head = main.head
    for act in (
        lambda: main.upsert("orders", {"id": [1], "city": ["Rome"]}, **said),
        lambda: main.clone("dev", **said),
        lambda: main.delete("orders", [1], **said),
    ):
        with pytest.raises(livingdb.InvalidData, match=why):
            act()
    assert main.head == head
    assert [branch.name for branch in main.database.branches()] == ["main"]


def test_unknown_tables_are_named_with_a_hint(main: Branch) -> None:
    with pytest.raises(livingdb.NotFound, match="orders"):
        main.table("order")
    with pytest.raises(livingdb.NotFound, match="orders"):
        main.upsert("ordres", [])
    with pytest.raises(livingdb.AlreadyExists):
        main.create_table("orders", {"id": "int"}, key="id")
    for name in ("", "a`b", "a/b", "a\nb", 3):
        with pytest.raises(livingdb.InvalidName):
            main.create_table(name, {"id": "int"}, key="id")  # type: ignore[arg-type]


def test_many_kinds_of_columns(db: Database) -> None:
    main = db.branch("main")
    schema = {
        "shop": "string",
        "day": "date",
        "price": "decimal(12,2)",
        "at": "timestamp",
        "tags": "array<string>",
        "where": "struct<x:double,y:double>",
        "extra": "map<string,int>",
        "raw": "binary",
        "open": "boolean",
    }
    main.create_table("t", schema, key=["shop", "day"], defaults={"open": True})
    row = {
        "shop": "Tromsø 🐟",
        "day": np.datetime64("2026-11-15").astype(object),
        "price": Decimal("12.30"),
        "tags": ["a", None],
        "where": {"x": 1.0, "y": None},
        "extra": {"k": 1},
        "raw": b"\0\1",
    }
    main.insert("t", [row])
    found = main.table("t").get(("Tromsø 🐟", row["day"]))
    assert found is not None
    assert found["open"] is True
    assert found["price"] == Decimal("12.30")
    assert found["tags"] == ["a", None]
    assert dict(found["extra"]) == {"k": 1}
    assert main.table("t").key == ("shop", "day")


def test_a_transaction_over_tables_is_one_snapshot(main: Branch) -> None:
    with main.transaction(message="both", author="bob") as tx:
        tx.create_table("items", {"order": "bigint", "line": "int"}, key=["order", "line"])
        tx.insert("items", {"order": [1, 1], "line": [1, 2]})
        tx.update("orders", {"id": [1], "quantity": [2]})
        tx.delete("orders", [9])
        assert tx.table("items").get((1, 2)) == {"order": 1, "line": 2}
        assert len(tx.table("orders")) == 9
        assert main.tables() == ["orders"]
    assert main.tables() == ["items", "orders"]
    assert tx.snapshot == main.head
    assert (main.head.message, main.head.author) == ("both", "bob")
    assert len(main.log()) == 4


def test_an_exception_leaves_nothing_behind(main: Branch) -> None:
    head = main.head
    with pytest.raises(RuntimeError), main.transaction() as tx:
        tx.upsert("orders", {"id": [1], "city": ["gone"]})
        raise RuntimeError
    assert main.head == head
    assert tx.snapshot is None
    with pytest.raises(livingdb.RuleViolation):
        tx.upsert("orders", {"id": [1]})


def test_later_changes_of_a_transaction_win(main: Branch) -> None:
    with main.transaction() as tx:
        tx.delete("orders", [1])
        tx.insert("orders", {"id": [1], "city": ["new"]})
        tx.update("orders", {"id": [1], "quantity": [5]})
        tx.upsert("orders", {"id": [2], "city": ["x"]})
        tx.delete("orders", [2])
        assert tx.table("orders").get(2) is None
        with pytest.raises(livingdb.DuplicateKey):
            tx.insert("orders", {"id": [1]})
    table = main.table("orders")
    assert table.get(1) == {"id": 1, "city": "new", "amount": None, "quantity": 5}
    assert table.get(2) is None


def test_transactions_that_touch_other_rows_both_commit(main: Branch) -> None:
    with main.transaction() as first, main.transaction() as second:
        first.update("orders", {"id": [1], "city": ["a"]})
        second.update("orders", {"id": [2], "city": ["b"]})
        second.delete("orders", [3])
    table = main.table("orders")
    assert [table.get(i) and table.get(i)["city"] for i in (1, 2, 3)] == ["a", "b", None]


def test_the_second_to_change_a_row_loses(main: Branch) -> None:
    slow = main.transaction()
    slow.update("orders", {"id": [1], "city": ["slow"]})
    main.update("orders", {"id": [1], "quantity": [1]})
    head = main.head
    with pytest.raises(livingdb.TransactionConflict, match="1"):
        slow.commit()
    assert main.head == head


def test_a_lost_update_is_a_conflict_even_if_the_values_agree(main: Branch) -> None:
    slow = main.transaction()
    slow.update("orders", {"id": [1], "quantity": [2]})
    main.update("orders", {"id": [1], "quantity": [2]})
    with pytest.raises(livingdb.TransactionConflict):
        slow.commit()


def test_serializable_transactions_conflict_on_what_they_read(main: Branch) -> None:
    def reads_5(tx: livingdb.Transaction) -> None:
        tx.table("orders").get(5)

    def counts(tx: livingdb.Transaction) -> None:
        len(tx.table("orders"))

    def scans(tx: livingdb.Transaction) -> None:
        tx.table("orders").to_arrow(["id"])

    for read in (reads_5, counts, scans):
        for isolation, wins in (("snapshot", True), ("serializable", False)):
            slow = main.transaction(isolation=isolation)
            read(slow)
            slow.upsert("orders", {"id": [1], "city": ["slow"]})
            main.upsert("orders", {"id": [5], "city": [isolation]})
            if wins:
                slow.commit()
            else:
                with pytest.raises(livingdb.TransactionConflict, match="read"):
                    slow.commit()
    quiet = main.transaction(isolation="serializable")
    reads_5(quiet)
    quiet.upsert("orders", {"id": [1]})
    main.upsert("orders", {"id": [6]})
    quiet.commit()
    with pytest.raises(livingdb.InvalidData, match="isolation"):
        main.transaction(isolation="chaos")


def test_foreign_keys_hold_at_commit(main: Branch) -> None:
    main.create_table(
        "items",
        {"id": "int", "order_id": "bigint", "part_of": "int"},
        key="id",
        foreign_keys={"order_id": "orders", "part_of": "items"},
    )
    main.insert("items", {"id": [1, 2], "order_id": [1, None], "part_of": [None, 1]})
    head = main.head
    with pytest.raises(livingdb.InvalidData, match="'orders' has no row with the key 77"):
        main.insert("items", {"id": [3], "order_id": [77]})
    with pytest.raises(livingdb.InvalidData, match="items"):
        main.delete("orders", [1])
    with pytest.raises(livingdb.InvalidData, match="part_of"):
        main.update("items", {"id": [2], "part_of": [9]})
    with pytest.raises(livingdb.InvalidData, match="refers"):
        main.delete("items", [1])
    assert main.head == head
    with main.transaction() as tx:
        tx.delete("items", [1, 2])
        tx.delete("orders", [1])
    with pytest.raises(livingdb.NotFound, match="nowhere"):
        main.create_table("x", {"id": "int"}, key="id", foreign_keys={"id": "nowhere"})
    with pytest.raises(livingdb.InvalidData, match="int64"):
        main.create_table("x", {"id": "int"}, key="id", foreign_keys={"id": "orders"})


def test_foreign_keys_hold_between_concurrent_transactions(main: Branch) -> None:
    main.create_table(
        "items", {"id": "int", "order_id": "bigint"}, key="id", foreign_keys={"order_id": "orders"}
    )
    slow = main.transaction()
    slow.insert("items", {"id": [1], "order_id": [4]})
    main.delete("orders", [4])
    with pytest.raises(livingdb.InvalidData, match="has no row"):
        slow.commit()


def test_large_transactions_go_through_packs(db: Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "double", "s": "string"}, key="id")
    rows = 300_000
    chance = np.random.default_rng(1)
    data = pa.table(
        {
            "id": np.arange(rows),
            "v": chance.random(rows),
            "s": chance.integers(0, 2**62, rows).astype(str),
        }
    )
    with main.transaction() as tx:
        tx.insert("t", data)
        assert tx.table("t").get(5) is not None
    assert main.table("t").to_arrow().equals(data.cast(main.table("t").schema))
    more = data.set_column(1, "v", pa.array(chance.random(rows)))
    main.upsert("t", more)
    assert len(main.table("t")) == rows
    assert main.table("t").to_arrow(["v"])["v"].combine_chunks().equals(more["v"].combine_chunks())
    assert (
        db.at("main~1")
        .table("t")
        .to_arrow(["v"])["v"]
        .combine_chunks()
        .equals(data["v"].combine_chunks())
    )
    assert db.check().ok
    with pytest.raises(RuntimeError), main.transaction() as tx:
        tx.upsert("t", data)
        raise RuntimeError
    assert db.check().ok


@pytest.mark.parametrize("fold", ["always", "never", "auto", 0.01])
def test_folding_is_invisible(db: Database, fold: str | float) -> None:
    main = db.branch("main")
    layout = livingdb.Layout(target_rows=16, fold=fold)
    main.create_table("t", {"id": "int", "v": "int"}, key="id", layout=layout)
    model: dict[int, int] = {}
    chance = np.random.default_rng(3)
    for step in range(30):
        ids = chance.choice(200, 20, replace=False).tolist()
        main.upsert("t", {"id": ids, "v": [step] * 20})
        model.update(dict.fromkeys(ids, step))
    assert (
        dict(
            main.table("t").to_arrow().to_pylist()
            and [(row["id"], row["v"]) for row in main.table("t").to_arrow().to_pylist()]
        )
        == model
    )
    assert len(main.table("t")) == len(model)
    root = main.table("t").root()
    other = db.at("main~30").clone("other")
    other.insert("t", {"id": list(model), "v": list(model.values())})
    assert other.table("t").root() == root


@pytest.mark.parametrize("keys", [["u", ["u", "k"]], [["u", "k"], "u"], [["u", "k"], ["u"]]])
def test_tables_that_store_the_same_leaf_have_keys_of_their_own(
    db: livingdb.Database, keys: list[str | list[str]]
) -> None:
    """A leaf is its rows, whatever their key; what one table read of it is not the other's."""
    main = db.branch("main")
    rows = [{"u": u, "k": k, "n": 1} for u, k in (("", ""), ("x  y", "x  y"), ("z", ""))]
    for name, key in zip("ab", keys, strict=True):
        main.create_table(name, {"u": "string", "k": "string", "n": "int"}, key=key)
        main.insert(name, rows)
    roots = {main.table(name).root() for name in "ab"}
    for name, key in zip("ab", keys, strict=True):
        table = main.table(name)
        for row in rows:
            assert table.get(row["u"] if key in ("u", ["u"]) else (row["u"], row["k"])) == row
        main.update(name, [{**row, "n": 2} for row in rows])
        assert main.table(name).to_arrow().column("n").to_pylist() == [2, 2, 2]
    assert len(roots) == 1


@pytest.mark.parametrize("wrap", [dict, pa.table], ids=["arrays", "table"])
def test_who_gave_rows_may_write_over_them(
    tmp_path: Path, wrap: Callable[[dict[str, Any]], Any]
) -> None:
    """One array that is filled again and again, as loops over data do."""
    with livingdb.create(tmp_path / "db") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "double"}, key="id")
        ids, values = np.arange(4), np.empty(4)
        for number in range(4):
            values[:] = number
            write = main.update if number == 3 else main.upsert
            write("t", wrap({"id": ids, "v": values}))
            values[:] = -1
            assert main.table("t").to_arrow().column("v").to_pylist() == [number] * 4
            with livingdb.open(db.name) as other:
                assert other.branch("main").table("t").get(2) == {"id": 2, "v": number}
        main.delete("t", wrap({"id": ids[:2]}))
        ids[:] = 3
        assert main.table("t").to_arrow().column("id").to_pylist() == [2, 3]
