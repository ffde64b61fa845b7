"""The queries of TPC-H as views on Spark: a refresh after a small change beside a full one."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tests.tpch_data import generate, load, stream
from tests.tpch_queries import QUERIES

import livingdb
from bench.measure import Result, seconds

SUITE = "tpch"


def run(scale: float = 1.0, share: float = 0.001) -> Iterator[Result]:
    """The time of each refresh, and the median of the ratios."""
    import livingdb.spark

    home = Path(tempfile.mkdtemp(prefix="bench-tpch-"))
    spark = livingdb.spark.session()
    try:
        tables = generate(home / "data", scale)
        with livingdb.create(home / "tpch.ldb", engine="spark") as db:
            main = db.branch("main")
            load(main, tables)
            for name in tables:
                main.table(name).root()
            for number, query in QUERIES.items():
                main.derive(f"q{number}", sql=query, when="on demand")
            for _ in islice(stream(main, tables, share), 3):
                pass
            del tables
            results = list(_refreshed(db, scale, share))
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    yield from results
    ratios = [result.ratio for result in results if result.ratio is not None]
    name = f"median of the ratios, scale {scale:g}"
    yield Result(SUITE, name, statistics.median(ratios), "×", bound=0.5)
    kept = sum("full" not in result.note.split(",")[0] for result in results)
    yield Result(SUITE, "queries kept without a full pass", kept, "of 22")


def _refreshed(db: livingdb.Database, scale: float, share: float) -> Iterator[Result]:
    for number in QUERIES:
        done = db.refresh(f"q{number}")
        whole = seconds(lambda number=number: db.refresh(f"q{number}", full=True))
        why = f" ({done.reason})" if done.reason else ""
        note = f"{done.strategy}{why}, {done.rows:,} rows"
        yield Result(
            SUITE,
            f"q{number}, scale {scale:g}, after {share:.1%} of new, old and changed rows",
            done.seconds,
            "s",
            "in full",
            whole,
            1.2,
            note,
        )
