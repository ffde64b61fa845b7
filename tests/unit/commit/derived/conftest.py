"""A shop with orders, whose views are held against their queries when a test ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.commit.derived.oracle import assert_in_order
from tests.unit.commit.derived.shop import nine_orders

import livingdb


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """An empty database that runs everything in this process, and nothing it was not told to."""
    path = tmp_path / "shop.ldb"
    trust = ["tests.unit.commit.derived.*"]
    with livingdb.create(path, author="ann", engine="embedded", trust=trust) as database:
        yield database
        assert_in_order(database)


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    """The branch `main` with nine orders of three customers, in two cities and in none."""
    return nine_orders(db.branch("main"))
