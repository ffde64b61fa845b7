"""Copying a file from one place to another, with a digest of what was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blake3 import blake3

from livingdb.files.base import Files

__all__ = ["CopiedFile", "Step", "copy_file", "digest_file"]

_BLOCK_BYTES = 1 << 20

Step = Callable[[int], object]
"""Called with the number of bytes of each step."""


@dataclass(frozen=True)
class CopiedFile:
    """How long a file is, and the BLAKE3 of its bytes."""

    size_bytes: int
    blake3: bytes


def copy_file(
    source: Files, target: Files, path: str, step: Step, expected: CopiedFile | None = None
) -> CopiedFile:
    """Copy a file; what was read.  `NotFound` if it is not there.

    If it is not what is `expected`, nothing is written.
    """
    view = source.view(path)
    hasher = blake3()
    with target.create(path) as writer:
        for start in range(0, len(view), _BLOCK_BYTES):
            block = view[start : start + _BLOCK_BYTES]
            hasher.update(block)
            writer.write(block)
            step(len(block))
        found = CopiedFile(len(view), hasher.digest())
        if expected is None or found == expected:
            writer.commit()
    return found


def digest_file(files: Files, path: str, step: Step) -> CopiedFile:
    """What a file holds; `NotFound` if it is not there."""
    view = files.view(path)
    hasher = blake3()
    for start in range(0, len(view), _BLOCK_BYTES):
        block = view[start : start + _BLOCK_BYTES]
        hasher.update(block)
        step(len(block))
    return CopiedFile(len(view), hasher.digest())
