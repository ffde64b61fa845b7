"""Parameters of a statement on their way to a server: as JSON, with a type where it has no word."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.sql.parameters import Parameters, parameter_values
from livingdb.tables.type_names import type_name

__all__ = ["json_parameters"]


def json_parameters(given: Parameters) -> list[Any] | dict[str, Any] | None:
    """The values that were given, by name or in their order; `InvalidData` for what is none."""
    if given is None:
        return None
    values = {name: _json_value(name, one) for name, one in parameter_values(given).items()}
    return values if isinstance(given, Mapping) else list(values.values())


def _json_value(name: str, value: Any) -> Any:
    if _is_plain(value) or (isinstance(value, list) and all(map(_is_plain, value))):
        return value
    from livingdb.server.http.json_values import plain_value

    try:
        kind = pa.scalar(value).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InvalidData(
            f"parameter {name}: a value of type {type(value).__name__} cannot be bound"
        ) from None
    return {"type": type_name(kind), "value": plain_value(value)}


def _is_plain(value: Any) -> bool:
    """Whether JSON has the value as it is."""
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str))
