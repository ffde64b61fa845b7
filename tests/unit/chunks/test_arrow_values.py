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
from livingdb.chunks.arrow_values import from_numbers, short_list

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


def test_numbers_of_every_stride() -> None:
    numbers = np.arange(10, dtype=np.int8)
    assert from_numbers(numbers[::2], pa.int8()).to_pylist() == [0, 2, 4, 6, 8]
    assert from_numbers(numbers[:0], pa.int8()).to_pylist() == []


def test_a_small_commit_imports_no_pandas(tmp_path: Path) -> None:
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
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "db")], check=True)
