"""Reads the types of columns, word by word: nothing of one is passed over."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError

from livingdb.errors import Unsupported
from livingdb.sql.clause_reader import ClauseReader
from livingdb.tables.schema import TableSchema
from livingdb.tables.type_names import quote_if_needed

__all__ = ["take_type"]

_INSTEAD = "a type is one like BIGINT, DECIMAL(10, 2), STRING, ARRAY<INT> or STRUCT<a: INT>"
_LONG = {
    ("TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE"): "timestamp",
    ("TIMESTAMP", "WITHOUT", "TIME", "ZONE"): "timestamp_ntz",
    ("TIMESTAMP", "WITH", "TIME", "ZONE"): "timestamp",
    ("CHARACTER", "VARYING"): "varchar",
    ("CHAR", "VARYING"): "varchar",
    ("DOUBLE", "PRECISION"): "double",
}
"""Types of several words, the longer first."""
_NO_TYPES = (
    *("AFTER", "AS", "CHECK", "COMMENT", "CONSTRAINT", "DEFAULT", "FIRST", "GENERATED", "KEEP"),
    *("NOT", "NULL", "PRIMARY", "REFERENCES", "SYNC", "UNIQUE"),
)


def take_type(reader: ClauseReader, column: str) -> str:
    """The type of a column, as schemas name it; `InvalidData` or `Unsupported` if none comes."""
    found = _nested_type(reader, column)
    try:
        TableSchema.of({"value": found, "key": "bigint"}, "key")
    except Unsupported as error:
        problem = str(error).removeprefix("column 'value': ")
        raise reader.unsupported(f"column {column!r}: {problem}", _INSTEAD) from None
    return found


def _nested_type(reader: ClauseReader, column: str) -> str:
    found = _plain_type(reader, column)
    while reader.take("["):
        reader.expect("]", instead=_INSTEAD)
        found = f"array<{found}>"
    return found


def _plain_type(reader: ClauseReader, column: str) -> str:
    if reader.take("ARRAY", "<"):
        inner = f"array<{_nested_type(reader, column)}>"
        reader.expect(">", instead=_INSTEAD)
        return inner
    if reader.take("MAP", "<"):
        key = _nested_type(reader, column)
        reader.expect(",", instead=_INSTEAD)
        inner = f"map<{key},{_nested_type(reader, column)}>"
        reader.expect(">", instead=_INSTEAD)
        return inner
    if reader.take("STRUCT", "<"):
        return _struct(reader, column)
    for words, name in _LONG.items():
        if reader.take(*words):
            return _with_size(reader, name)
    if reader.is_next(*_NO_TYPES):
        raise reader.invalid(f"the column {column!r} has no type", _INSTEAD)
    word = reader.take_identifier()
    if word is None:
        raise reader.unknown(f"the column {column!r} has no type: {_INSTEAD}")
    return _with_size(reader, word)


def _struct(reader: ClauseReader, column: str) -> str:
    fields = []
    while True:
        name = reader.name("a field", _INSTEAD)
        reader.take(":")
        fields.append(f"{quote_if_needed(name)}:{_nested_type(reader, column)}")
        if not reader.take(","):
            break
    reader.expect(">", instead=_INSTEAD)
    return f"struct<{','.join(fields)}>"


def _with_size(reader: ClauseReader, word: str) -> str:
    size = reader.take_parenthesized()
    if size is not None and not re.fullmatch(r"\d+(\s*,\s*\d+)?", size):
        raise reader.invalid(f"{word}({size}) is no type", _INSTEAD)
    text = word if size is None else f"{word}({size})"
    try:
        name = str(exp.DataType.build(text, dialect="spark").sql("spark")).lower()
    except (SqlglotError, ValueError):
        return text.lower()
    if size is not None and "(" not in name:
        raise reader.unsupported(f"{text}: the type takes no ({size})", f"write {word}")
    return name
