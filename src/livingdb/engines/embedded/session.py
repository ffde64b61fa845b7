"""The embedded engine: DuckDB in this process, without files, network or settings."""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.duckdb_dialect import NotEmbedded, to_duckdb_sql
from livingdb.engines.embedded.engine_errors import (
    TOO_MUCH,
    NoSuchColumn,
    original_error,
    translate_error,
)
from livingdb.engines.embedded.macros import MACROS
from livingdb.engines.embedded.memory_parts import PARTS, current_part
from livingdb.engines.embedded.recursion import answer_recursion
from livingdb.engines.embedded.results import as_stored_types, null_types_as_text
from livingdb.engines.embedded.value_sizes import OVER_LIMIT, VECTOR_ROWS, are_too_large
from livingdb.engines.portable.portability import PortableQuery, as_spark_types
from livingdb.engines.request import Request, Source, parameters_of
from livingdb.engines.row_stream import BATCH_ROWS, RowStream, one_batch
from livingdb.engines.tree_parts import TreeParts, build_part, collect_parts
from livingdb.engines.unquoted_text import quotes_hint
from livingdb.errors import InvalidData, LimitExceeded, NotFound, Unsupported
from livingdb.files.read_only import temporary_folder
from livingdb.interruption import current_interruption
from livingdb.tables import ingest
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet

if TYPE_CHECKING:
    import duckdb

    from livingdb.engines.embedded.arrow_dataset import RowSetDataset

__all__ = ["EmbeddedEngine", "NotEmbedded", "Session", "limit_memory"]


_lock = threading.Lock()

_instances: dict[tuple[int, bool, str, int | None], duckdb.DuckDBPyConnection] = {}
"""By process, by whether failures are isolated, by the memory that queries may take, and by part.

A parent's is kept and never closed: its threads did not survive the fork.
"""


_memory_limit = ""
"""What queries of this process may take together, as DuckDB writes it; "" for its own limit."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]i?)?B(?:ytes?)?", re.IGNORECASE)
_EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def limit_memory(limit: int | str) -> None:
    """Let queries of this process take so many bytes, or "2 GB"; beyond that they spill to disk."""
    global _memory_limit  # noqa: PLW0603
    text = f"{limit}B" if isinstance(limit, int) and not isinstance(limit, bool) else limit
    found = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if found is None or not float(found[1]):
        raise InvalidData(f"memory_limit {limit!r}: a number of bytes, or a text like '2 GB'")
    _memory_limit = str(text)


def _database(isolates_failures: bool) -> tuple[duckdb.DuckDBPyConnection, int | None]:
    """The instance of this process, or of a part of its memory, and the bytes of that part.

    A forked child makes its own.
    """
    part = current_part()
    with _lock:
        if part is None:
            return _instance(isolates_failures, _memory_limit, None), None
        whole = _memory_limit or _own_limit(_instance(isolates_failures, "", None))
        most_bytes = _size_bytes(whole) // PARTS
        return _instance(isolates_failures, f"{most_bytes}B", part), most_bytes


def _own_limit(instance: duckdb.DuckDBPyConnection) -> str:
    found = instance.execute("SELECT current_setting('memory_limit')").fetchone()
    assert found is not None
    return str(found[0])


def _size_bytes(text: str) -> int:
    found = _SIZE.fullmatch(text)
    assert found is not None
    unit = (found[2] or "").lower()
    return int(float(found[1]) * (1024 if "i" in unit else 1000) ** _EXPONENTS[unit[:1]])


def _instance(
    isolates_failures: bool, memory_limit: str, part: int | None
) -> duckdb.DuckDBPyConnection:
    place = os.getpid(), isolates_failures, memory_limit, part
    if place not in _instances:
        _instances[place] = _start(isolates_failures, memory_limit)
    return _instances[place]


def _start(isolates_failures: bool, memory_limit: str) -> duckdb.DuckDBPyConnection:
    import duckdb

    # No two instances spill to one folder: they would write each other's files.
    place = temporary_folder()
    spill = f"livingdb-{os.getpid()}-{secrets.token_hex(4)}"
    database = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "enable_external_access": "false",
            "python_enable_replacements": "false",
            "temp_directory": "" if place is None else os.path.join(place, spill),
            **({"memory_limit": memory_limit} if memory_limit else {}),
            # What is computed once for several places is computed outside of TRY.
            **({"disabled_optimizers": "common_subexpressions"} if isolates_failures else {}),
        },
    )
    database.execute("SET TimeZone = 'UTC'")
    if memory_limit:  # else nothing is measured, and making functions of Python takes long
        from duckdb.func import ARROW

        database.create_function(
            "spark_too_large", are_too_large, ["DOUBLE", "DOUBLE"], "BOOLEAN", type=ARROW
        )
    for macro in MACROS:
        database.execute(f"CREATE MACRO {macro}")
    database.execute("SET lock_configuration = true")
    return database


class Session:
    """A connection for one statement.  Not for use by two threads at once.

    `isolates_failures`: what fails inside of TRY is null, however often it is written there.
    """

    def __init__(self, isolates_failures: bool = False) -> None:
        database, self._most_bytes = _database(isolates_failures)
        self._connection = database.cursor()
        self._value_bytes = self._value_limit()
        self._scanned: list[RowSetDataset] = []
        self._count = 0
        self._watched = ExitStack()

    def _value_limit(self) -> int | None:
        """What texts and lists may take that DuckDB computes together; None if nothing is said."""
        most_bytes = self._most_bytes
        if most_bytes is None and _memory_limit:
            most_bytes = _size_bytes(_memory_limit)
        if most_bytes is None:
            return None
        [(threads,)] = self._connection.execute("SELECT current_setting('threads')").fetchall()
        return max(most_bytes // int(threads), 1)

    def __enter__(self) -> Session:
        interruption = current_interruption()
        if interruption is not None:
            self._watched.enter_context(interruption.watch(self._connection.interrupt))
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; what it was computing is let go of."""
        self._watched.close()
        self._connection.close()

    def register(self, source: RowSetDataset | pa.Table, name: str | None = None) -> str:
        """Let SQL see the rows; the name to call them by."""
        if name is None:
            name = f"given_{self._count}"
            self._count += 1
        if not isinstance(source, pa.Table):
            self._scanned.append(source)
        try:
            self._connection.register(name, source)
        except Exception as error:
            raise self._cause(error) from None
        return name

    def prepare_sql(self, request: Request) -> str:
        """The request's query as DuckDB reads it, once its sources can be seen.

        Finding out whether it is portable notes the types by which the text means what Spark
        means.
        """
        return self.duckdb_sql(self._prepare(request))

    def duckdb_sql(self, query: exp.Query, *, of_tables: bool = True) -> str:
        """A query as DuckDB reads it, within the memory of the session; its tree is changed.

        `of_tables`: it is tables that it reads, and not what it made before.
        """
        return to_duckdb_sql(query, self._value_bytes, of_tables=of_tables)

    def check_held(self, size_bytes: int) -> None:
        """`Unsupported` for rows that a query holds, if they take more than texts and lists may."""
        if self._value_bytes is not None and size_bytes > self._value_bytes:
            raise Unsupported(TOO_MUCH)

    def _prepare(self, request: Request) -> exp.Query:
        _ = request.portable
        ends_early = _ends_early(request.query)
        for name, source in request.sources.items():
            self.register(_readable(source, ends_early), name)
        return request.query.copy()

    def answer(self, request: Request) -> pa.Table:
        """The rows of a request, in types LivingDB stores."""
        query = self._prepare(request)
        answer_recursion(query, self, request.parameters)
        return self.query(self.duckdb_sql(query), parameters_of(query, request.parameters))

    def stream(self, request: Request) -> RowStream:
        """The rows of a request as they come, the first of them computed; the session ends then."""
        query = self._prepare(request)
        answer_recursion(query, self, request.parameters)
        text = self.duckdb_sql(query)
        relation = self._relation(text, parameters_of(query, request.parameters))
        kinds = [str(kind) for kind in relation.types]
        try:
            reader = relation.to_arrow_reader(_batch_rows(text))
        except Exception as error:
            raise self._cause(error) from None
        schema = as_stored_types(reader.schema.empty_table(), kinds).schema
        batches = self._stored_batches(reader, kinds)
        return RowStream(schema, batches, self.close)

    def _stored_batches(
        self, reader: pa.RecordBatchReader, kinds: list[str]
    ) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except Exception as error:
                raise self._cause(original_error(error)) from None
            yield from as_stored_types(pa.Table.from_batches([batch]), kinds).to_batches()

    def columns(self, text: str, parameters: Mapping[str, object]) -> list[tuple[str, str]]:
        """Names and DuckDB types of the columns a query gives, without running it."""
        relation = self._relation(text, parameters)
        return [
            (name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)
        ]

    def query(self, text: str, parameters: Mapping[str, object]) -> pa.Table:
        """The rows a query gives, in types LivingDB stores."""
        relation = self._relation(text, parameters)
        kinds = [str(kind) for kind in relation.types]
        try:
            table = self._gather(relation, _batch_rows(text))
        except LimitExceeded:
            raise
        except Exception as error:
            raise self._cause(error) from None
        return as_stored_types(table, kinds)

    def _gather(self, relation: Any, batch_rows: int) -> pa.Table:
        """All rows; `LimitExceeded` if those of a user take more than the user's memory."""
        if self._most_bytes is None:
            return relation.to_arrow_table()
        reader = relation.to_arrow_reader(batch_rows)
        batches, size_bytes = [], 0
        for batch in reader:
            batches.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > self._most_bytes:
                raise LimitExceeded(
                    f"the answer takes more than {self._most_bytes:,} bytes, which is what the "
                    "queries of one user may take: ask for fewer rows or columns"
                )
        return pa.Table.from_batches(batches, reader.schema)

    def _relation(self, text: str, parameters: Mapping[str, object]) -> Any:
        try:
            return self._connection.sql(text, params=dict(parameters) or None)
        except Exception as error:
            raise self._cause(error) from None

    def _cause(self, error: Exception) -> Exception:
        """What went wrong, in LivingDB's words: a failed read is what the reader said it was."""
        interruption = current_interruption()
        if interruption is not None and interruption.reason is not None:
            return LimitExceeded(interruption.reason)
        for scanned in self._scanned:
            if scanned.failure is not None:
                return scanned.failure
        return translate_error(error)


def _batch_rows(text: str) -> int:
    """About how many rows of an answer come together: fewer where they may be large."""
    return 8 * VECTOR_ROWS if OVER_LIMIT in text else BATCH_ROWS


_CUT_SHORT = {"expressions", "from_", "where", "limit", "offset"}
"""The clauses of a query that gives each row as it reads it; any other may read on to the end."""


def _ends_early(query: exp.Query) -> bool:
    """Whether the first rows of its source may be all that a query needs."""
    if not isinstance(query, exp.Select) or not query.args.get("limit"):
        return False
    clauses = {clause for clause, said in query.args.items() if said}
    return clauses <= _CUT_SHORT and not query.find(exp.AggFunc, exp.Window, exp.Subquery)


def _readable(source: Source, ends_early: bool) -> RowSetDataset | pa.Table:
    """What DuckDB reads the rows from; `ends_early`: perhaps not all of them."""
    if not isinstance(source.rows, RowSet):
        return source.rows
    from livingdb.engines.embedded.arrow_dataset import RowSetDataset  # which imports pandas

    return RowSetDataset(source.rows, source.ranges, source.span, ends_early=ends_early)


@contextmanager
def _hinted_columns(request: Request) -> Iterator[None]:
    """Say of a column that is not there what may have been meant."""
    try:
        yield
    except NoSuchColumn as error:
        hint = quotes_hint(request.query, error.column)
        raise NotFound(f"{error}{hint}") from None


class EmbeddedEngine:
    """Answers requests in this process."""

    name = "embedded"

    def rows(self, request: Request) -> pa.Table:
        """The rows the query gives; in Spark's types, where they are known."""
        with _hinted_columns(request), Session() as session:
            found = session.answer(request)
        known = request.portable
        return as_spark_types(found, known) if isinstance(known, PortableQuery) else found

    def schema(self, request: Request) -> pa.Schema:
        """The columns of the rows the query gives, without computing these."""
        stream = self.stream(request)
        stream.close()
        return stream.schema

    def stream(self, request: Request) -> RowStream:
        """The rows the query gives, as they come."""
        with ExitStack() as ended, _hinted_columns(request):
            found = ended.enter_context(Session()).stream(request)
            ended.pop_all()  # it ends with the rows
        known = request.portable
        if not isinstance(known, PortableQuery):
            return found
        schema = as_spark_types(found.schema.empty_table(), known).schema

        def typed(batch: pa.RecordBatch) -> pa.RecordBatch:
            return one_batch(as_spark_types(pa.Table.from_batches([batch]), known))

        return found.map(schema, typed)

    def tree(self, request: Request, definition: Definition, url: str) -> TreeParts:
        """The rows the query gives as a tree, in packs of the files at a URL."""
        schema = definition.schema
        shape = definition.layout.grouping(schema).row_shape
        columns, _ = ingest.sorted_rows(schema, shape, null_types_as_text(self.rows(request)))
        return collect_parts(url, [build_part(url, definition.to_json(), [columns])])
