"""Conditions about single rows: judged on the rows that come, since those that stay have been."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.guard.conditions.condition import Condition, Verdict
from livingdb.guard.conditions.pending_change import is_true, render_rows

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = ["RowCondition", "columns_of", "row_count_text"]


@dataclass(frozen=True)
class RowCondition(Condition):
    """A condition about single rows: those of the target that break it can be set aside."""

    BY_ROW: ClassVar[bool] = True

    table: str | None = field(default=None, kw_only=True)
    of: str = field(default="target", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.action == "quarantine" and self.of != "target":
            raise InvalidData(
                f"{self.NAME}: action='quarantine' sets rows of the target aside, not of the source"
            )

    @property
    @abstractmethod
    def judged_columns(self) -> Sequence[str]:
        """The columns it is about."""

    @abstractmethod
    def violation_mask(self, rows: pa.Table, pending: PendingChange, table: str) -> Any:
        """A mask of the rows that break it."""

    @abstractmethod
    def problem_text(self, count: int) -> str:
        """What is wrong with so many rows, in words."""

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        broken: dict[str, pa.Table] = {}
        for table in pending.names(self.table, self.judged_columns, self.of):
            bad = self.violating_rows(pending, table)
            if bad.num_rows:
                broken[table] = bad
        return self.verdict(broken, pending)

    def violating_rows(self, pending: PendingChange, table: str) -> pa.Table:
        """The rows of a table that break it."""
        rows = pending.come(table, self.of)
        if not rows.num_rows:
            return rows
        return rows.filter(is_true(self.violation_mask(rows, pending, table)))

    def verdict(self, broken: dict[str, pa.Table], pending: PendingChange) -> Verdict:
        """What rows that break it, by table, amount to."""
        count = sum(rows.num_rows for rows in broken.values())
        if not count:
            return Verdict(measured=0)
        shown = "; ".join(
            f"{table}: "
            f"{render_rows(rows, [*pending.schema(table, self.of).key, *self.judged_columns])}"
            for table, rows in broken.items()
        )
        kept = broken if self.of == "target" else {}
        return Verdict(f"{self.problem_text(count)}: {shown}", count, kept)


def row_count_text(count: int) -> str:
    """So many rows, in words."""
    return "1 row" if count == 1 else f"{count:,} rows"


def columns_of(given: Any, name: str) -> tuple[str, ...]:
    """Column names, one or several."""
    parts = given if isinstance(given, (tuple, list)) else (given,)
    found = tuple(
        column
        for part in parts
        for column in (part if isinstance(part, (tuple, list)) else (part,))
    )
    if not found or not all(isinstance(column, str) for column in found):
        raise InvalidData(f"{name}: name the columns, as in {name}('city')")
    return found
