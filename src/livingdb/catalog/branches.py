"""Branches, their logs, and tags: the names that move.

A branch's `position` counts its movements.  Who moves it says how it saw it, so that two writers
never overwrite each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    LargeBinary,
    Select,
    Table,
    and_,
    bindparam,
    cast,
    exists,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    union_all,
)
from sqlalchemy.exc import IntegrityError

from livingdb.catalog import schema
from livingdb.catalog.branch_log import (
    CHECKPOINT,
    Movement,
    check_chain,
    check_next,
    is_movement,
    lines,
    log_line,
    log_lines,
    movement,
    operation_text,
)
from livingdb.catalog.dropped_branches import DroppedBranchRow, note_dropped
from livingdb.catalog.forgotten import check_kept
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.sealed_rows import DIGEST, SealedRows, Swap
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.errors import AlreadyExists, Corruption, Locked

__all__ = [
    "CHECKPOINT",
    "EPOCH",
    "BranchRow",
    "Branches",
    "Movement",
    "TagRow",
    "behind_error",
    "branch_row",
    "by_ids",
]

EPOCH = "epoch"
_PART = 256
_LAST_POSITION = (1 << 31) - 1
_IS_BRANCH, _IS_TAG, _IS_EPOCH = 0, 1, 2
_branch, _log, _tag = schema.branch, schema.branch_log, schema.tag
_branches, _tags, _facts = map(SealedRows, (_branch, _tag, schema.meta))


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


@dataclass(frozen=True, slots=True)
class TagRow:
    """A tag."""

    name: str
    snapshot: int
    time: int


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
_of_branch = _log.c.branch == bindparam("branch")
_newest_first = select(_log).where(_of_branch).order_by(_log.c.position.desc())
_LOG = _newest_first.where(
    _log.c.position > bindparam("after"), _log.c.position <= bindparam("upto")
)
_oldest_first = select(_log).where(_of_branch).order_by(_log.c.position)
_NEXT = _oldest_first.where(_log.c.position > bindparam("after")).limit(1)
_movements = _newest_first.where(
    _log.c.operation != CHECKPOINT, _log.c.position <= bindparam("upto")
).limit(1)
_LOG_AT = _movements.where(_log.c.time <= bindparam("time"))
_LOG_EXACTLY_AT = _movements.where(_log.c.time == bindparam("time"))
_following = _log.alias("following")
_RAN_BACK = (
    select(_log.c.position)
    .join(_following, (_following.c.branch == _log.c.branch))
    .where(_of_branch, _following.c.position == _log.c.position + 1)
    .where(_log.c.time >= bindparam("time"), _following.c.time < bindparam("time"))
    .where(_log.c.time - _following.c.time > bindparam("by"))
    .limit(1)
)
_LAST_MOVE_TO = _movements.where(_log.c.snapshot == bindparam("snapshot"))
_TAG_BY_NAME = _tags.every.where(_tag.c.name == bindparam("name"))
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
    """Reads and moves names.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._verified: dict[int, int] = {}

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
            found = self.tag(name)
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

    def log(self, branch: BranchRow, after: int = -1, upto: int | None = None) -> list[Movement]:
        """How the branch moved, newest first; after one movement and up to another."""
        rows = self._log_rows(branch, after, branch.position if upto is None else upto)
        return [movement(row) for row in rows if is_movement(row)]

    def _log_rows(self, branch: BranchRow, after: int, upto: int) -> list[Sequence[Any]]:
        """Lines of a log, newest first: all of them, or `Corruption`; none if it was dropped."""
        values = {"branch": branch.number, "after": after, "upto": upto}
        rows = self._queries.all(_LOG, values)
        try:
            if upto == branch.position:
                check_chain(branch.number, rows, after, upto, branch.chain)
            elif rows or upto < branch.position:
                end = min(upto, rows[0][1]) if rows else upto
                check_chain(branch.number, rows, after, end)
        except Corruption:
            if self.by_id(branch.id) is None:
                return []
            raise
        return rows

    def first_movements(self) -> dict[int, Movement]:
        """How each branch began, by its number."""
        rows = self._queries.all(lines.every.where(_log.c.position == 0))
        return {row[0]: movement(row) for row in rows}

    def last_move_to(self, branch: BranchRow, snapshot: int) -> Movement | None:
        """The branch's last movement to a snapshot."""
        self._verify_log(branch)
        return self._movement(_LAST_MOVE_TO, {**self._span(branch), "snapshot": snapshot})

    def log_at(self, branch: BranchRow, time: int) -> Movement | None:
        """The branch's newest movement whose time is not later; others before it may be later."""
        found = self._movement(_LOG_AT, {**self._span(branch), "time": time})
        last = -1 if found is None else found.position
        if last < branch.position:
            self._check_next(branch, last)
        return found

    def _check_next(self, branch: BranchRow, position: int) -> None:
        """Who looked for a time and found a line was not misled by a damaged one after it."""
        row = self._queries.first(_NEXT, {"branch": branch.number, "after": position})
        if row is not None or self.by_id(branch.id) is not None:
            check_next(branch.number, row, position)

    def log_exactly_at(self, branch: BranchRow, time: int) -> Movement | None:
        """The branch's newest movement that has this time."""
        self._verify_log(branch)
        return self._movement(_LOG_EXACTLY_AT, {**self._span(branch), "time": time})

    def _movement(self, statement: Select[Any], values: Mapping[str, Any]) -> Movement | None:
        found = self._queries.first(statement, values)
        return None if found is None else movement(found)

    def _verify_log(self, branch: BranchRow) -> None:
        """Look at new lines of a log, so that who searches it is not misled by damaged ones."""
        known = self._verified.get(branch.number, -1)
        if known < branch.position:
            self._log_rows(branch, known, branch.position)
            self._verified[branch.number] = branch.position

    def _span(self, branch: BranchRow) -> dict[str, int]:
        """The movements of a branch that count: all there are."""
        return {"branch": branch.number, "upto": _LAST_POSITION}

    def ran_back_over(self, branch: BranchRow, time: int, by: int) -> bool:
        """Whether the times of the branch's log once went back over a time, by more than that."""
        self._verify_log(branch)
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
        """A new branch and its id; `AlreadyExists` if a branch or a tag has the name."""
        branch = branch or new_id()
        _check_free(connection, "tag", _tag, name)
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

    def names_like(self, connection: Connection, name: str) -> list[tuple[str, str]]:
        """Branches and tags, each with its kind, that may be called so but for the case of letters.

        All that are so called are among them; which others are, is for the caller to see.
        """
        folded = name.casefold(), name.lower(), name.upper().lower()
        given = {f"n{at}": one for at, one in enumerate(folded)}
        return [(kind, found) for kind, found in _LIKE.fetch(connection, given)]

    def copy_log(
        self, connection: Connection, source: BranchRow, target: BranchId, since: int
    ) -> None:
        """Let a new branch that stands where another one did have been where that one was."""
        is_target = _branch.c.id == target
        number = connection.execute(select(_branch.c.number).where(is_target)).scalar_one()
        rows = connection.execute(
            lines.every.where(_log.c.branch == source.number, _log.c.position <= source.position)
            .where(_log.c.time >= since, _log.c.operation != CHECKPOINT)
            .order_by(_log.c.position)
        ).all()
        if not rows:
            return
        lines.delete(connection, _log.c.branch == number)
        known = [lines.named(row) for row in rows]
        copied = [(line["snapshot"], line["time"], line["operation"]) for line in known]
        made = log_lines(number, copied)
        lines.insert_sealed(connection, made)
        end = {"position": len(made) - 1, "chain": made[-1][DIGEST]}
        _branches.update(connection, [is_target], end)

    def cut_log(self, connection: Connection, branch: BranchRow, before: int) -> int:
        """Drop the movements before a position, but the first; how many went.

        A checkpoint stands where the last of them was, and goes on with their chain.
        """
        of_branch = _log.c.branch == branch.number
        at_cut = lines.every.where(of_branch, _log.c.position == before - 1)
        last = connection.execute(at_cut).first()
        if last is None or before < 2 or not is_movement(last):
            return 0
        checkpoint = {**lines.named(last), "operation": CHECKPOINT, "previous": last[-1]}
        lines.delete(connection, of_branch, _log.c.operation == CHECKPOINT)
        gone = lines.delete(connection, of_branch, _log.c.position.between(1, before - 1))
        lines.insert(connection, [checkpoint])
        return gone

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
        return self.move_all(connection, [(branch, head, operation)], time)

    def move_all(
        self, connection: Connection, moves: Sequence[tuple[BranchRow, int, str]], time: int
    ) -> bool:
        """Move branches that are still where they were seen; whether all of them were.

        Each goes to the snapshot of a number, by an operation; one that is named more than once
        goes by way of all of them.
        """
        ways: dict[int, tuple[BranchRow, list[_Stop]]] = {}
        for branch, head, how in moves:
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

    def movements(self, connection: Connection, numbers: Sequence[int]) -> int:
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

    # --- tags --------------------------------------------------------------------------------

    def tag(self, name: str) -> TagRow | None:
        """The tag of that name."""
        row = self._queries.first(_TAG_BY_NAME, {"name": name})
        return None if row is None else TagRow(*_tags.read(row))

    def tags(self) -> list[TagRow]:
        """Every tag, by name."""
        rows = self._queries.all(_tags.every.order_by(_tag.c.name))
        return [TagRow(*_tags.read(row)) for row in rows]

    def add_tag(self, connection: Connection, name: str, snapshot: int, time: int) -> None:
        """A new tag; `AlreadyExists` if a tag or a branch has the name."""
        _check_free(connection, "branch", _branch, name)
        check_kept(connection, snapshot)
        try:
            _tags.insert(connection, [{"name": name, "snapshot": snapshot, "time": time}])
        except IntegrityError:
            raise AlreadyExists(f"there is a tag {name!r} already") from None

    def drop_tag(self, connection: Connection, name: str) -> bool:
        """Remove a tag; whether there was one."""
        return _tags.delete(connection, _tag.c.name == name) == 1


_CALLED = {
    table: PreparedStatement(select(table.c.name).where(table.c.name == bindparam("called")))
    for table in (_branch, _tag)
}


def _may_be_like(table: Table) -> ColumnElement[bool]:
    """Names that are one of three in lower case, and all for which SQL may know no lower case."""
    is_plain = func.length(cast(table.c.name, LargeBinary)) == func.length(table.c.name)
    return or_(func.lower(table.c.name).in_(_given(3)), not_(is_plain))


_LIKE = PreparedStatement(
    union_all(
        *(
            select(literal(table.name), table.c.name).where(_may_be_like(table))
            for table in (_branch, _tag)
        )
    )
)


def _check_free(connection: Connection, what: str, table: Table, name: str) -> None:
    """A ref means one thing: nothing new is called what something of the other kind is called."""
    if _CALLED[table].fetch(connection, {"called": name}):
        raise AlreadyExists(f"there is a {what} {name!r} already")


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
