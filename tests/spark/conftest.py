"""One Spark session for all tests, and a database for it to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import livingdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark that knows LivingDB."""
    import livingdb.spark

    started = livingdb.spark.session(memory="1g")
    yield started
    started.stop()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """An empty database."""
    with livingdb.create(tmp_path / "shop.ldb", author="ann") as database:
        yield database
