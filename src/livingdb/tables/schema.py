"""Table schemas: columns with identity, key, defaults and foreign keys.

A column's `id` is given once and survives renames (see `identity`); it is in the schema record,
never in the chunks that hold rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from livingdb.chunks.types import normalise_type
from livingdb.errors import InvalidData, InvalidName, NotFound, Unsupported
from livingdb.tables.column import Column
from livingdb.tables.given_schema import (
    GeneratedLike,
    SchemaLike,
    UniqueLike,
    check_names,
    checked_default,
    column_names,
    given_fields,
    given_numbers,
    is_name,
    unique_groups,
)
from livingdb.tables.identity import column_number, numbered_column_id
from livingdb.tables.identity_column import with_generated
from livingdb.tables.json_values import decode_value, encode_value
from livingdb.tables.type_names import parse_type, type_name
from livingdb.trees.keys import KeyCodec

__all__ = [
    "Column",
    "GeneratedLike",
    "SchemaLike",
    "TableSchema",
    "UniqueLike",
]

_SHOWN_NAMES = 100
_KEPT_TABLES = 16


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
        names = column_names(schema)
        check_names(names, keys, defaults or {}, foreign_keys or {})
        fields, limits = given_fields(schema)
        columns = []
        for number, field in enumerate(fields):
            try:
                data_type = normalise_type(field.type)
            except Unsupported as error:
                raise Unsupported(f"column {field.name!r}: {error}") from None
            nullable = field.nullable and (nullable_key or field.name not in keys)
            column = Column(numbered_column_id(number), field.name, data_type, nullable)
            column = replace(column, limit=limits.get(field.name))
            default = checked_default(column, (defaults or {}).get(field.name))
            columns.append(replace(column, default=default))
        for name in keys:
            data_type = columns[names.index(name)].type
            if pa.types.is_nested(data_type):
                raise Unsupported(f"column {name!r}: a key cannot be of type {data_type}")
        links = tuple(sorted((foreign_keys or {}).items()))
        made = cls(tuple(columns), keys, links, len(columns))
        for constraint, group in unique_groups(unique):
            made = made.with_unique(group, constraint)
        for name, kind in given_numbers(generated).items():
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
    def limited_columns(self) -> frozenset[str]:
        """The columns that take text up to a length only."""
        return frozenset(column.name for column in self.columns if column.limit is not None)

    @cached_property
    def draws_numbers(self) -> bool:
        """Whether a column draws its values."""
        return any(column.generated is not None for column in self.columns)

    @property
    def has_conditions(self) -> bool:
        """Whether rows have to satisfy a check or keep to a limit."""
        return bool(self.checks or self.limited_columns)

    def require_key(self) -> None:
        """`Unsupported` if rows cannot be named by their key, because part of it is hidden."""
        if len(self.visible_key) < len(self.key):
            raise Unsupported("these rows have no key to name one by: select them by a condition")

    def column(self, name: str) -> Column:
        """The column of that name; `NotFound` names those there are."""
        at = self._places.get(name)
        if at is None:
            known = [column.name for column in self.visible_columns]
            shown = ", ".join(known[:_SHOWN_NAMES]) + (", …" if len(known) > _SHOWN_NAMES else "")
            raise NotFound(f"there is no column {name!r}; the columns are {shown}")
        return self.stored_columns[at]

    def position(self, name: str) -> int:
        """Where a column is stored."""
        at = self._places.get(name)
        return self.stored_columns.index(self.column(name)) if at is None else at

    def places_of(self, other: TableSchema) -> Sequence[int | None]:
        """Where the columns that another table stores are stored here; None: not at all."""
        known = self._places_of.get(id(other))
        if known is None or known[0] is not other:
            mine = {(column.id, column.type): at for at, column in enumerate(self.stored_columns)}
            places = tuple(mine.get((c.id, c.type)) for c in other.stored_columns)
            if len(self._places_of) >= _KEPT_TABLES:
                self._places_of.clear()
            known = self._places_of[id(other)] = other, places
        return known[1]

    @cached_property
    def _places_of(self) -> dict[int, tuple[TableSchema, tuple[int | None, ...]]]:
        """What `places_of` has found; the tables are held, so that their places in memory stay."""
        return {}

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
        elif not isinstance(name, str) or not is_name(name):
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
