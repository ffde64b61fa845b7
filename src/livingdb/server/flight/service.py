"""The calls of Flight, and which part of the server answers each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import flight

from livingdb.errors import LimitExceeded, LivingDBError, NotFound, Unsupported
from livingdb.server.flight import messages
from livingdb.server.flight.actions import ACTIONS
from livingdb.server.flight.calls import Call, Watch
from livingdb.server.flight.clients import Clients
from livingdb.server.flight.entrance import Entrance, Keeper, OpenDoor, Visit
from livingdb.server.flight.failures import told_as_flight_errors
from livingdb.server.flight.fetch import fetch
from livingdb.server.flight.ingest import ingest, read_ingestion
from livingdb.server.flight.limits import FlightLimits
from livingdb.server.flight.metadata import MetadataCommand, metadata_command
from livingdb.server.flight.observed_call import Observer
from livingdb.server.flight.statements import Answer, change_rows, describe_answer, run_statement
from livingdb.server.flight.turns import Turns
from livingdb.server.flight.workspace import writable

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["FlightService"]

_log = logging.getLogger("livingdb")
_ENTRANCE = "entrance"
_STOP_SECONDS = 5.0


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
        observe: Observer,
    ):
        self._database = database
        self._keeper = keeper
        self._limits = limits
        self._turns = Turns(limits)
        self._watch = Watch()
        self._clients = Clients(database, limits, clock)
        super().__init__(
            location,
            auth_handler=OpenDoor(),
            middleware={_ENTRANCE: Entrance(keeper, observe)},
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
        self._clients.close()

    @property
    def open_things(self) -> dict[str, int]:
        """What is kept and what is at work now, for who watches the server."""
        return {
            "calls": self._turns.working,
            "fetches": len(self._clients.running),
            "statements": len(self._clients.prepared),
            "transactions": len(self._clients.transactions),
            "answers": len(self._clients.answers),
        }

    @contextmanager
    def _call(self, context: Any) -> Iterator[Visit]:
        """One call: in the name of who makes it, in their turn, with errors that Flight knows."""
        visit: Visit = context.get_middleware(_ENTRANCE)
        with told_as_flight_errors():
            visit.at_end(self._turns.take(visit.caller.name))
            visit.call = call = Call(self._limits.seconds, context.is_cancelled)
            self._watch.add(call)
            visit.at_end(lambda: self._watch.remove(call))
            with call.step(), self._keeper.acting_as(visit.caller) as visit.rights:
                yield visit

    # --- questions ---------------------------------------------------------------------------

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        """Nothing lies ready: answers are made for who asks."""
        with self._call(context):
            return iter(())

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """What `do_action` takes."""
        with self._call(context):
            return [(name, str(act.__doc__).split("\n")[0]) for name, act in ACTIONS.items()]

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """Run a query or a statement, or ask what there is; where the rows can be fetched."""
        with self._call(context) as visit:
            command = _command(descriptor)
            name, asked = messages.unpack(command)
            visit.operation = name
            question = self._question(visit, name, asked)
            if question is not None:
                return _info(question.schema, descriptor, flight.Ticket(command), -1)
            answer = self._answer(visit, context, name, asked)
            if not answer.plans:
                return _info(answer.schema, descriptor, None, answer.changed)
            handle = self._clients.keep_answer(visit, answer)
            ticket = messages.pack("TicketStatementQuery", statement_handle=handle)
            return _info(answer.schema, descriptor, flight.Ticket(ticket), -1)

    def _question(self, visit: Visit, name: str, asked: Any) -> MetadataCommand | None:
        def home() -> str | None:
            ref = self._clients.sessions.place(visit).ref
            with suppress(LivingDBError):  # who asks need not see the default branch
                ref = ref or self._database.default_branch.name
            return ref

        return metadata_command(self._database, name, asked, home)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """The columns of an answer, without computing it."""
        with self._call(context) as visit:
            name, asked = messages.unpack(_command(descriptor))
            visit.operation = name
            question = self._question(visit, name, asked)
            if question is not None:
                return flight.SchemaResult(question.schema)
            statement = self._clients.statement(visit, context, name, asked)
            with self._clients.workspace(visit, statement.transaction) as workspace:
                schema = describe_answer(workspace, statement)
            return flight.SchemaResult(pa.schema([]) if schema is None else schema)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of an answer."""
        with self._call(context) as visit:
            name, asked = messages.unpack(ticket.ticket)
            visit.operation = name
            question = self._question(visit, name, asked)
            if question is not None:
                return flight.RecordBatchStream(question.answer())
            if name != "TicketStatementQuery":
                raise Unsupported(f"{name} is no ticket: get_flight_info gives tickets")
            handle = asked.statement_handle
            answer = self._clients.take_answer(visit, handle)
            return self._stream(visit, handle, answer)

    def _stream(self, visit: Visit, handle: bytes, answer: Answer) -> Any:
        """The rows as they come; the first are computed at once, to say early what goes wrong."""
        key = visit.user, handle
        self._clients.running[key] = visit.call
        batches = fetch(answer.plans, self._limits)
        visit.at_end(lambda: self._clients.running.pop(key, None))
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

    def _answer(self, visit: Visit, context: Any, name: str, asked: Any) -> Answer:
        """Run a statement that may give rows."""
        statement = self._clients.statement(visit, context, name, asked)
        if self._clients.obey(visit, context, statement):
            return Answer(pa.schema([]), changed=0)
        with self._clients.workspace(visit, statement.transaction) as workspace:
            return run_statement(workspace, statement)

    # --- what comes in -----------------------------------------------------------------------

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Changes, parameters of prepared statements, and rows."""
        with self._call(context) as visit:
            name, asked = messages.unpack(_command(descriptor))
            visit.operation = name
            act = self._puts.get(name)
            if act is None:
                raise Unsupported(f"{name} is not possible in this call")
            writer.write(pa.py_buffer(act(self, visit, context, asked, reader)))

    def _put_change(self, visit: Visit, context: Any, asked: Any, reader: Any) -> bytes:
        name = asked.DESCRIPTOR.name
        statement = self._clients.statement(visit, context, name, asked)
        if name == "CommandPreparedStatementUpdate":
            rows = self._read(reader)
            given = rows if rows.num_columns else statement.parameters
            statement = replace(statement, parameters=given)
        changed = 0
        if not self._clients.obey(visit, context, statement):
            with self._clients.workspace(visit, statement.transaction) as workspace:
                changed = change_rows(workspace, statement).changed
        return messages.serialize("DoPutUpdateResult", record_count=changed)

    def _put_parameters(self, visit: Visit, context: Any, asked: Any, reader: Any) -> bytes:
        handle = asked.prepared_statement_handle
        self._clients.prepared.get(visit.user, handle).parameters = self._read(reader)
        return messages.serialize("DoPutPreparedStatementResult", prepared_statement_handle=handle)

    def _put_rows(self, visit: Visit, context: Any, asked: Any, reader: Any) -> bytes:
        wanted = read_ingestion(asked, reader.schema)
        rows = self._read(reader)
        transaction = self._clients.transaction(visit, asked)
        catalog = asked.catalog if asked.HasField("catalog") else None
        with self._clients.workspace(visit, transaction, catalog) as workspace:
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
            act = ACTIONS.get(action.type)
            if act is None:
                known = ", ".join(ACTIONS)
                raise Unsupported(
                    f"the action {action.type[:80]!r} is not known; there are {known}"
                )
            visit.operation = action.type
            given = act(self._clients, visit, context, action.body.to_pybytes())
            return [] if given is None else [given]


def _command(descriptor: Any) -> bytes:
    if descriptor.descriptor_type != flight.DescriptorType.CMD:
        raise NotFound("there is nothing to be found by a path: Flight SQL asks by commands")
    return bytes(descriptor.command)


def _info(schema: pa.Schema, descriptor: Any, ticket: Any | None, rows: int) -> Any:
    endpoints = [] if ticket is None else [flight.FlightEndpoint(ticket, [])]
    return flight.FlightInfo(schema, descriptor, endpoints, rows, -1)
