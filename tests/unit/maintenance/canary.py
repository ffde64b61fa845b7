"""Looks for words in every file of a database, as they lie there and as they can be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from livingdb.chunks.chunk import RECORD, Chunk
from livingdb.chunks.pack import Pack
from livingdb.chunks.types import parse_descriptor
from livingdb.errors import Corruption
from livingdb.files.base import Files
from livingdb.graph.graph import Graph

__all__ = ["places_of"]


def places_of(graph: Graph, word: str) -> list[str]:
    """Where a word is: in bytes of files, in chunks, in texts of the catalog, in Parquet files."""
    needle = word.encode()
    found = [path for path, data in _files(graph) if needle in data]
    for where, text in _texts(graph):
        if word in text:
            found.append(where)
    return sorted(set(found))


def _files(graph: Graph) -> Iterator[tuple[str, bytes]]:
    files = graph.place.files
    for path in _paths(files):
        yield path, bytes(files.read(path))
    catalog = graph.catalog.engine.url.database
    if graph.catalog.engine.dialect.name == "sqlite" and catalog is not None:
        for path in Path(catalog).parent.glob(f"{Path(catalog).name}*"):
            yield path.name, path.read_bytes()


def _paths(files: Files) -> list[str]:
    return [path for folder in ("packs", "projections") for path in files.list(folder)]


def _texts(graph: Graph) -> Iterator[tuple[str, str]]:
    store, files = graph.store, graph.place.files
    for path in _paths(files):
        if path.endswith(".pack"):
            pack = Pack(files.view(path), path)
            for address in pack.addresses():
                with suppress(Corruption):
                    yield path, _shown(Chunk(address, pack.get(address), store.get))
        elif path.endswith(".parquet"):
            yield path, str(pq.read_table(pa.BufferReader(files.read(path))).to_pylist())
    for chunk in store.journal.chunks():
        yield "journal", _shown(Chunk(chunk.address, chunk.data, store.get))
    if graph.catalog.engine.dialect.name == "sqlite":
        with sqlite3.connect(str(graph.catalog.engine.url.database)) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'"):
                for row in connection.execute(f'SELECT * FROM "{name}"'):
                    yield f"table {name}", json.dumps([str(cell) for cell in row])


def _shown(chunk: Chunk) -> str:
    """All that a chunk holds, as text."""
    if chunk.kind == RECORD:
        return chunk.payload().decode("utf-8", "replace")
    types = [parse_descriptor(descriptor) for descriptor in chunk.descriptors]
    return str([chunk.column(place, kind).to_pylist() for place, kind in enumerate(types)])
