"""Which edit of what a view reads made a row of the view what it is.

Where the rows of a table are known by columns of the view, they are asked for.  Where a view has
groups, the edits since the last refresh are held against them.  For a few rows of any other query
their lineage is asked for.  Else it is the newest edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.derivation.source_positions import source_positions
from livingdb.derivation.view import SourceTable, View
from livingdb.errors import LivingDBError
from livingdb.graph.ancestry import common_ancestors
from livingdb.graph.diff import diff_versions
from livingdb.tables.index import Version
from livingdb.tracing.blame.row_blame import RowBlame
from livingdb.tracing.blame.version_stretches import changing_snapshots
from livingdb.tracing.blame.view_columns import ColumnRef, Correspondence, correspondences
from livingdb.trees.diff import DELETED, INSERTED
from livingdb.trees.keys import KeyArray, KeyCodec, member

if TYPE_CHECKING:
    from livingdb.tracing.blame.cause import Causes

__all__ = ["ViewCause"]

Numbers = npt.NDArray[np.int64]

_MOST_EDITS = 2_000
_MOST_ROWS = 100


@dataclass(frozen=True)
class _Rows:
    """Rows of a source: their keys, and for rows of the view at `places` which of them it is."""

    keys: KeyArray
    inverse: Numbers
    places: Numbers


class ViewCause:
    """A version of a derived object, and what changed between the one before and this one."""

    def __init__(self, causes: Causes, row: SnapshotRow, view: View | None, table: str):
        self._causes, self._graph = causes, causes.graph
        self._row, self._table = row, table
        self._view = view if view is not None and self._has_read(view) else None

    def _has_read(self, view: View) -> bool:
        """Whether this version was made from tables of the names that the view knows now."""
        at = source_positions(self._graph, self._row)
        followed = [source for source in view.tables.values() if not source.snapshot]
        return all(
            source.branch not in at or source.table in self._graph.record(at[source.branch]).tables
            for source in followed
        )

    def blame(self, keys: KeyArray, column: str | None) -> RowBlame | None:
        """Who is to blame for rows that this version brought; None: it alone."""
        newest = self.newest_source()
        if newest is None:
            return None
        whole = RowBlame.nobody(len(keys))
        edits = self._first_edits(2)
        if len(edits) == 1 and edits[0].kind == "transaction":
            whole.who[:] = edits[0].sequence
        elif self._view is not None and self._view.what == "sql":
            self._blame_by_rows(whole, keys, column)
            self._blame_by_groups(whole, keys)
            self._blame_by_lineage(whole, keys, column)
        whole.who[whole.who == 0] = self._causes.cause(newest).sequence
        whole.via[:] = self._row.sequence
        return whole

    def newest_source(self) -> SnapshotRow | None:
        """The last edit of what it reads since the version before; None if there was none."""
        edits = self._first_edits(1)
        return edits[0] if edits else None

    # --- edits -------------------------------------------------------------------------------

    @cached_property
    def _spans(self) -> dict[BranchId, tuple[SnapshotRow, int]]:
        """For each branch it follows the snapshot it was made from, and what was seen before."""
        graph = self._graph
        before: Mapping[BranchId, Address] = {}
        if self._row.first is not None:
            before = source_positions(graph, graph.snapshots.at(self._row.first))
        found = {}
        for branch, address in source_positions(graph, self._row).items():
            new = graph.snapshots.find(address)
            old = graph.snapshots.find(before[branch]) if branch in before else None
            if new is not None:
                found[branch] = (new, 0 if old is None else self._floor(old, new))
        return found

    def _span(self, source: SourceTable) -> tuple[SnapshotRow, int]:
        """The same for a table; one that is read in one snapshot for good was seen at first."""
        if not source.snapshot:
            return self._spans[source.branch]
        row = self._graph.snapshots.find(Address(bytes.fromhex(source.snapshot)))
        assert row is not None
        return row, 0 if self._row.first is None else row.sequence

    def _floor(self, old: SnapshotRow, new: SnapshotRow) -> int:
        """The number up to which the history of a snapshot is that of an older one, too."""
        common = common_ancestors(self._graph.snapshots, old, new)
        return common[0].sequence if common else 0

    def _source_tables(self) -> list[tuple[str, SourceTable]]:
        """What it reads, by the names in its query."""
        if self._view is not None:
            tables = self._view.tables.items()
            return [(name, t) for name, t in tables if t.snapshot or t.branch in self._spans]
        return [
            (table, SourceTable(branch, table))
            for branch, (new, _) in self._spans.items()
            for table in self._graph.tables(new)
        ]

    def _edits(self, source: SourceTable) -> Iterator[tuple[int, Address | None]]:
        """The snapshots that changed a table since the version before, newest first."""
        new, floor = self._span(source)
        for number, version in changing_snapshots(self._graph, new, source.table):
            if number <= floor:
                return
            yield number, version

    def _first_edits(self, count: int) -> list[SnapshotRow]:
        """The newest edits of any table it reads; schema changes only if there is nothing else."""
        found: set[int] = set()
        for source in {source for _, source in self._source_tables()}:
            for at, (number, _) in enumerate(self._edits(source)):
                found.add(number)
                if at + 1 >= count + 1:
                    break
        rows = [self._graph.snapshots.at(number) for number in sorted(found, reverse=True)]
        edits = [row for row in rows if row.kind != "schema_change"]
        return (edits or rows)[:count]

    # --- by rows -----------------------------------------------------------------------------

    @cached_property
    def _correspondences(self) -> list[tuple[SourceTable, Correspondence]]:
        """What its columns have to do with those of the tables it reads."""
        assert self._view is not None
        read = dict(self._source_tables())
        try:
            schemas = {
                name: self._graph.versions.definition(self._version(source)).schema
                for name, source in read.items()
            }
            found = correspondences(self._view.tree(schemas), schemas)
        except LivingDBError:
            return []
        return [(read[item.table], item) for item in found]

    def _version(self, source: SourceTable) -> Version:
        return self._graph.version(self._span(source)[0], source.table)

    def _blame_by_rows(self, whole: RowBlame, keys: KeyArray, column: str | None) -> None:
        """Where the key of a source row is known from the view's row: who changed that row.

        It is among the view's columns, or is what a source row that is known refers to.
        """
        graph = self._graph
        rows = graph.versions.rows(graph.version(self._row, self._table))
        names = rows.schema.whole.names
        shown = dict(zip(names, rows.lookup(keys, names)[1], strict=True))
        values: dict[ColumnRef, pa.Array] = {}
        waiting = list(self._correspondences)
        while waiting:
            ready = [item for item in waiting if self._source_key(*item, shown, values) is not None]
            waiting = [item for item in waiting if item not in ready]
            if not ready:
                return
            for source, known in ready:
                held = self._source_key(source, known, shown, values)
                assert held is not None
                wanted = known.reads if column is None else known.used.get(column, frozenset())
                found = self._match_source_rows(source, held)
                if wanted:
                    self._assign_blame(whole, source, found, wanted)
                values |= self._equal_values(source, known, found, len(keys))

    def _source_key(
        self,
        source: SourceTable,
        known: Correspondence,
        shown: Mapping[str, pa.Array],
        values: Mapping[ColumnRef, pa.Array],
    ) -> list[pa.Array] | None:
        """The key of a source row for each row of the view; None if it is not known."""
        found = []
        for name in self._graph.versions.definition(self._version(source)).schema.key:
            held = shown.get(known.columns.get(name, ""))
            for place in () if held is not None else known.equal.get(name, ()):
                held = values.get(place)
                if held is not None:
                    break
            if held is None:
                return None
            found.append(held)
        return found

    def _match_source_rows(self, source: SourceTable, held: Sequence[pa.Array]) -> _Rows:
        """The source rows with keys that may be null, and whose they are."""
        theirs = self._graph.versions.rows(self._version(source))
        types = [item.type for item in theirs.schema.key_columns]
        arrays, valid = _cast(held, types)
        unique, inverse = np.unique(theirs.forest.shape.keys(arrays), return_inverse=True)
        there = theirs.contains(unique)
        kept = there[inverse]
        at = (np.cumsum(there) - 1)[inverse]
        return _Rows(unique[there], at[kept], np.flatnonzero(valid)[kept])

    def _equal_values(
        self, source: SourceTable, known: Correspondence, found: _Rows, count: int
    ) -> dict[ColumnRef, pa.Array]:
        """What source rows hold in columns that others are equal to, for each row of the view."""
        names = [name for name, others in known.equal.items() if len(others) > 1]
        if not names:
            return {}
        rows = self._graph.versions.rows(self._version(source))
        spread = np.zeros(count, np.int64)
        missing = np.ones(count, bool)
        spread[found.places], missing[found.places] = found.inverse, False
        taken = pa.array(spread, mask=missing)
        held = rows.lookup(found.keys, names)[1]
        return {
            (known.alias, name): array.take(taken) for name, array in zip(names, held, strict=True)
        }

    def _assign_blame(
        self,
        whole: RowBlame,
        source: SourceTable,
        rows: _Rows,
        columns: frozenset[str],
    ) -> None:
        new, floor = self._span(source)
        schema = self._graph.versions.definition(self._version(source)).schema
        values: list[str | None] = [*sorted(columns - set(schema.key))]
        if len(values) == len(schema.columns) - len(schema.key):
            values = [None]
        # Of a row whose key alone counts, only its coming does.
        for column in values or [schema.key[0]]:
            found = self._causes.blame(new, source.table, rows.keys, column)
            is_fresh = found.local[rows.inverse] > floor
            at, who = rows.places[is_fresh], found.who[rows.inverse[is_fresh]]
            whole.who[at] = np.maximum(whole.who[at], who)

    # --- by groups ---------------------------------------------------------------------------

    def _blame_by_groups(self, whole: RowBlame, keys: KeyArray) -> None:
        """Where columns of the view's key are those of a table: who changed rows of that group."""
        graph = self._graph
        rows = graph.versions.rows(graph.version(self._row, self._table))
        for source, known in self._correspondences:
            pairs = [(o, v) for o, v in sorted(known.columns.items()) if v in rows.schema.key]
            left = np.flatnonzero(whole.who == 0)
            if not pairs or not len(left):
                continue
            types = [rows.schema.column(view).type for _, view in pairs]
            codec = KeyCodec(types, range(len(types)))
            wanted = codec.encode(rows.lookup(keys[left], [view for _, view in pairs])[1])
            for number, changed in self._changed_groups(source, [o for o, _ in pairs], codec):
                hit = member(wanted, changed)
                whole.who[left[hit]] = self._causes.cause(graph.snapshots.at(number)).sequence
                left, wanted = left[~hit], wanted[~hit]
                if not len(left):
                    break

    def _changed_groups(
        self, source: SourceTable, columns: Sequence[str], codec: KeyCodec
    ) -> Iterator[tuple[int, KeyArray]]:
        """For each edit, newest first, what rows had or have in columns that it changed."""
        versions = self._graph.versions
        for at, (number, address) in enumerate(self._edits(source)):
            row = self._graph.snapshots.at(number)
            if at >= _MOST_EDITS or address is None or row.first is None:
                return
            after = versions.require(address)
            before = self._graph.find_version(self._graph.snapshots.at(row.first), source.table)
            if before is not None and not versions.is_alike(before, after):
                continue
            schema = versions.definition(after).schema
            places = [schema.position(name) for name in columns]
            parts = [np.empty(0, object)]
            for batch in diff_versions(versions, before, after):
                for side, absent in ((batch.before, INSERTED), (batch.after, DELETED)):
                    there = pa.array(batch.kinds != absent)
                    arrays = [side[place].filter(there) for place in places]
                    held = [a.cast(t) for a, t in zip(arrays, codec.types, strict=True)]
                    parts.append(codec.encode(held).astype(object))
            yield number, np.unique(np.concatenate(parts))

    # --- by lineage --------------------------------------------------------------------------

    def _blame_by_lineage(self, whole: RowBlame, keys: KeyArray, column: str | None) -> None:
        """Row by row, where there are few and somebody can tell what is behind each."""
        left = np.flatnonzero(whole.who == 0)
        behind, view = self._causes.behind, self._view
        if behind is None or view is None or view.engine == "spark":
            return
        if column is not None or len(left) > _MOST_ROWS:
            return
        read = {
            (source.branch, source.table): self._span(source)[1]
            for _, source in self._source_tables()
            if not source.snapshot
        }
        for place in left.tolist():
            for origin in behind(self._row, self._table, keys[place : place + 1]):
                table = origin.branch, origin.table
                if table in read:
                    found = self._causes.blame(origin.snapshot, origin.table, origin.keys)
                    fresh = found.who[found.local > read[table]]
                    whole.who[place] = max([whole.who[place], *fresh.tolist()])


def _cast(
    arrays: Sequence[pa.Array], types: Sequence[pa.DataType]
) -> tuple[list[pa.Array], npt.NDArray[np.bool_]]:
    """Columns as other types, without the rows that are null in any; which those are not."""
    valid = np.ones(len(arrays[0]), bool)
    for array in arrays:
        valid &= array.is_valid().to_numpy(zero_copy_only=False)
    kept = [array.filter(pa.array(valid)) for array in arrays]
    return [a.cast(t) for a, t in zip(kept, types, strict=True)], valid
