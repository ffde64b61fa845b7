"""Addresses: the BLAKE3-256 names of chunks."""

from __future__ import annotations

from typing import NewType

from blake3 import blake3

__all__ = ["ADDRESS_BYTES", "Address", "digest", "short"]

Address = NewType("Address", bytes)

ADDRESS_BYTES = 32


def digest(*parts: bytes | memoryview) -> Address:
    """BLAKE3-256 of the parts, one after the other."""
    if len(parts) == 1:
        return Address(blake3(parts[0]).digest())
    hasher = blake3()
    for part in parts:
        hasher.update(part)
    return Address(hasher.digest())


def short(address: bytes) -> str:
    """How an address is written in messages: its first twelve hex digits."""
    return address.hex()[:12]
