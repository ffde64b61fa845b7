"""Schema changes as a user names them, and the form in which they are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import pyarrow as pa

from livingdb.errors import Corruption, InvalidData, NotFound
from livingdb.evolution.lenses.lens import Lens
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import decode_value, encode_value
from livingdb.tables.type_names import parse_type, type_name

__all__ = ["SchemaChange", "Schemas", "definition_of"]

Schemas = Mapping[str, Definition]
"""The tables of a branch by name."""


class SchemaChange(ABC):
    """A schema change: plain values, kept as JSON on the edge and in recipes.

    Subclasses are frozen dataclasses; `plan` checks a change against the tables there are.
    """

    kinds: ClassVar[dict[str, type[SchemaChange]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        SchemaChange.kinds[cls.__name__] = cls

    @abstractmethod
    def plan(self, tables: Schemas) -> Lens:
        """The lens of this change on these tables; `InvalidData` or `NotFound` says why not."""

    def to_json(self) -> dict[str, Any]:
        """The change as plain values."""
        assert is_dataclass(self)
        values = {item.name: _encode(getattr(self, item.name)) for item in fields(self)}
        return {"change": type(self).__name__, **values}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SchemaChange:
        """The inverse of `to_json`."""
        kind = _change_class(str(data.get("change")))
        values = {name: _decode(value) for name, value in data.items() if name != "change"}
        return kind(**values)


def _change_class(name: str) -> type[SchemaChange]:
    """The class of a change; those of this package are imported when they are needed."""
    import livingdb.evolution as known

    if name not in SchemaChange.kinds and name in known.__all__:
        getattr(known, name)
    if name not in SchemaChange.kinds:
        raise Corruption(f"there is no schema change {name!r}")
    return SchemaChange.kinds[name]


def _encode(value: Any) -> Any:
    if isinstance(value, pa.DataType):
        return {"$type": type_name(value)}
    if isinstance(value, Mapping):
        return {"$map": [[key, _encode(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"$list": [_encode(item) for item in value]}
    return encode_value(value)


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((kind, inner),) = value.items()
        if kind == "$type":
            return parse_type(inner)
        if kind == "$map":
            return {key: _decode(item) for key, item in inner}
        if kind == "$list":
            return tuple(_decode(item) for item in inner)
    return decode_value(value)


def definition_of(tables: Schemas, name: str) -> Definition:
    """A table that a change names; `NotFound` names those there are."""
    found = tables.get(name)
    if found is None:
        known = ", ".join(sorted(tables)) or "none"
        raise NotFound(f"there is no table {name!r} to change; there are: {known}")
    return found


def check_free(tables: Schemas, name: str) -> None:
    """`InvalidData` if a table has the name already."""
    if name in tables:
        raise InvalidData(f"there is a table {name!r} already")
