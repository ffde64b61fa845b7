"""A table's history as stretches of versions linked by deltas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.graph.ancestry import first_parents
from livingdb.graph.graph import Graph
from livingdb.tables.index import Version

__all__ = ["Stretch", "changing_snapshots", "is_exact", "stretches"]

_STRETCH = 256


@dataclass(frozen=True)
class Stretch:
    """Snapshots that changed a table, newest first, whose versions are linked one to the next.

    `base` is the version before the oldest of them; None if there was no such table.
    """

    snapshots: list[int]
    versions: list[Version]
    base: Version | None
    is_linked: bool


def changing_snapshots(
    graph: Graph, head: SnapshotRow, table: str
) -> Iterator[tuple[int, Address | None]]:
    """Snapshots of the first-parent line that changed the table, newest first.

    What forgotten ones changed is told of the next kept one: there, or before, it came about.
    """
    graph.catalog.touches.verify()
    line = first_parents(graph.snapshots, head)
    window: dict[int, int] = {}
    high = told = head.sequence
    last = 0
    for row in line:
        if graph.forgotten.find(row) is None:
            told = row.sequence
        window[row.sequence] = told
        if len(window) >= 4 * _STRETCH or row.first is None:
            low = row.sequence
            for sequence, version in graph.catalog.touches.changes_between(table, low, high):
                if sequence in window and window[sequence] != last:
                    last = window[sequence]
                    yield last, version
            window.clear()
            high = low - 1


def is_exact(graph: Graph, row: SnapshotRow, table: str) -> bool:
    """Whether a snapshot itself made the change of a table that is told of it, and alone."""
    cut: set[int] = set()
    for older in first_parents(graph.snapshots, row):
        if older.sequence != row.sequence and graph.forgotten.find(older) is None:
            break
        cut.add(older.sequence)
    cut.discard(row.sequence)
    changes = graph.catalog.touches.changes_between(table, min(cut), row.sequence) if cut else []
    return not any(number in cut for number, _ in changes)


def stretches(graph: Graph, head: SnapshotRow, table: str) -> Iterator[Stretch]:
    """The history of a table, cut where a version does not come from the one before."""
    versions = graph.versions
    held: list[tuple[int, Address]] = []

    def cut(before: Version | None) -> Iterator[Stretch]:
        graph.index.preload([address for _, address in held])
        found = [versions.require(address) for _, address in held]
        numbers = [number for number, _ in held]
        start = 0
        for at, version in enumerate(found):
            older = found[at + 1] if at + 1 < len(found) else before
            is_last = at + 1 == len(found)
            linked = older is not None and version.base == older.address
            if linked and not is_last:
                continue
            if not linked and at > start:
                yield Stretch(numbers[start:at], found[start:at], version, True)
                start = at
            yield Stretch(numbers[start : at + 1], found[start : at + 1], older, linked)
            start = at + 1

    for number, address in changing_snapshots(graph, head, table):
        if len(held) >= _STRETCH or address is None:
            yield from cut(None if address is None else versions.require(address))
            held = []
        if address is not None:
            held.append((number, address))
    if held:
        yield from cut(None)
