"""Lineage: what it costs to ask where a row of a view comes from."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import livingdb
from bench.measure import Result, side_by_side
from bench.views import VIEWS, shop

SUITE = "lineage"
CITY = "city 7"


def run(rows: int = 1_000_000) -> Iterator[Result]:
    """All figures of lineage."""
    home = Path(tempfile.mkdtemp(prefix="bench-lineage-"))
    try:
        with shop(home, rows) as db:
            main = db.branch("main")
            for name, query in VIEWS.items():
                main.derive(name, sql=query, when="immediate")
            yield from _figures(db, rows)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _figures(db: livingdb.Database, rows: int) -> Iterator[Result]:
    main = db.branch("main")

    def group() -> None:
        main.table("orders").to_arrow(where=f"city = '{CITY}'")

    ours, plain = side_by_side(partial(db.lineage, "totals", CITY), group)
    yield Result(
        SUITE,
        f"the rows behind one of 100 groups, {rows:,} rows",
        1000 * ours,
        "ms",
        "a filtered read of that group",
        1000 * plain,
        1.0,
    )

    def pair() -> None:
        order = main.table("orders").to_arrow(where="id = 77")
        customer = order.column("customer")[0].as_py()
        main.table("customers").to_arrow(where=f"id = {customer}")

    ours, plain = side_by_side(partial(db.lineage, "named", 77), pair)
    name = f"the rows behind one row of a join, {rows:,} rows"
    yield Result(SUITE, name, 1000 * ours, "ms", "reading both by key", 1000 * plain)
    ours, plain = side_by_side(partial(db.forward_lineage, "main", "orders", 77), pair)
    name = f"what a row goes into, three views, {rows:,} rows"
    yield Result(SUITE, name, 1000 * ours, "ms")
    yield Result(
        SUITE,
        "what the columns of a view are computed from",
        1000 * side_by_side(partial(db.column_lineage, "named"), group)[0],
        "ms",
    )
