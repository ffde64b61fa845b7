"""The session of a connection to a database that is open in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livingdb.database.sql_session import SqlSession

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.sql.result import Result

__all__ = ["DatabaseSession"]


class DatabaseSession(SqlSession):
    """A `Session` on a branch of a database, which it closes if it is its owner."""

    def __init__(self, database: Database, branch: str | None, is_owner: bool) -> None:
        chosen = database.default_branch if branch is None else database.branch(branch)
        super().__init__(database, chosen)
        self._is_owner = is_owner

    @property
    def branch_name(self) -> str:
        """The branch that statements work on."""
        return self.branch.name

    @property
    def is_read_only(self) -> bool:
        """Whether the whole database is only read."""
        return self.database.read_only is not None

    def rollback(self) -> None:
        """Let go of what was not committed."""
        self.close()

    def end(self) -> None:
        """Let go of everything."""
        self.close()
        if self._is_owner:
            self.database.close()

    def branches(self) -> list[str]:
        """The names of the branches."""
        return [str(branch) for branch in self.database.branches()]

    def indexes(self, table: str, branch: str | None = None) -> dict[str, tuple[str, ...]]:
        """The indexes of a table, as it is at the head of a branch: names and columns."""
        return self.database.branch(branch or self.branch.name).table(table).indexes()

    def query(self, text: str, branch: str) -> Result:
        """The answer of a branch, as its head is now."""
        return self.database.branch(branch).sql(text)
