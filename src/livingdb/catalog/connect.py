"""From a database's URL to its catalog's engine and its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, ExceptionContext, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from livingdb.catalog.sql.postgres import postgres_failure
from livingdb.catalog.sql.sqlite import sqlite_engine
from livingdb.errors import (
    AlreadyExists,
    InvalidName,
    NotFound,
    Unsupported,
)
from livingdb.files.base import Files
from livingdb.files.lease import Lease
from livingdb.files.local import LocalFiles
from livingdb.files.turns import Turns
from livingdb.files.url import open_files

__all__ = ["CATALOG_FILE", "Place", "locate"]

CATALOG_FILE = "catalog.db"
LEASE_FILE = "lease"
TURNS_FILE = "turns"


@dataclass(frozen=True)
class Place:
    """Where a database lies: `name` for messages (no secrets), `url` to open it elsewhere.

    `lease` is our share of its use and `turns` are its writers', where only this machine can
    use it.
    """

    name: str
    url: str = field(repr=False)
    engine: Engine
    files: Files
    lease: Lease | None = None
    turns: Turns | None = None

    def close(self) -> None:
        """Let go of the catalog and of our share."""
        self.engine.dispose()
        if self.lease is not None:
            self.lease.close()


def locate(url: str | Path, *, create: bool) -> Place:
    """The place a URL names; for an embedded one, its folder is made or has to be there."""
    text = str(url)
    scheme = text.split("://", 1)[0] if "://" in text else ""
    if scheme.startswith("postgres"):
        return _locate_shared(text)
    if scheme not in ("", "file", "livingdb"):
        raise Unsupported(
            f"{scheme}:// is no place for a catalog: give a folder, or "
            "postgresql://…?data=s3://bucket/prefix"
        )
    folder = Path(text.split("://", 1)[1] if scheme else text).expanduser().absolute()
    catalog = folder / CATALOG_FILE
    if create:
        _check_free(folder, catalog)
        LocalFiles(folder).make_root()
    elif not catalog.exists():
        raise NotFound(f"there is no database at {folder}; `livingdb.create` makes one")
    lease = Lease(folder / LEASE_FILE)
    turns = Turns(folder / TURNS_FILE)
    files = open_files(str(folder))
    return Place(str(folder), str(folder), sqlite_engine(catalog), files, lease, turns)


def _check_free(folder: Path, catalog: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise AlreadyExists(f"{folder} is a file; a database needs a folder of its own")
    if not folder.exists() or catalog.exists():
        return
    if any(path.name != LEASE_FILE for path in folder.iterdir()):
        raise AlreadyExists(f"{folder} is there and holds other files; choose another name")


def _locate_shared(text: str) -> Place:
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
    return Place(name, text, engine, open_files(data))


def _translate_error(context: ExceptionContext) -> BaseException | None:
    return postgres_failure(context.original_exception)
