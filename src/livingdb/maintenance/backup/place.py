"""A place that holds backups of one database: points in time over packs and rows they share.

`backup.json` says whose backups they are.  `packs/` has packs of the database as they are,
`rows/` rows of its catalog in files named after the BLAKE3 of their bytes, and `points/` a small
file for each backup, which is written last and names the files of rows that make up the catalog.
`erasures/` says which erasures a backup has to know of in order to be restored.  Nothing is ever
written over: a killed backup leaves files that the next one finds and uses.

Who backs up and who takes old files away both say so in `uses/` first and look at it afterwards,
so that at least one of two notices the other.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from blake3 import blake3

from livingdb.errors import (
    AlreadyExists,
    Corruption,
    InvalidData,
    Locked,
    NotFound,
    Unsupported,
)
from livingdb.files.base import Files
from livingdb.maintenance.backup.point import FORMAT, Point, RowsName, point_time
from livingdb.maintenance.backup.use import Use, is_going_on

__all__ = ["BackupPlace"]

_CONTENTS = "backup.json"
_POINTS, _USES = "points", "uses"
_BACKUP, _PRUNE = "backup", "prune"


class BackupPlace:
    """The backups at a place."""

    def __init__(self, files: Files, database: str) -> None:
        self.files = files
        self.database = database

    @classmethod
    def open(cls, files: Files) -> BackupPlace:
        """What is there; `NotFound` if those are no backups."""
        return cls(files, _database(files))

    @classmethod
    def open_or_create(cls, files: Files, database: str) -> BackupPlace:
        """The backups of a database; `AlreadyExists` if others, or other files, are there."""
        if not files.exists(_CONTENTS):
            if files.list() and not files.exists(_CONTENTS):  # which others write first, too
                raise AlreadyExists(
                    f"{files.url} holds other files; a backup needs a place of its own"
                )
            told = {"livingdb": FORMAT, "database": database}
            files.write(_CONTENTS, json.dumps(told).encode())
        found = _database(files)
        if found != database:
            raise AlreadyExists(
                f"{files.url} holds backups of another database ({found}); choose another place"
            )
        return cls(files, database)

    # --- points ------------------------------------------------------------------------------

    def point_names(self) -> list[str]:
        """The names of all points, oldest first."""
        paths = self.files.list(_POINTS)
        return [path[len(_POINTS) + 1 : -len(".json")] for path in paths if path.endswith(".json")]

    def point(self, name: str) -> Point:
        """A point; `Corruption` if its file is damaged."""
        path = f"{_POINTS}/{name}.json"
        return Point.parse(self.files.read(path), name, self.files.url)

    def point_at(self, time: int | None) -> Point:
        """The newest point, or the newest that is not after a time; `NotFound` if there is none."""
        names = self.point_names()
        early = [name for name in names if time is None or point_time(name) <= time]
        if not early:
            what = f"so old; the first one is {names[0]}" if names else "yet: none was finished"
            raise NotFound(f"there is no backup at {self.files.url} {what}")
        return self.point(early[-1])

    def add_point(self, point: Point) -> None:
        """Make a backup count: its files are there by now."""
        self.files.write(f"{_POINTS}/{point.name}.json", point.data)

    def drop_point(self, name: str) -> None:
        """Make a backup count no more."""
        self.files.delete(f"{_POINTS}/{name}.json")

    # --- files -------------------------------------------------------------------------------

    def add_rows(self, data: bytes) -> RowsName:
        """Keep a file of rows."""
        made = RowsName(blake3(data).hexdigest(), len(data))
        if not self.files.exists(made.path):
            self.files.write(made.path, data)
        return made

    def read_rows(self, name: RowsName) -> bytes:
        """A file of rows; `Corruption` if it is damaged or gone."""
        try:
            data = self.files.read(name.path)
        except NotFound:
            raise self._damaged(name.path, "is missing") from None
        if blake3(data).hexdigest() != name.name:
            raise self._damaged(name.path)
        return data

    def rows_paths(self) -> list[str]:
        """The paths of all files of rows."""
        return self.files.list("rows")

    def _damaged(self, path: str, how: str = "is not as it was written") -> Corruption:
        return Corruption(f"the backup at {self.files.url} is damaged: {path} {how}")

    # --- uses --------------------------------------------------------------------------------

    @contextmanager
    def backing_up(self) -> Iterator[Use]:
        """While files are added: nobody takes any away.  `Locked` if somebody does just now."""
        with self._use(_BACKUP) as use:
            if self._others(_PRUNE):
                raise Locked(f"old backups at {self.files.url} are being taken away; try again")
            yield use

    @contextmanager
    def pruning(self) -> Iterator[bool]:
        """While files are taken away; False if somebody is adding some, and none may go."""
        with self._use(_PRUNE) as use:
            yield not [*self._others(_BACKUP), *(n for n in self._others(_PRUNE) if n != use.name)]

    @contextmanager
    def _use(self, kind: str) -> Iterator[Use]:
        use = Use(self.files, f"{_USES}/{kind}-{secrets.token_hex(8)}")
        use.tell()
        try:
            yield use
        finally:
            self.files.delete(use.name)

    def _others(self, kind: str) -> Sequence[str]:
        """Uses of a kind that go on, as far as one can know."""
        found = []
        for path in self.files.list(_USES):
            if not path.startswith(f"{_USES}/{kind}-"):
                continue
            with suppress(NotFound):
                if is_going_on(self.files.read(path)):
                    found.append(path)
                else:
                    self.files.delete(path)
        return found


def _database(files: Files) -> str:
    """Whose backups these are."""
    try:
        said: Any = json.loads(files.read(_CONTENTS))
        known, database = said["livingdb"], said["database"]
    except NotFound:
        raise NotFound(f"there are no backups at {files.url}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(
            f"the backup at {files.url} is damaged: {_CONTENTS} says {error!r}"
        ) from None
    if known != FORMAT:
        raise Unsupported(f"{files.url}: a later version of LivingDB wrote these backups")
    return str(database)
