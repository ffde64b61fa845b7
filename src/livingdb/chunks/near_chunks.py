"""Near chunks: some that are wanted soon, read in one go."""

from __future__ import annotations

from collections.abc import Sequence

from livingdb.chunks.address import Address
from livingdb.chunks.store import Buffer, ChunkStore

__all__ = ["NearChunks"]


class NearChunks:
    """What reads chunks, with some of them at hand."""

    def __init__(self, store: ChunkStore, wanted: Sequence[Address]):
        self._store = store
        self._held = store.get_many(wanted)

    def get(self, address: Address) -> Buffer:
        """The stored bytes; `Corruption` if there is no such chunk."""
        found = self._held.get(address)
        return self._store.get(address) if found is None else found
