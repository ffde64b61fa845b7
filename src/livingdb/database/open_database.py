"""Makes and opens databases."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from livingdb.catalog.connect import embedded_folder, locate
from livingdb.database.database import Database
from livingdb.derivation.trusted_functions import check_patterns
from livingdb.engines.engine_names import check_engine
from livingdb.errors import AlreadyExists, StorageFailure
from livingdb.files.read_only import Refusal, room_refusal
from livingdb.graph.graph import Graph

if TYPE_CHECKING:
    from livingdb.maintenance.repair_rows import Mended

__all__ = ["create", "default_author", "mend_catalog", "open_database"]

_AUTHOR_VARIABLE = "LIVINGDB_AUTHOR"


def create(
    url: str | Path,
    *,
    author: str | None = None,
    trust: Sequence[str] = (),
    engine: str | None = None,
) -> Database:
    """A new database with the branch "main"; `AlreadyExists` if there is one."""
    check_engine(engine)
    trust = check_patterns(trust)
    who = author or default_author()
    place = locate(url, create=True)
    try:
        return Database(lambda given: Graph.create(place, who, given), who, trust, engine)
    except AlreadyExists:
        raise AlreadyExists(
            f"there is a database at {place.name} already; use `livingdb.open`"
        ) from None


def open_database(
    url: str | Path,
    *,
    author: str | None = None,
    trust: Sequence[str] = (),
    engine: str | None = None,
    mask_keys: Sequence[str] = (),
    read_only: bool = False,
    memory_limit: int | str | None = None,
) -> Database:
    """The database at a path or URL; `NotFound` if there is none.

    With `read_only` nothing is ever written to it.  So it is opened, too, if this process cannot
    write there: a folder of another user, media that are read-only, a disk that is full; then
    `Database.read_only` says why.

    `trust` names the functions the database may run here, like "shop.*"; `engine` answers
    queries unless a call says otherwise: "embedded", "spark" or "auto".  `mask_keys` are keys of
    masks, which no database holds: this process does from now on.  `memory_limit`, bytes or a text
    like "2 GB", is what queries of this process may take together from now on, whatever database
    they ask; beyond that they spill to disk, and end with `Unsupported` where they cannot.
    """
    check_engine(engine)
    if memory_limit is not None:
        from livingdb.engines.embedded.session import limit_memory

        limit_memory(memory_limit)
    if mask_keys:
        from livingdb.evolution.mask_keys import hold_keys

        hold_keys(mask_keys)
    who = author or default_author()

    def opened(refusal: Refusal | None) -> Database:
        place = locate(url, create=False, refusal=refusal)
        return Database(lambda given: Graph.open(place, given), who, trust, engine)

    if read_only:
        return opened(Refusal("it was opened with read_only=True"))
    try:
        return opened(None)
    except StorageFailure:
        folder = embedded_folder(url)
        full = None if folder is None else room_refusal(folder)
        if full is None:
            raise
        return opened(full)


def mend_catalog(url: str | Path, repair_from: str | Path) -> list[Mended]:
    """Mend the rows of a database's catalog with those of a copy, so that it can be opened."""
    from livingdb.maintenance.repair_rows import mend_rows

    place = locate(url, create=False)
    try:
        with open_database(repair_from) as copy:
            return mend_rows(place.engine, copy._graph.catalog.engine)
    finally:
        place.close()


def default_author() -> str:
    """Who writes, unless somebody says otherwise: $LIVINGDB_AUTHOR, or the user."""
    given = os.environ.get(_AUTHOR_VARIABLE)
    if given:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
