"""Repacking: the same chunks, under the same addresses, in fewer bytes.

Three things are tried, and each is taken only where it is smaller: a higher level of zstd;
for small chunks with the same columns, dictionaries trained on all of them, one for each
column; for a chunk that replaced an older one, a patch of that one.  Small records go together
in blocks, where there is somebody to take these.

Chains of patches stay short whatever is repacked later.  A chunk that others are patches of is
marked as a base or is a patch itself, and neither is ever made a patch of anything else: what
is read through it never gets further away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from livingdb.chunks.address import Address
from livingdb.chunks.body import encode_body
from livingdb.chunks.canonical import Column
from livingdb.chunks.chunk import (
    PATCH,
    RAW,
    RECORD,
    ZSTD,
    Chunk,
    Fetch,
    PhysicalColumn,
    assemble,
    compress_record,
    plain_payload,
)
from livingdb.chunks.compression import compressor, is_dictionary_table, patch_compressor
from livingdb.chunks.dictionaries import Group, Member
from livingdb.chunks.plain import encode_plain
from livingdb.chunks.record_block import (
    BLOCK_BYTES,
    MOST_RECORDS,
    fits_block,
    in_reference_order,
)
from livingdb.chunks.store import Buffer, StoredChunk
from livingdb.chunks.types import parse_descriptor
from livingdb.errors import Corruption

__all__ = ["RepackReport", "repack"]

DEFAULT_LEVEL = 12
DEPTH_LIMIT = 4

_PATCH_LEVEL = 16  # the first at which zstd looks for the cheapest way to say a patch
_PATCH_BYTES_LIMIT = 32 << 20
_REFERENCE_BYTES = 32
_GROUPED_BYTES_LIMIT = 32 << 10
_RECORDS_BYTES_LIMIT = 16 << 20
_READ_TOGETHER = 4_096

FetchMany = Callable[[Sequence[Address]], Iterable[tuple[Address, Buffer]]]
Sink = Callable[[StoredChunk], object]
BlockSink = Callable[[Mapping[Address, bytes], int], int]
"""Takes records, to be stored together, and the level; says how many bytes they take."""


@dataclass
class RepackReport:
    """What repacking did."""

    chunks: int = 0
    patched: int = 0
    with_dictionaries: int = 0
    before_bytes: int = 0
    after_bytes: int = 0


def repack(
    chunks: Iterable[tuple[Address, Address | None]],
    fetch: Fetch,
    sink: Sink,
    *,
    level: int = DEFAULT_LEVEL,
    depth_limit: int = DEPTH_LIMIT,
    lasts: Callable[[Address], bool] = lambda address: True,
    block_sink: BlockSink | None = None,
    fetch_many: FetchMany | None = None,
) -> RepackReport:
    """Give every chunk to `sink` again, stored in as few bytes as can be found.

    With each address comes that of the chunk it replaced, if the caller knows one: best an
    older version of the same rows.  A chunk is then stored as a patch of it, in chains of up
    to `depth_limit`, if that one is repacked along or was marked as a base before.  What comes
    out may need chunks that do not (see `references`): those for which `lasts` is true.

    Chunks come out in another order than they came in, and dictionaries as chunks of their own;
    small records go to `block_sink`, if there is one.  `fetch_many` reads as `fetch` does, quicker.
    Every chunk is verified as it is read; `Corruption` ends the work.
    """
    return _Repacker(
        dict(chunks), fetch, sink, level, depth_limit, lasts, block_sink, fetch_many
    ).run()


@dataclass
class _Repacker:
    older: dict[Address, Address | None]
    fetch: Fetch
    sink: Sink
    level: int
    depth_limit: int
    lasts: Callable[[Address], bool]
    block_sink: BlockSink | None
    fetch_many: FetchMany | None
    report: RepackReport = field(default_factory=RepackReport)
    chains: dict[Address, tuple[Address, ...]] = field(default_factory=dict)
    groups: dict[tuple[bytes, ...], Group] = field(default_factory=dict)
    records: dict[Address, bytes] = field(default_factory=dict)
    records_bytes: int = 0

    def run(self) -> RepackReport:
        wanted_bases = {older for older in self.older.values() if older in self.older}
        for address, buffer in self._buffers():
            payload = None if self.block_sink is None else plain_payload(address, buffer)
            if payload is not None and fits_block(payload):
                self.report.chunks += 1
                self.report.before_bytes += len(buffer)
                self._join_block(address, payload)
            else:
                self._repack(Chunk(address, buffer, self.fetch), address in wanted_bases)
        for group in self.groups.values():
            self._finish(group)
        self._finish_blocks()
        return self.report

    def _buffers(self) -> Iterator[tuple[Address, Buffer]]:
        """What is stored under each address, those that others replaced before these."""
        ordered = _older_first(self.older)
        while part := list(islice(ordered, _READ_TOGETHER)):
            held = {} if self.fetch_many is None else dict(self.fetch_many(part))
            for address in part:
                yield address, held[address] if address in held else self.fetch(address)

    def _read(self, address: Address) -> Chunk:
        return Chunk(address, self.fetch(address), self.fetch)

    def _repack(self, chunk: Chunk, is_wanted_base: bool) -> None:
        self.report.chunks += 1
        self.report.before_bytes += chunk.size_bytes
        if chunk.kind == RECORD:
            columns: list[Column] = []
            bodies = [chunk.payload()]
            is_base = is_dictionary_table(bodies[0])
        else:
            types = [parse_descriptor(descriptor) for descriptor in chunk.descriptors]
            columns = [chunk.canonical(place, kind) for place, kind in enumerate(types)]
            bodies = [encode_body(*pair) for pair in zip(columns, types, strict=True)]
            is_base = chunk.directory.is_base
        if chunk.kind == RECORD and self._goes_to_block(chunk, bodies[0]):
            self._join_block(chunk.address, bodies[0])
            return
        if chunk.kind == RECORD:
            tight = [compress_record(bodies[0], self.level)]
        else:
            tight = [self._compress_tightly(body) for body in bodies]
        self.chains[chunk.address] = ()
        base = None if is_base or not columns else self._base_for(chunk)
        if base is not None and self._patch(chunk, columns, tight, base):
            return
        # A chunk that was a patch may have patches itself, like one that is named as a base.
        is_base = is_base or is_wanted_base or PATCH in chunk.directory.compressions()
        small = sum(map(len, bodies)) <= _GROUPED_BYTES_LIMIT
        if is_base and chunk.kind != RECORD:
            self._emit(assemble(chunk.header, tight, is_base=True))
        elif is_base or not small:
            self._emit(assemble(chunk.header, tight))
        else:
            self._join_group(chunk, bodies, tight)

    def _goes_to_block(self, chunk: Chunk, payload: bytes) -> bool:
        """Whether a record is stored with others, where its header follows from what it holds."""
        is_plain = chunk.redaction is None
        return self.block_sink is not None and is_plain and fits_block(payload)

    def _compress_tightly(self, body: bytes) -> PhysicalColumn:
        best = PhysicalColumn(RAW, body, len(body))
        for level in {1, self.level}:
            packed = compressor(level).compress(body)
            if len(packed) < len(best.stored):
                best = PhysicalColumn(ZSTD, packed, len(body))
        return best

    def _emit(self, stored: StoredChunk) -> None:
        self.report.after_bytes += len(stored.data)
        self.sink(stored)

    # --- patches ----------------------------------------------------------------------------

    def _base_for(self, chunk: Chunk) -> Chunk | None:
        """The chunk this one may be a patch of."""
        is_patch = PATCH in chunk.directory.compressions()
        address = chunk.reference if is_patch else self.older[chunk.address]
        if address is None or address == chunk.address:
            return None
        if address in self.older:
            base = self._read(address) if address in self.chains else None  # None: in a circle
        else:
            base = self._lasting_base(address)
        if base is None or base.kind == RECORD:
            return None
        chain = (address, *self._chain(base))
        if len(chain) > self.depth_limit or chunk.address in chain:
            return None
        self.chains[chunk.address] = chain
        return base

    def _lasting_base(self, address: Address) -> Chunk | None:
        """A chunk that is not repacked along, if it lasts and will never be a patch of another."""
        if not self.lasts(address):
            return None
        try:
            chunk = self._read(address)
            is_patch = PATCH in chunk.directory.compressions()
            return chunk if is_patch or chunk.directory.is_base else None
        except Corruption:  # a hint that leads nowhere does no harm
            return None

    def _chain(self, chunk: Chunk) -> tuple[Address, ...]:
        """What a chunk is a patch of, and that in turn, to the end."""
        known = self.chains.get(chunk.address)
        if known is not None:
            return known
        if PATCH not in chunk.directory.compressions() or chunk.reference is None:
            return ()
        chain = (chunk.reference, *self._chain(self._read(chunk.reference)))
        self.chains[chunk.address] = chain
        return chain

    def _patch(
        self, chunk: Chunk, columns: list[Column], tight: list[PhysicalColumn], base: Chunk
    ) -> bool:
        """Store the chunk as a patch of the base, if that is smaller."""
        patched = list(tight)
        for position, column in enumerate(columns[: len(base.descriptors)]):
            data_type = parse_descriptor(base.descriptors[position])
            prefix = encode_plain(base.canonical(position, data_type))
            plain = encode_plain(column)
            if max(len(plain), len(prefix)) > _PATCH_BYTES_LIMIT:
                continue
            codec = patch_compressor(prefix, len(plain), max(self.level, _PATCH_LEVEL))
            packed = codec.compress(plain)
            if len(packed) < len(tight[position].stored):
                patched[position] = PhysicalColumn(PATCH, packed, len(plain))
        saved = sum(map(_stored_bytes, tight)) - sum(map(_stored_bytes, patched))
        if saved <= _REFERENCE_BYTES:
            self.chains[chunk.address] = ()
            return False
        self.report.patched += 1
        self._emit(assemble(chunk.header, patched, base.address))
        return True

    # --- blocks of records --------------------------------------------------------------------

    def _join_block(self, address: Address, payload: bytes) -> None:
        self.chains[address] = ()
        self.records[address] = payload
        self.records_bytes += len(payload)
        if self.records_bytes >= _RECORDS_BYTES_LIMIT:
            self._finish_blocks()

    def _finish_blocks(self) -> None:
        """Cut the records into blocks, those that name each other next to each other."""
        records, self.records, self.records_bytes = self.records, {}, 0
        block: dict[Address, bytes] = {}
        size_bytes = 0
        for address in in_reference_order(records):
            block[address] = records[address]
            size_bytes += len(records[address])
            if size_bytes >= BLOCK_BYTES or len(block) >= MOST_RECORDS:
                self._emit_block(block)
                block, size_bytes = {}, 0
        if block:
            self._emit_block(block)

    def _emit_block(self, records: Mapping[Address, bytes]) -> None:
        assert self.block_sink is not None
        self.report.after_bytes += self.block_sink(records, self.level)

    # --- dictionaries -------------------------------------------------------------------------

    def _join_group(self, chunk: Chunk, bodies: list[bytes], tight: list[PhysicalColumn]) -> None:
        key = (bytes([chunk.kind]), *chunk.descriptors)
        group = self.groups.setdefault(key, Group())
        group.add(Member(chunk.header, bodies, tight))
        if group.is_full:
            self._finish(self.groups.pop(key))

    def _finish(self, group: Group) -> None:
        for stored, has_dictionary in group.compress(self.level):
            self.report.with_dictionaries += has_dictionary
            self._emit(stored)


def _stored_bytes(column: PhysicalColumn) -> int:
    return len(column.stored)


def _older_first(older: dict[Address, Address | None]) -> Iterator[Address]:
    """Every address once, those that others replaced before these; circles are cut somewhere."""
    done: set[Address] = set()
    for start in older:
        path: list[Address] = []
        address: Address | None = start
        while address is not None and address in older and address not in done:
            done.add(address)
            path.append(address)
            address = older[address]
        yield from reversed(path)
