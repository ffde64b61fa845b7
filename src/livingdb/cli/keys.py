"""Keys on the command line: JSON, or parts with commas between, as the types of the key.

42          a number, a text, a date: the key of one column, commas and all
Oslo,42     one part for each of several columns; quoted as in CSV where it holds a comma
["Oslo",42] a list in JSON; also {"city": "Oslo", "id": 42}
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from livingdb.errors import InvalidData

if TYPE_CHECKING:
    import pyarrow as pa

    from livingdb import Table

__all__ = ["key_of", "parse_key"]


def key_of(table: Table, text: str) -> tuple[Any, ...]:
    """The key a text names in a table; `InvalidData` says which part does not fit."""
    if not table.key:
        raise InvalidData(f"table {table.name!r} has no key that can be named")
    return parse_key([table.schema.field(name) for name in table.key], text)


def parse_key(fields: Sequence[pa.Field], text: str) -> tuple[Any, ...]:
    """The values of the key columns."""
    parts = _parts([field.name for field in fields], text)
    if len(parts) != len(fields):
        names = ", ".join(field.name for field in fields)
        raise InvalidData(f"key {text!r}: expected a value for each of {names}")
    return tuple(_value(field, part) for field, part in zip(fields, parts, strict=True))


def _parts(names: Sequence[str], text: str) -> list[Any]:
    if text[:1] in ("[", "{", '"') and (found := _json(text)) is not None:
        if isinstance(found, dict):
            unknown = [*(name for name in names if name not in found), *({*found} - {*names})]
            if unknown:
                raise InvalidData(f"key {text!r}: expected a value for each of {', '.join(names)}")
            return [found[name] for name in names]
        return found if isinstance(found, list) else [found]
    if len(names) == 1:
        return [text]
    try:
        return next(iter(csv.reader([text], strict=True)), [])
    except csv.Error as error:
        raise InvalidData(f"key {text!r}: {error}") from None


def _json(text: str) -> Any:
    """What JSON says; None if it is none, and the text speaks for itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _value(field: pa.Field, part: Any) -> Any:
    """A part as the column's type."""
    if not isinstance(part, str):
        return part
    import pyarrow as pa
    import pyarrow.types as kinds

    kind = field.type
    try:
        if kinds.is_string(kind):
            return part
        if kinds.is_binary(kind):
            return bytes.fromhex(part)
        if kinds.is_timestamp(kind):
            moment = datetime.fromisoformat(part)
            return moment.replace(tzinfo=moment.tzinfo or UTC) if kind.tz else moment
        if kinds.is_date(kind):
            return date.fromisoformat(part)
        return pa.array([part.strip()], pa.string()).cast(kind)[0].as_py()
    except (ValueError, pa.ArrowException):
        from livingdb.tables.type_names import type_name

        said = f"key column {field.name!r}: {part!r} is no {type_name(kind)}"
        raise InvalidData(said) from None
