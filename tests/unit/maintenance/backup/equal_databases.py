"""Whether two databases are the same, down to every row of their catalogs."""

from __future__ import annotations

from typing import Any

import livingdb
from livingdb.catalog.dump import TABLES, last_numbers, rows_of

__all__ = ["State", "state_of"]

State = dict[str, Any]


def state_of(db: livingdb.Database, *, but: tuple[str, ...] = ("outside_copy",)) -> State:
    """Every row of the catalog with its digest, every number given, and every pack's bytes."""
    catalog = db._graph.catalog
    with catalog.in_one_transaction() as moment, moment.queries.connection() as connection:
        rows = {
            name: list(rows_of(connection, table, lambda mark: False))
            for name, table in TABLES.items()
            if name not in but
        }
        numbers = last_numbers(connection)
    files = db._graph.place.files
    packs = {name: files.read(f"packs/{name}") for name in catalog.packs.names()}
    return {**rows, "numbers": {n: m for n, m in numbers.items() if n not in but}, "packs": packs}
