"""Conditions about schemas: which change breaks which."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from tests.unit.guard.conditions.crossings import crossing

import livingdb
from livingdb import condition as c
from livingdb.guard.conditions.kinds.schema import differences
from livingdb.tables.schema import TableSchema

ANY, ADDITIVE = c.no_schema_change(False), c.only_additive(False)
DESTRUCTIVE, RETYPE = c.no_destructive_change(False), c.no_retype(False)

CHANGES = {
    "ALTER TABLE orders ADD COLUMN extra string": [ANY],
    "CREATE TABLE other (id bigint, PRIMARY KEY (id))": [ANY],
    "ALTER TABLE orders DROP COLUMN note": [ANY, ADDITIVE, DESTRUCTIVE],
    "ALTER TABLE orders RENAME COLUMN note TO remark": [ANY, ADDITIVE, DESTRUCTIVE],
    "DROP TABLE customers": [ANY, ADDITIVE, DESTRUCTIVE],
    "ALTER TABLE orders ALTER COLUMN amount TYPE string": [ANY, ADDITIVE, RETYPE],
    "ALTER TABLE orders ALTER COLUMN weight TYPE float": [ANY, ADDITIVE, DESTRUCTIVE, RETYPE],
    "ALTER TABLE orders ALTER COLUMN amount TYPE int": [ANY, ADDITIVE, DESTRUCTIVE, RETYPE],
    "INSERT INTO customers VALUES (9, 'nine')": [],
}


@pytest.mark.parametrize("statement", CHANGES)
def test_which_change_breaks_which(
    db: livingdb.Database, main: livingdb.Branch, statement: str
) -> None:
    start = main.head
    main.sql(statement)
    for of in ("source", "target"):
        for one in (ANY, ADDITIVE, DESTRUCTIVE, RETYPE):
            found = replace(one, of=of).judge(crossing(db, start, "main"))
            assert found.holds == (one not in CHANGES[statement]), (one.text, found.problem)
            assert (found.measured > 0) == (not found.holds)


def test_what_is_made_for_the_first_time_has_not_changed(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    assert c.no_schema_change(False).judge(crossing(db, None, "main")).holds


def test_only_columns_that_are_used(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    main.sql("ALTER TABLE orders DROP COLUMN note")
    main.sql("ALTER TABLE orders RENAME COLUMN city TO town")
    main.sql("ALTER TABLE orders ADD COLUMN extra string")
    uses = {"orders": ["id", "amount"], "customers": ["id"]}
    given = crossing(db, start, "main", "derive", {"what": "sql"}, uses=uses)
    for one in (c.no_schema_change(), c.only_additive(), c.no_destructive_change()):
        assert one.judge(given).holds
        assert not replace(one, only_used=False).judge(given).holds
    for used in ("city", "town"):
        uses = {"orders": ["id", used], "customers": ["id"]}
        given = crossing(db, start, "main", "derive", {"what": "sql"}, uses=uses)
        found = c.no_destructive_change().judge(given)
        assert found.problem == "orders: the column 'city' is called 'town' now"
    # A query that uses all columns does not use those that come later; a function does.
    for what, holds in (("sql", True), ("model", False)):
        main.sql("ALTER TABLE customers ADD COLUMN extra string")
        given = crossing(db, "main~1", "main", "derive", {"what": what})
        assert c.no_schema_change().judge(given).holds == holds
        main.sql("ALTER TABLE customers DROP COLUMN extra")


def test_one_table(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    main.sql("ALTER TABLE orders DROP COLUMN note")
    given = crossing(db, start, "main")
    assert not c.no_schema_change(table="orders").judge(given).holds
    assert c.no_schema_change(table="customers").judge(given).holds


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("int", "bigint", "widened"),
        ("bigint", "int", "narrowed"),
        ("int", "double", "widened"),
        ("bigint", "double", "narrowed"),
        ("float", "double", "widened"),
        ("double", "float", "narrowed"),
        ("decimal(10,2)", "decimal(12,2)", "widened"),
        ("decimal(10,2)", "decimal(12,4)", "widened"),
        ("decimal(10,2)", "decimal(10,4)", "narrowed"),
        ("decimal(10,2)", "double", "narrowed"),
        ("bigint", "decimal(19,0)", "widened"),
        ("date", "timestamp", "widened"),
        ("timestamp", "date", "narrowed"),
        ("date", "string", "widened"),
        ("string", "date", "narrowed"),
        ("binary", "string", "narrowed"),
    ],
)
def test_wider_and_narrower(old: str, new: str, kind: str) -> None:
    one = TableSchema.of({"k": "bigint", "v": old}, "k")
    other = TableSchema.of({"k": "bigint", "v": new}, "k")
    assert [found.kind for found in differences(one, other)] == [kind]


def test_keys() -> None:
    columns = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])
    one, other = TableSchema.of(columns, ["a", "b"]), TableSchema.of(columns, ["b", "a"])
    kinds = [found.kind for found in differences(one, other)]
    assert kinds == ["key"]
    assert not differences(one, other, ["c"])
    renamed = one.with_column(replace(one.column("a"), name="z"))
    assert [found.kind for found in differences(one, renamed)] == ["renamed"]
