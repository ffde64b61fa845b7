"""The pack store: many packs in a folder, read as one chunk store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from threading import Lock
from typing import Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from livingdb.chunks.address import Address
from livingdb.chunks.chunk_format import stored_against
from livingdb.chunks.pack import Pack, PackWriter
from livingdb.chunks.pack_format import IN_BLOCK
from livingdb.chunks.store import Buffer, StoredChunk, missing_chunk
from livingdb.errors import Corruption, NotFound, StorageFailure
from livingdb.files.base import Files, FileWriter

__all__ = ["PackStore", "PackStream"]

PACK_SUFFIX = ".pack"
PACK_BYTES_LIMIT = 256 << 20
PACK_CHUNKS_LIMIT = 1 << 20

_BATCH_CHUNKS = 1_024
_BATCH_BYTES = 4 << 20
_BATCH_ADDRESSES = 4_096


class PackStore:
    """A `ChunkStore` over the packs in a folder; threads may share it.

    `names` are the packs to read, oldest first; None means every pack in the folder.  The set
    changes under readers with `add` and `remove`.  A chunk that is not found is looked for
    once more after `refresh` said which packs there are now (by default, with no names given,
    the folder is listed); packs that were added here and that it does not name yet stay.
    Newer packs are searched first.
    """

    def __init__(
        self,
        files: Files,
        names: Iterable[str] | None = None,
        folder: str = "packs",
        *,
        refresh: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        self._files = files
        self._folder = folder
        self._refresh = refresh or (self._list_packs if names is None else None)
        self._changing = Lock()
        self._parts: tuple[_Part, ...] = ()
        self._retired: tuple[_Part, ...] = ()
        self._last_hit: _Part | None = None
        self._resolve(self._list_packs() if names is None else names)

    @property
    def names(self) -> tuple[str, ...]:
        """The packs that are read, oldest first."""
        return tuple(part.name for part in reversed(self._parts))

    def add(self, *names: str) -> None:
        """Read these packs from now on, all of them from the same moment; they are the newest."""
        with self._changing:
            known = {part.name for part in self._parts}
            new = [self._part(name) for name in dict.fromkeys(names) if name not in known]
            self._parts = (*reversed(new), *self._parts)

    def remove(self, *names: str) -> None:
        """Read these packs no more.  Their files stay, and so do chunks already handed out."""
        with self._changing:
            self._parts = tuple(part for part in self._parts if part.name not in names)
            self._retired = tuple(part for part in self._retired if part.name not in names)
            self._last_hit = None

    def retire(self, *names: str) -> None:
        """As `remove`, but chunks are still found in them: by `get`, and by nothing else.

        For who is in the middle of reading what only they hold.  `remove` ends that, too.
        """
        with self._changing:
            leaving = tuple(part for part in self._parts if part.name in names)
            self._retired = (*leaving, *self._retired)
            self._parts = tuple(part for part in self._parts if part.name not in names)
            self._last_hit = None

    def linger(self, *names: str) -> None:
        """Find chunks in these packs, too, as in those that were retired here."""
        with self._changing:
            known = {part.name for part in (*self._parts, *self._retired)}
            new = [self._part(name) for name in names if name not in known]
            self._retired = (*self._retired, *new)

    def with_packs(self, names: Iterable[str]) -> PackStore:
        """A store of the same folder that reads these packs, oldest first, and never others."""
        return PackStore(self._files, names, self._folder)

    def in_written_order(self) -> Iterator[Address]:
        """Every address once, pack by pack and oldest first, as the chunks were written."""
        for _, addresses in self._as_written():
            yield from addresses

    def read_in_written_order(self) -> Iterator[tuple[Address, Buffer]]:
        """Every chunk once, in the order of `in_written_order`."""
        for pack, addresses in self._as_written():
            yield from pack.read_in_order(addresses)

    def _as_written(self) -> Iterator[tuple[Pack, list[Address]]]:
        """The packs, oldest first, each with those of its addresses that no older one has."""
        seen: set[Address] = set()
        for part in reversed(self._parts):
            pack = part.pack()
            addresses = [one for one in pack.in_body_order() if one not in seen]
            yield pack, addresses
            seen.update(addresses)

    def get(self, address: Address) -> Buffer:
        """The stored bytes from any pack that can give them.

        `Corruption` if none can; when a pack is damaged or gone, the error says which.
        """
        body, damage = self._search(address)
        if body is None and self._reload():
            body, damage = self._search(address)
        if body is None:
            raise damage or missing_chunk(address)
        return body

    def read_in_order(self, addresses: Iterable[Address]) -> Iterator[tuple[Address, Buffer]]:
        """Many chunks, those of a pack in the order in which they lie, and so in little time.

        Those that are not here, or in a pack that is damaged, come last, as `get` has them.
        """
        wanted = dict.fromkeys(addresses)
        for part in self._parts:
            try:
                for address, body in part.pack().read_in_order(list(wanted)):
                    del wanted[address]
                    yield address, body
            except Corruption:
                continue  # another pack may have what is left
        yield from ((address, self.get(address)) for address in wanted)

    def read_back_blocks(self) -> set[Address]:
        """The records that lie in blocks; `Corruption` if one does not hold what it should."""
        return {address for part in self._parts for address in part.pack().read_back_blocks()}

    def references(self, addresses: Iterable[Address]) -> set[Address]:
        """What chunks are stored against: dictionaries and the bases of patches, the next ones."""
        wanted = dict.fromkeys(addresses)
        found: set[Address | None] = set()
        for part in self._parts:
            with suppress(Corruption):  # another pack may have what is in it
                known = part.pack().references(list(wanted))
                found.update(known.values())
                wanted = {address: None for address in wanted if address not in known}
        found.update(stored_against(self.get(address)) for address in wanted)
        return {named for named in found if named is not None}

    def stored_bytes(self, address: Address) -> int:
        """How many bytes a chunk takes in its pack; 0 if it is in none."""
        packs = (part.pack() for part in self._parts)
        return next((pack.stored_bytes(address) for pack in packs if address in pack), 0)

    def get_many(self, addresses: Sequence[Address]) -> Mapping[Address, Buffer]:
        """None: each is as quickly had alone."""
        return {}

    def contains(self, addresses: Sequence[Address]) -> npt.NDArray[np.bool_]:
        """Which of the addresses are here; `Corruption` if a damaged pack leaves it open."""
        try:
            return _contained_in_any(self._parts, addresses)
        except Corruption:
            if not self._reload():
                raise
            return _contained_in_any(self._parts, addresses)

    def put(self, chunks: Iterable[StoredChunk]) -> None:
        """Keep the chunks that are new in one new pack; write nothing if none is."""
        with PackStream(self, None, None) as stream:
            stream.put(chunks)

    def writer(
        self,
        bytes_limit: int = PACK_BYTES_LIMIT,
        chunks_limit: int = PACK_CHUNKS_LIMIT,
        *,
        again: bool = False,
    ) -> PackStream:
        """Put many chunks in one go, in as many packs as the limits ask for.

        For use as a context manager.  All of its packs are read from the moment it is left;
        if it is left by an error, none of them.  With `again`, chunks that are in the store
        already are written too.
        """
        return PackStream(self, bytes_limit, chunks_limit, again)

    def addresses(self) -> Iterator[Address]:
        """Every address here, each once."""
        for batch, known in self._batches():
            yield from compress(batch, ~known)

    def __len__(self) -> int:
        parts = self._parts
        if len(parts) == 1:
            return len(parts[0].pack())
        return sum(len(batch) - int(known.sum()) for batch, known in self._batches())

    def _search(self, address: Address) -> tuple[Buffer | None, Corruption | None]:
        """The chunk, or the first damage met while looking for it in vain."""
        parts = self._parts
        last = self._last_hit
        damage: Corruption | None = None
        if last is not None and last in parts:
            parts = (last, *parts)
        for part in (*parts, *self._retired):
            try:
                body = part.pack().lookup(address)
            except Corruption as error:
                damage = damage or error
                continue
            if body is not None:
                self._last_hit = part
                return body, None
        return None, damage

    def _batches(self) -> Iterator[tuple[list[Address], npt.NDArray[np.bool_]]]:
        """All addresses of all packs, each batch with which of them a newer pack has too."""
        parts = self._parts
        for age, part in enumerate(parts):
            for batch in part.pack().batches(_BATCH_ADDRESSES):
                yield batch, _contained_in_any(parts[:age], batch)

    def _reload(self) -> bool:
        """Ask which packs there are now; whether that is news."""
        if self._refresh is None:
            return False
        return self._resolve(self._refresh())

    def _resolve(self, names: Iterable[str]) -> bool:
        """Read the named packs, and no others that were named before; whether that is news."""
        named = dict.fromkeys(names)
        with self._changing:
            before = self._parts
            known = {part.name for part in before}
            new = [self._part(name) for name in named if name not in known]
            kept = [part for part in before if part.name in named or part.is_unnamed()]
            self._parts = (*reversed(new), *kept)
            for part in self._parts:
                part.was_named = part.was_named or part.name in named
            return self._parts != before

    def _list_packs(self) -> list[str]:
        paths = self._files.list(self._folder)
        names = (path.removeprefix(f"{self._folder}/") for path in paths)
        return [name for name in names if name.endswith(PACK_SUFFIX) and "/" not in name]

    def _draft(self, with_blocks: bool) -> _Draft:
        return _Draft(self._part(f"{uuid4().hex}{PACK_SUFFIX}"), with_blocks)

    def _part(self, name: str) -> _Part:
        return _Part(self._files, f"{self._folder}/{name}", name)


class _Part:
    """One pack of a store, opened when it is first needed."""

    def __init__(self, files: Files, path: str, name: str) -> None:
        self.name = name
        self.was_named = False
        self._files = files
        self._path = path
        self._opening = Lock()
        self._pack: Pack | None = None

    def pack(self) -> Pack:
        """The open pack; `Corruption` if its file is damaged or gone."""
        if self._pack is None:
            with self._opening:
                if self._pack is None:
                    try:
                        self._pack = Pack(self._files.view(self._path), self.name)
                    except NotFound:
                        raise Corruption(f"pack {self.name} is missing; run `check`") from None
        return self._pack

    def is_unnamed(self) -> bool:
        """Whether it is there without anybody having said so yet: just written, for instance."""
        return not self.was_named and self._files.exists(self._path)

    def create(self) -> FileWriter:
        """A writer for the file, which is there once it was committed."""
        return self._files.create(self._path)

    def delete(self) -> None:
        """Drop the file, if the disk lets us: one that stays is harmless."""
        with suppress(StorageFailure):
            self._files.delete(self._path)


class _Draft:
    """A pack being written."""

    def __init__(self, part: _Part, with_blocks: bool) -> None:
        self._part = part
        self.with_blocks = with_blocks
        self._file = part.create()
        self.writer = PackWriter(self._file, with_blocks)

    def finish(self) -> _Part:
        """Make it a pack, durably."""
        self.writer.finish()
        self._file.commit()
        return self._part

    def abort(self) -> None:
        """Leave nothing behind."""
        self._file.abort()


class PackStream:
    """Chunks on their way into packs: `put` as often as needed, then leave the context.

    Memory holds one batch of chunks and the index of the pack being written.  Not for threads
    to share.
    """

    def __init__(
        self,
        store: PackStore,
        bytes_limit: int | None,
        chunks_limit: int | None,
        again: bool = False,
    ) -> None:
        self._store = store
        self._again = again
        self._bytes_limit = bytes_limit
        self._chunks_limit = chunks_limit
        self._finished: list[_Part] = []
        self._current: _Draft | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The packs finished so far, oldest first."""
        return tuple(part.name for part in self._finished)

    def put(self, chunks: Iterable[StoredChunk]) -> None:
        """Write the chunks that are neither in the store nor in this stream yet."""
        for batch in _chunk_batches(chunks):
            addresses = list(batch)
            known = _contained_in_any(self._finished, addresses)
            if not self._again:
                known |= self._store.contains(addresses)
            self._write([batch[address] for address in compress(addresses, ~known)])

    def add(self, chunk: StoredChunk) -> None:
        """Write one chunk, as `put` does."""
        self.put((chunk,))

    def flush(self) -> tuple[str, ...]:
        """Finish the pack being written; the names of all packs so far."""
        self._finish_pack()
        return self.names

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            self._finish_pack()
        except BaseException:
            self._discard()
            raise
        self._store.add(*self.names)

    def add_block(self, records: Mapping[Address, bytes], level: int) -> int:
        """Write records together, where chunks are written again; how many bytes that takes."""
        known = _contained_in_any(self._finished, list(records))
        if self._current is not None:
            known |= [address in self._current.writer for address in records]
        new = {address: records[address] for address in compress(records, ~known)}
        if not new:
            return 0
        size_bytes = self._open(True).add_block(new, level)
        self._end_if_full()
        return size_bytes

    def _write(self, chunks: Sequence[StoredChunk]) -> None:
        """Write chunks: at once where no pack ends between them, else one by one."""
        size_bytes = sum(len(chunk.data) for chunk in chunks)
        several = len(chunks) > 1 and self._has_room(size_bytes, len(chunks))
        for part in (chunks,) if several else ((chunk,) for chunk in chunks):
            largest = max(len(chunk.data) for chunk in part)
            self._open(self._again and largest < IN_BLOCK).add_all(part)
            self._end_if_full()

    def _has_room(self, size_bytes: int, count: int) -> bool:
        """Whether so many chunks of so many bytes, none of them large, fill no pack."""
        if self._current is not None:
            size_bytes += self._current.writer.size_bytes
            count += len(self._current.writer)
        is_small = size_bytes < min(self._bytes_limit or IN_BLOCK, IN_BLOCK)
        return is_small and (self._chunks_limit is None or count < self._chunks_limit)

    def _open(self, with_blocks: bool) -> PackWriter:
        """Who writes the present pack, or the next one, if that has no blocks or shall have."""
        if self._current is not None and self._current.with_blocks != with_blocks:
            self._finish_pack()
        if self._current is None:
            self._current = self._store._draft(with_blocks)
        return self._current.writer

    def _end_if_full(self) -> None:
        assert self._current is not None
        writer = self._current.writer
        if (self._bytes_limit is not None and writer.size_bytes >= self._bytes_limit) or (
            self._chunks_limit is not None and len(writer) >= self._chunks_limit
        ):
            self._finish_pack()

    def _finish_pack(self) -> None:
        if self._current is not None:
            self._finished.append(self._current.finish())
            self._current = None

    def _discard(self) -> None:
        if self._current is not None:
            self._current.abort()
            self._current = None
        for part in self._finished:
            part.delete()
        self._finished = []


def _contained_in_any(
    parts: Sequence[_Part], addresses: Sequence[Address]
) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(addresses), np.bool_)
    for part in parts:
        wanted = np.flatnonzero(~found)
        if not len(wanted):
            break
        found[wanted] = part.pack().find([addresses[place] for place in wanted.tolist()]) >= 0
    return found


def _chunk_batches(chunks: Iterable[StoredChunk]) -> Iterator[dict[Address, StoredChunk]]:
    """The chunks by address, a bounded number of them and of their bytes at a time."""
    batch: dict[Address, StoredChunk] = {}
    size_bytes = 0
    for chunk in chunks:
        batch[chunk.address] = chunk
        size_bytes += len(chunk.data)
        if len(batch) >= _BATCH_CHUNKS or size_bytes >= _BATCH_BYTES:
            yield batch
            batch, size_bytes = {}, 0
    if batch:
        yield batch
