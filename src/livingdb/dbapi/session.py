"""What a connection works through: the statements and the tables of one branch, near or far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.result import Result
    from livingdb.tables.schema import TableSchema

__all__ = ["Session"]


class Session(Protocol):
    """Runs statements on a branch; errors are LivingDB's own.

    Without a transaction that is open each change is one of its own.
    """

    @property
    def branch_name(self) -> str:
        """The branch that statements work on."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        ...

    @property
    def has_changes(self) -> bool:
        """Whether a transaction is open that has written something."""
        ...

    @property
    def is_read_only(self) -> bool:
        """Whether the whole database is only read."""
        ...

    def begin(self, isolation: str) -> object:
        """Open a transaction."""
        ...

    def execute(self, text: str, parameters: Parameters = None) -> Result:
        """Run one statement; BEGIN, COMMIT, ROLLBACK and USE BRANCH are among them."""
        ...

    def insert(self, table: str, data: object) -> int:
        """Insert many rows in one go, all or none; how many they are."""
        ...

    def rollback(self) -> None:
        """Let go of what was not committed."""
        ...

    def end(self) -> None:
        """Let go of everything; nothing is asked of it afterwards."""
        ...

    # --- what there is -----------------------------------------------------------------------

    def branches(self) -> list[str]:
        """The names of the branches."""
        ...

    def table_schemas(self, branch: str | None = None) -> dict[str, TableSchema]:
        """What the tables of a branch hold, by name; of its own, what the transaction sees."""
        ...

    def indexes(self, table: str, branch: str | None = None) -> Mapping[str, Sequence[str]]:
        """The indexes of a table, as it is at the head of a branch: names and columns."""
        ...

    def query(self, text: str, branch: str) -> Result:
        """The answer of a branch, as its head is now."""
        ...
