"""Whatever a client sends is answered with an error of Flight, and the server goes on."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from livingdb.server.flight import messages

NAMES = [
    "CommandStatementQuery",
    "CommandPreparedStatementQuery",
    "CommandStatementUpdate",
    "CommandStatementIngest",
    "CommandGetTables",
    "CommandGetSqlInfo",
    "CommandGetCrossReference",
    "TicketStatementQuery",
    "ActionCreatePreparedStatementRequest",
    "ActionEndTransactionRequest",
    "ActionBeginTransactionResult",
    "CommandStatementSubstraitPlan",
]
ACTIONS = [
    "CreatePreparedStatement",
    "ClosePreparedStatement",
    "BeginTransaction",
    "EndTransaction",
    "CancelFlightInfo",
    "CancelQuery",
    "SetSessionOptions",
    "GetSessionOptions",
    "CloseSession",
    "BeginSavepoint",
    "CreatePreparedSubstraitPlan",
    "",
    "☃",
]
TOLD = (flight.FlightError, pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError)


def _garbage(random: Random) -> bytes:
    """Random bytes: alone, in an envelope, or in place of some bytes of a message."""
    noise = random.randbytes(random.choice([0, 1, 3, 20, 200]))
    kind = random.randrange(4)
    if kind == 0:
        return noise
    whole = messages.pack("CommandStatementQuery", query="SELECT 1", transaction_id=noise)
    if kind == 1:
        at = random.randrange(len(whole))
        return whole[:at] + noise + whole[at + len(noise) :]
    url = b"type.googleapis.com/arrow.flight.protocol.sql." + random.choice(NAMES).encode()
    if kind == 2:
        noise = random.choice([b"", b"\x0a\x02\xff\xfe", b"\x0a\x00", b"\x08\xff\xff\xff\xff\x0f"])
    value = b"\x12" + bytes([len(noise) & 127]) + noise[: len(noise) & 127]
    return b"\x0a" + bytes([len(url)]) + url + value


def _try(client: Any, options: Any, random: Random) -> None:
    """One call of a random kind; it may succeed."""
    data = _garbage(random)
    kind = random.randrange(5)
    descriptor = flight.FlightDescriptor.for_command(data)
    if kind == 0:
        client.get_flight_info(descriptor, options)
    elif kind == 1:
        client.get_schema(descriptor, options)
    elif kind == 2:
        client.do_get(flight.Ticket(data), options).read_all()
    elif kind == 3:
        list(client.do_action(flight.Action(random.choice(ACTIONS), data), options))
    else:
        rows = pa.table({"a": [1, 2]})
        writer, reader = client.do_put(descriptor, rows.schema, options)
        try:
            writer.write_table(rows)
            writer.done_writing()
            reader.read()
        finally:
            writer.close()


def _told(client: Any, options: Any, random: Random) -> str:
    """What the server says to a random call; nothing, if it does what is asked."""
    try:
        _try(client, options, random)
    except TOLD as error:
        return str(error)
    return ""


def _options(shop: Any) -> Any:
    return flight.FlightCallOptions(
        timeout=20, headers=[(b"authorization", f"Bearer {shop.tokens['ben']}".encode())]
    )


def _send(shop: Any, seed: int, calls: int) -> None:
    random, options = Random(seed), _options(shop)
    with flight.connect(shop.location) as client:
        told = [_told(client, options, random) for _ in range(calls)]
        assert not [text for text in told if "Traceback" in text or "internal: " in text]
        assert not [text for text in told if "Deadline" in text]
        found = client.get_flight_info(
            flight.FlightDescriptor.for_command(
                messages.pack("CommandStatementQuery", query="SELECT 1")
            ),
            options,
        )
        assert found.schema.names == ["1"]
    assert shop.server.open_things["calls"] == 0


def test_garbage(shop: Any) -> None:
    _send(shop, 1, 150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_more_garbage(shop: Any, seed: int) -> None:
    _send(shop, seed, 500)


def test_what_is_not_asked_by_commands(shop: Any) -> None:
    options = _options(shop)
    with flight.connect(shop.location) as client:
        with pytest.raises(pa.ArrowKeyError, match="not_found: there is nothing"):
            client.get_flight_info(flight.FlightDescriptor.for_path("orders"), options)
        assert list(client.list_flights(options=options)) == []
        assert {one.type for one in client.list_actions(options)} < set(ACTIONS)
        with pytest.raises(pa.ArrowNotImplementedError):
            client.do_exchange(flight.FlightDescriptor.for_path("x"), options)[1].read_chunk()
