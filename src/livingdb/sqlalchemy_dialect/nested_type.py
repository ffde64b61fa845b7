"""Columns that hold maps and structs, and what else SQLAlchemy has no type for."""

from __future__ import annotations

from typing import Any

from sqlalchemy.types import UserDefinedType

__all__ = ["Nested"]


class Nested(UserDefinedType[Any]):
    """A type as SQL writes it: `Nested("map<string,int>")`; values are those of Python."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_options: Any) -> str:
        """The type in a statement."""
        return self.name

    def __repr__(self) -> str:
        return f"Nested({self.name!r})"
