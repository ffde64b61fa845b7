"""Rows that tasks have staged: sorted and checked, in packs that nobody reads yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from livingdb.chunks.address import Address
from livingdb.chunks.pack_store import PackStore
from livingdb.errors import DuplicateKey
from livingdb.files.base import Files
from livingdb.spark.write_plan import WritePlan
from livingdb.tables import ingest
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Change
from livingdb.tables.schema import TableSchema
from livingdb.tables.stored_delta import load_delta, store_delta
from livingdb.trees.delta import Delta, empty_delta, merge_deltas
from livingdb.trees.keys import concat_keys
from livingdb.trees.shape import Shape

__all__ = [
    "TaskOutput",
    "drop_task_outputs",
    "load_task_outputs",
    "load_task_rows",
    "write_task_output",
    "write_task_rows",
]

_NOWHERE = Address(bytes(32))
_PLACE = "~place"


@dataclass
class TaskOutput(WriterCommitMessage):
    """The changes of one task: the packs they are in, their delta, and the plan they follow."""

    packs: tuple[str, ...]
    delta: Change
    plan: WritePlan
    given: TableSchema | None = None
    """The schema of rows as they were given, under the places they came in: numbers are drawn."""


def write_task_output(files: Files, plan: WritePlan, changes: Delta) -> TaskOutput:
    """Write sorted changes to packs of their own."""
    return _stage(files, plan, plan.schema, changes)


def write_task_rows(files: Files, plan: WritePlan, data: pa.Table) -> TaskOutput:
    """Write rows as they were given, under the places they came in: they may have no key yet."""
    fields = [pa.field(_PLACE, pa.int64()), *(field.with_nullable(True) for field in data.schema)]
    schema = TableSchema.of(pa.schema(fields), _PLACE)
    rows = data.add_column(0, _PLACE, pa.array(np.arange(data.num_rows)))
    changes = ingest.upserts(schema, _shape_of(schema), rows)
    return replace(_stage(files, plan, schema, changes), given=schema)


def _stage(files: Files, plan: WritePlan, schema: TableSchema, changes: Delta) -> TaskOutput:
    store = PackStore(files, ())
    with store.writer() as stream:
        delta = store_delta(schema, changes, _NOWHERE, None, stream.add)
    return TaskOutput(store.names, delta, plan)


def _shape_of(schema: TableSchema) -> Shape:
    return Layout().grouping(schema).row_shape


def load_task_rows(files: Files, item: TaskOutput) -> pa.Table:
    """The rows of a task, as they were given."""
    schema = item.given
    assert schema is not None
    delta = load_delta(PackStore(files, item.packs), schema, _shape_of(schema), item.delta)
    names = [column.name for column in schema.stored_columns]
    return pa.Table.from_arrays(list(delta.columns), names=names).drop_columns([_PLACE])


def load_task_outputs(files: Files, plan: WritePlan, staged: Iterable[TaskOutput]) -> Delta:
    """The changes of all tasks; `DuplicateKey` if a key is in those of two."""
    schema, shape = plan.schema, plan.shape
    parts = [load_delta(PackStore(files, item.packs), schema, shape, item.delta) for item in staged]
    parts = [part for part in parts if len(part)]
    if not parts:
        return empty_delta(shape)
    _check_duplicate_keys(schema, parts)
    return merge_deltas(parts)


def _check_duplicate_keys(schema: TableSchema, parts: Sequence[Delta]) -> None:
    keys = concat_keys([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")
    twins = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(twins):
        return
    row = int(order[twins[0]])
    columns = [
        pa.concat_arrays([column for part in parts if (column := part.columns[at]) is not None])
        for at in range(len(schema.key))
    ]
    shown = {name: columns[at][row].as_py() for at, name in enumerate(schema.key)}
    raise DuplicateKey(f"the key {shown} is in the data twice")


def drop_task_outputs(files: Files, staged: Iterable[TaskOutput]) -> None:
    """Remove the packs of staged changes."""
    for item in staged:
        for name in item.packs:
            files.delete(f"packs/{name}")
