"""Recipes: how the rows of a table version come to be.

    Rows(definition, root)      the rows under this root
    Change(base, delta)         another version with these rows upserted, patched or deleted

A recipe is a record; its address is the version.  Other kinds are evaluated by whoever
registers an `Evaluator` for them (see `versions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import encode_record
from livingdb.chunks.store import ChunkReader, ChunkStore, StoredChunk
from livingdb.errors import Corruption
from livingdb.tables.identity import column_id, table_id
from livingdb.tables.layout import Layout
from livingdb.tables.records import load_record, record
from livingdb.tables.schema import TableSchema

__all__ = [
    "Change",
    "Counts",
    "Definition",
    "Derived",
    "Recipe",
    "Rows",
    "fresh_recipe",
    "load_recipe",
    "parse_recipe",
]


@dataclass(frozen=True)
class Definition:
    """What a table is: its schema, its layout and its identity.

    Without an `id` the table is older than identities are, or stands for rows only; where there
    is a snapshot, `graph.table_ids` finds one for it.
    """

    schema: TableSchema
    layout: Layout
    id: str | None = None

    def identified(self, change: str) -> Definition:
        """The definition as a change makes it that makes this table and nothing else."""
        columns = [
            replace(column, id=column_id(change, ordinal))
            for ordinal, column in enumerate(self.schema.columns)
        ]
        schema = replace(self.schema, columns=tuple(columns), next_id=None)
        return Definition(schema, self.layout, table_id(change, 0))

    def is_alike(self, other: Definition) -> bool:
        """Whether rows of the two can be told apart by their values only.

        Their tables and columns may have come about independently of each other, their unique
        constraints may have other names, and their texts may once have been written in others.
        """
        return self == other or self._anonymous == other._anonymous

    @cached_property
    def _anonymous(self) -> Definition:
        columns = tuple(replace(column, id="") for column in self.schema.columns)
        uniques = tuple(sorted(("", tuple(sorted(group))) for _, group in self.schema.uniques))
        schema = replace(self.schema, columns=columns, next_id=None, uniques=uniques, written=())
        return Definition(schema, self.layout)

    def to_chunk(self) -> StoredChunk:
        """The definition as a record."""
        return record(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The definition as plain values."""
        values = {"schema": self.schema.to_json(), "layout": self.layout.to_json()}
        is_numbered = self.id is None and self.schema.next_id is not None
        return values if is_numbered else {"id": self.id, **values}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Definition:
        """The inverse of `to_json`."""
        schema, layout = TableSchema.from_json(data["schema"]), Layout.from_json(data["layout"])
        return cls(schema, layout, data.get("id"))

    @classmethod
    def load(cls, store: ChunkStore, address: Address) -> Definition:
        """The definition at an address."""
        data = load_record(store, address)
        try:
            return cls.from_json(data)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Corruption(f"record {address.hex()[:12]} is no table definition") from None


@dataclass(frozen=True)
class Counts:
    """Rows that a change inserted, updated and deleted: rows whose values really differ."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class Rows:
    """The rows under a root.

    `epoch` is 0, unless the recipe would have the address of one that was redacted.
    """

    definition: Address
    root: Address
    count: int
    epoch: int = 0

    def to_chunk(self) -> StoredChunk:
        """The recipe as a record."""
        return record(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain values."""
        values = {
            "kind": "rows",
            "definition": self.definition.hex(),
            "root": self.root.hex(),
            "count": self.count,
        }
        return {**values, "epoch": self.epoch} if self.epoch else values


@dataclass(frozen=True)
class Change:
    """A base version with a delta over it.

    `columns` are the value columns the delta carries, as `TableSchema.delta_numbers` has them,
    and `masked` those of them that only some of its rows carry.  `counts` is None until somebody
    compared the rows.  `epoch` is as that of `Rows`.
    """

    base: Address
    chunks: tuple[Address, ...]
    columns: tuple[int, ...]
    masked: tuple[int, ...]
    rows: int
    counts: Counts | None = None
    epoch: int = 0

    def to_chunk(self) -> StoredChunk:
        """The recipe as a record: that of `to_json`, spelt out, as a commit may make hundreds."""
        chunks = ",".join(f'"{chunk.hex()}"' for chunk in self.chunks)
        columns, masked = (",".join(map(str, some)) for some in (self.columns, self.masked))
        counts, epoch = "null", f'"epoch":{self.epoch},' if self.epoch else ""
        if self.counts is not None:
            counted = self.counts
            counts = f"[{counted.inserted},{counted.updated},{counted.deleted}]"
        text = (
            f'{{"base":"{self.base.hex()}","chunks":[{chunks}],"columns":[{columns}],'
            f'"counts":{counts},{epoch}"kind":"change","masked":[{masked}],"rows":{self.rows}}}'
        )
        return encode_record(text.encode())

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain values."""
        counts = self.counts
        values = {
            "kind": "change",
            "base": self.base.hex(),
            "chunks": [chunk.hex() for chunk in self.chunks],
            "columns": list(self.columns),
            "masked": list(self.masked),
            "rows": self.rows,
            "counts": counts and [counts.inserted, counts.updated, counts.deleted],
        }
        return {**values, "epoch": self.epoch} if self.epoch else values


@dataclass(frozen=True)
class Derived:
    """A recipe of a kind that an evaluator answers for."""

    kind: str
    data: Mapping[str, Any]

    def to_chunk(self) -> StoredChunk:
        """The recipe as a record."""
        return record({"kind": self.kind, **self.data})


Recipe = Rows | Change | Derived


def load_recipe(store: ChunkReader, version: Address) -> Recipe:
    """The recipe of a version."""
    return parse_recipe(version, load_record(store, version))


def parse_recipe(version: Address, data: Mapping[str, Any]) -> Recipe:
    """The recipe that a record holds; the version is for messages."""
    try:
        kind = data["kind"]
        if kind == "rows":
            definition, root = _address(data["definition"]), _address(data["root"])
            return Rows(definition, root, data["count"], data.get("epoch", 0))
        if kind == "change":
            return Change(
                _address(data["base"]),
                tuple(_address(text) for text in data["chunks"]),
                tuple(data["columns"]),
                tuple(data["masked"]),
                data["rows"],
                Counts(*data["counts"]) if data["counts"] else None,
                data.get("epoch", 0),
            )
        return Derived(kind, {name: value for name, value in data.items() if name != "kind"})
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Corruption(f"record {version.hex()[:12]} is no recipe") from None


def fresh_recipe(recipe: Recipe, is_taken: Callable[[Address], bool]) -> StoredChunk:
    """The record of a recipe, with the first epoch that gives it an address of its own."""
    stored, epoch = recipe.to_chunk(), 0
    while is_taken(stored.address):
        epoch += 1
        if isinstance(recipe, Derived):
            recipe = replace(recipe, data={**recipe.data, "epoch": epoch})
        else:
            recipe = replace(recipe, epoch=epoch)
        stored = recipe.to_chunk()
    return stored


def _address(text: str) -> Address:
    return Address(bytes.fromhex(text))
