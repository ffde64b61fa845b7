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
    """What separates cells, and the names in the first line, or given where it names none.

    A cell with nothing in it is null, one with quotes around nothing is an empty text.
    `skips_lines`: lines with more or fewer cells than names are left out.
    """

    separator: str
    names: tuple[str, ...]
    has_header: bool = True
    skips_lines: bool = False

    @classmethod
    def of(cls, file: Path, has_header: bool = True, skips_lines: bool = False) -> CsvShape:
        """The shape of a file, by its first line."""
        line = _first_line(file)
        found = [(len(_cells(line, each)), -at, each) for at, each in enumerate(_SEPARATORS)]
        separator = max(found)[2]
        names = _cells(line, separator)
        if not any(names):
            raise InvalidData(f"{file}: the first line names the columns, and there is none")
        if not has_header:
            names = [f"column{number}" for number in range(1, len(names) + 1)]
        return cls(separator, tuple(names), has_header, skips_lines)

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
                CsvShape.of(file, self.has_header).check_lines(connection, file)
            raise
        return {str(row[0]): str(row[1]) for row in found}

    def check_lines(self, connection: duckdb.DuckDBPyConnection, file: Path) -> None:
        """Fail at the line of a file that is wrong, if there is one."""
        columns = _struct(dict.fromkeys(self.names, "VARCHAR"))
        source = self._reader_sql([file], f"auto_detect = false, columns = {columns}")
        connection.execute(f"SELECT count(COLUMNS(*)) FROM {source}").fetchall()

    def skipped_lines(
        self, connection: duckdb.DuckDBPyConnection, files: Sequence[Path]
    ) -> list[tuple[Path, int]]:
        """The lines that have more or fewer cells than there are names."""
        found = []
        for file in files:
            shape = CsvShape.of(file, self.has_header)
            columns = _struct(dict.fromkeys(shape.names, "VARCHAR"))
            source = shape._reader_sql(
                [file], f"auto_detect = false, columns = {columns}, store_rejects = true"
            )
            connection.execute(f"SELECT count(COLUMNS(*)) FROM {source}").fetchall()
            lines = "SELECT DISTINCT line FROM reject_errors ORDER BY line"
            found += [(file, int(line)) for (line,) in connection.execute(lines).fetchall()]
            connection.execute("DROP TABLE reject_errors; DROP TABLE reject_scans")
        return found

    def check_cells(
        self,
        connection: duckdb.DuckDBPyConnection,
        files: Sequence[Path],
        types: Mapping[str, str],
    ) -> None:
        """`InvalidData` if lines would be left out for what is in their cells."""
        texts = dict.fromkeys(types, "VARCHAR")
        typed, all_lines = (
            connection.execute(
                f"SELECT count(*), count(COLUMNS(*)) FROM {self.reader_sql(files, kinds)}"
            ).fetchall()[0][0]
            for kinds in (types, texts)
        )
        if typed < all_lines:
            raise InvalidData(
                f"{', '.join(map(str, files))}: {all_lines - typed:,} lines have cells that do not "
                "fit the types of their columns; only lines with too many or too few cells are "
                "skipped"
            )

    def reader_sql(self, files: Sequence[Path], types: Mapping[str, str]) -> str:
        """The DuckDB function that reads the files."""
        return self._reader_sql(files, f"union_by_name = true, types = {_struct(types)}")

    def _reader_sql(self, files: Sequence[Path], options: str) -> str:
        if not self.has_header and "columns = " not in options:
            options += f", names = [{', '.join(map(_quote_text, self.names))}]"
        if self.skips_lines:
            options += ", ignore_errors = true"
        return (
            f"read_csv({file_list_sql(files)}, header = {str(self.has_header).lower()}, "
            f"delim = {_quote_text(self.separator)}, quote = '\"', escape = '\"', "
            f"allow_quoted_nulls = false, {options})"
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
