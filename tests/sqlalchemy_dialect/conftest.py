"""Databases that SQLAlchemy is connected to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

import livingdb
import livingdb.sqlalchemy_dialect


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "shop.ldb"
    livingdb.create(where, author="ann").close()
    return where


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    made = create_engine(f"livingdb:///{path}")
    yield made
    made.dispose()
