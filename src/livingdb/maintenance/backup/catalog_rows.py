"""The catalog in a backup: all its rows once, and then what came and went since.

A catalog is a set of rows.  A point names files of rows: the first ones hold the whole set of one
moment, each later one the rows that came and the marks of those that went.  So a backup after a
small commit writes the rows of that commit and no others.  At most `MOST_CHANGES` files follow;
then the difference is taken to the whole set again, and if that has become large, all is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, Connection, LargeBinary, MetaData, Table, Text

from livingdb.catalog.dump import TABLES, Row, last_numbers, mark_of, rows_of
from livingdb.catalog.sealed_rows import DIGEST, SealedRows
from livingdb.maintenance.backup.copy_file import CopiedFile
from livingdb.maintenance.backup.place import BackupPlace
from livingdb.maintenance.backup.point import CatalogFiles, RowsName
from livingdb.maintenance.backup.rows_file import TableRows, decode_rows, encode_rows

__all__ = [
    "COPIED_PACK",
    "LAST_NUMBER",
    "MOST_CHANGES",
    "CatalogPages",
    "KnownRows",
    "packs_of",
    "read_files",
]

MOST_CHANGES = 32
_PAGE_ROWS = 20_000
_PAGE_BYTES = 16 << 20

Marks = Mapping[str, set[bytes]]
Tables = Iterator[tuple[Table, Sequence[Row]]]

_own = MetaData()
_copied_pack = Table(
    "copied_pack",
    _own,
    Column("name", Text, primary_key=True),
    Column("bytes", BigInteger),
    Column("blake3", LargeBinary),
    Column(DIGEST, LargeBinary),
)
_last_number = Table(
    "last_number",
    _own,
    Column("table", Text, primary_key=True),
    Column("number", BigInteger),
    Column(DIGEST, LargeBinary),
)
COPIED_PACK, LAST_NUMBER = _copied_pack.name, _last_number.name
_KNOWN = (*TABLES.values(), _copied_pack, _last_number)
_SEALED = {table: SealedRows(table) for table in (_copied_pack, _last_number)}


@dataclass(frozen=True)
class CatalogPages:
    """What is to be written so that a catalog is made up by it, after files that are there."""

    after: CatalogFiles
    pages: Sequence[bytes]

    @property
    def size_bytes(self) -> int:
        """The bytes of all pages."""
        return sum(map(len, self.pages))

    def write(self, place: BackupPlace) -> CatalogFiles:
        """Write them; the files that make up the catalog then."""
        made = tuple(map(place.add_rows, self.pages))
        whole = self.after.whole or len(made)
        return CatalogFiles((*self.after.names, *made), whole)


class KnownRows:
    """The rows that a backup has, by the marks of which others are told from them."""

    def __init__(self, place: BackupPlace, files: CatalogFiles) -> None:
        is_long = len(files.names) - files.whole >= MOST_CHANGES
        self._files = files.first if is_long else files
        self._marks: dict[str, set[bytes]] = defaultdict(set)
        self.packs: dict[str, CopiedFile] = {}
        """Packs that were copied by then."""
        for table, rows in read_files(place, self._files):
            self._marks[table.name].update(mark_of(table, row) for row in rows)
            if table is _copied_pack:
                self.packs.update(packs_of(rows))

    def difference(self, connection: Connection, packs: Mapping[str, CopiedFile]) -> CatalogPages:
        """The rows of a catalog that are not known, and the marks of those that went."""
        files = self._files
        made = CatalogPages(files, _pages(connection, packs, self._marks))
        is_at_first = len(files.names) == files.whole
        if files.whole and is_at_first and 2 * made.size_bytes > files.size_bytes:
            return CatalogPages(CatalogFiles(), _pages(connection, packs, {}))
        return made


def _pages(connection: Connection, packs: Mapping[str, CopiedFile], known: Marks) -> list[bytes]:
    """The rows that are not known, and the marks of those that are there no more, in files."""
    made: list[bytes] = []
    page: list[TableRows] = []
    room = _Room()
    for part in _difference(connection, packs, known):
        if not room.takes(part):
            made.append(encode_rows(_KNOWN, page))
            page, room = [], _Room()
            room.takes(part)
        page.append(part)
    if page:
        made.append(encode_rows(_KNOWN, page))
    return made


class _Room:
    """What is left of a page; its first part always fits."""

    def __init__(self) -> None:
        self._rows, self._bytes = 0, 0

    def takes(self, part: TableRows) -> bool:
        """Whether it still fits; then it is counted."""
        is_first = not self._rows
        self._rows += 1 + len(part.rows) + len(part.removed)
        self._bytes += sum(map(_row_bytes, part.rows))
        return is_first or (self._rows <= _PAGE_ROWS and self._bytes <= _PAGE_BYTES)


def _row_bytes(row: Row) -> int:
    return sum(len(value) for value in row if isinstance(value, (bytes, str)))


def _difference(
    connection: Connection, packs: Mapping[str, CopiedFile], known: Marks
) -> Iterator[TableRows]:
    """What came and went, table by table, in parts that fit a page."""
    for name, table in TABLES.items():
        left = _Left(known.get(name, set()))
        yield from _parts(table, rows_of(connection, table, left.has), left)
    copied = [
        {"name": n, "bytes": file.size_bytes, "blake3": file.blake3} for n, file in packs.items()
    ]
    numbers = [{"table": n, "number": number} for n, number in last_numbers(connection).items()]
    for table, values in ((_copied_pack, copied), (_last_number, numbers)):
        sealed = [tuple(_SEALED[table].seal(each).values()) for each in values]
        left = _Left(known.get(table.name, set()))
        yield from _parts(table, (row for row in sealed if not left.has(mark_of(table, row))), left)


class _Left:
    """Marks of rows that were not met yet."""

    def __init__(self, marks: Iterable[bytes]) -> None:
        self.marks = set(marks)

    def has(self, mark: bytes) -> bool:
        """Whether a row is one of them; it has been met then."""
        is_known = mark in self.marks
        self.marks.discard(mark)
        return is_known


def _parts(table: Table, rows: Iterator[Row], left: _Left) -> Iterator[TableRows]:
    """Rows in parts that are no larger than a page, and then the marks of those that went."""
    part: list[Row] = []
    size = 0
    for row in rows:
        part.append(row)
        size += _row_bytes(row)
        if len(part) == _PAGE_ROWS or size > _PAGE_BYTES:
            yield TableRows(table.name, part)
            part, size = [], 0
    if part or left.marks:
        yield TableRows(table.name, part, sorted(left.marks))


def read_files(
    place: BackupPlace,
    files: CatalogFiles,
    is_wanted: Callable[[str], bool] = lambda table: True,
) -> Tables:
    """The rows that files make up, each after those that it refers to; `Corruption` names a file.

    `is_wanted` says of which tables.
    """
    changes = [_decoded(place, file) for file in files.names[files.whole :]]
    gone: list[dict[str, set[bytes]]] = [defaultdict(set)]
    for parts in reversed(changes):
        before = defaultdict(set, gone[-1])
        for part in parts:
            before[part.table] = before[part.table] | set(part.removed)
        gone.append(before)
    for file in files.first.names:
        yield from _kept(_decoded(place, file), gone[-1], is_wanted)
    for number, parts in enumerate(changes):
        yield from _kept(parts, gone[len(changes) - number - 1], is_wanted)


def _decoded(place: BackupPlace, file: RowsName) -> list[TableRows]:
    return list(decode_rows(_KNOWN, place.read_rows(file), f"{file.path} at {place.files.url}"))


def _kept(
    parts: Iterable[TableRows], gone: Marks, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[Table, Sequence[Row]]]:
    """The rows of parts but those that went later."""
    known = {table.name: table for table in _KNOWN}
    for part in parts:
        if not part.rows or not is_wanted(part.table):
            continue
        table, went = known[part.table], gone.get(part.table)
        yield table, [row for row in part.rows if not went or mark_of(table, row) not in went]


def packs_of(rows: Iterable[Row]) -> dict[str, CopiedFile]:
    """The packs that rows speak of, by name."""
    return {row[0]: CopiedFile(row[1], row[2]) for row in rows}
