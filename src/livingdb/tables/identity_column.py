"""Identity columns: where the numbers that rows draw begin, and how they go on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.errors import InvalidData

if TYPE_CHECKING:
    from livingdb.tables.column import Column

__all__ = ["GENERATED", "ROW_KEY", "NumberRule", "Numbers", "with_generated"]

GENERATED = ("by default", "always")
ROW_KEY = "livingdb_row"
"""The key of a table that was defined without one: it counts the rows as they come."""
_FORM = re.compile(
    r"(?P<kind>by\s+default|always)"
    r"(?:\s+start\s+with\s+(?P<start>[+-]?\d+))?(?:\s+increment\s+by\s+(?P<step>[+-]?\d+))?",
    re.IGNORECASE,
)
_LARGEST = 2**63 - 1

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NumberRule:
    """Which numbers a column draws: `start` first, then each `increment` after the one before.

    "by default": where a row names none; "always": writers may name none.
    """

    kind: str = GENERATED[0]
    start: int = 1
    increment: int = 1

    @classmethod
    def parse(cls, text: str) -> NumberRule:
        """The rule of words such as "always start with 10 increment by 5"; `InvalidData` if none"""
        return _parse(text)

    @property
    def text(self) -> str:
        """The rule in words; what is 1 is not said."""
        start = "" if self.start == 1 else f" start with {self.start}"
        return f"{self.kind}{start}" + (
            "" if self.increment == 1 else f" increment by {self.increment}"
        )

    def is_reached(self, number: int) -> bool:
        """Whether a number is one that the counter begins with, or comes by later."""
        return number >= self.start if self.increment > 0 else number <= self.start

    def next_after(self, number: int | None) -> int:
        """The first number that comes after another; the first of all, if that is before it."""
        if number is None or not self.is_reached(number):
            return self.start
        return self.start + ((number - self.start) // self.increment + 1) * self.increment

    def numbers(self, first: int, count: int) -> Numbers:
        """So many numbers, from one on; `OverflowError` if no type has them."""
        if max(abs(first), abs(first + self.increment * count)) > _LARGEST:
            raise OverflowError
        return first + self.increment * np.arange(count, dtype=np.int64)

    def column_values(self, first: int, count: int, column: Column) -> pa.Array:
        """So many numbers, from one on, as a column; `InvalidData` if its type has no more."""
        try:
            return pa.array(self.numbers(first, count), column.type)
        except (pa.ArrowInvalid, OverflowError):
            raise InvalidData(
                f"column {column.name!r} is {column.type}, and its numbers are used up: make its "
                "type wider"
            ) from None

    def furthest(self, numbers: pa.Array | pa.ChunkedArray) -> int | None:
        """The number that the counter comes by last; None if there are none."""
        found = pc.min_max(numbers).as_py()["max" if self.increment > 0 else "min"]
        return None if found is None else int(found)


@lru_cache(maxsize=256)
def _parse(text: str) -> NumberRule:
    found = _FORM.fullmatch(text.strip())
    if found is None:
        shown = " or ".join(map(repr, GENERATED))
        raise InvalidData(
            f"it is generated {shown}, which ' start with n' and ' increment by n' may follow, "
            f"not {text!r}"
        )
    start, step = (1 if found[name] is None else int(found[name]) for name in ("start", "step"))
    if not step:
        raise InvalidData(f"generated {text!r}: numbers that go up by 0 are all the same")
    if max(abs(start), abs(step)) > _LARGEST:
        raise InvalidData(f"generated {text!r}: the numbers do not fit bigint")
    return NumberRule(" ".join(found["kind"].casefold().split()), start, step)


def with_generated(column: Column, how: object) -> Column:
    """A column that draws its values; `InvalidData` says why it cannot."""
    try:
        rule = NumberRule.parse(how if isinstance(how, str) else repr(how))
    except InvalidData as error:
        raise InvalidData(f"column {column.name!r}: {error}") from None
    if not pa.types.is_integer(column.type):
        raise InvalidData(
            f"column {column.name!r} is {column.type}: an identity column holds whole numbers"
        )
    if rule.start >= 2 ** (column.type.bit_width - 1) or rule.start < -(
        2 ** (column.type.bit_width - 1)
    ):
        raise InvalidData(f"column {column.name!r} is {column.type}: it cannot hold {rule.start}")
    if column.default is not None or column.is_fixed:
        what = "has a default" if column.default is not None else "is not for writers"
        raise InvalidData(f"column {column.name!r} {what}, so it cannot be an identity column")
    return replace(column, generated=rule.text, nullable=False)
