"""Trees built in parts: one per key range, each in its own packs, collected in key order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.pack_store import PackStore
from livingdb.errors import (
    BrokenConstraint,
    DuplicateKey,
    InvalidData,
    LivingDBError,
    MissingKey,
)
from livingdb.files.url import open_files
from livingdb.tables.recipe import Definition
from livingdb.trees.forest import Forest

__all__ = ["TreeParts", "build_part", "collect_parts", "drop_packs"]

_KINDS: tuple[type[LivingDBError], ...] = (
    BrokenConstraint,
    DuplicateKey,
    MissingKey,
    InvalidData,
)


@dataclass(frozen=True)
class TreeParts:
    """Trees of consecutive key ranges that hold all rows of a table, and the packs they are in."""

    roots: tuple[Address, ...]
    count: int
    packs: tuple[str, ...]


def build_part(
    url: str, definition: Mapping[str, Any], batches: Iterable[Sequence[pa.Array]]
) -> dict[str, Any]:
    """Write the tree of sorted rows to packs; its root, or what is wrong with the rows.

    Runs where the rows are, in a Spark task for instance; the packs count for nobody yet.
    """
    described = Definition.from_json(definition)
    grouping = described.layout.grouping(described.schema)
    store = PackStore(open_files(url), ())
    rows = 0

    def counted() -> Iterator[Sequence[pa.Array]]:
        nonlocal rows
        for arrays in batches:
            rows += len(arrays[0])
            yield arrays

    try:
        with store.writer() as stream:
            root = Forest(MemoryStore(), grouping).build(counted(), stream.add)
    except InvalidData as error:
        return {"rows": 0, "packs": [], "error": str(error), "code": error.code}
    return {"root": root.hex(), "rows": rows, "packs": list(store.names)}


def collect_parts(url: str, made: Sequence[Mapping[str, Any]]) -> TreeParts:
    """What was made of all parts, in key order; an error of one is raised here."""
    built = TreeParts(
        tuple(Address(bytes.fromhex(item["root"])) for item in made if item["rows"]),
        sum(item["rows"] for item in made),
        tuple(name for item in made for name in item["packs"]),
    )
    for item in made:
        if "error" in item:
            drop_packs(url, built.packs)
            raise _error(item["error"], item["code"])
    return built


def _error(text: str, code: str) -> LivingDBError:
    for kind in _KINDS:
        if kind.code == code:
            return kind(text)
    return LivingDBError(text)


def drop_packs(url: str, packs: Iterable[str]) -> None:
    """Remove packs that never came to count."""
    files = open_files(url)
    for name in packs:
        with suppress(LivingDBError):
            files.delete(f"packs/{name}")
