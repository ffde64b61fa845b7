"""Schema changes as a user names them, and the form in which they are kept."""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Self

import pyarrow as pa

from livingdb.errors import Corruption, InvalidData, MaskKeyMissing, NotFound
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.mask_keys import MaskKey
from livingdb.graph.names import is_hidden
from livingdb.tables.identity import new_id, recorded_change_id
from livingdb.tables.json_values import decode_value, encode_value
from livingdb.tables.recipe import Definition
from livingdb.tables.type_names import parse_type, type_name

__all__ = [
    "NothingToChange",
    "SchemaChange",
    "Schemas",
    "definition_of",
    "identify_changes",
    "unlock_changes",
]

Schemas = Mapping[str, Definition]
"""The tables of a branch by name."""


class NothingToChange(InvalidData):
    """A table is as a change of its name, names, order or defaults would leave it."""


class SchemaChange(ABC):
    """A schema change: plain values, kept as JSON on the edge and in recipes.

    Subclasses are frozen dataclasses; `plan` checks a change against the tables there are.  What
    a user gives is what is to be changed; that it was, on a branch, is a change with an `id`,
    which it keeps wherever it is made again.  Changes of different ids may be equal.  Where names
    in its expressions are others than its user wrote, `written` has these as they were, bound to
    columns by ids, by field (`sql.stored_expressions`).
    """

    id: str | None = None
    written: Mapping[str, str] = MappingProxyType({})

    kinds: ClassVar[dict[str, type[SchemaChange]]] = {}

    conceals: ClassVar[bool] = False
    """Whether it hides what it is made of: what it makes is stored as rows, never as a recipe."""

    later_fields: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Fields that earlier records do not have: left out where they have these values."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        SchemaChange.kinds[cls.__name__] = cls

    @abstractmethod
    def plan(self, tables: Schemas) -> Lens:
        """The lens of this change on these tables; `InvalidData` or `NotFound` says why not."""

    def check_definition(self, tables: Schemas) -> None:
        """What is asked of a change that is new, and not of one that was recorded."""
        return

    def sealed(self, trust: Sequence[str] = ()) -> Self:
        """This change as it is made now; of a key that it goes by, records have a fingerprint."""
        return self

    def unlock(self, trust: Sequence[str] = ()) -> None:
        """`MaskKeyMissing` if this process does not have the key that it goes by."""
        return

    def with_id(self, identity: str | None) -> Self:
        """This change, as the one that has that id."""
        made = copy.copy(self)
        object.__setattr__(made, "id", identity)
        return made

    def with_written(self, written: Mapping[str, str]) -> Self:
        """This change, its expressions with other names than those that were written."""
        made = copy.copy(self)
        object.__setattr__(made, "written", dict(written))
        return made

    @property
    def identity(self) -> str:
        """The id; of a change that has none, one that equal changes have in common."""
        return self.id or recorded_change_id(json.dumps(self.to_json(), sort_keys=True))

    @property
    def title(self) -> str:
        """The change and what it names first: `AddColumn orders vat`."""
        assert is_dataclass(self)
        values = [getattr(self, item.name) for item in fields(self)]
        given = [value for value in values if isinstance(value, str)]
        return " ".join([type(self).__name__, *given[:2]])

    @property
    def about(self) -> str:
        """The table that the change names first."""
        named = getattr(self, "table", None) or getattr(self, "left", None)
        return str(named or next(iter(getattr(self, "tables", ())), ""))

    @property
    def text(self) -> str:
        """The change and all that it was given: `RenameColumn orders city town`."""
        assert is_dataclass(self)
        given = [(item.name, getattr(self, item.name), item.default) for item in fields(self)]
        words = [_words(value) for _, value, default in given if value != default]
        return " ".join([type(self).__name__, *words])

    @property
    def reverts(self) -> str | None:
        """The id of the change that this one takes back; None if it takes back none."""
        return None

    def to_json(self) -> dict[str, Any]:
        """The change as plain values."""
        assert is_dataclass(self)
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        later = self.later_fields
        values = {n: _encode(v) for n, v in given.items() if n not in later or v != later[n]}
        identity = {} if self.id is None else {"id": self.id}
        written = {"written": dict(self.written)} if self.written else {}
        return {"change": type(self).__name__, **identity, **written, **values}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """The change that a record has the values of."""
        return cls(**values)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SchemaChange:
        """The inverse of `to_json`; `Corruption` for what is none."""
        kind = _change_class(str(data.get("change")))
        apart = ("change", "id", "written")
        given = {name: value for name, value in data.items() if name not in apart}
        try:
            made = kind.from_values({name: _decode(value) for name, value in given.items()})
            made = made.with_id(data["id"]) if "id" in data else made
            return made.with_written(data["written"]) if "written" in data else made
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
            raise Corruption(
                f"a schema change {kind.__name__} is not written as it should be"
            ) from None


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, pa.DataType):
        return type_name(value)
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{key}: {_words(item)}" for key, item in value.items()) + ")"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_words(item) for item in value) + ")"
    return str(value)


def identify_changes(
    changes: Sequence[SchemaChange], trust: Sequence[str] = ()
) -> tuple[SchemaChange, ...]:
    """The changes as they are made now, each with an id of its own.

    `trust` are the functions that may be asked for the keys of masks.
    """
    for change in changes:
        if not isinstance(change, SchemaChange):
            raise InvalidData(f"{change!r} is no schema change; see livingdb.evolution")
    return tuple(change.sealed(trust).with_id(new_id()) for change in changes)


def unlock_changes(changes: Iterable[SchemaChange], trust: Sequence[str]) -> None:
    """Let this process have the keys of masks, as far as it finds them; who needs one says so."""
    for change in changes:
        with suppress(MaskKeyMissing):
            change.unlock(trust)


def _change_class(name: str) -> type[SchemaChange]:
    """The class of a change; those of this package are imported when they are needed."""
    import livingdb.evolution as known

    if name not in SchemaChange.kinds and name in known.__all__:
        getattr(known, name)
    if name == "NoChange":  # which is what is left of a change that its source has made, too
        from livingdb.evolution.changes.no_change import NoChange

        return NoChange
    if name == "MatchTable":  # which joins what two sides of a sync made equal
        from livingdb.evolution.changes.match_table import MatchTable

        return MatchTable
    if name == "RevertChange":  # which nobody makes but a revert
        from livingdb.evolution.changes.revert_change import RevertChange

        return RevertChange
    if name == "SeveralChanges":  # which a sync of a list of changes goes by
        from livingdb.evolution.changes.several_changes import SeveralChanges

        return SeveralChanges
    if name not in SchemaChange.kinds:
        raise Corruption(f"there is no schema change {name!r}")
    return SchemaChange.kinds[name]


def _encode(value: Any) -> Any:
    if isinstance(value, pa.DataType):
        return {"$type": type_name(value)}
    if isinstance(value, MaskKey):
        return value.to_json()
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
        if kind == "$key":
            return MaskKey.of_json(inner)
        if kind == "$map":
            return {key: _decode(item) for key, item in inner}
        if kind == "$list":
            return tuple(_decode(item) for item in inner)
    return decode_value(value)


def definition_of(tables: Schemas, name: str) -> Definition:
    """A table that a change names; `NotFound` names those there are."""
    found = tables.get(name)
    if found is None:
        known = ", ".join(sorted(name for name in tables if not is_hidden(name))) or "none"
        raise NotFound(f"there is no table {name!r} to change; there are: {known}")
    return found


def check_free(tables: Schemas, name: str) -> None:
    """`InvalidData` if a table has the name already."""
    if name in tables:
        raise InvalidData(f"there is a table {name!r} already")
