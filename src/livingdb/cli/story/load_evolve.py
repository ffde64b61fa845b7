"""How it begins: the shop's data comes in through Spark, and soon its schema changes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pyarrow.csv import write_csv

from livingdb.cli.shop import CUSTOMER_CLEANING, ORDER_CLEANING
from livingdb.cli.story.page import Page, bytes_text, measure_time
from livingdb.evolution import SplitColumn

if TYPE_CHECKING:
    from livingdb.cli.story.demo_context import DemoContext

__all__ = ["evolve", "load"]

_KARI = 9_000_001


def load(stage: DemoContext, page: Page) -> None:
    """Text that Spark reads and cleans becomes two tables."""
    import livingdb.spark

    texts = {"customers": stage.shop.customers(), "orders": stage.shop.raw_orders()}
    cleaning = {"customers": CUSTOMER_CLEANING, "orders": ORDER_CLEANING}
    with TemporaryDirectory(prefix="text-", dir=stage.folder) as folder:
        files = {name: Path(folder, f"{name}.csv") for name in texts}
        for name, rows in texts.items():
            write_csv(rows, files[name])
        text_bytes = sum(file.stat().st_size for file in files.values())
        with stage.spark("loading through Spark") as spark, measure_time() as clock:
            for name, file in files.items():
                text = spark.read.option("header", True).csv(str(file))
                frame = text.selectExpr(*cleaning[name])
                message = f"the shop's {name}"
                livingdb.spark.load(stage.db, "main", name, frame, "id", message=message)
    stage.db.tag("opening", "main")
    stored_bytes = stage.db.storage().bytes
    counts = {name: len(stage.main.table(name)) for name in texts}
    page.code('livingdb.spark.load(db, "main", "orders", frame, key="id")', clock.seconds)
    page.say(
        f"Spark read {bytes_text(text_bytes)} of untidy CSV and cleaned it: "
        f"{counts['orders']:,} orders of {counts['customers']:,} customers, stored in "
        f"{bytes_text(stored_bytes)}. Each load is a snapshot on the branch main; the tag "
        "`opening` names the last one."
    )
    page.add_facts(
        **counts, text_bytes=text_bytes, stored_bytes=stored_bytes, load_seconds=clock.seconds
    )


def evolve(stage: DemoContext, page: Page) -> None:
    """One name becomes two; who still writes one name goes on doing so."""
    main, db = stage.main, stage.db
    change = SplitColumn("customers", "name", ["given", "family"], separator=" ")
    with measure_time() as clock:
        main.evolve(change, keep="main_v1", sync="both", message="given and family names")
    page.code(
        'main.evolve(SplitColumn("customers", "name", ["given", "family"], separator=" "),\n'
        '            keep="main_v1", sync="both")',
        clock.seconds,
    )
    page.say(
        "No row was written. The new application works on main, the old one on main_v1, each with "
        "its own columns, and each sees what the other writes:"
    )
    old = db.branch("main_v1")
    told = []
    for branch, who, statement in (
        (
            old,
            "old application",
            "INSERT INTO customers (id, name, city, email) "
            f"VALUES ({_KARI}, 'Kari Nordmann', 'Oslo', 'kari@example.com')",
        ),
        (main, "new application", f"UPDATE customers SET family = 'Vik' WHERE id = {_KARI}"),
    ):
        branch.sql(statement, author=who, message=f"{who}: {statement.split()[0].lower()}")
        new_row, old_row = (each.table("customers").get(_KARI) for each in (main, old))
        assert new_row is not None
        assert old_row is not None
        doing = f"{statement.split()[0]} on {branch.name}"
        told.append((doing, old_row["name"], f"{new_row['given']} | {new_row['family']}"))
    page.rows(("who writes", "main_v1: name", "main: given | family"), told)
    page.add_facts(
        evolve_seconds=clock.seconds,
        seen=[{"write": doing, "main_v1": one, "main": two} for doing, one, two in told],
    )
