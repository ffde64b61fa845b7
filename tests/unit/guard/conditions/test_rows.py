"""Conditions about rows, each on both sides of its threshold."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal

import pytest
from tests.unit.guard.conditions.conftest import order
from tests.unit.guard.conditions.crossings import crossing

import livingdb
from livingdb import condition as c
from livingdb.condition import Condition
from livingdb.errors import InvalidData

Edit = Callable[[livingdb.Branch], object]


def insert(**values: object) -> Edit:
    """Insert one order."""
    return lambda branch: branch.insert("orders", [order(20, **values)])


def update(number: int, **values: object) -> Edit:
    """Update an order."""
    return lambda branch: branch.update("orders", [{"id": number, **values}])


def delete(table: str, *keys: object) -> Edit:
    """Delete rows."""
    return lambda branch: branch.delete(table, list(keys))


CASES: list[tuple[Condition, Edit, Edit | None]] = [
    (c.not_null("city"), insert(), insert(city=None)),
    (c.not_null("city", "note"), insert(note="x"), insert()),
    (c.unique("note"), insert(note="only"), lambda b: _twice(b, note="twice")),
    (c.unique("amount"), insert(), insert(amount=30)),
    (c.unique("city", "amount"), insert(amount=30), insert(amount=20)),
    (c.unique("weight"), insert(), insert(weight=0.25)),
    (c.accepted_values("city", ["Oslo", "Rome"]), insert(city=None), insert(city="Bergen")),
    (c.accepted_values("city", ["Oslo", "Rome", "Ås"]), insert(city="Ås"), insert(city="As")),
    (c.accepted_values("amount", [200, 2.5, 10**30]), insert(), insert(amount=3)),
    (c.accepted_values("price", [Decimal("20.50")]), insert(), insert(price="20.51")),
    (c.accepted_values("day", ["2026-11-21"]), insert(), insert(day="2026-11-22")),
    (c.in_range("amount", 0, 200), insert(), insert(amount=201)),
    (c.in_range("amount", 0), insert(amount=0), insert(amount=-1)),
    (c.in_range("amount", 0.5), insert(amount=1), insert(amount=0)),
    (c.in_range("amount", at_most=0.5), insert(amount=0), insert(amount=1)),
    (c.in_range("amount", -(10**30), 10**30), insert(), None),
    (c.in_range("amount", at_most=-(10**30)), insert(amount=None), insert()),
    (c.in_range("amount", at_least=10**30), insert(amount=None), insert()),
    (c.in_range("price", Decimal("20.50"), 20.5), insert(), insert(price="20.49")),
    (c.in_range("price", "20.495"), insert(), insert(price="20.49")),
    (c.in_range("price", at_most="20.495"), insert(price="20.49"), insert()),
    (c.in_range("weight", 0.0), insert(weight=None), insert(weight=float("nan"))),
    (c.in_range("weight", at_most=5), insert(), insert(weight=5.0000001)),
    (
        c.in_range("day", datetime.date(2026, 11, 1), "2026-11-30"),
        insert(),
        insert(day="2026-12-01"),
    ),
    (c.in_range("city", "A", "Z"), insert(), insert(city="a")),
    (c.matches("city", "[A-Z][a-z]+"), insert(), insert(city="Oslo\n")),
    (c.matches("city", "Oslo|Rome"), insert(), insert(city="Oslo Rome")),
    (c.matches("note", r"\p{L}*"), insert(note="ÅØ"), insert(note="1")),
    (c.length("city", 3, 4), insert(city="Åsø"), insert(city="ab")),
    (c.length("city", at_most=4), insert(city="🙂🙂🙂🙂"), insert(city="Paris")),
    (c.no_orphans("customer", "customers.id"), insert(customer=None), insert(customer=9)),
    (c.no_orphans("customer", "customers"), update(1, customer=0), update(1, customer=-1)),
    (c.no_orphans("customer", "main.customers"), insert(), delete("customers", 1)),
    (c.no_orphans("customer", "main.customers.id"), insert(), delete("customers", 1)),
    (
        c.no_orphans(["customer", "city"], "orders", to=["customer", "city"]),
        insert(),
        None,
    ),
    (c.sql("SELECT * FROM orders WHERE amount < 0"), insert(), insert(amount=-1)),
    (
        c.sql("SELECT o.id FROM orders_change o JOIN customers c ON o.customer = c.id"),
        insert(customer=77),
        insert(),
    ),
    (
        c.sql("SELECT 1 AS x FROM Orders_Before b, orders HAVING count(*) = 0"),
        insert(),
        lambda b: b.delete("orders", list(range(10))),
    ),
    (
        c.sql(
            "WITH s AS (SELECT city, count(*) AS n FROM orders_source GROUP BY city) "
            "SELECT * FROM s WHERE n > 6"
        ),
        insert(),
        lambda b: b.insert("orders", [order(20), order(22)]),
    ),
]


def _twice(branch: livingdb.Branch, **values: object) -> None:
    branch.insert("orders", [order(20, **values), order(21, **values)])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].text)
def test_both_sides(
    db: livingdb.Database, main: livingdb.Branch, case: tuple[Condition, Edit, Edit | None]
) -> None:
    one, good, bad = case
    start = main.head
    good(main)
    found = one.judge(crossing(db, start, "main"))
    assert found.holds, found.problem
    if bad is None:
        return
    main.reset(start)
    bad(main)
    found = one.judge(crossing(db, start, "main"))
    assert not found.holds
    assert found.measured is None or found.measured > 0
    if one.BY_ROW and found.rows:
        names = set(db.at("main").table("orders").schema.names)
        assert all(names <= set(rows.column_names) for rows in found.rows.values())


def test_what_stays_has_been_judged_before(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.insert("orders", [order(20, city=None)])
    start = main.head
    main.insert("orders", [order(21)])
    assert c.not_null("city").judge(crossing(db, start, "main")).holds
    # What is made for the first time is judged as a whole.
    first = c.not_null("city").judge(crossing(db, None, "main"))
    assert first.measured == 1
    assert first.rows["orders"].column("id").to_pylist() == [20]


def test_both_rows_with_the_same_value_break_uniqueness(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    start = main.head
    _twice(main, note="n")
    main.update("orders", [{"id": 3, "note": "n"}])
    found = c.unique("note").judge(crossing(db, start, "main"))
    assert sorted(found.rows["orders"].column("id").to_pylist()) == [3, 20, 21]


def test_keys_of_several_columns(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.create_table(
        "places", {"land": "string", "city": "string", "x": "bigint"}, key=["land", "city"]
    )
    main.insert("places", [{"land": "no", "city": "Ås"}, {"land": "it", "city": "Roma"}])
    main.create_table("visits", {"id": "bigint", "l": "string", "c": "string"}, key="id")
    start = main.head
    rule = c.no_orphans(["l", "c"], "places", table="visits")
    main.insert("visits", [{"id": 1, "l": "no", "c": "Ås"}, {"id": 2, "l": "no", "c": None}])
    assert rule.judge(crossing(db, start, "main")).holds
    main.insert("visits", [{"id": 3, "l": "it", "c": "Ås"}])
    assert rule.judge(crossing(db, start, "main")).measured == 1
    start = main.head
    main.delete("places", [("no", "Ås")])
    found = rule.judge(crossing(db, start, "main"))
    assert found.rows["visits"].column("id").to_pylist() == [1]
    with pytest.raises(InvalidData, match="name as many columns"):
        c.no_orphans("l", "places", table="visits").judge(crossing(db, start, "main"))


def test_a_referenced_value_that_another_row_has_still(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.insert("customers", [{"id": 7, "name": "name 1"}])
    main.update("orders", [{"id": i, "note": f"name {i % 3}"} for i in range(10)])
    rule = c.no_orphans("note", "customers.name", table="orders")
    start = main.head
    main.delete("customers", [1])
    assert rule.judge(crossing(db, start, "main")).holds
    main.delete("customers", [7])
    assert rule.judge(crossing(db, start, "main")).measured == 3


def test_sums_and_counts(db: livingdb.Database, main: livingdb.Branch) -> None:
    for text in ("amount", "price", "weight"):
        found = c.reconciles(f"orders.{text}", f"orders.{text}").judge(crossing(db, None, "main"))
        assert found.holds
        assert found.measured == 0
    apart = c.reconciles("orders.amount", "orders.price").judge(crossing(db, None, "main"))
    assert apart.measured == 400
    assert "450 of" not in (apart.problem or "")
    assert (
        c.reconciles("orders.amount", "orders.price", 400).judge(crossing(db, None, "main")).holds
    )
    assert (
        not c.reconciles("orders.amount", "orders.price", 399.9)
        .judge(crossing(db, None, "main"))
        .holds
    )
    assert not c.counts_reconcile("orders", "customers", 6).judge(crossing(db, None, "main")).holds
    assert c.counts_reconcile("orders", "customers", 7).judge(crossing(db, None, "main")).holds


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (c.not_null("nowhere"), "no table of the target has the column nowhere"),
        (c.not_null("city", table="nowhere"), "has no table 'nowhere'"),
        (c.in_range("city", 1), "cannot be compared"),
        (c.in_range("amount", "much"), "cannot be compared"),
        (c.in_range("day", "much"), "cannot be compared"),
        (c.accepted_values("amount", [True]), "cannot be compared"),
        (c.matches("amount", "1"), "a pattern is for texts"),
        (c.length("amount", 1), "has no length"),
        (c.no_orphans("customer", "nowhere.id"), "is no table that is known"),
        (c.reconciles("orders.nothing", "orders.amount"), "no table of the source"),
        (c.mean("id") <= 1, "say table="),
    ],
    ids=lambda value: getattr(value, "text", None),
)
def test_what_cannot_be_judged(
    db: livingdb.Database, main: livingdb.Branch, one: Condition, why: str
) -> None:
    with pytest.raises(InvalidData, match=why):
        one.judge(crossing(db, None, "main"))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (c.not_null, "name the columns"),
        (lambda: c.unique(1), "name the columns"),
        (lambda: c.in_range("a"), "say at_least="),
        (lambda: c.in_range("a", float("nan")), "is no text, number"),
        (lambda: c.in_range("a", object()), "is no text, number"),
        (lambda: c.length("a", "3"), "a number of characters"),
        (lambda: c.matches("a", "("), "no regular expression"),
        (lambda: c.matches("a", "a)(?:b"), "no regular expression"),
        (lambda: c.matches("a", 1), "is text"),
        (lambda: c.not_null("a", action="explode"), "choose one of detach"),
        (lambda: c.not_null("a", severity="bad"), "choose one of info"),
        (lambda: c.not_null("a", of="source", action="quarantine"), "not of the source"),
        (lambda: c.max_changed(3, action="quarantine"), "not about single rows"),
        (lambda: c.reconciles("a", "b", -1), "no number from 0 on"),
        (lambda: c.rows() <= "3", "compared with a number"),
        (lambda: c.rows() <= float("inf"), "compared with a number"),
        (lambda: c.sql("DELETE FROM a"), "a condition is a query"),
        (lambda: c.sql(3), "a query is text"),
        (lambda: c.all_of([]), "combined of conditions"),
        (lambda: c.all_of(["a"]), "combined of conditions"),
    ],
)
def test_refused(make: Callable[[], object], why: str) -> None:
    with pytest.raises(InvalidData, match=why):
        make()


def test_of_the_source(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    main.insert("orders", [order(20, city=None)])
    found = c.not_null("city", of="source").judge(crossing(db, start, "main", targets={}))
    assert found.measured == 1
    assert not found.rows
