"""A backup is the database at one moment, however it is written to, drained and compacted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.frozen.archive import first_difference, unpack
from tests.frozen.describe import describe
from tests.unit.maintenance.backup.equal_databases import State, state_of

import livingdb
from livingdb import AlreadyExists, Database, InvalidData, InvalidName, NotFound
from livingdb.catalog.outside_copies import BACKUP
from livingdb.files.local import LocalFiles
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.maintenance.backup import back_up as back_up_module
from livingdb.maintenance.backup import catalog_rows
from livingdb.maintenance.backup.verify import check_place

ORDERS = {"id": "bigint", "city": "string", "amount": "double"}


def orders(first: int, count: int, city: str = "Oslo") -> list[dict[str, object]]:
    return [{"id": n, "city": city, "amount": n * 1.7} for n in range(first, first + count)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as made:
        main = made.branch("main")
        main.create_table("orders", ORDERS, key="id")
        main.insert("orders", orders(0, 500))
        drain_journal(made._graph.store)
        yield made


def restored_state(backup: Path, to: Path, **how: Any) -> State:
    with livingdb.restore(backup, to, **how) as found:
        assert found.check().problems == []
        return state_of(found)


def test_all_that_a_database_has_comes_back(tmp_path: Path) -> None:
    path = unpack("catalog-8", tmp_path)
    with livingdb.open(path, author="reader", engine="embedded") as db:
        wanted = ("branches", "tags", "alerts", "syncs", "watching", "ids", "identities", "uniques")
        seen = describe(db, wanted)
        made = db.backup(tmp_path / "backup")
        expected = state_of(db)
    assert made.packs == made.copied_packs > 0
    how = {"author": "reader", "engine": "embedded"}
    with livingdb.restore(tmp_path / "backup", tmp_path / "copy", send=True, **how) as copy:
        assert state_of(copy) == expected
        assert first_difference(seen, describe(copy, wanted)) is None
        assert copy.check().problems == []
        assert [row.number for row in copy._graph.catalog.branches.all()]
    with pytest.raises(AlreadyExists, match="there is a database"):
        livingdb.restore(tmp_path / "backup", tmp_path / "copy")


def test_a_small_commit_costs_its_delta(db: Database, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    first = db.backup(place)
    assert db.backup(place).copied_packs == 0
    journal = db._graph.store.journal
    before = journal.size_bytes()
    db.branch("main").upsert("orders", orders(100, 200, "Bodø"))
    delta = journal.size_bytes() - before
    second = db.backup(place)
    assert second.copied_packs == 0
    assert second.copied_bytes < 3 * delta
    assert first.copied_bytes > delta
    expected = state_of(db)
    assert restored_state(place, tmp_path / "copy") == expected


def test_each_backup_is_its_own_moment(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_rows, "MOST_CHANGES", 3)
    place, main = tmp_path / "backup", db.branch("main")
    moments = []
    for step in range(9):
        main.upsert("orders", orders(step * 50, 60, f"city {step}"))
        if step == 2:
            main.clone("dev")
            db.tag("first", "main~1")
        if step == 4:
            db.drop_branch("dev")
            drain_journal(db._graph.store)
        if step == 6:
            db.compact()
        moments.append((db.backup(place).time, state_of(db)))
    for number, (time, expected) in enumerate(moments):
        assert restored_state(place, tmp_path / str(number), at=time) == expected
    main.clone("later")
    with livingdb.restore(place, tmp_path / "next", at=moments[-1][0].isoformat()) as copy:
        copy.branch("main").clone("later")
        numbers = {row.name: row.number for row in copy._graph.catalog.branches.all()}
        assert numbers == {row.name: row.number for row in db._graph.catalog.branches.all()}
    with pytest.raises(NotFound, match=r"no backup at .* so old"):
        livingdb.restore(place, tmp_path / "none", at="2020-01-01")


def test_packs_that_are_taken_away_meanwhile(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was compacted before it was copied is copied as it is then."""
    copy_file, compacted = back_up_module.copy_file, []

    def compact_first(source: Any, target: Any, path: str, *rest: Any) -> Any:
        if len(compacted) < 2:
            db.branch("main").upsert("orders", orders(0, 40, f"city {len(compacted)}"))
            compacted.append(db.compact())
            name = os.path.basename(path)
            db._graph.store.retire_packs([name])
        return copy_file(source, target, path, *rest)

    monkeypatch.setattr(back_up_module, "copy_file", compact_first)
    db.backup(tmp_path / "backup")
    assert len(compacted) == 2
    assert restored_state(tmp_path / "backup", tmp_path / "copy") == state_of(db)


def test_a_database_that_is_only_read_is_backed_up(db: Database, tmp_path: Path) -> None:
    with livingdb.open(tmp_path / "shop.ldb", read_only=True) as reader:
        reader.backup(tmp_path / "backup")
    assert restored_state(tmp_path / "backup", tmp_path / "copy") == state_of(db)


def test_the_database_knows_its_backups(db: Database, tmp_path: Path) -> None:
    db.backup(tmp_path / "backup")
    made = db.backup(tmp_path / "backup")
    (known,) = db._graph.catalog.outside_copies.all()
    assert (known.kind, known.place) == (BACKUP, (tmp_path / "backup").as_uri())
    assert known.details == {"point": made.point}
    assert known.snapshot == db.branch("main").head._row.sequence


def test_alerts_that_waited_are_not_sent_by_a_copy(db: Database, tmp_path: Path) -> None:
    guard = [livingdb.condition.max_changed_share(0.01, action="hold")]
    sinks = [livingdb.alert.webhook("https://example.invalid/hook")]
    query = "SELECT id, city FROM orders"
    db.branch("main").derive("view", query, when="immediate", conditions=guard, alerts=sinks)
    db.branch("main").upsert("orders", orders(0, 300, "Bodø"))
    assert [row.state for row in db._graph.catalog.outbox.all()] == ["waiting"]
    db.backup(tmp_path / "backup")
    with livingdb.restore(tmp_path / "backup", tmp_path / "copy") as copy:
        (row,) = copy._graph.catalog.outbox.all()
        assert (row.state, row.error.partition(":")[0]) == ("failed", "not sent")
        assert [a.message for a in copy.alerts()] == [a.message for a in db.alerts()]
    with livingdb.restore(tmp_path / "backup", tmp_path / "other", send=True) as copy:
        assert [row.state for row in copy._graph.catalog.outbox.all()] == ["waiting"]


def test_what_is_refused(db: Database, tmp_path: Path) -> None:
    with pytest.raises(InvalidName, match="inside the database"):
        db.backup(tmp_path / "shop.ldb" / "backup")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    with pytest.raises(AlreadyExists, match="holds other files"):
        db.backup(tmp_path / "taken")
    db.backup(tmp_path / "backup")
    with (
        livingdb.create(tmp_path / "other.ldb") as other,
        pytest.raises(AlreadyExists, match="backups of another database"),
    ):
        other.backup(tmp_path / "backup")
    with pytest.raises(NotFound, match="there are no backups"):
        livingdb.restore(tmp_path / "taken", tmp_path / "copy")
    with pytest.raises(AlreadyExists, match="holds other files"):
        livingdb.restore(tmp_path / "backup", tmp_path / "taken")
    for keep in (0, True, "all"):
        with pytest.raises(InvalidData, match="keep="):
            db.backup(tmp_path / "backup", keep=keep)  # type: ignore[arg-type]


def test_two_at_once_to_one_place(db: Database, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    for _ in range(2):
        db.branch("main").upsert("orders", orders(0, 20, "Bodø"))
        drain_journal(db._graph.store)
        with ThreadPoolExecutor(3) as threads:
            made = list(threads.map(lambda _: db.backup(place), range(3)))
        assert {each.packs for each in made} == {len(db._graph.catalog.packs.names())}
    assert check_place(LocalFiles(place)).ok
    for number, each in enumerate(made):
        found = restored_state(place, tmp_path / str(number), at=each.time)
        assert found == state_of(db)
