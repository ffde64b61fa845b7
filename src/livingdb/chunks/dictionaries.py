"""Groups of small chunks with the same columns, compressed with dictionaries of their own.

What small chunks have in common is in none of them often enough for zstd to profit.  So a
group shares one dictionary for each column position, trained on the group and kept as a
record beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import zstandard

from livingdb.chunks.chunk import DICTIONARY, PhysicalColumn, assemble, encode_record
from livingdb.chunks.compression import dictionary_table
from livingdb.chunks.store import StoredChunk

__all__ = ["Group", "Member"]

GROUP_CHUNKS_LIMIT = 1_024
GROUP_BYTES_LIMIT = 8 << 20

_LEAST_CHUNKS = 8
_TRAINING_BYTES_LIMIT = 512 << 10
_DICTIONARY_BYTES = (1 << 10, 4 << 10)
_REFERENCE_BYTES = 32
_RECORD_BYTES = 128  # about what one more chunk costs, with its place in an index


@dataclass(frozen=True, slots=True)
class Member:
    """A chunk of a group: its header, its bodies, and how they are stored without the group."""

    header: bytes
    bodies: list[bytes]
    alone: list[PhysicalColumn]


@dataclass
class Group:
    """Small chunks with the same columns."""

    members: list[Member] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, member: Member) -> None:
        """Take one more chunk in."""
        self.members.append(member)
        self.size_bytes += sum(map(len, member.bodies))

    @property
    def is_full(self) -> bool:
        """Whether it is time to compress it."""
        return len(self.members) >= GROUP_CHUNKS_LIMIT or self.size_bytes >= GROUP_BYTES_LIMIT

    def compress(self, level: int) -> Iterator[tuple[StoredChunk, bool]]:
        """The stored chunks, and which of them need the dictionaries, which come first."""
        dictionaries: list[bytes] = []
        shared: list[list[PhysicalColumn]] = []
        if len(self.members) >= _LEAST_CHUNKS:
            for position in range(len(self.members[0].bodies)):
                dictionary, columns = self._with_dictionary(position, level)
                dictionaries.append(dictionary)
                shared.append(columns)
        chosen = [
            self._choose(member, [columns[place] for columns in shared])
            for place, member in enumerate(self.members)
        ]
        saved = sum(
            _size(member.alone) - _size(columns) - _REFERENCE_BYTES
            for member, columns in zip(self.members, chosen, strict=True)
            if columns is not member.alone
        )
        if saved <= sum(map(len, dictionaries)) + _RECORD_BYTES:
            for member in self.members:
                yield assemble(member.header, member.alone), False
            return
        table = encode_record(dictionary_table(dictionaries))
        yield table, False
        for member, columns in zip(self.members, chosen, strict=True):
            if columns is member.alone:
                yield assemble(member.header, columns), False
            else:
                yield assemble(member.header, columns, table.address), True

    def _with_dictionary(self, position: int, level: int) -> tuple[bytes, list[PhysicalColumn]]:
        """A dictionary for a column, empty if it does not pay, and the column with it."""
        alone = [member.alone[position] for member in self.members]
        bodies = [member.bodies[position] for member in self.members]
        best, best_bytes = (b"", alone), _size(alone)
        for size_bytes in _DICTIONARY_BYTES:
            dictionary = _train_dictionary(bodies, size_bytes, level)
            if dictionary is None:
                continue
            codec = zstandard.ZstdCompressor(
                level=level, dict_data=dictionary, write_content_size=False, write_dict_id=False
            )
            columns = []
            for body, single in zip(bodies, alone, strict=True):
                packed = PhysicalColumn(DICTIONARY, codec.compress(body), len(body))
                columns.append(min(single, packed, key=lambda column: len(column.stored)))
            content = dictionary.as_bytes()
            if len(content) + _size(columns) < best_bytes:
                best, best_bytes = (content, columns), len(content) + _size(columns)
        return best

    @staticmethod
    def _choose(member: Member, columns: list[PhysicalColumn]) -> list[PhysicalColumn]:
        pays = columns and _size(member.alone) - _size(columns) > _REFERENCE_BYTES
        return columns if pays else member.alone


def _size(columns: list[PhysicalColumn]) -> int:
    return sum(len(column.stored) for column in columns)


def _train_dictionary(
    bodies: list[bytes], size_bytes: int, level: int
) -> zstandard.ZstdCompressionDict | None:
    step = -(-sum(map(len, bodies)) // _TRAINING_BYTES_LIMIT) or 1
    samples = bodies[::step] if len(bodies) // step >= _LEAST_CHUNKS else bodies
    try:
        return zstandard.train_dictionary(size_bytes, list(samples), level=level)
    except zstandard.ZstdError:  # too little to learn from
        return None
