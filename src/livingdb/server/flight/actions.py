"""The actions of Flight SQL: statements, transactions and sessions begin and end by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import flight

from livingdb.errors import InvalidData
from livingdb.server.flight import messages
from livingdb.server.flight.clients import Clients
from livingdb.server.flight.entrance import Visit
from livingdb.server.flight.statements import describe_answer, prepare

__all__ = ["ACTIONS"]

_COMMIT, _ROLLBACK = 1, 2
_CANCELLED, _CLOSED = 1, 1


def _create_prepared(clients: Clients, visit: Visit, context: Any, body: bytes) -> bytes:
    """Read a statement that is to be run later, maybe with parameters."""
    asked = _request(body, "ActionCreatePreparedStatementRequest")
    statement = prepare(asked.query, clients.transaction(visit, asked))
    with clients.workspace(visit, statement.transaction) as workspace:
        schema = describe_answer(workspace, statement)
    handle = clients.prepared.add(visit.user, statement)
    parameters = pa.schema([pa.field(name, pa.null()) for name in statement.names])
    return messages.pack(
        "ActionCreatePreparedStatementResult",
        prepared_statement_handle=handle,
        dataset_schema=b"" if schema is None else schema.serialize().to_pybytes(),
        parameter_schema=parameters.serialize().to_pybytes() if statement.names else b"",
    )


def _close_prepared(clients: Clients, visit: Visit, context: Any, body: bytes) -> None:
    """Forget a statement."""
    asked = _request(body, "ActionClosePreparedStatementRequest")
    clients.prepared.take(visit.user, asked.prepared_statement_handle)


def _begin(clients: Clients, visit: Visit, context: Any, body: bytes) -> bytes:
    """Begin a transaction."""
    _request(body, "ActionBeginTransactionRequest")
    handle = clients.begin(visit, context)
    return messages.pack("ActionBeginTransactionResult", transaction_id=handle)


def _end(clients: Clients, visit: Visit, context: Any, body: bytes) -> None:
    """Commit a transaction, or roll it back; either way it has ended."""
    asked = _request(body, "ActionEndTransactionRequest")
    if asked.action not in (_COMMIT, _ROLLBACK):
        raise InvalidData("EndTransaction: say whether to commit or to roll back")
    transaction = clients.transactions.take(visit.user, asked.transaction_id)
    try:
        if asked.action == _COMMIT:
            transaction.commit()
    finally:
        transaction.close()


def _cancel_info(clients: Clients, visit: Visit, context: Any, body: bytes) -> bytes:
    """End an answer that nobody wants any more."""
    asked = messages.parse("CancelFlightInfoRequest", body)
    _cancel(clients, visit, asked.info)
    return messages.serialize("CancelFlightInfoResult", status=_CANCELLED)


def _cancel_query(clients: Clients, visit: Visit, context: Any, body: bytes) -> bytes:
    """End an answer that nobody wants any more; the older form."""
    asked = _request(body, "ActionCancelQueryRequest")
    _cancel(clients, visit, asked.info)
    return messages.pack("ActionCancelQueryResult", result=_CANCELLED)


def _cancel(clients: Clients, visit: Visit, info: bytes) -> None:
    try:
        endpoints = flight.FlightInfo.deserialize(info).endpoints
    except (pa.ArrowException, ValueError):
        raise InvalidData("the request cannot be read: it has no FlightInfo") from None
    for endpoint in endpoints:
        name, asked = messages.unpack(endpoint.ticket.ticket)
        if name != "TicketStatementQuery":
            continue
        running = clients.running.get((visit.user, asked.statement_handle))
        if running is not None:
            running.stop("cancelled", "the query was cancelled")
        else:
            clients.answers.take(visit.user, asked.statement_handle)


def _set_options(clients: Clients, visit: Visit, context: Any, body: bytes) -> bytes:
    """Choose a catalog (a branch or ref) or an isolation for the calls that follow."""
    asked = messages.parse("SetSessionOptionsRequest", body)
    options = {name: _option(value) for name, value in asked.session_options.items()}
    wrong = clients.sessions.set_options(visit, context, options)
    errors = {name: messages.new("OptionError", value=why) for name, why in wrong.items()}
    return messages.serialize("SetSessionOptionsResult", errors=errors)


def _get_options(clients: Clients, visit: Visit, context: Any, body: bytes) -> bytes:
    """What is chosen for the calls that follow."""
    messages.parse("GetSessionOptionsRequest", body)
    options = {
        name: messages.new("SessionOptionValue", string_value=value)
        for name, value in clients.sessions.options(visit).items()
    }
    return messages.serialize("GetSessionOptionsResult", session_options=options)


def _close_session(clients: Clients, visit: Visit, context: Any, body: bytes) -> bytes:
    """Forget what was chosen."""
    messages.parse("CloseSessionRequest", body)
    clients.sessions.close(visit)
    return messages.serialize("CloseSessionResult", status=_CLOSED)


def _request(body: bytes, name: str) -> Any:
    found, message = messages.unpack(body)
    if found != name:
        raise InvalidData(f"the action takes {name}, not {found}")
    return message


def _option(value: Any) -> object:
    """What an option is set to; None if it is to be as if nobody had set it."""
    kind = value.WhichOneof("option_value")
    if kind is None:
        return None
    found = getattr(value, kind)
    return list(found.values) if kind == "string_list_value" else found


ACTIONS: Mapping[str, Callable[[Clients, Visit, Any, bytes], bytes | None]] = {
    "CreatePreparedStatement": _create_prepared,
    "ClosePreparedStatement": _close_prepared,
    "BeginTransaction": _begin,
    "EndTransaction": _end,
    "CancelFlightInfo": _cancel_info,
    "CancelQuery": _cancel_query,
    "SetSessionOptions": _set_options,
    "GetSessionOptions": _get_options,
    "CloseSession": _close_session,
}
