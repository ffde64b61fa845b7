"""The calls of Flight, and which part of the server answers each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import flight

from livingdb.errors import InvalidData, LimitExceeded, NotFound, Unsupported
from livingdb.server.flight import messages
from livingdb.server.flight.calls import Call, Watch
from livingdb.server.flight.entrance import Entrance, Keeper, OpenDoor, Visit
from livingdb.server.flight.failures import told_as_flight_errors
from livingdb.server.flight.fetch import fetch
from livingdb.server.flight.handles import Handles
from livingdb.server.flight.ingest import ingest, read_ingestion
from livingdb.server.flight.limits import FlightLimits
from livingdb.server.flight.metadata import metadata_command
from livingdb.server.flight.sessions import Sessions
from livingdb.server.flight.statements import (
    Answer,
    Prepared,
    change_rows,
    describe_answer,
    prepare,
    run_statement,
)
from livingdb.server.flight.turns import Turns
from livingdb.server.flight.workspace import (
    OpenTransaction,
    Place,
    Workspace,
    open_workspace,
    writable,
)
from livingdb.sql.database_statements import SESSION_ACTIONS, parse_database_statement

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["FlightService"]

_log = logging.getLogger("livingdb")
_ENTRANCE = "entrance"
_STOP_SECONDS = 5.0
_COMMIT, _ROLLBACK = 1, 2
_CANCELLED, _CLOSED = 1, 1


class FlightService(flight.FlightServerBase):  # type: ignore[misc]
    """Answers Flight SQL over one database; it listens from when it is made until `shutdown`."""

    def __init__(
        self,
        database: Database,
        keeper: Keeper,
        location: str,
        limits: FlightLimits,
        certificates: list[tuple[bytes, bytes]] | None,
        clock: Callable[[], float],
    ):
        self._database = database
        self._keeper = keeper
        self._limits = limits
        self._turns = Turns(limits)
        self._watch = Watch()
        self._sessions = Sessions(database, limits.session_seconds)
        kept = limits.handles, limits.idle_seconds
        self._prepared = Handles[Prepared]("prepared statement", *kept, clock=clock)
        self._transactions = Handles[OpenTransaction](
            "transaction", *kept, end=OpenTransaction.close, clock=clock
        )
        self._answers = Handles[Answer]("answer", *kept, replaces=True, clock=clock)
        self._running: dict[tuple[str, bytes], Call] = {}
        super().__init__(
            location,
            auth_handler=OpenDoor(),
            middleware={_ENTRANCE: Entrance(keeper)},
            tls_certificates=certificates,
        )

    def end(self) -> None:
        """Stop answering: what is on its way ends with an error, what is open leaves nothing.

        gRPC waits for every call; one whose client takes nothing any more is not waited for long.
        """
        self._watch.stop()
        waiting = Thread(target=self.shutdown, name="livingdb-flight-stop", daemon=True)
        waiting.start()
        waiting.join(_STOP_SECONDS)
        if waiting.is_alive():
            _log.warning("a client takes its answer no more; its connection is left to it")
        for kept in (self._prepared, self._answers, self._transactions):
            kept.close()

    @property
    def open_things(self) -> dict[str, int]:
        """What is kept and what is at work now, for who watches the server."""
        return {
            "calls": self._turns.working,
            "fetches": len(self._running),
            "statements": len(self._prepared),
            "transactions": len(self._transactions),
            "answers": len(self._answers),
        }

    @contextmanager
    def _call(self, context: Any) -> Iterator[Visit]:
        """One call: in the name of who makes it, in their turn, with errors that Flight knows."""
        visit: Visit = context.get_middleware(_ENTRANCE)
        with told_as_flight_errors():
            visit.at_end(self._turns.take(visit.user))
            visit.call = call = Call(self._limits.seconds, context.is_cancelled)
            self._watch.add(call)
            visit.at_end(lambda: self._watch.remove(call))
            with call.step(), self._keeper.acting_as(visit.caller):
                yield visit

    # --- questions ---------------------------------------------------------------------------

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        """Nothing lies ready: answers are made for who asks."""
        with self._call(context):
            return iter(())

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """What `do_action` takes."""
        with self._call(context):
            return [(name, str(act.__doc__).split("\n")[0]) for name, act in self._actions.items()]

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Run a query or a statement, or ask what there is; where the rows can be fetched."""
        with self._call(context) as visit:
            command = _command(descriptor)
            name, asked = messages.unpack(command)
            question = metadata_command(self._database, name, asked)
            if question is not None:
                return _info(question.schema, descriptor, flight.Ticket(command), -1)
            answer = self._answer(visit, context, name, asked)
            if not answer.plans:
                return _info(answer.schema, descriptor, None, answer.changed)
            handle = self._answers.add(visit.user, answer)
            ticket = messages.pack("TicketStatementQuery", statement_handle=handle)
            return _info(answer.schema, descriptor, flight.Ticket(ticket), -1)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """The columns of an answer, without computing it."""
        with self._call(context) as visit:
            name, asked = messages.unpack(_command(descriptor))
            question = metadata_command(self._database, name, asked)
            if question is not None:
                return flight.SchemaResult(question.schema)
            statement = self._statement(visit, context, name, asked)
            with self._workspace(visit, statement.transaction) as workspace:
                schema = describe_answer(workspace, statement)
            return flight.SchemaResult(pa.schema([]) if schema is None else schema)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of an answer."""
        with self._call(context) as visit:
            name, asked = messages.unpack(ticket.ticket)
            question = metadata_command(self._database, name, asked)
            if question is not None:
                return flight.RecordBatchStream(question.answer())
            if name != "TicketStatementQuery":
                raise Unsupported(f"{name} is no ticket: get_flight_info gives tickets")
            handle = asked.statement_handle
            answer = self._answers.take(visit.user, handle)
            return self._stream(visit, handle, answer)

    def _stream(self, visit: Visit, handle: bytes, answer: Answer) -> Any:
        """The rows as they come; the first are computed at once, to say early what goes wrong."""
        key = visit.user, handle
        self._running[key] = visit.call
        batches = fetch(answer.plans, self._limits)
        visit.at_end(lambda: self._running.pop(key, None))
        visit.at_end(batches.close)
        first = next(batches, None)
        return flight.GeneratorStream(answer.schema, self._steps(visit, first, batches))

    def _steps(
        self, visit: Visit, first: pa.RecordBatch | None, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Batch after batch, each computed in the name of who asks and not beyond."""
        batch = first
        while batch is not None:
            yield batch
            acting = self._keeper.acting_as(visit.caller)
            with told_as_flight_errors(), visit.call.step(), acting:
                batch = next(batches, None)

    # --- statements --------------------------------------------------------------------------

    def _statement(self, visit: Visit, context: Any, name: str, asked: Any) -> Prepared:
        """The statement that a command names."""
        if name in ("CommandPreparedStatementQuery", "CommandPreparedStatementUpdate"):
            found = self._prepared.get(visit.user, asked.prepared_statement_handle)
            if found.transaction is not None and found.transaction.has_ended:
                found.transaction = self._next_transaction(visit, context)
            return found
        if name in ("CommandStatementQuery", "CommandStatementUpdate"):
            return prepare(asked.query, self._transaction(visit, asked))
        raise Unsupported(f"{name} is not possible in this call")

    def _transaction(self, visit: Visit, asked: Any) -> OpenTransaction | None:
        if not asked.HasField("transaction_id") or not asked.transaction_id:
            return None
        return self._transactions.get(visit.user, asked.transaction_id)

    def _next_transaction(self, visit: Visit, context: Any) -> OpenTransaction:
        """The transaction that followed one in which a statement was prepared.

        A statement names the transaction it is prepared in, and no other one when it is run; but
        clients prepare once, and go on after a commit.
        """
        mine, peer = self._transactions.of(visit.user), context.peer()
        following = [one for one in mine if one.peer == peer]
        if len(following) != 1:
            raise NotFound(
                "the transaction that the statement was prepared in has ended: prepare it again"
            )
        return following[0]

    @contextmanager
    def _workspace(
        self, visit: Visit, transaction: OpenTransaction | None, catalog: str | None = None
    ) -> Iterator[Workspace]:
        """Where the statement of a call runs."""
        place = self._sessions.place(visit)
        if catalog:
            place = Place(catalog, place.isolation)
        if transaction is not None:
            with transaction.turn:
                yield transaction.workspace(place)
            return
        workspace = open_workspace(self._database, place, autocommit=True)
        try:
            yield workspace
        finally:
            workspace.close()

    def _answer(self, visit: Visit, context: Any, name: str, asked: Any) -> Answer:
        """Run a statement that may give rows."""
        statement = self._statement(visit, context, name, asked)
        if self._is_session_statement(visit, context, statement):
            return Answer(pa.schema([]), changed=0)
        with self._workspace(visit, statement.transaction) as workspace:
            return run_statement(workspace, statement)

    def _is_session_statement(self, visit: Visit, context: Any, statement: Prepared) -> bool:
        """Do what holds for the statements that follow; False if it is another statement."""
        asked = parse_database_statement(statement.text)
        if asked is None or asked.action not in SESSION_ACTIONS:
            return False
        if asked.action == "USE BRANCH":
            self._sessions.use_branch(visit, context, asked.name)
            return True
        if statement.transaction is None:
            raise Unsupported(
                f"{asked.action}: over Flight a transaction is begun and ended by calls; switch "
                "autocommit off in the client"
            )
        return False

    # --- what comes in -----------------------------------------------------------------------

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Changes, parameters of prepared statements, and rows."""
        with self._call(context) as visit:
            name, asked = messages.unpack(_command(descriptor))
            act = self._puts.get(name)
            if act is None:
                raise Unsupported(f"{name} is not possible in this call")
            writer.write(pa.py_buffer(act(self, visit, context, asked, reader)))

    def _put_change(self, visit: Visit, context: Any, asked: Any, reader: Any) -> bytes:
        name = asked.DESCRIPTOR.name
        statement = self._statement(visit, context, name, asked)
        if name == "CommandPreparedStatementUpdate":
            rows = self._read(reader)
            statement.parameters = rows if rows.num_columns else statement.parameters
        changed = 0
        if not self._is_session_statement(visit, context, statement):
            with self._workspace(visit, statement.transaction) as workspace:
                changed = change_rows(workspace, statement).changed
        return messages.serialize("DoPutUpdateResult", record_count=changed)

    def _put_parameters(self, visit: Visit, context: Any, asked: Any, reader: Any) -> bytes:
        handle = asked.prepared_statement_handle
        self._prepared.get(visit.user, handle).parameters = self._read(reader)
        return messages.serialize("DoPutPreparedStatementResult", prepared_statement_handle=handle)

    def _put_rows(self, visit: Visit, context: Any, asked: Any, reader: Any) -> bytes:
        wanted = read_ingestion(asked, reader.schema)
        rows = self._read(reader)
        transaction = self._transaction(visit, asked)
        catalog = asked.catalog if asked.HasField("catalog") else None
        with self._workspace(visit, transaction, catalog) as workspace:
            count = ingest(writable(workspace), wanted, rows)
        return messages.serialize("DoPutUpdateResult", record_count=count)

    def _read(self, reader: Any) -> pa.Table:
        """The rows that a client sends, as many as it may."""
        schema = reader.schema
        batches, size_bytes = [], 0
        for chunk in reader:
            if chunk.data is None:
                continue
            size_bytes += chunk.data.nbytes
            if size_bytes > self._limits.upload_bytes:
                most = self._limits.upload_bytes
                raise LimitExceeded(f"a call brings at most {most:,} bytes: send less at once")
            batches.append(chunk.data)
        return pa.Table.from_batches(batches, schema=schema)

    _puts: Mapping[str, Callable[..., bytes]] = {
        "CommandStatementUpdate": _put_change,
        "CommandPreparedStatementUpdate": _put_change,
        "CommandPreparedStatementQuery": _put_parameters,
        "CommandStatementIngest": _put_rows,
    }

    # --- actions -----------------------------------------------------------------------------

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        """Do what an action says."""
        with self._call(context) as visit:
            act = self._actions.get(action.type)
            if act is None:
                known = ", ".join(self._actions)
                raise Unsupported(
                    f"the action {action.type[:80]!r} is not known; there are {known}"
                )
            given = act(self, visit, context, action.body.to_pybytes())
            return [] if given is None else [given]

    def _create_prepared(self, visit: Visit, context: Any, body: bytes) -> bytes:
        """Read a statement that is to be run later, maybe with parameters."""
        asked = _request(body, "ActionCreatePreparedStatementRequest")
        statement = prepare(asked.query, self._transaction(visit, asked))
        with self._workspace(visit, statement.transaction) as workspace:
            schema = describe_answer(workspace, statement)
        handle = self._prepared.add(visit.user, statement)
        parameters = pa.schema([pa.field(name, pa.null()) for name in statement.names])
        return messages.pack(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=handle,
            dataset_schema=b"" if schema is None else schema.serialize().to_pybytes(),
            parameter_schema=parameters.serialize().to_pybytes() if statement.names else b"",
        )

    def _close_prepared(self, visit: Visit, context: Any, body: bytes) -> None:
        """Forget a statement."""
        asked = _request(body, "ActionClosePreparedStatementRequest")
        self._prepared.take(visit.user, asked.prepared_statement_handle)

    def _begin(self, visit: Visit, context: Any, body: bytes) -> bytes:
        """Begin a transaction."""
        _request(body, "ActionBeginTransactionRequest")
        begun = OpenTransaction(self._database, context.peer())
        handle = self._transactions.add(visit.user, begun)
        return messages.pack("ActionBeginTransactionResult", transaction_id=handle)

    def _end(self, visit: Visit, context: Any, body: bytes) -> None:
        """Commit a transaction, or roll it back; either way it has ended."""
        asked = _request(body, "ActionEndTransactionRequest")
        if asked.action not in (_COMMIT, _ROLLBACK):
            raise InvalidData("EndTransaction: say whether to commit or to roll back")
        transaction = self._transactions.take(visit.user, asked.transaction_id)
        try:
            if asked.action == _COMMIT:
                transaction.commit()
        finally:
            transaction.close()

    def _cancel_info(self, visit: Visit, context: Any, body: bytes) -> bytes:
        """End an answer that nobody wants any more."""
        asked = messages.parse("CancelFlightInfoRequest", body)
        self._cancel(visit, asked.info)
        return messages.serialize("CancelFlightInfoResult", status=_CANCELLED)

    def _cancel_query(self, visit: Visit, context: Any, body: bytes) -> bytes:
        """End an answer that nobody wants any more; the older form."""
        asked = _request(body, "ActionCancelQueryRequest")
        self._cancel(visit, asked.info)
        return messages.pack("ActionCancelQueryResult", result=_CANCELLED)

    def _cancel(self, visit: Visit, info: bytes) -> None:
        try:
            endpoints = flight.FlightInfo.deserialize(info).endpoints
        except (pa.ArrowException, ValueError):
            raise InvalidData("the request cannot be read: it has no FlightInfo") from None
        for endpoint in endpoints:
            name, asked = messages.unpack(endpoint.ticket.ticket)
            if name != "TicketStatementQuery":
                continue
            running = self._running.get((visit.user, asked.statement_handle))
            if running is not None:
                running.stop("cancelled", "the query was cancelled")
            else:
                self._answers.take(visit.user, asked.statement_handle)

    def _set_options(self, visit: Visit, context: Any, body: bytes) -> bytes:
        """Choose a catalog (a branch or ref) or an isolation for the calls that follow."""
        asked = messages.parse("SetSessionOptionsRequest", body)
        options = {name: _option(value) for name, value in asked.session_options.items()}
        wrong = self._sessions.set_options(visit, context, options)
        errors = {name: messages.new("OptionError", value=why) for name, why in wrong.items()}
        return messages.serialize("SetSessionOptionsResult", errors=errors)

    def _get_options(self, visit: Visit, context: Any, body: bytes) -> bytes:
        """What is chosen for the calls that follow."""
        messages.parse("GetSessionOptionsRequest", body)
        options = {
            name: messages.new("SessionOptionValue", string_value=value)
            for name, value in self._sessions.options(visit).items()
        }
        return messages.serialize("GetSessionOptionsResult", session_options=options)

    def _close_session(self, visit: Visit, context: Any, body: bytes) -> bytes:
        """Forget what was chosen."""
        messages.parse("CloseSessionRequest", body)
        self._sessions.close(visit)
        return messages.serialize("CloseSessionResult", status=_CLOSED)

    _actions: Mapping[str, Callable[..., bytes | None]] = {
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


def _command(descriptor: Any) -> bytes:
    if descriptor.descriptor_type != flight.DescriptorType.CMD:
        raise NotFound("there is nothing to be found by a path: Flight SQL asks by commands")
    return bytes(descriptor.command)


def _request(body: bytes, name: str) -> Any:
    found, message = messages.unpack(body)
    if found != name:
        raise InvalidData(f"the action takes {name}, not {found}")
    return message


def _info(schema: pa.Schema, descriptor: Any, ticket: Any | None, rows: int) -> Any:
    endpoints = [] if ticket is None else [flight.FlightEndpoint(ticket, [])]
    return flight.FlightInfo(schema, descriptor, endpoints, rows, -1)


def _option(value: Any) -> object:
    """What an option is set to; None if it is to be as if nobody had set it."""
    kind = value.WhichOneof("option_value")
    if kind is None:
        return None
    found = getattr(value, kind)
    return list(found.values) if kind == "string_list_value" else found
