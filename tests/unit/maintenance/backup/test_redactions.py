"""What was erased after a backup does not come back with it."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb import Database
from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.tables.recipe import Change, load_recipe

COLUMNS = {"id": "bigint", "v": "bigint"}


def chunks_with_rows(db: Database) -> dict[Address, StoredChunk]:
    """The chunks of all deltas of a database."""
    graph, found = db._graph, {}
    for snapshot in graph.newest_snapshots():
        for address in graph.tables(snapshot).values():
            recipe = load_recipe(graph.store, address)
            for chunk in recipe.chunks if isinstance(recipe, Change) else ():
                body = graph.store.get(chunk)
                found[chunk] = StoredChunk(chunk, bytes(body[0 : len(body)]))
    return found


def redact(db: Database, old: Address, new: StoredChunk, number: int) -> None:
    """Write down that a chunk took another's place, as erasing does."""
    erasure = {"table": "t", "time": 1, "author": "ann", "reason": "asked", "details": "{}"}
    with db._graph.catalog.write() as connection:
        db._graph.catalog.journal.put([new], connection)
        SealedRows(schema.erasure).insert(connection, [{"number": number, **erasure}])
        row = {"old": old, "new": new.address, "erasure": number}
        SealedRows(schema.redaction).put(connection, [row])


@pytest.fixture
def replacements(tmp_path: Path) -> list[StoredChunk]:
    """Chunks of another database."""
    with livingdb.create(tmp_path / "other.ldb") as other:
        main = other.branch("main")
        for count in (20, 30, 40):
            main.create_table(f"t{count}", COLUMNS, key="id")
            main.insert(f"t{count}", {"id": range(count), "v": range(count)})
            main.upsert(f"t{count}", {"id": [1], "v": [count]})
        return list(chunks_with_rows(other).values())


@pytest.fixture
def db(tmp_path: Path) -> Database:
    made = livingdb.create(tmp_path / "shop.ldb", engine="embedded")
    main = made.branch("main")
    main.create_table("t", COLUMNS, key="id")
    main.insert("t", {"id": range(300), "v": range(300)})
    main.upsert("t", {"id": range(10), "v": range(10, 20)})
    drain_journal(made._graph.store)
    main.upsert("t", {"id": range(400, 450), "v": range(50)})
    return made


def check_redacted(copy: Database, expected: dict[Address, Address], gone: set[Address]) -> None:
    """That chunks are gone, others lie in their place, and the catalog says so."""
    there = set(copy._graph.store.addresses())
    assert not there & gone
    assert there >= set(expected.values())
    with copy._graph.catalog.queries.connection() as connection:
        rows = connection.execute(schema.redaction.select()).all()
        erasures = {row.number for row in connection.execute(schema.erasure.select())}
    assert {row.old: row.new for row in rows} == expected
    assert {row.erasure for row in rows} <= erasures


@pytest.mark.parametrize("is_listed", [True, False], ids=["backups know", "the database knows"])
def test_erased_chunks_stay_away(
    db: Database, replacements: list[StoredChunk], tmp_path: Path, is_listed: bool
) -> None:
    place = tmp_path / "backup"
    journal = set(db._graph.store.journal.addresses())
    old = list(chunks_with_rows(db))
    in_journal = next(address for address in old if address in journal)
    in_pack = next(address for address in old if address not in journal)
    times = [db.backup(place).time]
    redact(db, in_pack, replacements[0], 1)
    redact(db, in_journal, replacements[1], 2)
    if is_listed:
        times.append(db.backup(place).time)
    redact(db, in_pack, replacements[2], 3)
    expected = {in_pack: replacements[2].address, in_journal: replacements[1].address}
    gone = {in_pack, in_journal}
    if is_listed:
        db.backup(place)
        gone.add(replacements[0].address)
    for number, time in enumerate(times):
        given = None if is_listed else db
        with livingdb.restore(place, tmp_path / str(number), at=time, redactions=given) as copy:
            check_redacted(copy, expected, gone)
    db.close()


def test_erasures_of_copies_that_went_apart(
    db: Database, replacements: list[StoredChunk], tmp_path: Path
) -> None:
    """Numbers that two of them gave are told from each other."""
    old = list(chunks_with_rows(db))
    db.backup(tmp_path / "backup")
    with livingdb.restore(tmp_path / "backup", tmp_path / "apart") as apart:
        redact(apart, old[0], replacements[0], 1)
        redact(db, old[1], replacements[1], 1)
        with db._graph.catalog.write() as connection:
            changed = {"reason": "asked by another"}
            SealedRows(schema.erasure).update(connection, [schema.erasure.c.number == 1], changed)
        db.backup(tmp_path / "backup")
        db.close()
        with livingdb.restore(tmp_path / "backup", tmp_path / "copy", redactions=apart) as copy:
            both = {old[0]: replacements[0].address, old[1]: replacements[1].address}
            check_redacted(copy, both, {old[0]})
