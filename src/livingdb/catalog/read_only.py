"""A catalog in SQLite that is only read, in a folder that may not be ours to write.

A write-ahead log is read with the help of two files beside the catalog.  Where they are there or
can be made, the catalog is read in place and follows what others commit.  Where they cannot, a
copy of it is read that is this process's own: it stays as it was when it was opened.  Only on
media that nobody can write, SQLite is told that nothing ever changes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from livingdb.catalog import schema
from livingdb.catalog.migrations import migrate, stored_version
from livingdb.catalog.sql.sqlite import reading_engine, sqlite_engine, sqlite_reading_engine
from livingdb.errors import LivingDBError, Locked, StorageFailure
from livingdb.files.read_only import Refusal, is_fixed_media, temporary_folder

__all__ = ["ReadCatalog", "read_catalog"]

_COPIES = 40
_SETTLED_SECONDS = 0.05
"""How long ago the last change has to be, so that the time of a file tells one more."""
_MEMORY = "/dev/shm"
_LOG, _INDEX = "-wal", "-shm"


@dataclass(frozen=True)
class ReadCatalog:
    """An engine that reads a catalog, and what lets go of what it needs."""

    engine: Engine
    close: Callable[[], None]
    is_copy: bool = False


def read_catalog(path: Path, refusal: Refusal) -> ReadCatalog:
    """The catalog in a file, to be read."""
    if is_fixed_media(path.parent) and not _beside(path, _LOG).exists():
        engine = sqlite_reading_engine(path, refusal, fixed=True)
        if _is_current(engine):
            return ReadCatalog(engine, lambda: None)
        engine.dispose()
    return _read_in_place(path, refusal) or _read_copy(path, refusal)


def _read_in_place(path: Path, refusal: Refusal) -> ReadCatalog | None:
    """The catalog itself; None if SQLite cannot, or if it has to be migrated first.

    One connection stays, in no transaction: while it does, nobody takes the files away that the
    others need.
    """
    engine = sqlite_reading_engine(path, refusal)
    try:
        anchor = reading_engine(engine).connect()
        anchor.exec_driver_sql("SELECT count(*) FROM meta").close()
        if _is_current(engine):
            return ReadCatalog(engine, anchor.close)
        anchor.close()
    except (StorageFailure, Locked):
        pass
    engine.dispose()
    return None


def _is_current(engine: Engine) -> bool:
    with engine.connect() as connection:
        return stored_version(connection) >= schema.SCHEMA_VERSION


def _read_copy(path: Path, refusal: Refusal) -> ReadCatalog:
    """A copy of the catalog, brought up to date."""
    folder = _copy(path)
    copy = folder / path.name
    try:
        writing = sqlite_engine(copy)
        try:
            migrate(writing)
        finally:
            writing.dispose()
        engine = sqlite_reading_engine(copy, refusal)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return ReadCatalog(engine, lambda: shutil.rmtree(folder, ignore_errors=True), is_copy=True)


def _copy(path: Path) -> Path:
    """A folder with a copy of the catalog that nobody changed while it was made."""
    failure: Exception | None = None
    for place in dict.fromkeys((temporary_folder() or _MEMORY, _MEMORY)):
        folder: Path | None = None
        try:
            folder = Path(tempfile.mkdtemp(prefix="livingdb-catalog-", dir=place))
            _copy_to(path, folder)
        except (OSError, LivingDBError) as error:
            failure = failure or error
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            continue
        return folder
    if isinstance(failure, LivingDBError):
        raise failure
    raise StorageFailure(f"cannot copy {path} in order to read it: {failure}") from failure


def _copy_to(path: Path, folder: Path) -> None:
    for _ in range(_COPIES):
        before = _marks(path)
        for name in (path, _beside(path, _LOG)):
            (folder / name.name).unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                shutil.copyfile(name, folder / name.name)
        if _marks(path) == before and _is_settled(path) and (folder / path.name).exists():
            return
        time.sleep(_SETTLED_SECONDS)
    raise Locked(f"{path} is being written all the time and cannot be read from aside; try again")


def _marks(path: Path) -> list[tuple[int, ...] | None]:
    """What tells whether the catalog and its log were changed."""
    found: list[tuple[int, ...] | None] = []
    for name in (path, _beside(path, _LOG)):
        try:
            status = os.stat(name)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return found


def _is_settled(path: Path) -> bool:
    times = [mark[2] for mark in _marks(path) if mark is not None]
    return time.time_ns() - max(times, default=0) > _SETTLED_SECONDS * 1e9


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
