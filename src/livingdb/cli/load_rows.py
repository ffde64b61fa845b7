"""Rows of files into a table in this process: one transaction, whatever they weigh.

A table that is new, empty or to be replaced is built as a tree from rows in the order of its key,
piece by piece.  Rows that join others are held in memory, as those of any transaction are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.engines.tree_parts import build_part, collect_parts, drop_packs
from livingdb.errors import DuplicateKey, InvalidData
from livingdb.tables import ingest

if TYPE_CHECKING:
    from livingdb import Branch, Snapshot, Transaction
    from livingdb.cli.import_sources import ImportSource

__all__ = ["Load", "check_key", "load"]

Report = Callable[[int, int], object]


@dataclass(frozen=True)
class Load:
    """What is to be done: append, upsert or replace rows of a table with this key."""

    table: str
    key: tuple[str, ...]
    mode: str
    message: str
    limited: Mapping[str, str] = field(default_factory=dict)
    """Types with a limit, as varchar(3), of columns of a new table."""


def load(
    branch: Branch, incoming: ImportSource, given: Load, report: Report
) -> tuple[Snapshot, int]:
    """Put the rows in the table; the snapshot, and how many rows there were."""
    with branch.transaction(given.message) as tx:
        is_new = given.table not in tx.tables()
        if is_new:
            types = {each.name: given.limited.get(each.name, each.type) for each in incoming.schema}
            tx.create_table(given.table, types, list(given.key))
        if is_new or _can_be_built(tx, given):
            check_key(incoming, given.key)
            return _build(tx, incoming, given, report)
        rows = _write_rows(tx, incoming, given, report)
    assert tx.snapshot is not None
    return tx.snapshot, rows


def check_key(incoming: ImportSource, key: Sequence[str]) -> None:
    """`InvalidData` if a key is null somewhere, or in several rows."""
    missing = [name for name in key if name not in incoming.types]
    if missing:
        raise InvalidData(f"the key column {missing[0]!r} is missing from the data")
    null = incoming.null_key_column(key)
    if null is not None:
        raise InvalidData(f"the key column {null!r} is null in some rows")
    twin = incoming.duplicate_key(key)
    if twin is not None:
        raise DuplicateKey(f"several rows have the same key {twin}")


def _can_be_built(tx: Transaction, given: Load) -> bool:
    """Whether the new rows are all the table will have, and nothing in them is computed."""
    is_alone = given.mode == "replace" or len(tx.table(given.table)) == 0
    fixed = any(column.is_fixed for column in tx.work.schema(given.table).columns)
    if given.mode == "replace" and fixed:
        raise InvalidData(
            f"table {given.table!r} has columns that are computed: its rows cannot be replaced, "
            "but --mode upsert puts new ones in their place"
        )
    drawn = any(column.generated for column in tx.work.schema(given.table).columns)
    is_plain = not fixed and (given.mode == "replace" or not drawn)
    return is_alone and is_plain and bool(given.key)


def _build(
    tx: Transaction, incoming: ImportSource, given: Load, report: Report
) -> tuple[Snapshot, int]:
    """The rows in key order as one tree."""
    definition = tx.work.definition(given.table)
    url = tx.branch.database._graph.place.files.url
    total = incoming.count()

    def arrays() -> Iterator[list[pa.Array]]:
        done = 0
        for batch in incoming.batches(given.key):
            yield ingest.whole_rows(definition.schema, pa.Table.from_batches([batch]))
            done += len(batch)
            report(done, total)

    built = collect_parts(url, [build_part(url, definition.to_json(), arrays())])
    try:
        tx.replace(given.table, built)
        return tx.commit(), built.count
    except BaseException:
        drop_packs(url, built.packs)
        raise


def _write_rows(tx: Transaction, incoming: ImportSource, given: Load, report: Report) -> int:
    """The rows beside those that are there; errors count rows as the files do."""
    total = incoming.count()
    held: list[Any] = []
    done = 0
    for batch in incoming.batches():
        held.append(batch)
        done += len(batch)
        report(done, total)
    rows = pa.Table.from_batches(held, schema=held[0].schema if held else incoming.schema)
    if given.mode == "append":
        return tx.insert(given.table, rows)
    return tx.upsert(given.table, rows)
