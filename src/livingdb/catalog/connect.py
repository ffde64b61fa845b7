"""From a database's URL to its catalog's engine and its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, ExceptionContext, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from livingdb.catalog.read_only import read_catalog
from livingdb.catalog.sql.postgres import postgres_failure
from livingdb.catalog.sql.sqlite import sqlite_engine
from livingdb.errors import (
    AlreadyExists,
    InvalidName,
    NotFound,
    StorageFailure,
    Unsupported,
)
from livingdb.files.base import Files
from livingdb.files.lease import Lease
from livingdb.files.local import LocalFiles
from livingdb.files.paths import TEMPORARY_PREFIX
from livingdb.files.read_only import ReadOnlyFiles, Refusal, refusal_of
from livingdb.files.turns import Turns
from livingdb.files.url import open_files, url_text

__all__ = ["CATALOG_FILE", "Place", "embedded_folder", "locate"]

CATALOG_FILE = "catalog.db"
LEASE_FILE = "lease"
TURNS_FILE = "turns"
_BESIDE_CATALOG = (f"{CATALOG_FILE}{ending}" for ending in ("-journal", "-wal", "-shm"))
_LEFT_BEHIND = frozenset({LEASE_FILE, TURNS_FILE, *_BESIDE_CATALOG})


@dataclass(frozen=True)
class Place:
    """Where a database lies: `name` for messages (no secrets), `url` to open it elsewhere.

    `lease` is our share of its use and `turns` are its writers', where only this machine can use
    it.  A `refusal` says why it is only read; then `held` lets go of what that takes.
    """

    name: str
    url: str = field(repr=False)
    engine: Engine
    files: Files
    lease: Lease | None = None
    turns: Turns | None = None
    refusal: Refusal | None = None
    held: Callable[[], None] | None = None

    @property
    def is_unprotected(self) -> bool:
        """Whether others may take away what is read here, since they cannot know of it."""
        return self.refusal is not None and self.lease is None

    def close(self) -> None:
        """Let go of the catalog and of our share."""
        if self.held is not None:
            self.held()
        self.engine.dispose()
        if self.lease is not None:
            self.lease.close()


def locate(
    url: str | Path,
    *,
    create: bool,
    refusal: Refusal | None = None,
    unfinished: str | None = None,
) -> Place:
    """The place a URL names; for an embedded one, its folder is made or has to be there.

    With a `refusal` it is only read, and so is one that this process cannot write.  Where one is
    made, a file of the name `unfinished` says that what is there was left by who began to.
    """
    folder = embedded_folder(url)
    if folder is None:
        return _locate_shared(str(url), refusal)
    catalog = folder / CATALOG_FILE
    try:
        is_there = catalog.exists()
        if create:
            _check_free(folder, catalog, unfinished)
    except OSError as error:  # a folder that this process may not enter, a name that is too long
        raise StorageFailure(f"cannot look into {folder}: {error.strerror}") from None
    if create:
        LocalFiles(folder).make_root()
    elif not is_there:
        raise NotFound(f"there is no database at {folder}; `livingdb.create` makes one")
    else:
        refusal = refusal or refusal_of(folder, catalog)
        if refusal is not None:
            return _locate_for_reading(folder, refusal)
    lease = Lease(folder / LEASE_FILE)
    turns = Turns(folder / TURNS_FILE, beside=catalog)
    files = open_files(str(folder))
    return Place(str(folder), str(folder), sqlite_engine(catalog), files, lease, turns)


def embedded_folder(url: str | Path) -> Path | None:
    """The folder of a database that has everything in it; None if it is a shared one."""
    text = url_text("a database", url)
    scheme = text.split("://", 1)[0] if "://" in text else ""
    if scheme.startswith("postgres"):
        return None
    if scheme not in ("", "file", "livingdb"):
        raise Unsupported(
            f"{scheme}:// is no place for a catalog: give a folder, or "
            "postgresql://…?data=s3://bucket/prefix"
        )
    try:
        return Path(text.split("://", 1)[1] if scheme else text).expanduser().absolute()
    except RuntimeError:  # of a user that nobody knows
        raise InvalidName(f"{text!r}: the home folder that it begins with is not known") from None


def _locate_for_reading(folder: Path, refusal: Refusal) -> Place:
    """A folder that is only read; its lease is shared where there is one."""
    lease = Lease.for_reading(folder / LEASE_FILE)
    try:
        found = read_catalog(folder / CATALOG_FILE, refusal)
    except BaseException:
        if lease is not None:
            lease.close()
        raise
    files = ReadOnlyFiles(open_files(str(folder)), refusal)
    return Place(str(folder), str(folder), found.engine, files, lease, None, refusal, found.close)


def _check_free(folder: Path, catalog: Path, unfinished: str | None) -> None:
    if folder.exists() and not folder.is_dir():
        raise AlreadyExists(f"{folder} is a file; a database needs a folder of its own")
    if not folder.exists() or catalog.exists():
        return
    if unfinished is not None and (folder / unfinished).exists():
        return
    there = (path.name for path in folder.iterdir())
    if any(not _is_ours(name) for name in there):
        raise AlreadyExists(f"{folder} is there and holds other files; choose another name")


def _is_ours(name: str) -> bool:
    """Whether a file may be one that somebody left who was killed while making a database.

    After a power loss SQLite's journal may be there without its database, which drops it.
    """
    return name in _LEFT_BEHIND or name.startswith(TEMPORARY_PREFIX)


def _locate_shared(text: str, refusal: Refusal | None) -> Place:
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidName("this is no PostgreSQL URL: postgresql://user@host/name?data=…") from None
    query = dict(parsed.query)
    data = query.pop("data", None)
    if not isinstance(data, str):
        raise InvalidName(
            "a shared database needs a place for its data: postgresql://…?data=s3://bucket/prefix"
        )
    parsed = parsed.set(drivername="postgresql+psycopg", query=query)
    try:
        engine = create_engine(parsed, pool_pre_ping=False, max_overflow=-1)
    except ImportError:
        raise Unsupported("PostgreSQL needs `pip install livingdb[postgres]`") from None
    event.listen(engine, "handle_error", _translate_error)
    name = f"postgresql://{parsed.host or ''}/{parsed.database or ''}"
    files = open_files(data)
    if refusal is not None:
        event.listen(engine, "connect", _read_only)
        files = ReadOnlyFiles(files, refusal)
    return Place(name, text, engine, files, refusal=refusal)


def _read_only(connection: Any, _entry: ConnectionPoolEntry) -> None:
    connection.read_only = True


def _translate_error(context: ExceptionContext) -> BaseException | None:
    return postgres_failure(context.original_exception)
