"""What Spark is asked to read: tables that are read alike are read as one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from livingdb.engines.request import Request, Source, TableLocation
from livingdb.engines.spark.engine import SparkEngine
from livingdb.engines.value_ranges import comparison_ranges
from livingdb.sql.parse import parse_statement

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
HERE = TableLocation("shop.ldb", "a1", "t")


class Reader:
    """Takes options as `spark.read` does, and gives what it was told as the frame."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def format(self, name: str) -> Reader:
        return self

    def option(self, name: str, value: str) -> Reader:
        self.told[name] = value
        return self

    def load(self, url: str) -> Reader:
        return self


class Session:
    """A session that only reads."""

    @property
    def read(self) -> Reader:
        return Reader()

    def createDataFrame(self, rows: pa.Table) -> object:  # noqa: N802
        return rows


def _frames(sources: dict[str, Source]) -> dict[str, Any]:
    query = parse_statement(f"SELECT id FROM {', '.join(sources)}")
    request = Request(query, sources)  # type: ignore[arg-type]
    return dict(SparkEngine(Session())._frames(request))  # type: ignore[arg-type]


def test_one_table_is_one_frame() -> None:
    found = _frames({name: Source(ROWS, location=HERE) for name in "abc"})
    assert found["a"] is found["b"] is found["c"]
    assert found["a"].told == {"table": "t", "versionAsOf": "id:a1", "columns": "id"}


@pytest.mark.parametrize("other", [TableLocation("shop.ldb", "b2", "t"), None])
def test_others_are_frames_of_their_own(other: TableLocation | None) -> None:
    found = _frames({"a": Source(ROWS, location=HERE), "b": Source(ROWS, location=other)})
    assert found["a"] is not found["b"]


def test_other_ranges_are_frames_of_their_own() -> None:
    few = comparison_ranges(pa.int64(), "=", 1)
    assert few is not None
    found = _frames({"a": Source(ROWS, {"id": few}, HERE), "b": Source(ROWS, location=HERE)})
    assert found["a"] is not found["b"]
    assert "_wanted" in found["a"].told
    assert "_wanted" not in found["b"].told


@pytest.mark.parametrize(("rows", "most"), [(0, 1), (65_536, 1), (131_072, 2), (10**9, 2**10)])
def test_few_rows_are_read_by_few_tasks(rows: int, most: int) -> None:
    from livingdb.spark.source import _default_partitions

    assert 1 <= _default_partitions(rows) <= most
