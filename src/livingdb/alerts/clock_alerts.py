"""The alert for a commit whose time is before that of what it follows: a clock was set back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import raise_alert
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.graph.draft import Draft
from livingdb.graph.graph import Graph, now
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot_columns import to_datetime
from livingdb.graph.snapshot_time import is_out_of_order, snapshot_time

__all__ = ["CLOCK", "commit_clock_alerts", "move_clock_alerts"]

CLOCK = "clock"
"""What the event is called."""

Action = Callable[[Connection], None]


def commit_clock_alerts(graph: Graph, drafts: Sequence[Draft]) -> list[Action]:
    """The one alert of a commit that has such a time, about the first branch it moves."""
    for draft in drafts:
        times = [parent.time for parent in draft.intent.parents]
        shown = [branch.name for branch in draft.intent.moves if not is_hidden(branch.name)]
        if shown and is_out_of_order(draft.record.edge.time, times):
            address = draft.address.hex()
            return [_alert_action(graph, shown[0], draft.record.edge.time, max(times), address)]
    return []


def move_clock_alerts(graph: Graph, moves: Sequence[tuple[BranchRow, SnapshotRow]]) -> list[Action]:
    """The same for branches that move to snapshots that are there."""
    times = [graph.snapshots.at(branch.head).time for branch, _ in moves]
    time = snapshot_time(now(), times)
    for (branch, to), before in zip(moves, times, strict=True):
        if is_out_of_order(time, [before]) and not is_hidden(branch.name):
            return [_alert_action(graph, branch.name, time, before, to.address.hex())]
    return []


def _alert_action(graph: Graph, branch: str, time: int, before: int, address: str) -> Action:
    behind = timedelta(microseconds=before - time)
    text = (
        f"{branch!r} moved at {to_datetime(time).isoformat(sep=' ')} by the clock, {behind} before "
        "the snapshot that it stood on: the clock of this machine or of another one was wrong"
    )
    details = {"branch": branch, "snapshot": address, "seconds": behind.total_seconds()}

    def act(connection: Connection) -> None:
        raise_alert(graph, connection, branch, CLOCK, "warning", text, time, details)

    return act
