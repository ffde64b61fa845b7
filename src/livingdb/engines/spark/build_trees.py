"""Trees built by Spark: the rows are brought in key order, and every task builds its range's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.engines.tree_parts import TreeParts, build_part, collect_parts
from livingdb.tables import ingest
from livingdb.tables.recipe import Definition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["arrow_schema", "build_frame"]

_RESULT = pa.schema([("part", pa.int32()), ("made", pa.string())])


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The columns of a data frame as Arrow has them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema: pa.Schema = to_arrow_schema(df.schema, timezone="UTC")
    return schema


def build_frame(url: str, definition: Definition, df: DataFrame, parts: int) -> TreeParts:
    """The trees of a data frame's rows; however many parts, joined they are the same tree."""
    schema = definition.schema
    ingest.whole_rows(schema, arrow_schema(df).empty_table())
    # Spark takes a dot in a name for a path here, so columns go by their numbers.
    names = df.columns
    numbered = df.toDF(*(f"c{number}" for number in range(len(names))))
    key = [f"c{names.index(name)}" for name in schema.key]
    ranged = numbered.repartitionByRange(parts, *key).sortWithinPartitions(*key)
    task = _Task(url, definition.to_json(), names)
    found = ranged.mapInArrow(task, "part int, made string").collect()
    made = [json.loads(row["made"]) for row in sorted(found, key=lambda row: row["part"])]
    return collect_parts(url, made)


class _Task:
    """Builds the tree of one partition; runs in a Spark worker."""

    def __init__(self, url: str, definition: Mapping[str, Any], names: Sequence[str]):
        self.url, self.definition, self.names = url, definition, list(names)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        schema = Definition.from_json(self.definition).schema
        arrays = (
            ingest.whole_rows(schema, pa.RecordBatch.from_arrays(batch.columns, names=self.names))
            for batch in batches
        )
        result = build_part(self.url, self.definition, arrays)
        yield pa.RecordBatch.from_arrays(
            [pa.array([part], pa.int32()), pa.array([json.dumps(result)])], schema=_RESULT
        )
