"""A transaction as users hold it: several changes that become one snapshot, or none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from threading import RLock
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

from livingdb.access.roles import Role
from livingdb.commit.writing.transaction import BranchTransaction
from livingdb.database.snapshot import Snapshot, check_limit
from livingdb.database.table import TableReader
from livingdb.engines.tree_parts import TreeParts
from livingdb.errors import InvalidData, RuleViolation
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from livingdb.chunks.address import Address
    from livingdb.database.branch import Branch
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.query_plan import QueryPlan
    from livingdb.sql.result import Result
    from livingdb.tables.rows import RowSet
    from livingdb.tables.schema import GeneratedLike, SchemaLike, UniqueLike

__all__ = ["Transaction", "check_message"]


Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _in_turn(
    act: Callable[Concatenate[Transaction, Arguments], Answer],
) -> Callable[Concatenate[Transaction, Arguments], Answer]:
    """A method that waits until no other thread is in one of the same transaction."""

    @wraps(act)
    def wait_and_act(
        self: Transaction, /, *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Answer:
        with self._turn:
            return act(self, *arguments, **named)

    return wait_and_act


class WrittenTable(TableReader):
    """A table with what an open transaction had written when it asked for it."""

    def __init__(
        self, name: str, rows: RowSet, root: Callable[[RowSet], Address], engine: str | None
    ):
        super().__init__(name, rows, engine)
        self._root = root

    def root(self) -> str:
        """The canonical root of the tree that its rows make; nothing is stored."""
        return self._root(self.rows).hex()


class Transaction:
    """For use as a context manager: left normally it commits, left by an error it does nothing.

    Threads may share it: each call is whole, and waits for those of other threads.  What comes
    after the end of the transaction is refused, in whichever thread it ended.
    """

    def __init__(
        self,
        branch: Branch,
        message: str | None,
        author: str,
        isolation: str,
        operation: str = "",
        *,
        at: object = None,
    ):
        self.branch = branch
        self.snapshot: Snapshot | None = None
        self._message, self._author = check_message(message), author
        self._operations: list[str] = [operation] if operation else []
        self._batch: tuple[str, int] | None = None
        self._turn = RLock()
        self._work: BranchTransaction | None = branch._begin(isolation, at)

    @property
    def work(self) -> BranchTransaction:
        """The changes so far; `NotFound` if who acts here sees its branch no more."""
        found = self._open_work()
        self.branch.database._require_seen(found.branch)
        return found

    @property
    def has_changes(self) -> bool:
        """Whether something was written that waits to be committed."""
        return self._work is not None and not self._work.is_empty

    def _open_work(self) -> BranchTransaction:
        if self._work is None:
            raise RuleViolation("rule 1: the transaction has ended; begin another one")
        return self._work

    def _check_rights(self, role: Role = Role.WRITER) -> BranchTransaction:
        """The changes so far; `Forbidden` unless who acts here may add to them what takes a role.

        The commit looks once more: rights may be withdrawn in between.
        """
        found = self.work
        found.check_rights(self._author, role)
        return found

    def __enter__(self) -> Self:
        return self

    @_in_turn
    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._work is None:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    @_in_turn
    def commit(self) -> Snapshot:
        """Make the snapshot; the transaction ends, whatever comes of it."""
        work, self._work = self._open_work(), None
        operation = " ".join(dict.fromkeys(self._operations)) or "transaction"
        row = work.commit(operation, self._author, self._message, self._batch)
        self.snapshot = Snapshot(self.branch.database, row)
        return self.snapshot

    @_in_turn
    def rollback(self) -> None:
        """End the transaction; nothing of it remains."""
        self._work = None

    # --- reading -----------------------------------------------------------------------------

    @_in_turn
    def tables(self) -> list[str]:
        """The tables the transaction sees."""
        return self.work.tables()

    @_in_turn
    def table(self, name: str) -> WrittenTable:
        """A table with the changes made so far."""
        work = self.work
        root, engine = partial(work.root, name), self.branch.database.engine
        return WrittenTable(name, work.rows(name), root, engine)

    @_in_turn
    def sql(
        self,
        text: str,
        parameters: Parameters = None,
        engine: str | None = None,
        *,
        most: int | None = None,
    ) -> Result:
        """A query, or a change that joins the transaction; what is not portable runs on Spark.

        `most` is how many rows of a query are wanted: no more is computed than these need.
        """
        from livingdb.database.sql_scope import TransactionScope
        from livingdb.sql.statement import execute

        is_embedded = self.branch.database.engine == "embedded"
        usual = "embedded" if is_embedded else None
        wanted = check_limit(most, "most")
        return execute(TransactionScope(self), text, parameters, engine or usual, wanted)

    @_in_turn
    def plan(
        self, text: str, parameters: Parameters = None, engine: str | None = None
    ) -> QueryPlan | None:
        """A query over what it sees now, to be computed later; None if it is no query."""
        from livingdb.database.sql_scope import TransactionScope

        return self.branch.database._plan(TransactionScope(self), text, parameters, engine)

    # --- writing -----------------------------------------------------------------------------

    @_in_turn
    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        key: str | Sequence[str],
        *,
        defaults: Mapping[str, object] | None = None,
        foreign_keys: Mapping[str, str] | None = None,
        unique: UniqueLike | None = None,
        generated: GeneratedLike | None = None,
        layout: Layout | None = None,
    ) -> None:
        """A new, empty table."""
        described = TableSchema.of(
            schema, key, defaults, foreign_keys, unique=unique, generated=generated
        )
        definition = Definition(described, layout or Layout())
        self._check_rights(Role.MAINTAINER).create_table(name, definition)
        self._operations.append("create_table")

    @_in_turn
    def mark(self, stream: str, batch: int) -> None:
        """The transaction is a batch of a stream, to be committed once."""
        self._batch = (stream, batch)

    @_in_turn
    def replace(self, table: str, built: TreeParts, is_drawn: bool = False) -> None:
        """Put rows that are in trees already in place of all rows of a table.

        `is_drawn`: their columns that always draw have numbers that were drawn for them.
        """
        self._check_rights().replace(table, built, is_drawn)
        self._operations.append("load")

    @_in_turn
    def insert(self, table: str, data: object) -> int:
        """Put rows whose keys are not there yet; `DuplicateKey` if one is."""
        found = self._check_rights().insert(table, data)
        self._operations.append("insert")
        return found

    @_in_turn
    def insert_returning(
        self, table: str, data: object, answer: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """Put rows as `insert` does; what is answered to them as they are then, by key."""
        found = self._check_rights().insert_returning(table, data, answer)
        self._operations.append("insert")
        return found

    @_in_turn
    def upsert(self, table: str, data: object) -> int:
        """Put rows, in place of those with the same keys."""
        found = self._check_rights().upsert(table, data)
        self._operations.append("upsert")
        return found

    @_in_turn
    def update(self, table: str, data: object) -> int:
        """Set some columns of rows that are there; `MissingKey` if one is not."""
        found = self._check_rights().update(table, data)
        self._operations.append("update")
        return found

    @_in_turn
    def delete(self, table: str, keys: object, *, strict: bool = False) -> int:
        """Delete rows by key; absent keys are ignored unless `strict`."""
        found = self._check_rights().delete(table, keys, strict)
        self._operations.append("delete")
        return found


def check_message(message: object) -> str:
    """What the log says about it; nothing, if nothing was said."""
    if message is None:
        return ""
    if not isinstance(message, str):
        raise InvalidData(f"a message is a text, not {type(message).__name__}")
    return message
