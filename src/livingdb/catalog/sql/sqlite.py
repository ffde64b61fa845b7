"""SQLite engines as LivingDB uses them.

Write-ahead log, `synchronous=FULL`, and transactions that begin when SQLAlchemy says so: the
driver's own implicit transactions are off.  A transaction of `sqlite_engine(path)` is a plain
`BEGIN`: it reads one snapshot and never waits for a writer.  A transaction of
`writing_engine(engine)` is a `BEGIN IMMEDIATE`: it holds the write lock at once, so it
can never fail halfway because somebody else wrote first.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util import LRUCache

from livingdb.errors import Corruption, InvalidName, LivingDBError, Locked, StorageFailure
from livingdb.files.read_only import Refusal

__all__ = [
    "BEGIN_OPTION",
    "BUSY_TIMEOUT_SECONDS",
    "any_text",
    "file_problems",
    "locked_for_writing",
    "reading_engine",
    "sqlite_engine",
    "sqlite_failure",
    "sqlite_reading_engine",
    "writing_engine",
]

BUSY_TIMEOUT_SECONDS = 30.0

BEGIN_OPTION = "livingdb_begin"
"""The option of a connection that says how its transactions begin; empty for not at all."""

_BEFORE_THE_FIRST_TABLE = "PRAGMA page_size=1024; PRAGMA auto_vacuum=INCREMENTAL"
"""In this order: incremental vacuum writes the first page, and with it how large pages are."""

_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA wal_autocheckpoint=900",
    "PRAGMA journal_size_limit=983040",
    "PRAGMA foreign_keys=ON",
    "PRAGMA trusted_schema=OFF",
)

_FAILURES: dict[int, type[LivingDBError]] = {
    sqlite3.SQLITE_BUSY: Locked,
    sqlite3.SQLITE_LOCKED: Locked,
    sqlite3.SQLITE_CORRUPT: Corruption,
    sqlite3.SQLITE_NOTADB: Corruption,
    sqlite3.SQLITE_CANTOPEN: StorageFailure,
    sqlite3.SQLITE_FULL: StorageFailure,
    sqlite3.SQLITE_IOERR: StorageFailure,
    sqlite3.SQLITE_PERM: StorageFailure,
    sqlite3.SQLITE_READONLY: StorageFailure,
}

_PRIMARY_CODE = 0xFF
_MOST_PROBLEMS = 20

_REFUSAL_OPTION = "livingdb_refusal"
_CONDITION_OPTION = "livingdb_condition"
_WRITE_LOCK = "BEGIN IMMEDIATE"

_UNKNOWN_AFTER = (
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_DIR_FSYNC,
)
"""What a device says after which nobody knows what it holds; a full disk is none of these."""


@dataclass
class _Condition:
    """How the device has failed that a file is on, if it has."""

    failure: str | None = None


_UNKNOWN_NAME = ("no such column: ", "no such table: ")
"""Every statement is our own: a name that is not there was lost from the file."""

_NO_TEXT = "Could not decode to UTF-8 column"
_NO_SCHEMA = "the catalog is damaged: the schema in it is no text"


class _OneDialect(SQLiteDialect_pysqlite):
    """Equal to every other of its kind: a statement compiled for one file serves all files."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return type(other) is _OneDialect

    def __hash__(self) -> int:
        return hash(_OneDialect)


_DRIVER = "sqlite.livingdb"
registry.register(_DRIVER, __name__, _OneDialect.__name__)

_COMPILED: LRUCache[Any, Any] = LRUCache(2000)
"""Statements that were compiled, for all files."""


def sqlite_engine(path: str | Path, *, timeout_seconds: float = BUSY_TIMEOUT_SECONDS) -> Engine:
    """An engine on the SQLite file at `path`, made if it is not there.

    Every connection is durable at commit.  A writer waits up to `timeout_seconds` for another,
    then raises `Locked`; a full or failing disk raises `StorageFailure`, a file that is not a
    sound database `Corruption`.  Once a write or a sync has failed, what the disk holds is unknown:
    nothing more is written through this engine, and a new one has to be made.  Connections are made
    as needed, without a limit, so that a reader never queues behind writers for one.
    """
    engine = create_engine(
        URL.create(_DRIVER.replace(".", "+"), database=str(path)),
        connect_args={"timeout": timeout_seconds},
        execution_options={"compiled_cache": _COMPILED, _CONDITION_OPTION: _Condition()},
        max_overflow=-1,
    )

    def configure(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None
        with _schema_that_is_no_text():
            if connection.execute("PRAGMA page_count").fetchone() == (0,):
                connection.executescript(_BEFORE_THE_FIRST_TABLE)
            _use_write_ahead_log(connection, timeout_seconds)
            for pragma in _PRAGMAS:
                connection.execute(pragma)

    event.listen(engine, "connect", configure)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", _translate_error)
    return engine


def sqlite_reading_engine(path: str | Path, refusal: Refusal, *, fixed: bool = False) -> Engine:
    """An engine that only reads the SQLite file at `path`; who writes is told the refusal.

    `fixed`: nobody can write the media it is on, so that no lock is needed.
    """
    how = "mode=ro&immutable=1" if fixed else "mode=ro"
    name = f"file:{quote(str(path))}?{how}"

    def connect() -> sqlite3.Connection:
        found = sqlite3.connect(
            name, uri=True, timeout=BUSY_TIMEOUT_SECONDS, check_same_thread=False
        )
        found.isolation_level = None
        with _schema_that_is_no_text():
            for pragma in ("PRAGMA query_only=ON", "PRAGMA trusted_schema=OFF"):
                found.execute(pragma)
        return found

    engine = create_engine(
        URL.create(_DRIVER.replace(".", "+"), database=str(path)),
        creator=connect,
        poolclass=QueuePool,
        execution_options={"compiled_cache": _COMPILED, _REFUSAL_OPTION: refusal},
        max_overflow=-1,
    )
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", _translate_error)
    return engine


def reading_engine(engine: Engine) -> Engine:
    """The same engine and connections, for reads of one statement each: no `BEGIN` around it.

    Engines of other databases commit after every statement.
    """
    options: dict[str, Any] = {BEGIN_OPTION: ""}
    if engine.dialect.name != "sqlite":
        options["isolation_level"] = "AUTOCOMMIT"
    return engine.execution_options(**options)


def writing_engine(engine: Engine) -> Engine:
    """The same engine and connections, whose transactions take the write lock as they begin.

    Engines of other databases come back with their transactions unchanged.
    """
    return engine.execution_options(**{BEGIN_OPTION: _WRITE_LOCK})


@contextmanager
def locked_for_writing(connection: Connection) -> Iterator[None]:
    """A transaction that holds the write lock, on a connection of a `reading_engine`.

    It is the driver's own: for SQLAlchemy, these connections never begin nor end any.
    """
    _check_condition(connection)
    driver: Any = connection.connection.dbapi_connection
    try:
        driver.execute(_WRITE_LOCK)
    except Exception as error:
        raise sqlite_failure(error, connection) or error from None
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # what was raised says more
            driver.rollback()
        raise
    try:
        driver.commit()
    except BaseException as error:
        with suppress(sqlite3.Error):
            driver.rollback()
        raise sqlite_failure(error, connection) or error from None


def _begin(connection: Connection) -> None:
    statement = connection.get_execution_options().get(BEGIN_OPTION, "BEGIN")
    if statement == _WRITE_LOCK:
        _check_condition(connection)
    if statement:
        connection.exec_driver_sql(statement)


def _check_condition(connection: Connection) -> None:
    """`StorageFailure` for who writes to a device that has failed."""
    condition = connection.get_execution_options().get(_CONDITION_OPTION)
    if isinstance(condition, _Condition) and condition.failure:
        raise StorageFailure(
            f"the disk failed earlier ({condition.failure}), and what it holds since then is "
            "unknown; reopen the database"
        )


@contextmanager
def _schema_that_is_no_text() -> Iterator[None]:
    """`Corruption` where SQLite's words about a damaged schema cannot be read, either."""
    try:
        yield
    except UnicodeDecodeError:
        raise Corruption(_NO_SCHEMA) from None


def _use_write_ahead_log(connection: sqlite3.Connection, timeout_seconds: float) -> None:
    # The mode is a property of the file.  SQLite does not wait for locks while changing it,
    # so processes that make the same file at the same time have to try again.
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
        else:
            if mode != "wal":
                raise StorageFailure(f"SQLite cannot keep a write-ahead log here (mode {mode})")
            return
        time.sleep(0.005)


@contextmanager
def any_text(connection: Connection) -> Iterator[None]:
    """Let texts that are none be read from SQLite, with surrogates for the bytes that are wrong."""
    raw: Any = connection.connection.dbapi_connection
    if connection.dialect.name != "sqlite":
        yield
        return
    raw.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        raw.text_factory = str


def file_problems(connection: Connection) -> list[str]:
    """What SQLite finds wrong with its own pages and indexes; of another database nothing."""
    if connection.dialect.name != "sqlite":
        return []
    with any_text(connection):
        found = connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_PROBLEMS})")
        return [line for (line,) in found if line != "ok"]


def _translate_error(context: ExceptionContext) -> BaseException | None:
    place = context.connection or context.engine
    return sqlite_failure(context.original_exception, place)


def sqlite_failure(
    error: BaseException | None, place: Connection | Engine | None = None
) -> LivingDBError | None:
    """LivingDB's error for one of the driver, met at a place; None if it has no word for it."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, UnicodeDecodeError):
        return Corruption(_NO_SCHEMA)
    if isinstance(error, UnicodeEncodeError):
        return InvalidName(f"{error.object!r:.200} is not Unicode: it holds half a character")
    if code is None:
        is_damaged = isinstance(error, sqlite3.Error) and str(error).startswith(_NO_TEXT)
        what = "the catalog is damaged: a text in it is none; `check` names the row"
        return Corruption(f"{what} ({error})") if is_damaged else None
    options = {} if place is None else place.get_execution_options()
    condition, refusal = options.get(_CONDITION_OPTION), options.get(_REFUSAL_OPTION)
    if isinstance(condition, _Condition) and code in _UNKNOWN_AFTER:
        condition.failure = str(error)
    if isinstance(refusal, Refusal) and code & _PRIMARY_CODE == sqlite3.SQLITE_READONLY:
        if code == sqlite3.SQLITE_READONLY:
            return refusal.error()
        return Locked(f"SQLite: {error}: somebody is bringing the log in order; try again")
    is_unknown_name = code == sqlite3.SQLITE_ERROR and str(error).startswith(_UNKNOWN_NAME)
    kind = Corruption if is_unknown_name else _FAILURES.get(code & _PRIMARY_CODE)
    return None if kind is None else kind(f"SQLite: {error}")
