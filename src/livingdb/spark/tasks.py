"""Tasks of our own on Spark: a function and what to call it with, a key range at a time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["run_tasks"]

Task = TypeVar("Task")
_SCHEMA = pa.schema([("part", pa.int32()), ("piece", pa.int32()), ("result", pa.binary())])


def run_tasks(
    spark: SparkSession, function: Callable[[Task], Iterator[Any]], tasks: Sequence[Task]
) -> Iterator[Any]:
    """What the function gives for every task, in the order of the tasks."""
    if not tasks:
        return
    given = pa.table(
        {
            "part": pa.array(range(len(tasks)), pa.int32()),
            "task": pa.array([pickle.dumps(task) for task in tasks], pa.binary()),
        }
    )
    frame = spark.createDataFrame(given).repartitionByRange(len(tasks), "part")
    done = frame.mapInArrow(_Worker(function), "part int, piece int, result binary")
    ordered = sorted(done.collect(), key=lambda row: (row["part"], row["piece"]))
    for row in ordered:
        yield pickle.loads(bytes(row["result"]))


class _Worker:
    """Calls the function in a Spark worker."""

    def __init__(self, function: Callable[[Any], Iterator[Any]]):
        self.function = function

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for given in batch.to_pylist():
                for piece, result in enumerate(self.function(pickle.loads(given["task"]))):
                    values = [[given["part"]], [piece], [pickle.dumps(result)]]
                    columns = [
                        pa.array(value, field.type)
                        for value, field in zip(values, _SCHEMA, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
