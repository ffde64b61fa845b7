"""The difference of two snapshots, and of two versions of a table, as users see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.merging.apply_difference import Difference
from livingdb.database.pictures import notebook_html
from livingdb.errors import NotFound
from livingdb.evolution.changes.tables import CreateTable, DropTable
from livingdb.evolution.lift import Lifter
from livingdb.evolution.schema_change import SchemaChange
from livingdb.evolution.schema_elements import MadeChange
from livingdb.evolution.schema_path import SchemaPath, find_schema_path
from livingdb.graph.diff import count_changes, diff_versions, max_differing_rows
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.snapshot_columns import CHANGE_TYPES
from livingdb.graph.table_ids import matching_tables
from livingdb.tables.free_names import free_names
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.trees.diff import DELETED, INSERTED, DiffBatch

__all__ = ["Diff", "SnapshotDiff", "Summary", "diff_snapshots"]

Tables = Mapping[str, Version]


class Summary(dict[str, int]):
    """How many rows were inserted, updated and deleted."""

    @classmethod
    def of(cls, counts: Sequence[int]) -> Summary:
        """The summary of three counts."""
        return cls(zip(("inserted", "updated", "deleted"), counts, strict=True))

    @property
    def inserted(self) -> int:
        """Rows that are new."""
        return self["inserted"]

    @property
    def updated(self) -> int:
        """Rows with other values."""
        return self["updated"]

    @property
    def deleted(self) -> int:
        """Rows that are gone."""
        return self["deleted"]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.values())


class Diff:
    """What changed in one table from one snapshot to another; read when it is asked for."""

    def __init__(
        self,
        graph: Graph,
        table: str,
        before: Version | None,
        after: Version | None,
        is_evolved: bool = False,
        end: SnapshotRow | None = None,
    ):
        self._graph = graph
        self.end = end
        self.table = table
        self.before, self.after = before, after
        self._is_evolved = is_evolved

    @property
    def schema_state(self) -> str:
        """What happened to the schema of the table: "same", "changed", "added" or "dropped"."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "dropped"
        return "changed" if self._is_evolved else "same"

    @property
    def kept_rows(self) -> Version | None:
        """What was there before, if it is a version of the same table, in the same schema."""
        before, after = self.before, self.after
        if before is None or after is None or self._graph.versions.is_alike(before, after):
            return before
        return None

    def _schema(self, version: Version | None) -> TableSchema:
        known = version or self.after or self.before
        assert known is not None
        return self._graph.versions.definition(known).schema

    @cached_property
    def row_batches(self) -> list[DiffBatch]:
        """The rows that differ, as their trees have them."""
        graph, before, after = self._graph, self.before, self.after
        is_stored = graph.large is not None and not self._is_evolved
        if is_stored and before is not None and after is not None:
            assert graph.large is not None
            is_alike = graph.versions.is_alike(before, after)
            most = partial(max_differing_rows, graph.versions, before, after)
            if is_alike and graph.large.takes(most):
                return list(graph.large.diff(graph, before, after))
        return list(diff_versions(graph.versions, before, after))

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self._schema(self.after).visible_key

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of `to_arrow`."""
        old, new = self._schema(self.before), self._schema(self.after)
        keys = [new.column(name).field for name in new.visible_key]
        structs = [
            pa.struct([c.field.with_nullable(True) for c in side.visible_columns])
            for side in (old, new)
        ]
        kind, before, after = free_names(("_change_type", "_before", "_after"), new.visible_key)
        told = [pa.field(before, structs[0]), pa.field(after, structs[1])]
        return pa.schema([*keys, pa.field(kind, pa.string(), False), *told])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that differ, in key order."""
        old, new = self._schema(self.before), self._schema(self.after)
        for batch in self.row_batches:
            before = _struct(old, batch.before, batch.kinds == INSERTED)
            after = _struct(new, batch.after, batch.kinds == DELETED)
            stored = batch.key_columns(len(new.key))
            keys = [stored[new.position(name)] for name in new.visible_key]
            kinds = pa.DictionaryArray.from_arrays(pa.array(batch.kinds), list(CHANGE_TYPES))
            columns = [*keys, kinds.cast(pa.string()), before, after]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """The key, `_change_type`, `_before` and `_after` of every row that differs.

        Where a key column has such a name, it keeps it, and ours has an underscore more.
        """
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def summary(self) -> Summary:
        """How many rows differ, and how."""
        counts = count_changes(self._graph.versions, self.before, self.after)
        return Summary.of(counts)

    def __len__(self) -> int:
        return sum(len(batch.keys) for batch in self.row_batches)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in self.summary().items())
        return f"<Diff {self.table}: {counts}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)


def _struct(
    schema: TableSchema,
    stored: list[pa.Array],
    absent: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> pa.Array:
    """Rows as structs of the columns that are shown, in their order."""
    columns = [stored[schema.position(column.name)] for column in schema.visible_columns]
    fields = [column.field.with_nullable(True) for column in schema.visible_columns]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(absent))


class SnapshotDiff(dict[str, Diff]):
    """What changed from one snapshot to another: the tables that differ, each with its `Diff`.

    schema   the schema changes that lead from one to the other, in their order; rows of the first
             are compared as they are after them, so a renamed column is no row that differs
    notes    why rows were compared by name instead, if no schema changes lead there
    """

    def __init__(
        self,
        tables: Mapping[str, Diff],
        path: Sequence[MadeChange] = (),
        notes: Sequence[str] = (),
        ends: tuple[SnapshotRow, SnapshotRow] | None = None,
    ):
        super().__init__(tables)
        self._path, self._ends = tuple(path), ends
        self.notes = tuple(notes)

    @property
    def schema(self) -> tuple[SchemaChange, ...]:
        """The schema changes, each with its id."""
        return tuple(one.change for one in self._path)

    @property
    def difference(self) -> Difference | None:
        """What a branch gets that it is applied to; None if only tables come or go, and rows."""
        plain = all(isinstance(change, (CreateTable, DropTable)) for change in self.schema)
        if plain or self._ends is None:
            return None
        tables = {name: (part.kept_rows, part.after) for name, part in self.items()}
        return Difference(*self._ends, self._path, tables)

    def __repr__(self) -> str:
        parts = [change.title for change in self.schema] + [repr(part) for part in self.values()]
        return f"<SnapshotDiff {'; '.join(parts) or 'nothing differs'}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)


def diff_snapshots(
    graph: Graph,
    lifter: Lifter,
    before: SnapshotRow,
    after: SnapshotRow,
    wanted: Sequence[str] | None = None,
) -> SnapshotDiff:
    """What changed between two snapshots; `NotFound` for a wanted table that neither has."""
    old, new = tables_of(graph, before), tables_of(graph, after)
    path = SchemaPath((), old)
    if {n: v.definition for n, v in old.items()} != {n: v.definition for n, v in new.items()}:
        path = find_schema_path(graph, lifter, before, after, graph.scratch())
    start = _before_rows(path, old, new)
    names = sorted({*start, *new})
    if wanted is not None:
        later = matching_tables(graph, before, after)
        for name in wanted:
            if name not in names and name not in old:
                raise NotFound(f"there is no table {name!r} in either of the two")
        names = [now for name in wanted if (now := later.get(name, name)) in names]
    found = {}
    for name in names:
        sides = start.get(name), new.get(name)
        if sides[0] != sides[1]:
            is_same = name in old and name in new and graph.versions.is_alike(old[name], new[name])
            found[name] = Diff(graph, name, *sides, is_evolved=not is_same, end=after)
    notes = () if path.reason is None else (path.reason,)
    return SnapshotDiff(found, path.made, notes, (before, after))


def _before_rows(path: SchemaPath, old: Tables, new: Tables) -> dict[str, Version]:
    """The tables that rows are compared with: of before, in the schema of after.

    One that was made anew under its name is compared by name, one that was dropped as it was.
    """
    made = {name for one in path.made for name in one.tables_from_nothing}
    dropped = {name for one in path.made for name in one.tables_to_nothing}
    start = {name: version for name, version in path.tables.items() if name not in made}
    start.update((name, old[name]) for name in made & old.keys() & new.keys())
    start.update((name, old[name]) for name in dropped & old.keys() - new.keys())
    return start
