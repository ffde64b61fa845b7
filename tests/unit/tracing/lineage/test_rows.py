"""The rows behind a row of a derived object."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

import livingdb
from livingdb.errors import InvalidData, NotFound
from livingdb.evolution import (
    AddColumn,
    ChangeKey,
    Decompose,
    DropColumn,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    SplitTable,
    UnionTables,
)

TOTALS = "SELECT city, sum(amount) AS total FROM orders WHERE amount > 5 GROUP BY city"
NAMED = "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id"


def ids(rows: pa.Table, column: str = "id") -> list[object]:
    return sorted(rows.column(column).to_pylist())


@pytest.fixture
def totals(db: livingdb.Database, main: livingdb.Branch) -> livingdb.Branch:
    return main.derive("totals", TOTALS, when="immediate")


def test_a_group(db: livingdb.Database, main: livingdb.Branch, totals: livingdb.Branch) -> None:
    found = db.lineage("totals", key=("Oslo",))
    assert list(found) == ["orders"]
    assert found["orders"].column_names == [*main.table("orders").schema.names, "_snapshot"]
    assert ids(found["orders"]) == [3, 6]
    assert set(found["orders"].column("_snapshot").to_pylist()) == {main.head.id}
    assert found.snapshots == {"orders": main.head.id} == {"orders": totals.head.sources["main"]}
    assert found.branches == {"orders": "main"}
    assert found.whole == ()
    assert found.view == "totals"
    assert found.snapshot == totals.head.id
    schema = main.table("orders").schema
    assert found["orders"].drop_columns(["_snapshot"]).schema.equals(schema)


def test_a_group_of_nulls_and_all_rows(
    db: livingdb.Database, main: livingdb.Branch, totals: livingdb.Branch
) -> None:
    assert ids(db.lineage("totals", (None,))["orders"]) == [2, 5, 8]
    assert ids(db.lineage("totals")["orders"]) == list(range(1, 9))


def test_there_is_no_such_row(
    db: livingdb.Database, main: livingdb.Branch, totals: livingdb.Branch
) -> None:
    with pytest.raises(NotFound, match="'totals' has no row with city='Paris'"):
        db.lineage("totals", "Paris")
    with pytest.raises(InvalidData, match=r"its key is \(city\)"):
        db.lineage("totals", ("Oslo", 1))
    with pytest.raises(InvalidData, match="no column 'town'"):
        db.lineage("totals", {"town": "Oslo"})
    with pytest.raises(NotFound, match="'main' is not a derived object; there are: totals"):
        db.lineage("main", 1)
    with pytest.raises(NotFound, match="nothing"):
        db.lineage("nothing", 1)


def test_who_wrote_the_rows(
    db: livingdb.Database, main: livingdb.Branch, totals: livingdb.Branch
) -> None:
    update = main.update("orders", [{"id": 3, "amount": 31}], message="one more", author="bob")
    commits = db.lineage("totals", "Oslo").commits["orders"]
    assert commits.column_names == ["id", "snapshot", "author", "time", "message"]
    assert commits.select(["id", "author", "message"]).to_pylist() == [
        {"id": 3, "author": "bob", "message": "one more"},
        {"id": 6, "author": "ann", "message": "nine orders"},
    ]
    assert commits.column("snapshot")[0].as_py() == update.id


def test_as_it_was(db: livingdb.Database, main: livingdb.Branch, totals: livingdb.Branch) -> None:
    before = main.head
    db.tag("then", "totals")
    main.update("orders", [{"id": 3, "amount": 31}])
    main.delete("orders", [6])
    assert db.lineage("totals", "Oslo")["orders"].column("amount").to_pylist() == [31]
    for found in (
        db.lineage("totals~2", "Oslo"),
        db.lineage("then", "Oslo"),
        db.lineage(db.at("then").id, "Oslo"),
        db.lineage("totals", "Oslo", at="then"),
        db.lineage("totals", "Oslo", at=before),
        db.lineage("totals", "Oslo", at="main~2"),
    ):
        assert found["orders"].column("amount").to_pylist() == [30, 60]
        assert found.snapshots == {"orders": before.id}


def test_a_view_that_lags_is_made_of_old_rows(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("late", TOTALS, when="on demand")
    main.update("orders", [{"id": 3, "amount": 31}])
    assert db.lineage("late", "Oslo")["orders"].column("amount").to_pylist() == [30, 60]
    db.refresh("late")
    assert db.lineage("late", "Oslo")["orders"].column("amount").to_pylist() == [31, 60]


def test_views_on_views(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("named", NAMED, when="immediate")
    main.derive("top", "SELECT name, count(*) AS n FROM named GROUP BY name", when="immediate")
    found = db.lineage("top", "name 1")
    assert {name: ids(rows) for name, rows in found.items()} == {
        "customers": [1],
        "orders": [1, 4, 7],
    }
    step = db.lineage("top", "name 1", base=False)
    assert {name: ids(rows) for name, rows in step.items()} == {"named": [1, 4, 7]}
    assert step.snapshots == {"named": db.branch("named").head.id}
    assert step.commits["named"].num_rows == 3
    assert step.to_base() == found


def test_rows_of_a_view_without_a_key(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.upsert("orders", [{"id": 20, "customer": 0, "city": "Oslo", "amount": 60}])
    main.derive("bag", "SELECT city, amount FROM orders WHERE amount > 20", when="immediate")
    assert db.branch("bag").table("bag").key == ()
    assert ids(db.lineage("bag", {"city": "Oslo", "amount": 60})["orders"]) == [6, 20]
    assert ids(db.lineage("bag", {"city": "Oslo"})["orders"]) == [3, 6, 20]
    assert ids(db.lineage("bag", ("Oslo", 30))["orders"]) == [3]
    with pytest.raises(InvalidData, match="it has no key; its columns are"):
        db.lineage("bag", 7)
    main.derive("over", "SELECT amount, count(*) AS n FROM bag GROUP BY amount", when="immediate")
    step = db.lineage("over", 60, base=False)
    assert step["bag"].num_rows == 2
    assert step.commits == {}
    assert ids(db.lineage("over", 60)["orders"]) == [6, 20]


def test_tables_of_one_name_on_two_branches(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    dev.update("orders", [{"id": 1, "amount": 5}])
    main.derive(
        "both",
        "SELECT a.id, a.amount AS one, b.amount AS other FROM orders a JOIN dev.orders b "
        "ON a.id = b.id",
        when="immediate",
    )
    found = db.lineage("both", 1)
    assert list(found) == ["dev.orders", "main.orders"]
    assert found["dev.orders"].column("amount").to_pylist() == [5]
    assert found["main.orders"].column("amount").to_pylist() == [10]
    assert found.branches == {"dev.orders": "dev", "main.orders": "main"}
    assert found.snapshots == {"dev.orders": dev.head.id, "main.orders": main.head.id}


def test_a_table_in_a_snapshot_for_good(db: livingdb.Database, main: livingdb.Branch) -> None:
    then = main.head
    main.update("orders", [{"id": 3, "amount": 1000}])
    main.derive(
        "then", f"SELECT city, sum(amount) AS s FROM orders VERSION AS OF '{then.id}' GROUP BY city"
    )
    found = db.lineage("then", "Oslo")
    assert found["orders"].column("amount").to_pylist() == [0, 30, 60]
    assert found.snapshots == {"orders": then.id}


def test_keys_of_every_kind(db: livingdb.Database, main: livingdb.Branch) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    schema = pa.schema(
        [
            pa.field("town", pa.string(), False),
            pa.field("day", pa.date32(), False),
            pa.field("at", pa.timestamp("us", "UTC"), False),
            ("price", pa.decimal128(8, 2)),
            ("rate", pa.float64()),
        ]
    )
    main.create_table("log", schema, key=["town", "day", "at"])
    rows = [
        {
            "town": town,
            "day": datetime.date(2024, 1, day),
            "at": datetime.datetime(2024, 1, day, 1, tzinfo=zone),
            "price": decimal.Decimal(day) / 4,
            "rate": day / 3,
        }
        for town in ("Tromsø", "O'Hare", "a\\b\n", "")
        for day in (1, 2)
    ]
    main.insert("log", rows)
    main.derive("copied", "SELECT town, day, at, price FROM log", when="immediate")
    for row in rows:
        found = db.lineage("copied", (row["town"], row["day"], row["at"]))
        assert found["log"].select(schema.names).to_pylist() == [
            {**row, "at": row["at"].astimezone(datetime.UTC)}
        ]
    main.derive("prices", "SELECT price, count(*) AS n FROM log GROUP BY price", when="immediate")
    assert db.lineage("prices", decimal.Decimal("0.5"))["log"].num_rows == 4
    main.derive("rates", "SELECT rate, at, count(*) AS n FROM log GROUP BY rate, at")
    assert db.lineage("rates", {"rate": 2 / 3})["log"].num_rows == 4
    assert db.lineage("rates", (1 / 3, rows[0]["at"]))["log"].num_rows == 4


def test_nothing_is_behind_a_sum_of_nothing(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("none", "SELECT count(*) AS n FROM orders WHERE amount > 1000", when="immediate")
    assert db.lineage("none", {"n": 0})["orders"].num_rows == 0
    main.delete("orders", list(range(9)))
    main.derive("empty", TOTALS, when="immediate")
    assert db.lineage("empty")["orders"].num_rows == 0
    with pytest.raises(NotFound):
        db.lineage("empty", "Oslo")


def test_names_in_another_case(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.create_table("Parts", {"Id": "bigint", "Kind": "string"}, key="Id")
    main.insert("Parts", [{"Id": 1, "Kind": "a"}, {"Id": 2, "Kind": "b"}, {"Id": 3, "Kind": "a"}])
    main.derive("kinds", "SELECT KIND, COUNT(*) AS N FROM PARTS p GROUP BY P.kind", when="deferred")
    assert ids(db.lineage("kinds", "a")["Parts"], "Id") == [1, 3]
    assert db.column_lineage("kinds")["KIND"] == ["Parts.Kind"]


@pytest.mark.parametrize("materialize", ["none", "lazy", "where city = 'Rome'"])
def test_views_that_are_not_stored(
    db: livingdb.Database, main: livingdb.Branch, materialize: str
) -> None:
    main.derive("unseen", TOTALS, materialize=materialize)
    assert ids(db.lineage("unseen", "Oslo")["orders"]) == [3, 6]


def test_what_a_function_made_is_made_of_everything(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("count", model="tests.unit.tracing.lineage.functions:train", tables=["orders"])
    found = db.lineage("count")
    assert found["orders"].num_rows == 9
    assert found.whole == ("orders",)
    assert "9 rows, as a whole" in str(found)


def test_as_text(db: livingdb.Database, main: livingdb.Branch, totals: livingdb.Branch) -> None:
    found = db.lineage("totals", "Oslo")
    head = main.head.id[:12]
    assert repr(found) == found.to_text()
    assert found.to_text().splitlines() == [
        f"totals 'Oslo' at {totals.head.id[:12]}",
        f"  orders (main at {head}): 2 rows",
        "    id=3, customer=0, city='Oslo', amount=30, note=None",
        "    id=6, customer=0, city='Oslo', amount=60, note=None",
    ]
    main.insert(
        "orders", [{"id": i, "customer": 0, "city": "Bern", "amount": 9} for i in range(20, 40)]
    )
    assert "    … and 10 more" in db.lineage("totals", "Bern").to_text()


# --- through schema changes -----------------------------------------------------------------


def test_a_view_that_can_be_written(db: livingdb.Database, main: livingdb.Branch) -> None:
    query = "SELECT id, amount AS price, city AS town FROM orders WHERE amount > 50"
    view = main.derive("prices", query, sync="both")
    found = db.lineage("prices", 6)
    assert found["orders"].select(["id", "city"]).to_pylist() == [{"id": 6, "city": "Oslo"}]
    view.insert("prices", [{"id": 50, "price": 99, "town": "Bern"}])
    assert ids(db.lineage("prices", 50)["orders"]) == [50]
    with pytest.raises(NotFound):
        db.lineage("prices", 1)


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_masked_clones(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    changes = [MaskColumn("customers", "name"), RenameTable("customers", "people")]
    main.clone("masked", transform=changes, sync="forward", when=when)
    behind = db.lineage("masked.people", 1)
    assert ids(behind["customers"]) == [1]
    assert "name" not in behind["customers"].column_names
    assert "name 1" not in behind.to_text()
    assert ids(db.lineage("masked.orders", 4)["orders"]) == [4]
    with pytest.raises(InvalidData, match=r"masked\.orders, masked\.people"):
        db.lineage("masked", 1)
    masked = db.branch("masked")
    masked.derive("loud", "SELECT id, upper(name) AS name FROM people", when="deferred")
    found = db.lineage("loud", 1)
    assert (list(found), ids(found["customers"])) == (["customers"], [1])
    assert list(db.lineage("loud", 1, base=False)) == ["people"]


APART = {"one": ["customer", "city"], "two": ["amount", "note"]}
SPLIT = {"small": "amount < 50", "large": "amount > 20"}


@pytest.mark.parametrize(
    ("change", "table", "key", "orders"),
    [
        (RenameColumn("orders", "id", "number"), "orders", 3, [3]),
        (AddColumn("orders", "vat", "double", default=0.5), "orders", 3, [3]),
        (Decompose("orders", APART), "two", 3, [3]),
        (SplitTable("orders", SPLIT), "small", 3, [3]),
        (Normalize("orders", ["city"], "cities"), "orders", 3, [3]),
        (Normalize("orders", ["city"], "cities"), "cities", {"city": "Oslo"}, [0, 3, 6]),
        (ChangeKey("orders", ["amount"]), "orders", 20, [2]),
    ],
)
def test_schema_changes(
    db: livingdb.Database,
    main: livingdb.Branch,
    change: object,
    table: str,
    key: object,
    orders: list[int],
) -> None:
    main.evolve(change, to="next", sync="forward")
    found = db.lineage(f"next.{table}", key)
    assert {name: ids(rows) for name, rows in found.items()} == {"orders": orders}
    assert set(found.branches.values()) == {"main"}


def test_tables_that_were_joined(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.update("orders", [{"id": 5, "customer": None}])
    main.evolve(JoinTables("orders", "customers", "wide", "customer"), to="next", sync="forward")
    found = db.lineage("next.wide", 4)
    assert {n: ids(r) for n, r in found.items()} == {"customers": [1], "orders": [4]}
    assert list(db.lineage("next.wide", 5)) == ["orders"]


@pytest.mark.parametrize("origin", [None, "origin"])
def test_a_union_of_tables(
    db: livingdb.Database, main: livingdb.Branch, origin: str | None
) -> None:
    for name, first in (("north", 0), ("south", 10)):
        main.create_table(name, {"id": "bigint", "x": "string"}, key="id")
        main.insert(name, [{"id": first, "x": "a"}, {"id": first + 1, "x": "b"}])
    main.evolve(UnionTables(["north", "south"], "all", origin), to="next", sync="forward")
    found = db.lineage("next.all", {"id": 11})
    assert {n: ids(r) for n, r in found.items()} == {"south": [11]}


def test_an_older_snapshot_of_a_schema_change(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(RenameColumn("orders", "amount", "price"), to="next", sync="forward")
    before = main.head
    main.update("orders", [{"id": 3, "amount": 31}])
    assert db.lineage("next.orders", 3)["orders"].column("amount").to_pylist() == [31]
    found = db.lineage("next~1.orders", 3)
    assert found["orders"].column("amount").to_pylist() == [30]
    assert found.snapshots == {"orders": before.id}


def test_versions_from_before_a_rename(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.evolve(RenameColumn("orders", "amount", "price"))
    main.evolve(RenameTable("orders", "sales"))
    main.update("sales", [{"id": 3, "price": 31}])
    assert db.sync("totals").state == "active"
    now = db.lineage("totals", "Oslo")
    assert sorted(now["sales"].column("price").to_pylist()) == [31, 60]
    for back in (1, 2, 3):
        found = db.lineage(f"totals~{back}", "Oslo")
        assert found.whole == ()
        assert found["sales"].column("price").to_pylist() == [30, 60]
        assert found.snapshots["sales"] == db.at(f"totals~{back}").sources["main"]
    first = db.lineage("totals~3", "Oslo")
    assert first.commits == {}


def test_columns_that_came_later(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.evolve(AddColumn("orders", "vat", "double", default=0.5))
    main.update("orders", [{"id": 3, "amount": 31}])
    assert ids(db.lineage("totals~1", "Oslo")["orders"]) == [3, 6]
    assert ids(db.lineage("totals", "Oslo")["orders"]) == [3, 6]


def test_a_view_that_stopped_when_a_column_went(
    db: livingdb.Database, main: livingdb.Branch, totals: livingdb.Branch
) -> None:
    """It was made of rows as they were, and so are those behind it."""
    before = db.lineage("totals", key=("Oslo",))
    main.evolve(RenameColumn("orders", "amount", "sum"))
    main.evolve(DropColumn("orders", "city"))
    assert db.sync("totals").state == "detached"
    found = db.lineage("totals", key=("Oslo",))
    assert found.whole == ()
    assert ids(found["orders"]) == ids(before["orders"]) == [3, 6]
    assert set(found["orders"].column("city").to_pylist()) == {"Oslo"}
