"""A shop as a frozen database has it: tables of every type, branches, merges, tags."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

import livingdb
from livingdb import Branch, Database, Layout

__all__ = [
    "EVENTS",
    "make_branches",
    "make_events",
    "make_long_line",
    "make_names",
    "make_tables",
    "order_rows",
]

EVENTS = 20_000
_CITIES = ("Oslo", "Bodø", "Tromsø", None, "東京", "Ærø 🐟", "")
_FIRST_DAY = date(2024, 2, 27)
_FIRST_MOMENT = datetime(2024, 3, 31, 0, 30, tzinfo=UTC)  # clocks go forward in Oslo


def order_rows(numbers: range) -> pa.Table:
    """Orders that follow from their numbers alone."""
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "customer": pa.array([None if n % 11 == 0 else n % 7 for n in numbers], pa.int64()),
            "city": pa.array([_CITIES[n % 7] for n in numbers]),
            "amount": pa.array(
                [None if n % 13 == 5 else Decimal(n * 375) / 100 for n in numbers],
                pa.decimal128(10, 2),
            ),
            "paid": pa.array([None if n % 10 == 9 else n % 3 == 0 for n in numbers]),
            "placed": pa.array(
                [_FIRST_MOMENT + timedelta(minutes=15 * n) for n in numbers],
                pa.timestamp("us", "Europe/Oslo"),
            ),
            "day": pa.array([_FIRST_DAY + timedelta(days=n) for n in numbers], pa.date32()),
            "note": pa.array([None if n % 4 else f"note {n}" for n in numbers]),
        }
    )


def make_tables(main: Branch) -> None:
    """Every table of the shop, and its first rows."""
    main.create_table(
        "customers",
        {"id": "bigint", "name": "string not null", "email": "string", "city": "string"},
        key="id",
        defaults={"city": "Oslo"},
    )
    names = ["Kari", "Ola", "Zoë", "名前", "Per 'P' Å", "שלום", 'quote " and \\ and\ttab']
    main.insert(
        "customers",
        [{"id": n, "name": name, "email": f"c{n}@example.org"} for n, name in enumerate(names)],
        message="the first customers",
    )
    main.create_table(
        "orders",
        {
            "id": "bigint",
            "customer": "bigint",
            "city": "string",
            "amount": "decimal(10,2)",
            "paid": "boolean",
            "placed": "timestamp[Europe/Oslo]",
            "day": "date",
            "note": "string",
        },
        key="id",
        defaults={"paid": False},
        foreign_keys={"customer": "customers"},
    )
    main.insert("orders", order_rows(range(1, 41)), message="the first orders")
    main.create_table(
        "lines",
        {"order": "bigint", "line": "smallint", "item": "string", "quantity": "int not null"},
        key=["order", "line"],
        foreign_keys={"order": "orders"},
    )
    main.insert(
        "lines",
        [
            {"order": order, "line": line, "item": f"item {(order + line) % 5}", "quantity": line}
            for order in range(1, 21)
            for line in range(1, 1 + order % 4)
        ],
        message="what was ordered",
    )
    _make_every_type(main)
    _make_layouts(main)


def _make_every_type(main: Branch) -> None:
    """A table with a column of every type, and one with a key of many."""
    main.create_table(
        "every_type",
        {
            "name": "string",
            "day": "date",
            "flag": "boolean",
            "tiny": "tinyint",
            "small": "smallint",
            "medium": "int",
            "large": "bigint",
            "single": "float",
            "double": "double",
            "money": "decimal(38,10)",
            "utc": "timestamp",
            "tokyo": "timestamp[Asia/Tokyo]",
            "local": "timestamp_ntz",
            "raw": "binary",
            "fixed": pa.binary(4),
            "words": "array<string>",
            "place": "struct<street:string,at:struct<x:double,y:double>>",
            "prices": "map<string,decimal(10,2)>",
            "deep": "array<struct<tag:string,days:array<date>,more:map<int,array<string>>>>",
        },
        key=["name", "day"],
        defaults={"small": 7, "words": ["a", "b"]},
    )
    moment = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    full = {
        "name": "full",
        "day": date(1, 1, 1),
        "flag": True,
        "tiny": -128,
        "small": 32767,
        "medium": -(2**31),
        "large": 2**63 - 1,
        "single": 1.5,
        "double": 0.1,
        "money": Decimal("-1234567890123456789012345678.0123456789"),
        "utc": moment,
        "tokyo": moment,
        "local": moment.replace(tzinfo=None),
        "raw": b"\x00\xff\x00",
        "fixed": b"\x00\x01\x02\x03",
        "words": ["", None, "ø", "🐟"],
        "place": {"street": "Storgata", "at": {"x": 1.0, "y": None}},
        "prices": [("b", Decimal("2.50")), ("a", None)],
        "deep": [
            {"tag": "t", "days": [date(2024, 2, 29), None], "more": [(2, ["x"]), (1, None)]},
            None,
            {"tag": None, "days": [], "more": []},
        ],
    }
    empty = {"name": "", "day": date(9999, 12, 31), "words": [], "place": {}, "prices": []}
    odd = {
        "name": "a\x00b",
        "day": date(2000, 1, 1),
        "single": float("nan"),
        "double": float("-inf"),
        "raw": b"",
        "place": {"street": None, "at": None},
        "deep": [],
    }
    nulls = {"name": "nulls", "day": date(2000, 1, 1), "small": None, "words": None}
    main.insert("every_type", [full, empty, odd, nulls], message="values of every type")
    main.update(
        "every_type",
        [{"name": "nulls", "day": date(2000, 1, 1), "double": -0.0, "words": ["now"]}],
        message="a patch of some columns",
    )
    main.create_table(
        "keyed",
        {
            "price": "decimal(12,3)",
            "open": "boolean",
            "at": "timestamp",
            "code": "binary",
            "ratio": "double",
            "value": "int",
        },
        key=["price", "open", "at", "code", "ratio"],
    )
    main.insert(
        "keyed",
        [
            {
                "price": Decimal(n - 5) / 8,
                "open": n % 2 == 0,
                "at": moment + timedelta(seconds=n * 1000),
                "code": bytes([n % 3, 0, 255]),
                "ratio": (n - 4) / 3,
                "value": n,
            }
            for n in range(12)
        ],
        message="a key of five columns",
    )


def _make_layouts(main: Branch) -> None:
    """Tables that are kept in every way there is."""
    columns = {"id": "int", "a": "string", "b": "double", "c": "bigint"}
    layouts = {
        "grouped": Layout(target_rows=16, groups=[["a"], ["b"]], fold="always"),
        "filled": Layout(splitter="capacity", target_rows=16, fold=0.1),
        "trailing": Layout(target_rows=16, fold="never"),
    }
    for name, layout in layouts.items():
        main.create_table(name, columns, key="id", layout=layout)
        for first in (0, 300, 150):
            rows = [
                {"id": n, "a": f"{name} {n % 9}", "b": n / 4, "c": None if n % 5 else n + first}
                for n in range(first, first + 300)
            ]
            main.upsert(name, rows, message=f"{name} from {first}")
        main.delete(name, list(range(0, 600, 7)), message=f"every seventh of {name} goes")


def make_events(main: Branch) -> None:
    """A table whose tree has several levels, with tails, folds and a pending schema change."""
    main.create_table(
        "events",
        {"id": "bigint", "kind": "string", "size": "int", "cost": "decimal(12,4)"},
        key="id",
        layout=Layout(target_rows=128, fold=0.02),
    )
    numbers = range(EVENTS)
    main.insert(
        "events",
        pa.table(
            {
                "id": pa.array([n * 3 for n in numbers], pa.int64()),
                "kind": [f"kind {n % 23}" for n in numbers],
                "size": pa.array([None if n % 17 == 0 else n % 101 for n in numbers], pa.int32()),
                "cost": pa.array([Decimal(n % 977) / 16 for n in numbers], pa.decimal128(12, 4)),
            }
        ),
        message="twenty thousand events",
    )
    for turn in range(5):
        keys = [n * 3 for n in range(turn, EVENTS, 90 + turn)]
        main.update(
            "events", {"id": keys, "size": [turn] * len(keys)}, message=f"correction {turn}"
        )
    main.insert("events", [{"id": n * 3 + 1, "kind": "between"} for n in range(0, EVENTS, 997)])
    main.delete("events", list(range(30_000, 30_300, 3)), message="a stretch goes")


def make_branches(db: Database) -> None:
    """Clones, merges with and without conflicts, reverts, cherry-picks, resets, tags."""
    main = db.branch("main")
    db.tag("first", "main")
    dev = main.clone("dev")
    dev.sql("UPDATE orders SET amount = amount * 2 WHERE city = 'Oslo'", author="bob")
    dev.delete("lines", [(20, 1)], author="bob", message="nothing of it")
    main.insert("orders", order_rows(range(41, 46)), message="meanwhile")
    db.merge("dev", into="main", message="what bob did")
    dev.update("orders", {"id": [2], "note": ["theirs"]}, author="bob")
    main.update("orders", {"id": [2], "note": ["ours"]}, message="the same row")
    try:
        db.merge("dev", into="main")
    except livingdb.MergeConflict:
        db.merge("dev", into="main", on_conflict="ours", message="ours wins")
    dev.update("orders", {"id": [3], "note": ["a cell"]}, author="bob")
    main.update("orders", {"id": [3], "city": ["Moss"]}, message="another cell")
    db.merge("dev", into="main", granularity="cell", message="cell by cell")
    ahead = main.clone("ahead")
    ahead.insert("customers", [{"id": 7, "name": "Ny"}], message="ahead of main")
    db.merge("ahead", into="main")
    db.drop_branch("ahead")
    main.sql("UPDATE orders SET city = 'nowhere' WHERE id < 5", author="bob", message="a mistake")
    main.revert("main", message="that was wrong")
    picked = dev.insert("orders", order_rows(range(60, 62)), author="bob", message="two of many")
    main.cherry_pick(picked, message="these two only")
    db.tag("før", "dev")
    dev.insert("orders", order_rows(range(70, 75)), message="to be left")
    dev.reset("dev~2")
    dev.insert("orders", order_rows(range(80, 82)), message="another way")
    then = db.at("main~4").clone("then")
    then.delete("orders", [31, 32, 33], message="from the past")
    db.merge("then", into="dev", message="past and present")
    scratch = main.clone("scratch/ann")
    scratch.sql("DELETE FROM lines", message="all of it")
    db.drop_branch("scratch/ann")
    with main.transaction("two tables at once", author="ann") as tx:
        tx.insert("customers", [{"id": 8, "name": "Åse", "city": None}])
        tx.insert("orders", order_rows(range(46, 47)))
        tx.delete("lines", [(19, 1)])
    with main.transaction("a batch of a stream", author="stream") as tx:
        tx.mark("orders from the web", 3)
        tx.upsert("orders", order_rows(range(47, 50)))


def make_long_line(db: Database) -> None:
    """A branch with many small commits to one table, which have runs."""
    ticking = db.branch("main").clone("ticking")
    for number in range(70):
        ticking.upsert("customers", {"id": [50 + number % 9], "name": [f"tick {number}"]})


def make_names(db: Database) -> None:
    """Other names for branches, with history from before and from after."""
    for old, new in (("dev", "develop"), ("main_v2", "main_v2/renamed"), ("masked_now", "masked")):
        db.rename_branch(old, new)
    db.rename_branch("masked", "masked_now")
    db.branch("develop").insert("orders", order_rows(range(90, 92)), message="under another name")
    last = "INSERT INTO orders (id, customer, city, amount) VALUES (650, 1, 'Oslo', 3.25)"
    db.branch("main_v1").sql(last, message="through a renamed branch")
    db.branch("main").clone("dev").delete("orders", [650], message="a new one of an old name")
