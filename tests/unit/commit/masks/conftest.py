"""A shop with customers and their orders, and the key of its masks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.commit.masks.shop import KEY, VARIABLE, fill

import livingdb


@pytest.fixture(autouse=True)
def key_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment has the key."""
    monkeypatch.setenv(VARIABLE, KEY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.ldb"


@pytest.fixture
def db(path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(path, author="ann", engine="embedded") as database:
        yield database


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    return fill(db.branch("main"))
