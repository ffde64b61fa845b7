"""Arrays made without Arrow's own conversion are the ones that it makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb.chunks.arrow_values import empty, from_list, from_numbers, short_list

SHORT: list[list[Any]] = [
    [0],
    [1, -(1 << 63), (1 << 63) - 1],
    [0.0, -0.0, 1.5, float("inf")],
    ["", "a", "Ærø 🐟", "b" * 100],
]
OTHERS: list[list[Any]] = [
    [],
    [None, 1],
    [True],
    [1, 2.0],
    [1 << 63],
    [np.int64(1)],
    ["\ud800"],
    [b"x"],
    list(range(257)),
]


@pytest.mark.parametrize("values", SHORT)
def test_few_values_are_what_arrow_makes_of_them(values: list[Any]) -> None:
    made = short_list(values)
    assert made is not None
    made.validate(full=True)
    assert made.equals(pa.array(values))
    assert made.type == pa.array(values).type


@pytest.mark.parametrize("values", OTHERS)
def test_all_else_is_left_to_arrow(values: list[Any]) -> None:
    assert short_list(values) is None


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([], pa.int64()),
        ([1, None, -3], pa.int64()),
        ([None, None], pa.uint64()),
        ([], pa.binary()),
        ([b"", None, b"ab", b"\0"], pa.binary()),
        ([b"ab", b"cd"], pa.binary(2)),
    ],
)
def test_lists_are_what_arrow_makes_of_them(values: list[Any], data_type: pa.DataType) -> None:
    made = from_list(values, data_type)
    made.validate(full=True)
    assert made.equals(pa.array(values, data_type))
    assert empty(data_type).equals(pa.array([], data_type))


def test_numbers_of_every_stride() -> None:
    numbers = np.arange(10, dtype=np.int8)
    assert from_numbers(numbers[::2], pa.int8()).to_pylist() == [0, 2, 4, 6, 8]
    assert from_numbers(numbers[:0], pa.int8()).to_pylist() == []


def test_small_commits_folds_and_differences_import_no_pandas(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "double", "s": "string"}, key="id")
        main.upsert("t", {"id": [1, 2], "v": [1.0, 2.0], "s": ["a", "b"]})
    program = """
import sys, livingdb
with livingdb.open(sys.argv[1], author="ann", engine="embedded") as db:
    main = db.branch("main")
    main.upsert("t", {"id": [2], "v": [3.0], "s": ["c"]})
    main.update("t", {"id": [2], "v": [4.0]})
    assert main.table("t").get(2) == {"id": 2, "v": 4.0, "s": "c"}
    main.create_table("more", {"s": "string", "v": "double"}, key="s")
    main.insert("more", {"s": ["a", "b"], "v": [1.0, 2.0]})
    for table in ("t", "more"):
        main.table(table).root()
    main.delete("t", [1])
    assert db.diff("main~1", "main")["t"].summary().deleted == 1
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "db")], check=True)
