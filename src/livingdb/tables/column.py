"""A column of a table: what it is, and what its values are where rows name none."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from livingdb.tables.identity_column import NumberRule
from livingdb.tables.type_names import type_name

__all__ = ["Column"]


@dataclass(frozen=True)
class Column:
    """One column.  `default` fills it where a new row does not name it.

    `computed` is the expression over the row's other columns that gives its values; writers may
    not name it, nor any other that is `read_only`.  One that is `hidden` is stored as any other
    and shown only to those who name it.  `limit` is the most characters that text may have:
    varchar(limit).  One that is `generated` draws numbers from a counter: "by default" where a new
    row names none, or "always", and writers may name none.
    """

    id: str
    name: str
    type: pa.DataType
    nullable: bool = True
    default: object = None
    computed: str | None = None
    read_only: bool = False
    hidden: bool = False
    limit: int | None = None
    generated: str | None = None

    @property
    def type_name(self) -> str:
        """The type as Spark SQL writes it."""
        return type_name(self.type) if self.limit is None else f"varchar({self.limit})"

    @property
    def numbers(self) -> NumberRule | None:
        """Which numbers it draws; None if it draws none."""
        return None if self.generated is None else NumberRule.parse(self.generated)

    @property
    def always_draws(self) -> bool:
        """Whether its numbers are not for writers to choose."""
        return self.numbers is not None and self.numbers.kind == "always"

    @property
    def is_fixed(self) -> bool:
        """Whether writers may not name it."""
        return self.read_only or self.computed is not None

    @property
    def field(self) -> pa.Field:
        """The column as Arrow sees it."""
        return pa.field(self.name, self.type, self.nullable)
