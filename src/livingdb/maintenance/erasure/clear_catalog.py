"""Clearing the catalog: what was deleted from its tables leaves its files, too."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Engine, text

from livingdb.catalog import schema
from livingdb.catalog.sql.sqlite import reading_engine
from livingdb.errors import LivingDBError

__all__ = ["clear_catalog"]


def clear_catalog(engine: Engine) -> list[str]:
    """Write the tables anew, without room for what was in them before; what could not be.

    SQLite's write-ahead log is emptied with it.  Of PostgreSQL's own log and backups nobody here
    can say what they hold.
    """
    try:
        with reading_engine(engine).connect() as connection:
            if engine.dialect.name == "sqlite":
                return _clear_sqlite(connection.connection.dbapi_connection)
            for table in schema.metadata.sorted_tables:
                connection.execute(text(f'VACUUM (FULL) "{table.name}"'))
    except (sqlite3.Error, LivingDBError) as error:
        return [f"free pages of the catalog: {error}"]
    return []


def _clear_sqlite(connection: Any) -> list[str]:
    connection.execute("VACUUM")
    (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return ["the write-ahead log of the catalog, which somebody reads"] if is_busy else []
