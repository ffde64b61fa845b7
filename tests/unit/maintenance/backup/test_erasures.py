"""What was erased after a backup does not come back with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.maintenance.backup.equal_databases import state_of

import livingdb
from livingdb import Database, Forbidden
from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows

NUMBERS = {"number", "time", "is_cleared"}


def erase(db: Database, number: int, time: int) -> None:
    """Write an erasure down, as erasing does."""
    row = {column.name: 0 if column.name in NUMBERS else "{}" for column in schema.erasure.c}
    del row["digest"]
    with db._graph.catalog.write() as connection:
        SealedRows(schema.erasure).insert(connection, [{**row, "number": number, "time": time}])


def test_a_backup_of_before_an_erasure_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "backup"
    with livingdb.create(tmp_path / "shop.ldb") as db:
        before = db.backup(place).time
        erase(db, 1, 1000)
        for known in (db, tmp_path / "shop.ldb"):
            with pytest.raises(Forbidden, match="erasure 1"):
                livingdb.restore(place, tmp_path / "copy", redactions=known)
        assert not (tmp_path / "copy" / "restoring").exists()
        between = db.backup(place).time
        livingdb.restore(place, tmp_path / "between", redactions=db).close()
        erase(db, 2, 2000)
        db.backup(place, keep=3)
        for time in (before, between):
            with pytest.raises(Forbidden, match="bring_back=True"):
                livingdb.restore(place, tmp_path / "copy", at=time)
        livingdb.restore(place, tmp_path / "copy").close()
        livingdb.restore(place, tmp_path / "old", at=before, bring_back=True).close()


def test_erasures_of_copies_that_went_apart(tmp_path: Path) -> None:
    """One that another copy made under the same number is another one."""
    with livingdb.create(tmp_path / "shop.ldb") as db:
        db.backup(tmp_path / "backup")
        with livingdb.restore(tmp_path / "backup", tmp_path / "apart") as apart:
            erase(db, 1, 1000)
            db.backup(tmp_path / "backup")
            erase(apart, 1, 1001)
            with pytest.raises(Forbidden, match="erasure 1"):
                livingdb.restore(tmp_path / "backup", tmp_path / "copy", redactions=apart)


def test_what_took_the_place_of_a_record_is_backed_up(tmp_path: Path) -> None:
    """A backup after an erasure does not keep what one before it had under the same address."""
    place = tmp_path / "backup"
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("people", {"id": "bigint", "name": "string"}, key="id")
        for number in range(30):  # so many that the next backup only adds to this one
            main.insert("people", [{"id": number, "name": "Bo" if number < 29 else "zebra-canary"}])
        db.backup(place)
        db.erase("people", [29], reason="asked")
        db.backup(place)
        expected = state_of(db)
    with livingdb.restore(place, tmp_path / "copy", engine="embedded") as copy:
        assert state_of(copy) == expected
        for snapshot in copy.snapshots():
            rows = snapshot.table("people").to_arrow() if "people" in snapshot.tables() else None
            assert rows is None or "zebra-canary" not in rows["name"].to_pylist()
        assert copy.check(deep=True).problems == []
