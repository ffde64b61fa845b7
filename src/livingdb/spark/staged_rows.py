"""Rows that tasks have staged: sorted and checked, in packs that nobody reads yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from livingdb.chunks.address import Address
from livingdb.chunks.pack_store import PackStore
from livingdb.errors import DuplicateKey
from livingdb.files.base import Files
from livingdb.spark.write_plan import WritePlan
from livingdb.tables.recipe import Change
from livingdb.tables.schema import TableSchema
from livingdb.tables.stored_delta import load_delta, store_delta
from livingdb.trees.delta import Delta, empty_delta, merge_deltas
from livingdb.trees.keys import concat_keys

__all__ = ["TaskOutput", "drop_task_outputs", "load_task_outputs", "write_task_output"]

_NOWHERE = Address(bytes(32))


@dataclass
class TaskOutput(WriterCommitMessage):
    """The changes of one task: the packs they are in, their delta, and the plan they follow."""

    packs: tuple[str, ...]
    delta: Change
    plan: WritePlan


def write_task_output(files: Files, plan: WritePlan, changes: Delta) -> TaskOutput:
    """Write sorted changes to packs of their own."""
    store = PackStore(files, ())
    with store.writer() as stream:
        delta = store_delta(plan.schema, changes, _NOWHERE, None, stream.add)
    return TaskOutput(store.names, delta, plan)


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
