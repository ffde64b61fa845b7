"""Databases for tests of the facade."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb

ORDERS = {"id": "bigint", "city": "string", "amount": "double", "quantity": "int"}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """An empty database."""
    with livingdb.create(tmp_path / "shop.ldb", author="ann") as database:
        yield database


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    """The branch `main` with ten orders."""
    branch = db.branch("main")
    branch.create_table("orders", ORDERS, key="id")
    rows = [{"id": i, "city": "Oslo", "amount": float(i), "quantity": i} for i in range(10)]
    branch.insert("orders", rows, message="ten orders")
    return branch
