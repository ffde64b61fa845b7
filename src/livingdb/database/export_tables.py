"""Export: the tables of a snapshot as files that other programs read.

Beside the files lies `tables.json`, which says what they are: with it an import makes the same
tables again, types, keys and constraints included.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from livingdb.catalog.outside_copies import EXPORT, OutsideCopy
from livingdb.database.table_files import check_format, put_in_place, write_rows
from livingdb.errors import AlreadyExists, InvalidData, StorageFailure
from livingdb.files.url import check_place
from livingdb.graph.graph import Graph, now

if TYPE_CHECKING:
    from livingdb.database.snapshot import Snapshot
    from livingdb.database.table import Table

__all__ = ["CONTENTS", "Export", "ExportedTable", "export_tables"]

CONTENTS = "tables.json"
_VERSION = 1

Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class ExportedTable:
    """The files of a table, in the order of its key, and how many rows they hold."""

    files: tuple[str, ...]
    rows: int
    bytes: int


@dataclass(frozen=True)
class Export:
    """What an export wrote."""

    folder: str
    snapshot: str
    tables: Mapping[str, ExportedTable]

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(table.bytes for table in self.tables.values())

    def __str__(self) -> str:
        tables = f"{len(self.tables)} {'table' if len(self.tables) == 1 else 'tables'}"
        return f"{tables}, {self.rows:,} rows, {self.bytes:,} bytes in {self.folder}"


def export_tables(
    snapshot: Snapshot,
    folder: str | os.PathLike[str],
    tables: Sequence[str] | None = None,
    written: str = "parquet",
    progress: Progress | None = None,
) -> Export:
    """Write tables of a snapshot into a folder, which is made, and where no such files may be.

    If something goes wrong, none of them is left there.  A table is one file; one that Spark
    writes, since it is large and Spark is there or the database is to use it, is a file for each
    range of its key.  The database remembers what was exported and where to.  `progress` is called
    with a table's name, the rows that are written and those there are.
    """
    names = _chosen_tables(snapshot, tables)
    chosen = {name: snapshot.table(name) for name in names}
    for name, table in chosen.items():
        check_format(written, table.schema, name)
    if not isinstance(folder, (str, os.PathLike)):
        raise InvalidData(f"a folder is a path, not {type(folder).__name__}")
    place = Path(check_place(os.fspath(folder))).absolute()
    _make_folder(place)
    _check_free(place, [file_name(name, written) for name in names])
    made: dict[str, ExportedTable] = {}
    try:
        for name, table in chosen.items():
            made[name] = _write_table(place, name, table, written, progress)
        export = Export(str(place), snapshot.id, made)
        _write_contents(place, export, chosen, written)
        details = {"tables": sorted(names), "format": written}
        note_export(snapshot.database._graph, place, snapshot._row.sequence, details)
    except BaseException:
        for file in (CONTENTS, *(file for table in made.values() for file in table.files)):
            with suppress(OSError):  # what was raised says more
                (place / file).unlink(missing_ok=True)
        raise
    return export


def note_export(graph: Graph, place: Path, snapshot: int, details: Mapping[str, Any]) -> None:
    """Let the database know that rows of it lie elsewhere, if it can be told."""
    if graph.is_read_only:
        return
    made = OutsideCopy(EXPORT, place.as_uri(), snapshot, now(), details)
    with graph.catalog.write() as connection:
        graph.catalog.outside_copies.note(connection, made)


def _check_free(place: Path, files: Sequence[str]) -> None:
    """Refuse a folder with files that would be written, be it in parts."""
    try:
        there = sorted(place.iterdir())
    except OSError as error:
        raise StorageFailure(f"cannot look into {place}: {error.strerror}") from error
    for name in (CONTENTS, *files):
        stem, _, ending = name.rpartition(".")
        numbered = re.compile(rf"{re.escape(stem)}\+\d+\.{ending}")
        for path in there:
            if path.name == name or numbered.fullmatch(path.name):
                raise AlreadyExists(f"{path} is there already: choose an empty folder")


def file_name(table: str, written: str) -> str:
    """The file of a table: its name, with what file systems may not like written as `%xx`."""
    return f"{quote(table, safe=' -_')}.{written}"


def _chosen_tables(snapshot: Snapshot, tables: Sequence[str] | None) -> list[str]:
    if tables is None:
        return snapshot.tables()
    if isinstance(tables, str) or not isinstance(tables, Iterable):
        raise InvalidData(f"tables={tables!r}: a list of names, as [{str(tables)!r}]")
    return list(dict.fromkeys(tables))


def _make_folder(place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFailure(f"cannot make the folder {place}: {error.strerror}") from error


def _write_table(
    place: Path, name: str, table: Table, written: str, progress: Progress | None
) -> ExportedTable:
    total, done = len(table), 0
    file = file_name(name, written)
    large = table._graph.large
    is_here = table._graph.place.files.url.startswith("file:")  # so that tasks have the folder, too
    if large is not None and is_here and large.takes(lambda: total):
        parts = large.export(table._graph, table._version, place / file, written)
        if progress is not None:
            progress(name, total, total)
        files = tuple(part.name for part in parts)
        return ExportedTable(files, total, sum(part.size_bytes for part in parts))

    def batches() -> Any:
        nonlocal done
        for batch in table.batches():
            yield batch
            done += len(batch)
            if progress is not None:
                progress(name, done, total)

    return ExportedTable((file,), total, write_rows(place / file, written, table.schema, batches()))


def _write_contents(place: Path, export: Export, tables: Mapping[str, Table], written: str) -> None:
    """Say what the files are; written last, so that it speaks of whole files only."""
    described = {
        name: {
            "files": list(export.tables[name].files),
            "rows": export.tables[name].rows,
            "definition": tables[name].definition.to_json(),
        }
        for name in tables
    }
    contents = {
        "livingdb": _VERSION,
        "format": written,
        "snapshot": export.snapshot,
        "tables": described,
    }
    text = json.dumps(contents, indent=2, ensure_ascii=False)
    with put_in_place(place / CONTENTS) as beside:
        beside.write_text(text + "\n", encoding="utf-8")
