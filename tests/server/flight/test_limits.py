"""Limits, handles and ends: what is too much, too late, somebody else's, or no longer wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from pyarrow import flight

from livingdb.errors import NotFound
from livingdb.server.flight import messages
from livingdb.server.flight.failures import Stopped
from livingdb.server.flight.handles import Handles

ENDLESS = "SELECT sum(a.n * b.n * c.n + d.n) FROM numbers a, numbers b, numbers c, numbers d"
LARGE = "SELECT a.n, b.n AS m FROM numbers a, numbers b, numbers c"


class Client:
    """A plain client of Flight that says who it is."""

    def __init__(self, shop: Any, user: str):
        self.options = flight.FlightCallOptions(
            headers=[(b"authorization", f"Bearer {shop.tokens[user]}".encode())]
        )
        self.client = flight.connect(shop.location)

    def info(self, name: str, **fields: Any) -> Any:
        descriptor = flight.FlightDescriptor.for_command(messages.pack(name, **fields))
        return self.client.get_flight_info(descriptor, self.options)

    def query(self, text: str) -> Any:
        return self.info("CommandStatementQuery", query=text)

    def fetch(self, info: Any) -> Any:
        return self.client.do_get(info.endpoints[0].ticket, self.options)

    def act(self, kind: str, body: bytes) -> list[bytes]:
        given = self.client.do_action(flight.Action(kind, body), self.options)
        return [one.body.to_pybytes() for one in given]


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_ticket_is_for_one_user_and_one_use(shop: Any) -> None:
    ann, ben = Client(shop, "ann"), Client(shop, "ben")
    info = ann.query("SELECT 1 AS one")
    with pytest.raises(pa.ArrowKeyError, match="not_found: there is no such answer"):
        ben.fetch(info).read_all()
    assert ann.fetch(info).read_all().to_pylist() == [{"one": 1}]
    with pytest.raises(pa.ArrowKeyError, match="not_found: there is no such answer"):
        ann.fetch(info).read_all()


def test_statements_and_transactions_are_for_one_user(shop: Any) -> None:
    ann, ben = Client(shop, "ann"), Client(shop, "ben")
    body = messages.pack("ActionCreatePreparedStatementRequest", query="SELECT 1")
    _, made = messages.unpack(ann.act("CreatePreparedStatement", body)[0])
    handle = made.prepared_statement_handle
    with pytest.raises(pa.ArrowKeyError, match="no such prepared statement"):
        ben.info("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    body = messages.pack("ActionBeginTransactionRequest")
    _, begun = messages.unpack(ann.act("BeginTransaction", body)[0])
    with pytest.raises(pa.ArrowKeyError, match="no such transaction"):
        ben.info("CommandStatementQuery", query="SELECT 1", transaction_id=begun.transaction_id)
    end = messages.pack(
        "ActionEndTransactionRequest", transaction_id=begun.transaction_id, action=2
    )
    with pytest.raises(pa.ArrowKeyError, match="no such transaction"):
        ben.act("EndTransaction", end)
    assert ann.act("EndTransaction", end) == []
    close = messages.pack("ActionClosePreparedStatementRequest", prepared_statement_handle=handle)
    assert ann.act("ClosePreparedStatement", close) == []


def test_handles_rest_for_a_while_and_are_not_many() -> None:
    now, ended = [0.0], list[str]()
    kept = Handles[str](
        "thing", 2, 10, ended.append, may_go=lambda value: value == "x", clock=lambda: now[0]
    )
    first, second = kept.add("ann", "a"), kept.add("ann", "b")
    other = kept.add("ben", "c")
    with pytest.raises(Stopped, match="2 things at a time"):
        kept.add("ann", "d")
    now[0] = 8
    assert kept.get("ann", first) == "a"
    now[0] = 12
    assert kept.get("ann", first) == "a"
    assert ended == ["b", "c"]
    for handle in (second, other, b""):
        with pytest.raises(NotFound):
            kept.get("ann", handle)
    kept.add("ann", "x")
    kept.add("ann", "y")
    assert ended == ["b", "c", "x"]
    with pytest.raises(Stopped):
        kept.add("ann", "z")
    assert kept.of("ann") == ["a", "y"]
    now[0] = 23
    kept.sweep()
    assert (len(kept), ended) == (0, ["b", "c", "x", "a", "y"])


def test_what_rests_too_long_is_let_go_of(limited: Any) -> None:
    now = [0.0]
    shop = limited(idle_seconds=100, clock=lambda: now[0])
    client = Client(shop, "ann")
    info = client.query("SELECT 1")
    connection = shop.connect("ann")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO customers VALUES (7, 'late')")
    now[0] = 101
    with pytest.raises(pa.ArrowKeyError, match="rested too long"):
        client.fetch(info).read_all()
    with pytest.raises(dbapi.Error, match="no such transaction: it was closed, or rested too long"):
        connection.commit()
    assert shop.db.branch("main").table("customers").get(7) is None
    assert shop.server.open_things["transactions"] == 0


def test_too_many_rows_and_too_large(limited: Any) -> None:
    shop = limited(rows=1000, upload_bytes=10_000)
    with shop.connect("ann", autocommit=True) as connection, connection.cursor() as cursor:
        with pytest.raises(dbapi.Error, match="limit_exceeded: the answer has more than 1,000"):
            cursor.execute("SELECT a.n FROM numbers a, numbers b").fetchall()
        assert len(cursor.execute("SELECT n FROM numbers").fetchall()) == 1000
        with pytest.raises(dbapi.Error, match="limit_exceeded: a call brings at most 10,000"):
            cursor.adbc_ingest("big", pa.table({"id": np.arange(10_000)}), mode="create")
    assert "big" not in shop.db.branch("main").tables()


def test_too_long(limited: Any) -> None:
    client = Client(limited(seconds=2), "ann")
    info = client.query(ENDLESS)
    with pytest.raises(flight.FlightTimedOutError, match="timeout: it took longer than 2 seconds"):
        client.fetch(info).read_all()


def test_calls_wait_for_their_turn_and_not_for_ever(limited: Any) -> None:
    shop = limited(concurrent=1, wait_seconds=0.2)
    ann = Client(shop, "ann")
    stream = ann.fetch(ann.query(LARGE))
    stream.read_chunk()
    with pytest.raises(flight.FlightUnavailableError, match="busy: 1 calls of 'ann'"):
        ann.query("SELECT 1")
    assert Client(shop, "ben").query("SELECT 1").schema is not None
    stream.cancel()
    del stream
    _until(lambda: shop.server.open_things["calls"] == 0)
    ann.query("SELECT 1")


def test_cancelling(shop: Any) -> None:
    with shop.connect("ben", autocommit=True) as connection, connection.cursor() as cursor:
        timer = threading.Timer(0.5, cursor.adbc_cancel)
        timer.start()
        with pytest.raises(dbapi.Error, match=r"(?i)cancel"):
            cursor.execute(ENDLESS).fetchall()
        timer.join()
    _until(lambda: shop.server.open_things["fetches"] == 0)
    client = Client(shop, "ben")
    info = client.query(ENDLESS)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: client.fetch(info).read_all())
        _until(lambda: shop.server.open_things["fetches"] == 1)
        body = messages.serialize("CancelFlightInfoRequest", info=info.serialize())
        (given,) = client.act("CancelFlightInfo", body)
        assert messages.parse("CancelFlightInfoResult", given).status == 1
        with pytest.raises(flight.FlightCancelledError, match="cancelled: the query was"):
            reading.result()
    waiting = client.query("SELECT 1")
    body = messages.pack("ActionCancelQueryRequest", info=waiting.serialize())
    assert messages.unpack(client.act("CancelQuery", body)[0])[1].result == 1
    with pytest.raises(pa.ArrowKeyError):
        client.fetch(waiting).read_all()


def test_a_server_that_stops_ends_what_is_on_its_way(limited: Any) -> None:
    shop = limited()
    client = Client(shop, "ann")
    computing, sending = client.query(ENDLESS), client.query(LARGE)
    stream = client.fetch(sending)
    stream.read_chunk()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: client.fetch(computing).read_all())
        second = pool.submit(stream.read_all)
        _until(lambda: shop.server.open_things["fetches"] == 2)
        shop.server.stop()
        for one in (first, second):
            with pytest.raises(flight.FlightUnavailableError):
                one.result()
    with pytest.raises(flight.FlightError):
        client.query("SELECT 1")


def test_eight_clients_at_once(shop: Any) -> None:
    main = shop.db.branch("main")
    main.create_table("shared", {"id": "bigint", "who": "int"}, key="id")

    def work(number: int) -> int:
        with shop.connect("ann", autocommit=True) as connection, connection.cursor() as cursor:
            for at in range(5):
                cursor.execute("INSERT INTO shared VALUES (?, ?)", [number * 100 + at, number])
            found = cursor.execute("SELECT count(*) FROM shared WHERE who = ?", [number])
            return int(found.fetchone()[0])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [5] * 8
    assert len(main.table("shared")) == 40
    opened = shop.server.open_things
    assert (opened["calls"], opened["fetches"], opened["transactions"]) == (0, 0, 0)


@pytest.fixture
def million(shop: Any) -> int:
    """A table of a million rows."""
    rows = 1_000_000
    main = shop.db.branch("main")
    main.create_table("many", {"id": "bigint", "text": "string"}, key="id")
    text = pa.array(np.arange(rows)).cast(pa.string())
    main.insert("many", pa.table({"id": np.arange(rows), "text": text}))
    return rows


@pytest.mark.slow
def test_a_million_rows_stream_through_a_little_memory(shop: Any, million: int) -> None:
    client = Client(shop, "ben")
    list(client.fetch(client.query("SELECT * FROM many")))  # what is read once is kept near
    before, most, seen = pa.total_allocated_bytes(), 0, 0
    for chunk in client.fetch(
        client.query("SELECT id, upper(text) AS t, id + 1 AS next FROM many")
    ):
        assert chunk.data.nbytes <= 3 << 20
        seen += chunk.data.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert seen == million
    assert most < 40 << 20  # of 1.5 times as much that was sent


@pytest.mark.slow
def test_a_client_that_takes_nothing_holds_up_no_end(limited: Any) -> None:
    shop = limited()
    client = Client(shop, "ann")
    stream = client.fetch(client.query(LARGE))
    stream.read_chunk()
    _until(lambda: shop.server.open_things["fetches"] == 1)
    shop.server.stop()
    stream.cancel()
