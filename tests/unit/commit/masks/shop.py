"""The rows of the tests, what is masked in them, and how it is stored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import livingdb
from livingdb.evolution import MaskColumn, mask_keys
from livingdb.graph.draft import Intent
from livingdb.tables import ingest
from livingdb.tables.recipe import Change, Rows

VARIABLE = "SHOP_MASK_KEY"
KEY = "a key of the shop"
SOURCE = f"env:{VARIABLE}"
NAME = MaskColumn("customers", "name", key=SOURCE)


def fill(main: livingdb.Branch) -> livingdb.Branch:
    """Ten customers, three names, and twenty orders."""
    main.create_table("customers", {"id": "bigint", "name": "string", "city": "string"}, key="id")
    main.create_table(
        "orders",
        {"id": "bigint", "customer": "bigint", "note": "string"},
        key="id",
        foreign_keys={"customer": "customers"},
    )
    main.insert("customers", [{"id": n, "name": f"raw {n % 3}", "city": "Oslo"} for n in range(10)])
    main.insert("orders", [{"id": n, "customer": n % 10, "note": f"{n}"} for n in range(20)])
    return main


def rows(branch: livingdb.Branch, table: str = "customers") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = branch.table(table).to_arrow().to_pylist()
    return found


def everything(branch: livingdb.Branch) -> dict[str, list[dict[str, Any]]]:
    return {name: rows(branch, name) for name in branch.tables()}


def names(branch: livingdb.Branch, column: str = "name") -> set[str]:
    return {row[column] for row in rows(branch)}


def is_stored(branch: livingdb.Branch, table: str = "customers") -> bool:
    """Whether a table is rows, and changes of them, all the way down."""
    versions = branch._graph.versions
    version = branch._graph.version(branch._head(), table)
    while version.base is not None:
        assert isinstance(versions.recipe(version), Change)
        version = versions.require(version.base)
    return isinstance(versions.recipe(version), Rows)


def forget_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a process that has no key of any mask."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(mask_keys, "_held", {})


def lags(db: livingdb.Database) -> dict[str, int | None]:
    return {sync.name: sync.lag for sync in db.syncs()}


def plant_row(branch: livingdb.Branch, row: dict[str, Any]) -> None:
    """Let the head of a masked clone have a customer that its sync never made."""
    graph, commit_point = branch._graph, branch.database._pipeline.commit_point
    place, head = graph.branch(branch.name), branch._head()
    old = graph.version(head, "customers")
    held = graph.versions.rows(old)
    data = pa.Table.from_pylist([row], schema=held.schema.arrow)
    delta = ingest.carried_upserts(held.schema, held.forest.shape, data)
    edge = graph.record(head.address).edge
    with graph.stage() as staging:
        made = graph.versions.change(old, delta, staging.sink)
        tables = {"customers": made}
        intent = Intent(
            (head,), (place,), "propagate", "refresh", "", "", tables, edge.sources, edge.details
        )
        assert commit_point.store([commit_point.draft(intent, staging)], staging)
