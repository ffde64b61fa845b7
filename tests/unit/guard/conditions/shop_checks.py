"""Functions that conditions and models of the tests name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from livingdb.condition import PendingChange


def negative(crossing: PendingChange, table: str = "orders", least: int = 0) -> Any:
    """The rows that come with too small an amount."""
    rows = crossing.come(table)
    return rows.filter(pc.less(rows.column("amount"), least))


def by_table(crossing: PendingChange) -> dict[str, pa.Table]:
    """The same, by the table's name, and no more than the key."""
    return {"orders": negative(crossing).select(["id"])}


def says(crossing: PendingChange, answer: Any = None) -> Any:
    """Whatever it is told to say."""
    return answer


def fails(crossing: PendingChange) -> None:
    """Nothing but trouble."""
    raise RuntimeError("out of order")


def train(tables: dict[str, pa.Table]) -> tuple[bytes, dict[str, Any]]:
    """The sum of all amounts, and how good that is."""
    amounts = tables["orders"].column("amount")
    total = pc.sum(amounts).as_py() or 0
    return str(total).encode(), {"score": 100 - total / 100, "rows": len(amounts), "name": "sum"}


def rows(crossing: PendingChange, table: str, of: str, most: int) -> str | None:
    """Whether at most so many rows come."""
    count = crossing.come(table, of).num_rows
    return None if count <= most else f"{count} rows come"
