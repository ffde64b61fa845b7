"""What a change costs: estimates from counts and schemas, and nothing is read for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from livingdb.graph.diff import max_differing_rows
from livingdb.guard.conditions.condition import Condition, Verdict
from livingdb.guard.conditions.metric import Bound, Metric
from livingdb.guard.conditions.registry import register, register_constructor

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "BytesRead",
    "NoFullRefresh",
    "RowsRead",
    "max_bytes_read",
    "max_rows_read",
    "no_full_refresh",
]

FULL = "full"
_EXPECTED = ("FIRST", "ASKED_FOR")
"""Why everything is made anew when somebody wants it so."""
_TEXT_BYTES = 24
"""What a text, or anything else without a width, is taken for."""


def _rows_read(pending: PendingChange, table: str) -> int:
    """About how many rows of a source were read."""
    both = pending.sources[table]
    if both.new is None:
        return 0
    if both.old is None or pending.cost.strategy == FULL or pending.head is None:
        return pending.versions.count(both.new)
    if both.is_same:
        return 0
    if both.old.definition != both.new.definition:
        return pending.versions.count(both.new)
    return max_differing_rows(pending.versions, both.old, both.new)


@register
@dataclass(frozen=True)
class RowsRead(Metric):
    """About how many rows of the sources were read: all, or at most those that differ."""

    OF_CHANGE: ClassVar[bool] = True

    NAME: ClassVar[str] = "rows_read"

    def measure(self, pending: PendingChange) -> int:
        """See `Metric.measure`."""
        return sum(_rows_read(pending, name) for name in pending.sources)


@register
@dataclass(frozen=True)
class BytesRead(Metric):
    """About how many bytes that were: the rows times the width of the columns that are used."""

    OF_CHANGE: ClassVar[bool] = True

    NAME: ClassVar[str] = "bytes_read"

    def measure(self, pending: PendingChange) -> int:
        """See `Metric.measure`."""
        return sum(
            _rows_read(pending, name) * _width(pending, name)
            for name, both in pending.sources.items()
            if both.new is not None
        )


def _width(pending: PendingChange, table: str) -> int:
    schema = pending.schema(table, "source").arrow
    used = pending.uses.get(table, schema.names)
    return sum(_bytes(schema.field(name).type) for name in used if name in schema.names)


def _bytes(data_type: pa.DataType) -> int:
    try:
        return max(1, int(data_type.bit_width) // 8)
    except ValueError:
        return _TEXT_BYTES


@register
@dataclass(frozen=True)
class NoFullRefresh(Condition):
    """What can be kept incrementally is not made anew, unless somebody asked for it."""

    OF_CHANGE: ClassVar[bool] = True

    NAME: ClassVar[str] = "no_full_refresh"

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        cost = pending.cost
        if cost.strategy != FULL or cost.reason in _EXPECTED or pending.head is None:
            return Verdict()
        return Verdict(f"all of it was made anew: {cost.reason or 'nobody knows why'}")


@register_constructor
def max_rows_read(rows: int, **how: Any) -> Bound:
    """About so many rows of the sources are read at most."""
    return Bound(RowsRead(), at_most=rows, **how)


@register_constructor
def max_bytes_read(size_bytes: int, **how: Any) -> Bound:
    """About so many bytes of the sources are read at most."""
    return Bound(BytesRead(), at_most=size_bytes, **how)


@register_constructor
def no_full_refresh(**how: Any) -> NoFullRefresh:
    """It does not fall back to a full recomputation."""
    return NoFullRefresh(**how)
