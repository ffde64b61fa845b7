"""What tests of tuning share: a machine of known speed, and work that nobody had to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

import livingdb
from livingdb import Database, Layout
from livingdb.graph.graph import now
from livingdb.maintenance.tuning.advisors.candidate import Advisor, Candidate
from livingdb.maintenance.tuning.calibrate import MODEL
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.model import CostModel

__all__ = ["COLUMNS", "MACHINE", "ROWS", "advised", "column_ids", "made", "observe", "table_id"]

COLUMNS = {"id": "int", "note": "string", "price": "double", "state": "int"}
ROWS = 20_000
MACHINE = CostModel(
    seek=11e-6,
    scan=200e-6,
    leaf=70e-6,
    column=30e-6,
    byte=2e-9,
    leaf_write=120e-6,
    column_write=100e-6,
    byte_write=5e-9,
    overlay_leaf=170e-6,
    overlay_byte=0.0,
    fetch=1e-6,
    fetch_byte=0.0,
)


def made(path: Path, layout: Layout | None = None, rows: int = ROWS) -> Database:
    """A database with a table `t`, on a machine that is as fast as `MACHINE` says."""
    db = livingdb.create(path, author="ann", engine="embedded")
    main = db.branch("main")
    main.create_table("t", COLUMNS, "id", layout=layout)
    numbers = range(rows)
    columns = {
        "id": pa.array(numbers, pa.int32()),
        "note": pa.array([f"note {number % 97}" for number in numbers]),
        "price": pa.array([number / 4 for number in numbers]),
        "state": pa.array([number % 5 for number in numbers], pa.int32()),
    }
    main.insert("t", pa.table(columns))
    catalog = db._graph.catalog
    db._graph.observer.save(now())
    with catalog.write() as connection:
        catalog.observations.clear(connection)
        catalog.set_meta(connection, MODEL, MACHINE.to_text())
    return db


def table_id(db: Database, name: str = "t", branch: str = "main") -> str:
    found = db.branch(branch).table(name).definition.id
    assert found is not None
    return found


def column_ids(db: Database, *names: str) -> str:
    """The identities of columns, as they are counted together."""
    schema = db.branch("main").table("t").definition.schema
    return " ".join(sorted(schema.column(name).id for name in names))


def observe(db: Database, counts: Mapping[str, Mapping[str, float]], of: str | None = None) -> None:
    """As if this had been observed of a table."""
    catalog = db._graph.catalog
    with catalog.write() as connection:
        catalog.observations.add(connection, now(), {of or table_id(db): counts})


def advised(db: Database, advisor: Advisor) -> list[Candidate]:
    """What an advisor proposes."""
    return list(advisor(Evidence(db._graph, now())))
