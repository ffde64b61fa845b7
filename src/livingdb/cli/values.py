"""Values as commands tell them: in JSON, in a cell of CSV, and for people."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

__all__ = ["csv_cell", "fact_text", "json_text", "json_value", "value_text"]

_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}
_CONTROLS |= {9: " ", 10: "⏎", 13: "", 0x2028: "⏎", 0x2029: "⏎"}
_NEEDS_QUOTES = frozenset(',"\r\n')


def json_value(value: Any) -> Any:
    """The value in the types of JSON.

    Times are ISO 8601; decimals are text, so that no digit is lost; bytes are hexadecimal; what
    no number of JSON can be is "NaN", "Infinity" or "-Infinity".
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, Mapping):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(item) for item in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_text(value: Any) -> str:
    """The value as one line of JSON."""
    return json.dumps(json_value(value), ensure_ascii=False)


def csv_cell(value: Any) -> str:
    """A cell of CSV: nothing for null, quotes where they are needed and around an empty text."""
    if value is None:
        return ""
    if isinstance(value, (Mapping, list, tuple, bool)):
        text = json_text(value)
    else:
        text = str(json_value(value))
    if text == "" or not _NEEDS_QUOTES.isdisjoint(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def value_text(value: Any) -> str:
    """A value of a table for people, on one line and without anything that moves a cursor."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        text = value.isoformat(" ")
    elif isinstance(value, (Mapping, list, tuple, bool)):
        text = json_text(value)
    else:
        text = str(json_value(value))
    return text.translate(_CONTROLS)


def fact_text(value: Any) -> str:
    """A fact about the database for people: numbers grouped, times to the second in UTC."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, (list, tuple)):
        return ", ".join(fact_text(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{fact_text(str(n))} {fact_text(item)}" for n, item in value.items())
    return str(value).translate(_CONTROLS)
