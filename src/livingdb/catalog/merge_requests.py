"""Merge requests, what was said about them, and the rules of branches that they lead to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.ids import BranchId
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries

__all__ = [
    "CLOSED",
    "MERGED",
    "MERGE_ONLY",
    "OPEN",
    "STATES",
    "MergeEventRow",
    "MergeRequestRow",
    "MergeRequests",
]

OPEN, MERGED, CLOSED = "open", "merged", "closed"
STATES = (OPEN, MERGED, CLOSED)
MERGE_ONLY = "merge_only"
"""What the rule of a branch says that takes nothing but merges."""

_request, _event, _rule = schema.merge_request, schema.merge_event, schema.merge_rule
_requests, _events, _rules = SealedRows(_request), SealedRows(_event), SealedRows(_rule)


@dataclass(frozen=True)
class MergeRequestRow:
    """A wish that a branch be merged into another; `snapshot` is the number of the merge."""

    number: int
    source: BranchId
    target: BranchId
    title: str
    description: str
    author: str
    time: int
    state: str
    snapshot: int | None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MergeEventRow:
    """What somebody said or did about a request, and the snapshot of the source that they saw."""

    id: int
    request: int
    time: int
    kind: str
    author: str
    text: str
    head: str


class MergeRequests:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._verified = 0

    def add(self, connection: Connection, row: Mapping[str, Any]) -> int:
        """A new request, open; its number."""
        values = {**row, "state": OPEN, "snapshot": None, "details": json.dumps(row["details"])}
        return int(_requests.insert_numbered(connection, [values])[0])

    def find(self, number: int, connection: Connection | None = None) -> MergeRequestRow | None:
        """The request of that number."""
        if connection is None:
            found = _requests.find(self._queries, number=number)
            return None if found is None else _request_row(found)
        row = connection.execute(_requests.every.where(_request.c.number == number)).first()
        return None if row is None else _request_row(_requests.read(row))

    def all(
        self, state: str | None = None, limit: int | None = None, before: int | None = None
    ) -> list[MergeRequestRow]:
        """Requests, newest first: all, or those in a state; those before one, by its number."""
        statement = _requests.every.order_by(_request.c.number.desc()).limit(limit)
        if state is not None:
            statement = statement.where(_request.c.state == state)
        if before is not None:
            statement = statement.where(_request.c.number < before)
        return [_request_row(row) for row in _requests.read_all(self._queries.all(statement))]

    def set_state(
        self, connection: Connection, number: int, before: str, after: str, at: int | None = None
    ) -> bool:
        """Let a request be in another state; False if it is not in the one before."""
        where = [_request.c.number == number, _request.c.state == before]
        return bool(_requests.update(connection, where, {"state": after, "snapshot": at}))

    def add_event(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """What somebody said or did."""
        _events.insert_numbered(connection, [row])

    def events(self, number: int, connection: Connection | None = None) -> list[MergeEventRow]:
        """What was said and done about a request, in order."""
        statement = _events.every.where(_event.c.request == number).order_by(_event.c.id)
        if connection is None:
            self._verify_events()
            rows = self._queries.all(statement)
        else:
            rows = list(connection.execute(statement))
        return [MergeEventRow(*row) for row in _events.read_all(rows)]

    def _verify_events(self) -> None:
        """Look at rows that are new: none of them is of a request by a damaged number."""
        new = _events.every.where(_event.c.id > self._verified).order_by(_event.c.id)
        for row in _events.read_all(self._queries.all(new))[-1:]:
            self._verified = row[0]

    def rule(self, branch: BranchId, connection: Connection | None = None) -> dict[str, Any]:
        """What a branch asks of requests; nothing, if it has no rule."""
        if connection is None:
            found = _rules.find(self._queries, branch=branch)
        else:
            row = connection.execute(_rules.every.where(_rule.c.branch == branch)).first()
            found = None if row is None else _rules.read(row)
        return {} if found is None else dict(json.loads(found[1]))

    def rules(self) -> dict[BranchId, dict[str, Any]]:
        """What branches ask, of those that do."""
        rows = _rules.read_all(self._queries.all(_rules.every))
        return {branch: dict(json.loads(spec)) for branch, spec in rows}

    def set_rule(self, connection: Connection, branch: BranchId, spec: Mapping[str, Any]) -> None:
        """Let a branch ask something of requests; nothing takes its rule away."""
        _rules.delete(connection, _rule.c.branch == branch)
        if spec:
            _rules.insert(connection, [{"branch": branch, "spec": json.dumps(dict(spec))}])


def _request_row(values: Sequence[Any]) -> MergeRequestRow:
    named: dict[str, Any] = dict(zip(_requests.columns, values, strict=True))
    return MergeRequestRow(**{**named, "details": json.loads(named["details"])})
