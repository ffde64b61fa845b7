"""The seam for keeping chunks: what every chunk store promises.

A store keeps *stored chunks*: bytes that begin with the chunk's header, whose BLAKE3 is
the address.  It does not look inside; whoever decodes a chunk verifies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from livingdb.chunks.address import Address, short
from livingdb.errors import Corruption

__all__ = ["Buffer", "ChunkReader", "ChunkStore", "StoredChunk", "missing_chunk"]


class Buffer(Protocol):
    """Sliceable bytes: `memoryview`, `bytes`, or a ranged reader of an object store."""

    def __len__(self) -> int: ...
    def __getitem__(self, span: slice, /) -> bytes | memoryview: ...


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk on its way into a store."""

    address: Address
    data: bytes


class ChunkReader(Protocol):
    """Gives chunks by address."""

    def get(self, address: Address) -> Buffer:
        """The stored bytes; `Corruption` if there is no such chunk."""
        ...


class ChunkStore(Protocol):
    """Keeps chunks by address.  Putting an address that is there already changes nothing."""

    def get(self, address: Address) -> Buffer:
        """The stored bytes; `Corruption` if there is no such chunk."""
        ...

    def get_many(self, addresses: Sequence[Address]) -> Mapping[Address, Buffer]:
        """The stored bytes of those that are had in one go; others are for `get`."""
        ...

    def contains(self, addresses: Sequence[Address]) -> npt.NDArray[np.bool_]:
        """Which of the addresses are here."""
        ...

    def put(self, chunks: Iterable[StoredChunk]) -> None:
        """Keep the chunks: all of them durably, or none that anybody can see."""
        ...

    def addresses(self) -> Iterator[Address]:
        """Every address here, each once, in no promised order."""
        ...

    def __len__(self) -> int:
        """How many chunks are here."""
        ...


def missing_chunk(address: Address) -> Corruption:
    """The error for a chunk that should be there and is not."""
    return Corruption(f"chunk {short(address)} is missing from the store; run `check`")
