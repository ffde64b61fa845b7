"""Records: small JSON values as chunks, canonical so that equal values have one address."""

from __future__ import annotations

import json
from typing import Any

from livingdb.chunks.address import Address, short
from livingdb.chunks.chunk import encode_record, read_payload, redacted_record
from livingdb.chunks.store import ChunkReader, StoredChunk
from livingdb.errors import Corruption

__all__ = ["load_record", "parse_record", "record", "redacted"]

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def record(value: dict[str, Any]) -> StoredChunk:
    """The chunk of a JSON value: sorted names, no blanks, UTF-8."""
    return encode_record(_encode(value).encode())


def redacted(address: Address, value: dict[str, Any]) -> StoredChunk:
    """The chunk of a JSON value that takes the place of another record, under its address."""
    return redacted_record(address, _encode(value).encode())


def load_record(store: ChunkReader, address: Address) -> dict[str, Any]:
    """The value at an address, verified."""
    return parse_record(address, read_payload(address, store.get(address), store.get))


def parse_record(address: Address, payload: bytes) -> dict[str, Any]:
    """The value that a record holds; the address is for messages."""
    try:
        value = json.loads(payload)
    except ValueError:
        raise Corruption(f"record {short(address)} is not JSON") from None
    if not isinstance(value, dict):
        raise Corruption(f"record {short(address)} does not hold what it should")
    return value
