"""How it begins: the shop's data comes in, through Spark if it can, and its schema changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pyarrow.csv import ConvertOptions, read_csv, write_csv

from livingdb.cli.shop import CUSTOMER_CLEANING, ORDER_CLEANING
from livingdb.cli.story.page import Page, bytes_text, measure_time
from livingdb.evolution import SplitColumn

if TYPE_CHECKING:
    from livingdb.cli.story.demo_context import DemoContext

__all__ = ["evolve", "load"]

_KARI = 9_000_001


def load(stage: DemoContext, page: Page) -> None:
    """Text is read and cleaned, and becomes two tables."""
    texts = {"customers": stage.shop.customers(), "orders": stage.shop.raw_orders()}
    cleaning = {"customers": CUSTOMER_CLEANING, "orders": ORDER_CLEANING}
    with TemporaryDirectory(prefix="text-", dir=stage.folder) as folder:
        files = {name: Path(folder, f"{name}.csv") for name in texts}
        for name, rows in texts.items():
            write_csv(rows, files[name])
        text_bytes = sum(file.stat().st_size for file in files.values())
        load_files = _load_by_spark if stage.no_java is None else _load_here
        with measure_time() as clock:
            load_files(stage, files, cleaning)
    stage.db.tag("opening", "main")
    stored_bytes = stage.db.storage().bytes
    counts = {name: len(stage.main.table(name)) for name in texts}
    who = "Spark"
    if stage.no_java is None:
        page.code('livingdb.spark.load(db, "main", "orders", frame, key="id")', clock.seconds)
    else:
        who = "This process"
        page.say(f"{stage.no_java}. Here it goes on without; chapter 3 has no report.")
        page.code('main.insert("orders", rows)', clock.seconds)
    page.say(
        f"{who} read {bytes_text(text_bytes)} of untidy CSV and cleaned it: "
        f"{counts['orders']:,} orders of {counts['customers']:,} customers, stored in "
        f"{bytes_text(stored_bytes)}. Each load is a snapshot on the branch main; the tag "
        "`opening` names the last one."
    )
    page.add_facts(
        **counts, text_bytes=text_bytes, stored_bytes=stored_bytes, load_seconds=clock.seconds
    )


Cleaning = Mapping[str, Sequence[str]]


def _load_by_spark(stage: DemoContext, files: Mapping[str, Path], cleaning: Cleaning) -> None:
    import livingdb.spark

    with stage.spark("loading through Spark") as spark:
        for name, file in files.items():
            text = spark.read.option("header", True).csv(str(file))
            frame = text.selectExpr(*cleaning[name])
            message = f"the shop's {name}"
            livingdb.spark.load(stage.db, "main", name, frame, "id", message=message)


def _load_here(stage: DemoContext, files: Mapping[str, Path], cleaning: Cleaning) -> None:
    """The same rows without Spark: the text is a table that is gone again."""
    import livingdb

    for name, file in files.items():
        names = file.read_text().split("\n", 1)[0].replace('"', "").split(",")
        text = read_csv(
            file, convert_options=ConvertOptions(column_types=dict.fromkeys(names, "string"))
        )
        with livingdb.create(file.with_suffix(".ldb"), author="you") as scratch:
            texts = scratch.branch("main")
            texts.create_table("text", dict.fromkeys(names, "string"), key="id")
            texts.insert("text", text)
            query = f"SELECT {', '.join(cleaning[name])} FROM text"
            rows = texts.sql(query, engine="embedded").to_arrow()
        stage.main.create_table(name, rows.schema, key="id")
        stage.main.insert(name, rows, message=f"the shop's {name}")


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
