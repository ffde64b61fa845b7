"""A shop whose rows have a history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb

CITIES = ["Oslo", "Rome", "Århus"]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """An empty database that runs everything in this process."""
    trust = ["tests.unit.tracing.provenance.*"]
    path = tmp_path / "shop.ldb"
    with livingdb.create(path, author="ann", engine="embedded", trust=trust) as database:
        yield database


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    """The branch `main` with three customers and six orders."""
    branch = db.branch("main")
    branch.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
    branch.create_table(
        "orders",
        {"id": "bigint", "customer": "bigint", "city": "string", "amount": "bigint"},
        key="id",
        foreign_keys={"customer": "customers"},
    )
    branch.insert(
        "customers", [{"id": i, "name": f"name {i}"} for i in range(3)], message="customers"
    )
    branch.insert(
        "orders",
        [{"id": i, "customer": i % 3, "city": CITIES[i % 3], "amount": i * 10} for i in range(6)],
        message="six orders",
    )
    return branch
