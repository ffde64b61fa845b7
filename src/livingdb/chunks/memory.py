"""The memory store: chunks in a dictionary, for tests and for data that need not last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock

import numpy as np
import numpy.typing as npt

from livingdb.chunks.address import Address
from livingdb.chunks.store import Buffer, StoredChunk, missing_chunk

__all__ = ["MemoryStore"]


class MemoryStore:
    """A `ChunkStore` that lives as long as the process; threads may share it."""

    def __init__(self, chunks: Iterable[StoredChunk] = ()) -> None:
        self._data: dict[Address, bytes] = {}
        self._writing = Lock()
        self.put(chunks)

    def get(self, address: Address) -> bytes:
        """The stored bytes; `Corruption` if there is no such chunk."""
        data = self._data.get(address)
        if data is None:
            raise missing_chunk(address)
        return data

    def get_many(self, addresses: Sequence[Address]) -> Mapping[Address, Buffer]:
        """None: each is as quickly had alone."""
        return {}

    def contains(self, addresses: Sequence[Address]) -> npt.NDArray[np.bool_]:
        """Which of the addresses are here."""
        return np.fromiter((address in self._data for address in addresses), np.bool_)

    def put(self, chunks: Iterable[StoredChunk]) -> None:
        """Keep the chunks; if iterating over them fails, none is kept."""
        arriving = {chunk.address: bytes(chunk.data) for chunk in chunks}
        with self._writing:
            for address, data in arriving.items():
                self._data.setdefault(address, data)

    def addresses(self) -> Iterator[Address]:
        """Every address here when the call was made."""
        with self._writing:
            return iter(tuple(self._data))

    def __len__(self) -> int:
        return len(self._data)
