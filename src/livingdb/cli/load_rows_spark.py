"""Rows of large files into a table through Spark: read, sorted and written by all its tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import livingdb.spark
from livingdb.errors import InvalidData, LivingDBError, Unsupported
from livingdb.spark.progress import watch_jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from livingdb import Branch, Snapshot
    from livingdb.cli.import_sources import ImportSource
    from livingdb.cli.load_rows import Load

__all__ = ["load_on_spark"]

Report = Callable[[int, int], object]


def load_on_spark(
    branch: Branch, incoming: ImportSource, given: Load, report: Report
) -> tuple[Snapshot, int]:
    """Put the rows in the table; the snapshot, and how many rows there were."""
    spark = livingdb.spark.session()
    db = branch.database
    with _translate_spark_errors(), watch_jobs(spark, report):
        frame = _frame(spark, incoming)
        is_there = given.table in branch.tables()
        if given.mode == "replace" or not is_there or not len(branch.table(given.table)):
            made = livingdb.spark.load(
                db,
                branch.name,
                given.table,
                frame,
                key=list(given.key),
                mode="overwrite" if given.mode == "replace" else "error",
                message=given.message,
            )
            return made, len(made.table(given.table))
        before = branch.head
        operation = "insert" if given.mode == "append" else "upsert"
        options = {"table": given.table, "branch": branch.name, "operation": operation}
        options["message"] = given.message
        writer = frame.write.format("livingdb").mode("append").options(**options)
        writer.save(db._graph.place.url)
        made = branch.head
        return made, incoming.count() if made.id != before.id else 0


def _frame(spark: SparkSession, incoming: ImportSource) -> DataFrame:
    """The files as Spark reads them, in the types that were found."""
    from pyspark.sql.pandas.types import from_arrow_schema

    files = [os.path.abspath(file) for file in incoming.files]
    if incoming.kind == "parquet":
        return spark.read.parquet(*files)
    reader: Any = spark.read.schema(from_arrow_schema(incoming.schema)).option("mode", "FAILFAST")
    if incoming.kind == "json":
        frame: DataFrame = reader.option("multiLine", _is_list(files[0])).json(files)
        return frame
    assert incoming.csv is not None
    if incoming.skipped:
        raise Unsupported("Spark skips no lines: --engine embedded does")
    options = {
        "header": incoming.csv.has_header,
        "sep": incoming.csv.separator,
        "quote": '"',
        "escape": '"',
    }
    found: DataFrame = reader.options(**options).csv(files)
    return found


def _is_list(file: str) -> bool:
    """Whether a file of JSON is one list, not an object a line."""
    with open(file, "rb") as stream:
        return stream.read(4096).lstrip()[:1] == b"["


@contextmanager
def _translate_spark_errors() -> Iterator[None]:
    """Says in a line what Spark has to say in a hundred."""
    from pyspark.errors import PySparkException

    try:
        yield
    except LivingDBError:
        raise
    except PySparkException as error:
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InvalidData(f"Spark: {line}") from error
