"""Clearing tables: what was deleted from them leaves the files of the database, too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Engine, Table, text

from livingdb.catalog.sql.sqlite import reading_engine
from livingdb.errors import LivingDBError

__all__ = ["clear_tables"]


def clear_tables(engine: Engine, tables: Iterable[Table]) -> bool:
    """Write tables anew, without room for what was in them before; whether that was possible.

    SQLite's write-ahead log is emptied with it.  Of PostgreSQL's own log and backups nobody here
    can say what they hold.
    """
    try:
        with reading_engine(engine).connect() as connection:
            if engine.dialect.name == "sqlite":
                return _clear_sqlite(connection.connection.dbapi_connection)
            for table in tables:
                connection.execute(text(f'VACUUM (FULL) "{table.name}"'))
    except (sqlite3.Error, LivingDBError):
        return False
    return True


def _clear_sqlite(connection: Any) -> bool:
    connection.execute("VACUUM")
    (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not is_busy
