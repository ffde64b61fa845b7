"""The catalog's smaller parts: versions, runs and trails, streams, labels, packs, the journal."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, Engine
from tests.unit.catalog.conftest import add_snapshot, nothing

from livingdb.catalog import schema
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import SyncId, new_id
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.syncs import SyncRow
from livingdb.catalog.versions import TreeRow, VersionRow
from livingdb.chunks.address import Address, digest
from livingdb.errors import AlreadyExists, Corruption, NotFound, Unsupported
from livingdb.testing.store_contract import small_chunks

# --- the catalog as a whole ----------------------------------------------------------------------


def test_a_catalog_is_made_once_and_opened_after(engine: Engine) -> None:
    with pytest.raises(NotFound):
        Catalog.open(engine)
    made = Catalog.create(engine, nothing)
    name = made.meta("database")
    assert name is not None
    assert made.meta("schema") == str(schema.SCHEMA_VERSION)
    with pytest.raises(AlreadyExists):
        Catalog.create(engine, nothing)
    again = Catalog.open(engine)
    assert again.meta("database") == name, "the second attempt changed nothing"
    assert again.meta("no such fact") is None
    made.close()
    again.close()


def test_a_catalog_that_cannot_be_filled_is_not_made(engine: Engine) -> None:
    def fail(catalog: Catalog, connection: Connection) -> None:
        catalog.labels.add(connection, "t", "c", "pii")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Catalog.create(engine, fail)
    with pytest.raises(NotFound):
        Catalog.open(engine)
    made = Catalog.create(engine, nothing)
    assert made.labels.all() == []
    made.close()


def test_a_catalog_of_another_time_is_refused_and_left_alone(
    catalog: Catalog, engine: Engine
) -> None:
    where = schema.meta.c.name == "schema"
    wrong = {"999": Unsupported, "0": Unsupported, "many": Corruption, "-1": Corruption}
    for stored, error in wrong.items():
        with catalog.write() as connection:
            SealedRows(schema.meta).update(connection, [where], {"value": stored})
        with pytest.raises(error):
            Catalog.open(engine)
        assert catalog.meta("schema") == stored


def test_the_epoch_counts_up_with_its_transaction(catalog: Catalog) -> None:
    assert catalog.meta("epoch") == "0"
    with pytest.raises(ZeroDivisionError), catalog.write() as connection:
        catalog.raise_epoch(connection)
        assert catalog.meta("epoch", connection) == "1"
        assert catalog.meta("epoch") == "0", "others do not see it yet"
        raise ZeroDivisionError
    for _ in range(11):
        with catalog.write() as connection:
            catalog.raise_epoch(connection)
    assert catalog.meta("epoch") == "11"


def test_write_counters_tell_of_everything_that_needs_chunks(catalog: Catalog) -> None:
    seen = [catalog.write_counters()]

    def changed() -> bool:
        seen.append(catalog.write_counters())
        return seen[-1] != seen[-2]

    add_snapshot(catalog, "one")
    assert changed()
    one = version("one")
    with catalog.write() as connection:
        catalog.versions.add(connection, [one])
        assert catalog.write_counters(connection) != seen[-1], "seen in its own transaction"
    assert changed()
    with catalog.write() as connection:
        catalog.versions.materialize(connection, [(one, TreeRow(one.address, digest(b"root")))])
    assert changed()
    with catalog.write() as connection:
        catalog.versions.materialize(connection, [(one, TreeRow(one.address, digest(b"other")))])
        catalog.count_replaced_tree(connection)
    assert changed(), "one tree in the place of another"
    with catalog.write() as connection:
        catalog.packs.add(connection, {"a.pack": 1})
    assert changed()
    with catalog.write() as connection:
        catalog.packs.remove(connection, ["a.pack"])
        catalog.packs.add(connection, {"b.pack": 1})
    assert changed(), "one pack in the place of another"
    with catalog.write() as connection:
        catalog.labels.add(connection, "t", "c", "pii")
    assert not changed()


# --- versions ------------------------------------------------------------------------------------


def version(name: str, base: VersionRow | None = None, rows: int | None = 3) -> VersionRow:
    address = digest(name.encode())
    if base is None:
        return VersionRow(address, digest(b"definition"), address, None, None, 0, 0, address, rows)
    return VersionRow(
        address,
        base.definition,
        base.origin,
        base.address,
        base.origin,
        base.depth + 1,
        base.changed + 2,
        base.keyframe,
        rows,
    )


def test_versions_are_read_back_and_the_first_to_come_stays(catalog: Catalog) -> None:
    first = version("first")
    second = version("second", first, rows=None)
    with catalog.write() as connection:
        catalog.versions.add(connection, [first, second])
        catalog.versions.add(connection, [second._replace(rows=99)])
    assert catalog.versions.get(first.address) == (first, None, None)
    assert catalog.versions.get(second.address) == (second, None, None)
    assert catalog.versions.get(digest(b"nobody")) is None
    many = [second.address, digest(b"nobody"), first.address]
    assert sorted(catalog.versions.get_many(many)) == sorted([first, second])
    assert catalog.versions.get_many([]) == []


def test_a_row_that_somebody_changed_is_not_believed(catalog: Catalog) -> None:
    first = version("first")
    second = version("second", version("between", first))
    with catalog.write() as connection:
        catalog.versions.add(connection, [first, second])
        tree = TreeRow(second.address, digest(b"root"))
        catalog.versions.materialize(connection, [(second, tree)])
    changes: list[dict[str, object]] = [
        {"depth": 7},
        {"changed": 1},
        {"rows": 4},
        {"rows": None},
        {"base": second.origin},
        {"skip": None},
        {"keyframe": second.definition},
        {"definition": second.origin},
    ]
    is_second = schema.version.c.address == second.address

    def write(values: dict[str, object]) -> None:
        with catalog.write() as connection:
            connection.execute(schema.version.update().where(is_second).values(values))

    for change in changes:
        write(change)
        for read in (
            lambda: catalog.versions.get(second.address),
            lambda: catalog.versions.get_many([first.address, second.address]),
            lambda: catalog.versions.materializations_of(first.origin),
        ):
            with pytest.raises(Corruption, match=second.address.hex()[:12]):
                read()
        assert catalog.versions.get(first.address) == (first, None, None)
        write(second._asdict())
        assert catalog.versions.get(second.address) == (second, tree, None)


def test_materializations_come_go_and_are_replaced(catalog: Catalog) -> None:
    first, other = version("first"), version("other")
    second = version("second", first)
    roots = [digest(f"root {number}".encode()) for number in range(4)]
    layout = digest(b"another layout")
    trees = [
        TreeRow(first.address, roots[0]),
        TreeRow(second.address, roots[1]),
        TreeRow(other.address, roots[2], layout),
    ]
    with catalog.write() as connection:
        catalog.versions.add(connection, [first, second, other])
        catalog.versions.materialize(connection, [])
        pairs = zip((first, second, other), trees, strict=True)
        catalog.versions.materialize(connection, list(pairs))
    assert catalog.versions.tree(second.address) == trees[1]
    of_first = catalog.versions.materializations_of(first.address)
    assert sorted(of_first) == sorted([(first, trees[0]), (second, trees[1])])
    replaced = TreeRow(second.address, roots[3], layout)
    with catalog.write() as connection:
        catalog.versions.materialize(connection, [(second, replaced)])
    assert catalog.versions.tree(second.address) == replaced
    catalog.versions.evict(first.address)
    assert catalog.versions.tree(first.address) is None
    assert set(catalog.versions.materializations()) == {replaced, trees[2]}


def test_the_root_of_another_version_is_not_believed(catalog: Catalog, engine: Engine) -> None:
    first, other = version("first"), version("other")
    with catalog.write() as connection:
        catalog.versions.add(connection, [first, other])
        trees = [TreeRow(first.address, digest(b"1")), TreeRow(other.address, digest(b"2"))]
        catalog.versions.materialize(connection, zip((first, other), trees, strict=True))
    with engine.begin() as connection:
        made = schema.materialization
        is_first = made.c.version == first.address
        connection.execute(made.update().where(is_first).values(root=digest(b"2")))
    with pytest.raises(Corruption):
        catalog.versions.tree(first.address)
    with pytest.raises(Corruption):
        catalog.versions.materializations_of(first.address)
    assert catalog.versions.tree(other.address) == trees[1]


# --- runs and trails -----------------------------------------------------------------------------


def add_sync(catalog: Catalog, name: str) -> SyncId:
    ends = (("1",), "2", "forward")
    sync = SyncRow(new_id(), name, "derive", *ends, "immediate", "active", "", 7)
    with catalog.write() as connection:
        catalog.syncs.add(connection, sync)
    return sync.id


def test_runs_of_a_sync_are_newest_first(catalog: Catalog) -> None:
    one, other = add_sync(catalog, "a/b"), add_sync(catalog, "a/c")
    with catalog.write() as connection:
        for number in range(5):
            made = None if number % 2 else number
            outcome = "failed" if number % 2 else "done"
            details = {"rows": number, "why": "ö"}
            catalog.runs.add(connection, one, made, 10 * number, number, outcome, details)
        catalog.runs.add(connection, other, None, 99, 1, "done", {})
    runs = catalog.runs.of(one)
    assert [run.time for run in runs] == [40, 30, 20, 10, 0]
    newest = runs[0]
    assert (newest.sync, newest.snapshot, newest.duration, newest.outcome) == (one, 4, 4, "done")
    assert newest.details == {"rows": 4, "why": "ö"}
    assert (runs[1].snapshot, runs[1].outcome) == (None, "failed")
    assert catalog.runs.of(one, most=2) == runs[:2]
    assert [run.time for run in catalog.runs.of(other)] == [99]
    assert catalog.runs.of(new_id()) == []


def test_what_is_said_of_a_sync_that_was_dropped_is_not_that_of_another(catalog: Catalog) -> None:
    gone = add_sync(catalog, "a/b")
    with catalog.write() as connection:
        catalog.trail.add(connection, gone, 1, "held", "ann", "", {})
        catalog.syncs.drop(connection, gone)
        catalog.runs.add(connection, gone, None, 2, 1, "failed", {})
        catalog.trail.add(connection, gone, 2, "error", "ann", "", {})
    again = add_sync(catalog, "a/b")
    for sync in (gone, again):
        assert catalog.runs.of(sync) == []
        assert catalog.trail.of(sync) == []


def test_a_trail_is_newest_first_whatever_the_clock_said(catalog: Catalog) -> None:
    one, other = add_sync(catalog, "a/b"), add_sync(catalog, "a/c")
    with catalog.write() as connection:
        for time, state in ((30, "held"), (20, "approved"), (10, "active")):
            details = {"at": {"1": "x"}}
            catalog.trail.add(connection, one, time, state, "ann", f"now {state}", details)
        catalog.trail.add(connection, other, 1, "detached", "bo", "", {})
    steps = catalog.trail.of(one)
    assert [step.state for step in steps] == ["active", "approved", "held"]
    assert (steps[0].author, steps[0].reason) == ("ann", "now active")
    assert steps[0].details == {"at": {"1": "x"}}
    assert catalog.trail.of(one, limit=1) == steps[:1]
    assert catalog.trail.of(one, limit=0) == []
    assert [step.author for step in catalog.trail.of(other)] == ["bo"]


# --- streams -------------------------------------------------------------------------------------


def test_a_batch_of_a_stream_is_in_once(catalog: Catalog) -> None:
    assert catalog.streams.last("s") is None
    taken = []
    for batch in (0, 0, 1, 0, 5, 4, 5, 6):
        with catalog.write() as connection:
            taken.append(catalog.streams.put(connection, "s", batch, snapshot=batch))
    assert taken == [True, False, True, False, True, False, False, True]
    assert catalog.streams.last("s") == 6
    assert catalog.streams.last("other") is None
    with pytest.raises(ZeroDivisionError), catalog.write() as connection:
        assert catalog.streams.put(connection, "s", 7, 7)
        raise ZeroDivisionError
    assert catalog.streams.last("s") == 6


# --- labels --------------------------------------------------------------------------------------


def test_labels_are_sets(catalog: Catalog) -> None:
    given = [("t", "b", "pii"), ("t", "a", "pii"), ("t", "a", "eu"), ("s", "a", "pii")]
    with catalog.write() as connection:
        for one in [*given, given[0]]:
            catalog.labels.add(connection, *one)
    assert catalog.labels.all() == sorted(given)
    assert catalog.labels.of("pii") == {"s": ["a"], "t": ["a", "b"]}
    assert catalog.labels.of("nothing") == {}
    with catalog.write() as connection:
        assert catalog.labels.drop(connection, "t", "a", "eu") == 1
        assert catalog.labels.drop(connection, "t", "a", "eu") == 0
        assert catalog.labels.drop(connection, "t", "b", None) == 1
    assert catalog.labels.all() == [("s", "a", "pii"), ("t", "a", "pii")]


# --- packs ---------------------------------------------------------------------------------------


def test_packs_count_in_the_order_they_came(catalog: Catalog) -> None:
    with catalog.write() as connection:
        catalog.packs.add(connection, {})
        catalog.packs.add(connection, {"z.pack": 1, "a.pack": 2})
        catalog.packs.add(connection, {"m.pack": 3})
    assert catalog.packs.names() == ["z.pack", "a.pack", "m.pack"]
    assert catalog.packs.levels() == [("z.pack", 1), ("a.pack", 2), ("m.pack", 3)]
    with catalog.write() as connection:
        catalog.packs.remove(connection, ["a.pack"])
        assert catalog.packs.levels(connection) == [("z.pack", 1), ("m.pack", 3)]
        assert catalog.packs.names() == ["z.pack", "a.pack", "m.pack"], "not committed yet"
    assert catalog.packs.names() == ["z.pack", "m.pack"]


def test_a_retired_pack_is_remembered_until_its_file_is_gone(catalog: Catalog) -> None:
    with catalog.write() as connection:
        catalog.packs.add(connection, {"a.pack": 1, "b.pack": 1, "c.pack": 1})
        catalog.packs.retire(connection, ["a.pack", "b.pack"], time=70)
    assert catalog.packs.names() == ["c.pack"]
    assert sorted(catalog.packs.retired_packs()) == [("a.pack", 70), ("b.pack", 70)]
    with catalog.write() as connection:
        catalog.packs.forget(connection, ["a.pack", "c.pack"])
    assert catalog.packs.retired_packs() == [("b.pack", 70)]
    assert catalog.packs.names() == ["c.pack"]


# --- the journal ---------------------------------------------------------------------------------


def test_chunks_are_there_with_the_transaction_that_brings_them(catalog: Catalog) -> None:
    chunks = small_chunks(150)
    with pytest.raises(ZeroDivisionError), catalog.write() as connection:
        catalog.journal.put(chunks[:10], connection)
        raise ZeroDivisionError
    assert len(catalog.journal) == 0
    with catalog.write() as connection:
        catalog.journal.put(chunks, connection)
        catalog.journal.put(chunks[5:9], connection)
        assert len(catalog.journal) == 0, "read from outside of the transaction"
    assert len(catalog.journal) == 150
    assert catalog.journal.size_bytes() == sum(len(chunk.data) for chunk in chunks)
    found = list(catalog.journal.chunks())
    assert [chunk.address for chunk in found] == sorted(chunk.address for chunk in chunks)
    assert {c.address: bytes(c.data) for c in found} == {c.address: c.data for c in chunks}


def test_a_drain_removes_what_it_read_and_nothing_else(catalog: Catalog) -> None:
    chunks, later = small_chunks(20), small_chunks(3, seed=1)
    catalog.journal.put(chunks)
    drained = list(catalog.journal.addresses())
    catalog.journal.put(later)
    with pytest.raises(ZeroDivisionError), catalog.write() as connection:
        catalog.journal.remove(drained, connection)
        raise ZeroDivisionError
    assert len(catalog.journal) == 23
    with catalog.write() as connection:
        catalog.journal.remove(drained, connection)
    assert set(catalog.journal.addresses()) == {chunk.address for chunk in later}
    assert list(catalog.journal.contains([chunks[0].address, later[0].address])) == [False, True]
    with pytest.raises(Corruption):
        catalog.journal.get(Address(chunks[0].address))
