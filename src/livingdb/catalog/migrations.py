"""The catalog's schema over time: made whole for a new database, migrated for an old one."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine, inspect, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn

from livingdb.catalog import schema
from livingdb.catalog.sql.sqlite import writing_engine
from livingdb.errors import AlreadyExists, Corruption, NotFound, Unsupported

__all__ = ["MIGRATIONS", "create_schema", "migrate"]


def _add_syncs(connection: Connection) -> None:
    schema.sync.create(connection)


def _add_runs(connection: Connection) -> None:
    schema.run.create(connection)
    schema.alert.create(connection)


def _add_guards(connection: Connection) -> None:
    for column in (schema.sync.c.guard, schema.alert.c.fingerprint):
        name = column.table.name
        if any(known["name"] == column.name for known in inspect(connection).get_columns(name)):
            continue  # the table has just been made
        words = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {words}")
    schema.alert_by_fingerprint.create(connection, checkfirst=True)
    for table in (schema.trail, schema.outbox, schema.watch, schema.label):
        table.create(connection)


MIGRATIONS: dict[int, Callable[[Connection], None]] = {
    1: _add_syncs,
    2: _add_runs,
    3: _add_guards,
}
"""What brings a catalog from one schema version to the next."""

_LOCK = 0x4C44_4221


def create_schema(engine: Engine, first: Callable[[Connection], None]) -> None:
    """Make the tables and what `first` puts in them, all or nothing; `AlreadyExists` if there."""
    with writing_engine(engine).begin() as connection:
        _lock_schema(connection)
        if inspect(connection).has_table("meta"):
            raise AlreadyExists("there is a database here already; use `livingdb.open`")
        schema.metadata.create_all(connection)
        set_version(connection, schema.SCHEMA_VERSION, is_new=True)
        first(connection)


def migrate(engine: Engine, steps: dict[int, Callable[[Connection], None]] | None = None) -> None:
    """Bring an old catalog up to date; `NotFound` where there is none, `Unsupported` if newer."""
    with engine.connect() as connection:
        found = stored_version(connection)
    if found == schema.SCHEMA_VERSION:
        return
    if found > schema.SCHEMA_VERSION:
        raise Unsupported(
            f"the catalog has schema version {found}; this LivingDB knows up to "
            f"{schema.SCHEMA_VERSION}: install a newer one"
        )
    known = MIGRATIONS if steps is None else steps
    with writing_engine(engine).begin() as connection:
        _lock_schema(connection)
        for number in range(stored_version(connection), schema.SCHEMA_VERSION):
            if number not in known:
                raise Unsupported(f"no way leads from catalog schema {number} to {number + 1}")
            known[number](connection)
            set_version(connection, number + 1)


def stored_version(connection: Connection) -> int:
    """The schema version a catalog says it has."""
    statement = select(schema.meta.c.value).where(schema.meta.c.name == "schema")
    try:
        value = connection.execute(statement).scalar()
    except DBAPIError:
        if inspect(connection.engine).has_table("meta"):
            raise
        raise NotFound("there is no database here; use `livingdb.create`") from None
    if value is None or not value.isdecimal():
        raise Corruption("the catalog does not say which schema it has")
    return int(value)


def set_version(connection: Connection, number: int, is_new: bool = False) -> None:
    """Write down the schema version."""
    if is_new:
        connection.execute(schema.meta.insert(), {"name": "schema", "value": str(number)})
    else:
        where = schema.meta.c.name == "schema"
        connection.execute(schema.meta.update().where(where).values(value=str(number)))


def _lock_schema(connection: Connection) -> None:
    """Only one at a time changes the schema."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
