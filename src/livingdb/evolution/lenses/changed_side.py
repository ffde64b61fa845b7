"""A side of a lens as it will be once changes of some of its tables are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from livingdb.evolution.lenses.lens import RowImages, Side
from livingdb.evolution.lenses.row_alignment import keys_of
from livingdb.evolution.lenses.table_parts import anti_join
from livingdb.tables.schema import TableSchema
from livingdb.trees.keys import KeyCodec, member

__all__ = ["ChangedSide", "compose_images"]


class ChangedSide:
    """A side with changes of some tables, each with its schema."""

    def __init__(self, side: Side, changes: Mapping[str, tuple[TableSchema, RowImages]]):
        self._side = side
        self._changes = {name: change for name, change in changes.items() if change[1]}

    def lookup(self, table: str, keys: pa.Table) -> pa.Table:
        """The rows with these keys."""
        rows = self._side.lookup(table, keys)
        if table not in self._changes:
            return rows
        schema, delta = self._changes[table]
        wanted = np.sort(keys_of(schema, keys))
        mine = delta.after.filter(pa.array(member(keys_of(schema, delta.after), wanted)))
        return self._replace(table, rows, mine)

    def matching_rows(self, table: str, values: pa.Table) -> pa.Table:
        """The rows whose columns hold one of the rows of values; nulls match nothing."""
        rows = self._side.matching_rows(table, values)
        if table not in self._changes:
            return rows
        schema, delta = self._changes[table]
        names = values.column_names
        codec = KeyCodec([schema.column(name).type for name in names])
        asked = values.drop_null().combine_chunks()
        given = delta.after.filter(_is_whole(delta.after, names))
        encoded, wanted = (
            codec.encode([part.column(name).combine_chunks() for name in names])
            for part in (given, asked)
        )
        return self._replace(table, rows, given.filter(pa.array(member(encoded, np.sort(wanted)))))

    def scan(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, those that change at the end."""
        if table not in self._changes:
            yield from self._side.scan(table, columns)
            return
        schema, delta = self._changes[table]
        for batch in self._side.scan(table):
            rows = anti_join(schema, pa.Table.from_batches([batch]), delta.before, delta.after)
            yield from (rows if columns is None else rows.select(list(columns))).to_batches()
        rows = delta.after
        yield from (rows if columns is None else rows.select(list(columns))).to_batches()

    def count(self, table: str) -> int:
        """How many rows there are."""
        if table not in self._changes:
            return self._side.count(table)
        _, delta = self._changes[table]
        return self._side.count(table) + len(delta.after) - len(delta.before)

    def _replace(self, table: str, rows: pa.Table, mine: pa.Table) -> pa.Table:
        schema, delta = self._changes[table]
        rest = anti_join(schema, rows, delta.before, delta.after)
        return pa.concat_tables([rest, mine.cast(rest.schema)])


def _is_whole(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    valid = np.ones(rows.num_rows, bool)
    for name in names:
        valid &= rows.column(name).is_valid().to_numpy()
    return pa.array(valid)


def compose_images(schema: TableSchema, first: RowImages, second: RowImages) -> RowImages:
    """A change of a table and another one upon it, as one."""
    if not first or not second:
        return first or second
    earlier = anti_join(schema, second.before, first.before, first.after)
    later = anti_join(schema, first.after, second.before, second.after)
    return RowImages(
        pa.concat_tables([first.before, earlier]), pa.concat_tables([later, second.after])
    )
