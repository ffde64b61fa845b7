"""A laboratory for lenses: both sides in memory, writes on either, and the laws.

    pair = Pair(change.plan(definitions), {"orders": [{"id": 1, …}, …]})
    pair.write_old({"orders": ([{"id": 2, …}], [(1,)])})        upserts, keys to delete
    pair.write_new({"orders": ([{"id": 3, …}], [])})
    pair.old["orders"], pair.new["orders"]                      lists of rows, in key order
    pair.check_laws()

Rows may be given as dicts or as Arrow tables.  A write is refused as the graph would refuse it:
NOT NULL and checks hold, computed and read-only columns are not the writer's.  Every write is
carried over and what came of it touched on the other side, which must change nothing; of a
direction that is not legal nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from livingdb.evolution.lenses.lens import Lens, RowImages, TableImages
from livingdb.evolution.lenses.row_alignment import align_rows, empty_rows, keys_of
from livingdb.graph.row_constraints import check_not_null, check_rows, with_computed
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import choose, differs
from livingdb.trees.keys import member

Row = dict[str, Any]
Rows = pa.Table | Sequence[Mapping[str, Any]]
Keys = pa.Table | Sequence[Sequence[Any]]
_DIRECTION = {"putr": "forward", "putl": "reverse"}
Writes = Mapping[str, tuple[Rows, Keys]]


@dataclass
class Cost:
    """What a lens asked a side for: keys looked up, rows of values matched, tables scanned."""

    keys: int = 0
    values: int = 0
    scans: int = 0


class MemorySide:
    """The tables of one side, whole, in key order; counts what is asked of it."""

    def __init__(self, definitions: Mapping[str, Definition]):
        self.schemas = {name: definition.schema for name, definition in definitions.items()}
        self.tables = {name: empty_rows(schema) for name, schema in self.schemas.items()}
        self.cost = Cost()

    def copy(self) -> MemorySide:
        """The side as it is now."""
        made = MemorySide({})
        made.schemas, made.tables = self.schemas, dict(self.tables)
        return made

    # --- what a lens sees ---------------------------------------------------------------------

    def lookup(self, table: str, keys: pa.Table) -> pa.Table:
        schema = self.schemas[table]
        assert keys.column_names == list(schema.key), "lookup takes the key columns, in key order"
        self.cost.keys += keys.num_rows
        return self._where(table, keys_of(schema, keys))

    def matching_rows(self, table: str, values: pa.Table) -> pa.Table:
        self.cost.values += values.num_rows
        wanted = {_plain(row) for row in values.to_pylist()}
        rows = self.tables[table]
        found = [_plain(row) in wanted for row in rows.select(values.column_names).to_pylist()]
        return rows.filter(pa.array(found, pa.bool_()))

    def scan(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        self.cost.scans += 1
        rows = self.tables[table]
        yield from (rows if columns is None else rows.select(list(columns))).to_batches(3)

    def _where(self, table: str, encoded: Any, inverted: bool = False) -> pa.Table:
        rows = self.tables[table]
        found = member(keys_of(self.schemas[table], rows), np.sort(encoded))
        return rows.filter(pa.array(found != inverted))

    # --- what a writer does -------------------------------------------------------------------

    def delta(self, table: str, upserts: Rows, deletes: Keys) -> RowImages:
        """What a write would change; `InvalidData` where the schema forbids it."""
        schema = self.schemas[table]
        rows = self._filled(table, _table(schema, upserts))
        check_not_null(table, schema, rows)
        check_rows(schema, rows)
        gone = _keys(schema, deletes)
        touched = keys_of(schema, pa.concat_tables([gone, rows.select(list(schema.key))]))
        return RowImages(self._where(table, touched), rows)

    def _filled(self, table: str, rows: pa.Table) -> pa.Table:
        """Rows with the columns that are not the writer's to name."""
        schema = self.schemas[table]
        held = align_rows(schema, keys_of(schema, rows), self.tables[table])
        for at, column in enumerate(schema.columns):
            if column.read_only and column.computed is None:
                default = pa.array([column.default] * rows.num_rows, column.type)
                values = choose(default, held.column(column.name), held.there)
                rows = rows.set_column(at, column.field, values)
        return with_computed(schema, rows).cast(schema.arrow)

    def apply(self, deltas: TableImages) -> None:
        """Make a change; it must know what was there."""
        for table, delta in deltas.items():
            schema = self.schemas[table]
            assert delta.after.schema.equals(schema.arrow), f"{table}: {delta.after.schema}"
            self.assert_holds(table, delta.before)
            check_not_null(table, schema, delta.after)
            check_rows(schema, delta.after)
            encoded = keys_of(schema, pa.concat_tables([delta.before, delta.after]))
            rest = self._where(table, encoded, inverted=True)
            self.tables[table] = sorted_rows(schema, pa.concat_tables([rest, delta.after]))

    def assert_holds(self, table: str, rows: pa.Table) -> None:
        """These rows are there as they are."""
        schema = self.schemas[table]
        held = self._where(table, keys_of(schema, rows))
        assert_same(schema, rows, held, f"{table}: what a change says was there")

    def assert_same(self, other: MemorySide, what: str) -> None:
        """Both hold the same, bit for bit."""
        assert self.tables.keys() == other.tables.keys()
        for name, schema in self.schemas.items():
            assert_same(schema, self.tables[name], other.tables[name], f"{what}: {name}")


class Pair:
    """Two sides that a lens keeps in step."""

    def __init__(
        self,
        lens: Lens,
        old_tables: Mapping[str, Rows] | None = None,
        beside: Mapping[str, Definition] | None = None,
    ):
        """`beside` are tables that the lens reads, and that are the same on both sides."""
        self.lens = lens
        self.beside = dict(beside or {})
        self.verdicts = lens.directions()
        self.old_side, self.new_side = (
            MemorySide({**side, **self.beside}) for side in (lens.old, lens.new)
        )
        self.cost = Cost()
        """What the last write cost on both sides, without the laws' own checks."""
        self.carried: TableImages = {}
        """What the last write changed on the other side."""
        given = {name: (rows, []) for name, rows in (old_tables or {}).items()}
        inserted = {name: self.old_side.delta(name, *write) for name, write in given.items()}
        self.old_side.apply(inserted)
        self.new_side.apply({n: images for n, images in inserted.items() if n in self.beside})
        lens.check(self.old_side)
        for name, batches in lens.create(self.old_side).items():
            rows = pa.Table.from_batches(batches, lens.new[name].schema.arrow)
            self.new_side.apply({name: RowImages(empty_rows(lens.new[name].schema), rows)})
        if inserted and self.verdicts["forward"] is None:
            self._check_create(inserted)

    def _check_create(self, inserted: TableImages) -> None:
        """Creating is inserting everything into nothing."""
        nothing, made = (
            MemorySide({**side, **self.beside}) for side in (self.lens.old, self.lens.new)
        )
        made.apply(self._carried("putr", inserted, nothing, made))
        made.assert_same(self.new_side, "creating and inserting")

    @property
    def old(self) -> dict[str, list[Row]]:
        """The rows of the old side."""
        return {name: table.to_pylist() for name, table in self.old_side.tables.items()}

    @property
    def new(self) -> dict[str, list[Row]]:
        """The rows of the new side."""
        return {name: table.to_pylist() for name, table in self.new_side.tables.items()}

    def write_old(self, writes: Writes) -> None:
        """A transaction on the old side.  A refused one changes nothing."""
        deltas = {name: self.old_side.delta(name, *write) for name, write in writes.items()}
        self._write(deltas, self.old_side, self.new_side, "putr")

    def write_new(self, writes: Writes) -> None:
        """A transaction on the new side."""
        deltas = {name: self.new_side.delta(name, *write) for name, write in writes.items()}
        self._write(deltas, self.new_side, self.old_side, "putl")

    def _write(self, deltas: TableImages, here: MemorySide, there: MemorySide, put: str) -> None:
        assert self.verdicts[_DIRECTION[put]] is None, self.verdicts[_DIRECTION[put]]
        here.cost, there.cost = Cost(), Cost()
        carried = self._carried(put, deltas, here, there)
        both = (here.cost, there.cost)
        self.cost = Cost(*(sum(getattr(c, n) for c in both) for n in ("keys", "values", "scans")))
        before = there.copy()
        here.apply(deltas)
        there.apply(carried)
        self.carried = carried
        _check_untouched(before, there, carried)
        self._touch(carried, there, here, "putl" if put == "putr" else "putr")
        self._touch(deltas, here, there, put)

    def _carried(
        self, put: str, deltas: TableImages, here: MemorySide, there: MemorySide
    ) -> TableImages:
        """What a change is on the other side: through the lens, and beside it."""
        shared = {name: images for name, images in deltas.items() if name in self.beside}
        return {**shared, **getattr(self.lens, put)(deltas, here, there)}

    def _touch(self, deltas: TableImages, here: MemorySide, there: MemorySide, put: str) -> None:
        """Write rows that are there once more: nothing may change anywhere."""
        if self.verdicts[_DIRECTION[put]] is not None:
            return
        same = {name: RowImages(delta.after, delta.after) for name, delta in deltas.items()}
        for table, delta in self._carried(put, same, here.copy(), there.copy()).items():
            schema = there.schemas[table]
            what = f"{table}: {put} of rows that did not change"
            assert_same(schema, delta.before, delta.after, what)
            there.assert_holds(table, delta.before)

    def check_laws(self) -> None:
        """Every row of either side, written once more, changes nothing."""
        for here, there, put in (
            (self.old_side, self.new_side, "putr"),
            (self.new_side, self.old_side, "putl"),
        ):
            for name, schema in here.schemas.items():
                check_not_null(name, schema, here.tables[name])
                check_rows(schema, here.tables[name])
            self._touch({n: RowImages(t, t) for n, t in here.tables.items()}, here, there, put)


def _check_untouched(before: MemorySide, after: MemorySide, carried: TableImages) -> None:
    """Nothing but the rows of a change changed."""
    for name, schema in before.schemas.items():
        if name not in carried:
            assert_same(schema, before.tables[name], after.tables[name], f"{name}: untouched")


# --- rows -------------------------------------------------------------------------------------


def sorted_rows(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Rows in key order; no key may be there twice."""
    encoded = keys_of(schema, rows)
    order = np.argsort(encoded, kind="stable")
    assert len(np.unique(encoded)) == len(encoded), "a key is there twice"
    return rows.take(pa.array(order, pa.int64())).combine_chunks()


def assert_same(schema: TableSchema, first: pa.Table, second: pa.Table, what: str) -> None:
    """Two tables hold the same rows, bit for bit, in whatever order."""
    one, two = sorted_rows(schema, first), sorted_rows(schema, second)
    shown = f"{what}\n{one.to_pylist()}\n{two.to_pylist()}"
    assert one.num_rows == two.num_rows, shown
    for column in schema.columns:
        arrays = [
            pa.concat_arrays([pa.array([], column.type), *rows.column(column.name).chunks])
            for rows in (one, two)
        ]
        assert not differs(*arrays).any(), f"column {column.name!r}: {shown}"


def _table(schema: TableSchema, rows: Rows) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows.cast(schema.arrow)
    return pa.Table.from_pylist([dict(row) for row in rows], schema.arrow)


def _keys(schema: TableSchema, keys: Keys) -> pa.Table:
    if isinstance(keys, pa.Table):
        return keys.select(list(schema.key))
    rows = [dict(zip(schema.key, key, strict=True)) for key in keys]
    return pa.Table.from_pylist(rows, pa.schema([column.field for column in schema.key_columns]))


def _plain(row: Mapping[str, Any]) -> str:
    """A row's values as something that can be compared; NaN is NaN."""
    return repr(list(row.values()))
