"""Tables as files of Parquet, CSV or Arrow: written and read a batch at a time."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from livingdb.database.row_groups import RowGroups
from livingdb.errors import InvalidData, StorageFailure, Unsupported
from livingdb.tables.batches import large_batches
from livingdb.tables.type_names import type_name

__all__ = ["FORMATS", "check_format", "put_in_place", "read_rows", "write_rows"]

FORMATS = ("parquet", "csv", "arrow")


def check_format(written: str, schema: pa.Schema, table: str) -> None:
    """`InvalidData` for a format that is none, `Unsupported` for columns that it cannot hold."""
    if written not in FORMATS:
        raise InvalidData(f"format {written!r}: choose {', '.join(FORMATS)}")
    for field in schema:
        is_plain = not pa.types.is_nested(field.type) and not pa.types.is_binary(field.type)
        if written == "csv" and not is_plain:
            raise Unsupported(
                f"table {table!r}, column {field.name!r}: CSV has no {type_name(field.type)}; "
                "export it as parquet or arrow"
            )


def write_rows(
    path: Path, written: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> int:
    """Write rows into a file, which is there whole or not at all; its bytes."""
    with put_in_place(path) as beside, _writer(beside, written, schema) as writer:
        joined = batches if written == "parquet" else large_batches(batches)
        for batch in joined:
            writer(batch)
    return os.path.getsize(path)


@contextmanager
def put_in_place(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of another once it is written and synced."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise StorageFailure(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink()


@contextmanager
def _writer(path: Path, written: str, schema: pa.Schema) -> Iterator[Any]:
    """A function that takes batches."""
    if written == "parquet":
        with RowGroups(path, schema) as groups:
            yield groups.add
    elif written == "arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as arrow:
            yield arrow.write_batch
    else:
        import pyarrow.csv as pc

        with pc.CSVWriter(str(path), schema) as csv:
            yield csv.write_batch


def read_rows(path: Path, written: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file, a bounded number at a time; `InvalidData` if it cannot be read."""
    try:
        yield from _batches(path, written, schema)
    except (OSError, pa.ArrowException) as error:
        raise InvalidData(f"{path}: {error}") from error


def _batches(path: Path, written: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if written == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as parquet:
            yield from parquet.iter_batches(65_536)
    elif written == "arrow":
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as arrow:
            for number in range(arrow.num_record_batches):
                yield arrow.get_batch(number)
    else:
        import pyarrow.csv as pc

        options = pc.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        reading = pc.ReadOptions(use_threads=False)
        parsing = pc.ParseOptions(newlines_in_values=True)
        with pc.open_csv(path, reading, parsing, options) as csv:
            yield from csv
