"""Layered stores: several chunk stores read as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice

import numpy as np
import numpy.typing as npt

from livingdb.chunks.address import Address
from livingdb.chunks.store import Buffer, ChunkStore, StoredChunk, missing_chunk
from livingdb.errors import Corruption

__all__ = ["LayeredStore"]

_BATCH = 4_096


class LayeredStore:
    """Reads from the first store that has the chunk; writes to the first store.

    Chunks may move from an earlier store to a later one under a reader, as long as they are
    in the later one before they leave the earlier one.
    """

    def __init__(self, *stores: ChunkStore) -> None:
        if not stores:
            raise ValueError("a layered store needs at least one store")
        self._stores = stores

    def get(self, address: Address) -> Buffer:
        """The stored bytes from the first store that can give them.

        `Corruption` if none can; when one of them is damaged, the error says so.
        """
        absent = missing_chunk(address)
        damage: Corruption | None = None
        for store in self._stores:
            try:
                return store.get(address)
            except Corruption as error:
                if damage is None and str(error) != str(absent):
                    damage = error
        raise damage or absent

    def get_many(self, addresses: Sequence[Address]) -> Mapping[Address, Buffer]:
        """None: each is as quickly had alone."""
        return {}

    def contains(self, addresses: Sequence[Address]) -> npt.NDArray[np.bool_]:
        """Which of the addresses are in any of the stores."""
        return _contained_in_any(self._stores, addresses)

    def put(self, chunks: Iterable[StoredChunk]) -> None:
        """Keep the chunks in the first store."""
        self._stores[0].put(chunks)

    def addresses(self) -> Iterator[Address]:
        """Every address in any of the stores, each once."""
        for depth, store in enumerate(self._stores):
            for batch in _batches(store.addresses()):
                yield from compress(batch, ~_contained_in_any(self._stores[:depth], batch))

    def __len__(self) -> int:
        return sum(
            len(batch) - int(_contained_in_any(self._stores[:depth], batch).sum())
            for depth, store in enumerate(self._stores)
            for batch in _batches(store.addresses())
        )


def _contained_in_any(
    stores: Sequence[ChunkStore], addresses: Sequence[Address]
) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(addresses), np.bool_)
    for store in stores:
        wanted = np.flatnonzero(~found)
        if not len(wanted):
            break
        found[wanted] = store.contains([addresses[place] for place in wanted.tolist()])
    return found


def _batches(addresses: Iterator[Address]) -> Iterator[list[Address]]:
    while batch := list(islice(addresses, _BATCH)):
        yield batch
