"""When a row was in a table: gone through along a line of history, not snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.derivation.source_positions import source_positions
from livingdb.graph.graph import Graph
from livingdb.tables.index import Version
from livingdb.tracing.blame.lens_rows import trace_rows, unconcealed_version
from livingdb.tracing.blame.timeline import timeline
from livingdb.tracing.blame.version_stretches import Stretch, changing_snapshots, stretches
from livingdb.trees.diff import DELETED
from livingdb.trees.keys import KeyArray

__all__ = ["Period", "periods", "periods_of_versions"]

State = tuple[int, bool]
"""A snapshot, and whether a row was there after it."""


@dataclass(frozen=True)
class Period:
    """From a snapshot on, and until another one in which it was over; None: it is not."""

    first: SnapshotRow
    last: SnapshotRow | None

    def has(self, row: SnapshotRow) -> bool:
        """Whether a snapshot of the same line is in it."""
        over = self.last is not None and row.sequence >= self.last.sequence
        return self.first.sequence <= row.sequence and not over


def periods(graph: Graph, head: SnapshotRow, table: str, key: KeyArray) -> list[Period]:
    """When the row with a key was in a table, along a line of first parents, oldest first."""
    found: list[Period] = []
    start: int | None = None
    states = dict(_states(graph, head, table, key))
    for number in sorted(states):
        if states[number] and start is None:
            start = number
        elif not states[number] and start is not None:
            found.append(Period(graph.snapshots.at(start), graph.snapshots.at(number)))
            start = None
    if start is not None:
        found.append(Period(graph.snapshots.at(start), None))
    return found


def _states(graph: Graph, head: SnapshotRow, table: str, key: KeyArray) -> Iterator[State]:
    """Snapshots after which the row was there, or not; between them that does not change."""
    yield from (
        (number, False) for number, at in changing_snapshots(graph, head, table) if at is None
    )
    for stretch in stretches(graph, head, table):
        older = _schema_change(graph, stretch)
        if older is not None:
            here = _has_row(graph, stretch.versions[0], key)
            yield stretch.snapshots[0], here
            if here:
                made = graph.snapshots.at(stretch.snapshots[0])
                with graph.stage() as staging:
                    version = unconcealed_version(graph, made, table, staging)
                    yield from _states_before(graph, older, version, key)
            return
        yield from _stretch_states(graph, stretch, key)


def _schema_change(graph: Graph, stretch: Stretch) -> SnapshotRow | None:
    """The snapshot before a schema change that made the table; None if that is none."""
    row = graph.snapshots.at(stretch.snapshots[0])
    if len(stretch.versions) > 1 or stretch.is_linked or row.kind != "schema_change":
        return None
    return None if row.first is None else graph.snapshots.at(row.first)


def _states_before(
    graph: Graph, older: SnapshotRow, version: Version, key: KeyArray
) -> Iterator[State]:
    """The same before a schema change, of the row that this one was."""
    names = {address: name for name, address in graph.tables(older).items()}
    for part in trace_rows(graph, version, key, None, names):
        yield from _states(graph, older, names[part.version.address], part.keys[:1])
        return


def _stretch_states(graph: Graph, stretch: Stretch, key: KeyArray) -> Iterator[State]:
    if stretch.is_linked and stretch.base is not None:
        line = timeline(graph.versions, [stretch.base, *stretch.versions[::-1]], key)
        numbers = stretch.snapshots[::-1]
        for step, kind in zip(line.step.tolist(), line.kinds.tolist(), strict=True):
            yield numbers[step], kind != DELETED
        return
    for number, version in zip(stretch.snapshots, stretch.versions, strict=True):
        yield number, _has_row(graph, version, key)


def _has_row(graph: Graph, version: Version, key: KeyArray) -> bool:
    return bool(graph.versions.rows(version).contains(key)[0])


def periods_of_versions(
    graph: Graph, head: SnapshotRow, branch: BranchId, found: Sequence[Period]
) -> list[Period]:
    """When versions of a derived object were made of a source within periods of the source."""
    made = [_version_period(graph, head, branch, period) for period in found]
    return [period for period in made if period is not None]


def _version_period(
    graph: Graph, head: SnapshotRow, branch: BranchId, period: Period
) -> Period | None:
    first = _first_since(graph, head, branch, period.first)
    if first is None:
        return None
    last = None if period.last is None else _first_since(graph, head, branch, period.last)
    if last is not None and last.sequence <= first.sequence:
        return None
    return Period(first, last)


def _first_since(
    graph: Graph, head: SnapshotRow, branch: BranchId, source: SnapshotRow
) -> SnapshotRow | None:
    """The first version that was made of a source, or of a later one.

    Later versions are of later sources, so that they are not looked at one by one.
    """

    def is_since(row: SnapshotRow) -> bool:
        address = source_positions(graph, row).get(branch)
        seen = None if address is None else graph.snapshots.find(address)
        return seen is not None and seen.sequence >= source.sequence

    if not is_since(head):
        return None
    low, high = -1, head.depth
    while high - low > 1:
        middle = (low + high) // 2
        if is_since(graph.snapshots.ancestor(head, middle)):
            high = middle
        else:
            low = middle
    return graph.snapshots.ancestor(head, high)
