"""Rights and names that change between the calls of a client; and what it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyarrow import flight
from tests.server.flight.conftest import Shop

from livingdb.server.flight import messages

QUERY = "SELECT * FROM orders"


def headers(shop: Shop, user: str) -> flight.FlightCallOptions:
    said = [
        (b"authorization", f"Bearer {shop.tokens[user]}".encode()),
        (b"x-livingdb-branch", b"main"),
    ]
    return flight.FlightCallOptions(headers=said)


def planned(shop: Shop, client: flight.FlightClient, user: str) -> Any:
    """The ticket of an answer that is planned, and not fetched."""
    command = messages.pack("CommandStatementQuery", query=QUERY)
    descriptor = flight.FlightDescriptor.for_command(command)
    return client.get_flight_info(descriptor, headers(shop, user)).endpoints[0].ticket


def test_an_answer_is_fetched_with_the_rights_it_was_planned_with(
    limited: Callable[..., Shop],
) -> None:
    shop = limited()
    with flight.FlightClient(shop.location) as client:
        first, second, third = (planned(shop, client, "ben") for _ in range(3))
        assert client.do_get(first, headers(shop, "ben")).read_all().num_rows == 3
        shop.db.people.withdraw("ben", "reader", "main")
        with pytest.raises(KeyError, match="not_found: there is no such answer any more"):
            client.do_get(second, headers(shop, "ben")).read_all()
        shop.db.people.remove("ben")
        shop.db.people.add("ben", role="reader", branches="dev/*")
        shop.tokens["ben"] = shop.db.people.issue_token("ben")
        with pytest.raises(KeyError, match="not_found: there is no such answer"):
            client.do_get(third, headers(shop, "ben")).read_all()


def test_an_open_transaction_reads_no_more(limited: Callable[..., Shop]) -> None:
    shop = limited()
    with shop.connect("ben") as connection, connection.cursor() as cursor:
        cursor.execute(QUERY)
        assert len(cursor.fetchall()) == 3
        shop.db.people.withdraw("ben", "reader", "main")
        shop.db.people.grant("ben", role="reader", branches="dev/*")
        with pytest.raises(Exception, match="not_found: there is no branch 'main'"):
            cursor.execute(QUERY)
        # What one user may not read is in nobody else's way.
        with shop.connect("ann") as other, other.cursor() as well:
            well.execute(QUERY)
            assert len(well.fetchall()) == 3


def test_a_write_is_refused_when_it_is_asked_for(limited: Callable[..., Shop]) -> None:
    shop = limited()
    with shop.connect("ben") as connection, connection.cursor() as cursor:
        for sql in ("DELETE FROM numbers", "INSERT INTO numbers VALUES (5000)"):
            with pytest.raises(Exception, match="forbidden: ben may not write to 'main'"):
                cursor.execute(sql)
        with pytest.raises(Exception, match="forbidden: ben may not write to 'main'"):
            cursor.executemany("INSERT INTO numbers VALUES (?)", [(5000,), (5001,)])
        cursor.execute("SELECT count(*) FROM numbers")
        assert cursor.fetchall() == [(1000,)]
        connection.commit()


def test_refusals_are_in_the_audit_trail(shop: Shop) -> None:
    said = (
        "INSERT INTO numbers (n) VALUES (5000)",
        "DROP TABLE numbers",
        "CREATE BRANCH other",
        "CREATE TAG first",
        "DROP BRANCH main",
        "ALTER TABLE numbers ADD COLUMN q INT",
    )
    with shop.connect("ben", autocommit=True) as connection:
        for statement in said:
            told = pytest.raises(Exception, match="forbidden: ben may not")
            with connection.cursor() as cursor, told:
                cursor.execute(statement)
            newest = shop.db.people.audit(1).to_pylist()[0]
            assert (newest["person"], newest["outcome"]) == ("ben", "refused"), statement
            assert "ben may not" in newest["details"]
