"""Branches, their logs, and tags: the names that move.

A branch's `position` counts its movements.  Who moves it says at which position it saw it, so
that two writers never overwrite each other.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import (
    BindParameter,
    Connection,
    bindparam,
    exists,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.exc import IntegrityError

from livingdb.catalog import schema
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.errors import AlreadyExists

__all__ = ["EPOCH", "BranchRow", "Branches", "Movement", "TagRow"]

EPOCH = "epoch"
_LAST_POSITION = (1 << 31) - 1
_IS_BRANCH, _IS_TAG, _IS_EPOCH = 0, 1, 2
_branch, _log, _tag = schema.branch, schema.branch_log, schema.tag


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A branch as it is now; `head` is a snapshot's number.

    `epoch` changes when chunks are dropped that a transaction may have built upon.  `number` is
    the catalog's own: it says which of two branches was made first.
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


@dataclass(frozen=True, slots=True)
class Movement:
    """One line of a branch's log; `author` and `message` are of what makes no snapshot."""

    position: int
    snapshot: int
    time: int
    operation: str
    author: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class TagRow:
    """A tag."""

    name: str
    snapshot: int
    time: int


_is_epoch = schema.meta.c.name == EPOCH
_epoch = select(schema.meta.c.value).where(_is_epoch).scalar_subquery()
_EVERY = select(
    _branch.c.id,
    _branch.c.name,
    _branch.c.head,
    _branch.c.position,
    _branch.c.origin,
    _branch.c.origin_head,
    _branch.c.time,
    _epoch,
    _branch.c.number,
)
_NAMES = PreparedStatement(select(_branch.c.id, _branch.c.name))
_BY_NAME = PreparedStatement(_EVERY.where(_branch.c.name == bindparam("name")))


@cache
def _by_ids(count: int) -> PreparedStatement:
    given: list[BindParameter[str]] = [bindparam(f"n{at}") for at in range(count)]
    return PreparedStatement(_EVERY.where(_branch.c.id.in_(given)))


_MOVE = PreparedStatement(
    _branch.update()
    .where(
        _branch.c.number == bindparam("which"),
        _branch.c.position == bindparam("seen"),
        _epoch == bindparam("epoch"),
    )
    .values(head=bindparam("to"), position=bindparam("next"))
)
_INSERT_LOG = PreparedStatement(_log.insert())
_of_branch = _log.c.branch == bindparam("branch")
_newest_first = (
    select(_log.c.position, _log.c.snapshot, _log.c.time, _log.c.operation)
    .where(_of_branch)
    .order_by(_log.c.position.desc())
)
_LOG = _newest_first.where(
    _log.c.position > bindparam("after"), _log.c.position <= bindparam("upto")
)
_newest_upto = _newest_first.where(_log.c.position <= bindparam("upto")).limit(1)
_LOG_AT = _newest_upto.where(_log.c.time <= bindparam("time"))
_LOG_EXACTLY_AT = _newest_upto.where(_log.c.time == bindparam("time"))
_following = _log.alias("following")
_RAN_BACK = (
    select(_log.c.position)
    .join(_following, (_following.c.branch == _log.c.branch))
    .where(_of_branch, _following.c.position == _log.c.position + 1)
    .where(_log.c.time >= bindparam("time"), _following.c.time < bindparam("time"))
    .where(_log.c.time - _following.c.time > bindparam("by"))
    .limit(1)
)
_LAST_MOVE_TO = _newest_upto.where(_log.c.snapshot == bindparam("snapshot"))
_TAG_BY_NAME = select(_tag).where(_tag.c.name == bindparam("name"))
_NAMED = PreparedStatement(
    union_all(
        select(literal(_IS_BRANCH), literal("")).where(
            exists().where(_branch.c.name == bindparam("name"))
        ),
        select(literal(_IS_TAG), literal("")).where(
            exists().where(_tag.c.name == bindparam("name"))
        ),
        select(literal(_IS_EPOCH), schema.meta.c.value).where(_is_epoch),
    )
)


class Branches:
    """Reads and moves names.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def find(self, name: str) -> BranchRow | None:
        """The branch of that name."""
        rows = self._queries.run_prepared(_BY_NAME, {"name": name})
        return BranchRow(*rows[0]) if rows else None

    def branch_or_tag(self, name: str) -> tuple[BranchRow | TagRow | None, str]:
        """The branch or else the tag of that name, and the epoch."""
        rows = dict(self._queries.run_prepared(_NAMED, {"name": name}))
        found: BranchRow | TagRow | None = None
        if _IS_BRANCH in rows:
            found = self.find(name)
        elif _IS_TAG in rows:
            found = self.tag(name)
        return found, rows[_IS_EPOCH]

    def all(self) -> list[BranchRow]:
        """Every branch, by name."""
        rows = self._queries.all(_EVERY.order_by(_branch.c.name))
        return [BranchRow(*row) for row in rows]

    def names(self) -> dict[BranchId, str]:
        """What every branch is called."""
        return dict(self._queries.run_prepared(_NAMES, {}))

    def by_id(self, branch: BranchId) -> BranchRow | None:
        """The branch of that id."""
        return self.by_ids([branch]).get(branch)

    def by_ids(self, ids: Collection[BranchId]) -> dict[BranchId, BranchRow]:
        """The branches of these ids, by id and in their order, all seen at one time."""
        if not ids:
            return {}
        given = {f"n{at}": one for at, one in enumerate(ids)}
        rows = self._queries.run_prepared(_by_ids(len(given)), given)
        found = {row[0]: BranchRow(*row) for row in rows}
        return {one: found[one] for one in ids if one in found}

    def count(self) -> int:
        """How many branches there are."""
        return int(self._queries.scalar(select(func.count()).select_from(_branch)))

    def log(self, branch: BranchRow, after: int = -1, upto: int | None = None) -> list[Movement]:
        """How the branch moved, newest first; after one movement and up to another."""
        span = {"after": after, "upto": branch.position if upto is None else upto}
        rows = self._queries.all(_LOG, {"branch": branch.number, **span})
        return [_movement(*row) for row in rows]

    def first_movements(self) -> dict[int, Movement]:
        """How each branch began, by its number."""
        first = _log.c.position == 0
        columns = (_log.c.branch, _log.c.position, _log.c.snapshot, _log.c.time, _log.c.operation)
        rows = self._queries.all(select(*columns).where(first))
        return {row[0]: _movement(*row[1:]) for row in rows}

    def last_move_to(self, branch: BranchRow, snapshot: int) -> Movement | None:
        """The branch's last movement to a snapshot."""
        found = self._queries.first(_LAST_MOVE_TO, {**self._span(branch), "snapshot": snapshot})
        return None if found is None else _movement(*found)

    def log_at(self, branch: BranchRow, time: int) -> Movement | None:
        """The branch's newest movement whose time is not later; others before it may be later."""
        found = self._queries.first(_LOG_AT, {**self._span(branch), "time": time})
        return None if found is None else _movement(*found)

    def log_exactly_at(self, branch: BranchRow, time: int) -> Movement | None:
        """The branch's newest movement that has this time."""
        found = self._queries.first(_LOG_EXACTLY_AT, {**self._span(branch), "time": time})
        return None if found is None else _movement(*found)

    def _span(self, branch: BranchRow) -> dict[str, int]:
        """The movements of a branch that count: all there are."""
        return {"branch": branch.number, "upto": _LAST_POSITION}

    def ran_back_over(self, branch: BranchRow, time: int, by: int) -> bool:
        """Whether the times of the branch's log once went back over a time, by more than that."""
        values = {"branch": branch.number, "time": time, "by": by}
        return self._queries.first(_RAN_BACK, values) is not None

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
    ) -> BranchId:
        """A new branch and its id; `AlreadyExists` if the name is taken."""
        branch = branch or new_id()
        values = {
            "id": branch,
            "name": name,
            "head": head,
            "position": 0,
            "origin": origin,
            "origin_head": None if origin is None else head,
            "time": time,
        }
        try:
            key = connection.execute(_branch.insert(), values).inserted_primary_key
        except IntegrityError:
            raise AlreadyExists(f"there is a branch {name!r} already") from None
        assert key is not None
        text = _operation_text(operation, author, message)
        _INSERT_LOG.run(connection, _log_line(key[0], 0, head, time, text))
        return branch

    def copy_log(
        self, connection: Connection, source: BranchRow, target: BranchId, since: int
    ) -> None:
        """Let a new branch that stands where another one did have been where that one was."""
        is_target = _branch.c.id == target
        number = connection.execute(select(_branch.c.number).where(is_target)).scalar_one()
        rows = connection.execute(
            select(_log.c.snapshot, _log.c.time, _log.c.operation)
            .where(_log.c.branch == source.number, _log.c.position <= source.position)
            .where(_log.c.time >= since)
            .order_by(_log.c.position)
        ).all()
        if not rows:
            return
        connection.execute(_log.delete().where(_log.c.branch == number))
        lines = [_log_line(number, at, s, t, how) for at, (s, t, how) in enumerate(rows)]
        _INSERT_LOG.run_many(connection, lines)
        moved = _branch.update().where(is_target)
        connection.execute(moved.values(position=len(rows) - 1))

    def is_at(self, connection: Connection, branch: BranchRow) -> bool:
        """Whether a branch is still where it was seen."""
        position = select(_branch.c.position).where(_branch.c.number == branch.number)
        return bool(connection.execute(position).scalar() == branch.position)

    def is_current(self, connection: Connection, branch: BranchRow) -> bool:
        """Whether a branch is where it was seen, and the syncs are those of then."""
        epoch = connection.execute(select(schema.meta.c.value).where(_is_epoch)).scalar()
        return epoch == branch.epoch and self.is_at(connection, branch)

    def lock(self, connection: Connection, branches: Collection[BranchRow]) -> None:
        """Keep everybody else from moving branches until the transaction ends.

        All who lock several do so in one order, so that none waits for another in a circle.
        """
        wanted = _branch.c.number.in_([branch.number for branch in branches])
        mine = select(_branch.c.number).where(wanted).order_by(_branch.c.number)
        connection.execute(mine.with_for_update())

    def move(
        self, connection: Connection, branch: BranchRow, head: int, time: int, operation: str
    ) -> bool:
        """Move a branch that is still where it was seen; whether it was."""
        return self.move_all(connection, [(branch, head, operation)], time)

    def move_all(
        self, connection: Connection, moves: Sequence[tuple[BranchRow, int, str]], time: int
    ) -> bool:
        """Move branches that are still where they were seen; whether all of them were.

        Each goes to the snapshot of a number, by an operation.
        """
        if not moves:
            return True
        found = _MOVE.run_many(
            connection,
            [
                {
                    "which": branch.number,
                    "seen": branch.position,
                    "to": head,
                    "next": branch.position + 1,
                    "epoch": branch.epoch,
                }
                for branch, head, _ in moves
            ],
        )
        if found != len(moves):
            return False
        lines = [
            _log_line(branch.number, branch.position + 1, head, time, how)
            for branch, head, how in moves
        ]
        _INSERT_LOG.run_many(connection, lines)
        return True

    def rename(self, connection: Connection, branch: BranchRow, name: str) -> bool:
        """Give a branch another name; whether it was there under the one it was seen with.

        Branches that came from it come from what it is called now.
        """
        of_branch = _branch.c.number == branch.number, _branch.c.name == branch.name
        try:
            found = connection.execute(_branch.update().where(*of_branch).values(name=name))
        except IntegrityError:
            raise AlreadyExists(f"there is a branch {name!r} already") from None
        came_from = _branch.c.origin == branch.name, _branch.c.time >= branch.time
        connection.execute(_branch.update().where(*came_from).values(origin=name))
        return found.rowcount == 1

    def drop(self, connection: Connection, branch: BranchRow) -> None:
        """Remove a branch and its log."""
        connection.execute(_log.delete().where(_log.c.branch == branch.number))
        connection.execute(_branch.delete().where(_branch.c.number == branch.number))

    # --- tags --------------------------------------------------------------------------------

    def tag(self, name: str) -> TagRow | None:
        """The tag of that name."""
        row = self._queries.first(_TAG_BY_NAME, {"name": name})
        return None if row is None else TagRow(*row)

    def tags(self) -> list[TagRow]:
        """Every tag, by name."""
        rows = self._queries.all(select(_tag).order_by(_tag.c.name))
        return [TagRow(*row) for row in rows]

    def add_tag(self, connection: Connection, name: str, snapshot: int, time: int) -> None:
        """A new tag; `AlreadyExists` if the name is taken."""
        try:
            connection.execute(_tag.insert(), {"name": name, "snapshot": snapshot, "time": time})
        except IntegrityError:
            raise AlreadyExists(f"there is a tag {name!r} already") from None

    def drop_tag(self, connection: Connection, name: str) -> bool:
        """Remove a tag; whether there was one."""
        return connection.execute(_tag.delete().where(_tag.c.name == name)).rowcount == 1


def _log_line(branch: int, position: int, head: int, time: int, how: str) -> dict[str, int | str]:
    return {
        "branch": branch,
        "position": position,
        "snapshot": head,
        "time": time,
        "operation": how,
    }


def _operation_text(operation: str, author: str, message: str) -> str:
    """What the log has of an operation: a word, or with who did it and why, the three as JSON."""
    if not author and not message:
        return operation
    return json.dumps({"operation": operation, "author": author, "message": message})


def _movement(position: int, snapshot: int, time: int, text: str) -> Movement:
    if not text.startswith("{"):
        return Movement(position, snapshot, time, text)
    known = json.loads(text)
    return Movement(position, snapshot, time, known["operation"], known["author"], known["message"])
