"""A shop whose views are asked where their rows come from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb

CITIES = ["Oslo", "Rome", None]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """A database that runs everything in this process; nothing is broken when a test ends."""
    trust = ["tests.unit.*"]
    path = tmp_path / "shop.ldb"
    with livingdb.create(path, author="ann", engine="embedded", trust=trust) as database:
        yield database
        assert database.check().problems == []


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    """The branch `main` with nine orders of three customers, in two cities and in none."""
    branch = db.branch("main")
    branch.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
    branch.create_table(
        "orders",
        {
            "id": "bigint",
            "customer": "bigint",
            "city": "string",
            "amount": "bigint",
            "note": "string",
        },
        key="id",
        foreign_keys={"customer": "customers"},
    )
    branch.insert("customers", [{"id": i, "name": f"name {i}"} for i in range(3)])
    rows = [
        {"id": i, "customer": i % 3, "city": CITIES[i % 3], "amount": i * 10, "note": None}
        for i in range(9)
    ]
    branch.insert("orders", rows, message="nine orders")
    return branch
