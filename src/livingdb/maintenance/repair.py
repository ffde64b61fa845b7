"""Mending a database with a second copy of it: rows of the catalog first, then chunks.

A chunk's address says what it has to be, so it does not matter how old the copy is: whatever chunk
it has is taken, but for what was erased since.  A damaged pack is written anew from what can be
read of it and what the copy has.
"""

from __future__ import annotations

from collections.abc import Iterable

from livingdb.chunks.address import Address, short
from livingdb.chunks.chunk import Chunk
from livingdb.chunks.pack import Pack
from livingdb.chunks.store import ChunkStore, StoredChunk
from livingdb.errors import LivingDBError
from livingdb.graph.graph import Graph, now
from livingdb.maintenance.check import Check, read_columns
from livingdb.maintenance.reach import references
from livingdb.maintenance.repair_rows import Mended, mend_rows

__all__ = ["repair"]


def repair(graph: Graph, copy: Graph) -> list[Mended]:
    """Mend what the copy has; what was mended.  What it has not is found by the next check."""
    return [*mend_rows(graph.catalog.engine, copy.catalog.engine), *_Repair(graph, copy).run()]


class _Repair:
    """Mends chunks until a check finds none that the copy has."""

    def __init__(self, graph: Graph, copy: Graph):
        self._graph = graph
        self._store = graph.store
        self._copy = copy.store
        self._files = graph.place.files, copy.place.files
        self._mended: list[Mended] = []
        redactions = graph.catalog.erasures.redactions()
        self._redactions = {row.old: row.new for row in redactions}

    def run(self) -> list[Mended]:
        while True:
            work = Check(self._graph)
            work.run()
            before = len(self._mended)
            for name in work.damaged_packs:
                self._rewrite_pack(name)
            self._fetch(address for address in work.damaged if not self._is_sound(address))
            if len(self._mended) == before:
                break
        if work.damaged_packs and all(map(self._is_sound, work.damaged)):
            self._drop_packs(work.damaged_packs)
        return self._mended

    def _rewrite_pack(self, name: str) -> None:
        """Put what a damaged pack held in a new one, if anybody knows what that was."""
        addresses = self._addresses(name)
        if not addresses:
            return
        kept: dict[Address, StoredChunk] = {}
        for address in addresses:
            for found in self._own(name, address), self._copied(address):
                if found is not None:
                    kept[address] = found
                    break
        self._replace(kept.values(), [name])
        lost = len(addresses) - len(kept)
        rest = f"; {lost} chunks of it are lost" if lost else ""
        self._mended.append(Mended(f"pack {name}", f"{len(kept)} chunks are in a new pack{rest}"))

    def _addresses(self, name: str) -> list[Address]:
        """What is in a pack, by its own index or by that of the copy."""
        for files in self._files:
            try:
                return list(Pack(files.view(f"packs/{name}"), name).addresses())
            except LivingDBError:
                continue
        return []

    def _own(self, name: str, address: Address) -> StoredChunk | None:
        """A chunk of a damaged pack that is not damaged itself."""
        try:
            body = Pack(self._files[0].view(f"packs/{name}"), name).get(address)
            return _verified(address, bytes(body[0 : len(body)]), self._store)
        except LivingDBError:
            return None

    def _copied(self, address: Address) -> StoredChunk | None:
        """A chunk of the copy that is sound, and is not one of which something was erased here."""
        found = _sound_chunk(self._copy, address)
        wanted = self._redactions.get(address)
        if found is None or wanted is None:
            return found
        return found if Chunk(address, found.data).redaction == wanted else None

    def _fetch(self, addresses: Iterable[Address]) -> None:
        """Take chunks from the copy, with those that they are stored against."""
        found: dict[Address, StoredChunk] = {}
        for address in addresses:
            chunk = self._copied(address)
            if chunk is None:
                continue
            found[address] = chunk
            self._mended.append(Mended(f"chunk {short(address)}", "it was taken from the copy"))
            for reference in references(self._copy, address):
                known = _sound_chunk(self._copy, reference)
                if known is not None and not self._is_sound(reference):
                    found.setdefault(reference, known)
        if found:
            self._replace(found.values(), [])

    def _replace(self, chunks: Iterable[StoredChunk], packs: Iterable[str]) -> None:
        """Keep chunks in a new pack; packs and the journal's copies count no more."""
        kept = list(chunks)
        with self._store.packs.with_packs(()).writer(again=True) as stream:
            stream.put(kept)
            names = stream.flush()
        levels = self._store.levels(names)
        with self._graph.catalog.write() as connection:
            self._store.journal.remove([chunk.address for chunk in kept], connection)
            self._graph.catalog.packs.retire(connection, packs, now())
            self._graph.catalog.packs.add(connection, levels)
        self._store.refresh()

    def _drop_packs(self, names: Iterable[str]) -> None:
        """Packs that nobody can read, and of which nothing is missing any more."""
        for name in names:
            self._replace([], [name])
            self._mended.append(Mended(f"pack {name}", "nothing of it is missing: it is dropped"))

    def _is_sound(self, address: Address) -> bool:
        return _sound_chunk(self._store, address) is not None


def _sound_chunk(store: ChunkStore, address: Address) -> StoredChunk | None:
    """A chunk that a store has and that is what its address says."""
    try:
        body = store.get(address)
        return _verified(address, bytes(body[0 : len(body)]), store)
    except LivingDBError:
        return None


def _verified(address: Address, data: bytes, store: ChunkStore) -> StoredChunk:
    read_columns(Chunk(address, data, store.get))
    return StoredChunk(address, data)
