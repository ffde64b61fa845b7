"""Spark's own examples: the same value, type and name of a column here as on Spark itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.function_examples import MOMENTARY, SAMPLE, function_examples, function_names
from tests.spark.refused_examples import OTHERWISE, refusal_reason

import livingdb
from livingdb import Branch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Branch]:
    logging.getLogger("livingdb").setLevel(logging.ERROR)
    with livingdb.create(tmp_path_factory.mktemp("examples") / "shop.ldb") as db:
        yield db.branch("main")
    logging.getLogger("livingdb").setLevel(logging.NOTSET)


@pytest.mark.slow
def test_a_sample(main: Branch, spark: SparkSession) -> None:
    _compare(main, spark, SAMPLE.split()[::4])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_all(main: Branch, spark: SparkSession, part: int) -> None:
    _compare(main, spark, function_names(spark)[part::8])


def _compare(main: Branch, spark: SparkSession, names: Sequence[str]) -> None:
    wrong = [
        f"{name}: {text}: {difference}"
        for name, text in function_examples(spark, names)
        for difference in [_difference(main, spark, name, text)]
        if difference
    ]
    assert not wrong, "\n".join(wrong)


def _difference(main: Branch, spark: SparkSession, name: str, text: str) -> str | None:
    """What differs between an example here and on Spark; None if nothing does."""
    wanted, failure = None, ""
    if not text.startswith("SET "):
        try:
            wanted = spark.sql(text).toArrow()
        except Exception as error:  # some examples fail, and have to fail here, too
            failure = str(error)
    engines: list[str | None] = [None]
    for engine in engines:
        try:
            result = main.sql(text, engine=engine)
        except livingdb.LivingDBError as error:
            if refusal_reason(name, text, str(error)) is None and not failure:
                return f"{engine}: refused: {error}"
            continue
        if wanted is None:
            return f"{engine}: answered, and Spark says {failure[:200]}"
        if result.engine == "embedded":
            engines.append("spark")
        made = result.to_arrow()
        found = _compare_columns(wanted, made, text)
        if found is not None:
            return f"{engine}: {found}"
        if _rows(made) == _rows(wanted) or name in MOMENTARY.split():
            continue
        if _rows(spark.sql(text).toArrow()) == _rows(wanted):  # and not left to chance
            return f"{engine}: {_rows(made)}, not {_rows(wanted)}"
    return None


def _compare_columns(wanted: pa.Table, found: pa.Table, text: str) -> str | None:
    if found.column_names != wanted.column_names and text not in OTHERWISE:
        return f"called {found.column_names}, not {wanted.column_names}"
    types = [_type_text(field.type) for field in found.schema]
    if types != [_type_text(field.type) for field in wanted.schema]:
        return f"of types {types}, not {wanted.schema.types}"
    return None


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*map(pa.ChunkedArray.to_pylist, table.columns), strict=True)))


def _type_text(data_type: pa.DataType) -> str:
    """A type without what Arrow says about nulls and names in it."""
    text = str(data_type)
    for word in (" not null", "large_"):
        text = text.replace(word, "")
    return text.replace("item:", "element:")
