"""INSERT … ON CONFLICT, in the dialect of the database that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livingdb.errors import Unsupported

if TYPE_CHECKING:
    from sqlalchemy import Table

__all__ = ["insert_into"]


def insert_into(dialect: str, table: Table) -> Any:
    """An INSERT that may say what happens to rows that are there already.

    Only the dialect in use is imported: PostgreSQL's is a tenth of what a short command costs.
    """
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as insert_sqlite

        return insert_sqlite(table)
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_postgresql

        return insert_postgresql(table)
    raise Unsupported(f"a catalog needs SQLite or PostgreSQL, not {dialect}")
