"""CSV files: what separates their cells, what their columns are called, and of which types."""

from __future__ import annotations

import csv
import glob
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from livingdb.errors import InvalidData, Unsupported

__all__ = ["CsvShape", "file_list_sql"]

_SEPARATORS = ",;\t|"
_HEADER_BYTES = 1_000_000


@dataclass(frozen=True)
class CsvShape:
    """What separates cells, and the names in the first line."""

    separator: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, file: Path) -> CsvShape:
        """The shape of a file, by its first line."""
        line = _first_line(file)
        found = [(len(_cells(line, each)), -at, each) for at, each in enumerate(_SEPARATORS)]
        separator = max(found)[2]
        names = _cells(line, separator)
        if not any(names):
            raise InvalidData(f"{file}: the first line names the columns, and there is none")
        return cls(separator, tuple(names))

    def types(
        self,
        connection: duckdb.DuckDBPyConnection,
        files: Sequence[Path],
        wanted: Mapping[str, str],
    ) -> dict[str, str]:
        """The types of the columns: those wanted, and for others what all of their cells are."""
        given = {name: kind for name, kind in wanted.items() if name in self.names}
        source = self._reader_sql(
            files, f"union_by_name = true, types = {_struct(given)}, sample_size = -1"
        )
        try:
            found = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        except duckdb.Error:
            for file in files:
                CsvShape.of(file).check_lines(connection, file)
            raise
        return {str(row[0]): str(row[1]) for row in found}

    def check_lines(self, connection: duckdb.DuckDBPyConnection, file: Path) -> None:
        """Fail at the line of a file that is wrong, if there is one."""
        columns = _struct(dict.fromkeys(self.names, "VARCHAR"))
        source = self._reader_sql([file], f"auto_detect = false, columns = {columns}")
        connection.execute(f"SELECT count(COLUMNS(*)) FROM {source}").fetchall()

    def reader_sql(self, files: Sequence[Path], types: Mapping[str, str]) -> str:
        """The DuckDB function that reads the files."""
        return self._reader_sql(files, f"union_by_name = true, types = {_struct(types)}")

    def _reader_sql(self, files: Sequence[Path], options: str) -> str:
        return (
            f"read_csv({file_list_sql(files)}, header = true, "
            f"delim = {_quote_text(self.separator)}, quote = '\"', escape = '\"', {options})"
        )


def file_list_sql(files: Sequence[Path]) -> str:
    """Files in DuckDB's words, each by its very name."""
    return f"[{', '.join(_quote_text(glob.escape(str(file))) for file in files)}]"


def _first_line(file: Path) -> str:
    """The first line of a file, packed or not."""
    if file.suffix.lower() == ".zst":
        raise Unsupported(f"{file}: unpack it first")
    opener = gzip.open if file.suffix.lower() == ".gz" else open
    with opener(file, "rb") as stream:
        data = stream.read(_HEADER_BYTES)
    text = data.decode("utf-8-sig", errors="replace")
    return next(iter(text.splitlines()), "")


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def _struct(types: Mapping[str, str]) -> str:
    if not types:
        return "{}"
    pairs = (f"{_quote_text(name)}: {_quote_text(kind)}" for name, kind in types.items())
    return f"{{{', '.join(pairs)}}}"


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
