"""zstd as chunks use it: one frame a column, bounded, and one codec a thread.

A codec of the zstandard package serves one thread at a time, so each thread keeps its own:
one compressor a level, one decompressor, and a bounded number of decompressors with
dictionaries, which are costly to make and small to use.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import zstandard

from livingdb.chunks.address import Address
from livingdb.errors import Corruption

__all__ = [
    "MAX_RATIO",
    "compressor",
    "decompress",
    "decompressor",
    "dictionary_decompressor",
    "dictionary_table",
    "is_dictionary_table",
    "patch_compressor",
    "patch_decompressor",
    "record_compressor",
    "record_decompressor",
]

MAX_RATIO = 1 << 15
"""No frame holds more than this many times its bytes: a block takes 4 and gives 128 KiB."""

_TABLE = struct.Struct("<4sH")
_TABLE_MAGIC = b"LDD1"
_TABLES_KEPT = 16
_CODECS_KEPT = 64


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}
        self.decompressor = zstandard.ZstdDecompressor()
        self.record_compressors: dict[int, zstandard.ZstdCompressor] = {}
        self.record_decompressor: zstandard.ZstdDecompressor | None = None
        self.tables: OrderedDict[Address, list[bytes]] = OrderedDict()
        self.codecs: OrderedDict[tuple[Address, int], zstandard.ZstdDecompressor] = OrderedDict()


_thread = _PerThread()


def compressor(level: int) -> zstandard.ZstdCompressor:
    """This thread's compressor of that level."""
    found = _thread.compressors.get(level)
    if found is None:
        found = _thread.compressors[level] = zstandard.ZstdCompressor(
            level=level, write_checksum=False, write_content_size=False
        )
    return found


def decompressor() -> zstandard.ZstdDecompressor:
    """This thread's decompressor."""
    return _thread.decompressor


def decompress(
    codec: zstandard.ZstdDecompressor, frame: bytes | memoryview, size_bytes: int
) -> bytes:
    """What the frame holds, which must be `size_bytes` long; `ZstdError` otherwise."""
    # A frame may state a size of its own, which zstandard would allocate unasked.
    if zstandard.frame_content_size(frame) not in (-1, size_bytes):
        raise zstandard.ZstdError("it states another length")
    plain = codec.decompress(frame, max_output_size=size_bytes)
    if len(plain) != size_bytes:
        raise zstandard.ZstdError("it decompresses to the wrong length")
    return plain


# --- dictionaries ---------------------------------------------------------------------------


def dictionary_table(dictionaries: Sequence[bytes]) -> bytes:
    """The record that holds one dictionary for each column position; empty ones are none."""
    return b"".join(
        (
            _TABLE.pack(_TABLE_MAGIC, len(dictionaries)),
            struct.pack(f"<{len(dictionaries)}I", *map(len, dictionaries)),
            *dictionaries,
        )
    )


def is_dictionary_table(payload: bytes) -> bool:
    """Whether the record is a table of dictionaries."""
    return payload.startswith(_TABLE_MAGIC)


def _parse_table(payload: bytes) -> list[bytes]:
    try:
        magic, count = _TABLE.unpack_from(payload)
        lengths = struct.unpack_from(f"<{count}I", payload, _TABLE.size)
    except struct.error:
        raise Corruption("a table of dictionaries is cut short") from None
    at = _TABLE.size + 4 * count
    if magic != _TABLE_MAGIC or at + sum(lengths) != len(payload):
        raise Corruption("a record is not a table of dictionaries")
    dictionaries = []
    for length in lengths:
        dictionaries.append(payload[at : at + length])
        at += length
    return dictionaries


def dictionary_decompressor(
    table: Address, position: int, read: Callable[[], bytes]
) -> zstandard.ZstdDecompressor:
    """This thread's decompressor for a column position of a table of dictionaries.

    `read` gives the table's record, verified; it is asked only if the table is not at hand.
    """
    key = (table, position)
    codec = _thread.codecs.get(key)
    if codec is not None:
        _thread.codecs.move_to_end(key)
        return codec
    dictionaries = _thread.tables.get(table)
    if dictionaries is None:
        dictionaries = _thread.tables[table] = _parse_table(read())
        if len(_thread.tables) > _TABLES_KEPT:
            _thread.tables.popitem(last=False)
    if position >= len(dictionaries) or not dictionaries[position]:
        raise Corruption("the table of dictionaries has none for it")
    content = zstandard.ZstdCompressionDict(dictionaries[position])
    codec = _thread.codecs[key] = zstandard.ZstdDecompressor(dict_data=content)
    if len(_thread.codecs) > _CODECS_KEPT:
        _thread.codecs.popitem(last=False)
    return codec


# --- records --------------------------------------------------------------------------------

_RECORD_WORDS = (
    b'{"change":"AddColumn","definition":"","inputs":{"":""},"kind":"lens","part":""}'
    b'{"columns":[{"default":null,"id":"","name":"id","nullable":false,"type":"bigint"},'
    b'{"default":null,"id":"","name":"","nullable":true,"type":"string"},"type":"double"}],'
    b'"foreign_keys":[],"key":["id"]}}{"count":1,"definition":"","kind":"rows","root":""}'
    b'{"base":"","chunks":[""],"columns":[0],"counts":[0,1,0],"counts":null,"kind":"change",'
    b'"masked":[],"rows":1}{"edge":{"author":"root","details":{"rows":{}},"kind":"transaction",'
    b'"operation":"update","time":17},"parents":[],{"edge":{"author":"root","details":{'
    b'"direction":"forward","direction":"reverse","from":{"0123456789abcdef":""},"rows":{"":1},'
    b'"sync":"v1/v2","sync_id":""},"kind":"propagate","operation":"sync","sources":{"main":""},'
    b'"time":1794866400165677},"parents":[""],"snapshot":1,"tables":{"":"'
)
"""What records have in common.  It is part of the format: it never changes."""


def record_compressor(level: int) -> zstandard.ZstdCompressor:
    """This thread's compressor of records of that level."""
    found = _thread.record_compressors.get(level)
    if found is None:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            level, write_content_size=False, write_checksum=False, write_dict_id=False
        )
        found = _thread.record_compressors[level] = zstandard.ZstdCompressor(
            compression_params=parameters, dict_data=_prefix(_RECORD_WORDS)
        )
    return found


def record_decompressor() -> zstandard.ZstdDecompressor:
    """This thread's decompressor of records."""
    if _thread.record_decompressor is None:
        _thread.record_decompressor = patch_decompressor(_RECORD_WORDS)
    return _thread.record_decompressor


# --- patches --------------------------------------------------------------------------------


def patch_compressor(base: bytes, size_bytes: int, level: int) -> zstandard.ZstdCompressor:
    """A compressor of `size_bytes` that finds what is in `base` too, wherever it lies."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level,
        source_size=len(base) + size_bytes,
        window_log=max(10, (len(base) + size_bytes).bit_length()),
        write_content_size=False,
        write_dict_id=False,
    )
    return zstandard.ZstdCompressor(compression_params=parameters, dict_data=_prefix(base))


def patch_decompressor(base: bytes) -> zstandard.ZstdDecompressor:
    """The decompressor of what `patch_compressor` made."""
    return zstandard.ZstdDecompressor(dict_data=_prefix(base))


def _prefix(base: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
