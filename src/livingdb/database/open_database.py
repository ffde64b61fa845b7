"""Makes and opens databases."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path

from livingdb.catalog.connect import locate
from livingdb.database.database import Database
from livingdb.engines.engine_names import check_engine
from livingdb.errors import AlreadyExists
from livingdb.graph.graph import Graph

__all__ = ["create", "default_author", "open_database"]

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
    memory_limit: int | str | None = None,
) -> Database:
    """The database at a path or URL; `NotFound` if there is none.

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
    place = locate(url, create=False)
    who = author or default_author()
    return Database(lambda given: Graph.open(place, given), who, trust, engine)


def default_author() -> str:
    """Who writes, unless somebody says otherwise: $LIVINGDB_AUTHOR, or the user."""
    given = os.environ.get(_AUTHOR_VARIABLE)
    if given:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
