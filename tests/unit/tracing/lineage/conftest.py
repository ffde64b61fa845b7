"""A shop whose views are asked where their rows come from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.commit.derived.shop import nine_orders

import livingdb


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
    return nine_orders(db.branch("main"))
