"""A shop whose orders are watched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

import livingdb


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """An empty database that runs everything in this process."""
    trust = ["tests.unit.guard.conditions.*"]
    path = tmp_path / "shop.ldb"
    with livingdb.create(path, author="ann", engine="embedded", trust=trust) as database:
        yield database


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    """The branch `main` with ten orders of three customers."""
    branch = db.branch("main")
    branch.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
    columns = {
        "id": "bigint",
        "customer": "bigint",
        "city": "string",
        "amount": "bigint",
        "price": "decimal(10,2)",
        "weight": "double",
        "day": "date",
        "note": "string",
    }
    branch.create_table("orders", columns, key="id")
    branch.insert("customers", [{"id": i, "name": f"name {i}"} for i in range(3)])
    branch.insert("orders", [order(i) for i in range(10)], message="ten orders")
    return branch


def order(number: int, **values: object) -> dict[str, object]:
    """An order as there are ten; with other values, if they are given."""
    given = {
        "id": number,
        "customer": number % 3,
        "city": ("Oslo", "Rome")[number % 2],
        "amount": number * 10,
        "price": f"{number}.50",
        "weight": number / 4,
        "day": f"2026-11-{number % 28 + 1:02}",
        "note": None,
        **values,
    }
    return {
        **given,
        "price": given["price"] and Decimal(str(given["price"])),
        "day": given["day"] and date.fromisoformat(str(given["day"])),
    }
