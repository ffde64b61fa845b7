"""Looking back: the rows and commits behind a number, and the number as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from livingdb.cli.story.demo_context import CITY
from livingdb.cli.story.page import Page, measure_time

if TYPE_CHECKING:
    from livingdb.cli.story.demo_context import DemoContext

__all__ = ["trace", "travel"]


def trace(stage: DemoContext, page: Page) -> None:
    """From one number of the dashboard to rows, commits and people."""
    db = stage.db
    with measure_time() as clock:
        found = db.lineage("revenue", key=(CITY,))
    page.code(f'found = db.lineage("revenue", key=("{CITY}",))', clock.seconds)
    orders = found["orders"]
    value = pc.sum(pc.multiply(orders.column("price"), orders.column("quantity"))).as_py()
    counts = {name: rows.num_rows for name, rows in found.items()}
    page.say(
        f"{stage.city_revenue():,} rests on {counts['orders']:,} orders of customers in {CITY}, "
        f"read at {found.snapshots['orders'][:8]}; adding them up by hand gives {value:,}."
    )
    with measure_time() as clock:
        commits = found.commits["orders"]
    page.code('found.commits["orders"]', clock.seconds)
    columns = ["snapshot", "author", "message"]
    grouped = (
        commits.group_by(columns).aggregate([("id", "count")]).sort_by([("id_count", "descending")])
    )
    told = grouped.to_pylist()
    page.rows(
        ("orders", "written by", "in", "message"),
        [(row["id_count"], row["author"], row["snapshot"][:8], row["message"]) for row in told],
    )
    page.add_facts(sources=counts, recomputed=value, commits=told)
    _provenance(stage, page)


def _provenance(stage: DemoContext, page: Page) -> None:
    with measure_time() as clock:
        root = stage.db.provenance("revenue").root
    page.code('db.provenance("revenue")', clock.seconds)
    made = [root, *root.children, *(below for child in root.children for below in child.children)]
    page.rows(
        ("", "snapshot", "what", "by", "message"),
        [
            (node.role or "this", node.snapshot[:8], _edge_text(node), node.author, node.message)
            for node in made
        ],
    )
    page.add_facts(provenance=[node.snapshot for node in made])


def _edge_text(node: object) -> str:
    strategy = getattr(node, "strategy", "")
    kind = str(getattr(node, "kind", "")).replace("_", " ")
    return f"{kind}, {strategy}" if strategy else kind


def travel(stage: DemoContext, page: Page) -> None:
    """The dashboard by version, by time, and as of a snapshot of main from before it was made."""
    db = stage.db
    log = db.branch("revenue").log()
    first = next(made for made in reversed(log) if "revenue" in made.tables())
    moment = first.time.strftime("%Y-%m-%dT%H:%M:%S.%f")
    asked = (
        ('db.at("revenue")', db.at("revenue")),
        ('db.at("revenue~1")', db.at("revenue~1")),
        (f'db.at("revenue@{moment}")', db.at(f"revenue@{moment}")),
        ('db.derived_at("revenue", source="opening")', db.derived_at("revenue", source="opening")),
    )
    told = []
    for text, made in asked:
        row = made.table("revenue").get(CITY)
        assert row is not None
        told.append((text, row["orders"], row["revenue"], made.sources["main"][:8], made))
    page.rows(
        ("asked for", "orders", f"revenue of {CITY}", "from main at"), [row[:4] for row in told]
    )
    page.say(
        "The last one was computed now, from the rows behind the tag `opening`, when there was no "
        "dashboard and names were not split. In SQL, with a tag on the dashboard:"
    )
    query = (
        f"SELECT orders, revenue FROM revenue VERSION AS OF 'dashboard_v1' WHERE city = '{CITY}'"
    )
    with measure_time() as clock:
        (row,) = stage.main.sql(query)
    page.code(f'main.sql("{query}")', clock.seconds)
    page.say(f"{row['orders']:,} orders, {row['revenue']:,}.")
    page.add_facts(
        versions=[
            {"asked": text, "orders": count, "revenue": revenue, "source": made.sources["main"]}
            for text, count, revenue, _, made in told
        ]
    )
