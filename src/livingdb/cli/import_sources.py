"""Files to be imported: their columns and types, what is unique in them, and their rows.

DuckDB reads them, a piece at a time; what does not fit in memory it sorts and counts on disk.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa
import pyarrow.dataset as arrow_files
import pyarrow.types as kinds

from livingdb.cli.csv_files import CsvShape, file_list_sql
from livingdb.errors import InvalidData

__all__ = [
    "Column",
    "FileFormat",
    "Guess",
    "ImportSource",
    "duckdb_type",
    "format_of",
    "guess_key",
    "size_bytes",
]

_MEMORY = "1GB"

_BATCH_ROWS = 65_536

_COUNTED_COLUMNS = 64

_AS_TEXT = re.compile(r"TIME($| WITH)|UUID|INTERVAL|JSON|ENUM|BIT|\"?NULL\"?$|VARIANT")

_AS_DECIMAL = ("HUGEINT", "UHUGEINT")

_AS_TIMESTAMP = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")

_NO_KEY = re.compile(r"FLOAT|DOUBLE|STRUCT|MAP|UNION|.*\[\d*\]$|GEOMETRY")


class FileFormat(StrEnum):
    """What files are written in."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    arrow = "arrow"


_ENDINGS = {
    "csv": FileFormat.csv,
    "tsv": FileFormat.csv,
    "txt": FileFormat.csv,
    "parquet": FileFormat.parquet,
    "pq": FileFormat.parquet,
    "json": FileFormat.json,
    "jsonl": FileFormat.json,
    "ndjson": FileFormat.json,
    "arrow": FileFormat.arrow,
    "feather": FileFormat.arrow,
    "ipc": FileFormat.arrow,
}


def format_of(file: Path) -> FileFormat | None:
    """What a file is written in, by its name; None if that does not tell."""
    parts = file.name.lower().split(".")
    if parts[-1] in ("gz", "zst"):
        parts.pop()
    return _ENDINGS.get(parts[-1]) if len(parts) > 1 else None


class ImportSource:
    """The rows of some files of one format.

    `wanted` are the types, in DuckDB's words, that columns shall have.  A context manager.
    """

    def __init__(
        self,
        files: Sequence[Path],
        kind: FileFormat,
        wanted: Mapping[str, str],
        has_header: bool = True,
        skips_lines: bool = False,
    ):
        self.files, self.kind = list(files), kind
        self._has_header, self._skips_lines = has_header, skips_lines
        self._wanted = frozenset(wanted)
        self.skipped: list[tuple[Path, int]] = []
        """The lines of CSV that were left out."""
        self._spill = tempfile.TemporaryDirectory(prefix="livingdb-import-")
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "memory_limit": _MEMORY,
                "python_enable_replacements": "false",
                "temp_directory": self._spill.name,
            },
        )
        self._connection.execute("SET TimeZone = 'UTC'")
        self.csv: CsvShape | None = None
        with self.translate_errors():
            self.types = self._create_view(dict(wanted))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()
        self._spill.cleanup()

    # --- looking -----------------------------------------------------------------------------

    def _create_view(self, wanted: dict[str, str]) -> dict[str, str]:
        """Make the relation `incoming`; the DuckDB types of its columns."""
        names = file_list_sql(self.files)
        if self.kind is FileFormat.csv:
            self.csv = CsvShape.of(self.files[0], self._has_header, self._skips_lines)
            if self._skips_lines:
                self.skipped = self.csv.skipped_lines(self._connection, self.files)
            types = self.csv.types(self._connection, self.files, wanted)
            if self.skipped:
                self.csv.check_cells(self._connection, self.files, types)
            source = self.csv.reader_sql(self.files, types)
        elif self.kind is FileFormat.json:
            types = self._describe(f"read_json({names}, union_by_name = true)")
            types |= {name: kind for name, kind in wanted.items() if name in types}
            fields = ", ".join(f"{_quote_text(n)}: {_quote_text(t)}" for n, t in types.items())
            source = f"read_json({names}, columns = {{{fields}}})"
        elif self.kind is FileFormat.parquet:
            source = f"read_parquet({names}, union_by_name = true)"
            types = self._describe(source)
        else:
            paths = [str(file) for file in self.files]
            self._connection.register("arrow_rows", arrow_files.dataset(paths, format="ipc"))
            source = "arrow_rows"
            types = self._describe(source)
        columns = ", ".join(
            _column_sql(name, kind, wanted.get(name), self.kind) for name, kind in types.items()
        )
        self._connection.execute(f"CREATE TEMP VIEW incoming AS SELECT {columns} FROM {source}")
        return self._describe("incoming")

    def _describe(self, source: str) -> dict[str, str]:
        found = self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        return {str(row[0]): str(row[1]) for row in found}

    def mixed_columns(self) -> list[MixedColumn]:
        """Columns of CSV that are text although some of their cells, or all, look otherwise."""
        if self.kind is not FileFormat.csv:
            return []
        texts = [n for n, kind in self.types.items() if kind == "VARCHAR" and n not in self._wanted]
        each = "".join(f", count({_quote_name(n)}){_like_counts(n)}" for n in texts)
        _, *counts = self._fetch_one(f"SELECT count(*){each} FROM incoming")
        width = 1 + len(_LIKE)
        rows = [counts[at : at + width] for at in range(0, len(counts), width)]
        found = (
            _mixed_column(name, cells, good)
            for name, (cells, *good) in zip(texts, rows, strict=True)
        )
        return [column for column in found if column is not None]

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        with self.translate_errors():
            found: pa.Schema = (
                self._connection.sql("SELECT * FROM incoming LIMIT 0").to_arrow_table().schema
            )
        return found

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Says what DuckDB has to say as `InvalidData`, without its advice."""
        try:
            yield
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except duckdb.Error as error:
            raise InvalidData(self._error_text(str(error))) from None
        except pa.ArrowException as error:
            raise InvalidData(f"{self.files[0]}: {error}") from None

    def _error_text(self, text: str) -> str:
        """What is wrong with the files, and in which line."""
        line = re.search(r"CSV Error on Line: (\d+)", text)
        file = re.search(r"^\s*file = (.*)$", text, re.MULTILINE)
        name = file[1] if file else ", ".join(map(str, self.files))
        if line is None:
            first = text.strip().splitlines()[0]
            return f"{name}: {re.sub(r'^[A-Z][A-Za-z ]* Error: ', '', first)}"
        words = text.splitlines()[1:]
        said = [word for word in words if word and not word.startswith("Original Line")]
        return f"{name}, line {line[1]}: {said[0] if said else 'cannot be read'}"

    # --- counting ----------------------------------------------------------------------------

    def count(self) -> int:
        """How many rows there are."""
        return int(self._fetch_one("SELECT count(*) FROM incoming")[0])

    def guess(self, table: str) -> Guess | None:
        """What may be the key of the rows; None if nothing is unique."""
        able = [name for name, kind in self.types.items() if not _NO_KEY.match(kind)]
        likely = [name for name in able if name.casefold() in likely_keys(table)]
        for names in (likely, able[:_COUNTED_COLUMNS]):
            rows, columns = self._count_values(names)
            found = guess_key(table, rows, columns, self._is_unique)
            if found is not None and (found.is_sure or names is not likely):
                return found
        return None

    def _count_values(self, names: Sequence[str]) -> tuple[int, list[Column]]:
        each = "".join(
            f", count({_quote_name(n)}), count(DISTINCT {_quote_name(n)})" for n in names
        )
        rows, *counts = self._fetch_one(f"SELECT count(*){each} FROM incoming")
        pairs = zip(names, counts[::2], counts[1::2], strict=True)
        return rows, [Column(name, values, different) for name, values, different in pairs]

    def _is_unique(self, key: tuple[str, ...]) -> bool:
        return self.duplicate_key(key) is None

    def duplicate_key(self, key: Sequence[str]) -> dict[str, Any] | None:
        """A key that several rows have; None if there is none."""
        names = ", ".join(map(_quote_name, key))
        with self.translate_errors():
            found = self._connection.execute(
                f"SELECT {names} FROM incoming GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
            ).fetchall()
        return dict(zip(key, found[0], strict=True)) if found else None

    def null_key_column(self, key: Sequence[str]) -> str | None:
        """A column of the key that is null somewhere; None if there is none."""
        rows, columns = self._count_values(key)
        return next((column.name for column in columns if column.values < rows), None)

    def _fetch_one(self, query: str) -> tuple[Any, ...]:
        with self.translate_errors():
            found = self._connection.execute(query).fetchall()
        return tuple(found[0])

    # --- reading -----------------------------------------------------------------------------

    def batches(self, key: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """The rows as they stand in the files; by `key`, if there is one."""
        order = f" ORDER BY {', '.join(map(_quote_name, key))}" if key else ""
        with self.translate_errors():
            relation = self._connection.sql(f"SELECT * FROM incoming{order}")
            yield from relation.to_arrow_reader(_BATCH_ROWS)


@dataclass(frozen=True)
class MixedColumn:
    """A column of text that could have been of another type, but for some of its cells.

    `kind` is that type as LivingDB calls it; UUIDs have none, and are text all of them.
    """

    name: str
    kind: str
    strange: int
    cells: int


_LIKE = {
    "double": "TRY_CAST({0} AS DOUBLE)",
    "date": "CASE WHEN length({0}) <= 10 THEN TRY_CAST({0} AS DATE) END",
    "timestamp": "TRY_CAST({0} AS TIMESTAMP)",
    "uuid": "TRY_CAST({0} AS UUID)",
}
"""What cells may look like, and who reads them so; dates are timestamps, too."""


def _like_counts(name: str) -> str:
    """How many cells look like each of them."""
    return "".join(f", count({read.format(_quote_name(name))})" for read in _LIKE.values())


def _mixed_column(name: str, cells: int, good: Sequence[int]) -> MixedColumn | None:
    count, kind = max(zip(good, _LIKE, strict=True), key=lambda pair: pair[0])
    if count == 0 or (count == cells and kind != "uuid"):
        return None
    return MixedColumn(name, kind, cells - count, cells)


def _column_sql(name: str, kind: str, wanted: str | None, file: FileFormat) -> str:
    """A column in a type that LivingDB has, or in the one that is wanted."""
    typed = file in (FileFormat.csv, FileFormat.json)
    target = None if typed else wanted
    if target is None and _AS_TEXT.match(kind):
        target = "VARCHAR"
    elif target is None and kind in _AS_DECIMAL:
        target = "DECIMAL(38,0)"
    elif target is None and kind in _AS_TIMESTAMP:
        target = "TIMESTAMP"
    if target is None or target == kind:
        return _quote_name(name)
    return f"CAST({_quote_name(name)} AS {target}) AS {_quote_name(name)}"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def size_bytes(files: Sequence[Path]) -> int:
    """What files weigh together."""
    return sum(os.stat(file).st_size for file in files)


_PAIRED_COLUMNS = 12


@dataclass(frozen=True)
class Column:
    """A column and how many values, and different values, it has."""

    name: str
    values: int
    different: int


@dataclass(frozen=True)
class Guess:
    """A key that would do, and whether nothing else is as likely."""

    key: tuple[str, ...]
    is_sure: bool


def guess_key(
    table: str,
    rows: int,
    columns: Sequence[Column],
    is_unique: Callable[[tuple[str, str]], bool],
) -> Guess | None:
    """`id`, then `<table>_id`, then the first unique column, then the first unique pair.

    None if there is none.  Only a name that says so, or being the only one, makes sure.
    """
    full = [column for column in columns if column.values == rows]
    unique = [column.name for column in full if column.different == rows]
    likely = likely_keys(table)
    for wanted in likely:
        for name in unique:
            if name.casefold() == wanted:
                return Guess((name,), True)
    if unique:
        return Guess((unique[0],), len(unique) == 1 and rows > 1)
    for pair in combinations([column.name for column in full[:_PAIRED_COLUMNS]], 2):
        if is_unique(pair):
            return Guess(pair, False)
    return None


def likely_keys(table: str) -> tuple[str, ...]:
    """What the key of a table is likely to be called, the likeliest first."""
    name = table.casefold()
    single = name[:-3] + "y" if name.endswith("ies") else name.removesuffix("s")
    return ("id", f"{name}_id", f"{single}_id", f"{name}id", f"{single}id")


def duckdb_type(kind: pa.DataType) -> str | None:
    """What DuckDB reads for a column of this type; None where it finds out by itself.

    Whole numbers are read as wide as there are, and fitted to the column later: what is too
    large is told with the row it is in.
    """
    if kinds.is_boolean(kind):
        return "BOOLEAN"
    if kinds.is_integer(kind):
        return "BIGINT"
    if kinds.is_floating(kind):
        return "DOUBLE"
    if kinds.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return "VARCHAR"
    if kinds.is_date(kind):
        return "DATE"
    if kinds.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    return None
