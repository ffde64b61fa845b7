"""Ids of databases, branches and syncs: unique when new; by a fixed rule in older catalogs."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from sqlalchemy import BigInteger, Column, Engine, Integer, MetaData, Table, Text, inspect, text
from tests.unit.catalog.conftest import add_snapshot

from livingdb.catalog import schema
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import derived_id, new_id
from livingdb.chunks.address import digest

# --- new ones ------------------------------------------------------------------------------------


def is_id(text: object) -> bool:
    return isinstance(text, str) and len(text) == 32 and set(text) <= set(string.hexdigits.lower())


def test_ids_are_128_bits_of_chance() -> None:
    found = [new_id() for _ in range(1_000)]
    assert all(map(is_id, found))
    assert len(set(found)) == len(found)
    halves = {id[:16] for id in found} | {id[16:] for id in found}
    assert len(halves) == 2_000, "no half of it is fixed"


def test_a_derived_id_follows_from_every_fact() -> None:
    assert derived_id("branch", "d", 1, 23) == derived_id("branch", "d", 1, 23)
    facts: list[tuple[str | int, ...]] = [
        ("branch", "d", 1, 23),
        ("branch", "d", 12, 3),
        ("branch", "d", 1, 24),
        ("branch", "d", "1", 23),
        ("branch", "e", 1, 23),
        ("sync", "d", 1, 23),
        ("branch", "d", 1),
    ]
    assert len({derived_id(*each) for each in facts}) == len(facts)
    assert derived_id("branch", "0" * 32, 1, 2) == "30e5e5baf9ff5589e406d7f21dd85e29"


def test_branches_are_found_by_id_whatever_they_are_called(catalog: Catalog) -> None:
    head = add_snapshot(catalog, "first").sequence
    with catalog.write() as connection:
        ids = [catalog.branches.add(connection, name, head, 5) for name in ("b", "a", "c")]
    assert all(map(is_id, ids))
    assert [row.id for row in catalog.branches.all()] == [ids[1], ids[0], ids[2]]
    found = catalog.branches.by_ids([ids[2], new_id(), ids[0]])
    assert [(id, row.name) for id, row in found.items()] == [(ids[2], "c"), (ids[0], "b")]
    assert [row.number for row in found.values()] == [3, 1], "in the order they were made"


def test_a_renamed_branch_keeps_its_id_and_log(catalog: Catalog) -> None:
    first, second = add_snapshot(catalog, "first"), add_snapshot(catalog, "second")
    with catalog.write() as connection:
        catalog.branches.add(connection, "dev", first.sequence, 5)
        catalog.branches.add(connection, "of_dev", first.sequence, 6, origin="dev")
    before = catalog.branches.find("dev")
    assert before is not None
    with catalog.write() as connection:
        assert catalog.branches.rename(connection, before, "trial")
        catalog.former_names.add_renamed(connection, "dev", before.id)
    assert catalog.branches.find("dev") is None
    after = catalog.branches.find("trial")
    assert after is not None
    assert (after.id, after.number, after.head) == (before.id, before.number, before.head)
    assert catalog.movements.of(after) == catalog.movements.of(before)
    assert catalog.branches.find("of_dev").origin == "trial"  # type: ignore[union-attr]
    assert catalog.former_names.renamed("dev") == before.id
    assert catalog.former_names.renamed("trial") is None
    with catalog.write() as connection:
        assert not catalog.branches.move(connection, before, second.sequence, 9, "commit")
        assert catalog.branches.move(connection, after, second.sequence, 9, "commit")
        assert not catalog.branches.rename(connection, before, "other"), "it has another name"


# --- a catalog from before -----------------------------------------------------------------------

_Number = BigInteger().with_variant(Integer, "sqlite")
OLD = MetaData()
OLD_BRANCH = Table(
    "branch",
    OLD,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("head", _Number, nullable=False),
    Column("position", _Number, nullable=False),
    Column("origin", Text),
    Column("origin_head", _Number),
    Column("time", _Number, nullable=False),
    sqlite_autoincrement=True,
)
OLD_SYNC = Table(
    "sync",
    OLD,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("sources", Text, nullable=False),
    Column("target", _Number, nullable=False),
    Column("direction", Text, nullable=False),
    Column("frequency", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("time", _Number, nullable=False),
    Column("guard", Text, nullable=False, server_default="{}"),
    sqlite_autoincrement=True,
)
"""The tables that schema 4 had in another form."""

DATABASE = "ab" * 16
SPEC = {
    "name": "totals",
    "what": "sql",
    "tables": {"t": {"branch": 1, "table": "t"}, "u": {"branch": 2, "table": "u"}},
    "home": 1,
}


def make_old(engine: Engine, has_id: bool = True) -> None:
    """A catalog of schema 4: main, a branch that was dropped, a view of both, and a clone."""
    same = [t for t in schema.metadata.sorted_tables if t.name not in ("branch", "sync")]
    later = (schema.former_name, schema.counter, schema.course, schema.step)
    same = [t for t in same if t not in later]
    address = digest(b"first")
    with engine.begin() as connection:
        OLD.create_all(connection)
        schema.metadata.create_all(connection, same)
        for table in (t for t in same if t not in (schema.version, schema.materialization)):
            for column in {"digest", "previous"} & set(table.c.keys()):
                connection.execute(text(f"ALTER TABLE {table.name} DROP COLUMN {column}"))
        facts = {"schema": "4", "epoch": "3"} | ({"database": DATABASE} if has_id else {})
        rows = [{"name": name, "value": value} for name, value in facts.items()]
        connection.execute(schema.meta.insert(), rows)
        snapshot = {"address": address, "depth": 0, "time": 1, "kind": "transaction"}
        made = {**snapshot, "author": "ann", "message": ""}
        connection.execute(schema.snapshot.insert(), made)
        for number, name in enumerate(("main", "gone", "totals", "gone_too"), 1):
            branch = {"name": name, "head": 1, "position": 0, "time": 10 * number}
            connection.execute(OLD_BRANCH.insert(), branch)
            log = {"branch": number, "position": 0, "snapshot": 1, "time": 10 * number}
            connection.execute(schema.branch_log.insert(), {**log, "operation": "clone"})
        for number in (2, 4):
            connection.execute(OLD_BRANCH.delete().where(OLD_BRANCH.c.id == number))
            log_of = schema.branch_log.c.branch == number
            connection.execute(schema.branch_log.delete().where(log_of))
        sync = {"name": "main+gone/totals", "kind": "derive", "sources": "[1, 2]", "target": 3}
        how = {"direction": "forward", "frequency": "immediate", "state": "active", "reason": ""}
        connection.execute(OLD_SYNC.insert(), {**sync, **how, "spec": json.dumps(SPEC), "time": 30})
        step = {"sync": 1, "time": 31, "state": "held", "author": "ann", "reason": "why"}
        connection.execute(schema.trail.insert(), {**step, "details": '{"at": {"1": "x"}}'})


def told(catalog: Catalog) -> dict[str, Any]:
    """What a catalog says of ids."""
    return {
        "database": catalog.database_id,
        "branches": {row.name: (row.number, row.id) for row in catalog.branches.all()},
        "syncs": catalog.syncs.all(),
        "former": [catalog.former_names.branch(str(number)) for number in range(1, 6)],
    }


def test_an_old_catalog_gets_ids_by_a_fixed_rule(engine: Engine) -> None:
    make_old(engine)
    catalog = Catalog.open(engine)
    main, totals = (derived_id("branch", DATABASE, n, 10 * n) for n in (1, 3))
    gone, gone_too = (derived_id("branch", DATABASE, n) for n in (2, 4))
    assert told(catalog)["database"] == DATABASE
    assert told(catalog)["branches"] == {"main": (1, main), "totals": (3, totals)}
    (sync,) = catalog.syncs.all()
    assert sync.id == derived_id("sync", DATABASE, 1, 30)
    assert (sync.sources, sync.target) == ((main, gone), totals)
    tables = {"t": {"branch": main, "table": "t"}, "u": {"branch": gone, "table": "u"}}
    assert sync.spec == {**SPEC, "tables": tables, "home": main}
    assert told(catalog)["former"] == [main, gone, totals, gone_too, "5"]
    assert catalog.former_names.branch(main) == main, "what records of today say"
    assert catalog.former_names.branch_named("totals") == totals
    assert catalog.former_names.sync_named("main+gone/totals") == sync.id
    assert catalog.former_names.sync_named("totals") == sync.id
    assert catalog.former_names.sync_named("other") is None
    (step,) = catalog.trail.of(sync.id)
    assert step.details == {"at": {"1": "x"}}, "what was written stays as it was"
    main = catalog.branches.find("main")
    assert main is not None
    assert catalog.default_branch() == main.id
    catalog.close()


def test_a_migrated_catalog_is_like_a_new_one_and_goes_on(engine: Engine) -> None:
    make_old(engine)
    catalog = Catalog.open(engine)
    main = catalog.branches.find("main")
    assert main is not None
    assert len(catalog.movements.of(main)) == 1
    with catalog.write() as connection:
        added = catalog.branches.add(connection, "next", 1, 50)
    again = catalog.branches.by_id(added)
    assert again is not None
    assert again.number == 5, "the number of a branch that was dropped is not used again"
    for table in ("branch", "sync"):
        there = {column["name"] for column in inspect(engine).get_columns(table)}
        assert there == {column.name for column in schema.metadata.tables[table].columns}
        unique = [index for index in inspect(engine).get_indexes(table) if index["unique"]]
        assert ["id"] in [index["column_names"] for index in unique]
    catalog.close()


def test_copies_that_are_migrated_apart_agree(engine: Engine) -> None:
    found = []
    for _ in range(2):
        make_old(engine, has_id=False)
        catalog = Catalog.open(engine)
        found.append(told(catalog))
        catalog.close()
        with engine.begin() as connection:
            for name in inspect(connection).get_table_names():
                connection.execute(
                    text(
                        f'DROP TABLE "{name}" CASCADE'
                        if _is_postgres(engine)
                        else f'DROP TABLE "{name}"'
                    )
                )
    assert found[0] == found[1]
    assert found[0]["database"] == derived_id("database", digest(b"first").hex())


def _is_postgres(engine: Engine) -> bool:
    return engine.dialect.name == "postgresql"


def test_a_migration_that_fails_leaves_everything_as_it_was(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(engine)
    with engine.connect() as connection:
        before = connection.execute(OLD_SYNC.select()).all()

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("livingdb.catalog.migrations._spec_by_ids", fail)
        with pytest.raises(ZeroDivisionError):
            Catalog.open(engine)
    with engine.connect() as connection:
        assert connection.execute(OLD_SYNC.select()).all() == before
        assert not inspect(connection).has_table("former_name")
    catalog = Catalog.open(engine)
    assert [sync.name for sync in catalog.syncs.all()] == ["main+gone/totals"]
    catalog.close()
