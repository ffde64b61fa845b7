"""Databases that SQLAlchemy is connected to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

import livingdb
import livingdb.sqlalchemy_dialect
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "shop.ldb"
    livingdb.create(where, author="ann").close()
    return where


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    """A server of the database."""
    with livingdb.open(path) as db, Server(db, ServerSettings(port=0, upkeep=False)) as made:
        yield made


@pytest.fixture(params=["files", "server"])
def engine(path: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "files":
        made = create_engine(f"livingdb:///{path}")
    else:
        server = request.getfixturevalue("server")
        made = create_engine(f"livingdb://127.0.0.1:{server.port}/?token={server.run_token}")
    yield made
    made.dispose()
