"""What there is: catalogs, tables and keys, as Flight SQL asks for them.

A branch is a catalog.  In SQL a table is named `branch.table`, with nothing in between, so that
there is one schema in each catalog, whose name is empty.  A tag, an id or any other ref is a
catalog, too, for who names it; only branches are listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.errors import NotFound
from livingdb.server.flight.sql_info import sql_info, sql_info_schema
from livingdb.server.flight.xdbc_types import xdbc_types, xdbc_types_schema
from livingdb.tables.schema import TableSchema
from livingdb.tables.type_names import type_name

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.database.snapshot import Snapshot
    from livingdb.tables.schema import Column

__all__ = ["SCHEMA_NAME", "MetadataCommand", "metadata_command"]

SCHEMA_NAME = ""
"""The one schema of a catalog."""
TABLE, VIEW = "TABLE", "VIEW"
_NO_ACTION = 3
Row = tuple[Any, ...]


def _schema(text: str) -> pa.Schema:
    """Columns with commas between: `name`, or `name type`; those with `!` are never null."""
    fields = []
    for part in text.split(","):
        name, _, kind = part.strip().rstrip("!").partition(" ")
        data_type = pa.type_for_alias(kind or "string")
        fields.append(pa.field(name, data_type, nullable=not part.endswith("!")))
    return pa.schema(fields)


_CATALOGS = _schema("catalog_name!")
_DB_SCHEMAS = _schema("catalog_name, db_schema_name!")
_TABLES = _schema("catalog_name, db_schema_name, table_name!, table_type!")
_TABLES_DESCRIBED = _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
_TABLE_TYPES = _schema("table_type!")
_PRIMARY_KEYS = _schema(
    "catalog_name, db_schema_name, table_name!, column_name!, key_name, key_sequence int32!"
)
_FOREIGN_KEYS = _schema(
    "pk_catalog_name, pk_db_schema_name, pk_table_name!, pk_column_name!, "
    "fk_catalog_name, fk_db_schema_name, fk_table_name!, fk_column_name!, "
    "key_sequence int32!, fk_key_name, pk_key_name, update_rule uint8!, delete_rule uint8!"
)


@dataclass(frozen=True)
class MetadataCommand:
    """A question about what there is: the columns of its answer, and the answer."""

    schema: pa.Schema
    answer: Callable[[], pa.Table]


def metadata_command(
    database: Database, name: str, asked: Any, home: Callable[[], str | None]
) -> MetadataCommand | None:
    """The question that a command is; None if it is another one.

    `home` is the catalog in which who asks works.
    """
    if name == "CommandGetSqlInfo":
        return MetadataCommand(sql_info_schema(), lambda: sql_info(database, list(asked.info)))
    if name == "CommandGetXdbcTypeInfo":
        wanted = asked.data_type if asked.HasField("data_type") else None
        return MetadataCommand(xdbc_types_schema(), lambda: xdbc_types(wanted))
    found = _COMMANDS.get(name)
    if found is None:
        return None
    schema, make = found
    if name == "CommandGetTables" and asked.include_schema:
        schema = _TABLES_DESCRIBED

    def answer() -> pa.Table:
        if schema is _TABLES_DESCRIBED and _given(asked, "catalog") is None:
            rows = _nearest_first(database, asked, home())
        else:
            rows = list(make(database, asked))
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    return MetadataCommand(schema, answer)


# --- where to look ------------------------------------------------------------------------------


def _given(asked: Any, field: str) -> str | None:
    return getattr(asked, field) if asked.HasField(field) else None


def _catalogs(database: Database, wanted: str | None) -> Iterator[tuple[str, Snapshot]]:
    """The branches by name, or what one ref names; nothing, if that is not there."""
    if wanted is None:
        for branch in database.branches():
            yield branch.name, branch.head
        return
    try:
        yield wanted, database.at(wanted)
    except NotFound:
        return


def _matches(pattern: str | None, name: str) -> bool:
    """Whether a name is like a pattern, in which % is any text and _ any letter."""
    if pattern is None:
        return True
    parts = re.split(r"(\\.|%|_)", pattern)
    signs = {"%": ".*", "_": "."}
    text = "".join(
        signs.get(part) or re.escape(part[1:] if part[:1] == "\\" and len(part) > 1 else part)
        for part in parts
    )
    return re.fullmatch(text, name, re.DOTALL) is not None


def _is_here(asked: Any, field: str) -> bool:
    """Whether the one schema is asked for."""
    wanted = _given(asked, field)
    return wanted is None or wanted == SCHEMA_NAME


# --- catalogs and tables ------------------------------------------------------------------------


def _list_catalogs(database: Database, asked: Any) -> Iterator[Row]:
    for branch in database.branches():
        yield (branch.name,)


def _list_db_schemas(database: Database, asked: Any) -> Iterator[Row]:
    if _matches(_given(asked, "db_schema_filter_pattern"), SCHEMA_NAME):
        for name, _ in _catalogs(database, _given(asked, "catalog")):
            yield name, SCHEMA_NAME


def _list_tables(database: Database, asked: Any) -> Iterator[Row]:
    if not _matches(_given(asked, "db_schema_filter_pattern"), SCHEMA_NAME):
        return
    pattern, kinds = _given(asked, "table_name_filter_pattern"), set(asked.table_types)
    derived = {sync.target for sync in database.syncs() if sync.kind == "derive"}
    for catalog, snapshot in _catalogs(database, _given(asked, "catalog")):
        found = {name: VIEW if name == catalog in derived else TABLE for name in snapshot.tables()}
        views = snapshot.sql("SHOW VIEWS").to_arrow()["name"].to_pylist()
        found |= {name: VIEW for name in views if name not in found}
        for name, kind in sorted(found.items()):
            if _matches(pattern, name) and (not kinds or kind in kinds):
                row = catalog, SCHEMA_NAME, name, kind
                described = (
                    (_table_schema(snapshot, catalog, name),) if asked.include_schema else ()
                )
                yield *row, *described


def _nearest_first(database: Database, asked: Any, home: str | None) -> list[Row]:
    """Tables of all catalogs, first the one that is meant where no catalog is said.

    Clients that ask for the columns of one table take the first answer: it is of the table that is
    called so, and in the catalog that they work in, also where that is no branch.
    """
    rows = list(_list_tables(database, asked))
    if home is not None and not any(row[0] == home for row in rows):
        here = type(asked)()
        here.CopyFrom(asked)
        here.catalog = home
        rows = [*_list_tables(database, here), *rows]
    name = _given(asked, "table_name_filter_pattern")
    return sorted(rows, key=lambda row: (row[2] != name, row[0] != home))


def _list_table_types(database: Database, asked: Any) -> Iterator[Row]:
    yield (TABLE,)
    yield (VIEW,)


def _table_schema(snapshot: Snapshot, catalog: str, name: str) -> bytes:
    """The columns of a table, with what Flight SQL tells of each."""
    if name in snapshot.tables():
        columns = snapshot.table(name).definition.schema.visible_columns
        fields = [_field(column.field, catalog, name, column) for column in columns]
    else:
        quoted = name.replace("`", "``")
        plan = snapshot.plan(f"SELECT * FROM `{quoted}`")
        assert plan is not None
        fields = [_field(field, catalog, name) for field in plan.schema]
    serialized: bytes = pa.schema(fields).serialize().to_pybytes()
    return serialized


def _field(field: pa.Field, catalog: str, table: str, column: Column | None = None) -> pa.Field:
    is_drawn = column is not None and column.generated is not None
    is_fixed = column is None or column.is_fixed
    told = {
        "CATALOG_NAME": catalog,
        "DB_SCHEMA_NAME": SCHEMA_NAME,
        "TABLE_NAME": table,
        "TYPE_NAME": type_name(field.type),
        "IS_AUTO_INCREMENT": str(int(is_drawn)),
        "IS_CASE_SENSITIVE": "1",
        "IS_READ_ONLY": str(int(is_fixed)),
        "IS_SEARCHABLE": "1",
    }
    if pa.types.is_decimal(field.type):
        told |= {"PRECISION": str(field.type.precision), "SCALE": str(field.type.scale)}
    return field.with_metadata({f"ARROW:FLIGHT:SQL:{name}": text for name, text in told.items()})


# --- keys ---------------------------------------------------------------------------------------


def _list_primary_keys(database: Database, asked: Any) -> Iterator[Row]:
    if not _is_here(asked, "db_schema"):
        return
    for catalog, snapshot in _catalogs(database, _given(asked, "catalog")):
        if asked.table in snapshot.tables():
            key = _definition(snapshot, asked.table).visible_key
            for place, column in enumerate(key, 1):
                yield catalog, SCHEMA_NAME, asked.table, column, f"{asked.table}_key", place


def _definition(snapshot: Snapshot, table: str) -> TableSchema:
    return snapshot.table(table).definition.schema


def _links(
    database: Database, catalog: str | None, of: str | None, to: str | None
) -> Iterator[Row]:
    """The foreign keys of a table, of those to a table, or of both."""
    for name, snapshot in _catalogs(database, catalog):
        tables = snapshot.tables()
        for table in tables if of is None else [of] if of in tables else []:
            schema = _definition(snapshot, table)
            names = dict(schema.link_names)
            for column, target in schema.foreign_keys:
                if target in tables and to in (None, target):
                    link = names.get(column, f"{table}_{column}_fkey")
                    key = _definition(snapshot, target).visible_key
                    yield (
                        *(name, SCHEMA_NAME, target, key[0], name, SCHEMA_NAME, table, column),
                        *(1, link, f"{target}_key", _NO_ACTION, _NO_ACTION),
                    )


def _by(columns: Sequence[int]) -> Callable[[Row], Row]:
    return lambda row: tuple(row[at] for at in columns)


def _list_exported_keys(database: Database, asked: Any) -> Iterator[Row]:
    if _is_here(asked, "db_schema"):
        found = _links(database, _given(asked, "catalog"), None, asked.table)
        yield from sorted(found, key=_by([4, 5, 6, 9, 8]))


def _list_imported_keys(database: Database, asked: Any) -> Iterator[Row]:
    if _is_here(asked, "db_schema"):
        found = _links(database, _given(asked, "catalog"), asked.table, None)
        yield from sorted(found, key=_by([0, 1, 2, 10, 8]))


def _list_cross_reference(database: Database, asked: Any) -> Iterator[Row]:
    ends = _given(asked, "pk_catalog"), _given(asked, "fk_catalog")
    is_one = None in ends or ends[0] == ends[1]  # no key leads to another branch
    if is_one and _is_here(asked, "pk_db_schema") and _is_here(asked, "fk_db_schema"):
        found = _links(database, ends[0] or ends[1], asked.fk_table, asked.pk_table)
        yield from sorted(found, key=_by([0, 1, 2, 10, 8]))


_COMMANDS: dict[str, tuple[pa.Schema, Callable[[Database, Any], Iterator[Row]]]] = {
    "CommandGetCatalogs": (_CATALOGS, _list_catalogs),
    "CommandGetDbSchemas": (_DB_SCHEMAS, _list_db_schemas),
    "CommandGetTables": (_TABLES, _list_tables),
    "CommandGetTableTypes": (_TABLE_TYPES, _list_table_types),
    "CommandGetPrimaryKeys": (_PRIMARY_KEYS, _list_primary_keys),
    "CommandGetExportedKeys": (_FOREIGN_KEYS, _list_exported_keys),
    "CommandGetImportedKeys": (_FOREIGN_KEYS, _list_imported_keys),
    "CommandGetCrossReference": (_FOREIGN_KEYS, _list_cross_reference),
}
