"""What a view must hold: the answer of its query over the snapshots that it names."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

import livingdb
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.derivation.source_positions import source_positions, source_versions
from livingdb.derivation.view import KIND, View
from livingdb.engines.embedded.session import EmbeddedEngine
from livingdb.engines.request import Request, Source


def recomputed(db: livingdb.Database, view: View, row: SnapshotRow) -> pa.Table:
    """The query of a view over the snapshots that one of its snapshots was made from."""
    graph = db._graph
    tables = source_versions(graph, view, source_positions(graph, row))
    read = {name: graph.versions.rows(item.version) for name, item in tables.items()}
    query = view.tree({name: rows.schema for name, rows in read.items()})
    sources = {name: Source(rows) for name, rows in read.items()}
    return EmbeddedEngine().rows(Request(query, sources))


def assert_same_rows(held: pa.Table, wanted: pa.Table, what: str = "") -> None:
    """Both have the same rows in any order; floats within 1e-9 of each other."""
    assert held.column_names == wanted.column_names, what
    one, other = (sorted(map(_values, rows.to_pylist()), key=_order) for rows in (held, wanted))
    assert len(one) == len(other), (what, one, other)
    for left, right in zip(one, other, strict=True):
        assert all(map(_alike, left, right)), (what, left, right)


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def _order(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(f"{value:.6e}" if isinstance(value, float) else repr(value) for value in row)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return type(one) is type(other) and one == other


def assert_in_order(db: livingdb.Database) -> None:
    """Every view of SQL that is up to date holds what its query says, and nothing is broken."""
    graph = db._graph
    for sync in graph.catalog.syncs.all():
        if sync.kind != KIND or not sync.is_active or sync.spec["what"] != "sql":
            continue
        view = View.from_json(sync.spec)
        head = db.branch(view.name).head
        if sync.frequency == "immediate":
            assert db.sync(view.name).lag == 0, view.name
        if db.sync(view.name).lag == 0:
            held = head.table(view.name).to_arrow()
            assert_same_rows(held, recomputed(db, view, head._row), view.name)
    assert db.check().problems == []
