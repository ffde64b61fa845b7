"""Functions that databases of the tests name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def train(tables: dict[str, pa.Table], factor: int = 1) -> tuple[bytes, dict[str, Any]]:
    """The sum of all amounts, and how many there are."""
    amounts = tables["orders"].column("amount")
    total = (pc.sum(amounts).as_py() or 0) * factor
    return str(total).encode(), {"rows": len(amounts), "total": total}


def only_bytes(tables: dict[str, pa.Table]) -> bytes:
    """More than one part of an artefact."""
    return bytes(range(256)) * 10_000


def into_folder(tables: dict[str, pa.Table], folder: Path, title: str) -> dict[str, Any]:
    """Files and metrics, and no bytes."""
    (folder / "weights").mkdir()
    (folder / "weights" / "w.bin").write_bytes(b"\x00\x01")
    (folder / "title.txt").write_text(title)
    return {"tables": len(tables)}


def nothing(tables: dict[str, pa.Table]) -> None:
    """No artefact."""


def text(tables: dict[str, pa.Table]) -> str:
    """Not bytes."""
    return "text"


def fails(tables: dict[str, pa.Table]) -> bytes:
    """Fails when an amount is negative."""
    if pc.min(tables["orders"].column("amount")).as_py() < 0:
        raise RuntimeError("negative")
    return b"fine"


def by_city(frames: dict[str, Any], least: int = 0) -> Any:
    """A data frame of a data frame."""
    from pyspark.sql import functions

    orders = frames["orders"].where(f"amount >= {least}")
    return orders.groupBy("city").agg(functions.sum("amount").alias("total"))


def no_frame(frames: dict[str, Any]) -> int:
    """Not a data frame."""
    return 1


def of_frames(frames: dict[str, Any]) -> bytes:
    """A model trained on data frames."""
    return str(frames["orders"].count()).encode()


NOT_A_FUNCTION = 1
