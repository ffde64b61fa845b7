"""The 99 queries of TPC-DS: by default they give what Spark gives, and as views most are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.portable_engines import check_same
from tests.tpcds_data import DATA, generate, key_of

import livingdb
from livingdb import Branch
from livingdb.derivation.compiler.plan_query import plan
from livingdb.derivation.plan import Input
from livingdb.engines.portable.portability import PortableQuery, check_portability
from livingdb.sql.parse import parse_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SCALE = 0.01
MOST_FULL = 12
LEAST_PORTABLE = 91
PARTS = 11
Shop = tuple[dict[str, pa.Table], dict[int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpcds")


@pytest.fixture(scope="module")
def shop(folder: Path) -> Shop:
    return generate(folder, SCALE)


def test_as_views_few_are_refreshed_in_full(shop: Shop) -> None:
    tables, queries = shop
    inputs = {name: Input(table.schema, key_of(name, table)) for name, table in tables.items()}
    full = {
        number: [stage.reason for stage in made.stages if stage.strategy == "full"]
        for number, text in queries.items()
        for made in [plan(parse_statement(text), inputs)]  # type: ignore[arg-type]
        if any(stage.strategy == "full" for stage in made.stages)
    }
    assert (len(queries), len(full) <= MOST_FULL) == (99, True), full


def test_most_need_no_spark(shop: Shop) -> None:
    tables, queries = shop
    schemas = {name: table.schema for name, table in tables.items()}
    found = [
        isinstance(check_portability(parse_statement(text), schemas), PortableQuery)  # type: ignore[arg-type]
        for text in queries.values()
    ]
    assert sum(found) >= LEAST_PORTABLE


@pytest.fixture(scope="module")
def main(folder: Path, shop: Shop, spark: SparkSession) -> Iterator[Branch]:
    with livingdb.create(folder / "tpcds.ldb") as db:
        branch = db.branch("main")
        for name, table in shop[0].items():
            branch.create_table(name, table.schema, key=list(key_of(name, table)))
            branch.insert(name, table)
            file = folder / DATA / f"{name}.parquet"
            spark.read.parquet(str(file)).createOrReplaceTempView(name)
        yield branch


@pytest.mark.parametrize("part", range(PARTS))
def test_rows_and_types_are_sparks(
    main: Branch, spark: SparkSession, shop: Shop, part: int
) -> None:
    for number, text in list(shop[1].items())[part::PARTS]:
        found = main.sql(text).to_arrow()
        check_same(f"query {number}", found, spark.sql(text).toArrow(), ordered=False)
