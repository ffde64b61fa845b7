"""The shape of a tree: what its leaves hold and where its chunks end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import pyarrow as pa

from livingdb.trees.keys import KeyArray, KeyCodec
from livingdb.trees.splitter import ContentSplitter, Splitter
from livingdb.trees.zones import zone_types

__all__ = ["Shape"]


@dataclass(frozen=True)
class Shape:
    """Columns of the leaves, key columns first, and the splitter.

    Names serve messages and batches; they are in no chunk.  `nullable` are the positions of the
    key columns that may be null.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    key_count: int
    splitter: Splitter = field(default_factory=ContentSplitter)
    piece_bytes: int = 4 << 20
    nullable: tuple[int, ...] = ()

    @cached_property
    def codec(self) -> KeyCodec:
        """Encodes the keys of this tree."""
        return KeyCodec(self.types[: self.key_count], self.nullable)

    @cached_property
    def read_format(self) -> tuple[object, ...]:
        """What keys and columns of a leaf are read by; tables that share it may differ in that."""
        return self.key_count, self.nullable, *map(str, self.types)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of a leaf."""
        return pa.schema(list(zip(self.names, self.types, strict=True)))

    @cached_property
    def zoned_positions(self) -> tuple[int, ...]:
        """Positions of the columns with zone maps: all but the leading key column."""
        return tuple(range(1, len(self.types)))

    @cached_property
    def entry_types(self) -> tuple[pa.DataType, ...]:
        """Types of the columns of an interior node."""
        types = [pa.binary(), pa.binary(32), pa.int64()]
        for position in self.zoned_positions:
            types += zone_types(self.types[position])
        return tuple(types)

    @cached_property
    def zone_places(self) -> tuple[int, ...]:
        """Where the zone-map columns of each zoned column start in an interior node; the end."""
        widths = [len(zone_types(self.types[position])) for position in self.zoned_positions]
        return tuple(accumulate(widths, initial=3))

    def keys(self, columns: Sequence[pa.Array]) -> KeyArray:
        """The encoded keys of rows given by their columns, key columns first."""
        return self.codec.encode(columns[: self.key_count])
