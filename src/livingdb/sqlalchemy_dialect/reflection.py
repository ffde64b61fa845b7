"""What there is: tables, columns, keys, constraints and views.  Each branch is a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import default, reflection
from sqlalchemy.exc import NoSuchTableError

from livingdb.sqlalchemy_dialect.column_types import sqlalchemy_type
from livingdb.sqlalchemy_dialect.values import text_literal
from livingdb.tables.identity_column import ROW_KEY

if TYPE_CHECKING:
    import pyarrow as pa

    from livingdb.dbapi import Connection
    from livingdb.tables.schema import Column, TableSchema

__all__ = ["Reflection"]


class Reflection(default.DefaultDialect):
    """Answers of an inspector, from the schemas of the tables themselves."""

    def _schemas(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> dict[str, TableSchema]:
        """The tables of a branch; they are read once for an inspector."""
        cache = kw.get("info_cache")
        place = ("livingdb_schemas", schema)
        if cache is None or place not in cache:
            found = _dbapi(connection).table_schemas(schema)
            if cache is None:
                return found
            cache[place] = found
        return dict(cache[place])

    def _table(self, connection: Any, name: str, schema: str | None, **kw: Any) -> TableSchema:
        found = self._schemas(connection, schema, **kw)
        if name not in found:
            raise NoSuchTableError(f"{schema}.{name}" if schema else name)
        return found[name]

    def _constrained(
        self, connection: Any, name: str, schema: str | None, **kw: Any
    ) -> TableSchema | None:
        """The schema that has the constraints of a table; a view has none."""
        if name not in self._schemas(connection, schema, **kw) and name in self._views(
            connection, schema
        ):
            return None
        return self._table(connection, name, schema, **kw)

    def _views(self, connection: Any, schema: str | None) -> dict[str, str]:
        found = _dbapi(connection).query("SHOW VIEWS", schema).to_arrow()
        return dict(zip(found["name"].to_pylist(), found["query"].to_pylist(), strict=True))

    @reflection.cache
    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        """The branches."""
        return _dbapi(connection).branches()

    @reflection.cache
    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The tables of a branch."""
        return sorted(self._schemas(connection, schema, **kw))

    @reflection.cache
    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """The views that are known by name on a branch."""
        return sorted(self._views(connection, schema))

    @reflection.cache
    def get_view_definition(
        self, connection: Any, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        """The query of a view."""
        found = self._views(connection, schema)
        if view_name not in found:
            raise NoSuchTableError(f"{schema}.{view_name}" if schema else view_name)
        return found[view_name]

    @reflection.cache
    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Whether there is a table or a view of the name."""
        self._ensure_has_table_connection(connection)
        if schema is not None and schema not in self.get_schema_names(connection, **kw):
            return False
        tables = self._schemas(connection, schema, **kw)
        return table_name in tables or table_name in self._views(connection, schema)

    @reflection.cache
    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """The columns of a table or a view."""
        found = self._constrained(connection, table_name, schema, **kw)
        if found is None:
            quoted = self.identifier_preparer.quote_identifier(table_name)
            shown = _dbapi(connection).query(f"SELECT * FROM {quoted} LIMIT 0", schema).schema
            return [_view_column(field) for field in shown]
        return [_column(c, found) for c in found.visible_columns if c.name != ROW_KEY]

    @reflection.cache
    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """The key; it has no name."""
        found = self._constrained(connection, table_name, schema, **kw)
        key = [] if found is None else [name for name in found.visible_key if name != ROW_KEY]
        return {"constrained_columns": key, "name": None}

    @reflection.cache
    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """Columns that name rows of other tables, each by its key."""
        found = self._constrained(connection, table_name, schema, **kw)
        if found is None:
            return []
        names, others = dict(found.link_names), self._schemas(connection, schema, **kw)
        links: list[dict[str, Any]] = [
            {
                "name": names.get(column),
                "constrained_columns": [column],
                "referred_schema": schema,
                "referred_table": target,
                "referred_columns": list(others[target].key),
                "options": {},
            }
            for column, target in found.foreign_keys
        ]
        return sorted(links, key=lambda link: str(link["name"] or ""))

    @reflection.cache
    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """Columns that no two rows have the same values in."""
        found = self._constrained(connection, table_name, schema, **kw)
        groups = () if found is None else sorted(found.uniques)
        return [{"name": name, "column_names": list(columns)} for name, columns in groups]

    @reflection.cache
    def get_check_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """Conditions that no row makes false."""
        found = self._constrained(connection, table_name, schema, **kw)
        checks = () if found is None else sorted(found.checks)
        return [{"name": name, "sqltext": text} for name, text in checks]

    @reflection.cache
    def get_indexes(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """Columns by which rows are found; unique ones are constraints."""
        if self._constrained(connection, table_name, schema, **kw) is None:
            return []
        found = _dbapi(connection).indexes(table_name, schema)
        return [
            {"name": name, "column_names": list(columns), "unique": False}
            for name, columns in sorted(found.items())
        ]

    @reflection.cache
    def get_table_options(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """None: tables hold columns and constraints."""
        self._constrained(connection, table_name, schema, **kw)
        return {}


def _dbapi(connection: Any) -> Connection:
    """The connection of `livingdb.dbapi` that one of SQLAlchemy holds."""
    found: Connection = connection.connection.dbapi_connection
    return found


def _column(column: Column, schema: TableSchema) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": column.name,
        "type": sqlalchemy_type(column.type, column.limit),
        "nullable": column.nullable and column.name not in schema.key,
        "default": _default_text(column.default),
        "autoincrement": column.generated is not None,
    }
    if column.computed is not None:
        found["computed"] = {"sqltext": column.computed, "persisted": True}
    if column.numbers is not None:
        found["identity"] = _identity(column)
    return found


def _identity(column: Column) -> Mapping[str, Any]:
    rule = column.numbers
    assert rule is not None
    return {
        "always": rule.kind == "always",
        "start": rule.start,
        "increment": rule.increment,
        "minvalue": None,
        "maxvalue": None,
        "nominvalue": None,
        "nomaxvalue": None,
        "cycle": False,
        "cache": None,
    }


def _default_text(value: Any) -> str | None:
    """A default as SQL writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return text_literal(value) if isinstance(value, str) else str(value)


def _view_column(field: pa.Field) -> dict[str, Any]:
    type_ = sqlalchemy_type(field.type)
    return {"name": field.name, "type": type_, "nullable": field.nullable, "default": None}
