"""What values rows may have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import InvalidData
from livingdb.guard.conditions.kinds.compare_values import (
    check_pattern,
    comparable_values,
    is_full_match,
    is_outside,
    lengths,
    to_plain,
)
from livingdb.guard.conditions.kinds.repeated_values import duplicate_mask
from livingdb.guard.conditions.kinds.row_conditions import RowCondition, columns_of, row_count_text
from livingdb.guard.conditions.pending_change import column_of, is_true
from livingdb.guard.conditions.registry import register, register_constructor

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "AcceptedValues",
    "InRange",
    "Length",
    "Matches",
    "NotNull",
    "Unique",
    "accepted_values",
    "in_range",
    "length",
    "matches",
    "not_null",
    "unique",
]


@dataclass(frozen=True)
class _SomeColumns(RowCondition):
    columns: tuple[str, ...] = ()

    SPREAD: ClassVar[str] = "columns"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", columns_of(self.columns, self.NAME))
        super().__post_init__()

    @property
    def judged_columns(self) -> Sequence[str]:
        """See `RowCondition.judged_columns`."""
        return self.columns


@register
@dataclass(frozen=True)
class NotNull(_SomeColumns):
    """Columns hold a value in every row."""

    NAME: ClassVar[str] = "not_null"

    def violation_mask(self, rows: pa.Table, pending: PendingChange, table: str) -> Any:
        """See `RowCondition.violation_mask`."""
        masks = [column_of(rows, name).is_null() for name in self.columns]
        found = masks[0]
        for mask in masks[1:]:
            found = pc.or_(found, mask)
        return found

    def problem_text(self, count: int) -> str:
        """See `RowCondition.problem_text`."""
        return f"{row_count_text(count)} with no value in {', '.join(self.columns)}"


@register
@dataclass(frozen=True)
class Unique(_SomeColumns):
    """No two rows of the table hold the same values; rows with a null among them may."""

    NAME: ClassVar[str] = "unique"

    def violation_mask(self, rows: pa.Table, pending: PendingChange, table: str) -> Any:
        """See `RowCondition.violation_mask`."""
        return duplicate_mask(rows, pending.rows(table, self.of), self.columns)

    def problem_text(self, count: int) -> str:
        """See `RowCondition.problem_text`."""
        return f"{row_count_text(count)} with a value of {', '.join(self.columns)} that others have"


@dataclass(frozen=True)
class _OneColumn(RowCondition):
    """A condition about one column; null satisfies it."""

    column: str

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InvalidData(f"{self.NAME}: name a column, not {self.column!r}")
        super().__post_init__()

    @property
    def judged_columns(self) -> Sequence[str]:
        """See `RowCondition.judged_columns`."""
        return (self.column,)

    def violation_mask(self, rows: pa.Table, pending: PendingChange, table: str) -> Any:
        """See `RowCondition.violation_mask`."""
        values = column_of(rows, self.column)
        return pc.and_(values.is_valid(), is_true(self.is_bad(values)))

    @abstractmethod
    def is_bad(self, values: pa.Array) -> Any:
        """A mask of the values that are not as they should be."""


@register
@dataclass(frozen=True)
class AcceptedValues(_OneColumn):
    """A column holds one of some values."""

    values: tuple[object, ...]

    NAME: ClassVar[str] = "accepted_values"

    def __post_init__(self) -> None:
        given = self.values
        several = given if isinstance(given, (tuple, list, set, frozenset)) else (given,)
        object.__setattr__(self, "values", tuple(to_plain(value, self.NAME) for value in several))
        super().__post_init__()

    def is_bad(self, values: pa.Array) -> Any:
        """See `_OneColumn.is_bad`."""
        wanted = [one for one in self.values if one is not None]
        return pc.invert(
            pc.is_in(values, value_set=comparable_values(wanted, values.type, self.column))
        )

    def problem_text(self, count: int) -> str:
        """See `RowCondition.problem_text`."""
        return f"{row_count_text(count)} with another {self.column} than is accepted"


@dataclass(frozen=True)
class _Between(_OneColumn):
    """Something of a column lies between two bounds, which belong to it."""

    at_least: Any = None
    at_most: Any = None

    def __post_init__(self) -> None:
        for edge in ("at_least", "at_most"):
            object.__setattr__(self, edge, to_plain(getattr(self, edge), self.NAME))
        if self.at_least is None and self.at_most is None:
            raise InvalidData(f"{self.NAME}({self.column!r}): say at_least=, at_most= or both")
        super().__post_init__()

    @property
    def _range_text(self) -> str:
        if self.at_most is None:
            return f"at least {self.at_least}"
        if self.at_least is None:
            return f"at most {self.at_most}"
        return f"from {self.at_least} to {self.at_most}"


@register
@dataclass(frozen=True)
class InRange(_Between):
    """A column's values lie in a range."""

    NAME: ClassVar[str] = "in_range"

    def is_bad(self, values: pa.Array) -> Any:
        """See `_OneColumn.is_bad`."""
        return is_outside(values, self.at_least, self.at_most, self.column)

    def problem_text(self, count: int) -> str:
        """See `RowCondition.problem_text`."""
        return f"{row_count_text(count)} with {self.column} not {self._range_text}"


@register
@dataclass(frozen=True)
class Length(_Between):
    """A column's texts have so many characters."""

    NAME: ClassVar[str] = "length"

    def __post_init__(self) -> None:
        super().__post_init__()
        for edge in (self.at_least, self.at_most):
            if edge is not None and (not isinstance(edge, int) or isinstance(edge, bool)):
                raise InvalidData(f"length: a number of characters, not {edge!r}")

    def is_bad(self, values: pa.Array) -> Any:
        """See `_OneColumn.is_bad`."""
        return is_outside(lengths(values, self.column), self.at_least, self.at_most, self.column)

    def problem_text(self, count: int) -> str:
        """See `RowCondition.problem_text`."""
        return f"{row_count_text(count)} with {self.column} not of {self._range_text} characters"


@register
@dataclass(frozen=True)
class Matches(_OneColumn):
    """A column's texts match a pattern as a whole."""

    pattern: str

    NAME: ClassVar[str] = "matches"

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        super().__post_init__()

    def is_bad(self, values: pa.Array) -> Any:
        """See `_OneColumn.is_bad`."""
        return pc.invert(is_full_match(values, self.pattern, self.column))

    def problem_text(self, count: int) -> str:
        """See `RowCondition.problem_text`."""
        return f"{row_count_text(count)} with {self.column} not like {self.pattern!r}"


@register_constructor
def not_null(*columns: str, table: str | None = None, of: str = "target", **how: Any) -> NotNull:
    """These columns hold a value in every row."""
    return NotNull(columns, table=table, of=of, **how)


@register_constructor
def unique(*columns: str, table: str | None = None, of: str = "target", **how: Any) -> Unique:
    """No two rows hold the same values in these columns."""
    return Unique(columns, table=table, of=of, **how)


@register_constructor
def accepted_values(
    column: str, values: Sequence[object], table: str | None = None, of: str = "target", **how: Any
) -> AcceptedValues:
    """A column holds one of these values, or none."""
    return AcceptedValues(column, values, table=table, of=of, **how)  # type: ignore[arg-type]


@register_constructor
def in_range(
    column: str,
    at_least: object = None,
    at_most: object = None,
    table: str | None = None,
    of: str = "target",
    **how: Any,
) -> InRange:
    """A column's values lie in a range: numbers, texts, dates or times."""
    return InRange(column, at_least, at_most, table=table, of=of, **how)


@register_constructor
def matches(
    column: str, pattern: str, table: str | None = None, of: str = "target", **how: Any
) -> Matches:
    """A column's texts match a regular expression as a whole (in the syntax of RE2)."""
    return Matches(column, pattern, table=table, of=of, **how)


@register_constructor
def length(
    column: str,
    at_least: int | None = None,
    at_most: int | None = None,
    table: str | None = None,
    of: str = "target",
    **how: Any,
) -> Length:
    """A column's texts have so many characters."""
    return Length(column, at_least, at_most, table=table, of=of, **how)
