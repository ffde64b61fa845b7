"""Rights on both catalogs: on PostgreSQL a few tests in every run, and all in the slow ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.new_postgres import new_postgres

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
    with ExitStack() as ending:

        def create(folder: Path, **how: Any) -> livingdb.Database:
            return livingdb.create(ending.enter_context(new_postgres(server, folder)), **how)

        yield create
