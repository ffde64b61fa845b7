"""Values on their way in and out: as SQLAlchemy's types promise them, and as literals of SQL."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

from sqlalchemy import types

__all__ = ["COLUMN_SPECS", "text_literal"]

Processor = Callable[[Any], Any]


def text_literal(text: str) -> str:
    """A text in a statement, where a backslash begins an escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class _Text(types.String):
    def literal_processor(self, dialect: Any) -> Processor:
        return lambda value: text_literal(str(value))


class _Binary(types.LargeBinary):
    def literal_processor(self, dialect: Any) -> Processor:
        return lambda value: f"X'{bytes(value).hex().upper()}'"


class _DateTime(types.DateTime):
    """Moments, or the time that a clock shows where the type has no zone."""

    def result_processor(self, dialect: Any, coltype: object) -> Processor | None:
        if self.timezone:
            return None

        def process(value: Any) -> Any:
            is_moment = isinstance(value, datetime.datetime) and value.tzinfo is not None
            return value.astimezone(datetime.UTC).replace(tzinfo=None) if is_moment else value

        return process

    def literal_processor(self, dialect: Any) -> Processor:
        name = "TIMESTAMP" if self.timezone else "TIMESTAMP_NTZ"
        return lambda value: f"{name} '{value.isoformat(sep=' ')}'"


class _Date(types.Date):
    def literal_processor(self, dialect: Any) -> Processor:
        return lambda value: f"DATE '{value.isoformat()[:10]}'"


class _Numeric(types.Numeric[Any]):
    """Decimals, or floats if they are asked for, whatever the query computes."""

    def bind_processor(self, dialect: Any) -> Processor | None:
        return None

    def result_processor(self, dialect: Any, coltype: object) -> Processor:
        if not self.asdecimal:
            return lambda value: None if value is None else float(value)

        def process(value: Any) -> Any:
            if value is None or isinstance(value, decimal.Decimal):
                return value
            return decimal.Decimal(str(value))

        return process


class _Float(types.Float[Any]):
    def bind_processor(self, dialect: Any) -> Processor | None:
        return None

    def result_processor(self, dialect: Any, coltype: object) -> Processor | None:
        if self.asdecimal:
            digits = f"%.{self._effective_decimal_return_scale}f"
            return lambda value: None if value is None else decimal.Decimal(digits % value)
        return lambda value: None if value is None else float(value)


COLUMN_SPECS: dict[type[types.TypeEngine[Any]], type[types.TypeEngine[Any]]] = {
    types.Enum: types.Enum,
    types.String: _Text,
    types.LargeBinary: _Binary,
    types.DateTime: _DateTime,
    types.Date: _Date,
    types.Numeric: _Numeric,
    types.Float: _Float,
}
"""For each type of SQLAlchemy the one that stands for it here."""
