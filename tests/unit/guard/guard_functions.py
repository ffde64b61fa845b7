"""Functions that tests name in a database."""

from __future__ import annotations

from typing import Any

__all__ = ["breaks", "kills", "says", "train"]


def breaks(crossing: Any) -> bool:
    """A condition with a mistake in it."""
    raise ZeroDivisionError("a mistake")


def kills(crossing: Any) -> str:
    """A condition that never holds."""
    return "never"


def says(crossing: Any, limit: int = 2) -> str | None:
    """A condition on how many orders there are."""
    rows = crossing.rows_after("orders", "source")
    return f"{rows} orders" if rows > limit else None


def train(tables: dict[str, Any], **params: Any) -> tuple[bytes, dict[str, float]]:
    """A model whose score is the number of its orders."""
    return b"model", {"score": float(tables["orders"].num_rows)}
