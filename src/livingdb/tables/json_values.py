"""Values of columns in records: those that JSON has no word for are told from others by name."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from typing import Any

__all__ = ["decode_value", "encode_value"]


def encode_value(value: object) -> object:
    """A Python value of any chunk type as JSON."""
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, decimal.Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, datetime.datetime):
        return {"$timestamp": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"$date": value.isoformat()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, tuple):
        return {"$pair": [encode_value(item) for item in value]}
    if isinstance(value, list):
        return [encode_value(item) for item in value]
    if isinstance(value, dict):
        return {"$struct": [[name, encode_value(item)] for name, item in value.items()]}
    return value


def decode_value(value: Any) -> object:
    """The inverse of `encode_value`."""
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "$bytes":
        return base64.b64decode(inner)
    if kind == "$decimal":
        return decimal.Decimal(inner)
    if kind == "$timestamp":
        return datetime.datetime.fromisoformat(inner)
    if kind == "$date":
        return datetime.date.fromisoformat(inner)
    if kind == "$float":
        return float(inner)
    if kind == "$pair":
        return tuple(decode_value(item) for item in inner)
    return {name: decode_value(item) for name, item in inner}
