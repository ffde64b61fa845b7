"""Tags: names that stay on their snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Table, bindparam, select
from sqlalchemy.exc import IntegrityError

from livingdb.catalog import schema
from livingdb.catalog.forgotten import check_kept
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.errors import AlreadyExists

__all__ = ["TagRow", "Tags", "check_free"]

_branch, _tag = schema.branch, schema.tag
_tags = SealedRows(_tag)
_BY_NAME = _tags.every.where(_tag.c.name == bindparam("name"))
_CALLED = {
    table: PreparedStatement(select(table.c.name).where(table.c.name == bindparam("called")))
    for table in (_branch, _tag)
}


@dataclass(frozen=True, slots=True)
class TagRow:
    """A tag."""

    name: str
    snapshot: int
    time: int


class Tags:
    """Reads and writes tags.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def find(self, name: str) -> TagRow | None:
        """The tag of that name."""
        row = self._queries.first(_BY_NAME, {"name": name})
        return None if row is None else TagRow(*_tags.read(row))

    def all(self) -> list[TagRow]:
        """Every tag, by name."""
        rows = self._queries.all(_tags.every.order_by(_tag.c.name))
        return [TagRow(*_tags.read(row)) for row in rows]

    def add(self, connection: Connection, name: str, snapshot: int, time: int) -> None:
        """A new tag; `AlreadyExists` if a tag or a branch has the name."""
        check_free(connection, "branch", _branch, name)
        check_kept(connection, snapshot)
        try:
            _tags.insert(connection, [{"name": name, "snapshot": snapshot, "time": time}])
        except IntegrityError:
            raise AlreadyExists(f"there is a tag {name!r} already") from None

    def drop(self, connection: Connection, name: str) -> bool:
        """Remove a tag; whether there was one."""
        return _tags.delete(connection, _tag.c.name == name) == 1


def check_free(connection: Connection, what: str, table: Table, name: str) -> None:
    """A ref means one thing: nothing new is called what something of the other kind is called."""
    if _CALLED[table].fetch(connection, {"called": name}):
        raise AlreadyExists(f"there is a {what} {name!r} already")
