"""Type names as Spark SQL writes them, and the Arrow types they stand for.

    bigint   decimal(10,2)   timestamp   timestamp_ntz   array<string>
    struct<name:string,at:date>   map<string,double>

A timestamp in a zone other than UTC is written `timestamp[Europe/Oslo]`.  `varchar(10)` and
`char(10)` are text with a limit; what is shorter is not padded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from livingdb.chunks.types import normalise_type
from livingdb.errors import Unsupported

__all__ = ["parse_limited_type", "parse_type", "quote_if_needed", "type_name"]

_NAMES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_ALIASES = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "character": "string",
    "timestamp_ltz": "timestamp",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
}
_BY_TYPE = {data_type: name for name, data_type in _NAMES.items()}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|\[[^\]]*\]|\w+|[<>(),:])")


def type_name(data_type: pa.DataType) -> str:
    """The name of a chunk type."""
    name = _BY_TYPE.get(data_type)
    if name is not None:
        return name
    if pa.types.is_timestamp(data_type):
        return f"timestamp[{data_type.tz}]"
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_map(data_type):
        return f"map<{type_name(data_type.key_type)},{type_name(data_type.item_type)}>"
    if pa.types.is_list(data_type):
        return f"array<{type_name(data_type.value_type)}>"
    if pa.types.is_struct(data_type):
        inner = ",".join(f"{quote_if_needed(f.name)}:{type_name(f.type)}" for f in data_type)
        return f"struct<{inner}>"
    return type_name(normalise_type(data_type))


def quote_if_needed(name: str) -> str:
    """A name in backticks, if it is not a plain word."""
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def parse_type(text: str) -> pa.DataType:
    """The chunk type of a name; `Unsupported` says which part was not understood."""
    return parse_limited_type(text)[0]


@lru_cache(maxsize=1024)
def parse_limited_type(text: str) -> tuple[pa.DataType, int | None]:
    """The chunk type of a name, and the most characters that text of it may have, if there are."""
    parser = _Parser(text)
    try:
        data_type = parser.type()
    except RecursionError:
        raise Unsupported(f"type {text[:40]!r}…: it is nested too deeply") from None
    parser.end()
    if parser.limit is not None and not pa.types.is_string(data_type):
        raise Unsupported(f"type {text!r}: a limit is for the text of a column, not inside others")
    if parser.limit is not None and parser.limit < 1:
        raise Unsupported(f"type {text!r}: a limit is at least one character")
    return normalise_type(data_type), parser.limit


class _Parser:
    def __init__(self, text: str):
        self.text = text
        self.tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise Unsupported(f"type {text!r} is not understood at {text[at:]!r}")
            self.tokens.append(match.group(1))
            at = match.end()
        self.at = 0
        self.limit: int | None = None

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, wanted: str) -> None:
        token = self.next()
        if token != wanted:
            found = repr(token) if token else "the end"
            raise Unsupported(f"type {self.text!r}: expected {wanted!r}, found {found}")

    def end(self) -> None:
        if self.peek():
            raise Unsupported(f"type {self.text!r} is not understood at {self.peek()!r}")

    def number(self) -> int:
        token = self.next()
        if not token.isdecimal():
            raise Unsupported(f"type {self.text!r}: expected a number, found {token!r}")
        return int(token)

    def type(self) -> pa.DataType:
        word = self.next().lower()
        word = _ALIASES.get(word, word)
        if word in ("decimal", "numeric", "dec"):
            return self.decimal()
        if word == "array":
            return self.inside(lambda: pa.list_(self.type()))
        if word == "map":
            return self.inside(self.map_type)
        if word == "struct":
            return self.inside(self.struct_type)
        if word == "timestamp" and self.peek().startswith("["):
            return pa.timestamp("us", self.next()[1:-1])
        if word == "string" and self.peek() == "(":
            self.next()
            self.limit = self.number()
            self.expect(")")
        if word not in _NAMES:
            raise Unsupported(f"type {self.text!r}: there is no type {word!r}")
        return _NAMES[word]

    def decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        if self.peek() == "(":
            self.next()
            precision = self.number()
            if self.peek() == ",":
                self.next()
                scale = self.number()
            self.expect(")")
        if not 1 <= precision <= 38:
            raise Unsupported(f"type {self.text!r}: decimals have 1 to 38 digits")
        return pa.decimal128(precision, scale)

    def inside(self, make: Callable[[], pa.DataType]) -> pa.DataType:
        self.expect("<")
        made = make()
        self.expect(">")
        return made

    def map_type(self) -> pa.DataType:
        key = self.type()
        self.expect(",")
        return pa.map_(key, self.type())

    def struct_type(self) -> pa.DataType:
        fields = []
        while True:
            name = self.next()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            self.expect(":")
            fields.append(pa.field(name, self.type()))
            if self.peek() != ",":
                return pa.struct(fields)
            self.next()
