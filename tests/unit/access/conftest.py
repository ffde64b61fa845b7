"""Rights on both catalogs: on PostgreSQL a few tests in every run, and all in the slow ones."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

import livingdb

SQLITE, POSTGRES = "sqlite", "postgresql"
QUICK = {
    "test_users_have_roles_on_patterns",
    "test_tokens",
    "test_rights_that_are_withdrawn_hold_at_once",
    "test_the_audit_is_chained",
}
"""What is tried on PostgreSQL in every run."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "catalog" in metafunc.fixturenames:
        marks = () if metafunc.function.__name__ in QUICK else (pytest.mark.slow,)
        kinds = [SQLITE, pytest.param(POSTGRES, marks=marks)]
        metafunc.parametrize("catalog", kinds, indirect=True, scope="module")


@pytest.fixture(scope="module")
def catalog(request: pytest.FixtureRequest) -> str:
    """Which catalog the database of a test has."""
    return str(request.param)


@pytest.fixture(scope="module")
def create_database(
    catalog: str, request: pytest.FixtureRequest
) -> Iterator[Callable[..., livingdb.Database]]:
    """Makes a database in a folder, or one whose catalog is a new one in PostgreSQL."""
    if catalog == SQLITE:
        yield lambda folder, **how: livingdb.create(folder / "shop.ldb", **how)
        return
    server = request.getfixturevalue("postgres_url")
    engine = create_engine(server, isolation_level="AUTOCOMMIT")

    def run(statement: str) -> None:
        with engine.connect() as connection:
            connection.execute(text(statement))

    with ExitStack() as ending:
        ending.callback(engine.dispose)

        def create(folder: Path, **how: Any) -> livingdb.Database:
            name = f"livingdb_{uuid.uuid4().hex[:12]}"
            run(f"CREATE DATABASE {name}")
            ending.callback(run, f"DROP DATABASE {name} WITH (FORCE)")
            url = make_url(server).set(drivername="postgresql", database=name)
            url = url.update_query_dict({"data": str(folder / "data")})
            return livingdb.create(url.render_as_string(hide_password=False), **how)

        yield create
