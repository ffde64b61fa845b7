"""Branches: the names that move.

A branch's `position` counts its movements, which its log names (see `movements`).  Who moves it
says how it saw it, so that two writers never overwrite each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    and_,
    bindparam,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
)
from sqlalchemy.exc import IntegrityError

from livingdb.catalog import schema
from livingdb.catalog.branch_log import lines, log_line, log_lines, operation_text
from livingdb.catalog.dropped_branches import DroppedBranchRow, note_dropped
from livingdb.catalog.forgotten import check_kept
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.sealed_rows import DIGEST, SealedRows, Swap
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.tags import TagRow, Tags, check_free
from livingdb.errors import AlreadyExists, Corruption, Locked

__all__ = ["EPOCH", "BranchRow", "Branches", "behind_error", "branch_row", "by_ids"]

EPOCH = "epoch"
_PART = 256
_LAST_POSITION = (1 << 31) - 1
_IS_BRANCH, _IS_TAG, _IS_EPOCH = 0, 1, 2
_branch, _log, _tag = schema.branch, schema.branch_log, schema.tag
_branches, _facts = map(SealedRows, (_branch, schema.meta))


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A branch as it is now; `head` is a snapshot's number.

    `epoch` changes when chunks are dropped that a transaction may have built upon.  `number` is
    the catalog's own: it says which of two branches was made first.  `chain` is the digest of the
    newest line of its log, `digest` that of its own row.  `step` is the newest step that somebody
    was to follow when the branch was seen, 0 if there was none.  `is_behind`: it has steps to
    follow, and who sees it cannot, so that `head` is where it was.
    """

    id: BranchId
    name: str
    head: int
    position: int
    origin: str | None
    origin_head: int | None
    time: int
    epoch: str
    number: int
    chain: bytes
    digest: bytes
    step: int
    is_behind: bool = False

    @property
    def head_name(self) -> str:
        """What its head is called where heads are shown."""
        return f"{self.name} (behind)" if self.is_behind else self.name


_is_epoch = schema.meta.c.name == EPOCH
_epoch = select(schema.meta.c.value).where(_is_epoch).scalar_subquery()
_epoch_digest = select(schema.meta.c.digest).where(_is_epoch).scalar_subquery()
_newest_step = select(func.coalesce(func.max(schema.step.c.id), 0)).scalar_subquery()
_EVERY = select(_branch, _epoch, _epoch_digest, _newest_step)
_ALL = PreparedStatement(_EVERY.order_by(_branch.c.name))
_PAGE = PreparedStatement(
    _EVERY.where(_branch.c.name > bindparam("after"))
    .order_by(_branch.c.name)
    .limit(bindparam("most"))
)
_BY_HEAD = PreparedStatement(
    _EVERY.where(
        or_(
            _branch.c.head > bindparam("head"),
            and_(_branch.c.head == bindparam("head"), _branch.c.number > bindparam("number")),
        )
    )
    .order_by(_branch.c.head, _branch.c.number)
    .limit(bindparam("most"))
)
_BY_NAME = PreparedStatement(_EVERY.where(_branch.c.name == bindparam("name")))


def _given(count: int) -> list[BindParameter[Any]]:
    return [bindparam(f"n{at}") for at in range(count)]


@cache
def _by_ids(count: int) -> PreparedStatement:
    return PreparedStatement(_EVERY.where(_branch.c.id.in_(_given(count))))


def by_ids(ids: Collection[BranchId]) -> tuple[PreparedStatement, dict[str, BranchId]]:
    """What finds branches by their ids, and its values."""
    given = {f"n{at}": one for at, one in enumerate(ids)}
    return _by_ids(len(given)), given


@cache
def _sum_of_positions(count: int) -> PreparedStatement:
    mine = select(_branch.c.position).where(_branch.c.number.in_(_given(count)))
    held = mine.with_for_update().subquery()
    return PreparedStatement(select(func.sum(held.c.position)))


_SEEN = (*_branches.columns, DIGEST)
_seen_values = attrgetter(*_SEEN)
_MOVE = Swap(_branches, ("head", "position", "chain"), _epoch == bindparam("epoch"))
_NAMED = PreparedStatement(
    union_all(
        select(literal(_IS_EPOCH), schema.meta.c.value, schema.meta.c.digest).where(_is_epoch),
        select(literal(_IS_BRANCH), literal(""), null()).where(
            exists().where(_branch.c.name == bindparam("name"))
        ),
        select(literal(_IS_TAG), literal(""), null()).where(
            exists().where(_tag.c.name == bindparam("name"))
        ),
    )
)


_Stop = tuple[int, int, str]
"""The number of a snapshot that a branch comes to, when, and by which operation."""


class Branches:
    """Reads and moves branches.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries, tags: Tags):
        self._queries = queries
        self._tags = tags

    def follow(self) -> None:
        """Let every branch follow every step: here they are as the catalog has them."""

    def has_steps(self, connection: Connection | None = None) -> bool:
        """Whether there are steps that branches have yet to follow, as a transaction sees it."""
        found = select(exists().where(schema.step.c.id > 0))
        if connection is None:
            return bool(self._queries.scalar(found))
        return bool(connection.execute(found).scalar())

    def find(self, name: str) -> BranchRow | None:
        """The branch of that name."""
        rows = self._read(_BY_NAME, {"name": name})
        return rows[0] if rows else None

    def _read(self, statement: PreparedStatement, values: Mapping[str, Any]) -> list[BranchRow]:
        """The branches that a statement finds, all seen at one time."""
        return [branch_row(row) for row in self._queries.run_prepared(statement, values)]

    def branch_or_tag(self, name: str) -> tuple[BranchRow | TagRow | None, str]:
        """The branch or else the tag of that name, and the epoch."""
        rows = {kind: rest for kind, *rest in self._queries.run_prepared(_NAMED, {"name": name})}
        found: BranchRow | TagRow | None = None
        if _IS_BRANCH in rows:
            found = self.find(name)
        elif _IS_TAG in rows:
            found = self._tags.find(name)
        return found, _checked_epoch(*rows.get(_IS_EPOCH, (None, None)))

    def all(self) -> list[BranchRow]:
        """Every branch, by name."""
        return self._read(_ALL, {})

    def followed(self) -> list[BranchRow]:
        """The same; `Locked` if one of them is behind."""
        rows = self.all()
        for row in rows:
            if row.is_behind:
                raise behind_error(row)
        return rows

    def names(self) -> dict[BranchId, str]:
        """What every branch is called."""
        return {row.id: row.name for row in self.all()}

    def names_of(self, ids: Collection[BranchId]) -> dict[BranchId, str]:
        """What those of these ids are called that are there, however many others there are.

        If one is not, all rows are compared: it may be there under an id that is damaged.
        """
        wanted = sorted(ids)
        found: dict[BranchId, str] = {}
        for start in range(0, len(wanted), _PART):
            rows = self._queries.run_prepared(*by_ids(wanted[start : start + _PART]))
            found |= {row.id: row.name for row in map(branch_row, rows)}
        if len(found) < len(wanted):
            for row in self._queries.run_prepared(_ALL, {}):
                branch_row(row)
        return found

    def pages(self, after: str, size: int | None) -> Iterator[BranchRow]:
        """The branches whose names come after one, by name; read so many at a time, or all."""
        if size is None:
            yield from (row for row in self.all() if not after or row.name > after)
            return
        while size > 0:
            rows = self._page(after, size)
            yield from rows
            if len(rows) < size:
                return
            after = rows[-1].name

    def _page(self, after: str, size: int) -> list[BranchRow]:
        return self._read(_PAGE, {"after": after, "most": size})

    def by_head(self, head: int, number: int, most: int) -> list[BranchRow]:
        """So many branches in the order of their heads, after one of that head and number."""
        return self._read(_BY_HEAD, {"head": head, "number": number, "most": most})

    def by_id(self, branch: BranchId) -> BranchRow | None:
        """The branch of that id."""
        return self.by_ids([branch]).get(branch)

    def by_ids(self, ids: Collection[BranchId]) -> dict[BranchId, BranchRow]:
        """The branches of these ids, by id and in their order, all seen at one time."""
        if not ids:
            return {}
        found = {row.id: row for row in self._read(*by_ids(ids))}
        return {one: found[one] for one in ids if one in found}

    def count(self) -> int:
        """How many branches there are."""
        return int(self._queries.scalar(select(func.count()).select_from(_branch)))

    def last_position(self, branch: BranchRow) -> int:
        """Up to where the movements of a branch count: all there are."""
        return _LAST_POSITION

    def add(
        self,
        connection: Connection,
        name: str,
        head: int,
        time: int,
        origin: str | None = None,
        operation: str = "clone",
        author: str = "",
        message: str = "",
        branch: BranchId | None = None,
        is_new: bool = False,
    ) -> BranchId:
        """A new branch and its id; `AlreadyExists` if a branch or a tag has the name.

        `is_new`: its head is a snapshot of this transaction, which nobody has forgotten.
        """
        branch = branch or new_id()
        check_free(connection, "tag", _tag, name)
        if not is_new:
            check_kept(connection, head)
        (number,) = _branches.next_numbers(connection, 1)
        log = log_lines(number, [(head, time, operation_text(operation, author, message))])
        values = {
            "number": number,
            "id": branch,
            "name": name,
            "head": head,
            "position": 0,
            "origin": origin,
            "origin_head": None if origin is None else head,
            "time": time,
            "chain": log[-1][DIGEST],
        }
        try:
            _branches.insert(connection, [values])
        except IntegrityError:
            raise AlreadyExists(f"there is a branch {name!r} already") from None
        lines.insert_sealed(connection, log)
        return branch

    def is_at(self, connection: Connection, branch: BranchRow) -> bool:
        """Whether a branch is still where it was seen."""
        position = select(_branch.c.position).where(_branch.c.number == branch.number)
        return bool(connection.execute(position).scalar() == branch.position)

    def is_current(self, connection: Connection, branch: BranchRow) -> bool:
        """Whether a branch is where it was seen, and the syncs are those of then."""
        epoch = connection.execute(select(schema.meta.c.value).where(_is_epoch)).scalar()
        return epoch == branch.epoch and self.is_at(connection, branch)

    def lock(
        self, connection: Connection, branches: Collection[BranchRow], group: str = ""
    ) -> None:
        """Keep everybody else from moving branches until the transaction ends.

        All who lock several do so in one order, so that none waits for another in a circle; those
        who name one group wait for each other first.
        """
        if group and connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(group, 0))))
        wanted = _branch.c.number.in_([branch.number for branch in branches])
        mine = select(_branch.c.number).where(wanted).order_by(_branch.c.number)
        connection.execute(mine.with_for_update())

    def move(
        self, connection: Connection, branch: BranchRow, head: int, time: int, operation: str
    ) -> bool:
        """Move a branch that is still where it was seen; whether it was."""
        return self.move_all(connection, [(branch, head, time, operation)])

    def move_all(
        self, connection: Connection, moves: Sequence[tuple[BranchRow, int, int, str]]
    ) -> bool:
        """Move branches that are still where they were seen; whether all of them were.

        Each goes to the snapshot of a number, at a time, by an operation; one that is named more
        than once goes by way of all of them.
        """
        ways: dict[int, tuple[BranchRow, list[_Stop]]] = {}
        for branch, head, time, how in moves:
            ways.setdefault(branch.number, (branch, []))[1].append((head, time, how))
        return self._advance(connection, list(ways.values()))

    def _advance(
        self, connection: Connection, ways: Sequence[tuple[BranchRow, Sequence[_Stop]]]
    ) -> bool:
        """Move branches that are still where they were seen, each by way of some snapshots."""
        if not ways:
            return True
        made: list[dict[str, Any]] = []
        changes = []
        for branch, stops in ways:
            chain = branch.chain
            for position, stop in enumerate(stops, branch.position + 1):
                made.append(log_line(branch.number, position, *stop, chain))
                chain = made[-1][DIGEST]
            seen = dict(zip(_SEEN, _seen_values(branch), strict=True))
            new = {"head": stops[-1][0], "position": branch.position + len(stops), "chain": chain}
            changes.append((seen, new, {"epoch": branch.epoch}))
        if _MOVE.run(connection, changes) != len(ways):
            return False
        lines.insert_sealed(connection, made)
        return True

    def count_movements(self, connection: Connection, numbers: Sequence[int]) -> int:
        """How often branches have moved in all; they stay where they are in this transaction."""
        given = {f"n{at}": number for at, number in enumerate(numbers)}
        found = _sum_of_positions(len(given)).run(connection, given).fetchone()
        return int(found[0] or 0)

    def rename(self, connection: Connection, branch: BranchRow, name: str) -> bool:
        """Give a branch another name; whether it was there under the one it was seen with.

        Branches that came from it come from what it is called now.
        """
        of_branch = _branch.c.number == branch.number, _branch.c.name == branch.name
        try:
            found = _branches.update(connection, of_branch, {"name": name})
        except IntegrityError:
            raise AlreadyExists(f"there is a branch {name!r} already") from None
        came_from = _branch.c.origin == branch.name, _branch.c.time >= branch.time
        _branches.update(connection, came_from, {"origin": name})
        return len(found) == 1

    def drop(self, connection: Connection, branch: BranchRow, time: int) -> None:
        """Remove a branch and its log; what it was called and where it stood is remembered."""
        note_dropped(
            connection,
            DroppedBranchRow(branch.number, branch.id, branch.name, branch.head, time),
        )
        lines.delete(connection, _log.c.branch == branch.number)
        _branches.delete(connection, _branch.c.number == branch.number)


@lru_cache(maxsize=16_384)
def _checked_row(row: tuple[Any, ...]) -> dict[str, Any]:
    """What the catalog says of a branch, compared with its digest once while it stays the same."""
    return {**_branches.named(row), DIGEST: row[-1]}


def behind_error(branch: BranchRow) -> Locked:
    """For who only reads a branch that has steps to follow."""
    return Locked(
        f"the branch {branch.name!r} has commits of others to follow, which takes "
        "somebody who can write the database: open it once for writing"
    )


def branch_row(row: tuple[Any, ...]) -> BranchRow:
    """A row that `by_ids` finds, as a branch."""
    *stored, epoch, epoch_mark, step = row
    known = _checked_row(tuple(stored))
    return BranchRow(**known, epoch=_checked_epoch(epoch, epoch_mark), step=step)


@lru_cache(maxsize=64)
def _checked_epoch(value: str | None, mark: bytes | None) -> str:
    if value is None:
        raise Corruption("the catalog is damaged: table 'meta' has no row 'epoch'")
    _facts.read((EPOCH, value, mark))
    return value
