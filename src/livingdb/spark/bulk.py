"""Bulk loads: every task builds the tree of its key range, and the driver joins them.

The rows are range-partitioned and sorted by key, so that a task sees whole, consecutive ranges.
The joined tree is the one an embedded build would make, however many tasks there were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.pack_store import PackStore
from livingdb.database.database import Database
from livingdb.database.snapshot import Snapshot
from livingdb.errors import (
    AlreadyExists,
    DuplicateKey,
    InvalidData,
    LivingDBError,
    MissingKey,
)
from livingdb.files.url import open_files
from livingdb.graph.work import Built
from livingdb.tables import ingest
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.trees.forest import Forest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["load"]

_RESULT = pa.schema([("part", pa.int32()), ("made", pa.string())])


def load(
    db: Database,
    branch: str,
    table: str,
    df: DataFrame,
    key: str | Sequence[str] | None = None,
    *,
    layout: Layout | None = None,
    defaults: Mapping[str, object] | None = None,
    foreign_keys: Mapping[str, str] | None = None,
    partitions: int | None = None,
    mode: str = "error",
    message: str = "",
    author: str | None = None,
) -> Snapshot:
    """Load a data frame into a table, made if it is not there (`key` names its key columns).

    A table that has rows is refused, unless `mode="overwrite"` puts the new ones in their place.
    """
    if mode not in ("error", "overwrite"):
        raise InvalidData(f"mode {mode!r}: choose 'error' or 'overwrite'")
    target = db.branch(branch)
    with target.transaction(message or f"load {table}", author) as tx:
        if table in tx.tables():
            if len(tx.table(table)) and mode == "error":
                raise AlreadyExists(f"table {table!r} has rows; mode='overwrite' replaces them")
        else:
            if key is None:
                raise InvalidData(f"table {table!r} is not there yet: name its key columns")
            tx.create_table(
                table,
                _arrow_schema(df),
                key,
                layout=layout,
                defaults=defaults,
                foreign_keys=foreign_keys,
            )
        definition = tx.work.definition(table)
        built = _build(db, definition, df, partitions)
        try:
            tx.replace(table, built)
            made = tx.commit()
        except BaseException:
            drop_packs(db, built.packs)
            raise
    return made


def _arrow_schema(df: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema: pa.Schema = to_arrow_schema(df.schema, timezone="UTC")
    return schema


def _build(db: Database, definition: Definition, df: DataFrame, partitions: int | None) -> Built:
    """The trees of the tasks, in key order."""
    schema = definition.schema
    ingest.whole_rows(schema, _arrow_schema(df).empty_table())
    parts = partitions or 2 * df.sparkSession.sparkContext.defaultParallelism
    task = _Task(db._graph.place.files.url, definition.to_json())
    quoted = [f"`{name.replace('`', '``')}`" for name in schema.key]
    ranged = df.repartitionByRange(parts, *quoted).sortWithinPartitions(*quoted)
    found = ranged.mapInArrow(task, "part int, made string").collect()
    made = [json.loads(row["made"]) for row in sorted(found, key=lambda row: row["part"])]
    built = Built(
        tuple(Address(bytes.fromhex(item["root"])) for item in made if item["rows"]),
        sum(item["rows"] for item in made),
        tuple(name for item in made for name in item["packs"]),
    )
    for item in made:
        if "error" in item:
            drop_packs(db, built.packs)
            raise _error(item["error"], item["code"])
    return built


def _error(text: str, code: str) -> LivingDBError:
    kinds: tuple[type[LivingDBError], ...] = (DuplicateKey, MissingKey, InvalidData)
    for kind in kinds:
        if kind.code == code:
            return kind(text)
    return LivingDBError(text)


def drop_packs(db: Database, packs: Iterable[str]) -> None:
    """Remove packs that never came to count."""
    with suppress(LivingDBError):
        db._graph.store.drop_packs(list(packs))


class _Task:
    """Builds the tree of one partition; runs in a Spark worker."""

    def __init__(self, url: str, definition: Mapping[str, Any]):
        self.url, self.definition = url, definition

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        result = self.build(batches)
        yield pa.RecordBatch.from_arrays(
            [pa.array([part], pa.int32()), pa.array([json.dumps(result)])], schema=_RESULT
        )

    def build(self, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
        """Write the tree to packs; its root, or what is wrong with the rows."""
        definition = Definition.from_json(self.definition)
        schema = definition.schema
        grouping = definition.layout.grouping(schema)
        store = PackStore(open_files(self.url), ())
        rows = 0

        def stored() -> Iterator[list[pa.Array]]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                yield ingest.whole_rows(schema, batch)

        try:
            with store.writer() as stream:
                root = Forest(MemoryStore(), grouping).build(stored(), stream.add)
        except InvalidData as error:
            return {"rows": 0, "packs": [], "error": str(error), "code": error.code}
        return {"root": root.hex(), "rows": rows, "packs": list(store.names)}
