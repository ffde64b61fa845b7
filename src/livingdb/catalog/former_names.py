"""What branches and syncs were called before: by records of earlier formats, and by people.

Records of formats up to 4 name branches by their numbers in the catalog and syncs by their names.
What a migration found is kept for good, so that those records are read on as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.ids import ID_DIGITS, BranchId, SyncId
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["BRANCH_NAME", "BRANCH_NUMBER", "RENAMED", "SYNC_NAME", "FormerNames"]

BRANCH_NUMBER, BRANCH_NAME, SYNC_NAME = "branch number", "branch name", "sync name"
RENAMED = "renamed branch"

_former = schema.former_name
_rows = SealedRows(_former)


class FormerNames:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def branch(self, text: str) -> BranchId:
        """The id of a branch that a record names, by id or as earlier formats did."""
        if len(text) == ID_DIGITS:
            return text
        return self._in_records.get((BRANCH_NUMBER, text), text)

    def branch_named(self, name: str) -> BranchId | None:
        """The branch that a record of an earlier format names by its name."""
        return self._in_records.get((BRANCH_NAME, name))

    def sync_named(self, name: str) -> SyncId | None:
        """The sync that a record of an earlier format names by its name."""
        return self._in_records.get((SYNC_NAME, name))

    def renamed(self, name: str) -> BranchId | None:
        """The branch that gave up a name last."""
        row = _rows.find(self._queries, kind=RENAMED, name=name)
        return None if row is None else str(row[2])

    def add_renamed(self, connection: Connection, name: str, branch: BranchId) -> None:
        """A branch gives up a name."""
        _rows.put(connection, [{"kind": RENAMED, "name": name, "id": branch}])

    @cached_property
    def _in_records(self) -> Mapping[tuple[str, str], str]:
        """What a migration wrote down, which nobody changes."""
        rows = _rows.read_all(self._queries.all(_rows.every))
        return {(kind, name): given for kind, name, given in rows if kind != RENAMED}
