"""Reading every file of a backup place again, and comparing it with what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from livingdb.errors import Corruption, LivingDBError, NotFound
from livingdb.files.base import Files
from livingdb.maintenance.backup.catalog_rows import COPIED_PACK, packs_of, read_files
from livingdb.maintenance.backup.copy_file import CopiedFile, digest_file
from livingdb.maintenance.backup.place import BackupPlace
from livingdb.maintenance.backup.point import Point

__all__ = ["BackupCheck", "check_place", "copied_packs"]

Progress = Callable[[int, int], object]


@dataclass
class BackupCheck:
    """What was read, and what is wrong: messages, and the paths of files that are damaged."""

    points: int = 0
    files: int = 0
    bytes: int = 0
    problems: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every file is as it was written."""
        return not self.problems

    def __str__(self) -> str:
        read = f"{self.points} backups, {self.files:,} files, {self.bytes:,} bytes read"
        return "\n".join([read, *(self.problems or ["no problems"])])


def check_place(
    files: Files, names: Iterable[str] | None = None, progress: Progress | None = None
) -> BackupCheck:
    """Read all files that points name, each once; of all points, or of some."""
    place = BackupPlace.open(files)
    report, seen = BackupCheck(), set[str]()
    packs: dict[str, CopiedFile] = {}
    for name in place.point_names() if names is None else names:
        report.points += 1
        try:
            point = place.point(name)
        except Corruption as error:
            _tell(report, f"points/{name}.json", str(error))
            continue
        new = [file for file in point.rows.names if file.path not in seen]
        seen.update(file.path for file in new)
        for file in new:
            try:
                place.read_rows(file)
            except Corruption as error:
                _tell(report, file.path, str(error))
        report.files += len(new)
        report.bytes += sum(file.size_bytes for file in new)
        try:
            packs.update(copied_packs(place, point))
        except LivingDBError:
            if not any(file.path in report.damaged for file in point.rows.names):
                raise
    _check_packs(files, packs, report, progress)
    return report


def _check_packs(
    files: Files, packs: dict[str, CopiedFile], report: BackupCheck, progress: Progress | None
) -> None:
    total = sum(file.size_bytes for file in packs.values())
    done = 0

    def step(read: int) -> None:
        nonlocal done
        done += read
        if progress is not None:
            progress(done, total)

    for name, expected in packs.items():
        path = f"packs/{name}"
        try:
            found = digest_file(files, path, step)
        except NotFound:
            _tell(report, path, f"the backup at {files.url} is damaged: {path} is missing")
            continue
        report.files += 1
        report.bytes += found.size_bytes
        if found != expected:
            told = f"the backup at {files.url} is damaged: {path} is not as it was written"
            _tell(report, path, told)


def _tell(report: BackupCheck, path: str, problem: str) -> None:
    report.damaged.append(path)
    report.problems.append(problem)


def copied_packs(place: BackupPlace, point: Point) -> dict[str, CopiedFile]:
    """The packs that a point needs, by name."""
    tables = read_files(place, point.rows, COPIED_PACK.__eq__)
    return packs_of(row for _, rows in tables for row in rows)
