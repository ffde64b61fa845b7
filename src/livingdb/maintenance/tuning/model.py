"""The cost model: what it takes to read and write leaves, on this machine and in this store.

Everything that advisors weigh comes down to leaves that are read, written, or have changes laid
over them.  A leaf costs something to be opened, each of its columns to be begun, and each byte of
their values to be read.  The constants are measured once (see `calibrate`) and kept as a fact about
the database; `docs/design/tuning.md` says how far off the model is.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from livingdb.trees.nodes import Cache

__all__ = ["CostModel"]


@dataclass(frozen=True)
class CostModel:
    """Seconds.

    seek           to find a row in a leaf that is at hand
    scan           to begin to read a range
    leaf           to open a leaf
    column         to begin one of its columns
    byte           to read a byte of its values
    leaf_write     to make a leaf; and so on
    overlay_leaf   to lay changes over a leaf that is read
    overlay_byte   and for each byte of it
    fetch          to have a chunk from the store
    fetch_byte     and for each byte of it
    """

    seek: float
    scan: float
    leaf: float
    column: float
    byte: float
    leaf_write: float
    column_write: float
    byte_write: float
    overlay_leaf: float
    overlay_byte: float
    fetch: float
    fetch_byte: float

    def read_leaf(self, columns: int, size_bytes: float) -> float:
        """What it takes to read some columns of a leaf, which hold so many bytes."""
        read = self.leaf + columns * self.column + size_bytes * self.byte
        return read + self.fetch + size_bytes * self.fetch_byte

    def write_leaf(self, columns: int, size_bytes: float) -> float:
        """What it takes to make a leaf."""
        return self.leaf_write + columns * self.column_write + size_bytes * self.byte_write

    def overlay(self, size_bytes: float) -> float:
        """What changes that lie over a leaf add to reading it."""
        return self.overlay_leaf + size_bytes * self.overlay_byte

    @property
    def cache_bytes(self) -> int:
        """What a process keeps of what it has read."""
        return Cache().limit_bytes

    def to_text(self) -> str:
        """The model as it is kept."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> CostModel | None:
        """The inverse of `to_text`; None for what somebody else kept."""
        found = json.loads(text)
        return cls(**found) if set(found) == set(cls.__dataclass_fields__) else None
