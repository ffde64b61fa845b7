"""A point: one backup, and the files of rows that make up its catalog."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from blake3 import blake3

from livingdb.catalog import schema
from livingdb.errors import Corruption, Unsupported

__all__ = ["FORMAT", "CatalogFiles", "Point", "RowsName", "point_time"]

FORMAT = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True)
class RowsName:
    """A file of rows: the BLAKE3 of its bytes, in hex, and how many they are."""

    name: str
    size_bytes: int

    @property
    def path(self) -> str:
        """Where it is."""
        return f"rows/{self.name}.rows"


@dataclass(frozen=True)
class CatalogFiles:
    """Files of rows that make up a catalog, oldest first.

    The first `whole` of them are all rows of one moment, the others what came and went since.
    """

    names: tuple[RowsName, ...] = ()
    whole: int = 0

    @property
    def first(self) -> CatalogFiles:
        """The whole set alone."""
        return CatalogFiles(self.names[: self.whole], self.whole)

    @property
    def size_bytes(self) -> int:
        """The bytes of all of them."""
        return sum(file.size_bytes for file in self.names)


@dataclass(frozen=True)
class Point:
    """One backup: the database as it was at a time, in microseconds since 1970.

    `snapshot` is the number of the newest snapshot, `packs` how many there are, of so many bytes.
    """

    database: str
    schema: int
    time: int
    snapshot: int
    rows: CatalogFiles
    packs: int
    packs_bytes: int

    @property
    def data(self) -> bytes:
        """What its file says."""
        told = {"livingdb": FORMAT, **asdict(self)}
        return json.dumps(told, sort_keys=True).encode()

    @property
    def name(self) -> str:
        """What its file is called: by its time, and by what it says."""
        return f"{self.moment:{_TIME}}-{blake3(self.data).hexdigest()[:16]}"

    @property
    def moment(self) -> datetime:
        """Its time."""
        return _EPOCH + timedelta(microseconds=self.time)

    @classmethod
    def parse(cls, data: bytes, name: str, place: str) -> Self:
        """What a file at a place says; `Corruption` if it is not as it was written."""
        try:
            told = json.loads(data)
            known = told.pop("livingdb")
            rows = told.pop("rows")
            files = CatalogFiles(tuple(RowsName(**each) for each in rows["names"]), rows["whole"])
            found = cls(rows=files, **told)
        except (ValueError, KeyError, TypeError, AttributeError):
            known, found = None, None
        if found is None or found.name != name:
            if known is not None and known != FORMAT:
                raise Unsupported(f"{place}: a later version of LivingDB wrote points/{name}.json")
            raise Corruption(
                f"the backup at {place} is damaged: points/{name}.json is not as it was written"
            )
        if found.schema != schema.SCHEMA_VERSION:
            raise Unsupported(
                f"the backup {name} is of a catalog of schema version {found.schema}, and this "
                f"LivingDB has {schema.SCHEMA_VERSION}: restore it with the version that made it"
            )
        return found


def point_time(name: str) -> int:
    """The time that the name of a point says; the first of all if it says none."""
    try:
        moment = datetime.strptime(name.partition("-")[0], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return 0
    return (moment - _EPOCH) // timedelta(microseconds=1)
