"""Whatever file of a backup is damaged or gone, it is found and named, and mended where it can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.maintenance.backup.equal_databases import state_of

import livingdb
from livingdb import Corruption, Database, LivingDBError
from livingdb.files import LocalFiles
from livingdb.maintenance.backup.verify import check_place


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as made:
        main = made.branch("main")
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        main.insert("t", {"id": range(300), "v": range(300)})
        made.compact()
        made.backup(tmp_path / "backup")
        main.upsert("t", {"id": range(10), "v": range(10)})
        made.backup(tmp_path / "backup")
        yield made


def damage(path: Path, how: str) -> None:
    if how == "gone":
        path.unlink()
        return
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data) if how == "turned" else bytes(data[:-3]))


@pytest.mark.parametrize("how", ["turned", "cut", "gone"])
@pytest.mark.parametrize("folder", ["packs", "rows"])
def test_damage_is_named_and_mended(db: Database, tmp_path: Path, folder: str, how: str) -> None:
    place = tmp_path / "backup"
    files = sorted((place / folder).iterdir())
    for file in files:
        damage(file, how)
    report = check_place(LocalFiles(place))
    assert report.points == 2
    assert not report.ok
    for file in files:
        assert any(file.name in problem for problem in report.problems)
    with pytest.raises(Corruption, match=files[0].name if folder == "packs" else "rows/"):
        livingdb.restore(place, tmp_path / "copy")
    with pytest.raises(LivingDBError):
        livingdb.open(tmp_path / "copy")
    made = db.backup(place, verify=True)
    assert check_place(LocalFiles(place), [made.point]).ok
    with livingdb.restore(place, tmp_path / "copy") as copy:
        assert state_of(copy) == state_of(db)


def test_a_damaged_point_is_named(db: Database, tmp_path: Path) -> None:
    newest = sorted((tmp_path / "backup" / "points").iterdir())[-1]
    damage(newest, "turned")
    (problem,) = check_place(LocalFiles(tmp_path / "backup")).problems
    assert newest.name in problem
    with pytest.raises(Corruption, match="points/"):
        livingdb.restore(tmp_path / "backup", tmp_path / "copy")
    db.backup(tmp_path / "backup", keep=1)
    assert check_place(LocalFiles(tmp_path / "backup")).ok
