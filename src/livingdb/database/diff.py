"""The difference of two versions of a table, as users see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from livingdb.database.pictures import notebook_html
from livingdb.graph.diff import count_changes, diff_versions, max_differing_rows
from livingdb.graph.graph import Graph
from livingdb.graph.snapshot_columns import CHANGE_TYPES
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.trees.diff import DELETED, INSERTED, DiffBatch

__all__ = ["Diff", "Summary"]


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

    def __init__(self, graph: Graph, table: str, before: Version | None, after: Version | None):
        self._graph = graph
        self.table = table
        self.before, self.after = before, after

    def _schema(self, version: Version | None) -> TableSchema:
        known = version or self.after or self.before
        assert known is not None
        return self._graph.versions.definition(known).schema

    @cached_property
    def _batches(self) -> list[DiffBatch]:
        graph, before, after = self._graph, self.before, self.after
        if graph.large is not None and before is not None and after is not None:
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
        sides = [
            pa.field(name, pa.struct([c.field.with_nullable(True) for c in side.visible_columns]))
            for name, side in (("_before", old), ("_after", new))
        ]
        return pa.schema([*keys, pa.field("_change_type", pa.string(), False), *sides])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that differ, in key order."""
        old, new = self._schema(self.before), self._schema(self.after)
        for batch in self._batches:
            before = _struct(old, batch.before, batch.kinds == INSERTED)
            after = _struct(new, batch.after, batch.kinds == DELETED)
            stored = batch.key_columns(len(new.key))
            keys = [stored[new.position(name)] for name in new.visible_key]
            kinds = pa.DictionaryArray.from_arrays(pa.array(batch.kinds), list(CHANGE_TYPES))
            columns = [*keys, kinds.cast(pa.string()), before, after]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """The key, `_change_type`, `_before` and `_after` of every row that differs."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def summary(self) -> Summary:
        """How many rows differ, and how."""
        counts = count_changes(self._graph.versions, self.before, self.after)
        return Summary.of(counts)

    def __len__(self) -> int:
        return sum(len(batch.keys) for batch in self._batches)

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
