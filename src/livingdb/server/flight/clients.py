"""Clients: what a server keeps for them between calls, and where their statements run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from livingdb.errors import NotFound, Unsupported
from livingdb.server.flight.calls import Call
from livingdb.server.flight.entrance import Visit
from livingdb.server.flight.handles import Handles
from livingdb.server.flight.limits import FlightLimits
from livingdb.server.flight.sessions import Sessions
from livingdb.server.flight.statements import Answer, Prepared, prepare
from livingdb.server.flight.workspace import OpenTransaction, Place, Workspace, open_workspace
from livingdb.sql.database_statements import SESSION_ACTIONS, parse_database_statement

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["Clients"]


@dataclass(frozen=True)
class _KeptAnswer:
    """An answer that was planned, and with which rights."""

    answer: Answer
    rights: object


class Clients:
    """Sessions, prepared statements, transactions and answers of all clients.

    `running` are the calls that fetch an answer, by the user and the handle it had.
    """

    def __init__(self, database: Database, limits: FlightLimits, clock: Callable[[], float]):
        self._database = database
        self.sessions = Sessions(database, limits.session_seconds)
        most, idle, long = limits.handles, limits.idle_seconds, limits.session_seconds
        self.prepared = Handles[Prepared]("prepared statement", most, long, clock=clock)
        self.transactions = Handles[OpenTransaction](
            "transaction",
            most,
            idle,
            end=OpenTransaction.close,
            rests=lambda one: idle if one.has_changes else long,
            may_go=lambda one: not one.has_changes,
            clock=clock,
        )
        self.answers = Handles[_KeptAnswer]("answer", most, idle, clock=clock)
        self.running: dict[tuple[str, bytes], Call] = {}

    def close(self) -> None:
        """Let go of everything; nothing remains of what was not committed."""
        for kept in (self.prepared, self.answers, self.transactions):
            kept.close()

    def keep_answer(self, visit: Visit, answer: Answer) -> bytes:
        """Keep an answer until it is fetched; its handle."""
        return self.answers.add(visit.user, _KeptAnswer(answer, visit.rights))

    def take_answer(self, visit: Visit, handle: bytes) -> Answer:
        """An answer that is fetched now; `NotFound` if other rights were there to plan it."""
        kept = self.answers.take(visit.user, handle)
        if kept.rights != visit.rights:
            raise NotFound(
                "there is no such answer any more: what was granted to you has changed since; ask "
                "again"
            )
        return kept.answer

    def begin(self, visit: Visit, context: Any) -> bytes:
        """Begin a transaction; its handle."""
        return self.transactions.add(visit.user, OpenTransaction(self._database, context.peer()))

    def statement(self, visit: Visit, context: Any, name: str, asked: Any) -> Prepared:
        """The statement that a command names."""
        if name in ("CommandPreparedStatementQuery", "CommandPreparedStatementUpdate"):
            found = self.prepared.get(visit.user, asked.prepared_statement_handle)
            if found.transaction is not None and found.transaction.has_ended:
                found.transaction = self._next_transaction(visit, context)
            return found
        if name in ("CommandStatementQuery", "CommandStatementUpdate"):
            return prepare(asked.query, self.transaction(visit, asked))
        raise Unsupported(f"{name} is not possible in this call")

    def transaction(self, visit: Visit, asked: Any) -> OpenTransaction | None:
        """The transaction that a command is part of; None if it is one of its own."""
        if not asked.HasField("transaction_id") or not asked.transaction_id:
            return None
        return self.transactions.get(visit.user, asked.transaction_id)

    def _next_transaction(self, visit: Visit, context: Any) -> OpenTransaction:
        """The transaction that followed one in which a statement was prepared.

        A statement names the transaction it is prepared in, and no other one when it is run; but
        clients prepare once, and go on after a commit.
        """
        mine, peer = self.transactions.of(visit.user), context.peer()
        following = [one for one in mine if one.peer == peer]
        if len(following) != 1:
            raise NotFound(
                "the transaction that the statement was prepared in has ended: prepare it again"
            )
        return following[0]

    @contextmanager
    def workspace(
        self, visit: Visit, transaction: OpenTransaction | None, catalog: str | None = None
    ) -> Iterator[Workspace]:
        """Where the statement of a call runs."""
        place = self.sessions.place(visit)
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

    def obey(self, visit: Visit, context: Any, statement: Prepared) -> bool:
        """Do what holds for the statements that follow; False if it is another statement."""
        asked = parse_database_statement(statement.text)
        if asked is None or asked.action not in SESSION_ACTIONS:
            return False
        if asked.action == "USE BRANCH":
            self.sessions.use_branch(visit, context, asked.name)
            return True
        if statement.transaction is None:
            raise Unsupported(
                f"{asked.action}: over Flight a transaction is begun and ended by calls; switch "
                "autocommit off in the client"
            )
        return False
