"""When a row was in a table: gone through along a line of history, not snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.derivation.source_positions import source_positions
from livingdb.errors import Forgotten
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.table_ids import table_id
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tracing.blame.lens_rows import trace_rows, unconcealed_version
from livingdb.tracing.blame.timeline import timeline
from livingdb.tracing.blame.version_stretches import Stretch, changing_snapshots, stretches
from livingdb.tracing.whereabouts.row_schemas import KnownRow, translate_row
from livingdb.trees.diff import DELETED
from livingdb.trees.keys import KeyArray

__all__ = ["Period", "encode_key", "periods", "periods_of_versions"]

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


def encode_key(schema: TableSchema, key: Mapping[str, Any]) -> KeyArray:
    """A key of a table, as its trees have it."""
    values = tuple(key[name] for name in schema.key)
    return schema.key_codec.encode(schema.key_codec.arrays([values], schema.key))


def periods(graph: Graph, head: SnapshotRow, table: str, key: Mapping[str, Any]) -> list[Period]:
    """When the row with a key was in a table, along a line of first parents, oldest first.

    What was forgotten holds nothing: a period that begins or ends there does so with the next
    snapshot that is kept, at which it did, or before.
    """
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


def _states(graph: Graph, head: SnapshotRow, table: str, key: Mapping[str, Any]) -> Iterator[State]:
    """Snapshots after which the row was there, or not; between them that does not change."""
    yield from (
        (number, False) for number, at in changing_snapshots(graph, head, table) if at is None
    )
    encoded = None
    for stretch in stretches(graph, head, table):
        newest = stretch.versions[0]
        if encoded is None:
            encoded = encode_key(graph.versions.definition(newest).schema, key)
        older = _before_schema_change(graph, stretch)
        if older is None:
            yield from _stretch_states(graph, stretch, encoded)
            continue
        made = graph.snapshots.at(stretch.snapshots[0])
        here = _has_row(graph, newest, encoded)
        yield made.sequence, here
        if made.first != older.sequence:
            before = _row_before_gap(graph, made, older, table, key, encoded)
        else:
            before = _row_before(graph, made, older, table, encoded) if here else None
        if before is not None:
            yield from _states(graph, older, *before)
        return


def _before_schema_change(graph: Graph, stretch: Stretch) -> SnapshotRow | None:
    """The kept snapshot before a schema change that made the table; None if there is none.

    One that was forgotten may have done so, too, of which the next kept one tells.
    """
    row = graph.snapshots.at(stretch.snapshots[0])
    if len(stretch.versions) > 1 or stretch.is_linked:
        return None
    is_changed = row.kind == "schema_change"
    while row.first is not None:
        row = graph.snapshots.at_with_prefetch(row.first)
        if graph.forgotten.find(row) is None:
            return row if is_changed else None
        is_changed |= row.kind == "schema_change"
    return None


def _row_before(
    graph: Graph, made: SnapshotRow, older: SnapshotRow, table: str, key: KeyArray
) -> tuple[str, dict[str, Any]] | None:
    """The row that one was before a schema change: its table and its key; None if there is none."""
    names = {address: name for name, address in graph.tables(older).items()}
    with graph.stage() as staging:
        version = unconcealed_version(graph, made, table, staging)
        for part in trace_rows(graph, version, key, None, names):
            rows = graph.versions.rows(part.version)
            values = _values(rows, part.keys[:1], rows.schema.key)
            return names[part.version.address], values
    return None


def _row_before_gap(
    graph: Graph,
    made: SnapshotRow,
    older: SnapshotRow,
    table: str,
    key: Mapping[str, Any],
    encoded: KeyArray,
) -> tuple[str, dict[str, Any]] | None:
    """The same where what lies between was forgotten: by the schemas, which are left.

    A row that is not there after it may have been deleted meanwhile; then it is looked for in what
    is the same table.
    """
    rows = graph.versions.rows(graph.version(made, table))
    identity = table_id(graph, made, table)
    shown = _values(rows, encoded, [c.name for c in rows.schema.columns])
    known, there = KnownRow(table, shown or key), tables_of(graph, older)
    try:
        translated = translate_row(graph, made, known, older) or []
    except Forgotten:
        return None
    found = []
    for row in translated:
        version = there.get(row.table)
        schema = None if version is None else graph.versions.definition(version).schema
        its_key = None if schema is None else row.key(schema)
        if version is None or schema is None or its_key is None:
            continue
        if shown or table_id(graph, older, row.table) == identity:
            is_there = _has_row(graph, version, encode_key(schema, its_key))
            found.append((is_there, row.table, its_key))
    # Of several that it was made of one is as good as another, if that was there.
    found.sort(key=lambda one: not one[0])
    return found[0][1:] if found else None


def _values(rows: RowSet, key: KeyArray, names: Sequence[str]) -> dict[str, Any]:
    """What a row holds in some columns; nothing if it is not there."""
    held, columns = rows.lookup(key, list(names))
    if not held[0]:
        return {}
    return {name: column[0].as_py() for name, column in zip(names, columns, strict=True)}


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
