"""The catalog's schema over time: made whole for a new database, migrated for an old one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import (
    Column,
    ColumnClause,
    Connection,
    Engine,
    column,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable, ExecutableDDLElement

from livingdb.catalog import schema
from livingdb.catalog.former_names import BRANCH_NAME, BRANCH_NUMBER, SYNC_NAME
from livingdb.catalog.ids import BranchId, SyncId, derived_id
from livingdb.catalog.seal_rows import seal_rows, seal_trees_anew
from livingdb.catalog.sealed_rows import DIGEST, SealedRows, sealed_tables
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.sqlite import writing_engine
from livingdb.errors import AlreadyExists, Corruption, NotFound, Unsupported

__all__ = ["DATABASE", "DEFAULT_BRANCH", "MIGRATIONS", "SCHEMA_FACT", "create_schema", "migrate"]

DATABASE, DEFAULT_BRANCH = "database", "default branch"
"""Facts about the database: its id, and that of the branch which is meant if none is named."""

SCHEMA_FACT = "schema"
"""The fact which schema version the catalog has."""


def _add_syncs(connection: Connection) -> None:
    schema.sync.create(connection)


def _add_runs(connection: Connection) -> None:
    schema.run.create(connection)
    schema.alert.create(connection)


def _add_guards(connection: Connection) -> None:
    for wanted in (schema.sync.c.guard, schema.alert.c.fingerprint):
        name = wanted.table.name
        if any(known["name"] == wanted.name for known in inspect(connection).get_columns(name)):
            continue  # the table has just been made
        _add_column(connection, wanted)
    schema.alert_by_fingerprint.create(connection, checkfirst=True)
    for table in (schema.trail, schema.outbox, schema.watch, schema.label):
        table.create(connection)


def _add_ids(connection: Connection) -> None:
    """Branches and syncs get ids by a fixed rule, so that copies that migrate apart agree."""
    database = _database_id(connection)
    highest = _highest_branch_number(connection)
    known = {column["name"] for column in inspect(connection).get_columns("sync")}
    is_new = "number" in known  # the table has just been made
    _rename_column(connection, "branch", "id", "number")
    _add_column(connection, schema.branch.c.id)
    if not is_new:
        _rename_column(connection, "sync", "id", "number")
        _add_column(connection, schema.sync.c.id)
        _rename_column(connection, "sync", "target", "target_number")
        _add_column(connection, schema.sync.c.target)
    schema.former_name.create(connection)
    branches = _give_branches_ids(connection, database, highest)
    if not is_new:
        _give_syncs_ids(connection, database, branches)
        connection.exec_driver_sql("ALTER TABLE sync DROP COLUMN target_number")
        schema.sync_by_id.create(connection)
    schema.branch_by_id.create(connection)


def _database_id(connection: Connection) -> str:
    """The id that the database has, or the one that follows from its first snapshot."""
    is_id = schema.meta.c.name == DATABASE
    found = connection.execute(select(schema.meta.c.value).where(is_id)).scalar()
    if found is not None:
        return str(found)
    oldest = select(schema.snapshot.c.address).order_by(schema.snapshot.c.sequence).limit(1)
    address = connection.execute(oldest).scalar()
    made = derived_id(DATABASE, "" if address is None else bytes(address).hex())
    connection.execute(schema.meta.insert(), {"name": DATABASE, "value": made})
    return made


def _highest_branch_number(connection: Connection) -> int:
    """The greatest number that a branch has had, also one that was dropped."""
    if connection.dialect.name == "postgresql":
        sequence = "pg_get_serial_sequence('branch', 'id')::regclass"
        found = connection.exec_driver_sql(f"SELECT pg_sequence_last_value({sequence})").scalar()
    else:
        counted = "SELECT seq FROM sqlite_sequence WHERE name = 'branch'"
        found = connection.exec_driver_sql(counted).scalar()
    return 0 if found is None else int(found)


def _give_branches_ids(connection: Connection, database: str, highest: int) -> dict[int, BranchId]:
    """The ids of branches by their numbers, also of those that were dropped, written down."""
    branch = schema.branch
    rows = connection.execute(select(branch.c.number, branch.c.name, branch.c.time)).all()
    ids = {number: derived_id("branch", database, number) for number in range(1, highest + 1)}
    ids |= {row.number: derived_id("branch", database, row.number, row.time) for row in rows}
    former = [
        {"kind": BRANCH_NUMBER, "name": str(number), "id": given} for number, given in ids.items()
    ]
    for row in rows:
        given = ids[row.number]
        connection.execute(branch.update().where(branch.c.number == row.number).values(id=given))
        former.append({"kind": BRANCH_NAME, "name": row.name, "id": given})
        if row.name == "main":
            fact = {"name": DEFAULT_BRANCH, "value": given}
            connection.execute(schema.meta.insert(), fact)
    if former:
        connection.execute(schema.former_name.insert(), former)
    return ids


def _give_syncs_ids(
    connection: Connection, database: str, branches: Mapping[int, BranchId]
) -> None:
    """Let syncs have ids, and name branches by theirs, also in the definitions of views."""
    sync = schema.sync
    target: ColumnClause[int] = column("target_number")
    known = sync.c.number, sync.c.name, sync.c.kind, sync.c.sources, sync.c.spec, sync.c.time
    rows = connection.execute(select(*known, target)).all()
    named: dict[str, SyncId] = {}
    for row in rows:
        given = derived_id("sync", database, row.number, row.time)
        spec = json.loads(row.spec)
        if row.kind == "derive":
            spec = _spec_by_ids(spec, branches)
            named.setdefault(spec["name"], given)
        values = {
            "id": given,
            "sources": json.dumps([branches[number] for number in json.loads(row.sources)]),
            "target": branches[row.target_number],
            "spec": json.dumps(spec),
        }
        connection.execute(sync.update().where(sync.c.number == row.number).values(values))
    # Where a view has the name that a sync has, records mean the sync.
    named |= {row.name: derived_id("sync", database, row.number, row.time) for row in rows}
    former = [{"kind": SYNC_NAME, "name": name, "id": given} for name, given in named.items()]
    if former:
        connection.execute(schema.former_name.insert(), former)


def _spec_by_ids(spec: Mapping[str, Any], branches: Mapping[int, BranchId]) -> dict[str, Any]:
    """The definition of a view whose branches were numbers."""
    tables = {
        name: {**table, "branch": branches[table["branch"]]}
        for name, table in spec["tables"].items()
    }
    return {**spec, "tables": tables, "home": branches.get(spec.get("home", 0), "")}


def _rename_column(connection: Connection, table: str, old: str, new: str) -> None:
    connection.exec_driver_sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")


def _add_column(connection: Connection, wanted: Column[Any]) -> None:
    words = CreateColumn(wanted).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {wanted.table.name} ADD COLUMN {words}")


def _add_counters(connection: Connection) -> None:
    schema.counter.create(connection)


def _add_steps_and_digests(connection: Connection) -> None:
    """Every row is taken for what was written, but those that a digest of before does not suit."""
    schema.course.create(connection)
    schema.step.create(connection)
    _add_runs_of_deltas(connection)
    _add_keeping(connection)
    _add_tuning(connection)
    known = inspect(connection)
    for rows in sealed_tables(schema.metadata.sorted_tables):
        there = {found["name"] for found in known.get_columns(rows.table.name)}
        for wanted in rows.table.c:
            if wanted.name not in there:
                _add_column(connection, wanted)
    seal_rows(connection)


def _add_runs_of_deltas(connection: Connection) -> None:
    schema.delta_run.create(connection, checkfirst=True)


def _add_keeping(connection: Connection) -> None:
    """What is kept, forgotten, erased, copied, looked after and asked to be merged."""
    for table in (
        schema.dropped_branch,
        schema.forgotten_snapshot,
        schema.forgotten_version,
        schema.lease,
        schema.erasure,
        schema.redaction,
        schema.outside_copy,
        schema.job,
        schema.merge_request,
        schema.merge_event,
        schema.merge_rule,
        schema.table_layout,
        schema.observation,
    ):
        table.create(connection, checkfirst=True)


def _add_keeping_and_layouts(connection: Connection) -> None:
    _add_keeping(connection)
    wanted = schema.materialization.c.layout
    known = inspect(connection).get_columns(wanted.table.name)
    if all(column["name"] != wanted.name for column in known):
        _add_column(connection, wanted)
        seal_trees_anew(connection)


def _add_tuning(connection: Connection) -> None:
    schema.tuning.create(connection, checkfirst=True)


MIGRATIONS: dict[int, Callable[[Connection], None]] = {
    1: _add_syncs,
    2: _add_runs,
    3: _add_guards,
    4: _add_ids,
    5: _add_counters,
    6: _add_steps_and_digests,
    7: _add_runs_of_deltas,
    8: _add_keeping_and_layouts,
    9: _add_tuning,
}
"""What brings a catalog from one schema version to the next."""

_LOCK = 0x4C44_4221
_WITH_DIGESTS = 7
_facts = SealedRows(schema.meta)


def _creation() -> Iterator[ExecutableDDLElement]:
    """What makes all tables and their indexes."""
    for table in schema.metadata.sorted_tables:
        yield CreateTable(table)
        yield from map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name)))


_CREATION = [PreparedStatement(words) for words in _creation()]
"""It is the same for every database."""


def create_schema(engine: Engine, first: Callable[[Connection], None]) -> None:
    """Make the tables and what `first` puts in them, all or nothing; `AlreadyExists` if there."""
    with writing_engine(engine).begin() as connection:
        _lock_schema(connection)
        if inspect(connection).has_table("meta"):
            raise AlreadyExists("there is a database here already; use `livingdb.open`")
        for statement in _CREATION:
            statement.run(connection, {})
        set_version(connection, schema.SCHEMA_VERSION)
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
    statement = select(text("*")).select_from(schema.meta).where(schema.meta.c.name == SCHEMA_FACT)
    try:
        row = connection.execute(statement).first()
    except (DBAPIError, Corruption):
        if inspect(connection.engine).has_table("meta"):
            raise
        raise NotFound("there is no database here; use `livingdb.create`") from None
    if row is not None and DIGEST in row._fields:
        _facts.read((row.name, row.value, row.digest))
    if row is None or not row.value.isdecimal():
        raise Corruption("the catalog is damaged: table 'meta' does not say which schema it has")
    return int(row.value)


def set_version(connection: Connection, number: int) -> None:
    """Write down the schema version."""
    if number >= _WITH_DIGESTS:
        _facts.put(connection, [{"name": SCHEMA_FACT, "value": str(number)}])
    else:
        where = schema.meta.c.name == SCHEMA_FACT
        connection.execute(schema.meta.update().where(where).values(value=str(number)))


def _lock_schema(connection: Connection) -> None:
    """Only one at a time changes the schema."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
