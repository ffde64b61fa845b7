"""Copying a file from one place to another, with a digest of what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from blake3 import blake3

from livingdb.files.base import Buffer, Files

__all__ = ["CopiedFile", "Step", "copy_file", "digest_file"]

_BLOCK_BYTES = 16 << 20
"""What is read and written at a time: so much that a disk is busy with it."""
_DIGEST_BYTES = 512 << 10
"""What a digest takes at a time: so little that one core has it at hand."""

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
    with target.create(path, cached=False) as writer:
        for block in _blocks(view, hasher):
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
    for block in _blocks(view, hasher):
        step(len(block))
    return CopiedFile(len(view), hasher.digest())


def _blocks(view: Buffer, hasher: blake3) -> Iterator[bytes | memoryview]:
    """The bytes of a file, after they were put to a digest."""
    for start in range(0, len(view), _BLOCK_BYTES):
        block = view[start : start + _BLOCK_BYTES]
        for part in range(0, len(block), _DIGEST_BYTES):
            hasher.update(block[part : part + _DIGEST_BYTES])
        yield block
