"""How much changes, and how much there is: counts from deltas, nothing is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from livingdb.guard.conditions.metric import Bound, Metric
from livingdb.guard.conditions.registry import register, register_constructor

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "Changed",
    "ChangedShare",
    "Deleted",
    "DeletedShare",
    "Inserted",
    "InsertedShare",
    "RowCount",
    "Updated",
    "UpdatedShare",
    "max_changed",
    "max_changed_share",
    "max_deleted",
    "max_deleted_share",
    "max_inserted",
    "max_inserted_share",
    "max_updated",
    "max_updated_share",
    "not_empty",
    "row_count",
]


@dataclass(frozen=True)
class _Rows(Metric):
    """A number of rows that change, in a table or in all of a side."""

    OF_CHANGE: ClassVar[bool] = True

    table: str | None = None
    of: str = "target"

    PARTS: ClassVar[tuple[str, ...]] = ()

    def measure(self, pending: PendingChange) -> int | float | None:
        """See `Metric.measure`."""
        return self._changed_rows(pending)

    def _changed_rows(self, pending: PendingChange) -> int:
        found = 0
        for name in pending.names(self.table, of=self.of):
            counts = pending.counts(name, self.of)
            found += sum(getattr(counts, part) for part in self.PARTS)
        return found


@dataclass(frozen=True)
class _Share(_Rows):
    """The same, as a share of the rows there were."""

    IS_SHARE: ClassVar[bool] = True

    def measure(self, pending: PendingChange) -> float | None:
        """See `Metric.measure`; nothing of a table that had no rows."""
        names = pending.names(self.table, of=self.of)
        before = sum(pending.rows_before(name, self.of) for name in names)
        return self._changed_rows(pending) / before if before else None


@register
@dataclass(frozen=True)
class Inserted(_Rows):
    """Rows inserted."""

    NAME: ClassVar[str] = "inserted"
    PARTS: ClassVar[tuple[str, ...]] = ("inserted",)


@register
@dataclass(frozen=True)
class Updated(_Rows):
    """Rows updated."""

    NAME: ClassVar[str] = "updated"
    PARTS: ClassVar[tuple[str, ...]] = ("updated",)


@register
@dataclass(frozen=True)
class Deleted(_Rows):
    """Rows deleted."""

    NAME: ClassVar[str] = "deleted"
    PARTS: ClassVar[tuple[str, ...]] = ("deleted",)


@register
@dataclass(frozen=True)
class Changed(_Rows):
    """Rows inserted, updated or deleted."""

    NAME: ClassVar[str] = "changed"
    PARTS: ClassVar[tuple[str, ...]] = ("inserted", "updated", "deleted")


@register
@dataclass(frozen=True)
class InsertedShare(_Share):
    """Rows inserted, as a share of the rows there were."""

    NAME: ClassVar[str] = "inserted_share"
    PARTS: ClassVar[tuple[str, ...]] = ("inserted",)


@register
@dataclass(frozen=True)
class UpdatedShare(_Share):
    """Rows updated, as a share of the rows there were."""

    NAME: ClassVar[str] = "updated_share"
    PARTS: ClassVar[tuple[str, ...]] = ("updated",)


@register
@dataclass(frozen=True)
class DeletedShare(_Share):
    """Rows deleted, as a share of the rows there were."""

    NAME: ClassVar[str] = "deleted_share"
    PARTS: ClassVar[tuple[str, ...]] = ("deleted",)


@register
@dataclass(frozen=True)
class ChangedShare(_Share):
    """Rows inserted, updated or deleted, as a share of the rows there were."""

    NAME: ClassVar[str] = "changed_share"
    PARTS: ClassVar[tuple[str, ...]] = ("inserted", "updated", "deleted")


@register
@dataclass(frozen=True)
class RowCount(Metric):
    """The rows there will be."""

    table: str | None = None
    of: str = "target"

    NAME: ClassVar[str] = "rows"

    def measure(self, pending: PendingChange) -> int:
        """See `Metric.measure`."""
        names = pending.names(self.table, of=self.of)
        return sum(pending.rows_after(name, self.of) for name in names)


@register_constructor
def max_inserted(rows: int, table: str | None = None, of: str = "target", **how: Any) -> Bound:
    """At most so many rows are inserted."""
    return Bound(Inserted(table, of), at_most=rows, **how)


@register_constructor
def max_updated(rows: int, table: str | None = None, of: str = "target", **how: Any) -> Bound:
    """At most so many rows are updated."""
    return Bound(Updated(table, of), at_most=rows, **how)


@register_constructor
def max_deleted(rows: int, table: str | None = None, of: str = "target", **how: Any) -> Bound:
    """At most so many rows are deleted."""
    return Bound(Deleted(table, of), at_most=rows, **how)


@register_constructor
def max_changed(rows: int, table: str | None = None, of: str = "target", **how: Any) -> Bound:
    """At most so many rows are inserted, updated or deleted."""
    return Bound(Changed(table, of), at_most=rows, **how)


@register_constructor
def max_inserted_share(
    share: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """At most such a share of the rows is inserted."""
    return Bound(InsertedShare(table, of), at_most=share, **how)


@register_constructor
def max_updated_share(
    share: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """At most such a share of the rows is updated."""
    return Bound(UpdatedShare(table, of), at_most=share, **how)


@register_constructor
def max_deleted_share(
    share: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """At most such a share of the rows is deleted."""
    return Bound(DeletedShare(table, of), at_most=share, **how)


@register_constructor
def max_changed_share(
    share: float, table: str | None = None, of: str = "target", **how: Any
) -> Bound:
    """At most such a share of the rows is inserted, updated or deleted."""
    return Bound(ChangedShare(table, of), at_most=share, **how)


@register_constructor
def row_count(
    at_least: int | None = None,
    at_most: int | None = None,
    table: str | None = None,
    of: str = "target",
    **how: Any,
) -> Bound:
    """So many rows there have to be."""
    return Bound(RowCount(table, of), at_least=at_least, at_most=at_most, **how)


@register_constructor
def not_empty(table: str | None = None, of: str = "target", **how: Any) -> Bound:
    """There has to be a row."""
    return Bound(RowCount(table, of), at_least=1, **how)
