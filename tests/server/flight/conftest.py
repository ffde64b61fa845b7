"""A Flight SQL server over a small shop, with people, and the ADBC driver to reach it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import livingdb
from livingdb.server.flight.limits import FlightLimits
from livingdb.server.flight.server import FlightServer

Connect = Callable[..., Any]


@dataclass(frozen=True)
class Shop:
    """A database that is served, and the tokens of its people.

    ann maintains main and dev/*, ben reads main, and olga owns everything.
    """

    db: livingdb.Database
    server: FlightServer
    tokens: dict[str, str]

    @property
    def location(self) -> str:
        return f"grpc://127.0.0.1:{self.server.port}"

    def connect(self, user: str = "ann", headers: dict[str, str] | None = None, **how: Any) -> Any:
        """A connection of the ADBC driver with the token of a user."""
        from adbc_driver_flightsql import DatabaseOptions, dbapi

        prefix = DatabaseOptions.RPC_CALL_HEADER_PREFIX.value
        options = {
            DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {self.tokens[user]}",
            DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true",
            **{prefix + name: value for name, value in (headers or {}).items()},
        }
        return dbapi.connect(self.location, db_kwargs=options, **how)


def fill(db: livingdb.Database) -> dict[str, str]:
    """Tables, people and their tokens."""
    main = db.branch("main")
    main.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
    main.create_table(
        "orders",
        {"id": "bigint", "customer_id": "bigint", "city": "string", "price": "decimal(10,2)"},
        key="id",
        foreign_keys={"customer_id": "customers"},
    )
    main.insert("customers", {"id": [1, 2], "name": ["Ann", "Bjørn"]})
    rows = {"id": [1, 2, 3], "customer_id": [1, 1, 2], "city": ["Oslo", "Rome", None]}
    main.insert("orders", {**rows, "price": [Decimal("10.50"), Decimal("7.25"), Decimal("0.10")]})
    main.create_table("numbers", {"n": "bigint"}, key="n")
    main.insert("numbers", {"n": list(range(1000))})
    db.people.add("ann", role="maintainer", branches="main")
    db.people.grant("ann", role="maintainer", branches="dev/*")
    db.people.add("ben", role="reader", branches="main")
    db.people.add("olga", role="owner")
    return {name: db.people.issue_token(name) for name in ("ann", "ben", "olga")}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """One shop for the tests of a file: each works on tables or branches of its own."""
    with livingdb.create(tmp_path_factory.mktemp("flight") / "shop.ldb") as db:
        tokens = fill(db)
        with FlightServer(db) as server:
            yield Shop(db, server, tokens)


@pytest.fixture
def limited(tmp_path: Any) -> Iterator[Callable[..., Shop]]:
    """Makes a shop whose server has limits of its own."""
    made: list[Shop] = []

    def make(clock: Callable[[], float] = time.monotonic, **limits: Any) -> Shop:
        db = livingdb.create(tmp_path / "limited.ldb")
        tokens = fill(db)
        server = FlightServer(db, limits=FlightLimits(**limits), clock=clock).start()
        made.append(Shop(db, server, tokens))
        return made[-1]

    yield make
    for one in made:
        one.server.stop()
        one.db.close()
