"""Functions that frozen databases name: they keep their names and what they give, for ever."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["at_most", "deaf", "features", "hear", "train", "train_or_fail"]


def train(tables: dict[str, pa.Table], factor: int = 1) -> tuple[bytes, dict[str, Any]]:
    """A model: the sum of all quantities, and how many lines there are."""
    quantities = tables["lines"].column("quantity")
    total = (pc.sum(quantities).as_py() or 0) * factor
    return str(total).encode(), {"rows": len(quantities), "score": 0.5 + total / 1_000_000}


def train_or_fail(tables: dict[str, pa.Table]) -> bytes:
    """A model that cannot be trained once there is a line of a hundred or more."""
    if pc.max(tables["lines"].column("quantity")).as_py() >= 100:
        raise RuntimeError("a quantity is out of range")
    return b"trained"


def features(frames: dict[str, Any]) -> Any:
    """A data frame of a data frame: how much of each item there is."""
    from pyspark.sql import functions

    lines = frames["lines"]
    return lines.groupBy("item").agg(functions.sum("quantity").alias("quantity"))


def at_most(crossing: Any, rows: int) -> str | None:
    """A condition: so many rows at most."""
    found = crossing.rows_after("checked")
    return f"{found} rows" if found > rows else None


def hear(alert: dict[str, Any]) -> None:
    """A sink that takes every alert."""


def deaf(alert: dict[str, Any]) -> None:
    """A sink that takes none."""
    raise RuntimeError("nobody listens")
