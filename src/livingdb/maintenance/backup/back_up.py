"""Backing up: all packs and all rows of the catalog, as they are at one moment.

Packs are copied first, while others write.  Then the rows are read in one transaction, together
with the names of the packs that count in it; if packs came meanwhile, those are copied and a later
moment is taken.  Packs never change, so a pack that is in the backup is right for good; and if one
is taken away before it is copied, what it held is in others by then.  The transaction lasts as long
as reading the rows does, and nothing is written in it: nobody has to wait for a backup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from livingdb.catalog.catalog import Catalog
from livingdb.catalog.outside_copies import BACKUP, OutsideCopy
from livingdb.catalog.schema import SCHEMA_VERSION
from livingdb.errors import Corruption, InvalidName, Locked, NotFound, StorageFailure, Unsupported
from livingdb.files.base import Files
from livingdb.graph.graph import Graph, now
from livingdb.maintenance.backup.catalog_rows import CatalogPages, KnownRows
from livingdb.maintenance.backup.copy_file import CopiedFile, copy_file, digest_file
from livingdb.maintenance.backup.erasures import Erasure, erasures_in, save_erasures
from livingdb.maintenance.backup.keep_points import Keep, kept_points, prune
from livingdb.maintenance.backup.place import BackupPlace
from livingdb.maintenance.backup.point import CatalogFiles, Point
from livingdb.maintenance.backup.use import Use
from livingdb.maintenance.backup.verify import check_place

__all__ = ["Backup", "back_up"]

_ATTEMPTS = 20

Progress = Callable[[int, int], object]
"""Called with the bytes that are copied and those there are to copy."""


@dataclass(frozen=True)
class Backup:
    """A backup that was made: where, of which moment, and what had to be copied for it."""

    place: str
    point: str
    time: datetime
    packs: int
    bytes: int
    copied_packs: int
    copied_bytes: int
    dropped: tuple[str, ...] = ()
    """Points that are not kept any more."""

    def __str__(self) -> str:
        return (
            f"{self.point}: {self.packs} packs, {self.bytes:,} bytes in {self.place}; "
            f"{self.copied_packs} packs, {self.copied_bytes:,} bytes copied"
        )


def back_up(
    graph: Graph,
    files: Files,
    keep: Keep | None = None,
    verify: bool = False,
    progress: Progress | None = None,
) -> Backup:
    """Back a database up to a place; only what is not there yet is copied.

    With `verify`, every file of it is read again; what is damaged is copied again, and
    `Corruption` if it is damaged still.  With `keep`, older backups go.
    """
    ours, theirs = (each.url.partition("?")[0].rstrip("/") for each in (graph.place.files, files))
    if f"{theirs}/".startswith(f"{ours}/"):
        raise InvalidName(f"{files.url} is inside the database: back it up to another place")
    if keep is not None:
        kept_points([], keep, 0)  # so that what is wrong with it is said before
    place = BackupPlace.open_or_create(files, graph.catalog.database_id)
    made = _write_point(graph, place, progress)
    if verify:
        made = _verified(graph, place, made, progress)
    if keep is not None:
        made = replace(made, dropped=tuple(prune(place, keep)))
    return made


def _write_point(graph: Graph, place: BackupPlace, progress: Progress | None) -> Backup:
    with place.backing_up() as use:
        run = _Run(graph, place, use, progress)
        point = run.write()
        place.add_point(point)
    told = OutsideCopy(BACKUP, place.files.url, point.snapshot, point.time, {"point": point.name})
    if not graph.is_read_only:
        with graph.catalog.write() as connection:
            graph.catalog.outside_copies.note(connection, told)
    return Backup(
        place.files.url,
        point.name,
        point.moment,
        point.packs,
        point.packs_bytes + point.rows.size_bytes,
        run.copied_packs,
        run.copied_bytes + len(point.data),
    )


def _verified(graph: Graph, place: BackupPlace, made: Backup, progress: Progress | None) -> Backup:
    """A backup that was read again: what is damaged is taken away and copied once more."""
    report = check_place(place.files, [made.point], progress)
    if report.ok:
        return made
    for path in report.damaged:
        place.files.delete(path)
    again = _write_point(graph, place, progress)
    report = check_place(place.files, [again.point], progress)
    if not report.ok:
        raise Corruption("; ".join(report.problems))
    place.drop_point(made.point)
    return again


class _Run:
    """One backup as it is made."""

    def __init__(
        self, graph: Graph, place: BackupPlace, use: Use, progress: Progress | None
    ) -> None:
        self._graph = graph
        self._place = place
        self._use = use
        self._progress = progress
        self._there = set(place.files.list("packs"))
        self._copied: dict[str, CopiedFile] = {}
        self._done = 0
        self.copied_packs = 0
        self.copied_bytes = 0

    def write(self) -> Point:
        """All files of a backup, and the point that names them."""
        known = self._previous()
        for _ in range(_ATTEMPTS):
            self._copy_packs(self._graph.catalog.packs.names())
            with self._graph.catalog.in_one_transaction() as moment:
                names = moment.packs.names()
                time = now()
                if all(map(self._is_there, names)):
                    found = self._read(moment, time, names, known)
                    break
        else:
            raise Locked(
                "packs of the database came and went faster than they could be copied; what is "
                "copied stays: back it up again"
            )
        save_erasures(self._place, found.erasures)
        rows = found.pages.write(self._place)
        self.copied_bytes += found.pages.size_bytes
        return replace(found.point, rows=rows)

    def _previous(self) -> KnownRows:
        """What the newest point knows whose rows can be read."""
        for name in reversed(self._place.point_names()):
            with suppress(Corruption, Unsupported, NotFound):
                known = KnownRows(self._place, self._place.point(name).rows)
                self._copied = dict(known.packs)
                return known
        return KnownRows(self._place, CatalogFiles())

    # --- packs -------------------------------------------------------------------------------

    def _copy_packs(self, names: Iterable[str]) -> None:
        """Have packs in the backup; but for those that the database has no more."""
        missing = [name for name in names if not self._is_there(name)]
        source = self._graph.place.files
        with suppress(NotFound):
            sizes = [source.size(f"packs/{name}") for name in missing]
            total = self._done + sum(sizes)
            for name, size in zip(missing, sizes, strict=True):
                self._copy_pack(name, size, total)

    def _is_there(self, name: str) -> bool:
        return name in self._copied and f"packs/{name}" in self._there

    def _copy_pack(self, name: str, size: int, total: int) -> None:
        """Copy a pack, or find out what it holds that a killed backup copied."""
        source, target, path = self._graph.place.files, self._place.files, f"packs/{name}"

        def step(copied: int) -> None:
            self._done += copied
            if self._progress is not None:
                self._progress(self._done, total)

        self._use.tell()
        if path in self._there and _size(target, path) == size:
            self._copied[name] = digest_file(source, path, step)
            return
        self._copied[name] = copied = copy_file(source, target, path, step)
        self._there.add(path)
        self.copied_packs += 1
        self.copied_bytes += copied.size_bytes

    # --- rows --------------------------------------------------------------------------------

    def _read(self, moment: Catalog, time: int, names: list[str], known: KnownRows) -> _Moment:
        """What there is to write of a moment, whose packs are in the backup."""
        packs = {name: self._copied[name] for name in names}
        with moment.queries.connection() as connection:
            erasures = erasures_in(connection)
            pages = known.difference(connection, packs)
        point = Point(
            self._place.database,
            SCHEMA_VERSION,
            time,
            moment.snapshots.newest_number(),
            CatalogFiles(),
            len(packs),
            sum(pack.size_bytes for pack in packs.values()),
        )
        return _Moment(point, pages, erasures)


@dataclass(frozen=True)
class _Moment:
    """The database at a moment: what of its rows a backup does not have yet, and its erasures."""

    point: Point
    pages: CatalogPages
    erasures: set[Erasure]


def _size(files: Files, path: str) -> int | None:
    try:
        return files.size(path)
    except (NotFound, StorageFailure):
        return None
