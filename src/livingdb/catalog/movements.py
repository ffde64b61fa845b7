"""How branches moved, as their logs say: where one was at a time, and when it came to a snapshot.

Who asks a log has seen the branch, whose row says how long the log is.  Lines that are passed over
in a search are compared with their digests, too, so that a damaged one misleads nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select

from livingdb.catalog import schema
from livingdb.catalog.branch_log import (
    CHECKPOINT,
    Movement,
    check_chain,
    check_next,
    is_movement,
    lines,
    log_lines,
    movement,
)
from livingdb.catalog.branches import Branches, BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.sealed_rows import DIGEST, SealedRows
from livingdb.catalog.sql.read_queries import Queries
from livingdb.errors import Corruption

__all__ = ["Movements"]

_branch, _log = schema.branch, schema.branch_log
_branch_rows = SealedRows(_branch)
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
_AT = _movements.where(_log.c.time <= bindparam("time"))
_EXACTLY_AT = _movements.where(_log.c.time == bindparam("time"))
_following = _log.alias("following")
_RAN_BACK = (
    select(_log.c.position)
    .join(_following, (_following.c.branch == _log.c.branch))
    .where(_of_branch, _following.c.position == _log.c.position + 1)
    .where(_log.c.time >= bindparam("time"), _following.c.time < bindparam("time"))
    .where(_log.c.time - _following.c.time > bindparam("by"))
    .limit(1)
)
_LAST_TO = _movements.where(_log.c.snapshot == bindparam("snapshot"))


class Movements:
    """Reads the logs of branches; that of a branch that was dropped is empty.

    What writes takes the connection of a transaction.
    """

    def __init__(self, queries: Queries, branches: Branches):
        self._queries = queries
        self._branches = branches
        self._verified: dict[int, int] = {}

    def of(self, branch: BranchRow, after: int = -1, upto: int | None = None) -> list[Movement]:
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
            if self._branches.by_id(branch.id) is None:
                return []
            raise
        return rows

    def first(self) -> dict[int, Movement]:
        """How each branch began, by its number."""
        rows = self._queries.all(lines.every.where(_log.c.position == 0))
        return {row[0]: movement(row) for row in rows}

    def last_to(self, branch: BranchRow, snapshot: int) -> Movement | None:
        """The branch's last movement to a snapshot."""
        self._verify_log(branch)
        return self._movement(_LAST_TO, branch, {"snapshot": snapshot})

    def at(self, branch: BranchRow, time: int) -> Movement | None:
        """The branch's newest movement whose time is not later; others before it may be later."""
        found = self._movement(_AT, branch, {"time": time})
        last = -1 if found is None else found.position
        if last < branch.position:
            self._check_next(branch, last)
        return found

    def _check_next(self, branch: BranchRow, position: int) -> None:
        """Who looked for a time and found a line was not misled by a damaged one after it."""
        row = self._queries.first(_NEXT, {"branch": branch.number, "after": position})
        if row is not None or self._branches.by_id(branch.id) is not None:
            check_next(branch.number, row, position)

    def exactly_at(self, branch: BranchRow, time: int) -> Movement | None:
        """The branch's newest movement that has this time."""
        self._verify_log(branch)
        return self._movement(_EXACTLY_AT, branch, {"time": time})

    def _movement(
        self, statement: Select[Any], branch: BranchRow, values: Mapping[str, int]
    ) -> Movement | None:
        """What a statement finds among the movements of a branch that count."""
        span = {"branch": branch.number, "upto": self._branches.last_position(branch)}
        found = self._queries.first(statement, {**span, **values})
        return None if found is None else movement(found)

    def _verify_log(self, branch: BranchRow) -> None:
        """Look at new lines of a log, so that who searches it is not misled by damaged ones."""
        known = self._verified.get(branch.number, -1)
        if known < branch.position:
            self._log_rows(branch, known, branch.position)
            self._verified[branch.number] = branch.position

    def ran_back_over(self, branch: BranchRow, time: int, by: int) -> bool:
        """Whether the times of the branch's log once went back over a time, by more than that."""
        self._verify_log(branch)
        values = {"branch": branch.number, "time": time, "by": by}
        return self._queries.first(_RAN_BACK, values) is not None

    def copy(self, connection: Connection, source: BranchRow, target: BranchId, since: int) -> None:
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
        _branch_rows.update(connection, [is_target], end)

    def cut(self, connection: Connection, branch: BranchRow, before: int) -> int:
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
