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
def places() -> dict[str, Any]:
    """Where databases were made, by what they call themselves: a folder, or a URL with secrets."""
    return {}


@pytest.fixture(scope="module")
def create_database(
    catalog: str, request: pytest.FixtureRequest, places: dict[str, Any]
) -> Iterator[Callable[..., livingdb.Database]]:
    """Makes a database in a folder, or one whose catalog is a new one in PostgreSQL."""
    with ExitStack() as ending:

        def create(folder: Path, **how: Any) -> livingdb.Database:
            place: Any = folder / "shop.ldb"
            if catalog != SQLITE:
                server = request.getfixturevalue("postgres_url")
                place = ending.enter_context(new_postgres(server, folder))
            made = livingdb.create(place, **how)
            places[made.name] = place
            return made

        yield create


@pytest.fixture
def open_again(places: dict[str, Any]) -> Callable[[livingdb.Database], livingdb.Database]:
    """Opens a database once more, as another process does."""
    return lambda db: livingdb.open(places[db.name])
