"""LivingDB through Python's database API (PEP 249).

    import livingdb.dbapi

    with livingdb.dbapi.connect("shop.ldb", branch="main") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id, amount FROM orders WHERE city = ?", ["Oslo"])
        cursor.fetchall()

`livingdb://host:8765/?branch=main`, with a token, is a database at a server.

A connection works on one branch.  Statements that follow each other are one transaction until
`commit`, unless the connection is in `autocommit` mode.
"""

from livingdb.dbapi.connection import Connection
from livingdb.dbapi.cursor import Cursor
from livingdb.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from livingdb.dbapi.open_connection import connect
from livingdb.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 2  # threads may share the module and connections
paramstyle = "qmark"  # `:name` with a dict, too
