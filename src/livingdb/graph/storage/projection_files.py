"""The files of projections: rows of subtrees as Parquet, in the folder `projections`.

A file is named after the subtree and the columns it holds, and beside it lies a note with its
length and a digest of its bytes; without the note it counts for nobody.  All of them can be made
again: who deletes them loses time and nothing else.
"""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from blake3 import blake3

from livingdb.chunks.address import digest
from livingdb.errors import Corruption
from livingdb.files.base import Files, FileWriter
from livingdb.files.local import LocalFiles
from livingdb.tables.column import Column
from livingdb.tables.type_names import type_name

__all__ = ["FOLDER", "ProjectionFiles", "file_name", "write_file"]

_log = logging.getLogger("livingdb")

FOLDER = "projections"
_ROW_GROUP = 256 << 10

_verified: set[tuple[str, int, int]] = set()
"""Files that this process has read whole and found as they were written."""


def file_name(subtree: str, columns: Sequence[Column]) -> str:
    """What the file of some columns of a subtree is called, without an ending."""
    held = [(column.id, type_name(column.type)) for column in columns]
    return digest(json.dumps([subtree, held]).encode()).hex()[:40]


class ProjectionFiles:
    """The files of one database."""

    def __init__(self, files: Files):
        self._files = files

    def held(self) -> set[str]:
        """The names of the files that are there, whole."""
        paths = self._files.list(FOLDER)
        notes = (path for path in paths if path.endswith(".json"))
        return {path[len(FOLDER) + 1 : -len(".json")] for path in notes}

    def sound(self, names: Iterable[str]) -> set[str]:
        """Those of the files that are as they were written; of the others the log tells.

        A file is read for that once by a process.  Afterwards Spark checks every page it reads.
        """
        good = set()
        for name in names:
            stamp = self._stamp(name)
            if stamp is None or stamp not in _verified:
                problem = self.problem(name)
                if problem is not None:
                    _log.warning("%s, so it is not used", problem)
                    continue
                if stamp is not None:
                    _verified.add(stamp)
            good.add(name)
        return good

    def _stamp(self, name: str) -> tuple[str, int, int] | None:
        """What tells a file from one that somebody put in its place; None: nothing does."""
        if not isinstance(self._files, LocalFiles):
            return None
        path = os.path.join(self._files.root, _data(name))
        try:
            status = os.stat(path)
        except OSError:
            return None
        return path, status.st_size, status.st_mtime_ns

    def url(self, name: str) -> str:
        """Where a file lies."""
        return f"{self._files.url}/{_data(name)}"

    def size(self, name: str) -> int:
        """What a file takes."""
        return self._files.size(_data(name))

    def bytes(self) -> int:
        """What all of them take."""
        return sum(self._files.size(path) for path in self._files.list(FOLDER))

    def drop(self, names: Iterable[str]) -> None:
        """Forget files: first that they count, then what they hold."""
        for name in names:
            self._files.delete(_note(name))
            self._files.delete(_data(name))

    def drop_leftovers(self, before: float) -> None:
        """Remove data that was written before then and whose note is not there."""
        held = self.held()
        for path in self._files.list(FOLDER):
            name, _, ending = path[len(FOLDER) + 1 :].partition(".")
            if ending == "parquet" and name not in held and self._time(path) < before:
                self._files.delete(path)

    def written_at(self, name: str) -> float:
        """When a file was made, in seconds since 1970."""
        return self._time(_note(name))

    def _time(self, path: str) -> float:
        """When something was written; where that is not known, long ago."""
        if not isinstance(self._files, LocalFiles):
            return 0.0
        try:
            return os.stat(os.path.join(self._files.root, path)).st_mtime
        except FileNotFoundError:
            return 0.0

    def problem(self, name: str) -> str | None:
        """What is wrong with the bytes of a file; None if nothing is."""
        try:
            note = json.loads(self._files.read(_note(name)))
            expected = note["bytes"], note["digest"]
        except (ValueError, KeyError, TypeError):
            return f"the note of the projection {name} is damaged"
        data = self._files.view(_data(name)) if self._files.exists(_data(name)) else None
        if data is None:
            return f"the projection {name} is not there"
        found = blake3(data[:], max_threads=blake3.AUTO).hexdigest()
        if (len(data), found) != expected:
            return f"the projection {name} is damaged"
        return None

    def read(self, name: str) -> pa.Table:
        """The rows of a file, columns under their identities; `Corruption` if it is damaged."""
        import pyarrow.parquet as pq

        try:
            return pq.read_table(
                io.BytesIO(self._files.read(_data(name))), page_checksum_verification=True
            )
        except (OSError, pa.ArrowException) as error:
            raise Corruption(f"the projection {name} cannot be read: {error}") from None


def write_file(
    files: Files, name: str, columns: Sequence[Column], batches: Iterator[pa.RecordBatch]
) -> None:
    """Write the columns of a subtree, under their identities; the note comes last."""
    import pyarrow.parquet as pq

    schema = pa.schema([pa.field(column.id, column.type) for column in columns])
    with files.create(_data(name)) as target:
        sink = _Counted(target)
        with pq.ParquetWriter(
            pa.PythonFile(cast(Any, sink), mode="w"),
            schema,
            write_page_checksum=True,
            write_page_index=True,
            store_decimal_as_integer=True,
        ) as writer:
            for rows in _row_groups(batches, schema):
                writer.write_table(rows, row_group_size=_ROW_GROUP)
        target.commit()
    note = {"bytes": sink.bytes, "digest": sink.hasher.hexdigest()}
    files.write(_note(name), json.dumps(note).encode())


def _row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows in groups of the size that Parquet is to have."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        count += len(batch)
        while count >= _ROW_GROUP:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, _ROW_GROUP)
            waiting, count = table.slice(_ROW_GROUP).to_batches(), count - _ROW_GROUP
    if count:
        yield pa.Table.from_batches(waiting)


@dataclass
class _Counted:
    """A file on its way in, as Arrow writes to it: counts and digests what passes."""

    target: FileWriter

    def __post_init__(self) -> None:
        self.bytes = 0
        self.hasher = blake3()
        self.closed = False

    def write(self, data: Any) -> int:
        """Take some bytes."""
        view = memoryview(data)
        self.target.write(view)
        self.hasher.update(view)
        self.bytes += len(view)
        return len(view)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing more comes."""
        self.closed = True


def _data(name: str) -> str:
    return f"{FOLDER}/{name}.parquet"


def _note(name: str) -> str:
    return f"{FOLDER}/{name}.json"
