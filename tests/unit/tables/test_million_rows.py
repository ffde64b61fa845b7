"""A table of a million rows on disk: loaded, changed, folded and compared, beside a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.store import StoredChunk
from livingdb.files.local import LocalFiles
from livingdb.tables import ingest
from livingdb.tables.classify import classify
from livingdb.tables.fold import fold
from livingdb.tables.index import MemoryIndex, Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta, merge_deltas
from livingdb.trees.diff import DELETED, INSERTED, UPDATED

SHOPS, IDS = 100, 20_000
ROWS = 1_000_000
COMMITS, PER_COMMIT = 50, 1_000
SCHEMA = TableSchema.of(
    {"shop": "string", "id": "bigint", "city": "string", "amount": "double", "quantity": "int"},
    ["shop", "id"],
)
DEFINITION = Definition(SCHEMA, Layout(groups=[["city"], ["amount", "quantity"]]))
SHAPE = DEFINITION.layout.grouping(SCHEMA).row_shape

Places = npt.NDArray[np.int64]


@dataclass
class Model:
    """All rows there could be, by place: which are there, and what they hold."""

    there: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(SHOPS * IDS, bool))
    city: Places = field(default_factory=lambda: np.zeros(SHOPS * IDS, np.int64))
    amount: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(SHOPS * IDS))
    quantity: Places = field(default_factory=lambda: np.zeros(SHOPS * IDS, np.int64))

    def copy(self) -> Model:
        return Model(self.there.copy(), self.city.copy(), self.amount.copy(), self.quantity.copy())

    def keys(self, places: Places) -> dict[str, pa.Array]:
        shops = pa.array([f"shop {number:03}" for number in range(SHOPS)])
        return {"shop": shops.take(pa.array(places // IDS)), "id": pa.array(places % IDS)}

    def table(self, places: Places | None = None) -> pa.Table:
        """The rows that are there, in key order, or those at some places."""
        places = np.flatnonzero(self.there) if places is None else places
        cities = pa.array([f"city number {number}" for number in range(500)])
        return pa.table(
            {
                **self.keys(places),
                "city": cities.take(pa.array(self.city[places])),
                "amount": self.amount[places],
                "quantity": self.quantity[places],
            }
        ).cast(SCHEMA.arrow)

    def put(self, places: Places, chance: np.random.Generator) -> None:
        self.there[places] = True
        self.city[places] = chance.integers(0, 500, len(places))
        self.amount[places] = chance.integers(0, 10**6, len(places)) / 100
        self.quantity[places] = chance.integers(1, 20, len(places))


class Shop:
    """The table on disk."""

    def __init__(self, folder: Path):
        self.store = PackStore(LocalFiles(folder))
        self.versions = Versions(self.store, MemoryIndex())

    def load(self, table: pa.Table) -> Version:
        with self.store.writer() as stream:
            columns, _ = ingest.sorted_rows(SCHEMA, SHAPE, table)
            return self.versions.create(DEFINITION, [columns], lambda chunk: stream.put([chunk]))

    def commit(self, base: Version, parts: list[Delta]) -> Version:
        made: list[StoredChunk] = []
        changes, counts = classify(self.versions.rows(base), merge_deltas(parts))
        version = self.versions.change(base, changes, made.append, counts)
        self.store.put(made)
        return version

    def fold(self, version: Version) -> None:
        with self.store.writer() as stream:
            fold(self.versions, version, lambda chunk: stream.put([chunk]))


@pytest.mark.slow
def test_a_million_rows(tmp_path: Path) -> None:
    chance = np.random.default_rng(11)
    model = Model()
    model.put(chance.choice(SHOPS * IDS, ROWS, replace=False), chance)
    shop = Shop(tmp_path)
    head = shop.load(model.table().take(chance.permutation(ROWS)))
    assert shop.versions.rows(head).to_arrow().combine_chunks() == model.table().combine_chunks()

    kept: dict[int, tuple[Version, Model]] = {}
    for number in range(COMMITS):
        head = random_commit(shop, head, model, chance)
        assert head.rows == int(model.there.sum())
        if number in (9, COMMITS - 1):
            kept[number] = (head, model.copy())
    for version, then in kept.values():
        before = shop.versions.rows(version).to_arrow().combine_chunks()
        assert before == then.table().combine_chunks()
        shop.fold(version)
        assert shop.versions.rows(version).tail is None
        assert shop.versions.rows(version).to_arrow().combine_chunks() == before

    check_diff(shop, *kept[9], *kept[COMMITS - 1])
    fresh = Versions(PackStore(LocalFiles(tmp_path)), shop.versions.index)
    assert fresh.rows(head).to_arrow(["id", "amount"]) == model.table().select(["id", "amount"])
    assert fresh.rows(head).count() == int(model.there.sum())
    for place in chance.choice(SHOPS * IDS, 200).tolist():
        row = fresh.rows(head).get(f"shop {place // IDS:03}", place % IDS)
        expected = model.table(np.array([place])).to_pylist()[0] if model.there[place] else None
        assert row == expected


def random_commit(shop: Shop, head: Version, model: Model, chance: np.random.Generator) -> Version:
    """700 upserts, 200 patches of one column and 100 deletes anywhere in the table."""
    places = chance.choice(SHOPS * IDS, PER_COMMIT, replace=False)
    new, patched, gone = np.split(places, [700, 900])
    model.put(new, chance)
    amounts = chance.integers(0, 10**6, len(patched)) / 100
    parts: list[Delta] = [
        ingest.upserts(SCHEMA, SHAPE, model.table(new)),
        ingest.patches(SCHEMA, SHAPE, {**model.keys(patched), "amount": amounts}),
        ingest.deletes(SCHEMA, SHAPE, pa.table(model.keys(gone))),
    ]
    model.amount[patched] = np.where(model.there[patched], amounts, model.amount[patched])
    model.there[gone] = False
    return shop.commit(head, parts)


def check_diff(shop: Shop, old: Version, before: Model, new: Version, after: Model) -> None:
    """The diff of two folded versions is exactly what the models differ in."""
    roots = [shop.versions.index.tree(version.address) for version in (old, new)]
    assert roots[0] is not None
    assert roots[1] is not None
    batches = list(shop.versions.forest(new).diff(roots[0].root, roots[1].root))
    kinds = np.concatenate([batch.kinds for batch in batches])
    both = before.there & after.there
    changed = (before.city != after.city) | (before.amount != after.amount)
    changed |= before.quantity != after.quantity
    places = np.flatnonzero((before.there != after.there) | (both & changed))
    expected = np.where(before.there[places], UPDATED, INSERTED)
    expected[~after.there[places]] = DELETED
    assert kinds.tolist() == expected.tolist()
    for side, model, absent in (("before", before, INSERTED), ("after", after, DELETED)):
        columns = [
            pa.concat_arrays([getattr(batch, side)[at] for batch in batches])
            for at in range(len(SCHEMA.stored_columns))
        ]
        there = kinds != absent
        rows = pa.table(columns, schema=SCHEMA.arrow).filter(pa.array(there))
        assert rows.combine_chunks() == model.table(places[there]).combine_chunks()
        assert all(
            column.filter(pa.array(~there)).null_count == (~there).sum() for column in columns
        )
