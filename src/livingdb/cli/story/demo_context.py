"""Where the story happens: the database, the shop that fills it, and what chapters leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from livingdb.cli.shop import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from livingdb import Branch, Database

__all__ = ["CITY", "DemoContext", "Progress", "Report"]

Report: TypeAlias = Callable[[int, int], object]
Progress: TypeAlias = Callable[[str], AbstractContextManager[Report | None]]
"""Says what is going on; who knows how far it is tells what the context gives."""

CITY = "Oslo"
"""The city the story looks at."""


@dataclass
class DemoContext:
    """What chapters work with."""

    folder: Path
    db: Database
    shop: Shop
    progress: Progress
    picture: Path | None = None
    """Where the picture of the graph goes; None: nowhere."""

    @property
    def main(self) -> Branch:
        """The branch that the shop's applications write."""
        return self.db.branch("main")

    @cached_property
    def no_java(self) -> str | None:
        """Why Spark cannot be started here; None if it can."""
        from livingdb.errors import Unsupported
        from livingdb.spark.java import check_java

        try:
            check_java()
        except Unsupported as error:
            return str(error)
        return None

    @contextmanager
    def spark(self, doing: str) -> Iterator[SparkSession]:
        """Spark, started if it is not there yet, and how far its jobs are."""
        import livingdb.spark
        from livingdb.spark.progress import watch_jobs

        session = livingdb.spark.session()
        with self.progress(doing) as report, watch_jobs(session, report):
            yield session

    def city_revenue(self) -> Decimal:
        """The dashboard's figure for the city."""
        row = self.db.branch("revenue").table("revenue").get(CITY)
        assert row is not None
        figure: Decimal = row["revenue"]
        return figure
