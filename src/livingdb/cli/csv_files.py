"""CSV files: what separates their cells, what their columns are called, and of which types."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from livingdb.errors import InvalidData, Unsupported

__all__ = ["CsvShape"]

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
        self, connection: duckdb.DuckDBPyConnection, files: str, wanted: Mapping[str, str]
    ) -> dict[str, str]:
        """The types of the columns: those wanted, and for others what all of their cells are."""
        given = {name: kind for name, kind in wanted.items() if name in self.names}
        source = self._reading(files, f"types = {_struct(given)}, sample_size = -1")
        try:
            found = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        except duckdb.Error:
            self._complain(connection, files)
            raise
        return {str(row[0]): str(row[1]) for row in found}

    def _complain(self, connection: duckdb.DuckDBPyConnection, files: str) -> None:
        """Fail at the line that is wrong, if one can be found."""
        columns = _struct(dict.fromkeys(self.names, "VARCHAR"))
        source = self._reading(files, f"auto_detect = false, columns = {columns}")
        connection.execute(f"SELECT count(COLUMNS(*)) FROM {source}").fetchall()

    def reading(self, files: str, types: Mapping[str, str]) -> str:
        """The DuckDB function that reads the files."""
        return self._reading(files, f"types = {_struct(types)}")

    def _reading(self, files: str, options: str) -> str:
        separator = self.separator.replace("'", "''")
        return (
            f"read_csv({files}, header = true, union_by_name = true, delim = '{separator}', "
            f"quote = '\"', escape = '\"', {options})"
        )


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
    pairs = (f"{_text(name)}: {_text(kind)}" for name, kind in types.items())
    return f"{{{', '.join(pairs)}}}"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
