"""What decodes bytes and texts of strangers, each as a function of some bytes.

A target ends, or raises a `LivingDBError`: anything else is a mistake of ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from livingdb.chunks.address import ADDRESS_BYTES, Address, digest
from livingdb.chunks.chunk import Chunk, encode_chunk, encode_record
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.pack import Pack
from livingdb.derivation.view import View
from livingdb.errors import NotFound
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.names import check_branch, check_table, check_tag
from livingdb.graph.refs import parse_time
from livingdb.graph.schedule import parse_schedule
from livingdb.guard.conditions.condition import from_json
from livingdb.sql.alter_table import parse_alter_table
from livingdb.sql.create_table_as import parse_create_table_as
from livingdb.sql.database_statements import parse_database_statement
from livingdb.sql.parse import parse_condition, parse_statement
from livingdb.sql.show_statements import parse_show_statement
from livingdb.tables.recipe import Definition, load_recipe
from livingdb.tables.type_names import parse_type

__all__ = ["TARGETS"]

BASE = encode_chunk([pa.array(range(50)), pa.array([f"text {n}" for n in range(50)])])


def _fetch(address: Address) -> bytes:
    if address == BASE.address:
        return BASE.data
    raise NotFound("no such chunk")


def chunk(data: bytes) -> None:
    """A stored chunk, under the address that its header has."""
    length = int.from_bytes(data[:2], "little")
    start, length = (2, length) if length else (6, int.from_bytes(data[2:6], "little"))
    found = Chunk(digest(data[start : start + length]), data, _fetch)
    for position in range(len(found.descriptors)):
        found.column(position)


def pack(data: bytes) -> None:
    """A file of chunks."""
    found = Pack(data)
    for address in list(found.addresses())[:100]:
        Chunk(address, found.get(address), _fetch)
    found.get(Address(bytes(ADDRESS_BYTES)))


def recipe(data: bytes) -> None:
    """The record of a version or of a definition, whose address is its own."""
    stored = encode_record(data)
    store = MemoryStore([stored])
    _try(lambda address: load_recipe(store, address), stored.address)
    Definition.load(store, stored.address)


def ref(data: bytes) -> None:
    """Names and times that refs are made of."""
    text = data.decode(errors="surrogateescape")
    for read in (check_branch, check_tag, check_table, parse_time, parse_schedule, parse_type):
        _try(read, text)


def sql(data: bytes) -> None:
    """The text of a statement."""
    text = data.decode(errors="replace")
    for read in (
        parse_statement,
        parse_condition,
        parse_database_statement,
        parse_create_table_as,
        parse_show_statement,
        parse_alter_table,
    ):
        _try(read, text)


def spec(data: bytes) -> None:
    """What a catalog says of a sync: its view, a schema change, a condition."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict):
        for read in (View.from_json, SchemaChange.from_json, from_json):
            _try(read, value)


def _try(read: Callable[[Any], object], value: object) -> None:
    from livingdb.errors import LivingDBError

    try:
        read(value)
    except LivingDBError:
        return


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one for one in (chunk, pack, recipe, ref, sql, spec)
}
