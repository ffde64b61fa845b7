"""Every change through the whole database: both sides written, read, migrated and opened again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.thinned import thinned

import livingdb
from livingdb import evolution as ev

Write = Callable[[livingdb.Branch], object]
Tables = dict[str, list[dict[str, object]]]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb") as database:
        main = database.branch("main")
        schema = pa.schema(
            [
                pa.field("id", pa.int64(), False),
                pa.field("city", pa.string()),
                pa.field("zip", pa.string()),
                pa.field("amount", pa.float64(), False),
            ]
        )
        main.create_table("orders", schema, key="id")
        main.insert("orders", rows(1, 9))
        main.create_table("returns", schema, key="id")
        main.insert("returns", rows(101, 104))
        yield database


def rows(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    cities = ["Oslo", None, "Bodø", "Oslo", "Ærø 🐟"]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "city": [cities[n % 5] for n in numbers],
            "zip": [None if n % 5 == 1 else str(n % 5 % 3) for n in numbers],
            "amount": [n * 1.5 for n in numbers],
        }
    )


def seen(branch: livingdb.Branch) -> Tables:
    return {name: branch.table(name).to_arrow().to_pylist() for name in branch.tables()}


def old_write(branch: livingdb.Branch) -> None:
    with branch.transaction() as tx:
        tx.upsert("orders", rows(8, 12))
        tx.update("orders", {"id": [2], "city": ["Hamar"]})
        tx.delete("orders", [3])


CHANGES: dict[str, tuple[object, Write]] = {
    "add column": (
        ev.AddColumn("orders", "vat", "double", default=0.5),
        lambda b: b.update("orders", {"id": [1], "vat": [0.1], "amount": [8.0]}),
    ),
    "computed column": (
        ev.AddColumn("orders", "twice", "double", computed="amount * 2"),
        lambda b: b.insert("orders", {"id": [50], "amount": [7.0]}),
    ),
    "looked up": (
        ev.AddColumn(
            "orders", "twin", "string", up="(SELECT city FROM returns WHERE returns.id = orders.id)"
        ),
        lambda b: b.update("orders", {"id": [1], "twin": ["t"], "amount": [8.5]}),
    ),
    "normalize two tables": (
        [
            ev.Normalize("orders", ["city", "zip"], "places"),
            ev.Normalize("returns", ["zip", "city"], "places", on_update="fanout"),
        ],
        lambda b: b.delete("orders", [1, 2]),
    ),
    "not null with up": (
        ev.AddColumn("orders", "n", "int not null", up="length(coalesce(city, ''))"),
        lambda b: b.update("orders", {"id": [1], "n": [77], "amount": [8.5]}),
    ),
    "drop column": (
        ev.DropColumn("orders", "zip", default="?"),
        lambda b: b.upsert("orders", {"id": [1, 60], "city": ["x", "y"], "amount": [1.0, 2.0]}),
    ),
    "rename column": (
        ev.RenameColumn("orders", "id", "number"),
        lambda b: b.delete("orders", [1, 2]),
    ),
    "set default": (
        ev.SetDefault("orders", "zip", "0000"),
        lambda b: b.insert("orders", {"id": [51], "amount": [7.0]}),
    ),
    "unique": (
        ev.AddUnique("orders", ["id", "city"]),
        lambda b: b.insert("orders", {"id": [51], "city": ["Oslo"], "amount": [7.0]}),
    ),
    "unique, quarantine": (
        ev.AddUnique("orders", "city", on_violation="quarantine"),
        lambda b: b.update("orders", {"id": [1], "amount": [8.5]}),
    ),
    "reorder columns": (
        ev.ReorderColumns("orders", ["zip", "amount", "id", "city"]),
        lambda b: b.update("orders", {"id": [1], "zip": ["77"], "amount": [8.5]}),
    ),
    "retype": (
        ev.RetypeColumn("orders", "amount", "int", policy="clamp"),
        lambda b: b.update("orders", {"id": [1], "amount": [99]}),
    ),
    "retype, null": (
        ev.RetypeColumn("orders", "city", "varchar(4)", policy="null"),
        lambda b: b.update("orders", {"id": [1], "city": ["Ås"]}),
    ),
    "retype, truncated": (
        ev.RetypeColumn("orders", "amount", "int", policy="truncate"),
        lambda b: b.update("orders", {"id": [1], "amount": [99]}),
    ),
    "retype, quarantined": (
        ev.RetypeColumn("orders", "amount", "int", policy="quarantine"),
        lambda b: b.update("orders", {"id": [4], "amount": [99]}),
    ),
    "retype key": (
        ev.RetypeColumn("orders", "id", "string"),
        lambda b: b.update("orders", {"id": ["1"], "amount": [99.0]}),
    ),
    "up, quarantined": (
        ev.AddColumn("orders", "share", "double", up="12 / CAST(zip AS int)", policy="quarantine"),
        lambda b: b.update("orders", {"id": [1], "share": [0.5], "amount": [99.0]}),
    ),
    "split column": (
        ev.SplitColumn("orders", "city", into=["first", "rest"], separator=" "),
        lambda b: b.update("orders", {"id": [1], "first": ["Stor"], "rest": ["Elvdal"]}),
    ),
    "concat columns": (
        ev.ConcatColumns("orders", ["city", "zip"], into="place", separator="/"),
        lambda b: b.update("orders", {"id": [1], "place": ["Oslo/7"]}),
    ),
    "check, quarantined": (
        ev.AddConstraint("orders", check="amount < 12", on_violation="quarantine"),
        lambda b: b.update("orders", {"id": [1], "amount": [11.0]}),
    ),
    "mask": (
        ev.MaskColumn("orders", "city", key="secret"),
        lambda b: b.update("orders", {"id": [1], "amount": [11.0]}),
    ),
    "decompose": (
        ev.Decompose("orders", {"places": ["city", "zip"], "sums": ["amount"]}),
        lambda b: b.update("places", {"id": [1], "city": ["new"]}),
    ),
    "normalize": (
        ev.Normalize("orders", ["city", "zip"], "places"),
        lambda b: b.sql("UPDATE places SET city = 'Christiania' WHERE city = 'Oslo'"),
    ),
    "split table": (
        ev.SplitTable("orders", {"small": "amount < 6", "large": "amount >= 5"}),
        lambda b: b.sql("UPDATE small SET city = 'moved' WHERE id = 1"),
    ),
    "union": (
        ev.UnionTables(["orders", "returns"], "everything", default="orders"),
        lambda b: b.update("everything", {"id": [1, 101], "amount": [5.0, 6.0]}),
    ),
    "change key": (
        ev.ChangeKey("orders", ["amount"]),
        lambda b: b.update("orders", {"amount": [1.5], "city": ["by amount"]}),
    ),
    "rename table": (
        ev.RenameTable("orders", "sales"),
        lambda b: b.delete("sales", [1]),
    ),
}


@pytest.mark.parametrize("name", thinned(CHANGES, every=2))
def test_both_ways(db: livingdb.Database, name: str) -> None:
    change, new_write = CHANGES[name]
    main = db.branch("main")
    assert "both" in main.explain_evolution(change).legal
    before = seen(main)
    main.evolve(change, keep="old", sync="both")
    old = db.branch("old")
    assert seen(old) == before
    heads = [old.head]
    old_write(old)
    assert main.head.edge.kind == "propagate"
    heads.append(old.head)
    new_write(main)
    states = seen(old), seen(main)
    assert old.head != heads[-1]
    straight_back(old, main)
    assert (seen(old), seen(main)) == states
    assert db.check().problems == []
    main.migrate()
    old.migrate()
    db.compact()
    assert (seen(old), seen(main)) == states
    old.reset(heads[0])
    assert seen(old) == before
    old.reset(heads[1])
    with livingdb.open(db.name) as again:
        other = again.branch("old"), again.branch("main")
        other[0].sql("DELETE FROM orders WHERE id = 2")
        assert again.check().problems == []
        assert other[1].head.edge.kind == "propagate"


def straight_back(one: livingdb.Branch, other: livingdb.Branch) -> None:
    """Write what is there once more, on either side: the other does not move."""
    for branch, opposite in ((one, other), (other, one)):
        head = opposite.head
        for name in set(branch.tables()) - {"returns"}:
            table = branch.table(name)
            fixed = {column.name for column in table.rows.schema.columns if column.is_fixed}
            data = table.to_arrow()
            branch.update(name, data.select([n for n in data.column_names if n not in fixed]))
        assert opposite.head == head


@pytest.mark.parametrize("name", thinned(CHANGES))
def test_alone(db: livingdb.Database, name: str) -> None:
    """Without a sync: the new schema takes the place of the old one."""
    change, new_write = CHANGES[name]
    main = db.branch("main")
    main.evolve(change)
    first = seen(main)
    new_write(main)
    assert seen(main) != first
    assert seen(db.branch("main")) == {n: main.table(n).to_arrow().to_pylist() for n in seen(main)}
    main.migrate()
    assert db.check().problems == []
