"""Values as a column's type, as Spark's ANSI store assignment has it.

Numbers become numbers of every other kind: a fraction is cut off where the column is whole,
digits are rounded where it has fewer, and a value that does not fit is an error.  Everything
becomes text.  Text becomes only text, binary, dates and times.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.tables.schema import Column
from livingdb.tables.type_names import type_name

__all__ = ["assignment_query"]

_NUMBERS = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("FLOAT", "DOUBLE", "DECIMAL"),
)
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_TEXT = ("VARCHAR", "CHAR")
_UNKNOWN = ('"NULL"', "NULL", "SQLNULL", "UNKNOWN")
_ENGINE_TYPES = {"binary": "BLOB", "string": "VARCHAR"}


def assignment_query(text: str, kinds: Sequence[str], columns: Sequence[Column]) -> str:
    """A query's text with its columns, in order, as values of those of the table."""
    inner = [f"c{at}" for at in range(len(columns))]
    casts = [
        f"{_cast(name, kind, column)} AS {name}"
        for name, kind, column in zip(inner, kinds, columns, strict=True)
    ]
    return f"SELECT {', '.join(casts)} FROM ({text}) AS given({', '.join(inner)})"


def _cast(name: str, kind: str, column: Column) -> str:
    target = column.type
    base = kind.split("(", 1)[0]
    tests = pa.types
    if kind in _UNKNOWN:
        return f"CAST({name} AS {_engine_type(target)})"
    if tests.is_nested(target):
        return name
    if tests.is_string(target):
        if base == "TIMESTAMP WITH TIME ZONE":
            return f"CAST(CAST({name} AS TIMESTAMP) AS VARCHAR)"
        return f"CAST({name} AS VARCHAR)" if base in (*_NUMBERS, *_TIMES, "BOOLEAN") else name
    is_number = tests.is_integer(target) or tests.is_floating(target) or tests.is_decimal(target)
    is_time = tests.is_date(target) or tests.is_timestamp(target)
    allowed = (
        (is_number and base in _NUMBERS)
        or (is_time and base in (*_TIMES, *_TEXT))
        or (tests.is_boolean(target) and base == "BOOLEAN")
        or (tests.is_binary(target) and base in ("BLOB", *_TEXT))
    )
    if not allowed:
        raise InvalidData(
            f"column {column.name!r} is {type_name(target)} and takes no {_type_label(kind)} "
            "values; cast them if that is what is meant"
        )
    if tests.is_binary(target) and base in _TEXT:
        return f"encode({name})"
    if tests.is_integer(target):
        return f"spark_to_{type_name(target)}({name})"
    return f"CAST({name} AS {_engine_type(target)})"


def _engine_type(target: pa.DataType) -> str:
    tests = pa.types
    if tests.is_timestamp(target):
        return "TIMESTAMP" if target.tz is None else "TIMESTAMPTZ"
    if tests.is_map(target):
        return f"MAP({_engine_type(target.key_type)}, {_engine_type(target.item_type)})"
    if tests.is_list(target):
        return f"{_engine_type(target.value_type)}[]"
    if tests.is_struct(target):
        inner = [f"{_quote_name(field.name)} {_engine_type(field.type)}" for field in target]
        return f"STRUCT({', '.join(inner)})"
    return _ENGINE_TYPES.get(type_name(target), type_name(target))


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type_label(kind: str) -> str:
    return {"VARCHAR": "string", "BLOB": "binary", "INTEGER": "int"}.get(kind, kind.lower())
