"""The session of a connection to a server: what is asked of it goes over HTTP, rows as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import pyarrow as pa

from livingdb.dbapi.json_parameters import json_parameters
from livingdb.dbapi.server_client import Answer, NoSession, ServerClient, Unreachable
from livingdb.errors import Forbidden, InvalidData, LimitExceeded, LivingDBError
from livingdb.sql.database_statements import parse_database_statement
from livingdb.sql.result import Result
from livingdb.tables.fit import fit
from livingdb.tables.schema import TableSchema

if TYPE_CHECKING:
    from livingdb.dbapi.server_address import ServerAddress
    from livingdb.sql.parameters import Parameters

__all__ = ["ServerSession", "SessionEnded"]

_SESSIONS = "/v1/sql/sessions"
_PART_BYTES = 16 << 20
"""Of the rows that one request carries; servers take four times as many."""
_NO_TRANSACTION, _CHANGED = "none", "changed"
_INDEXES = """
    SELECT index_name, column_name FROM information_schema.statistics
    WHERE table_schema = ? AND table_name = ? ORDER BY index_name, ordinal_position
"""


class SessionEnded(LivingDBError):
    """The session ended with a transaction that was open."""

    code = "session_ended"


class ServerSession:
    """A `Session` at a server.

    One that the server ended, because nobody used it or because the server was started anew, is
    opened again where no transaction was open.
    """

    def __init__(self, client: ServerClient, branch: str | None) -> None:
        self._client = client
        self._branch = branch
        self._place: str | None = None
        self._transaction = _NO_TRANSACTION
        self._is_read_only = False

    @classmethod
    def connect(cls, address: ServerAddress, branch: str | None) -> Self:
        """A session at a server that is there, for somebody it knows."""
        client = ServerClient(address)
        made = cls(client, branch)
        try:
            if address.user is not None:
                name = client.ask("GET", "/v1/me").json()["name"]
                if name != address.user:
                    raise Forbidden(f"the token is that of {name!r}, and not of {address.user!r}")
            made._open()
        except BaseException:
            client.disconnect()
            raise
        return made

    # --- where it stands ---------------------------------------------------------------------

    @property
    def branch_name(self) -> str:
        """The branch that statements work on."""
        assert self._branch is not None
        return self._branch

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._transaction != _NO_TRANSACTION

    @property
    def has_changes(self) -> bool:
        """Whether a transaction is open that has written something."""
        return self._transaction == _CHANGED

    @property
    def is_read_only(self) -> bool:
        """Whether the server only reads the database."""
        return self._is_read_only

    # --- statements --------------------------------------------------------------------------

    def begin(self, isolation: str) -> object:
        """Open a transaction."""
        return self.execute(f"BEGIN ISOLATION LEVEL {isolation.upper()}")

    def execute(self, text: str, parameters: Parameters = None) -> Result:
        """Run one statement."""
        body = {"sql": text, "parameters": json_parameters(parameters)}
        asked = parse_database_statement(text)
        try:
            answer = self._ask("POST", "statements", body, wants_arrow=True)
        except LivingDBError:
            if asked is not None and asked.action in ("COMMIT", "ROLLBACK"):
                self._transaction = _NO_TRANSACTION  # it ends however that goes
            raise
        self._take_state(answer)
        return _result(answer)

    def insert(self, table: str, data: object) -> int:
        """Insert many rows in one go, all or none; how many they are."""
        parts = list(_parts(self._fitted(table, data)))
        if len(parts) == 1:
            return self._insert_part(table, parts[0])
        was_open = self.is_open
        if not was_open:
            self.execute("BEGIN")
        done = 0
        try:
            for part in parts:
                done += self._insert_part(table, part)
        except LivingDBError as error:
            if done:
                self.rollback()
                raise _after_part(error) from error
            if not was_open:
                self.rollback()
            raise
        if not was_open:
            self.execute("COMMIT")
        return done

    def _fitted(self, table: str, data: object) -> pa.Table:
        """Columns of plain values as the table has them; what it lacks is left to SQL to say."""
        assert isinstance(data, Mapping)
        found = self._schemas({"table": table}).get(table)
        if found is None or not set(data) <= set(found.whole.names):
            raise InvalidData(f"the table {table!r} has not all columns of the rows")
        columns = {name: replace(found.column(name), nullable=True, limit=None) for name in data}
        return pa.table({name: fit(data[name], column) for name, column in columns.items()})

    def _insert_part(self, table: str, rows: pa.Table) -> int:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        body = sink.getvalue().to_pybytes()
        answer = self._ask("POST", "rows", body, query={"table": table})
        self._take_state(answer)
        return int(answer.json()["changed"])

    def rollback(self) -> None:
        """Let go of what was not committed."""
        if self.is_open:
            with suppress(SessionEnded):  # and so it is gone
                self.execute("ROLLBACK")

    def end(self) -> None:
        """Let go of everything; a server that does not answer ends the session by itself."""
        if self._place is not None:
            with suppress(LivingDBError):
                self._client.ask("DELETE", self._place)
        self._forget()
        self._client.disconnect()

    # --- what there is -----------------------------------------------------------------------

    def branches(self) -> list[str]:
        """The names of the branches."""
        names: list[str] = (
            self.query("SHOW BRANCHES", self.branch_name).to_arrow()["name"].to_pylist()
        )
        return names

    def table_schemas(self, branch: str | None = None) -> dict[str, TableSchema]:
        """What the tables of a branch hold, by name; of its own, what the transaction sees."""
        return self._schemas({"branch": branch})

    def _schemas(self, query: Mapping[str, str | None]) -> dict[str, TableSchema]:
        told = self._ask("GET", "tables", query=query).json()["tables"]
        return {name: TableSchema.from_json(schema) for name, schema in told.items()}

    def indexes(self, table: str, branch: str | None = None) -> Mapping[str, Sequence[str]]:
        """The indexes of a table, as it is at the head of a branch: names and columns."""
        chosen = branch or self.branch_name
        rows = self.query(_INDEXES, chosen, [chosen, table]).to_arrow()
        found: dict[str, list[str]] = {}
        for index, column in zip(*(part.to_pylist() for part in rows.columns), strict=True):
            found.setdefault(index, []).append(column)
        return found

    def query(self, text: str, branch: str, parameters: Parameters = None) -> Result:
        """The answer of a branch, as its head is now."""
        body = {"sql": text, "parameters": json_parameters(parameters), "branch": branch}
        return _result(self._client.ask("POST", "/v1/sql", body, wants_arrow=True))

    # --- asking ------------------------------------------------------------------------------

    def _open(self) -> str:
        told = self._client.ask("POST", _SESSIONS, {"branch": self._branch}).json()
        self._branch = told["branch"]
        self._is_read_only = told["read_only"]
        self._place = f"{_SESSIONS}/{told['id']}"
        return self._place

    def _ask(self, method: str, what: str, body: Any = None, **options: Any) -> Answer:
        """Ask in the session; in another one, if it ended without a transaction."""
        was_open = self.is_open
        try:
            place = self._place or self._open()
            return self._client.ask(method, f"{place}/{what}", body, **options)
        except Unreachable:
            self._forget()
            raise
        except NoSession as error:
            self._forget()
            if was_open:
                raise SessionEnded(
                    f"the transaction is gone, and nothing of it was committed: {error}"
                ) from None
            return self._client.ask(method, f"{self._open()}/{what}", body, **options)

    def _forget(self) -> None:
        self._place, self._transaction = None, _NO_TRANSACTION

    def _take_state(self, answer: Answer) -> None:
        self._branch = unquote(answer.headers["livingdb-branch"])
        self._transaction = answer.headers["livingdb-transaction"]


def _result(answer: Answer) -> Result:
    """The rows of an answer; `LimitExceeded` if they are not all."""
    with pa.ipc.open_stream(answer.body) as reader:
        rows = reader.read_all()
    if "livingdb-more" in answer.headers:
        raise LimitExceeded(
            f"the server sends at most {rows.num_rows:,} rows, and there are more: ask for less"
        )
    made = answer.headers.get("livingdb-snapshot")
    return Result(rows, made, int(answer.headers["livingdb-changed"]))


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    """Rows in parts that a server takes."""
    count = max(1, -(-rows.nbytes // _PART_BYTES))
    size = max(1, -(-rows.num_rows // count))
    yield from (rows.slice(at, size) for at in range(0, max(1, rows.num_rows), size))


def _after_part(error: LivingDBError) -> LivingDBError:
    """An error that ended the transaction; none of data, for which SQL would try row by row."""
    kind = LivingDBError if type(error) is InvalidData else type(error)
    made = kind(f"{error}; the transaction was rolled back, as others of the rows were in it")
    made.code = error.code
    return made
