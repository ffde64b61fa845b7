"""Tables the tests of SQL share."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from tests.unit.sql.twin import BranchScope, Database

from livingdb.tables.layout import Layout

COLUMNS = {
    "id": "bigint",
    "city": "string",
    "amount": "double",
    "quantity": "int",
    "price": "decimal(10,2)",
    "at": "timestamp",
    "day": "date",
}
CITIES = ["Oslo", "Bergen", None, "Ålesund", "東京"]


def order(number: int) -> dict[str, Any]:
    """One order; its values depend on its number alone."""
    return {
        "id": number,
        "city": CITIES[number % len(CITIES)],
        "amount": number * 1.5,
        "quantity": number % 7 if number % 11 else None,
        "price": decimal.Decimal(number) / 4,
        "at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=number),
        "day": datetime.date(2026, 1, 1) + datetime.timedelta(days=number),
    }


def shop(orders: int = 20) -> BranchScope:
    """A branch with orders and customers."""
    database = Database()
    database.create(
        "orders",
        COLUMNS,
        "id",
        [order(number) for number in range(orders)],
        defaults={"quantity": 1},
    )
    database.create(
        "customers",
        {"id": "bigint", "name": "string"},
        "id",
        [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bo"}, {"id": 99, "name": "Cy"}],
    )
    return database.branch()


SMALL_LEAVES = Layout(target_rows=64)
