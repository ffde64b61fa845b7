"""Branches as readers see them: those that have yet to follow a commit do so when they are read.

A commit to tables that all branches of a group share is a *step* of the catalog: one row, however
many branches are to follow.  Their snapshots are made of it before anybody sees one of them: the
same that the commit would have made.  Who moves a branch, or says where it is, loses to a step
that it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from livingdb.catalog.branches import Branches, BranchRow, behind_error, branch_row, by_ids
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import NewSnapshot, SnapshotRow
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.steps import StepRow
from livingdb.chunks.address import Address
from livingdb.errors import Corruption, Locked
from livingdb.graph.course import Course, Leg, followers
from livingdb.graph.edge_ends import carried_details
from livingdb.graph.snapshot import Edge, SnapshotRecord, TableMap
from livingdb.graph.snapshot_time import snapshot_time

if TYPE_CHECKING:
    from livingdb.graph.graph import Graph
    from livingdb.graph.storage.staging import Staging

__all__ = ["BranchesInStep"]

_AT_ONCE = 64
_OPERATION = "sync"


class BranchesInStep(Branches):
    """The branches of a graph; what is read of them has followed every step."""

    def __init__(self, graph: Graph):
        super().__init__(graph.catalog.queries, graph.catalog.tags)
        self._graph = graph
        self._steps = graph.catalog.steps
        self._courses: dict[str, Course] = {}
        self._pending: dict[str, Course] = {}
        self._seen = 0
        self._lock = RLock()
        self._following = RLock()

    # --- reading -----------------------------------------------------------------------------

    def _read(self, statement: PreparedStatement, values: Mapping[str, Any]) -> list[BranchRow]:
        rows = super()._read(statement, values)
        if self._graph.is_read_only:
            return self._check_read(rows, statement, values)
        if not self._are_behind(rows) or self._graph.catalog.is_writing:
            return rows
        return self._follow(statement, values)

    def _check_read(
        self, rows: list[BranchRow], statement: PreparedStatement, values: Mapping[str, Any]
    ) -> list[BranchRow]:
        """What a statement found, for who cannot follow: a branch that is behind is refused.

        Of several, those that are behind say so.
        """
        while rows and rows[0].step:
            behind = followers(self._steps.courses())
            again = super()._read(statement, values)
            if again == rows:
                break
            rows = again
        else:
            return rows
        if len(rows) == 1 and rows[0].id in behind:
            raise behind_error(rows[0])
        return [replace(row, is_behind=row.id in behind) for row in rows]

    def follow(self) -> None:
        """Let every branch follow every step, unless the database is only read."""
        if not self._graph.is_read_only and self._steps.since(0):
            self.all()

    def _are_behind(self, rows: Sequence[BranchRow]) -> bool:
        """Whether one of some branches, seen at one time, may have a step to follow."""
        if not rows or not rows[0].step:
            return False
        with self._lock:
            if rows[0].step > self._seen:
                self._note(self._steps.since(self._seen))
            return any(
                row.id in course.branches for course in self._pending.values() for row in rows
            )

    def _note(self, steps: Sequence[StepRow]) -> None:
        for step in steps:
            if step.course not in self._pending:
                course = self._find_course(step.course)
                if course is not None:
                    self._pending[step.course] = course
            self._seen = max(self._seen, step.id)

    def _find_course(self, name: str) -> Course | None:
        """A course; None if everybody who was on it has followed."""
        known = self._courses.get(name)
        if known is None:
            text = self._steps.legs(name)
            if text is None:
                return None
            known = self._courses[name] = Course.from_text(name, text)
        return known

    def _follow(self, statement: PreparedStatement, values: Mapping[str, Any]) -> list[BranchRow]:
        """What a statement finds, once all branches have followed all steps."""
        graph = self._graph
        while True:
            with self._following, graph.stage() as staging:
                with graph.catalog.write() as connection:
                    steps = self._steps.oldest(connection, _AT_ONCE)
                    made = self._take(steps, connection, staging)
                    found = statement.run(connection, values).fetchall()
                    staging.keep()
                graph.publish(made, staging)
            with self._lock:
                self._pending.clear()
                self._seen = steps[-1].id if steps else 0
            rows = [branch_row(row) for row in found]
            if not self._are_behind(rows):
                return rows

    # --- moving ------------------------------------------------------------------------------

    def move_all(
        self, connection: Connection, moves: Sequence[tuple[BranchRow, int, int, str]]
    ) -> bool:
        """Move branches that are still where they were seen; whether all of them were."""
        is_moved = super().move_all(connection, moves)
        return is_moved and not self.are_overtaken(connection, [branch for branch, *_ in moves])

    def is_at(self, connection: Connection, branch: BranchRow) -> bool:
        """Whether a branch is still where it was seen."""
        return super().is_at(connection, branch) and not self.are_overtaken(connection, [branch])

    def are_overtaken(self, connection: Connection, branches: Sequence[BranchRow]) -> bool:
        """Whether there is a step that one of some branches had not followed when it was seen."""
        oldest = min((branch.step for branch in branches), default=0)
        return bool(branches) and any(
            self.reaches(step, [branch.id for branch in branches if branch.step < step.id])
            for step in self._steps.since(oldest, connection)
        )

    def reaches(self, step: StepRow, branches: Iterable[BranchId]) -> bool:
        """Whether one of some branches follows a step."""
        course = self._find_course(step.course)
        return course is None or not course.branches.isdisjoint(branches)

    # --- following ---------------------------------------------------------------------------

    def _take(
        self, steps: Sequence[StepRow], connection: Connection, staging: Staging
    ) -> list[tuple[SnapshotRow, SnapshotRecord]]:
        """Let branches follow steps, in a transaction; the snapshots that makes."""
        if not steps:
            return []
        graph, catalog = self._graph, self._graph.catalog
        courses = [self._require_course(step) for step in steps]
        ids = {branch for course in courses for branch in course.branches}
        statement, values = by_ids(ids)
        places: dict[BranchId, _Place] = {}
        for found in statement.run(connection, values).fetchall():
            branch = branch_row(found)
            head = graph.snapshots.at(branch.head)
            places[branch.id] = _Place(branch, head, graph.record(head.address).map)
        made: list[tuple[SnapshotRow, SnapshotRecord]] = []
        numbered: dict[int, SnapshotRow] = {}
        for step, course in zip(steps, courses, strict=True):
            cause = graph.snapshots.at(step.snapshot)
            changed = self._changed_tables(cause)
            at = {course.start: cause.address}
            new: list[NewSnapshot] = []
            records: list[SnapshotRecord] = []
            for leg in course.legs:
                place = _require_place(places, leg)
                record = place.following(leg, cause, step.time, at[leg.source], changed, staging)
                stored = record.to_chunk()
                staging.sink(stored)
                at[leg.branch] = stored.address
                edge = record.edge
                told = edge.time, edge.kind, edge.author, edge.message
                new.append(NewSnapshot(stored.address, (place.head,), *told))
                records.append(record)
            rows = graph.snapshots.add_all(connection, new, numbered)
            catalog.touches.add_all(connection, ((row.sequence, changed) for row in rows))
            for leg, row, record in zip(course.legs, rows, records, strict=True):
                places[leg.branch].stand_on(row, record, step.time)
                numbered[row.sequence] = row
                made.append((row, record))
        staging.finish_packs()
        staging.write(connection)
        if not self._advance(connection, [(place.row, place.stops) for place in places.values()]):
            raise Locked("branches that have a commit to follow are being moved; try again")
        self._steps.remove(connection, steps[-1].id)
        return made

    def _require_course(self, step: StepRow) -> Course:
        course = self._find_course(step.course)
        if course is None:
            raise Corruption(f"the course {step.course} of step {step.id} is missing")
        return course

    def _changed_tables(self, cause: SnapshotRow) -> dict[str, Address | None]:
        """The tables that a commit changed, as they are there."""
        graph = self._graph
        assert cause.first is not None
        before, after = graph.tables(graph.snapshots.at(cause.first)), graph.tables(cause)
        return {name: at for name, at in after.items() if before.get(name) != at}


@dataclass
class _Place:
    """Where a branch stands that follows, and by which snapshots it came there."""

    row: BranchRow
    head: SnapshotRow
    map: TableMap
    stops: list[tuple[int, int, str]] = field(default_factory=list)

    def following(
        self,
        leg: Leg,
        cause: SnapshotRow,
        time: int,
        source: Address,
        changed: Mapping[str, Address | None],
        staging: Staging,
    ) -> SnapshotRecord:
        """The snapshot by which it follows on a leg."""
        details = carried_details(leg.sync_name, leg.sync, leg.source, source, leg.is_right)
        edge = Edge(
            "propagate",
            _OPERATION,
            cause.author,
            snapshot_time(time, [self.head.time]),
            cause.message,
            {leg.source_name: source.hex()},
            {**details, "rows": {}},
        )
        tables = self.map.with_changes(changed, staging.sink)
        return SnapshotRecord((self.head.address,), edge, tables)

    def stand_on(self, row: SnapshotRow, record: SnapshotRecord, time: int) -> None:
        """It came to a snapshot."""
        self.head, self.map = row, record.map
        self.stops.append((row.sequence, time, _OPERATION))


def _require_place(places: Mapping[BranchId, _Place], leg: Leg) -> _Place:
    found = places.get(leg.branch)
    if found is None:
        raise Corruption(f"a branch that follows {leg.source_name!r} is missing from the catalog")
    return found
