"""Table schemas: columns with identity, key, defaults and foreign keys.

A column's `id` is given once and survives renames (see `identity`); it is in the schema record,
never in the chunks that hold rows.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from livingdb.chunks.types import normalise_type
from livingdb.errors import InvalidData, InvalidName, NotFound, Unsupported
from livingdb.tables.fit import fit
from livingdb.tables.identity import column_number, numbered_column_id
from livingdb.tables.type_names import parse_limited_type, parse_type, type_name
from livingdb.trees.keys import KeyCodec

__all__ = [
    "Column",
    "GeneratedLike",
    "SchemaLike",
    "TableSchema",
    "UniqueLike",
    "with_generated",
]

SchemaLike: TypeAlias = "pa.Schema | Mapping[str, Any]"
UniqueLike: TypeAlias = "Mapping[str, str | Sequence[str]] | Sequence[str | Sequence[str]]"
"""Columns, or groups of columns, that are unique; by the names of the constraints, if they have."""
GeneratedLike: TypeAlias = "str | Mapping[str, str]"
"""An identity column, or several with what they are: "by default" or "always"."""
GENERATED = ("by default", "always")

_NOT_NULL = re.compile(r"\s+not\s+null\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Column:
    """One column.  `default` fills it where a new row does not name it.

    `computed` is the expression over the row's other columns that gives its values; writers may
    not name it, nor any other that is `read_only`.  One that is `hidden` is stored as any other
    and shown only to those who name it.  `limit` is the most characters that text may have:
    varchar(limit).  One that is `generated` draws numbers from a counter: "by default" where a new
    row names none, or "always", and writers may name none.
    """

    id: str
    name: str
    type: pa.DataType
    nullable: bool = True
    default: object = None
    computed: str | None = None
    read_only: bool = False
    hidden: bool = False
    limit: int | None = None
    generated: str | None = None

    @property
    def type_name(self) -> str:
        """The type as Spark SQL writes it."""
        return type_name(self.type) if self.limit is None else f"varchar({self.limit})"

    @property
    def is_fixed(self) -> bool:
        """Whether writers may not name it."""
        return self.read_only or self.computed is not None

    @property
    def field(self) -> pa.Field:
        """The column as Arrow sees it."""
        return pa.field(self.name, self.type, self.nullable)


@dataclass(frozen=True)
class TableSchema:
    """What a table holds.

    Columns keep the order they were given in; `stored_columns` has them as trees store them, the
    key columns first.  `foreign_keys` maps a column to the table whose key it names.  `checks`
    are conditions in SQL, by name, that no row may make false.  `next_id` is the number of the
    next column, if columns are numbered and have no other identity.  `written` holds checks and
    computed columns as their users wrote them, where columns have other names since: texts and
    bindings, by `check:` and a name or `computed:` and a column's id (`sql.stored_expressions`).
    `uniques` are columns, by name of the constraint, whose values no two rows may have in common;
    a row with a null among them has none in common with any.  `link_names` are the names of foreign
    keys, by column, where they have been given one.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    foreign_keys: tuple[tuple[str, str], ...] = ()
    next_id: int | None = None
    checks: tuple[tuple[str, str], ...] = ()
    written: tuple[tuple[str, str], ...] = ()
    uniques: tuple[tuple[str, tuple[str, ...]], ...] = ()
    link_names: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.link_names:  # the name of a foreign key goes with it
            links = dict(self.foreign_keys)
            names = tuple(sorted(item for item in self.link_names if item[0] in links))
            object.__setattr__(self, "link_names", names)

    @property
    def constraint_names(self) -> frozenset[str]:
        """The names that constraints have."""
        links = (name for _, name in self.link_names)
        return frozenset((*dict(self.checks), *dict(self.uniques), *links))

    @classmethod
    def of(
        cls,
        schema: SchemaLike,
        key: str | Sequence[str],
        defaults: Mapping[str, object] | None = None,
        foreign_keys: Mapping[str, str] | None = None,
        nullable_key: bool = False,
        unique: UniqueLike | None = None,
        generated: GeneratedLike | None = None,
    ) -> TableSchema:
        """A schema from what a user gives; `InvalidData` or `Unsupported` says what is wrong.

        Its columns are numbered.  `nullable_key`: key columns may be null where they are given
        so; users' may not.
        """
        is_one = isinstance(key, str) or not isinstance(key, Iterable)
        keys: tuple[str, ...] = (key,) if is_one else tuple(key)  # type: ignore[assignment]
        names = _names(schema)
        _check_names(names, keys, defaults or {}, foreign_keys or {})
        fields, limits = _fields(schema)
        columns = []
        for number, field in enumerate(fields):
            try:
                data_type = normalise_type(field.type)
            except Unsupported as error:
                raise Unsupported(f"column {field.name!r}: {error}") from None
            nullable = field.nullable and (nullable_key or field.name not in keys)
            column = Column(numbered_column_id(number), field.name, data_type, nullable)
            column = replace(column, limit=limits.get(field.name))
            default = _checked_default(column, (defaults or {}).get(field.name))
            columns.append(replace(column, default=default))
        for name in keys:
            data_type = columns[names.index(name)].type
            if pa.types.is_nested(data_type):
                raise Unsupported(f"column {name!r}: a key cannot be of type {data_type}")
        links = tuple(sorted((foreign_keys or {}).items()))
        made = cls(tuple(columns), keys, links, len(columns))
        for constraint, group in _unique_groups(unique):
            made = made.with_unique(group, constraint)
        for name, kind in _generated(generated).items():
            made = made.with_column(with_generated(made.column(name), kind))
        return made

    @classmethod
    def of_query(
        cls, schema: pa.Schema, key: Sequence[str], hidden: Sequence[str] = ()
    ) -> TableSchema:
        """The schema of rows that a query gives: hidden columns first, then the others.

        Columns may be null where the fields may, those of the key too.
        """
        for name in hidden:
            if name not in schema.names:
                raise InvalidData(f"the hidden column {name!r} is not in the schema")
        fields = sorted(schema, key=lambda field: field.name not in hidden)
        made = cls.of(pa.schema(fields), tuple(key), nullable_key=True)
        columns = [replace(column, hidden=column.name in hidden) for column in made.columns]
        return replace(made, columns=tuple(columns))

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns that are shown, as Arrow sees them."""
        return pa.schema([column.field for column in self.visible_columns])

    @cached_property
    def whole(self) -> pa.Schema:
        """All columns, hidden ones too, as Arrow sees them."""
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def visible_columns(self) -> tuple[Column, ...]:
        """The columns that are not hidden."""
        return tuple(column for column in self.columns if not column.hidden)

    @cached_property
    def identities(self) -> tuple[tuple[str, str, pa.DataType], ...]:
        """What the columns that are shown are, and are called."""
        return tuple((column.id, column.name, column.type) for column in self.visible_columns)

    @cached_property
    def visible_key(self) -> tuple[str, ...]:
        """The names of the key columns that are not hidden."""
        return tuple(column.name for column in self.key_columns if not column.hidden)

    def check_keyed(self, table: str) -> None:
        """`Unsupported` for rows that no column tells apart: no write could name one of them."""
        if any(column.hidden for column in self.key_columns):
            raise Unsupported(
                f"the rows of {table!r} have no key, as its query gave it none, so they cannot be "
                f"written: evolve(ChangeKey({table!r}, …)) makes columns that tell them apart the "
                "key, or derive the view with key="
            )

    @cached_property
    def stored_columns(self) -> tuple[Column, ...]:
        """Columns as they are stored: the key in key order, then the others."""
        by_name = {column.name: column for column in self.columns}
        rest = [column for column in self.columns if column.name not in self.key]
        return (*(by_name[name] for name in self.key), *rest)

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the key."""
        return self.stored_columns[: len(self.key)]

    @cached_property
    def nullable_keys(self) -> tuple[int, ...]:
        """The positions in the key of the columns that may be null."""
        return tuple(at for at, column in enumerate(self.key_columns) if column.nullable)

    @cached_property
    def key_codec(self) -> KeyCodec:
        """Encodes the keys of the rows."""
        return KeyCodec([column.type for column in self.key_columns], self.nullable_keys)

    @cached_property
    def has_conditions(self) -> bool:
        """Whether rows have to satisfy a check or keep to a limit."""
        return bool(self.checks) or any(column.limit is not None for column in self.columns)

    def require_key(self) -> None:
        """`Unsupported` if rows cannot be named by their key, because part of it is hidden."""
        if len(self.visible_key) < len(self.key):
            raise Unsupported("these rows have no key to name one by: select them by a condition")

    def column(self, name: str) -> Column:
        """The column of that name; `NotFound` names those there are."""
        for column in self.columns:
            if column.name == name:
                return column
        known = ", ".join(column.name for column in self.visible_columns)
        raise NotFound(f"there is no column {name!r}; the columns are {known}")

    def position(self, name: str) -> int:
        """Where a column is stored."""
        known = self._places.get(name)
        return self.stored_columns.index(self.column(name)) if known is None else known

    @cached_property
    def column_places(self) -> dict[tuple[str, pa.DataType], int]:
        """Where columns are stored, by what makes one the same column elsewhere."""
        return {(column.id, column.type): at for at, column in enumerate(self.stored_columns)}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {column.name: at for at, column in enumerate(self.stored_columns)}

    @cached_property
    def delta_numbers(self) -> tuple[int, ...]:
        """The numbers by which deltas know the columns as they are stored.

        Those that the table gave them, or else their positions: no delta outlives a definition.
        """
        if self.next_id is None:
            return tuple(range(len(self.columns)))
        return tuple(column_number(column.id) for column in self.stored_columns)

    def with_column(self, column: Column) -> TableSchema:
        """The schema with one column replaced, by id; the key and the links follow its name."""
        names = {old.name: old.name for old in self.columns}
        names |= {old.name: column.name for old in self.columns if old.id == column.id}
        if len(set(names.values())) < len(names):
            raise InvalidData(f"the column {column.name!r} is in the schema twice")
        return replace(
            self,
            columns=tuple(column if old.id == column.id else old for old in self.columns),
            key=tuple(names[name] for name in self.key),
            foreign_keys=tuple(sorted((names[name], table) for name, table in self.foreign_keys)),
            uniques=tuple(
                (unique, tuple(names[n] for n in group)) for unique, group in self.uniques
            ),
            link_names=tuple((names[name], link) for name, link in self.link_names),
        )

    def with_unique(self, columns: Sequence[str], name: str | None = None) -> TableSchema:
        """The schema with one more unique constraint; `InvalidData` or `NotFound` says why not."""
        columns = tuple(columns)
        shown = ", ".join(map(str, columns))
        if not columns or len(set(columns)) < len(columns):
            raise InvalidData(f"unique ({shown}): give at least one column, and each once")
        for column in map(self.column, columns):
            if pa.types.is_nested(column.type):
                raise Unsupported(
                    f"column {column.name!r}: values of type {column.type} cannot be unique"
                )
        if set(columns) == set(self.key):
            raise InvalidData(f"({shown}) is the key, which is unique already")
        for known, group in self.uniques:
            if set(group) == set(columns):
                raise InvalidData(f"({shown}) is unique already, by {known!r}")
        taken = self.constraint_names
        if name is None:
            free = (f"unique_{n}" for n in range(1, len(taken) + 2))
            name = next(one for one in free if one not in taken)
        elif not isinstance(name, str) or not _is_name(name):
            raise InvalidName(f"{name!r} is not a name of a constraint")
        if name in taken:
            raise InvalidData(f"there is a constraint {name!r} already")
        return replace(self, uniques=(*self.uniques, (name, columns)))

    # --- records -----------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The schema as plain values."""
        columns = [
            {
                "id": column.id if self.next_id is None else column_number(column.id),
                "name": column.name,
                "type": type_name(column.type),
                "nullable": column.nullable,
                "default": encode_value(column.default),
                **({} if column.computed is None else {"computed": column.computed}),
                **({"read_only": True} if column.read_only else {}),
                **({"hidden": True} if column.hidden else {}),
                **({} if column.limit is None else {"limit": column.limit}),
                **({} if column.generated is None else {"generated": column.generated}),
            }
            for column in self.columns
        ]
        checks = {"checks": [list(check) for check in self.checks]} if self.checks else {}
        written = {"written": dict(self.written)} if self.written else {}
        groups = [[name, list(group)] for name, group in self.uniques]
        uniques = {"uniques": groups} if groups else {}
        return {
            "columns": columns,
            "key": list(self.key),
            "foreign_keys": [list(link) for link in self.foreign_keys],
            **({} if self.next_id is None else {"next_id": self.next_id}),
            **checks,
            **written,
            **uniques,
            **({"link_names": dict(self.link_names)} if self.link_names else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableSchema:
        """The inverse of `to_json`."""
        next_id = data.get("next_id")
        columns = tuple(
            Column(
                item["id"] if next_id is None else numbered_column_id(item["id"]),
                item["name"],
                parse_type(item["type"]),
                item["nullable"],
                decode_value(item["default"]),
                item.get("computed"),
                item.get("read_only", False),
                item.get("hidden", False),
                item.get("limit"),
                item.get("generated"),
            )
            for item in data["columns"]
        )
        links = tuple((name, table) for name, table in data["foreign_keys"])
        checks = tuple((name, text) for name, text in data.get("checks", ()))
        written = tuple(data.get("written", {}).items())
        uniques = tuple((name, tuple(group)) for name, group in data.get("uniques", ()))
        names = tuple(data.get("link_names", {}).items())
        return cls(columns, tuple(data["key"]), links, next_id, checks, written, uniques, names)


def _names(schema: SchemaLike) -> list[str]:
    if isinstance(schema, pa.Schema):
        return list(schema.names)
    if not isinstance(schema, Mapping):
        raise InvalidData(f"a schema is a pyarrow schema or a dict, not {type(schema).__name__}")
    return list(schema)


def _fields(schema: SchemaLike) -> tuple[list[pa.Field], dict[str, int]]:
    """The columns as Arrow sees them, and the limits of those that are given one."""
    if isinstance(schema, pa.Schema):
        return list(schema), {}
    fields: list[pa.Field] = []
    limits: dict[str, int] = {}
    for name, given in schema.items():
        if isinstance(given, pa.DataType):
            fields.append(pa.field(name, given))
            continue
        if not isinstance(given, str):
            raise InvalidData(f"column {name!r}: a type is a name like 'bigint', not {given!r}")
        text = _NOT_NULL.sub("", given)
        try:
            data_type, limit = parse_limited_type(text)
        except Unsupported as error:
            raise Unsupported(f"column {name!r}: {error}") from None
        fields.append(pa.field(name, data_type, text == given))
        if limit is not None:
            limits[name] = limit
    return fields, limits


def _check_names(
    names: Sequence[str],
    key: Sequence[str],
    defaults: Mapping[str, object],
    foreign_keys: Mapping[str, str],
) -> None:
    for name in names:
        if not isinstance(name, str) or not _is_name(name):
            raise InvalidName(f"{name!r} is not a column name")
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidData(f"the column {sorted(twice)[0]!r} is in the schema twice")
    if not key:
        raise InvalidData("a table needs a key of at least one column")
    if len(set(key)) != len(key):
        raise InvalidData(f"a column is in the key twice: {', '.join(key)}")
    for what, wanted in (("key", key), ("defaults", defaults), ("foreign keys", foreign_keys)):
        for name in wanted:
            if name not in names:
                raise InvalidData(
                    f"the {what} name the column {name!r}, which the schema does not have"
                )


def with_generated(column: Column, kind: object) -> Column:
    """A column that draws its values; `InvalidData` says why it cannot."""
    if kind not in GENERATED:
        shown = " or ".join(map(repr, GENERATED))
        raise InvalidData(f"column {column.name!r}: it is generated {shown}, not {kind!r}")
    if not pa.types.is_integer(column.type):
        raise InvalidData(
            f"column {column.name!r} is {column.type}: an identity column holds whole numbers"
        )
    if column.default is not None or column.is_fixed:
        what = "has a default" if column.default is not None else "is not for writers"
        raise InvalidData(f"column {column.name!r} {what}, so it cannot be an identity column")
    return replace(column, generated=str(kind), nullable=False)


def _generated(given: GeneratedLike | None) -> dict[str, str]:
    """The identity columns, and of which kind they are."""
    if given is None:
        return {}
    if isinstance(given, str):
        return {given: GENERATED[0]}
    if not isinstance(given, Mapping):
        raise InvalidData(f"generated {given!r}: give a column, or {{column: 'always'}}")
    return dict(given)


def _unique_groups(given: UniqueLike | None) -> list[tuple[str | None, tuple[str, ...]]]:
    """The names, if they have any, and the columns of unique constraints."""
    if given is None:
        return []
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidData(f"unique {given!r}: give a list of columns, or of groups of columns")
    named = given.items() if isinstance(given, Mapping) else ((None, group) for group in given)
    return [(name, (group,) if isinstance(group, str) else tuple(group)) for name, group in named]


def _is_name(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(name) <= 255 and "\0" not in name


def _checked_default(column: Column, value: object) -> object:
    if value is None:
        return None
    shown = column.type if column.limit is None else column.type_name
    error = f"column {column.name!r}: the default {value!r:.80} does not fit {shown}"
    try:
        made = fit([value], column)[0].as_py()
    except InvalidData:
        raise InvalidData(error) from None
    if column.limit is not None and len(made) > column.limit:
        raise InvalidData(error)
    return made


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
