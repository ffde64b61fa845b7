"""Schema changes and merges that somebody watches for, and clocks that were set back: told in the
transaction that makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import fingerprint_of, raise_alert
from livingdb.alerts.watch import Merged, SchemaChanged, WatchTarget
from livingdb.catalog.alerts import WatchRow
from livingdb.catalog.branches import BranchRow
from livingdb.chunks.address import Address
from livingdb.errors import InvalidData
from livingdb.graph.draft import Action
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.tables.schema import TableSchema

__all__ = ["CommitWatches", "WatchedMove"]

WatchTargets = tuple[tuple[WatchRow, WatchTarget], ...]


@dataclass(frozen=True)
class WatchedMove:
    """A branch that moves to a snapshot, and what is known of why."""

    branch: BranchRow
    address: Address
    tables: Mapping[str, Address]
    author: str
    message: str
    time: int
    is_merge: bool


class CommitWatches:
    """The watches that every commit is held against; none of them costs nothing."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._known: tuple[str, WatchTargets] | None = None

    def alert_actions(self, moves: Sequence[WatchedMove]) -> list[Action]:
        """What the transaction of some moves tells those that watch for them."""
        return [act for move in moves if not is_hidden(move.branch.name) for act in self._of(move)]

    def watches_at(self, epoch: str) -> WatchTargets:
        """The watches as of an epoch of the catalog, which changes when they do."""
        known = self._known
        if known is None or known[0] != epoch:
            found = []
            for row in self._graph.catalog.watches.all():
                try:
                    what = WatchTarget.from_json(row.spec["on"])
                except InvalidData:
                    continue
                if isinstance(what, (SchemaChanged, Merged)):
                    found.append((row, what))
            known = self._known = epoch, tuple(found)
        return known[1]

    def _of(self, move: WatchedMove) -> list[Action]:
        actions: list[Action] = []
        changes: dict[str, str] | None = None
        for row, what in self.watches_at(move.branch.epoch):
            if isinstance(what, Merged):
                if move.is_merge and what.into in (None, move.branch.name):
                    text = f"{move.branch.name}: {move.message or 'merged'}"
                    actions.append(self._alert_action(row, what, move, text, {}))
            elif isinstance(what, SchemaChanged) and what.branch in (None, move.branch.name):
                if changes is None:
                    changes = self._schema_differences(move)
                mine = {n: c for n, c in changes.items() if what.table in (None, n)}
                if mine:
                    words = "; ".join(f"{name} {text}" for name, text in mine.items())
                    text = f"the schema of {move.branch.name} changed: {words}"
                    actions.append(self._alert_action(row, what, move, text, {"tables": mine}))
        return actions

    def _alert_action(
        self,
        row: WatchRow,
        what: WatchTarget,
        move: WatchedMove,
        text: str,
        more: Mapping[str, Any],
    ) -> Action:
        details = {
            "watch": row.name,
            "branch": move.branch.name,
            "snapshot": move.address.hex(),
            "author": move.author,
            **more,
        }
        # Each is an event of its own, however soon it follows another.
        mark = fingerprint_of(row.name, what.event, move.branch.name, move.address.hex())

        def act(connection: Connection) -> None:
            raise_alert(
                self._graph,
                connection,
                row.name,
                what.event,
                row.spec["severity"],
                text,
                move.time,
                details,
                mark,
                row.spec["alerts"],
            )

        return act

    def _schema_differences(self, move: WatchedMove) -> dict[str, str]:
        """The tables whose schema is not as it was, and how."""
        graph = self._graph
        before = graph.tables(graph.snapshots.at(move.branch.head))
        found = {}
        for name in sorted({*before, *move.tables}):
            old, new = before.get(name), move.tables.get(name)
            if old == new:
                continue
            if old is None or new is None:
                found[name] = "is new" if old is None else "is gone"
                continue
            versions = graph.versions
            one, other = versions.require(old), versions.require(new)
            if one.definition != other.definition:
                schemas = versions.definition(one).schema, versions.definition(other).schema
                if schemas[0] != schemas[1]:
                    found[name] = _describe_difference(*schemas)
        return found


def _describe_difference(old: TableSchema, new: TableSchema) -> str:
    """How a schema differs from another, in words."""
    before = {column.id: column for column in old.visible_columns}
    after = {column.id: column for column in new.visible_columns}
    words = [f"+{column.name}" for number, column in after.items() if number not in before]
    for number, column in before.items():
        now_is = after.get(number)
        if now_is is None:
            words.append(f"-{column.name}")
        elif now_is.name != column.name:
            words.append(f"{column.name} → {now_is.name}")
        elif now_is.type != column.type:
            words.append(f"{column.name}: {now_is.type} was {column.type}")
    return f"has other columns ({', '.join(words)})" if words else "has other rules"
